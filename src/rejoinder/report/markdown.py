"""Markdown for a job summary or a comment on GitHub, never longer than it may be.

Above its limit GitHub shows nothing at all, so what does not fit is left out by the section, and counted. Texts of
others stand in code only: there they mention no one, load no picture and are no HTML.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from html import escape

from msgspec import Struct

from rejoinder.model import CaseStatus
from rejoinder.model.clusters import ClusterKey
from rejoinder.model.figures import GateResult, Rate, RuleResult
from rejoinder.report.gate import alarm_words, result_words, word_of
from rejoinder.views.board import Board, BoardRow, outcome_words
from rejoinder.views.cases import Run, Tried, name_of, tried_cases
from rejoinder.views.clusters import MOST_CLUSTERS, NEW, shared_clusters, why_words
from rejoinder.views.conversation import view_conversation
from rejoinder.views.flips import FlipRow, SinceBaseline, since_words
from rejoinder.views.notes import bounds_words, spoilt_numbers
from rejoinder.views.run import RunView, view_run
from rejoinder.views.transcript import reasons_of, write_deciding_turn
from rejoinder.words.figures import rate_ends, without_errors_words
from rejoinder.words.inert import one_line
from rejoinder.words.numbers import both_ends, capital, count, money_in_markdown, percent

SUMMARY_LIMIT = 1024 * 1024
"""Bytes of all that a step writes to its summary."""
MOST_TARGETS = 50
MOST_SECTIONS = 100
"""Cases that are shown with their conversation; further ones have a line each."""
MOST_OTHERS = 20
"""Cases that are listed in quarantine, or as passed together."""
MOST_FLIPS = 10
"""Changed cases that are shown without opening anything."""
MOST_FOLDED = 10_000
"""Bytes of the changed cases that are folded."""
MOST_RULES = 15_000
"""Bytes of the rules of a gate."""
LONGEST_NAME = 200
LONGEST_SAID = 2_000
"""Characters of the turn that decided against a case."""
LONGEST_ADDRESS = 80
LONGEST_NOTE = 500
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


def write_within(run: Run, limit: int, since: SinceBaseline | None = None) -> Iterator[str]:
    """The run in at most `limit` bytes of UTF-8, and how it stands against a baseline."""
    room = _Room(limit - _RESERVE)
    view = view_run(run)
    for section in (
        _head(view, since),
        _board(view.board),
        *(_since(since) if since is not None else ()),
        _conditions(view),
        _clusters(view, since.known if since is not None else None),
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


def _head(view: RunView, since: SinceBaseline | None) -> str:
    gate = "" if since is None else f"> {_gate(since)}\n>\n"
    facts = {kind: money_in_markdown(fact.said) for kind, fact in view.facts.items()}
    details = [f"run {code(view.receipt.id)}", *(facts[kind] for kind in ("took", "tokens", "cost") if kind in facts)]
    title = "".join(code(piece.text) if piece.is_name else piece.text for piece in view.board.headline.pieces)
    notes = "".join(f"- {code(note.text, LONGEST_NOTE)}\n" for note in view.notes if note.warns)
    told = f"{notes}\n" if notes else ""
    alert = _alert(view, since)
    return f"## rejoinder: {title}\n\n> [!{alert}]\n{gate}> {_result(view)}\n\n{told}{', '.join(details)}\n\n"


def _alert(view: RunView, since: SinceBaseline | None) -> str:
    """A gate decides about a run that ended as planned, whatever failed in it."""
    if since is None or view.summary.exit_code not in (0, 1):
        return "CAUTION" if view.summary.exit_code else "TIP"
    return {"pass": "TIP", "fail": "CAUTION", "cannot-tell": "WARNING"}[since.gate.verdict]


def _gate(since: SinceBaseline) -> str:
    """`**Gate cannot tell: 1 of 2 rules.** Worse than `main` or not: we cannot tell; 3 broke, 0 fixed, 18 same.`"""
    found = capital(result_words(since.gate, named=code))
    changed = f" Changed since: {'; '.join(code(one, LONGEST_NOTE) for one in since.changed)}." if since.changed else ""
    return f"**{found}.** {since_words(since, code)}.{changed}"


def _result(view: RunView) -> str:
    summary = view.summary
    counts = {
        "passed on the first try": summary.passed_at_once,
        "recovered": summary.recovered,
        "failed": summary.failed,
        "ended in an error": summary.errors,
        "skipped": summary.skipped,
        "unfinished": summary.unfinished,
        "in quarantine": summary.apart,
    }
    parts = [f"{number:,} {words}" for words, number in counts.items() if number > 0]
    parts += [f"invalid {spoilt_numbers(summary.spoilt)}"] if summary.spoilt and summary.spoilt.conversations else []
    told = ", ".join(parts) or "no conversation ended"
    if summary.has_repeats:
        cases = summary.by_case
        told = f"{view.passed} passed, {cases.failed:,} failed, {cases.errors:,} had errors (trials: {told})"
    beside = (without_errors_words(summary.without_errors), bounds_words(summary.spoilt))
    return "; ".join((told, *filter(None, beside)))


class _Column(Struct, frozen=True):
    title: str
    cell: Callable[[BoardRow], str]


def _board(board: Board) -> str:
    """A table of targets, variants or both: what passed, and whether each listens."""
    rows = board.rows
    columns = [column for column in _COLUMNS if any(column.cell(row) for row in rows)]
    titles = [board.what.capitalize(), *(column.title for column in columns)]
    shown = [[_cell(row.name), *(column.cell(row) for column in columns)] for row in rows[:MOST_TARGETS]]
    lines = "".join(f"| {' | '.join(cells)} |\n" for cells in shown)
    left = len(rows) - MOST_TARGETS
    more = f"{left:,} more {board.what}s\n\n" if left > 0 else ""
    return f"| {' | '.join(titles)} |\n|{'---|' * (1 + len(columns))}\n{lines}\n{more}"


def _listens(row: BoardRow) -> str:
    """`listens, net +88 (+20 to +100)`"""
    found = row.listening
    if found is None:
        return ""
    return f"{found.word}, net {found.net_words}" if found.net else found.word


def _fixed(row: BoardRow) -> str:
    """`7 of 8, same words 2 of 8`"""
    told = [row.listening.fixed] if row.listening is not None else []
    return ", ".join([*told, *([f"same words {row.repeated}"] if row.repeated else [])])


def _passed(row: BoardRow) -> str:
    """`20 of 21, 95% (77 to 99)`; `7 of 10 cases, 31 of 50 trials, 62% of trials (41 to 79)`"""
    of_trials = " of trials" if row.cases else ""
    counts = [f"{row.cases} cases", f"{row.passed} trials"] if row.cases else [row.passed]
    rate = f"{row.share.text}{of_trials} ({row.share.bounds})" if row.share.text else "no rate"
    return ", ".join([*counts, rate])


_COLUMNS: tuple[_Column, ...] = (
    _Column("Does it listen?", _listens),
    _Column("Follow-ups fixed", _fixed),
    _Column("Asking again", lambda row: "" if row.listening is None else row.listening.afresh),
    _Column("Passed", _passed),
    _Column("Outcomes", lambda row: ", ".join(outcome_words(row.outcomes))),
    _Column("Cost", lambda row: money_in_markdown(row.cost)),
)
"""Few, so that GitHub shows them without a scroll bar."""


def _since(since: SinceBaseline) -> Iterator[str]:
    """The cases that changed, then the rules of the gate."""
    yield from _flips(since)
    rules = list(_within(map(_rule, since.gate.rules), MOST_RULES))
    left = len(since.gate.rules) - len(rules)
    more = f"- and {count(left, 'more rule')}\n" if left else ""
    yield (
        f"{''.join(rules)}{more}\n{_alarms(since.gate)}A case that changed once may be chance. `no-regression` looks"
        " at all cases together, `no-new-failures` at each case and its additional trials.\n\n"
    )


def _flips(since: SinceBaseline) -> Iterator[str]:
    flips = since.flips
    if not flips.rows:
        return
    yield f"### Changed since {code(since.name)}\n\n{_flip_table(flips.rows[:MOST_FLIPS])}\n"
    folded = list(_within(map(_flip, flips.rows[MOST_FLIPS:]), MOST_FOLDED))
    if folded:
        yield f"<details><summary>{len(folded):,} more</summary>\n\n{_FLIP_TITLES}{''.join(folded)}\n</details>\n\n"
    if left := flips.left + len(flips.rows[MOST_FLIPS:]) - len(folded):
        yield f"{count(left, 'more case')} changed; `rejoinder compare` lists them.\n\n"


_FLIP_TITLES = "| Case | Before | Now | It said |\n|---|---|---|---|\n"


def _flip_table(rows: Iterable[FlipRow]) -> str:
    return _FLIP_TITLES + "".join(map(_flip, rows))


def _flip(row: FlipRow) -> str:
    sign = _SIGNS["failed" if row.broke else "passed"]
    said = _cell(row.said) if row.said else ""
    return f"| {sign} {_cell(row.address, LONGEST_ADDRESS)} | {row.before} | {row.now} | {said} |\n"


def _within(texts: Iterable[str], size: int) -> Iterator[str]:
    """The first of these texts, at most `size` bytes together."""
    for text in texts:
        size -= len(text.encode())
        if size < 0:
            return
        yield text


def _rule(rule: RuleResult) -> str:
    reason = f": {code(reason_words(rule), LONGEST_NOTE)}" if rule.reason else ""
    return f"- {code(rule.rule)} {word_of(rule.verdict)}{reason}\n"


def reason_words(rule: RuleResult) -> str:
    """The reason without the verdict, which is written before it."""
    return rule.reason.removeprefix("cannot tell: ")


def _alarms(found: GateResult) -> str:
    return f"{alarm_words(found)} " if found.false_alarms else ""


def _clusters(view: RunView, known: frozenset[ClusterKey] | None) -> str:
    """Reasons that several conversations share; the baseline had the reasons in `known`."""
    shared = shared_clusters(view.summary, MOST_CLUSTERS, known)
    if not shared:
        return ""
    lines = "".join(f"- {row.number:,} {code(row.words)}{f', {NEW}' if row.is_new else ''}\n" for row in shared)
    return f"**{capital(why_words(view.summary))}**\n\n{lines}\n"


def _conditions(view: RunView) -> str:
    """A table of the ways in which sharded tasks were put, on each of several targets or variants."""
    rows = [
        [
            *([_cell(name)] if name else []),
            condition,
            f"{one.rate.passed:,} of {one.rate.of:,}",
            _percent(one.rate),
            rate_ends(one.rate),
        ]
        for name, part in view.parts[:MOST_TARGETS]
        for condition, one in part.by_condition.items()
    ]
    if not rows:
        return ""
    columns = [*([""] if view.groups else []), "Task put", "Passed", "Pass rate", "95% interval over tasks"]
    lines = [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n\n"


def _cell(text: str, most: int = LONGEST_NAME) -> str:
    # Readers differ in how a bar after a backslash is escaped inside code, so a bar becomes a sign that looks like one.
    return code(text.replace("|", "\N{BOX DRAWINGS LIGHT VERTICAL}"), most)


def _percent(rate: Rate | None) -> str:
    if rate is None or rate.rate is None:
        return "no rate"
    return percent(rate.rate, rate.cases, rate.interval)


def _case(test: Tried, name: str) -> str:
    """Why a case did not pass, and what was said in the turn that decided, behind a line that opens it."""
    result = test.deciding
    reasons = "".join(f"- {code(reason, 2 * LONGEST_NAME)}\n" for reason in reasons_of(result))
    said = both_ends("\n".join(write_deciding_turn(view_conversation(result), LONGEST_SAID // 2)), LONGEST_SAID)
    summary = f"{_SIGNS[test.status]} <code>{_html(name)}</code>{_trials(test)} in <code>{_html(_place(test))}</code>"
    return f"<details><summary>{summary}</summary>\n\n{reasons}\n```text\n{said}\n```\n\n</details>\n"


def _line(test: Tried, name: str) -> str:
    return f"\n- {_SIGNS[test.status]} {code(name)}{_trials(test)} in {code(_place(test))}\n"


def _trials(test: Tried) -> str:
    return f", {test.counted}" if test.trials > 1 else ""


def _place(test: Tried) -> str:
    return f"{test.first.file}:{test.first.line}" if test.first.file else test.first.suite


def _html(text: str) -> str:
    return escape(one_line(both_ends(text, LONGEST_NAME)))


def code(text: str, most: int = LONGEST_NAME) -> str:
    """A text of others in a line: code between more backticks than it has in a row."""
    shown = one_line(both_ends(text, most)) or "(empty)"
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if "`" in (shown[0], shown[-1]) else ""
    return f"{fence}{space}{shown}{space}{fence}"
