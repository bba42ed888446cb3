"""The end of a run: recovered is a line, failed is a block, passed is a number.

The result stands last, but for what to type next. There is one order for all readers; the form says whether they see
signs, columns and short numbers, or words, one fact a line. What else a run has is shown by `--verbose` and
`--format json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from rejoinder.model import Result
from rejoinder.model.figures import RuleVerdict
from rejoinder.report.failure import LONGEST_ID, write_failed_case, write_failure
from rejoinder.report.problems import columns_of
from rejoinder.report.run_tables import write_board, write_conditions, write_grid, write_recovery
from rejoinder.report.styled import (
    EMPTY,
    PARAGRAPH,
    Commands,
    Form,
    Line,
    Piece,
    Role,
    beside,
    command_rows,
    fitted,
    line,
    mark,
    paragraph,
    safe,
    width_of_line,
)
from rejoinder.views.board import Board, rate_of
from rejoinder.views.cases import Run
from rejoinder.views.clusters import MOST_CLUSTERS, NEW, shared_clusters, why_words
from rejoinder.views.course import against, recovery_words, spoilt_of
from rejoinder.views.deeds import not_allowed
from rejoinder.views.details import condition_rates, details_of, why_no_rate
from rejoinder.views.facts import FactKind
from rejoinder.views.flips import SinceBaseline, since_words
from rejoinder.views.notes import bounds_words, corrected_words_of
from rejoinder.views.reasons import first_reason, said_of
from rejoinder.views.run import RunView, view_run
from rejoinder.views.walk import Alike, Found, column_of, look_through
from rejoinder.words.clusters import cluster_keys
from rejoinder.words.figures import of_trials, quarantine_words
from rejoinder.words.numbers import count, percent, rate_range

BLOCKS, SHORT_BLOCKS = 10, 30
"""Up to so many failures are whole blocks, blocks of two rows; more are lines."""
MOST_WORSE = 10
"""Targets that are named with their failures in the result."""
LEAST_REPLY = 12
"""Columns for the beginning of a reply, below which it says nothing."""
MOST_TRIALS = 20
"""Trials of a strip."""


class Extras(Struct, frozen=True):
    """What is shown beside what all runs show."""

    figures: bool = False
    """All that was counted, instead of the most important."""
    corrected: bool = False
    """Pass rates that people would see, where a judge's errors are known."""
    traceback: str | None = None
    """The file with what the user's own code raised."""
    compared: tuple[str, ...] = ()
    """What the comparison of two variants says, in words."""
    since: SinceBaseline | None = None
    """The run against its baseline."""


NONE = Extras()


def write_ending(run: Run, commands: Commands, form: Form, extras: Extras = NONE) -> Iterator[Line]:
    return _within(_screen(run, commands, form, extras), form)


def write_outcome(run: Run, form: Form) -> Iterator[Line]:
    """The facts and the result, without what did not pass."""
    view = view_run(run)
    figures = _figures(view, form, NONE)
    return _within((*figures, *_headline(view.board, form), *_result(view, look_through(run), form)), form)


def write_result(run: Run, commands: Commands, form: Form) -> Iterator[Line]:
    """The result and what to type next, and nothing else."""
    return _within((*_result(view_run(run), look_through(run), form), *_commands(commands, form)), form)


def _within(rows: Iterable[Line], form: Form) -> Iterator[Line]:
    """Tables are as wide as they need; what is text ends at the edge by itself."""
    return iter(rows) if form.width is None else (fitted(row, form.width) for row in rows)


def _screen(run: Run, commands: Commands, form: Form, extras: Extras) -> Iterator[Line]:
    found, view = look_through(run), view_run(run)
    if not found.columns:  # the grid has them
        yield from _recovered(found, form)
    yield from _spoilt(found, form)
    yield from _errors(view, found, form, extras.traceback)
    yield from _failures(view, found, form)
    yield from _strips(view, found, form)
    yield from write_grid(found, form)
    yield from _clusters(view, found, form, extras.since)
    yield from _figures(view, form, extras)
    if not form.commands:  # so that the result is the last line
        yield from (line(f"next: {command}") for command, _ in commands)
    yield from _headline(view.board, form)
    yield from _since(extras.since, form)
    yield from _result(view, found, form)
    yield from _commands(commands, form)


def _figures(view: RunView, form: Form, extras: Extras) -> Iterator[Line]:
    """All between what did not pass and the verdict."""
    yield from _facts(view, form)
    yield from write_recovery(view, form)
    yield from write_conditions(view, form)
    yield from write_board(view.board, form)
    if extras.figures:
        yield from _details(view, form)
    yield EMPTY
    yield from (row for text in extras.compared for row in paragraph(line(safe(text)), form))
    yield from _notes(view, form, extras)


def _headline(board: Board, form: Form) -> Iterator[Line]:
    """The board in a sentence, unless that is only how the run ended, which the result says."""
    if board.has_verdicts and not board.headline.is_early:
        yield from paragraph(line((safe(board.headline.text), "name")), form)


def _since(since: SinceBaseline | None, form: Form) -> Iterator[Line]:
    """Whether the run is worse than its baseline."""
    if since is not None:
        yield from paragraph(line((f"{safe(since_words(since))}.", _SINCE[since.gate.verdict])), form)


_SINCE: dict[RuleVerdict, Role] = {"pass": "pass", "fail": "fail", "cannot-tell": "text"}


def _details(view: RunView, form: Form) -> Iterator[Line]:
    """All that was counted, each label before the first of its lines."""
    for detail in details_of(view.receipt, view.summary):
        for place, text in enumerate(detail.lines):
            label = "" if place else detail.label
            yield from paragraph(line((f"  {label:10}", "quiet"), safe(text)), form)


def _commands(commands: Commands, form: Form) -> Iterator[Line]:
    return command_rows(commands, form.edge) if form.commands else iter(())


def _recovered(found: Found, form: Form) -> Iterator[Line]:
    ids = [safe(result.id) for result in found.recovered.shown]
    longest = _longest(ids, 32)
    for result, name in zip(found.recovered.shown, ids, strict=True):
        turn, why = recovery_words(result)
        if not form.symbols:
            yield (*mark("↻", form), Piece(", ".join(filter(None, (name, turn, form.cut(safe(why), 0))))))
            continue
        start = (*mark("↻", form), Piece(f"{form.cut(name, longest).ljust(longest)}  "), Piece(turn, "recovered"))
        room = form.room - width_of_line(start)
        yield (*start, Piece(form.cut(f"  {safe(why)}" if why else "", max(8, room)), "quiet"))
    if found.recovered.left:
        yield (*mark("↻", form), Piece(f"and {found.recovered.left:,} more", "quiet"))
    if found.recovered.shown:
        yield EMPTY


def _spoilt(found: Found, form: Form) -> Iterator[Line]:
    """`! return-2  invalid, not counted: leaked at turn 3: it gives the answer away: ...`"""
    for result in found.spoilt.shown:
        told = form.cut(safe(spoilt_of(result) or ""), 2 * form.room)
        name = form.cut(safe(result.id), LONGEST_ID)
        gap = "  " if form.symbols else ": "
        row = (
            *mark("!", form),
            Piece(name + gap),
            Piece("invalid, not counted", "warn"),
            Piece(f": {told}"),
        )
        yield from paragraph(row, form)
    if found.spoilt.left:
        yield (*mark("!", form), Piece(f"and {found.spoilt.left:,} more were invalid", "quiet"))
    if found.spoilt.number:
        yield EMPTY


def _errors(view: RunView, found: Found, form: Form, traceback: str | None) -> Iterator[Line]:
    """Equal errors once, with their number."""
    for disabled in view.receipt.given_up:
        text = f"{safe(disabled.target)}: {form.cut(safe(disabled.message), 4 * form.room)}"
        yield from paragraph(line(("error: ", "fail"), text), form)
        yield EMPTY
    told = {disabled.message for disabled in view.receipt.given_up}
    for message, group in found.errors.alike.items():
        if not any(one in message for one in told):
            yield from _alike(message, group, view, form)
            yield EMPTY
    if found.errors.others:
        yield line((f"and {count(found.errors.others, 'other error')}", "quiet"))
        yield EMPTY
    if traceback is not None:
        yield line((f"traceback: {safe(traceback)}", "quiet"))
        yield EMPTY


def _alike(message: str, group: Alike, view: RunView, form: Form) -> Iterator[Line]:
    if group.number == 1:
        yield from write_failure(group.first, form, _on(group.first, view))
        return
    text = (
        f"{form.cut(safe(message), 4 * form.room)} in {group.number:,} of {count(view.summary.decided, 'conversation')}"
    )
    yield from paragraph(line(("error: ", "fail"), text), form)
    more = f", {form.dots}" if group.cases > len(group.ids) else ""
    yield line((f"  {form.cut(', '.join(map(safe, group.ids)), form.room - 10)}{more}", "quiet"))


def _on(result: Result, view: RunView) -> str:
    column = column_of(result, view.summary)
    return f"on {safe(column)}" if column else ""


def _failures(view: RunView, found: Found, form: Form) -> Iterator[Line]:
    several = bool(found.columns)
    if several or found.failed.number > SHORT_BLOCKS:
        lines = [(case.deciding, column_of(case.deciding, view.summary)) for case in found.failed.shown]
        widths = _longest((safe(result.id) for result, _ in lines), 24), _longest((safe(name) for _, name in lines), 20)
        yield from (_failure_line(result, column, widths, form) for result, column in lines)
    for case in () if several or found.failed.number > SHORT_BLOCKS else found.failed.shown:
        if found.failed.number > BLOCKS:
            title, *block = write_failed_case(case, form)
            yield title
            yield from islice((row for row in block if any(piece.role == "reason" for piece in row)), 1)
        else:
            yield from write_failed_case(case, form)
            yield EMPTY
    if found.failed.left:
        yield line(f"and {found.failed.left:,} more: ", "rejoinder show --failed")
    if found.failed.number and (several or found.failed.number > BLOCKS):
        yield EMPTY


def _longest(texts: Iterable[str], most: int) -> int:
    return min(most, max(map(columns_of, texts), default=0))


def _failure_line(result: Result, column: str, widths: tuple[int, int], form: Form) -> Line:
    """`✗ refund  terse  icontains "receipt"  < You can bring it back.`"""
    found, reason = against(result)[:1], first_reason(result)
    why = "" if reason is None else safe(": ".join(filter(None, (reason.where, reason.what, reason.told))))
    decided = found[0].turn if found and found[0].turn is not None else result.turns[-1] if result.turns else None
    is_silent = decided is None or decided.response is None
    if not form.symbols:
        reply = "" if is_silent else safe(said_of(result, PARAGRAPH)) or "(empty reply)"
        where = f" on {safe(column)}" if column else ""
        replied = f"; replied: {form.cut(reply, 0)}" if reply else ""
        denied = None if decided is None else not_allowed(decided)
        replied += f"; {safe(denied)}" if denied else ""
        return (*mark("✗", form), Piece(f"{safe(result.id)}{where}: {form.cut(why, 0)}{replied}"))
    name = form.cut(safe(result.id), widths[0]).ljust(widths[0])
    where = f"  {form.cut(safe(column), widths[1]).ljust(widths[1])}" if column else ""
    start = (*mark("✗", form), Piece(name), Piece(where, "quiet"), Piece("  "))
    room = max(10, form.room - width_of_line(start))
    shown = Piece(form.cut(why, room), "reason")
    left = room - columns_of(shown.text) - 4
    if is_silent or left < LEAST_REPLY:
        return (*start, shown)
    reply = safe(said_of(result, left - 4)) or "(empty reply)"
    return (*start, shown, Piece(f"  < {form.cut(reply, left)}", "quiet"))


_STRIP: dict[str, tuple[str, str, Role]] = {
    "passed": ("✓", ".", "pass"),
    "recovered": ("↻", "R", "recovered"),
    "failed": ("✗", "F", "fail"),
    "error": ("!", "E", "error"),
    "skipped": ("–", "s", "quiet"),
}
"""How a trial went: as a sign, as a letter, and its role."""
_SIGN = {True: "✓", False: "✗"}


def _strips(view: RunView, found: Found, form: Form) -> Iterator[Line]:
    """A line for each case whose trials did not all pass, with how each went."""
    if not found.uneven.number:
        return
    if found.failed.number:
        yield line(("one failing trial of each; all: ", "quiet"), "rejoinder show --failed")
        yield EMPTY
    ids = [" ".join(filter(None, (safe(case.first.id), _on(case.first, view)))) for case in found.uneven.shown]
    longest = _longest(ids, 40)
    for case, name in zip(found.uneven.shown, ids, strict=True):
        bounds = (0.0, 1.0) if case.rate is None or case.rate.interval is None else case.rate.interval
        ways = [_STRIP["recovered" if trial.recovered else trial.status] for trial in case.listed[:MOST_TRIALS]]
        trials = [Piece(sign if form.symbols else letter, role) for sign, letter, role in ways]
        word = "error" if case.status == "error" else "flaky" if case.passed else "failed"
        wanted = "" if case.first.needed is None else f", {case.first.needed[0]} of {case.first.needed[1]} needed"
        numbers = f"  {case.passed} of {case.finished}  {rate_range(bounds)}  "
        role: Role = "warn" if word == "flaky" else "fail"
        sign = (_error_mark(form), Piece(" ")) if word == "error" else mark(_SIGN[case.status == "passed"], form)
        start = (*sign, Piece(f"{form.cut(name, longest).ljust(longest)}  "))
        yield (*start, *trials, Piece(numbers, "quiet"), Piece(word, role), Piece(wanted, "quiet"))
    if found.uneven.left:
        yield line((f"and {found.uneven.left:,} more", "quiet"))
    if found.steady:
        others = count(found.steady, "other" if found.columns else "other case")
        after = f", {found.steady_recovered:,} with follow-ups" if found.steady_recovered else ""
        yield (*mark("✓", form), Piece(f"{others}, every trial passed{after}", "quiet"))
    yield EMPTY


def _clusters(view: RunView, found: Found, form: Form, since: SinceBaseline | None) -> Iterator[Line]:
    """Reasons that several conversations share, unless the errors above are all of them."""
    shared = shared_clusters(view.summary, MOST_CLUSTERS, None if since is None else since.known)
    told = {
        (key.kind, key.key, one.number)
        for one in found.errors.alike.values()
        for key in cluster_keys(one.first)
        if key.kind == "error"
    }
    if all((row.cluster.kind, row.cluster.key, row.number) in told for row in shared):
        return
    yield line((why_words(view.summary), "quiet"))
    width = len(f"{max(row.number for row in shared):,}")
    for row in shared:
        new = f", {NEW}" if row.is_new else ""
        words = form.cut(safe(row.words), max(LEAST_REPLY, form.room - width - len(new) - 4))
        yield line(f"  {row.number:>{width},}  {words}", (new, "warn"))
    yield EMPTY


def _facts(view: RunView, form: Form) -> Iterator[Line]:
    """Suite, target, cases, time, tokens, cost and run. Tokens leave first if there is too little room."""
    receipt, summary = view.receipt, view.summary
    suites = ", ".join(dict.fromkeys(safe(suite.title) for suite in receipt.suites))
    targets = list(summary.by_target) or [target.name for target in receipt.targets]
    on = [Piece(" on "), Piece(safe(targets[0]), "name")] if len(targets) == 1 else []
    on += [Piece(f", {safe(name)}") for name in summary.by_variant if len(summary.by_variant) == 1]
    facts = {kind: fact.short if form.symbols else fact.said for kind, fact in view.facts.items()}
    told = (", ".join(facts[kind] for kind in kinds if kind in facts) for kinds in _FACTS)
    rows = [(Piece(suites, "name"), *on, Piece(f", {text}", "quiet")) for text in told]
    fitting = (row for row in rows if form.edge is None or width_of_line(row) <= form.edge)
    yield from paragraph(next(fitting, rows[-1]), form)


_FACTS: tuple[tuple[FactKind, ...], ...] = (
    ("cases", "took", "tokens", "cost", "run"),
    ("cases", "took", "cost", "run"),
    ("cases", "run"),
)
"""Facts of a line, and those that stay if there is too little room."""
_ABOVE = ("given-up", "origin")
"""Notes that the screen says elsewhere: an error, and the command that made the run."""


def _notes(view: RunView, form: Form, extras: Extras) -> Iterator[Line]:
    """Notes on the result, directly above it."""
    for note in view.notes:
        if note.warns:
            yield from paragraph((*mark("!", form), Piece(safe(note.text), "warn")), form)
        elif note.kind not in _ABOVE:
            yield from paragraph(line((safe(note.text), "quiet")), form)
    if extras.corrected:
        for text in map(corrected_words_of, view.summary.judges):
            yield from paragraph(line((safe(text), "quiet")), form)


def _result(view: RunView, found: Found, form: Form) -> Iterator[Line]:
    """The verdict in a line: what failed first, and the rate at its right edge if there is an honest one."""
    summary, early = view.summary, view.early
    if summary.no_rate == "untested":
        said = [Piece(f"{early}: ", "warned")] if early else []
        said.append(Piece(f"nothing was tested: {count(summary.errors, 'error')}", "fail"))
        if left := _left(view):
            said.append(Piece(f", {left} of {summary.decided:,}", "quiet"))
        yield from _with_rate((_error_mark(form), Piece(" "), *said), line(("no rate", "quiet")), form)
        return
    unmeasured = summary.spoilt.cases if summary.spoilt is not None else 0
    if unmeasured and not summary.finished:
        said = (
            Piece(f"nothing was measured: {count(summary.total - summary.decided, 'conversation')} invalid", "fail"),
        )
        yield from _with_rate((_error_mark(form), Piece(" "), *said), line(("no rate", "quiet")), form)
        return
    if summary.all_in_quarantine:
        sign = (_error_mark(form), Piece(" ")) if summary.errors_in_quarantine else mark("?", form)
        yield from _with_rate((*sign, Piece(quarantine_words(summary), "warned")), line(("no rate", "quiet")), form)
        return
    if summary.by_case.failed and not early:  # some trials may fail
        parts = list(mark("✗", form))
    elif early:
        parts = [*mark("!", form), Piece(f"{early}: ", "warned")]
    else:
        parts = [_error_mark(form), Piece(" ")] if summary.errors or unmeasured else list(mark("✓", form))
    if summary.has_repeats:
        parts += _by_case(view, found)
        if left := _left(view, " trials"):
            parts.append(Piece(f", {left}", "quiet"))
        parts += _worse({name: one.by_case.failed + one.by_case.errors for name, one in view.groups})
    else:
        parts += _counted(view)
    if unmeasured:
        parts.append(Piece(f", {count(unmeasured, 'case')} not measured", "fail"))
    yield from _with_rate(tuple(parts), _rate(view, form), form)


def _error_mark(form: Form) -> Piece:
    return Piece("!" if form.symbols else "ERROR", "error")


def _with_rate(left: Line, right: Line, form: Form) -> Iterator[Line]:
    if form.edge is not None:
        yield from beside(left, right, form.edge)
    else:
        yield (*left, *([Piece(", ")] if right else []), *right)


def _left(view: RunView, what: str = "") -> str:
    """`7 not started`: the conversations that the run did not come to; empty if there are none."""
    left = view.summary.skipped + max(0, view.summary.unfinished)
    return f"{left:,}{what} not {'finished' if view.early else 'started'}" if left else ""


def _counted(view: RunView) -> list[Piece]:
    summary = view.summary
    listed: list[Piece] = []
    if summary.failed:
        listed.append(Piece(f"{summary.failed:,} failed", "fail"))
    if summary.errors:
        listed.append(Piece(count(summary.errors, "error"), "fail"))
    if summary.passed:
        listed.append(Piece(f"{summary.passed:,} passed", "pass"))
    if left := _left(view):
        listed.append(Piece(left, "quiet"))
    pieces = [piece for one in listed for piece in (Piece(", "), one)][1:]
    pieces.append(Piece(f" of {summary.decided:,}"))
    worse = _worse({name: one.failed + one.errors for name, one in view.groups})
    pieces += worse
    if summary.recovered and not worse:
        pieces += [
            Piece(f" ({summary.passed_at_once:,} first try, ", "quiet"),
            Piece(f"{summary.recovered:,} recovered", "recovered"),
            Piece(")", "quiet"),
        ]
    return pieces


def _worse(lost: dict[str, int]) -> list[Piece]:
    """`: tiny 3, cold 1`: how many did not pass on each target or variant."""
    worse = {name: number for name, number in lost.items() if number}
    named = [f"{safe(name)} {number:,}" for name, number in islice(worse.items(), MOST_WORSE)]
    more = [f"and {len(worse) - MOST_WORSE:,} more"] if len(worse) > MOST_WORSE else []
    return [Piece(f": {', '.join([*named, *more])}", "quiet")] if named else []


def _by_case(view: RunView, found: Found) -> list[Piece]:
    """`3 of 12 cases failed (1 always, 2 flaky), 2 had errors, 7 passed (1 flaky)`."""
    cases, of = view.summary.by_case, f" of {count(view.summary.by_case.total, 'case')}"
    kinds = f" ({found.always:,} always, {cases.failed - found.always:,} flaky)"
    told: list[tuple[int, str, Role, str]] = [
        (cases.failed, "failed", "fail", kinds),
        (cases.errors, "had errors", "fail", ""),
        (cases.passed, "passed", "pass", f" ({found.flaky:,} flaky)" if found.flaky else ""),
    ]
    pieces: list[Piece] = []
    for number, word, role, more in told:
        if number:
            gap = [Piece(", ")] if pieces else []
            pieces += [*gap, Piece(f"{number:,}{'' if pieces else of} {word}", role), Piece(more, "quiet")]
    return pieces


def _rate(view: RunView, form: Form) -> Line:
    """The rate, or why there is none."""
    from rejoinder.words.figures import without_errors_words

    summary, found = view.summary, rate_of(view.summary)
    tested = without_errors_words(summary.without_errors)
    if found is None:
        words = _why_none(view, form)
        return line((words, "quiet")) if words else EMPTY
    if found.rate is None or found.interval is None or summary.finished < 2:
        return EMPTY
    if summary.has_repeats and summary.recovery:  # the table has it
        return line((tested, "quiet")) if tested else EMPTY
    rate = percent(found.rate, found.cases, found.interval)
    is_rest = view.receipt.reported.failed_from is not None
    only = f" of the {summary.finished:,} that did not pass before" if is_rest else ""
    trials, bounds = of_trials(summary), bounds_words(summary.spoilt)
    notes = f"{bounds and f', {bounds}'}{tested and f'; {tested}'}"
    shown = f"{trials} ({rate_range(found.interval)}){only}{notes}"
    return line((rate, "name"), (shown, "quiet"))


def _why_none(view: RunView, form: Form) -> str:
    """Empty for several targets and variants: a table above has their rates."""
    summary = view.summary
    words = condition_rates(summary) or why_no_rate(summary)
    return f"of {summary.finished:,}, {words}" if form.symbols and words == "no rate yet" else words
