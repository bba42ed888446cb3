"""A run: suites loaded, a folder opened, conversations played, results derived.

`start_run` begins a new run and `resume_run` takes one up again. Both play the same conversations by the same rules;
they differ only in where answers come from.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder._version import __version__
from rejoinder.engine.earlier import Earlier, tape_of
from rejoinder.engine.folder import RunFolder, create_run, find_run, runs_folder, write_lines
from rejoinder.engine.journal import History, read_journal
from rejoinder.engine.plan import RunOptions
from rejoinder.engine.points import reached
from rejoinder.engine.receipt import case_lines, now, suite_record, write_receipt
from rejoinder.engine.results import Outline, Record, Spool, add_costs, read_outlines
from rejoinder.engine.session import Observer, Session, with_budgets
from rejoinder.engine.sources import Tape
from rejoinder.engine.summary import exit_code, summarise
from rejoinder.engine.vectors import Vectors
from rejoinder.errors import UsageError
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


class RunReport(Struct, frozen=True):
    """What a run came to. Results are read from the disk, one at a time."""

    run: Record
    summary: Record
    folder: RunFolder

    @property
    def results(self) -> Results:
        return Results(self.folder.results)

    def document(self) -> Record:
        return {"run": self.run, "summary": self.summary, "results": list(self.results)}


def start_run(
    suites: list[Suite],
    options: RunOptions,
    observer: Observer | None = None,
    *,
    before: Earlier | None = None,
    tape: Tape | None = None,
    inside: RunFolder | None = None,
    root: Path | None = None,
) -> RunReport:
    """Run suites in a new folder, or in one inside another run's: new grades lie beside the old ones.

    The folder is in the suites' project, or in that of `root`: suites of another machine have theirs there.
    """
    root = root or Path(suites[0].root)
    try:
        folder = create_run(root) if inside is None else inside.create_inside()
        folder.lock()
    except OSError as error:
        raise UsageError(f"no run can be kept in {root}: {(error.strerror or str(error)).lower()}") from None
    try:
        try:
            session = Session(suites, options, folder, observer or Observer(), before=before, tape=tape)
            if session.survey.planned == 0:
                raise UsageError("no case is selected, so nothing was sent", "Look at --case, --tag and --limit.")
            folder.write("suite.json", suite_record(suites, options), session.mask)
            write_lines(folder.path / "cases.jsonl", case_lines(suites), session.mask)
            run = write_receipt(folder, suites, options, session.survey, session.model_of)
            if before is not None:
                run[f"{before.purpose}_of"] = ", ".join(one.id for one in before.folders)
                if before.purpose == "merge":
                    run["parts"] = [str(one.path) for one in before.folders]
            folder.write("run.json", run)
        except BaseException as error:
            folder.discard()  # nothing was sent, so there is nothing to keep
            if isinstance(error, OSError):
                reason = (error.strerror or str(error)).lower()
                raise UsageError(f"{folder.path} cannot be written: {reason}") from None
            raise
        reached("run.created")
        return _work(session, run, None)
    finally:
        folder.unlock()


def resume_run(
    folder: RunFolder,
    suites: list[Suite],
    options: RunOptions,
    observer: Observer | None = None,
    *,
    retry_errors: bool = False,
) -> RunReport:
    """Go on with a run: what is recorded is not asked again, except, when wanted, what ended in an error."""
    folder.lock()
    try:
        run = folder.read("run.json")
        if run is None:
            raise UsageError(f"{folder.path} holds no run that can be resumed")
        # A run that plays another one goes on playing it, and asks nobody.
        replayed = run.get("replay_of")
        before = Earlier((find_run(folder.root, replayed),)) if replayed else None
        if "grade_of" in run:
            before = Earlier((RunFolder(folder.path.parent.parent),), "grade")
        if "parts" in run:
            before = Earlier(_parts_of(folder, run, with_budgets(options, suites)), "ask")
            folder.journal.touch()  # it may have asked nobody yet, but they have
        tape = tape_of(options, suites, folder)
        session = Session(suites, options, folder, observer or Observer(), before=before, tape=tape)
        session.refuse_other_models(run)
        history = session.take_up() if folder.journal.exists() else None
        if retry_errors:
            history = session.ask_errors_again(history)
        return _work(session, run, history)
    finally:
        folder.unlock()


def _parts_of(folder: RunFolder, run: Record, options: RunOptions) -> tuple[RunFolder, ...]:
    """The runs that one was merged from. Raises UsageError where one is gone and wanted."""
    found: list[RunFolder] = []
    for part in run["parts"]:
        there = [RunFolder(path) for path in (Path(part), runs_folder(folder.root) / Path(part).name)]
        known = next((one for one in there if one.journal.is_file()), None)
        if known is not None:
            found.append(known)
        elif not run.get("taken_over"):
            raise UsageError(
                f"the merge {folder.id} was cut off, and one of its parts is gone: {part}",
                "Put it back, or merge the parts that there are anew.",
            )
        elif options.budget_usd is not None or options.budget_tokens is not None:
            raise UsageError(
                f"the budget of {folder.id} counts what its parts have spent, and one of them is gone: {part}",
                "Put it back, or start a new run.",
            )
    return tuple(found)


def read_run(folder: RunFolder) -> RunReport | None:
    """A run that came to an end, as it was written down; None when it did not."""
    run, summary = folder.read("run.json"), folder.read("summary.json")
    if run is None or summary is None or run["status"] == "running" or not folder.results.exists():
        return None
    _add_passports(summary, run, folder)  # a judge may have been tested since
    return RunReport(_shown(run), summary, folder)


def derive_run(folder: RunFolder, suites: list[Suite], options: RunOptions) -> RunReport:
    """What a run came to before its process was killed, from its journal alone. Nothing is asked."""
    folder.lock()
    try:
        run = folder.read("run.json")
        if run is None or not folder.journal.exists():
            raise UsageError(f"{folder.path} holds no run that can be shown")
        session = Session(suites, options, folder, Observer(), ask=False)
        history = read_journal(folder.journal, session.mask)
        return _work(session, run, history)
    finally:
        folder.unlock()


def _work(session: Session, run: Record, history: History | None) -> RunReport:
    folder, planned, ask = session.folder, session.survey.planned, session.notes
    started = time.monotonic()
    folder.log(f"rejoinder {__version__}: {planned} conversations, {'resumed' if history else 'started'}")
    if ask and (run["status"] != "running" or run["planned"] != planned):
        folder.write("run.json", {**run, "status": "running", "planned": planned})
    spool = Spool(folder.path)
    ending = asyncio.run(session.play(spool, history))
    if ending.failure is not None:
        spool.abandon()
        raise ending.failure
    stale = session.stale(ending.status)
    if ask and "parts" in run and ending.status == "completed":
        run = {**run, "taken_over": True}  # all that the parts have been told is here, too
    duration = round(run["duration_s"] + (time.monotonic() - started if ask else 0), 6)
    run = {
        **run,
        "status": ending.status if ask else "killed",
        "planned": planned,
        "finished_at": now() if ask else None,
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
        summary = _write_down(session, run, spool)
    except OSError as error:
        raise session.failure(error) from None
    folder.log(f"{ending.status}: {summary['passed']} passed, {summary['failed']} failed, {summary['errors']} errors")
    return RunReport(_shown(run), summary, folder)


def _write_down(session: Session, run: Record, spool: Spool) -> Record:
    """Results, summary and receipt, in this order: a receipt that says `completed` has everything beside it."""
    summary = summarise(spool.finish(), run["planned"], run["duration_s"])
    summary["exit_code"] = exit_code(summary, run["status"])
    summary["limits"] = run.get("limits", [])
    _add_embeddings(summary, session.vectors)
    _add_passports(summary, run, session.folder)
    session.folder.write("summary.json", summary)
    reached("summary.written")
    session.folder.write("run.json", run)
    reached("run.closed")
    return summary


def _from_cache(session: Session, history: History | None) -> Record:
    """How many answers were not asked for, and what of the run's tokens and cost was not spent for that reason."""
    told = history.told.values() if history is not None else ()
    before = (one.reply for one in told if one.reply is not None and one.reply.cached)
    used = [(reply.usage.total_tokens, reply.cost) for reply in before]
    used += session.kept.used if session.kept is not None else []
    trouble = session.keeping.trouble if session.keeping is not None else None
    return {
        "answers": len(used),
        "tokens": sum(tokens for tokens, _ in used),
        "cost": add_costs(sorted(cost for _, cost in used if cost is not None)),
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


def _add_passports(summary: Record, run: Record, folder: RunFolder) -> None:
    if summary.get("judges"):
        from rejoinder.engine.passports import add_passports  # noqa: PLC0415 - most runs have no judge

        add_passports(summary["judges"], run, folder.root)


def _shown(run: Record) -> Record:
    """The receipt as documents show it; its duration stands in the summary."""
    return {key: value for key, value in run.items() if key != "duration_s"}
