"""Requests about runs: list them, look at one, start, stop, resume and delete."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import datetime
from datetime import time as day_time
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from rejoinder.client import QueueAnswer, RunChoices, RunState, StartRun, StopAnswer
from rejoinder.errors import UsageError
from rejoinder.history.notes import read_notes
from rejoinder.history.query import Query, Range, Sort, find_runs
from rejoinder.model import Receipt, Summary
from rejoinder.model.history import Notes, Outcome, RunRow
from rejoinder.project.user_files import user_values
from rejoinder.runs.folder import remove_run
from rejoinder.server.api_routes import Api, Call, Route
from rejoinder.server.errors import ApiError, no_run
from rejoinder.server.found import Looked, in_project, locate, look
from rejoinder.server.jobs import Job, ResumeJob, RunJob
from rejoinder.server.posted import check_file_names, check_own, check_posted, options_of
from rejoinder.server.queue import SUITE, Entry

MOST_LISTED = 500
Least = Annotated[float, Meta(ge=0)]


class RunsQuery(Struct, frozen=True, kw_only=True):
    """The filters of `rejoinder runs`; those with several values take any of them."""

    status: tuple[Outcome, ...] = ()
    status_ne: tuple[Outcome, ...] = ()
    suite: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    model_like: str = ""
    tag: tuple[str, ...] = ()
    min_cost: Least | None = None
    max_cost: Least | None = None
    min_success: Least | None = None
    max_success: Least | None = None
    min_duration: Least | None = None
    max_duration: Least | None = None
    date_from: str | None = None
    date_to: str | None = None
    completed_from: str | None = None
    completed_to: str | None = None
    sort_by: Sort = "created"
    reverse: bool = False
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 50
    offset: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0

    def as_query(self) -> Query:
        return Query(
            statuses=self.status,
            not_statuses=self.status_ne,
            suites=self.suite,
            models=self.model,
            model_like=self.model_like,
            tags=self.tag,
            cost=Range(_finite(self.min_cost), _finite(self.max_cost)),
            success=Range(_finite(self.min_success), _finite(self.max_success)),
            duration_s=Range(_finite(self.min_duration), _finite(self.max_duration)),
            started=Range(_moment(self.date_from, day_time.min), _moment(self.date_to, day_time.max)),
            finished=Range(_moment(self.completed_from, day_time.min), _moment(self.completed_to, day_time.max)),
            sort=self.sort_by,
            reverse=self.reverse,
            limit=self.limit,
            offset=self.offset,
        )


def _finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise ApiError(422, f"{value} is not an amount", code="invalid")
    return value


def _moment(written: str | None, of_day: day_time) -> float | None:
    """A date without a time is the beginning or the end of its day."""
    if written is None:
        return None
    try:
        moment = datetime.fromisoformat(written.strip())
        if len(written.strip()) <= len("2026-11-15"):
            moment = datetime.combine(moment.date(), of_day)
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        message = f"{written[:40]!r} is not a date; write 2026-11-15 or 2026-11-15T09:30"
        raise ApiError(422, message, code="invalid") from None


class RunsAnswer(Struct, frozen=True, kw_only=True):
    """`queue`: the runs that wait or go on, however the others are filtered. `unverified`: how many of all runs are
    still being verified, so that one of them may turn out to be damaged."""

    runs: tuple[RunRow, ...]
    total: int
    unverified: int
    queue: tuple[RunState, ...]


class RunAnswer(RunState, frozen=True, kw_only=True):
    """How a run is, its receipt and, once it has ended, its summary."""

    run: Receipt | None = None
    summary: Summary | None = None
    notes: Notes | None = None


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object."""


class ResumeRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    retry_errors: bool = False
    """Make calls again that ended in an error."""


async def list_runs(api: Api, call: Call) -> RunsAnswer:
    query: RunsQuery = call.query
    wanted = query.as_query()
    listing = await asyncio.to_thread(api.damage.history)
    page = await asyncio.to_thread(find_runs, listing.history, wanted)
    queue = await asyncio.to_thread(_queue_of, api)
    return RunsAnswer(runs=page.rows, total=page.total, unverified=len(listing.unverified), queue=queue)


def _queue_of(api: Api) -> tuple[RunState, ...]:
    return tuple(look(api, entry.id).state for entry in api.queue.entries() if entry.is_waiting)


async def show_queue(api: Api, _call: Call) -> QueueAnswer:
    return QueueAnswer(await asyncio.to_thread(_queue_of, api))


async def show_run(api: Api, call: Call) -> RunAnswer:
    return await asyncio.to_thread(_answer, api, call.path["run"])


def _answer(api: Api, run: str) -> RunAnswer:
    found: Looked = look(api, run)
    folder = locate(api, run)
    notes = read_notes(folder) if folder is not None and found.receipt is not None else None
    fields: dict[str, Any] = {name: getattr(found.state, name) for name in RunState.__struct_fields__}
    return RunAnswer(**fields, run=found.receipt, summary=found.summary, notes=notes)


async def start_run(api: Api, call: Call) -> RunState:
    wanted: StartRun = call.body
    if (wanted.suite is None) is (wanted.yaml is None):
        raise ApiError(422, "give either `suite` or `yaml`", code="invalid")
    if wanted.files and wanted.yaml is None:
        raise ApiError(422, "`files` belong to a suite in `yaml`", code="invalid")
    entry = await asyncio.to_thread(_enqueue_posted if wanted.suite is None else _enqueue_own, api, wanted)
    return await queued(api, entry)


async def queued(api: Api, entry: Entry) -> RunState:
    api.supervisor.wake()
    return RunState(id=entry.id, status="queued", title=entry.title)


def _enqueue_own(api: Api, wanted: StartRun) -> Entry:
    """A suite of the project, or one that the user has saved under a name."""
    assert wanted.suite is not None
    saved = user_values("suites").get(wanted.suite)
    path = Path(saved) if saved is not None else in_project(api.settings.root, wanted.suite)
    with api.loading:
        check_own(api.settings, path, wanted.options)
    return enqueue(api, _run_job(path, wanted.options), title=wanted.suite)


def _enqueue_posted(api: Api, wanted: StartRun) -> Entry:
    """Nothing of it is an entry before all of it was looked at."""
    assert wanted.yaml is not None
    check_file_names(wanted)
    run = api.queue.reserve()
    try:
        digests = api.queue.add_files(run, {**wanted.files, SUITE: wanted.yaml})
        with api.loading:
            title = check_posted(api.settings, api.queue.path / run, wanted)
        job = _run_job(api.queue.path / run / SUITE, wanted.options)
        entry = Entry(id=run, job=job, title=title, queued_at=time.time(), files=digests)
        api.queue.put(entry)
    except BaseException:
        api.queue.discard(run)
        raise
    return entry


def _run_job(suite: Path, choices: RunChoices) -> RunJob:
    return RunJob(str(suite), options_of(choices).flat())


def enqueue(api: Api, job: Job, *, title: str, of: str | None = None, run: str | None = None) -> Entry:
    """`run`: the id of a run that exists. `of`: the run that is graded or forked."""
    name = api.queue.reserve(run)
    entry = Entry(id=name, job=job, title=title[:500], queued_at=time.time(), of=of)
    try:
        api.queue.put(entry)
    except BaseException:
        api.queue.discard(name)
        raise
    return entry


async def stop_run(api: Api, call: Call) -> RunState:
    run = call.path["run"]
    state = (await asyncio.to_thread(look, api, run)).state
    entry = await asyncio.to_thread(api.queue.find, run)
    if entry is None or not entry.is_waiting:
        if state.status == "running":
            raise ApiError(409, f"run {run} was not started by this server; stop it with Ctrl-C in its own terminal")
        return state
    await api.supervisor.stop(run)
    return (await asyncio.to_thread(look, api, run)).state


async def stop_queued(api: Api, _call: Call) -> StopAnswer:
    """All that wait; what goes on, goes on."""
    waiting = [entry for entry in await asyncio.to_thread(api.queue.entries) if entry.is_waiting]
    for entry in waiting:
        if (await asyncio.to_thread(look, api, entry.id)).state.status == "queued":
            await api.supervisor.stop(entry.id)
    states = [(await asyncio.to_thread(look, api, entry.id)).state for entry in waiting]
    return StopAnswer(tuple(state for state in states if state.is_over))


async def resume_run(api: Api, call: Call) -> RunState:
    run, wanted = call.path["run"], call.body
    assert isinstance(wanted, ResumeRun)

    def resume() -> Entry:
        found = look(api, run)
        if found.receipt is None:
            raise ApiError(409, f"run {run} is {found.state.status}, and cannot be resumed", code=found.state.status)
        if not found.state.is_over:
            raise ApiError(409, f"run {run} is {found.state.status} already", code="busy")
        folder = locate(api, run)
        if folder is None:
            raise no_run(run)
        job = ResumeJob(str(folder.path), wanted.retry_errors)
        return enqueue(api, job, title=found.state.title, run=run)

    return await queued(api, await asyncio.to_thread(resume))


async def delete_run(api: Api, call: Call) -> Nothing:
    run = call.path["run"]

    def delete() -> None:
        folder, entry = locate(api, run), api.queue.find(run)
        if folder is None and entry is None:
            raise no_run(run)
        if entry is not None and entry.is_waiting:
            raise ApiError(409, f"run {run} is in the queue; stop it first", code="busy")
        if folder is not None:
            remove_run(api.settings.root, folder)
        if entry is not None:
            api.queue.discard(run)

    try:
        await asyncio.to_thread(delete)
    except UsageError as error:
        raise ApiError(409, error.message) from None
    return Nothing()


ROUTES = (
    Route(
        method="GET",
        path="/runs",
        handler=list_runs,
        summary="List runs, filtered and sorted, newest first.",
        query=RunsQuery,
        answer=RunsAnswer,
        errors=(422,),
    ),
    Route(
        method="POST",
        path="/runs",
        handler=start_run,
        summary="Queue a run of a suite of the server, or of one that is sent.",
        body=StartRun,
        answer=RunState,
        status=202,
        errors=(400, 403, 404, 409, 422, 429),
    ),
    Route(method="GET", path="/queue", handler=show_queue, summary="Queued and running runs.", answer=QueueAnswer),
    Route(
        method="POST",
        path="/queue/stop",
        handler=stop_queued,
        summary="Cancel all runs that wait.",
        body=Nothing,
        answer=StopAnswer,
        errors=(400, 403, 409, 422),
    ),
    Route(
        method="GET",
        path="/runs/{run}",
        handler=show_run,
        summary="A run: how it is, its receipt and its summary.",
        answer=RunAnswer,
        errors=(404,),
    ),
    Route(
        method="DELETE",
        path="/runs/{run}",
        handler=delete_run,
        summary="Delete a run with its grades.",
        answer=Nothing,
        errors=(403, 404, 409, 422),
    ),
    Route(
        method="POST",
        path="/runs/{run}/stop",
        handler=stop_run,
        summary="Cancel a queued run, or stop a running one; it can be resumed.",
        body=Nothing,
        answer=RunState,
        errors=(400, 403, 404, 409, 422),
    ),
    Route(
        method="POST",
        path="/runs/{run}/resume",
        handler=resume_run,
        summary="Queue the rest of a run that was interrupted.",
        body=ResumeRun,
        answer=RunState,
        status=202,
        errors=(400, 403, 404, 409, 422, 429),
    ),
)
