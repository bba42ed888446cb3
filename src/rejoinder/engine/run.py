"""A run: suites loaded, a folder opened, conversations played, results derived.

`start_run` begins a new run and `resume_run` takes one up again. Both play the same conversations by the same rules;
they differ only in where answers come from.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import finalize

import msgspec
from msgspec import Struct

from rejoinder._version import __version__
from rejoinder.engine.crash_points import reached
from rejoinder.engine.earlier import Earlier, Purpose, tape_of
from rejoinder.engine.embeddings import Vectors
from rejoinder.engine.folder import RunFolder, create_grades, create_run, runs_folder, write_lines
from rejoinder.engine.journal import History, read_journal
from rejoinder.engine.plan import RunOptions
from rejoinder.engine.receipt import case_lines, now, suite_record, write_receipt
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.results import Outline, Record, Spool, add_costs, read_outlines
from rejoinder.engine.seal import write_seal
from rejoinder.engine.session import Observer, Session, with_budgets
from rejoinder.engine.sources import Tape, without_words
from rejoinder.engine.summary import exit_code, summarise
from rejoinder.errors import UsageError, reason_of
from rejoinder.model import Suite


class Results(Sequence[Record]):
    """The results of a run, read from the disk: one at a time when walked through, all of them when indexed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Record]:
        return (outline.read() for outline in self.outlines())

    def outlines(self) -> Iterator[Outline]:
        """How each conversation ended; for those who do not want to read them all."""
        return read_outlines(self._path)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


class Scratch:
    """A folder that is deleted with this object, or when the process ends."""

    def __init__(self) -> None:
        from shutil import rmtree
        from tempfile import mkdtemp

        self.path = Path(mkdtemp(prefix="rejoinder-"))
        self._gone = finalize(self, rmtree, self.path, ignore_errors=True)


class RunReport(Struct, frozen=True):
    """What a run came to. Results are read from the disk, one at a time."""

    run: Record
    summary: Record
    folder: RunFolder
    derived: Scratch | None = None
    """Where results lie that were derived only to be shown; it goes with the report."""

    @property
    def results(self) -> Results:
        return Results(self.folder.results if self.derived is None else self.derived.path / "results.jsonl")

    def document(self) -> Record:
        return {"run": self.run, "summary": self.summary, "results": list(self.results)}


def start_run(
    suites: list[Suite],
    options: RunOptions,
    observer: Observer | None = None,
    *,
    before: Earlier | None = None,
    tape: Tape | None = None,
    root: Path | None = None,
    sealed: bool = True,
) -> RunReport:
    """Run suites in a new folder; new grades of a run lie among that run's grades.

    The folder is in the project of `root`, else in that of the first suite. `sealed`: may the run's copy of its suites
    be used again without asking the user?
    """
    root = root or Path(suites[0].root)
    try:
        folder = _create_folder(root, before)
        folder.lock()
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "it is a file, and a folder is needed" if is_file else reason_of(error)
        raise UsageError(f"no run can be kept in {root}: {error.filename or root}: {reason}") from None
    with contextlib.ExitStack() as opened:
        opened.callback(folder.unlock)
        try:
            session = Session(suites, options, folder, observer or Observer(), before=before, tape=tape)
            opened.callback(session.close)
            if session.survey.planned == 0:
                raise UsageError("no case is selected, so nothing was sent", "Look at --case, --tag and --limit.")
            folder.write("suite.json", suite_record(suites, options, root), session.mask)
            write_lines(folder.path / "cases.jsonl", case_lines(suites), session.mask)
            if reason := write_seal(folder.path, folder.id) if sealed else "it is made from a copy without one":
                folder.log(f"without a seal: {reason}")
            run = write_receipt(folder, suites, options, session.survey, session.model_of)
            if before is not None:
                run[f"{before.purpose}_of"] = ", ".join(one.folder.id for one in before.recorded)
                run["sources"] = [str(one.folder.path) for one in before.recorded]
            folder.write("run.json", run)
        except BaseException as error:
            folder.discard()  # nothing was sent, so there is nothing to keep
            if isinstance(error, OSError):
                reason = reason_of(error)
                raise UsageError(f"{folder.path} cannot be written: {reason}") from None
            raise
        reached("run.created")
        return _work(session, run, None, root)


def _create_folder(root: Path, before: Earlier | None) -> RunFolder:
    if before is not None and before.purpose == "grade":
        return create_grades(root, before.recorded[0].folder.id)
    return create_run(root)


def resume_run(
    recorded: RecordedRun,
    suites: list[Suite],
    options: RunOptions,
    observer: Observer | None = None,
    *,
    retry_errors: bool = False,
) -> RunReport:
    """Go on with a run: what is recorded is not asked again, except, when wanted, what ended in an error."""
    folder = recorded.folder
    folder.lock()
    try:
        run = folder.read("run.json")
        if run is None:
            raise UsageError(f"{folder.path} holds no run that can be resumed")
        before = _earlier_of(recorded, run, with_budgets(options, suites))
        if before is not None and before.purpose == "ask":
            folder.journal.touch()  # it may have sent nothing yet, but its parts have
        tape = tape_of(options, suites, recorded.root)
        with contextlib.ExitStack() as opened:
            opened.enter_context(_held_for_grading(before))
            session = Session(suites, options, folder, observer or Observer(), before=before, tape=tape)
            opened.callback(session.close)
            session.refuse_other_models(run)
            history = session.take_up(recorded.mask_for(session.mask)) if folder.journal.exists() else None
            if retry_errors:
                history = session.ask_errors_again(history)
            return _work(session, run, history, recorded.root)
    finally:
        folder.unlock()


def grade_run(
    recorded: RecordedRun, suites: list[Suite], options: RunOptions, observer: Observer
) -> tuple[RunReport, RunReport]:
    """New grades of a run, and the grades that it had. Nobody can delete it meanwhile."""
    before = Earlier((recorded,), "grade")
    with _held_for_grading(before):
        old = read_run(recorded.folder, recorded.root)
        if old is None:
            old = _derive_run(recorded, recorded.copies() or recorded.suites(asks=False))
        sealed = not recorded.uses_copy
        return old, start_run(suites, options, observer, before=before, root=recorded.root, sealed=sealed)


def _held_for_grading(before: Earlier | None) -> contextlib.AbstractContextManager[None]:
    """Keeps a run from being deleted while it is graded. A folder outside of the project is not locked."""
    if before is None or before.purpose != "grade":
        return contextlib.nullcontext()
    recorded = before.recorded[0]
    if recorded.folder.path.parent != runs_folder(recorded.root):
        return contextlib.nullcontext()
    return recorded.folder.held()


_RESUMED_AS: dict[str, Purpose] = {"replay_of": "replay", "grade_of": "grade", "merge_of": "ask"}
"""What earlier runs answer for when a run that was made from them goes on: a merge asks what its parts lack."""


def _earlier_of(recorded: RecordedRun, run: Record, options: RunOptions) -> Earlier | None:
    """The runs that a run was made from. Raises UsageError where one is gone and wanted."""
    purpose: Purpose | None = next((_RESUMED_AS[key] for key in _RESUMED_AS if key in run), None)
    if purpose is None:
        return None
    found = [(path, _find_source(path, recorded.root)) for path in run.get("sources", ())]
    gone = [path for path, source in found if source is None]
    has_budget = options.budget_usd is not None or options.budget_tokens is not None
    if gone and purpose == "ask" and not run.get("taken_over"):
        raise UsageError(
            f"the merge {recorded.folder.id} was cut off, and one of its parts is gone: {gone[0]}",
            "Put it back, or merge the parts that are there again.",
        )
    if gone and purpose == "ask" and has_budget:
        raise UsageError(
            f"the budget of {recorded.folder.id} counts what its parts have spent, and one of them is gone: {gone[0]}",
            "Put it back, or start a new run.",
        )
    if purpose != "ask" and (gone or not found):
        raise UsageError(f"run {recorded.folder.id} was made from a run that is gone: {(gone or ['?'])[0]}")
    return Earlier(tuple(RecordedRun(source, recorded.root) for _, source in found if source is not None), purpose)


def _find_source(path: str, root: Path) -> RunFolder | None:
    """A run by the path that it had, or by its name among the project's runs."""
    there = [RunFolder(runs_folder(root) / Path(path).name), RunFolder(Path(path))]
    return next((one for one in there if one.journal.is_file()), None)


def read_run(folder: RunFolder, root: Path) -> RunReport | None:
    """A run that came to an end, as it was written down; None when it did not."""
    run, summary = folder.read("run.json"), folder.read("summary.json")
    if run is None or summary is None or run["status"] == "running" or not folder.results.exists():
        return None
    _add_passports(summary, run, root)  # a judge may have been tested since
    return RunReport(_shown(run), summary, folder)


def is_consistent(report: RunReport) -> bool:
    """Do the figures of a recorded run agree with its results?"""
    try:
        counted = summarise(report.folder.results, report.run["planned"], report.summary["duration_s"])
    except (msgspec.MsgspecError, ArithmeticError, ValueError, LookupError):
        return False
    counted = msgspec.to_builtins(counted)
    return all(report.summary.get(name) == value for name, value in counted.items() if name not in _FILLED_IN_LATER)


_FILLED_IN_LATER = frozenset({"judges", "total_tokens", "total_cost"})
"""What a summary has of passports and embeddings is not counted from results."""


def show_run(recorded: RecordedRun) -> RunReport:
    """What a run came to, from what it has written down, or else from its journal. Nothing is asked or written."""
    return read_run(recorded.folder, recorded.root) or _derive_run(recorded, recorded.suites(asks=False))


def _derive_run(recorded: RecordedRun, suites: list[Suite]) -> RunReport:
    folder = recorded.folder
    run = folder.read("run.json")
    if run is None or not folder.journal.exists():
        raise UsageError(f"{folder.path} holds no run that can be shown")
    session = Session(suites, recorded.options(), folder, Observer(), ask=False)
    scratch = Scratch()
    spool = Spool(scratch.path)
    ending = asyncio.run(session.play(spool, read_journal(folder.journal, recorded.mask_for(session.mask))))
    if ending.failure is not None:
        raise ending.failure
    status = "running" if folder.is_busy else "killed"
    run = {
        **run,
        "status": status,
        "planned": session.survey.planned,
        "finished_at": None,
        "in_doubt": ending.in_doubt,
    }
    return RunReport(_shown(run), _summary(session, run, spool.finish(), recorded.root), folder, scratch)


def _work(session: Session, run: Record, history: History | None, root: Path) -> RunReport:
    folder, planned = session.folder, session.survey.planned
    started = time.monotonic()
    folder.log(f"rejoinder {__version__}: {planned} conversations, {'resumed' if history else 'started'}")
    if run["status"] != "running" or run["planned"] != planned:
        folder.write("run.json", {**run, "status": "running", "planned": planned})
    spool = Spool(folder.path)
    ending = asyncio.run(session.play(spool, history))
    if ending.failure is not None:
        spool.abandon()
        raise ending.failure
    stale = session.stale(ending.status)
    if "merge_of" in run and ending.status == "completed":
        run = {**run, "taken_over": True}  # all that the parts have been told is here, too
    duration = round(run["duration_s"] + time.monotonic() - started, 6)
    run = {
        **run,
        "status": ending.status,
        "planned": planned,
        "finished_at": now(),
        "in_doubt": ending.in_doubt,
        "limits": [msgspec.to_builtins(one) for one in ending.limits if one.refused or one.waited_s],
        "given_up": [
            {
                "target": target.name,
                "type": session.mask.hide_text(why.type),
                "message": session.mask.hide_text(why.message),
            }
            for target, why in ending.given_up
        ],
        "duration_s": duration,
        **({"stale": stale} if stale or "stale" in run else {}),
        **({"from_cache": _from_cache(session, history)} if session.options.cache else {}),
        **({"budget": session.budget.record()} if session.budget is not None else {}),
    }
    try:
        summary = _write_down(session, run, spool, root)
    except OSError as error:
        raise session.failure(error) from None
    folder.log(f"{ending.status}: {summary['passed']} passed, {summary['failed']} failed, {summary['errors']} errors")
    return RunReport(_shown(run), summary, folder)


def _write_down(session: Session, run: Record, spool: Spool, root: Path) -> Record:
    """Results, summary and receipt, in this order: a receipt that says `completed` has everything beside it."""
    summary = _summary(session, run, spool.finish(), root)
    session.folder.write("summary.json", summary)
    reached("summary.written")
    session.folder.write("run.json", run)
    reached("run.closed")
    return summary


def _summary(session: Session, run: Record, results: Path, root: Path) -> Record:
    summary = summarise(results, run["planned"], run["duration_s"])
    summary["exit_code"] = exit_code(summary, run["status"])
    summary["limits"] = run.get("limits", [])
    _add_embeddings(summary, session.vectors)
    _add_passports(summary, run, root)
    return summary


def _from_cache(session: Session, history: History | None) -> Record:
    """How many answers were not asked for, and what of the run's tokens and cost was not spent for that reason."""
    told = history.told.values() if history is not None else ()
    before = [one.reply for one in told if one.reply is not None]
    used = [without_words(reply) for reply in before if reply.cached]
    used += session.kept.used if session.kept is not None else []
    asked = {without_words(reply) for reply in before if not reply.cached}
    asked.update(session.keeping.asked if session.keeping is not None else ())
    trouble = session.keeping.trouble if session.keeping is not None else None
    return {
        "answers": len(used),
        "repeated": sum(reply in asked for reply in used),
        "tokens": sum(reply.usage.total_tokens for reply in used),
        "cost": add_costs(sorted(reply.cost for reply in used if reply.cost is not None)),
        **({"trouble": trouble} if trouble else {}),
    }


def _add_embeddings(summary: Record, vectors: Vectors) -> None:
    """What embeddings used: they belong to the run, because conversations share them."""
    cost = None if None in vectors.costs else add_costs(sorted(one for one in vectors.costs if one is not None))
    tokens = vectors.usage.input_tokens
    summary["embeddings"] = {"texts": len(vectors.costs), "tokens": tokens, "cost": cost}
    summary["total_tokens"] += tokens
    if (
        cost is not None
        and not summary["unpriced"]
        and (summary["judge_cost"] is not None or not summary["judge_usage"]["total_tokens"])
    ):
        summary["total_cost"] = (summary["total_cost"] or 0.0) + cost
    elif vectors.costs and cost is None and vectors.paid:
        summary["total_cost"] = None  # a part of it is not known


def _add_passports(summary: Record, run: Record, root: Path) -> None:
    if summary.get("judges"):
        from rejoinder.engine.passports import add_passports

        add_passports(summary["judges"], run, root)


def _shown(run: Record) -> Record:
    """The receipt as documents show it; its duration stands in the summary."""
    shown = {key: value for key, value in run.items() if key not in ("duration_s", "sources")}
    return {**shown, "parts": run.get("sources", [])} if "merge_of" in run else shown
