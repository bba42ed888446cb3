"""Runs for boards: how the cases of each target went, in letters."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec import structs

from rejoinder.model import Quarantine, Result
from rejoinder.model.runs import DisabledTarget
from tests.report.exports import MadeRun, check, failed, in_error, made_run, result, turn

LISTENS, CANNOT, STUCK, FEW = "r" * 10 + "lf", "rrrsllaallf", "a" * 10 + "rf", "rlf"
WRONG = turn("100", passed=False, checks=(check(False),))


def one(way: str, case: str, target: str = "demo", **more: object) -> Result:
    """`f` passed at once, `r` recovered, `s` recovered and would have passed when asked again, `l` lost, `a` lost and
    would have passed when asked again, `e` ended in an error, `-` was not sent."""
    control = turn(passed=way in "sa", checks=(check(way in "sa"),))
    known = {"target": target, **more}
    match way:
        case "f":
            return result(case, **known)
        case "e":
            return in_error(case, **known)
        case "-":
            return result(case, status="skipped", passed=False, score=None, succeeded_on_turn=None, **known)
        case "r" | "s":
            return result(case, WRONG, turn(number=2), succeeded_on_turn=2, control=control, **known)
        case _:
            lost = turn("100", 2, passed=False, checks=(check(False),))
            return structs.replace(failed(case, **known), turns=(WRONG, lost), control=control)


def run_of(ways: dict[str, str], **more: object) -> MadeRun:
    """Each target or variant with how its cases went."""
    results = [one(way, f"c{place}", name) for name, each in ways.items() for place, way in enumerate(each)]
    return made_run(sorted(results, key=lambda made: int(made.id[1:])), **more)


APART = Quarantine("2099-01-01", "the new tokenizer")


@st.composite
def any_runs(draw: st.DrawFn) -> MadeRun:
    """Runs with several targets, variants and trials, with cases in quarantine, with an early end, and with a target
    that was given up."""
    targets = "abc"[: draw(st.integers(1, 3))]
    variants = draw(st.sampled_from([(None,), (None,), ("x", "y")]))
    trials, cases = draw(st.integers(1, 3)), draw(st.integers(2, 8))
    apart, given_up = draw(st.integers(0, cases // 2)), draw(st.booleans())
    pairs = [(target, variant) for target in targets for variant in variants]
    ways = {pair: draw(st.text("ffrslae", min_size=cases * trials, max_size=cases * trials)) for pair in pairs}
    if given_up:
        ways[pairs[-1]] = ways[pairs[-1]][:trials] + "-" * (cases - 1) * trials
    results = [
        one(
            ways[target, variant][place * trials + trial],
            f"c{place}",
            target,
            variant=variant,
            trial=trial + 1,
            quarantine=APART if place < apart else None,
        )
        for place in range(cases)
        for target, variant in pairs
        for trial in range(trials)
    ]
    lost = (DisabledTarget(pairs[-1][0], "auth", "the key is refused"),) if given_up else ()
    status = draw(st.sampled_from(["completed", "completed", "interrupted", "budget", "error", "running"]))
    return made_run(results, status=status, given_up=lost, options={"repeat": trials})
