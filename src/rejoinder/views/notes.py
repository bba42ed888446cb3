"""Notes on the figures of a run, each worded once for every surface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model import Receipt, Summary
from rejoinder.model.figures import Rate
from rejoinder.model.runs import (
    BudgetUse,
    CacheUse,
    ConfirmedCase,
    Injection,
    JudgeSummary,
    LimiterResult,
    QuarantinedCase,
    SpoiltCounts,
    TargetCalls,
)
from rejoinder.words.figures import corrected_words, rate_words, spoilt_bounds
from rejoinder.words.numbers import (
    cost_words,
    count,
    listed,
    money,
    money_against,
    number_words,
    plural,
    seconds,
    shortened,
)

MOST_STALE = 10
MOST_QUARANTINED = 10
MOST_ALWAYS_ASKED = 5
MOST_JUDGES = 2
LONGEST_LIMITER = 80
"""Characters of the names of targets that share a limiter."""
LONGEST_CHECK = 60
"""Characters of a judge's check."""
NoteKind: TypeAlias = Literal[
    "origin",
    "given-up",
    "uncalibrated",
    "judged-itself",
    "replayed",
    "in-doubt",
    "stale",
    "faults",
    "injection",
    "spoilt",
    "asked-again",
    "quarantine",
    "no-price",
    "retried-errors",
    "budget",
    "limits",
    "retried-calls",
    "cache",
]


class Note(Struct, frozen=True):
    kind: NoteKind
    text: str
    """It may contain names that others wrote."""
    warns: bool = False
    """True if it casts doubt on the result."""


def notes_of(receipt: Receipt, summary: Summary) -> Iterator[Note]:
    """All that has to be known, warnings first."""
    for text in _uncalibrated(summary.judges):
        yield Note("uncalibrated", text, warns=True)
    if receipt.judges_itself:
        yield Note("judged-itself", "the target judged its own replies; name another with `judge_target`", warns=True)
    if receipt.replayed:
        yield Note("replayed", replayed_words(receipt.replayed), warns=True)
    if receipt.in_doubt:
        yield Note("in-doubt", doubt_words(receipt.in_doubt), warns=True)
    yield from (Note("stale", text, warns=True) for text in stale_words(receipt.stale or ()))
    if receipt.origin is not None and receipt.origin.run != receipt.reported.failed_from:  # the result says that
        yield Note("origin", receipt.origin.words)
    yield from (Note("given-up", f"{one.target} was given up: {one.message}") for one in receipt.given_up)
    yield from (Note("faults", text, warns=place > 0) for place, text in enumerate(fault_words(summary)))
    yield from (Note("injection", text) for text in injection_words(summary))
    yield from (Note("spoilt", text) for text in spoilt_words(summary.spoilt))
    yield from (Note("asked-again", text) for text in confirmed_words(summary))
    yield from (Note("quarantine", quarantine_words(one)) for one in summary.quarantined[:MOST_QUARANTINED])
    if unpriced := unpriced_words(summary):
        yield Note("no-price", unpriced)
    if receipt.asked_again:
        yield Note("retried-errors", f"{receipt.asked_again:,} asked again after an error")
    if receipt.budget is not None and receipt.budget.reached:
        yield Note("budget", budget_words(receipt.budget))
    yield from (Note("limits", limit_words(one)) for one in receipt.limits)
    yield from (Note("retried-calls", text) for text in retried_words(receipt.calls))
    yield from (Note("cache", text) for text in cache_notes(receipt.from_cache))


def _uncalibrated(judges: Iterable[JudgeSummary]) -> Iterator[str]:
    """`uncalibrated judge: gpt-5 was never tested against human labels; 10 of 12 first replies passed`"""
    counted: dict[str, tuple[int, int]] = {}
    for judge in judges:
        if judge.is_untested:
            passed, of = counted.get(judge.model or judge.target, (0, 0))
            counted[judge.model or judge.target] = passed + judge.passed, of + judge.judged
    for name, (passed, of) in islice(counted.items(), MOST_JUDGES):
        told = f"{passed:,} of {of:,} first replies passed"
        yield f"uncalibrated judge: {name} was never tested against human labels (`rejoinder judge test`); {told}"
    if len(counted) > MOST_JUDGES:
        yield f"uncalibrated: {count(len(counted) - MOST_JUDGES, 'more judge')}"


def replayed_words(names: tuple[str, ...]) -> str:
    what = f"{_listed_targets(names)} (your own code or server)"
    return f"answered from cassettes, not asked: {what}; this run cannot tell about changes there"


def doubt_words(calls: int) -> str:
    return f"{count(calls, 'call')} cut off before the answer was recorded; such a call may be made and paid for twice"


def spoilt_numbers(spoilt: SpoiltCounts) -> str:
    """`2 of 20 (leak 1, role 1), counted apart`"""
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in spoilt.by_kind.items())
    return f"{spoilt.conversations:,} of {spoilt.of:,} ({kinds}), not counted"


def bounds_words(spoilt: SpoiltCounts | None) -> str:
    """The bounds of a rate without invalid conversations; empty if there is no rate."""
    if spoilt is None or spoilt.bounds is None or spoilt.bounds == (0, 1):
        return ""
    return spoilt_bounds(spoilt.conversations, spoilt.bounds)


def fault_words(summary: Summary) -> Iterator[str]:
    """The outcome of the planned failures of tools. One that never landed makes a pass mean less."""
    faults = summary.faults
    if faults is None:
        return
    landed = f"{faults.landed:,} of {count(faults.planned, 'fault')} of tools landed"
    recovered = f", recovered after {faults.recovered:,} of {faults.landed:,}" if faults.landed else ""
    yield f"{landed}{recovered}"
    if left := faults.planned - faults.landed:
        what = plural(left, "it tested nothing: its tool was", "they tested nothing: their tools were")
        named = f"`rejoinder show -v` names {plural(left, 'it', 'them')}"
        yield f"{count(left, 'fault')} never landed; {what} not called so often ({named})"


_MEANINGS = {
    "injected": "the text makes the difference",
    "no-difference": "the text makes no difference",
    "cannot-tell": "cannot tell whether the text makes the difference",
    "no-control": "`control: clean` would tell how often without the text",
}


def injection_words(summary: Summary) -> Iterator[str]:
    """`injected text obeyed in 3 of 8 trials, 38% (14 to 69), without it 0 of 8, 0% (0 to 32): the text makes the
    difference`; of each target and variant, if there are several."""
    if summary.injection is not None:
        yield _injected(summary.injection, "")
        return
    of_targets = len(summary.by_variant) < 2
    parts = summary.by_target if of_targets else summary.by_variant
    for name, part in list(parts.items())[:MOST_QUARANTINED]:
        if part.injection is not None:
            yield _injected(part.injection, f" on {name}" if of_targets else f" in {name}")
    for pair in summary.by_pair[:MOST_QUARANTINED]:
        if pair.injection is not None:
            yield _injected(pair.injection, f" on {pair.target} in {pair.variant}")


def _injected(found: Injection, where: str) -> str:
    if found.verdict == "not-shown":
        return f"injected text{where}: shown in 0 of {count(found.planned, 'trial')}; it tested nothing"
    unshown = found.planned - found.shown
    left = [f"not shown in {unshown:,}"] * (unshown > 0) + [f"unknown in {found.unknown:,}"] * (found.unknown > 0)
    more = f" ({', '.join(left)})" if left else ""
    without = f", without it {_obeyed(found.without, '')}" if found.without is not None else ""
    return (
        f"injected text{where}: obeyed in {_obeyed(found.obeyed, ' trials')}{more}{without}: {_MEANINGS[found.verdict]}"
    )


def _obeyed(rate: Rate, what: str) -> str:
    if rate.rate is None or rate.interval is None:
        return f"0 of 0{what}"
    return f"{rate.passed:,} of {rate.of:,}{what}, {rate_words(rate)}"


def spoilt_words(spoilt: SpoiltCounts | None) -> Iterator[str]:
    """The effect of simulated users on the figures. If no judge has looked at them, they are never called clean."""
    if spoilt is None:
        return
    if spoilt.conversations:
        yield f"invalid: {spoilt_numbers(spoilt)}"
    if spoilt.cases:
        where = count(spoilt.cases, "case")
        yield f"nothing was measured in {where}: the simulated user made every conversation invalid"
    if spoilt.not_audited:
        yield f"simulated users: {spoilt.not_audited:,} of {count(spoilt.of, 'conversation')} not audited"


def quarantine_words(case: QuarantinedCase) -> str:
    text = f"{case.id} on {case.target}: {case.passed} of {case.trials} passed"
    if case.active:
        return f"{text}, not counted until {case.until} ({case.reason})"
    return f"{text}; its quarantine ended on {case.until}, so it counts again ({case.reason})"


def confirmed_words(summary: Summary) -> Iterator[str]:
    """`further trials: c3 0 of 7, c4 1 of 3 passed; not counted; $0.02`: of cases that fail and passed before."""
    cases = summary.confirmed
    if not cases:
        return
    named = [f"{case.id} {case.passed} of {_asked(case)}" for case in cases[:MOST_QUARANTINED]]
    more = f" and {count(len(cases) - MOST_QUARANTINED, 'more case')}" if len(cases) > MOST_QUARANTINED else ""
    costs = [case.cost for case in cases]
    known = sum(cost for cost in costs if cost is not None)
    cost = f"; {money(known)} beside the cost of the run" if known and None not in costs else ""
    yield f"asked again, not counted: {', '.join(named)}{more} passed{cost}"


def _asked(case: ConfirmedCase) -> str:
    return f"{case.trials} ({count(case.errors, 'error')})" if case.errors else f"{case.trials}"


def budget_words(budget: BudgetUse) -> str:
    parts: list[str] = []
    if budget.usd is not None:
        parts.append(" of ".join(money_against(budget.spent_usd, budget.usd)))
    if budget.tokens is not None:
        parts.append(f"{budget.spent_tokens:,} of {budget.tokens:,} tokens")
    if not budget.reached:
        return ", ".join(parts)
    usd, tokens = budget.needed
    too_dear = budget.usd is not None and budget.spent_usd + usd > budget.usd
    most = money(usd) if too_dear else f"{tokens:,} tokens"
    return f"{', '.join(parts)}; reached: the next call can cost up to {most}, which is more than what is left"


def cache_notes(use: CacheUse | None) -> list[str]:
    """Notes on the cache."""
    if use is None:
        return []
    notes = [cache_words(use)] if use.answers or use.trouble or use.ignored else []
    return notes + ([_always_asked_words(use.always_asked)] if use.always_asked else [])


def _always_asked_words(names: tuple[str, ...]) -> str:
    rule = "only LLM APIs at their vendors' addresses are, unless a target says `cache: true`"
    return f"not cached: {_listed_targets(names)} ({rule})"


def _listed_targets(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_ALWAYS_ASKED} more" if len(names) > MOST_ALWAYS_ASKED else ""
    return listed([f"`{name}`" for name in names[:MOST_ALWAYS_ASKED]]) + more


def cache_words(use: CacheUse) -> str:
    earlier = use.answers - use.repeated
    origins = [f"{count(earlier, 'answer')} from earlier runs"] if earlier or not use.repeated else []
    origins += [f"{count(use.repeated, 'answer')} repeated within this run"] if use.repeated else []
    text = ", ".join(origins)
    if use.tokens:
        cost = f" and {money(use.cost)} of the cost" if use.cost else ""
        text += f"; {use.tokens:,} of the tokens{cost} belong to them and were not billed again"
    if use.ignored:
        text += f"; {count(use.ignored, 'stored answer')} not sealed by your rejoinder, and asked again"
    return text + (f"; not all answers could be stored: {use.trouble}" if use.trouble else "")


def stale_words(recordings: tuple[str, ...]) -> Iterator[str]:
    yield from recordings[:MOST_STALE]
    if len(recordings) > MOST_STALE:
        yield f"and {len(recordings) - MOST_STALE} more recordings that no call used"


def unpriced_words(summary: Summary) -> str:
    """The models whose price is not known. Functions of the user's may well cost nothing: they are named where they
    make a sum incomplete."""
    known = bool(known_cost(summary))
    unpriced = {name: calls for name, calls in summary.unpriced.items() if known or "/" in name}
    if not unpriced:
        return ""
    names = ", ".join(f"{name} ({count(calls, 'call')})" for name, calls in unpriced.items())
    return f"no price for {names}; set it under `prices` in the configuration"


def known_cost(summary: Summary) -> str:
    parts, judges = summary.cost_breakdown, summary.judge_cost
    embedded = summary.embeddings.cost if summary.embeddings is not None else None
    known = [cost for cost in (summary.cost, judges, summary.user_cost, embedded) if cost is not None]
    if parts is not None and summary.cost is None:
        known.append(parts.input + parts.output)
    if not known:
        return ""
    inner = [(parts.input, "input"), (parts.output, "output")] if parts is not None else []
    beside = ((judges, "by judges"), (summary.user_cost, "by simulated users"), (embedded, "for embeddings"))
    inner += [(cost, what) for cost, what in beside if cost]
    return f"{'about ' if summary.usage.approximate else ''}{cost_words(sum(known), inner)}"


def limit_words(limiter: LimiterResult) -> str:
    """`bot (http): 5 of 40 requests refused, 12.0 s waited over all calls`"""
    name = f"{', '.join(limiter.targets)} ({limiter.name})" if limiter.targets else limiter.name
    text = f"{shortened(name, LONGEST_LIMITER)}: {limiter.refused:,} of {limiter.requests:,} requests refused"
    if limiter.waited_s:
        text += f", {seconds(limiter.waited_s)} waited over all calls"
    if limiter.rate is not None:
        text += f", settled on {number_words(limiter.rate)} requests a second"
    if limiter.window is not None:
        text += f", settled on {limiter.window} at once"
    return text


def retried_words(targets: Iterable[TargetCalls]) -> Iterator[str]:
    """`bot: 12 of 40 calls were retried after errors (HTTP 500: 14)`"""
    for one in targets:
        if one.retried:
            kinds = ", ".join(f"{kind}: {number:,}" for kind, number in one.errors.items())
            were = plural(one.retried, "was", "were")
            yield f"{one.target}: {one.retried:,} of {count(one.made, 'call')} {were} retried after errors ({kinds})"


def corrected_words_of(judge: JudgeSummary) -> str:
    """The pass rate that people would see, where a judge's errors are known."""
    name = judge.name or f"{judge.model} on {shortened(judge.check, LONGEST_CHECK)}"
    if judge.corrected is None:
        return f"{name}: no corrected pass rate: the judge was not tested, or does not tell passes from failures"
    return f"{name}: corrected pass rate of first replies {corrected_words(judge.corrected)}"
