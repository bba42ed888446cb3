"""The end of a session's run: its line, its gate, and whether it fails the session."""

from __future__ import annotations

from msgspec import Struct

from rejoinder.api import show
from rejoinder.errors import RejoinderError
from rejoinder.exports.junit import properties_of_run
from rejoinder.gates.verbs import confirm_of, gate_started, why_undecided
from rejoinder.model.boards import parts_of
from rejoinder.model.figures import NoRate
from rejoinder.pytest_plugin.shared import SharedFolder
from rejoinder.report.gate import result_words, write_rules
from rejoinder.report.styled import Form
from rejoinder.runs.report import RunReport
from rejoinder.views.notes import notes_of
from rejoinder.words.figures import no_rate_words, quarantine_words, rate_words, sample_words
from rejoinder.words.inert import one_line
from rejoinder.words.numbers import count

FORM = Form(symbols=True)


class Conclusion(Struct, kw_only=True):
    rows: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    fails: bool
    """Whether the session must not pass, whatever its tests say."""
    counts: bool = True
    """Whether any case counts, and not only in quarantine."""
    properties: tuple[tuple[str, str], ...] = ()


def conclude(shared: SharedFolder) -> Conclusion | None:
    """None if no run was started."""
    run, ended = shared.run, shared.ended
    if run is None or not (run / "run.json").exists():
        return None if ended is None else Conclusion(rows=(f"no run: {_first(ended.problem)}",), fails=True)
    resume = f"rejoinder resume {run.name}"
    if ended is None or ended.problem:
        problem = "the process that played it was killed" if ended is None else _first(ended.problem)
        return Conclusion(rows=(f"run {run.name} is not finished: {problem}; next: {resume}",), fails=True)
    try:
        return _of_report(show(run))
    except RejoinderError as error:
        return Conclusion(rows=(f"run {run.name} cannot be read: {_first(str(error))}",), fails=True)


def _first(text: str) -> str:
    return one_line(text.partition("\n")[0])


def _of_report(report: RunReport) -> Conclusion:
    run, summary = report.run, report.summary
    is_whole = run.is_completed and not summary.unfinished and not summary.skipped
    next_step = f"rejoinder {'show' if is_whole else 'resume'} {run.id}"
    row = f"{rate_line(report)}; run {run.id}: {next_step}"
    found = Conclusion(
        rows=(row if run.is_completed else f"{row} ({run.status})",),
        fails=not is_whole or (summary.all_in_quarantine and summary.errors_in_quarantine > 0),
        counts=not summary.all_in_quarantine,
        warnings=tuple(one_line(note.text) for note in notes_of(run, summary) if note.kind == "replayed"),
        properties=tuple(properties_of_run(report)),
    )
    confirm = confirm_of(report)
    if confirm is not None:
        _decide(report, found)
    return found


def rate_line(report: RunReport) -> str:
    """`80% (55 to 93), 12 of 15 passed`, the rate of each target, variant or pair if there are several, or why there is
    no rate."""
    summary, rate = report.summary, report.summary.rate
    if summary.all_in_quarantine:
        return quarantine_words(summary)
    if not isinstance(rate, NoRate):
        return f"{rate_words(rate)}, {sample_words(rate)}"
    parts = [(one.name, one.part.rate) for one in parts_of(report.run, summary)]
    rates = [f"{one_line(name)} {rate_words(part)}" for name, part in parts if not isinstance(part, NoRate)]
    if rate.is_of_several and rates:
        return f"{summary.passed:,} of {count(summary.decided, 'conversation')} passed; {', '.join(rates)}"
    return f"{summary.passed:,} of {summary.decided:,} passed; {no_rate_words(rate, summary.decided)}"


def _decide(report: RunReport, found: Conclusion) -> None:
    """Add the verdict of the gate. A gate does not hide how a run ended."""
    confirm = confirm_of(report)
    assert confirm is not None
    if report.summary.exit_code not in (0, 1):
        found.fails = True
        found.rows += (f"the gate does not decide: {why_undecided(report)}",)
        return
    try:
        gate, _ = gate_started(report, confirm)
    except RejoinderError as error:
        found.fails = True
        found.rows += (f"the gate does not decide: {_first(str(error))}",)
        return
    rules = ("".join(piece.text for piece in row).rstrip() for row in write_rules(gate, FORM))
    words = (f"{result_words(gate)}, against {confirm.against}", *rules)
    if gate.verdict == "cannot-tell":
        found.warnings += words
    else:
        found.rows += words
    found.fails = found.fails or gate.verdict == "fail"
