"""Tags and a note of a run. They are in its folder, so that they move with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec import structs

from rejoinder.errors import UsageError
from rejoinder.model.history import LONGEST_NOTE, MOST_TAGS, Notes
from rejoinder.run_files import RunDamaged
from rejoinder.runs.folder import RunFolder

FILE = "notes.json"


def read_notes(run: RunFolder) -> Notes:
    """The notes of a run; empty if the file is not in rejoinder's form."""
    try:
        return run.read(FILE, Notes) or Notes()
    except RunDamaged:
        return Notes()


def add_tags(run: RunFolder, tags: Iterable[str]) -> Notes:
    return _change(run, lambda notes: structs.replace(notes, tags=tuple(dict.fromkeys((*notes.tags, *tags)))))


def remove_tags(run: RunFolder, tags: Iterable[str]) -> Notes:
    gone = set(tags)
    return _change(run, lambda notes: structs.replace(notes, tags=tuple(tag for tag in notes.tags if tag not in gone)))


def set_note(run: RunFolder, text: str) -> Notes:
    """Set the note. An empty text removes it."""
    return _change(run, lambda notes: structs.replace(notes, note=text))


def set_notes(run: RunFolder, notes: Notes) -> Notes:
    """Replace tags and note."""
    return _change(run, lambda _: notes)


def _change(run: RunFolder, change: Callable[[Notes], Notes]) -> Notes:
    """Change the notes. Raises RunBusy for an open run: only its process writes to the folder. Waits for another
    process that writes notes at the same time, so that nothing is lost."""
    with run.held():
        notes = change(read_notes(run))
        _check(notes)
        try:
            run.write(FILE, notes)
        except IsADirectoryError:
            raise RunDamaged(run.path / FILE, "it is a folder", "Delete the folder.") from None
    return notes


def _check(notes: Notes) -> None:
    try:
        msgspec.convert(msgspec.to_builtins(notes), Notes)
    except msgspec.ValidationError:
        raise UsageError(
            "a tag has letters, digits, `_`, `-` and `.`, at most 64 of them; a run has at most"
            f" {MOST_TAGS} tags and a note of {LONGEST_NOTE:,} characters"
        ) from None
