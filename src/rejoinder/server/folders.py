"""The folders of runs as the API and the pages find them, and which of their files has the results."""

from __future__ import annotations

from pathlib import Path

from rejoinder.engine.folder import RunFolder, grades_folders, is_run_id, listed_receipt, runs_folder


def find_folder(root: Path, run: str) -> RunFolder | None:
    """A run of the project, or new grades of one, by its whole id: no other name leads anywhere. None where there is
    none. What a link leads to is not the project's."""
    if not is_run_id(run):
        return None
    for parent in (runs_folder(root), *grades_folders(root)):
        path = parent / run
        if path.is_dir() and not path.is_symlink() and path.resolve().is_relative_to(root.resolve()):
            return RunFolder(path)
    return None


def results_file(folder: RunFolder) -> Path:
    """The results of a run, whether they are there or not. While it goes on, and where it was killed, they are in a
    draft, in the order in which conversations ended. A draft in the folder of a run that has ended is none of its."""
    if not folder.is_busy:
        receipt = listed_receipt(folder)
        if receipt is None or receipt.status != "running":
            return folder.results
    drafts = [draft for draft in folder.path.glob(f".{folder.results.name}.*.draft") if not draft.is_symlink()]
    return max(drafts, key=size_of, default=folder.results)


def size_of(path: Path) -> int:
    """-1 for a file that is not there."""
    try:
        return path.lstat().st_size
    except OSError:
        return -1
