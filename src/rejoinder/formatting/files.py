"""The files attached to a case, guidelines first."""

from __future__ import annotations

from collections.abc import Mapping

from rejoinder.formatting.globs import is_guideline_file
from rejoinder.model import AttachedFile, Case, FilePart, Formatting, pictures_of


def attached_files(
    case: Case, formatting: Formatting, pictures: Mapping[str, str] | None = None
) -> tuple[AttachedFile, ...]:
    """`pictures`: the file of each picture, by digest."""
    parts = [part for message in case.messages for part in message.parts if isinstance(part, FilePart)]
    guidelines = {part.path for part in parts if is_guideline_file(part, formatting.guideline_patterns)}
    is_absolute = formatting.agent_paths == "absolute"
    files: dict[str, AttachedFile] = {}
    for part in parts:
        source = part.resolved or part.path
        files[part.path] = AttachedFile(source if is_absolute else part.path, source, part.path in guidelines)
    for picture, resolved in pictures_of(case):
        source = resolved or (pictures or {}).get(picture.digest) or picture.name
        path = resolved if is_absolute and resolved else picture.name
        files[path] = AttachedFile(path, source)
    return tuple(sorted(files.values(), key=lambda file: not file.guideline))
