"""Tags and a note of a run. They lie in its folder, so that they go where it goes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import structs

from rejoinder.engine.folder import RunFolder
from rejoinder.errors import UsageError
from rejoinder.model.history import LONGEST_NOTE, MOST_TAGS, Notes
from rejoinder.run_files import RunDamaged

FILE = "notes.json"


def read_notes(run: RunFolder) -> Notes:
    """The notes of a run; none where the file is not what rejoinder writes."""
    try:
        return run.read(FILE, Notes) or Notes()
    except RunDamaged:
        return Notes()


def add_tags(run: RunFolder, tags: Iterable[str]) -> Notes:
    notes = read_notes(run)
    return _write(run, structs.replace(notes, tags=tuple(dict.fromkeys((*notes.tags, *tags)))))


def remove_tags(run: RunFolder, tags: Iterable[str]) -> Notes:
    notes, gone = read_notes(run), set(tags)
    return _write(run, structs.replace(notes, tags=tuple(tag for tag in notes.tags if tag not in gone)))


def set_note(run: RunFolder, text: str) -> Notes:
    """An empty text removes the note."""
    return _write(run, structs.replace(read_notes(run), note=text))


def _write(run: RunFolder, notes: Notes) -> Notes:
    """Raises RunBusy for a run that is open: its process is the one that writes to the folder."""
    try:
        msgspec.convert(msgspec.to_builtins(notes), Notes)
    except msgspec.ValidationError:
        raise UsageError(
            "a tag has letters, digits, `_`, `-` and `.`, at most 64 of them; a run has at most"
            f" {MOST_TAGS} tags and a note of {LONGEST_NOTE:,} characters"
        ) from None
    with run.held():
        run.write(FILE, notes)
    return notes
