"""Markdown for a job summary or a comment on GitHub, never longer than it may be.

Above its limit GitHub shows nothing at all, so what does not fit is left out by the section, and counted. Texts of
others stand in code only: there they mention no one, load no picture and are no HTML.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from itertools import islice

from msgspec import Struct

from rejoinder.model import CaseStatus, Summary, TargetSummary
from rejoinder.report.found import groups_of
from rejoinder.report.inert import one_line, shorten
from rejoinder.report.runs import Run, Tried, name_of, tried_cases
from rejoinder.report.summary import bounds_words, spoilt_numbers
from rejoinder.report.transcript import reasons_of, write_transcript
from rejoinder.report.words import count
from rejoinder.stats import without_errors_words

SUMMARY_LIMIT = 1024 * 1024
"""Bytes of all that a step writes to its summary."""
MOST_TARGETS = 50
MOST_SECTIONS = 100
"""Cases that are shown with their conversation; further ones have a line each."""
MOST_OTHERS = 20
"""Cases that are listed in quarantine, or as passed together."""
LONGEST_NAME = 200
LONGEST_SAID = 2_000
_RESERVE = 300
"""Bytes for the note of what is left out."""
_SIGNS: dict[CaseStatus, str] = {
    "passed": "✅",
    "failed": "❌",
    "error": "⚠️",
    "skipped": "⏭️",
    "apart": "⏸️",
    "spoilt": "⚠️",
}


def write(run: Run) -> Iterator[str]:
    return write_within(run, SUMMARY_LIMIT)


def write_within(run: Run, limit: int) -> Iterator[str]:
    """The run in at most so many bytes of UTF-8."""
    room = _Room(limit - _RESERVE)
    summary = run.summary
    for section in (
        _head(run),
        _groups("Target", summary.by_target, summary),
        _groups("Variant", summary.by_variant, summary),
        _conditions(summary),
    ):
        yield from room.take(section)
    shown = left_out = 0
    others = _Others()
    for test in tried_cases(run):
        name = name_of(test.first, run)
        if test.status not in ("failed", "error"):
            others.add(test, name)
            continue
        sections = [_case(test, name)] if shown < MOST_SECTIONS else []
        for section in (*sections, _line(test, name)):
            if taken := room.take(section if shown else f"### Not passed\n\n{section}"):
                yield from taken
                shown += 1
                break
        else:
            left_out += 1
    if left_out:
        room.left += _RESERVE
        yield from room.take(f"\n{left_out:,} more did not pass. The run's JSON has them all.\n")
    for section in others.sections():
        yield from room.take(section)


class _Others:
    """What did not pass in every trial and fails no one: cases in quarantine, those that simulated users spoilt, and
    those that passed together."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self._left_out: Counter[str] = Counter()

    def add(self, test: Tried, name: str) -> None:
        if test.status == "spoilt":
            title, line = "Spoilt", f"- {_SIGNS[test.status]} {code(name)} {code(test.apart or '')}\n"
        elif test.status == "apart":
            title, line = "In quarantine", f"- {_SIGNS[test.status]} {code(name)} {code(test.apart or '')}\n"
        elif test.status == "passed" and test.passed < test.finished:
            title, line = "Passed together", f"- {_SIGNS[test.status]} {code(name)}, {test.counted}\n"
        else:
            return
        lines = self._lines.setdefault(title, [])
        if len(lines) < MOST_OTHERS:
            lines.append(line)
        else:
            self._left_out[title] += 1

    def sections(self) -> Iterator[str]:
        for title, lines in self._lines.items():
            more = f"- and {self._left_out[title]:,} more\n" if self._left_out[title] else ""
            yield f"\n### {title}\n\n{''.join(lines)}{more}"


class _Room(Struct):
    left: int

    def take(self, text: str) -> tuple[str, ...]:
        """The text, or nothing if it does not fit."""
        size = len(text.encode())
        if size > self.left:
            return ()
        self.left -= size
        return (text,)


def _head(run: Run) -> str:
    summary = run.summary
    alert = "CAUTION" if summary.exit_code else "TIP"
    details = [f"run {code(run.run.id)}", f"{summary.duration_s:,.1f} s", f"{summary.total_tokens:,} tokens"]
    details += [] if summary.total_cost is None else [_dollars(summary.total_cost)]
    apart = f", {summary.apart:,} in quarantine" if summary.apart else ""
    cases = summary.by_case
    passed = f"{summary.passed:,} of {summary.decided:,} passed"
    if summary.has_repeats:
        passed = f"{cases.passed:,} of {count(cases.total, 'case')} passed ({passed[:-7]} trials)"
    return f"## rejoinder: {passed}{apart}\n\n> [!{alert}]\n> {_result(summary)}\n\n{', '.join(details)}\n\n"


def _result(summary: Summary) -> str:
    parts = [
        f"{summary.passed_at_once:,} passed on the first try",
        f"{summary.recovered:,} recovered",
        f"{summary.failed:,} failed",
        f"{summary.errors:,} ended in an error",
    ]
    parts += [f"{summary.skipped:,} skipped"] if summary.skipped else []
    parts += [f"{summary.unfinished:,} unfinished"] if summary.unfinished else []
    parts += [f"{summary.apart:,} in quarantine"] if summary.apart else []
    parts += [f"spoilt {spoilt_numbers(summary.spoilt)}"] if summary.spoilt and summary.spoilt.conversations else []
    told = ", ".join(parts)
    if summary.has_repeats:
        cases = summary.by_case
        told = f"{cases.passed:,} passed, {cases.failed:,} failed, {cases.errors:,} had errors (trials: {told})"
    beside = (without_errors_words(summary.without_errors), bounds_words(summary.spoilt))
    return "; ".join((told, *filter(None, beside)))


def _groups(what: str, groups: dict[str, TargetSummary], summary: Summary) -> str:
    """A table of targets or variants."""
    listed = list(groups.items())
    if not listed:
        return ""
    shown = [(_cell(name), *_figures(target, summary)) for name, target in listed[:MOST_TARGETS]]
    rows = "".join(f"| {' | '.join(cells)} |\n" for cells in shown)
    more = f"{len(listed) - MOST_TARGETS} more {what.lower()}s\n\n" if len(listed) > MOST_TARGETS else ""
    columns = (
        what,
        "Trials passed" if summary.has_repeats else "Passed",
        "First try",
        "Failed",
        "Errors",
        "Pass rate",
        "95 % interval",
        "Cost",
    )
    return f"| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}\n{rows}\n{more}"


def _conditions(summary: Summary) -> str:
    """A table of the ways in which sharded tasks were put, on each of several targets or variants."""
    groups = dict(islice(groups_of(summary).items(), MOST_TARGETS)) or {"": summary}
    rows = [
        [
            *([_cell(name)] if name else []),
            condition,
            f"{one.rate.passed:,} of {one.rate.of:,}",
            "no rate" if one.rate.rate is None else f"{one.rate.rate:.1%}",
            "" if one.rate.interval is None else f"{one.rate.interval[0]:.1%} to {one.rate.interval[1]:.1%}",
        ]
        for name, group in groups.items()
        for condition, one in group.by_condition.items()
    ]
    if not rows:
        return ""
    columns = [*([""] if len(groups) > 1 else []), "Task put", "Passed", "Pass rate", "95 % interval over tasks"]
    lines = [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n\n"


def _cell(text: str) -> str:
    # Readers differ in how a bar after a backslash is escaped inside code, so a bar becomes a sign that looks like one.
    return code(text.replace("|", "\N{BOX DRAWINGS LIGHT VERTICAL}"))


def _figures(target: TargetSummary, summary: Summary) -> tuple[str, ...]:
    rate, interval = (target.pass_rate, target.pass_rate_interval) if target.has_rate else (None, None)
    return (
        f"{target.passed:,} of {target.total:,}",
        _passed_at_once(target, summary),
        f"{target.failed:,}",
        f"{target.errors:,}",
        "no rate" if rate is None else f"{rate:.1%}",
        "" if interval is None else f"{interval[0]:.1%} to {interval[1]:.1%}",
        "" if target.cost is None else _dollars(target.cost),
    )


def _passed_at_once(target: TargetSummary, summary: Summary) -> str:
    """Those that passed and were right from the first, as the result above the table counts them. Of several targets or
    variants together they are not told, where some were right at first and caved."""
    if target.rates is not None:
        return f"{target.passed - target.rates.gain.passed:,}"
    return f"{target.first_try:,}" if summary.first_try == summary.passed_at_once else ""


def _dollars(cost: float) -> str:
    return f"{cost:,.4f} USD"  # a dollar sign begins a formula


def _case(test: Tried, name: str) -> str:
    """Why a case did not pass, and what was said, behind a line that opens it."""
    result = test.deciding
    reasons = "".join(f"- {code(reason, 2 * LONGEST_NAME)}\n" for reason in reasons_of(result))
    said = "\n".join(write_transcript(result, LONGEST_SAID))
    summary = f"{_SIGNS[test.status]} <code>{_html(name)}</code>{_trials(test)} in <code>{_html(_place(test))}</code>"
    return f"<details><summary>{summary}</summary>\n\n{reasons}\n```text\n{said}\n```\n\n</details>\n"


def _line(test: Tried, name: str) -> str:
    return f"\n- {_SIGNS[test.status]} {code(name)}{_trials(test)} in {code(_place(test))}\n"


def _trials(test: Tried) -> str:
    return f", {test.counted}" if test.trials > 1 else ""


def _place(test: Tried) -> str:
    return f"{test.first.file}:{test.first.line}" if test.first.file else test.first.suite


def _html(text: str) -> str:
    return escape(one_line(shorten(text, LONGEST_NAME)))


def code(text: str, most: int = LONGEST_NAME) -> str:
    """A text of others in a line: code between more backticks than it has in a row."""
    shown = one_line(shorten(text, most)) or "(empty)"
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if "`" in (shown[0], shown[-1]) else ""
    return f"{fence}{space}{shown}{space}{fence}"
