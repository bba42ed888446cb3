"""Runs as the server finds them: in the project's folders, in the queue, or in both."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, structs

from rejoinder.client import RunState, Status, is_over
from rejoinder.errors import UsageError
from rejoinder.model import Receipt, Summary
from rejoinder.model.runs import is_run_id, with_reasons
from rejoinder.run_files import RunDamaged, open_file, refuse_special_files
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.state import DAMAGED, NEVER_BEGUN, NO_RECEIPT, StoredState, state_of
from rejoinder.server.api_routes import Api
from rejoinder.server.errors import ApiError, no_run, without_places
from rejoinder.server.folders import find_folder, results_file, too_large
from rejoinder.server.queue import Entry
from rejoinder.server.supervisor import need_of
from rejoinder.views.run import title_of


def locate(api: Api, run: str) -> RunFolder | None:
    """The folder of a run or re-grade, by full id; None if it does not exist."""
    if not is_run_id(run):
        raise no_run(run)
    return find_folder(api.settings.root, run)


def open_folder(api: Api, run: str) -> RunFolder:
    """Like `locate`, but the run must exist and contain only regular files. Raises ApiError or RunDamaged."""
    folder = locate(api, run)
    try:
        if folder is not None:
            refuse_special_files(folder.path)
            return folder
    except OSError:  # it goes while it is looked at: a killed run that had no receipt yet begins again
        pass
    if (entry := api.queue.find(run)) is not None:
        raise ApiError(409, f"run {run} has not begun", code=entry.ended or "queued")
    raise no_run(run)


def open_results(api: Api, run: str) -> Path:
    """The results of a run that goes on, was killed, or has ended and is sound; of one that is too large to be
    verified, those that can be read. Raises ApiError or RunDamaged."""
    folder = open_folder(api, run)
    found = look(api, run)
    if found.state.status == "damaged" and not too_large(folder.path):
        raise ApiError(409, f"run {run} is damaged: {found.state.message}", code="damaged")
    return results_file(folder)


def open_run(api: Api, run: str) -> RecordedRun:
    """Like `open_folder`, but every file must be small enough to read."""
    folder = open_folder(api, run)
    if words := too_large(folder.path):
        raise ApiError(409, f"run {run} cannot be used: {words}", code="too-large")
    return RecordedRun(folder, api.settings.root)


class Looked(Struct, frozen=True):
    """What a folder and the queue say about a run."""

    state: RunState
    receipt: Receipt | None = None
    summary: Summary | None = None


def look(api: Api, run: str) -> Looked:
    """Raises ApiError where there is neither a run nor an entry."""
    found = _look(api, run)
    message = without_places(found.state.message, api.settings.root)
    return structs.replace(found, state=structs.replace(found.state, message=message))


def _look(api: Api, run: str) -> Looked:
    folder, entry = locate(api, run), api.queue.find(run)
    if folder is None:
        if entry is None:
            raise no_run(run)
        return Looked(_of_entry(entry))
    try:
        refuse_special_files(folder.path)
        stored, summary = state_of(folder), folder.read_summary()
    except RunDamaged as error:
        return Looked(_damaged(run, f"{error.path.name}: {error.reason}"))
    except OSError:  # as above
        if entry is None:
            raise no_run(run) from None
        return Looked(_of_entry(entry))
    receipt = stored.receipt
    if receipt is None:
        return Looked(_without_receipt(run, stored, entry))
    status = _status(stored, entry, api.settings.root)
    over = is_over(status)
    if over and stored.phase == "ended" and (damage := api.damage.find(folder)):
        return Looked(_damaged(run, damage))
    figures = with_reasons(summary, receipt) if over and stored.phase == "ended" and summary is not None else None
    state = RunState(
        id=run,
        status=status,
        title=title_of(receipt)[:500],
        planned=receipt.planned,
        done=count_results(api, results_file(folder)) if figures is None else _done(figures),
        exit_code=stored.exit_code(summary) if over else None,
        message=entry.message if entry is not None and entry.ended else None,
    )
    return Looked(state, receipt, figures)


def _done(summary: Summary) -> int:
    """Conversations that have ended: those that a stop left out are in the total as well."""
    return summary.total - summary.unfinished


def _of_entry(entry: Entry) -> RunState:
    status: Status = entry.ended or "queued"
    code, message = NEVER_BEGUN.get(status), entry.message or None
    return RunState(id=entry.id, status=status, title=entry.title, exit_code=code, message=message)


def _damaged(run: str, why: str) -> RunState:
    return RunState(id=run, status="damaged", exit_code=DAMAGED, message=why)


def _without_receipt(run: str, stored: StoredState, entry: Entry | None) -> RunState:
    """A run whose receipt cannot be read, or is not written yet."""
    if stored.status == "running" or (stored.damage == NO_RECEIPT and entry is not None and entry.is_waiting):
        return RunState(id=run, status="running", title="" if entry is None else entry.title)
    if stored.damage == NO_RECEIPT and entry is not None:
        return _of_entry(entry)
    return _damaged(run, stored.damage)


def _status(stored: StoredState, entry: Entry | None, root: Path) -> Status:
    """The state of a run as its folder says it. While the queue has it, the queue says it: the run is over when its
    process is gone, so that it can be graded or deleted as soon as it is."""
    if entry is None or not entry.is_waiting:
        return stored.status
    if need_of(entry, root) == "wait":
        return "running"
    return stored.status if entry.stop else "queued"


def count_results(api: Api, path: Path) -> int:
    """How many results a file has. One that grows is counted on from where it was counted last."""
    start, count = api.counted.get(path) or (0, 0)
    try:
        with open_file(path) as stream:
            stream.seek(start)
            while block := stream.read(1 << 20):
                start, count = start + len(block), count + block.count(b"\n")
    except (OSError, RunDamaged):
        return count
    api.counted.put(path, (start, count))
    return count


def in_project(root: Path, written: str) -> Path:
    """A YAML file of the project by its path from the root. Raises UsageError for one that is not, or not inside."""
    path = root / written
    refused = UsageError(
        f"there is no suite {written[:200]!r} in the project", "Name a saved suite, or a YAML file by its path in it."
    )
    try:
        inside = path.resolve().is_relative_to(root.resolve())
        is_file = path.is_file()
    except (OSError, ValueError):
        raise refused from None
    hidden = any(part.startswith(".") for part in Path(written).parts)
    if (
        Path(written).is_absolute()
        or not inside
        or hidden
        or not is_file
        or path.suffix.lower() not in (".yaml", ".yml")
    ):
        raise refused
    return path
