"""Requests that act on a run: fork, grade, run again what failed, note, bless, label."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, structs

from rejoinder.calibration.measure import CANDIDATE
from rejoinder.client import RunState
from rejoinder.engine.effects import Fork
from rejoinder.gates.verbs import bless_run as bless
from rejoinder.history.notes import set_notes
from rejoinder.model.history import LONGEST_NOTE, MOST_TAGS, Notes, Tag
from rejoinder.model.results import Result, check_at
from rejoinder.model.suite import file_in_project
from rejoinder.project.folders import display_path
from rejoinder.runs.options import RunOptions
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.state import state_of
from rejoinder.server.api_routes import Api, Call, Route
from rejoinder.server.api_runs import Nothing, enqueue, queued
from rejoinder.server.errors import ApiError
from rejoinder.server.found import open_run
from rejoinder.server.jobs import ForkJob, GradeJob, JudgeJob, RerunJob
from rejoinder.server.labels import REPLIES, LabelRow, add_row, asked_of, is_digest, label_file, label_id, read_rows
from rejoinder.server.posted import known_targets
from rejoinder.server.queue import Entry, judge_test_of
from rejoinder.server.result_lines import placed_results
from rejoinder.views.rows import Frame, frame_of, suite_of, suite_word
from rejoinder.words.numbers import count

Text: TypeAlias = Annotated[str, Meta(max_length=200_000)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500)]


class ForkRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fork a conversation at a turn and continue it with a different message or another target."""

    case: Name
    suite: str | None = None
    turn: Annotated[int, Meta(ge=1, le=1000)] = 1
    trial: Annotated[int, Meta(ge=1)] = 1
    variant: Name | None = None
    prompt: Text | None = None
    system: Text | None = None
    of: Name | None = None
    """The target whose conversation it is; `target` continues it."""
    target: Name | None = None
    repeat: Annotated[int, Meta(ge=1, le=1000)] = 1


class RerunRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    only: Literal["failed"] = "failed"


class NotesBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replaces the tags and the note."""

    tags: Annotated[tuple[Tag, ...], Meta(max_length=MOST_TAGS)] = ()
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] = ""


class BlessRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = "main"
    partial: bool = False


class BlessAnswer(Struct, frozen=True):
    name: str
    run: str
    file: str
    replaced: str | None
    """The run that had the name before."""


class LabelReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's label for a reply. `check`: the judge that was asked about it, by its places in the turn's checks,
    from 0; without a turn, in the checks of the whole conversation. Without `check` the label is only for the reply."""

    run: Annotated[str, Meta(max_length=40)]
    case: Name
    target: Name
    label: Literal["pass", "fail"]
    check: Annotated[tuple[Annotated[int, Meta(ge=0, le=10_000)], ...], Meta(max_length=20)] = ()
    suite: str | None = None
    variant: str | None = None
    trial: Annotated[int, Meta(ge=1)] = 1
    turn: Annotated[int, Meta(ge=1)] | None = None
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] = ""


class LabelAnswer(Struct, frozen=True):
    name: str
    """The digest of the judge's instructions, by which `judge test --check` knows it; `replies` without a judge."""
    file: str
    labels: int


async def fork_run(api: Api, call: Call) -> RunState:
    run, wanted = call.path["run"], call.body
    assert isinstance(wanted, ForkRun)

    def fork() -> Entry:
        recorded = open_run(api, run)
        receipt = recorded.folder.read_receipt()
        if receipt is None:
            raise ApiError(409, f"run {run} has no receipt", code="damaged")
        suite = None if wanted.suite is None else _file_of_suite(recorded, wanted.suite)
        known = {target.name for target in receipt.targets} | known_targets(api.settings.root)
        if wanted.target is not None and wanted.target not in known and not api.settings.allow_targets:
            raise ApiError(422, f"there is no target {wanted.target[:100]!r}", code="names-target")
        taken = Fork(
            turn=wanted.turn,
            prompt=wanted.prompt,
            system=wanted.system,
            suite=suite or "",
            of=wanted.of or "",
            trial=wanted.trial,
        )
        targets, variants = (() if name is None else (name,) for name in (wanted.target, wanted.variant))
        options = RunOptions(repeat=wanted.repeat).changed(
            cases=(wanted.case,), targets=targets, variants=variants, fork=taken
        )
        title = f"fork of {run}, {wanted.case}, turn {wanted.turn}"
        return enqueue(api, ForkJob(str(recorded.folder.path), options.flat()), title=title, of=run)

    return await queued(api, await asyncio.to_thread(fork))


def _file_of_suite(recorded: RecordedRun, word: str) -> str:
    """The file of a suite that is called as rows of the run call it, or by its name. Raises ApiError."""
    files = {file: one.name or file for one in recorded.stored.suites for file in [file_in_project(one.path, one.root)]}
    found = [file for file, name in files.items() if word in (name, file, suite_word(name, file))]
    if not found:
        raise ApiError(404, f"run {recorded.folder.id} has no suite {word[:100]!r}", code="no-suite")
    if len(found) > 1:
        several = f"run {recorded.folder.id} has several suites {word[:100]!r}; name one by its file"
        raise ApiError(422, several, code="several-suites")
    return found[0]


async def grade_run(api: Api, call: Call) -> RunState:
    run = call.path["run"]

    def grade() -> Entry:
        recorded = _open_ended(api, run)
        return enqueue(api, GradeJob(str(recorded.folder.path)), title=f"new grades of {run}", of=run)

    return await queued(api, await asyncio.to_thread(grade))


def _open_ended(api: Api, run: str) -> RecordedRun:
    """A run that is not running. Another process may have it open: the queue tries again until that has ended."""
    recorded = open_run(api, run)
    if state_of(recorded.folder).status == "running":
        raise ApiError(409, f"run {run} has not ended", code="busy")
    return recorded


async def rerun_failed(api: Api, call: Call) -> RunState:
    run = call.path["run"]

    def rerun() -> Entry:
        recorded = _open_ended(api, run)
        return enqueue(api, RerunJob(str(recorded.folder.path)), title=f"what failed in {run}", of=run)

    return await queued(api, await asyncio.to_thread(rerun))


async def test_judge(api: Api, call: Call) -> RunState:
    run, digest = call.path["run"], call.path["judge"]

    def test() -> Entry:
        recorded = _open_ended(api, run)
        if not is_digest(digest) or digest not in _judges_of(recorded):
            raise ApiError(404, f"run {run} has no judge {digest[:40]!r}", code="no-judge")
        if judge_test_of(api.queue, digest) is not None:
            raise ApiError(409, "a test of this judge is in the queue already", code="busy")
        labels = len(read_rows(label_file(api.settings.root, digest)))
        if not labels:
            raise ApiError(409, "this judge has no human labels yet", code="no-labels")
        title = f"test of judge {digest[:6]} with {count(labels, 'label')}"
        return enqueue(api, JudgeJob(str(recorded.folder.path), digest), title=title)

    return await queued(api, await asyncio.to_thread(test))


def _judges_of(recorded: RecordedRun) -> set[str]:
    """Of a test of a judge none: its suite is made of labels."""
    summary = recorded.folder.read_summary()
    return set() if summary is None or CANDIDATE in summary.by_target else {one.digest for one in summary.judges}


async def replace_notes(api: Api, call: Call) -> Notes:
    wanted: NotesBody = call.body
    notes = Notes(tuple(dict.fromkeys(wanted.tags)), wanted.note)
    return await asyncio.to_thread(lambda: set_notes(open_run(api, call.path["run"]).folder, notes))


async def bless_run(api: Api, call: Call) -> BlessAnswer:
    wanted: BlessRun = call.body
    run = call.path["run"]
    blessed = await asyncio.to_thread(lambda: bless(open_run(api, run), wanted.name, partial=wanted.partial))
    return BlessAnswer(wanted.name, run, display_path(blessed.path, api.settings.root), blessed.replaced)


async def add_label(api: Api, call: Call) -> LabelAnswer:
    return await asyncio.to_thread(_add_label, api, call.body)


def _add_label(api: Api, wanted: LabelReply) -> LabelAnswer:
    folder = open_run(api, wanted.run).folder
    receipt = folder.read_receipt()
    if receipt is None or not folder.results.is_file():
        raise ApiError(409, f"run {wanted.run} has no results yet", code="busy")
    frame, id = frame_of(receipt), msgspec.json.encode(wanted.case)
    results = (one.result for one in placed_results(folder.results, id))
    result = next((one for one in results if _is_meant(one, frame, wanted)), None)
    if result is None:
        raise ApiError(404, "the run has no such conversation", code="no-conversation")
    row, judge = _row_of(result, suite_of(result, frame), wanted)
    number, file = add_row(api.settings.root, judge, row), label_file(api.settings.root, judge)
    return LabelAnswer(judge, display_path(file, api.settings.root), number)


def _is_meant(result: Result, frame: Frame, wanted: LabelReply) -> bool:
    return (
        (result.id, result.target, result.trial) == (wanted.case, wanted.target, wanted.trial)
        and (result.variant or None) == (wanted.variant or None)
        and wanted.suite in (None, result.suite, suite_of(result, frame))
    )


def _row_of(result: Result, suite: str, wanted: LabelReply) -> tuple[LabelRow, str]:
    """The row, and the file that it is for. `suite`: as rows of the run call it."""
    turn = result.turns[-1] if result.turns else None
    if wanted.turn is not None:
        turn = next((one for one in result.turns if one.turn == wanted.turn), None)
    if turn is None or turn.response is None:
        raise ApiError(404, "the conversation has no such reply", code="no-turn")
    row = LabelRow(id="", reply=turn.response, label=wanted.label, prompt=turn.prompt, note=wanted.note)
    if not wanted.check:
        return structs.replace(row, id=label_id(wanted.run, suite, result, turn.turn, ())), REPLIES
    checks = turn.checks if wanted.turn is not None else result.conversation_checks
    check = check_at(checks, wanted.check)
    if check is None or check.judged_by is None or not is_digest(check.judged_by):
        raise ApiError(422, "no judge was asked there", code="no-judge")
    name = label_id(wanted.run, suite, result, wanted.turn, wanted.check)
    return structs.replace(row, id=name, asked=asked_of(check)), check.judged_by


def _acts(path: str, handler: Any, summary: str, body: type[Struct]) -> Route:
    """A request that queues something."""
    return Route(
        method="POST",
        path=path,
        handler=handler,
        summary=summary,
        body=body,
        answer=RunState,
        status=202,
        errors=(404, 409, 422, 429),
    )


ROUTES = (
    _acts("/runs/{run}/fork", fork_run, "Queue a fork of a conversation of a run.", ForkRun),
    _acts("/runs/{run}/grade", grade_run, "Queue new grades of a run, by today's checks.", Nothing),
    _acts("/runs/{run}/rerun", rerun_failed, "Queue a run of what did not pass.", RerunRun),
    _acts("/runs/{run}/judges/{judge}/test", test_judge, "Queue a test of a judge against human labels.", Nothing),
    Route(
        method="PUT",
        path="/runs/{run}/notes",
        handler=replace_notes,
        summary="Replace the tags and the note of a run.",
        body=NotesBody,
        answer=Notes,
        errors=(404, 409, 422),
    ),
    Route(
        method="POST",
        path="/runs/{run}/bless",
        handler=bless_run,
        summary="Keep the verdicts of a run as a baseline.",
        body=BlessRun,
        answer=BlessAnswer,
        errors=(404, 409, 422),
    ),
    Route(
        method="POST",
        path="/labels",
        handler=add_label,
        summary="Say whether a reply passes; a label for the same reply is replaced.",
        body=LabelReply,
        answer=LabelAnswer,
        errors=(404, 409, 422),
    ),
)
