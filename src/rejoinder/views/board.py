"""The board: does each target listen, how did its conversations end, and what passed.

A row stands for a target, a variant, or a variant on a target. Every surface lays out the same rows, in the same order
and words, under the same headline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from rejoinder.model import Receipt, Summary
from rejoinder.model.boards import NamedPart, Part, Verdict, parts_of, verdict_of
from rejoinder.model.figures import NetRecovery, NoRate, Rate, why_untested
from rejoinder.words.figures import (
    VERDICT_WORDS,
    cases_passed,
    no_rate_words,
    quarantine_words,
    rate_ends,
    trials_passed,
    trials_words,
)
from rejoinder.words.numbers import (
    capital,
    count,
    listed,
    money,
    number_words,
    percent,
    plural,
    point_range,
    points,
    seconds,
    share,
)
from rejoinder.words.statuses import EARLY_ENDS

MEASURE = "add `control: afresh`"
MOST_NAMED = 3
"""Rows that the headline names for each verdict; more are counted."""


class Outcomes(Struct, frozen=True, kw_only=True):
    """The outcomes of conversations, without those in quarantine and those that simulated users made invalid."""

    first: int
    recovered: int
    failed: int
    errors: int
    skipped: int = 0

    @property
    def total(self) -> int:
        return self.first + self.recovered + self.failed + self.errors + self.skipped


def outcome_words(outcomes: Outcomes) -> list[str]:
    """`13 first try`, `7 recovered`, `1 failed`, `2 errors`: each outcome that conversations have."""
    counts = {"first try": outcomes.first, "recovered": outcomes.recovered, "failed": outcomes.failed}
    told = [f"{number:,} {words}" for words, number in counts.items() if number]
    told += [count(outcomes.errors, "error")] if outcomes.errors else []
    return [*told, *([f"{outcomes.skipped:,} not sent"] if outcomes.skipped else [])]


def share_of_trials(outcomes: Sequence[Outcomes]) -> str:
    """The share of trials that passed: `70%`; empty if none finished, or if errors hide it."""
    passed = sum(one.first + one.recovered for one in outcomes)
    finished, errors = sum(one.total for one in outcomes), sum(one.errors for one in outcomes)
    return "" if why_untested(errors, finished) else share(passed / finished)


class Share(Struct, frozen=True):
    """A pass rate, or why there is none."""

    text: str
    """`95%`; empty if there is none."""
    bounds: str
    """`77 to 99`: of the 95% interval."""
    why: str
    """`no rate: 3 of 5 had an error`; empty if there is a rate."""


class Listening(Struct, frozen=True):
    """The verdict whether follow-ups helped more than asking again, with its figures."""

    verdict: Verdict
    fixed: str
    """`7 of 8`: wrong replies that follow-ups put right."""
    afresh: str
    """`0 of 8`: wrong replies that would have been right in a new conversation; empty if not measured."""
    net: str
    """`+88`, in points; empty without an interval."""
    bounds: str
    """`+20 to +100`"""
    sentence: str
    """`follow-ups fixed 7 of 8, asking again 0 of 8`"""

    @property
    def word(self) -> str:
        return VERDICT_WORDS[self.verdict]

    @property
    def net_words(self) -> str:
        """`+88 (+20 to +100)`"""
        return f"{self.net} ({self.bounds})" if self.net else ""


class BoardRow(Struct, frozen=True, kw_only=True):
    name: str
    target: str | None
    """None in a row of a variant on the only target."""
    variant: str | None
    outcomes: Outcomes
    counted: str
    """The unit of the outcomes: `conversations`, or `trials` where cases have several."""
    cases: str
    """Passed cases, `7 of 10`; empty where each has one trial."""
    passed: str
    """Passed conversations, `20 of 21`: trials where cases have several."""
    passed_cases: str
    """`7 of 10 cases`; `20 of 21` where each case has one trial."""
    rate: float | None
    """The pass rate; None if there is none."""
    share: Share
    first_try: str
    listening: Listening | None
    """None if there was nothing to recover from, or no follow-up."""
    repeated: str
    """`3 of 8`: conversations with the same words after a follow-up; empty if there are none."""
    cost: str
    reply: str
    """The median time of a reply."""


class Piece(NamedTuple):
    text: str
    is_name: bool
    """True for the name of a target or variant, which others wrote."""


class Headline(Struct, frozen=True):
    pieces: tuple[Piece, ...]
    is_early: bool = False
    """True if the run ended before its time, or measured nothing."""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


class Board(Struct, frozen=True):
    headline: Headline
    what: str
    """The kind of a row: `target`, `variant`, `target / variant`."""
    rows: tuple[BoardRow, ...]

    @property
    def has_verdicts(self) -> bool:
        """True if a row has a verdict that the headline names."""
        return _is_measured(self.rows)


def _is_measured(rows: Sequence[BoardRow]) -> bool:
    return any(row.listening is not None and row.listening.verdict in _OF_ONE for row in rows)


def board_of(receipt: Receipt, summary: Summary) -> Board:
    parts = parts_of(receipt, summary)
    rows = tuple(_row(one, _listening(one.part, verdict_of(one.part, receipt)), summary) for one in parts)
    return Board(_headline(rows, receipt, summary), _what(parts), rows)


def _what(parts: Sequence[NamedPart]) -> str:
    names = {"target": parts[0].target, "variant": parts[0].variant}
    return " / ".join(word for word, name in names.items() if name is not None)


def _row(one: NamedPart, listening: Listening | None, summary: Summary) -> BoardRow:
    part = one.part
    rates, repeats = part.rates, summary.has_repeats
    rate = rate_of(part)
    first = None if rates is None or rate is None else rates.first_try
    repeated = part.repeated
    cost = part.total_cost if isinstance(part, Summary) else part.cost
    duration = None if isinstance(part, Summary) else part.duration_s
    return BoardRow(
        name=one.name,
        target=one.target,
        variant=one.variant,
        outcomes=outcomes_of(part),
        counted="trials" if repeats else "conversations",
        cases=f"{part.by_case.passed:,} of {part.by_case.total:,}" if repeats else "",
        passed=f"{part.passed:,} of {part.finished:,}",
        passed_cases=cases_passed(part) if repeats else trials_passed(part),
        rate=None if rate is None else rate.rate,
        share=share_of(part.rate),
        first_try="" if first is None else f"{first.passed:,} of {first.of:,}",
        listening=listening,
        repeated="" if not repeated or not repeated.conversations else f"{repeated.conversations:,} of {repeated.of:,}",
        cost="" if cost is None and not (summary.unpriced and summary.total_cost is not None) else money(cost),
        reply="" if duration is None else seconds(duration),
    )


def outcomes_of(part: Part) -> Outcomes:
    recovered = _recovered(part)
    return Outcomes(
        first=part.passed - recovered,
        recovered=recovered,
        failed=part.failed,
        errors=part.errors,
        skipped=part.skipped,
    )


def _recovered(part: Part) -> int:
    """Earlier versions did not count it for each target."""
    if part.recovered or isinstance(part, Summary):
        return part.recovered
    return max(0, part.passed - part.first_try) if part.rates is None else part.rates.gain.passed


def rate_of(part: Part) -> Rate | None:
    """The pass rate; None if there is none."""
    return None if isinstance(part.rate, NoRate) else part.rate


def rates_of(receipt: Receipt, summary: Summary) -> Iterator[tuple[str, Rate | None]]:
    """The pass rate of a run, without a name, or that of each target, variant or pair, by its name (`gpt-5-terse`),
    if they have no common one."""
    whole = summary.rate
    if not (isinstance(whole, NoRate) and whole.is_of_several):
        yield "", rate_of(summary)
        return
    for one in parts_of(receipt, summary):
        yield "-".join(name for name in (one.target, one.variant) if name), rate_of(one.part)


def share_of(rate: Rate | NoRate) -> Share:
    if isinstance(rate, NoRate):
        return Share("", "", no_rate_words(rate))
    if rate.rate is None:
        return Share("", "", "no rate")
    bounds = rate_ends(rate).removesuffix("%")
    return Share(percent(rate.rate, rate.cases, rate.interval), bounds, "")


# Does it listen?


def _listening(part: Part, verdict: Verdict | None) -> Listening | None:
    """Of follow-ups after follow-ups, only the first is compared with asking again."""
    net, back = part.net_recovery, part.answered_back
    if verdict is None or back is None:
        return None
    if net is None or net.answered_back is None or net.afresh is None:
        fixed = f"{back.passed:,} of {back.of:,}"
        return Listening(verdict, fixed, "", "", "", f"follow-ups fixed {fixed}")
    fixed = f"{round(net.answered_back * net.failures):,} of {net.failures:,}"
    afresh = f"{number_words(net.afresh * net.failures)} of {net.failures:,}"
    gain, bounds = _gain(net)
    return Listening(verdict, fixed, afresh, gain, bounds, f"follow-ups fixed {fixed}, asking again {afresh}")


def _gain(net: NetRecovery) -> tuple[str, str]:
    if net.net is None or net.interval is None:
        return "", ""
    return points(net.net).partition(" ")[0], point_range(net.interval)


# The headline


_MARK = "\0"
"""Around names in a sentence that is being made."""


def _marked(name: str) -> str:
    return f"{_MARK}{name.replace(_MARK, ' ')}{_MARK}"


def _headline(rows: Sequence[BoardRow], receipt: Receipt, summary: Summary) -> Headline:
    early = _early(receipt, summary)
    texts = (early or _told(rows, summary)).split(_MARK)
    pieces = (Piece(text, place % 2 == 1) for place, text in enumerate(texts) if text or place % 2)
    return Headline(tuple(pieces), is_early=bool(early))


def _early(receipt: Receipt, summary: Summary) -> str:
    """Empty unless the run ended before its time, or measured nothing."""
    if summary.no_rate == "untested":
        untested = f"nothing was tested: {count(summary.errors, 'error')}."
        return f"{_ended_early(receipt, summary)}, {untested}" if receipt.status in EARLY_ENDS else capital(untested)
    unmeasured = summary.spoilt.cases if summary.spoilt is not None else 0
    if unmeasured and not summary.finished:
        invalid = count(summary.total - summary.decided, "conversation")
        return f"Nothing was measured: {invalid} invalid."
    if summary.all_in_quarantine:
        return f"{capital(quarantine_words(summary))}."
    if receipt.status not in EARLY_ENDS:
        return ""
    return f"{_ended_early(receipt, summary)}, {summary.passed:,} passed."


def _ended_early(receipt: Receipt, summary: Summary) -> str:
    """`The run was interrupted: 6 of 12 conversations ended`"""
    clause = capital(EARLY_ENDS[receipt.status].clause)
    return f"{clause}: {summary.finished:,} of {count(receipt.planned, 'conversation')} ended"


def _told(rows: Sequence[BoardRow], summary: Summary) -> str:
    if not _is_measured(rows):
        return _ended(rows, summary)
    if len(rows) == 1 and rows[0].listening is not None:
        found = rows[0].listening
        return f"{_OF_ONE[found.verdict]}: {found.sentence}.".replace("NAME", _marked(rows[0].name))
    return " ".join(_of_several(rows))


_OF_ONE: dict[Verdict, str] = {
    "listens": "NAME listens",
    "stuck": "NAME is stuck, starting over is better",
    "cannot-tell": "We cannot tell yet whether NAME listens",
}


_GROUPS: dict[Verdict, Callable[[str, int], str]] = {
    "listens": lambda names, number: f"{names} {plural(number, 'listens', 'listen')}.",
    "stuck": lambda names, number: f"{names} {plural(number, 'is', 'are')} stuck: starting over is better.",
    "cannot-tell": lambda names, _: f"For {names} we cannot tell yet.",
    "too-few": lambda names, _: f"For {names} there are too few failures to tell.",
    "not-measured": lambda names, _: f"Whether {names} listens is not measured: {MEASURE}.",
}


def _of_several(rows: Sequence[BoardRow]) -> Iterator[str]:
    """A sentence for each verdict, which names its rows."""
    told = 0
    for verdict, words in _GROUPS.items():
        names = [_marked(row.name) for row in rows if row.listening is not None and row.listening.verdict == verdict]
        if names:
            is_rest = told > 0 and told + len(names) == len(rows)
            named = _names(names, len(rows), is_rest=is_rest, joint="or" if verdict == "not-measured" else "and")
            yield capital(words(named, len(names)))
            told += len(names)
    for says, words in _WITHOUT.items():
        if names := [_marked(row.name) for row in rows if row.listening is None and _without(row.outcomes) == says]:
            yield capital(words(_names(names, len(rows), is_rest=False), len(names)))


_WITHOUT: dict[str, Callable[[str, int], str]] = {
    "untested": lambda names, number: f"{names} {plural(number, 'was', 'were')} not tested.",
    "unanswered": lambda names, _: f"For {names} it is not measured.",
    "spotless": lambda names, number: f"{names} {plural(number, 'has', 'have')} nothing to recover from.",
}


def _without(outcomes: Outcomes) -> str:
    """The reason why a row has no verdict. Errors and failures without a follow-up do not count as success."""
    if not outcomes.first + outcomes.recovered + outcomes.failed:
        return "untested"
    return "unanswered" if outcomes.failed or outcomes.errors else "spotless"


def _names(names: Sequence[str], of: int, *, is_rest: bool, joint: str = "and") -> str:
    """`a`, `a and b`, `the other two`, `4 of 10`."""
    if is_rest and len(names) > 1:
        return f"the other {_SMALL.get(len(names), f'{len(names):,}')}"
    if len(names) == of > 1:
        return "both" if of == 2 and joint == "and" else listed(names, joint) if of <= MOST_NAMED else f"all {of:,}"
    return listed(names, joint) if len(names) <= MOST_NAMED else f"{len(names):,} of {of:,}"


_SMALL = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}


def _ended(rows: Sequence[BoardRow], summary: Summary) -> str:
    """`20 of 21 passed, 1 ended in an error.`; of several: `atlas passed 20 of 21, mini 15 of 21.`"""
    errors = f", {_with_errors(summary)}" if summary.errors else ""
    left = f", {summary.skipped:,} not sent" if summary.skipped else ""
    left += f", {summary.apart:,} in quarantine" if summary.apart else ""
    if 1 < len(rows) <= MOST_NAMED:
        (first, *others), names = rows, [_marked(row.name) for row in rows]
        told = [f"{names[0]} passed {first.passed_cases}"]
        told += [f"{name} {row.passed_cases}" for name, row in zip(names[1:], others, strict=True)]
        return f"{', '.join(told)}{errors}{left}."
    at_once = " on the first try" if summary.passed_at_once == summary.finished > 0 else ""
    found = rows[0].listening if len(rows) == 1 else None
    fixed = "" if found is None else f", {found.sentence}"
    passed = f"{cases_passed(summary) if summary.has_repeats else trials_passed(summary)} passed"
    trials = f" ({trials_passed(summary)})" if summary.has_repeats else ""
    return f"{passed}{trials}{at_once}{fixed}{errors}{left}."


def _with_errors(summary: Summary) -> str:
    if summary.has_repeats and summary.by_case.errors:
        return f"{summary.by_case.errors:,} had errors"
    return f"{trials_words(summary.errors, summary)} ended in an error"
