"""The folders of runs as the API and the pages find them, and which of their files has the results."""

from __future__ import annotations

from pathlib import Path

from rejoinder.model.runs import is_run_id
from rejoinder.run_files import open_file
from rejoinder.runs.folder import RunFolder, grades_folders, runs_folder
from rejoinder.runs.state import state_of
from rejoinder.server.result_lines import LONGEST, MOST_BYTES, PIECE

_LINES = ("results.jsonl", "journal.jsonl", "cases.jsonl")
_DOCUMENTS = ("suite.json", "run.json", "summary.json", "checksums", "seal")


def find_folder(root: Path, run: str) -> RunFolder | None:
    """Find a run of the project, or a re-grade, by its whole id; None if missing. Links that leave the project are not
    followed."""
    if not is_run_id(run):
        return None
    for parent in (runs_folder(root), *grades_folders(root)):
        path = parent / run
        if path.is_dir() and not path.is_symlink() and path.resolve().is_relative_to(root.resolve()):
            return RunFolder(path)
    return None


def results_file(folder: RunFolder) -> Path:
    """The results of a run, whether they are there or not. Those of a run that is running or was killed are in a draft,
    in the order in which conversations ended. A draft in the folder of a run that has ended does not belong to it."""
    if state_of(folder).phase not in ("running", "killed"):
        return folder.results
    drafts = [draft for draft in folder.path.glob(f".{folder.results.name}.*.draft") if not draft.is_symlink()]
    return max(drafts, key=size_of, default=folder.results)


def too_large(folder: Path) -> str:
    """Why a run is not verified or used here: a stranger's file could take all memory, or for ever. Empty for one that
    is."""
    if sum(max(0, size_of(folder / name)) for name in (*_LINES, *_DOCUMENTS)) > MOST_BYTES:
        return f"its files have more than {MOST_BYTES >> 30} GiB, and are not verified here"
    for name in (*_LINES, *_DOCUMENTS):
        if size_of(folder / name) > LONGEST and (name in _DOCUMENTS or _has_long_line(folder / name)):
            return f"{name}: a line has more than {LONGEST >> 20} MiB, and is not read here"
    return ""


def _has_long_line(path: Path) -> bool:
    """Also one without an end."""
    size = 0
    with open_file(path) as stream:
        while part := stream.readline(PIECE):
            size += len(part)
            if size > LONGEST:
                return True
            size = 0 if part.endswith(b"\n") else size
    return False


def size_of(path: Path) -> int:
    """-1 for a file that is not there."""
    try:
        return path.lstat().st_size
    except OSError:
        return -1
