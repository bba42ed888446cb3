"""The files attached to a case, guidelines first."""

from __future__ import annotations

from rejoinder.formatting.globs import is_guideline_file
from rejoinder.model import AttachedFile, Case, FilePart, Formatting


def attached_files(case: Case, formatting: Formatting) -> tuple[AttachedFile, ...]:
    parts = [part for message in case.messages for part in message.parts if isinstance(part, FilePart)]
    guidelines = {part.path for part in parts if is_guideline_file(part, formatting.guideline_patterns)}
    is_absolute = formatting.agent_paths == "absolute"
    files: dict[str, AttachedFile] = {}
    for part in parts:
        source = part.resolved or part.path
        files[part.path] = AttachedFile(source if is_absolute else part.path, source, part.path in guidelines)
    return tuple(sorted(files.values(), key=lambda file: not file.guideline))
