"""The screens of the terminal, from fixed records: as they are stored, and what holds for all of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rejoinder.cli.app import cli
from rejoinder.model import Result, UsageResult
from rejoinder.model.comparisons import RunComparison
from rejoinder.model.estimates import RunBounds, TargetBounds
from rejoinder.model.figures import GateResult, RuleResult
from rejoinder.model.history import Page, RowFigures, RunRow, Trend
from rejoinder.model.passports import Figures, Finding, Labels, Passport, SelfConsistency, VerdictTable
from rejoinder.model.runs import DisabledTarget, QuarantinedCase, SuiteOfRun
from rejoinder.report.comparison import write_comparison
from rejoinder.report.conversation import write_block, write_facts
from rejoinder.report.ending import Extras, write_ending
from rejoinder.report.estimate import write_estimate
from rejoinder.report.gate import write_gate
from rejoinder.report.history import write_runs
from rejoinder.report.judges import JudgeTest, write_judge_report
from rejoinder.report.styled import EMPTY, PLAIN, Form, Line, command_rows, plain_text, width_of_line
from rejoinder.report.targets import Tried, price_words, write_targets
from rejoinder.runs.summary import summarise
from rejoinder.stats.intervals import wilson
from rejoinder.views.conversation import view_conversation
from rejoinder.views.course import turn_to_change
from rejoinder.views.flips import FlipRow, Flips
from tests.comparison.sides import Outcomes, compared, one
from tests.golden import FORMS, check_golden
from tests.kit import bounded
from tests.report import courses
from tests.report.exports import OBEYED, MadeRun, check, hostile_texts, in_error, made_run, result, turn

NOW = 1_763_200_000
LONG = (
    "I am sorry, I cannot help you with this topic at the moment. Please write to our support team or call us on"
    " weekdays between nine and five, and have your order number ready."
)


# What a run would ask


def dry_run(form: Form) -> Iterable[Line]:
    given = "rejoinder run support.yaml -m atlas-mini,atlas-large"
    return write_estimate(
        RunBounds(
            conversations=60,
            targets=(
                asked("atlas-mini", (30, 74), (21_000, 63_000), (0.012, 0.041), cases=30),
                asked("atlas-large", (30, 74), (21_000, 63_000), (0.16, 0.55), cases=30),
                asked("claude-haiku-4-5", (12, 44), (9_000, 40_000), (0.011, 0.052), role="judge"),
            ),
        ),
        form,
        ((f"{given} --budget-usd 0.65", "run with this budget"),),
    )


def asked(
    name: str,
    calls: tuple[int, int],
    tokens: tuple[int, int | None],
    cost: tuple[float | None, float | None],
    **more: Any,
) -> TargetBounds:
    return TargetBounds(name=name, calls=calls, tokens=tokens, cost=cost, **more)


def dry_run_without_bounds(form: Form) -> Iterable[Line]:
    return write_estimate(
        RunBounds(
            conversations=2,
            targets=(
                asked("mini", (2, 4), (1_700, None), (0.0004, None), cases=1),
                asked("shop", (2, 2), (1_700, 1_700), (None, None), cases=1),
                asked("other judge", (2, 4), (180, None), (0.0001, None), role="judge"),
            ),
            embedding_calls=(3, 8),
        ),
        form,
        (("rejoinder run --dry-run --max-tokens 1000", "bounds replies, and so the cost"),),
    )


# Targets that were tried


def targets_check(form: Form) -> Iterable[Line]:
    tried = [
        Tried(
            name="atlas-mini",
            model="openai/gpt-5-mini",
            seconds=0.81,
            price=price_words((0.25, 2)),
            place="targets.yaml:3",
            notes=("4,999 requests left, renewed in 1.0 s",),
            cost=0.00002,
        ),
        Tried(name="local", model="local/smollm2", seconds=0.112, price=price_words((0, 0)), place="targets.yaml:6"),
        Tried(
            name="atlas-large",
            model="azure/gpt-5",
            trouble="no key",
            problem="AZURE_API_KEY is not set; looked in the environment and in .env",
            price=price_words((1.25, 10)),
            place="targets.yaml:9",
        ),
        Tried(
            name="bot",
            model="python bot:reply",
            trouble="KeyError",
            problem="the module of `bot:reply` cannot be imported: KeyError: 'SHOP_KEY' (bot.py:3)",
            price=price_words(None),
            place="support.yaml:4",
        ),
    ]
    return write_targets(tried, (("export AZURE_API_KEY=...", "then the same again"),), form)


def targets_that_answer(form: Form) -> Iterable[Line]:
    tried = Tried(name="openai/gpt-5-mini", model="openai/gpt-5-mini", seconds=1.2, place="the command", cost=0.0004)
    return write_targets([tried], (), form)


# A judge that was tested


def judge_test(form: Form, labels: int = 40) -> Iterable[Line]:
    both_pass, judge_only, human_only, both_fail = (22, 4, 2, 12) if labels == 40 else (2, 1, 1, 2)
    scored = both_pass + judge_only + human_only + both_fail
    passes, fails = (both_pass, both_pass + human_only), (both_fail, both_fail + judge_only)
    figures = Figures(
        scored=scored,
        agreement=(both_pass + both_fail) / scored,
        agreement_interval=wilson(both_pass + both_fail, scored),
        kappa=0.68,
        kappa_interval=(0.45, 0.92),
        sensitivity=passes[0] / passes[1],
        sensitivity_interval=wilson(*passes),
        specificity=fails[0] / fails[1],
        specificity_interval=wilson(*fails),
        confusion=VerdictTable(both_pass, judge_only, human_only, both_fail),
        self_consistency=SelfConsistency(40, 40, 0.97, 0.95, (0.83, 0.99), 0.9) if labels == 40 else None,
    )
    passport = Passport(
        judge="anthropic/claude-haiku-4-5",
        digest="cf47",
        kind="llm_judge",
        asked='{"criteria": "Names a date and is friendly"}',
        labels=Labels("labels.csv", "h", labels, scored),
        repeat=2 if labels == 40 else 1,
        figures=figures,
        passes=passes,
        fails=fails,
        version="0.2.0",
        created_at="2026-11-15T09:30:00Z",
    )
    kind = Finding("7", False, [True], ["It is friendly and offers help."], [], [], LONG)
    strict = Finding("31", True, [False], ["No date is given."], [], [], "You will hear from me by Friday.")
    silent = Finding("3", True, [], [], [], ["HTTP 500"], "")
    tested = JudgeTest(
        passport=passport,
        findings=(kind, structs.replace(kind, id="9"), strict) if labels == 40 else (silent,),
        cost=0.0061,
        run="20261115-093000-a1b25eed",
        kept="saved as .rejoinder/passports/anthropic-claude-haiku-4-5-cf47.json",
        commands=(("rejoinder run tone.yaml --corrected", "rates corrected for the judge's errors"),),
    )
    return write_judge_report(tested, form)


# A conversation


def lost(name: str, **more: Any) -> Result:
    place = LONG.index("topic")
    bad = check(
        False,
        check="icontains shipping",
        reason="not in the reply",
        kind="icontains",
        spans=((place, place + 5),),
    )
    first = turn("No idea.", passed=False, prompt="Do you ship to Norway?", checks=(bad,))
    last = turn(LONG, 2, prompt="About shipping only.", passed=False, checks=(bad, check(check="max_tokens 60")))
    ended = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}
    known = {"title": "Do you ship to Norway?", "file": "support.yaml", "line": 9, "number": 4}
    return result(name, first, last, **{**known, **ended, **more})


def recovered(name: str, **more: Any) -> Result:
    first = turn("EU 42 is a medium.", passed=False, checks=(check(False, check="icontains UK 8", kind="icontains"),))
    return result(name, first, turn("UK 8.", 2, prompt="In UK sizes, please."), succeeded_on_turn=2, **more)


def show_case(form: Form) -> Iterator[Line]:
    return showing(lost("shipping-1", usage=UsageResult(180, 34, 214), cost=0.0002), form)


def showing(shown: Result, form: Form) -> Iterator[Line]:
    yield from write_block(view_conversation(shown), f"Eval {shown.number}", form)
    yield EMPTY
    yield from write_facts(view_conversation(shown), form)
    if form.commands:
        turn = turn_to_change(shown)
        command = f"rejoinder fork last --case {shown.id} --turn {turn} --prompt TEXT"
        yield from command_rows(((command, f"say something else at turn {turn}"),), form.edge)


# The list of runs


def listed(ending: str, passed: int, failed: int, hours: float, **more: Any) -> RunRow:
    total = passed + failed + more.pop("errors", 0)
    seconds = int(NOW - 3600 * hours)
    figures = RowFigures(
        total=total,
        passed=passed,
        failed=failed,
        errors=total - passed - failed,
        skipped=0,
        unfinished=more.pop("unfinished", 0),
        first_try=passed - more.get("recovered", 0),
        recovered=more.pop("recovered", 0),
        pass_rate=passed / total if passed else None,
        no_rate=None if passed else "untested",
        total_tokens=1000,
        total_cost=more.pop("cost", 0.031),
        duration_s=10,
        exit_code=0 if passed == total else 1 if failed else 3,
    )
    known: dict[str, Any] = {
        "id": f"20261115-165010-{ending}",
        "status": "completed",
        "started_at": datetime.fromtimestamp(seconds, UTC).isoformat(),
        "suites": ("support-bot",),
        "models": ("openai/gpt-5-mini",),
        "summary": figures,
    }
    return RunRow(**{**known, **more})


def runs(form: Form) -> Iterable[Line]:
    rows = (
        listed("2211", 21, 9, 0.04, recovered=5),
        listed("9c1e", 15, 3, 1, status="interrupted", unfinished=12, cost=0.019),
        listed("8f06", 26, 4, 25, cost=0.029),
        listed("77a0", 11, 0, 26, suites=("capitals",), cost=None, tags=("release",), note="before the new prompt"),
        listed("5d12", 9, 1, 75, errors=1, suites=("agents",), cost=1.42),
        listed("41be", 0, 0, 76, errors=30, cost=0),
    )
    trend = Trend("support-bot", 12, (0.63, 0.63, 0.7, 0.7, 0.77, 0.75, 0.83, 0.8, 0.87, 0.87, 0.87, 0.7))
    names = {rows[2].id: ("main",)}
    return write_runs(Page(rows, 8, 8, last=rows[0].id, trend=trend, baselines=names), form, NOW)


# The end of a run


def ending_failing(form: Form) -> Iterable[Line]:
    run = made_run(
        [result("hours"), recovered("size-chart"), lost("shipping-1"), result("lamp")],
        suites=(SuiteOfRun("support.yaml", "support-bot"),),
    )
    commands = (
        ("rejoinder show --case shipping-1", "the whole conversation"),
        ("rejoinder run --failed", "this one again"),
    )
    return write_ending(run, commands, form)


def ending_repeats(form: Form) -> Iterable[Line]:
    there = {"file": "suites/evals.yaml", "line": 12}
    trials = [lost("shipping-1", trial=1, **there), recovered("shipping-1", trial=2), result("shipping-1", trial=3)]
    run = made_run([*trials, *(result("lamp", trial=number) for number in (1, 2, 3))])
    commands = (("rejoinder show --case shipping-1 --trial 1", "the whole conversation"),)
    return write_ending(run, commands, form)


SHOW = ("rejoinder show --case shipping-1", "the whole conversation")
RESUME = ("rejoinder resume 20260102-030405-1234abcd", "the other 2; recorded replies are reused")
SUPPORT = (SuiteOfRun("support.yaml", "support-bot"),)


def ending_planned(form: Form) -> Iterable[Line]:
    """All that can happen to planned, doubted and simulated conversations."""
    every = [courses.failed_in_step(), courses.failed_as_a_whole(), courses.caved(), courses.spoilt()]
    run = made_run([result("hours"), *every], suites=(SuiteOfRun("booking.yaml", "booking"),))
    commands = (("rejoinder show --case booking", "the whole conversation"),)
    return write_ending(run, commands, form)


def ending_passed(form: Form) -> Iterable[Line]:
    run = made_run([result("hours"), recovered("size-chart"), result("lamp")], suites=SUPPORT)
    return write_ending(run, (), form)


def ending_of_one(form: Form) -> Iterable[Line]:
    commands = (SHOW, ("rejoinder run --case shipping-1 --repeat 5", "is it chance?"))
    return write_ending(made_run([lost("shipping-1")], suites=SUPPORT), commands, form)


def side_by_side(**groups: dict[str, list[Result]]) -> Iterator[Result]:
    """Cases of one suite on several targets or variants, in the order of a run."""
    [(what, by_name)] = groups.items()
    for cells in zip(*by_name.values(), strict=True):
        for name, cell in zip(by_name, cells, strict=True):
            yield structs.replace(cell, file="support.yaml", line=9, **{what: name})


def ending_targets(form: Form) -> Iterable[Line]:
    large = [result("hours"), result("shipping-1"), result("size-chart"), in_error("lamp", "timeout after 60 s")]
    mini = [result("hours"), lost("shipping-1"), recovered("size-chart"), result("lamp")]
    run = made_run(list(side_by_side(target={"large": large, "mini": mini})), suites=SUPPORT)
    return write_ending(run, (SHOW, ("rejoinder compare last --targets", "is the difference real?")), form)


def ending_variants(form: Form) -> Iterable[Line]:
    chatty = [result("hours"), lost("shipping-1"), recovered("size-chart"), result("lamp")]
    terse = [result("hours"), result("shipping-1"), result("size-chart"), lost("lamp")]
    run = made_run(list(side_by_side(variant={"chatty": chatty, "terse": terse})), suites=SUPPORT)
    said = Extras(compared=("terse against chatty: 1 fixed, 1 broken of 4; cannot tell (0 points, -52 to +52)",))
    return write_ending(run, (SHOW, ("rejoinder compare last --variants", "is the difference real?")), form, said)


def ending_dead_target(form: Form) -> Iterable[Line]:
    dead = DisabledTarget("demo", "status", "openai answered 404: the model gpt-5-mimi does not exist")
    run = made_run([in_error(f"case-{n}", dead.message) for n in range(3)], given_up=(dead,), suites=SUPPORT)
    return write_ending(run, (("rejoinder targets check demo", "try one call"),), form)


def ending_errors(form: Form) -> Iterable[Line]:
    run = made_run([*(in_error(f"case-{n}", "KeyError: 'answer'") for n in range(7)), result("ok")], suites=SUPPORT)
    return write_ending(run, (), form, Extras(traceback=".rejoinder/runs/20260102-030405-1234abcd/run.log"))


def ending_interrupted(form: Form) -> Iterable[Line]:
    whole = made_run([result("hours"), lost("shipping-1")], status="interrupted", suites=SUPPORT)
    planned = structs.replace(whole.run, planned=4)
    run = MadeRun(planned, summarise(whole.results, planned), whole.results)
    return write_ending(run, (RESUME,), form)


# Two runs compared


def of_runs(found: RunComparison, **more: Any) -> RunComparison:
    """With what the receipts of two runs say, and with lists that are read more quickly than those on the disk."""
    a, b = (
        structs.replace(side, run=f"20261115-{run}", suites=("support-bot",), **more)
        for side, run in ((found.a, "093000-a1b25eed"), (found.b, "171902-c4d5b3e0"))
    )
    lists = {name: tuple(getattr(found, name)) for name in ("flips", "only_in_a", "only_in_b", "renamed", "left_out")}
    return structs.replace(found, a=a, b=b, **lists)


@cache
def comparison_worse() -> RunComparison:
    others = [one(f"case-{n}", "p") for n in range(14)]
    there: dict[str, Any] = {"file": "support.yaml", "title": "Do you ship to Norway?"}
    asked = turn("No idea.", passed=False, prompt="Do you ship to Norway?", checks=(check(False),))
    answered = turn("Yes, shipping to Norway takes 4 to 6 days.", 2, prompt="About shipping only.")
    broke = [f"shipping-{n}" for n in range(1, 10)]
    a = [
        *others,
        *(result(name, asked, answered, succeeded_on_turn=2, **there) for name in broke),
        one("size-chart", "f"),
    ]
    b = [*others, *map(lost, broke), one("size-chart", "r"), one("lamp", "p")]
    found = of_runs(compared([*a, one("promo", "p")], b))
    return structs.replace(found, changed=("system prompt of support.yaml",))


@cache
def comparison_of(a: str, b: str) -> RunComparison:
    """Of cases that ended as the letters say."""
    before, after = ({f"case-{n}": letter for n, letter in enumerate(ends)} for ends in (a, b))
    return of_runs(compared(before, after))


@cache
def comparison_of_targets() -> RunComparison:
    """Large became worse, and mini as much better."""
    ends: list[tuple[Outcomes, Outcomes]] = [
        ({"large": "p", "mini": "p"}, {"large": "p", "mini": "p"}),
        ({"large": "p", "mini": "f"}, {"large": "f", "mini": "p"}),
    ]
    a, b = (
        [
            one(f"case-{n}", each[side][target][0], target=target)
            for n in range(24)
            for each in (ends[n % 2],)
            for target in ("large", "mini")
        ]
        for side in (0, 1)
    )
    return of_runs(compared(a, b))


@cache
def comparison_of_repeats() -> RunComparison:
    a = {"refund": "ppp", "hours": "ppf", "lamp": "ppp", "size-chart": "fff"}
    return of_runs(compared(a, {**a, "refund": "pff", "size-chart": "prf"}))


def comparing(found: Callable[[], RunComparison]) -> Callable[[Form], Iterable[Line]]:
    return lambda form: write_comparison(found(), form)


# A run that was put to rules


def gate(form: Form, *rules: RuleResult, apart: int = 0, broken: int = 0) -> Iterable[Line]:
    verdicts = {rule.verdict for rule in rules}
    worst = "fail" if "fail" in verdicts else "cannot-tell" if "cannot-tell" in verdicts else "pass"
    found = GateResult(worst, rules, "20261115-171902-c4d5b3e0", "20261115-093000-a1b25eed")
    reason = "the carrier's interface moves"
    away = [
        QuarantinedCase(f"tracking-{n}", "support.yaml", "mini", "2026-12-01", reason, 0, 1, 0, active=True)
        for n in range(apart)
    ]
    commands = (
        ("rejoinder compare 20261115-093000-a1b25eed 20261115-171902-c4d5b3e0", "what changed"),
        ("rejoinder baseline save 20261115-171902-c4d5b3e0 --name main", "save it as the new baseline"),
    )
    said = (
        "You have 14 days. There are (two warehouses) and more of it than a row of a terminal of sixty columns can hold"
    )
    rows = [FlipRow(f"refund-{n} / atlas-mini", "5 of 5 passed", "0 of 5 passed", True, said) for n in range(broken)]
    fixed = FlipRow("hours / atlas-mini", "failed", "passed", False, "From 9 to 5.")
    return write_gate(found, form, away, commands, Flips((*rows, fixed), left=3, broke=broken))


PASSED = RuleResult("no-regression", "pass", "no difference beyond 5.7 points: 0 points (-5.7 to +5.7 at 90%), mid-p 1")
FAILED = RuleResult("no-regression", "fail", "worse: -20 points (-33 to -7), mid-p 0.0039")
CHEAP = RuleResult("cost<=0.15", "pass", "$0.12")
FEW = RuleResult("tag:refund:no-regression", "cannot-tell", "too few: 1 case of the tag in both runs, 20 would do")


SCREENS: dict[str, Callable[[Form], Iterable[Line]]] = {
    "dry-run": dry_run,
    "dry-run-without-bounds": dry_run_without_bounds,
    "targets-check": targets_check,
    "targets-that-answer": targets_that_answer,
    "judge-test": judge_test,
    "judge-test-few-labels": lambda form: judge_test(form, 6),
    "show-case": show_case,
    "show-step-failed": lambda form: showing(courses.failed_in_step(), form),
    "show-conversation-check": lambda form: showing(courses.failed_as_a_whole(), form),
    "show-caved": lambda form: showing(courses.caved(), form),
    "show-spoilt": lambda form: showing(courses.spoilt(), form),
    "runs": runs,
    "ending-failing": ending_failing,
    "ending-planned": ending_planned,
    "ending-repeats": ending_repeats,
    "ending-passed": ending_passed,
    "ending-of-one": ending_of_one,
    "ending-targets": ending_targets,
    "ending-variants": ending_variants,
    "ending-dead-target": ending_dead_target,
    "ending-errors": ending_errors,
    "ending-interrupted": ending_interrupted,
    "compare-worse": comparing(comparison_worse),
    "compare-no-difference": comparing(lambda: comparison_of("p" * 30, "p" * 29 + "r")),
    "compare-cannot-tell": comparing(lambda: comparison_of("pppfpfppffpe", "ppgpffppfppp")),
    "compare-targets": comparing(comparison_of_targets),
    "compare-repeats": comparing(comparison_of_repeats),
    "gate-passed": lambda form: gate(form, PASSED, CHEAP),
    "gate-failed": lambda form: gate(form, FAILED, FEW, CHEAP),
    "gate-broken": lambda form: gate(form, FAILED, broken=7),
    "gate-quarantine": lambda form: gate(form, PASSED, FEW, apart=5),
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_stored(name: str) -> None:
    check_golden(name, SCREENS[name])


@pytest.mark.parametrize("name", SCREENS)
def test_no_line_is_wider_than_the_screen(name: str) -> None:
    for width in range(40, 161):
        for row in SCREENS[name](Form(width, symbols=True, commands=True)):
            assert width_of_line(row) <= width, (width, plain_text(row))
            assert plain_text(row).isprintable()


def commands_in(lines: Iterable[str]) -> Iterator[list[str]]:
    """The words of each command that is told, whose rows a shell would join."""
    joined = re.sub(r" \\\n *", " ", "\n".join(lines))
    for command in re.findall(r"^  (rejoinder .*?)(?:   .*)?$", joined, re.MULTILINE):
        yield shlex.split(command)[1:]


def parse(words: list[str]) -> None:
    """Raises click.UsageError for a command that does not exist, or with options that do not."""
    command: click.Command = cli
    context = click.Context(cli, info_name="rejoinder")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    command.make_context(command.name, list(words), parent=context)


NOTHING_TO_TYPE = ("targets-check", "targets-that-answer", "ending-passed", "ending-errors", "compare-no-difference")
"""Screens without a command of ours."""


@pytest.mark.parametrize("name", SCREENS)
def test_commands_that_are_told_exist(name: str) -> None:
    told = [
        words
        for width in (40, 60, 100, 160)
        for words in commands_in(map(plain_text, SCREENS[name](Form(width, symbols=True, commands=True))))
    ]
    for words in told:
        parse(words)
    if name not in NOTHING_TO_TYPE:
        assert len(told) >= 4
        assert len({tuple(words) for words in told}) <= 2, "they are the same at every width"
    if not name.startswith("ending"):
        assert not list(commands_in(map(plain_text, SCREENS[name](PLAIN)))), "a pipe has nothing to type"


@pytest.mark.parametrize("name", [name for name in SCREENS if not name.startswith(("ending", "show"))])
def test_a_pipe_has_words_instead_of_signs(name: str) -> None:
    for row in SCREENS[name](PLAIN):
        assert plain_text(row).isascii(), plain_text(row)


@bounded(40)
@given(hostile_texts, st.integers(40, 160))
def test_no_text_of_others_leaves_its_lines(text: str, width: int) -> None:
    form = Form(width, symbols=True, commands=True)
    tried = Tried(name=text, model=text, trouble=text, problem=text, place=text)
    row = listed("2211", 2, 1, 1, id=f"20261115-165010-{text}", suites=(text,), note=text, replay_of=text)
    trend = Trend(text, 4, (0.1, 0.2, 0.3, 0.4))
    wrong = Finding(text, False, [True], [text], [], [text], text)
    tested = JudgeTest(passport=passport_of(text), findings=(wrong,), run=text, kept=text)
    ruled = GateResult("fail", (RuleResult(text, "fail", text),) * 2, text, text)
    apart = QuarantinedCase(text, text, text, text, text, 0, 1, 0, active=True)
    rows = [
        *write_gate(ruled, form, [apart], (), Flips((FlipRow(text, "passed", "failed", True, text),))),
        *write_estimate(RunBounds(conversations=1, targets=(asked(text, (1, 2), (3, 4), (None, None)),)), form),
        *write_targets([tried, structs.replace(tried, seconds=1.0, notes=("a note",))], (), form),
        *write_runs(Page((row,), 1, 1, trend=trend, baselines={row.id: ("main",)}), form, NOW),
        *write_judge_report(tested, form),
    ]
    for line in rows:
        assert not OBEYED.search(plain_text(line)) and "\n" not in plain_text(line)
        assert width_of_line(line) <= width, plain_text(line)


def passport_of(text: str) -> Passport:
    figures = Figures(scored=1, agreement=0.0, kappa=None, confusion=VerdictTable(judge_only=1))
    return Passport(
        judge=text,
        digest="cf47",
        kind="llm_judge",
        asked=msgspec.json.encode({"criteria": text.encode(errors="replace").decode()}).decode(),
        labels=Labels(text, "h", 1, 1),
        figures=figures,
        passes=(0, 0),
        fails=(0, 1),
        version="0.2.0",
        created_at="2026-11-15T09:30:00Z",
    )


def test_a_command_that_is_too_long_is_broken_where_a_shell_joins_it_again() -> None:
    command = "rejoinder show --case 'refund of worn shoes' --target atlas-large --trial 3"
    rows = [plain_text(row) for row in command_rows(((command, "the whole conversation"),), 40)]
    assert all(len(row) <= 40 for row in rows) and rows[0].endswith(" \\")
    assert list(commands_in(rows)) == [shlex.split(command)[1:]]
    assert not list(command_rows(((f"rejoinder show --case {'x' * 60}", "it"),), 40)), "what cannot be pasted"


def test_a_short_command_keeps_its_line_beside_a_long_one() -> None:
    long = ("rejoinder show --case shipping-1 --trial 1", "the whole conversation")
    rows = [plain_text(row) for row in command_rows((long, ("rejoinder run --failed", "these 3 again")), 60)]
    assert rows == [f"  {long[0]}", f"      {long[1]}", "  rejoinder run --failed   these 3 again"]


def test_every_form_is_kept() -> None:
    assert list(FORMS) == ["60 columns", "100 columns", "120 columns", "plain"]
