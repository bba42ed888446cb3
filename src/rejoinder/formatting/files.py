"""The files that are attached to a case, guidelines told from the others."""

from __future__ import annotations

from msgspec import Struct

from rejoinder.formatting.globs import is_guideline_file
from rejoinder.model import Case, FilePart, Formatting


class AttachedFiles(Struct, frozen=True):
    guidelines: tuple[str, ...]
    """Paths of guidelines, as written."""
    paths: dict[str, str]
    """All paths as written, each with the absolute one."""

    @property
    def guideline_paths(self) -> tuple[str, ...]:
        return tuple(self.paths[path] for path in self.guidelines)

    @property
    def files(self) -> tuple[str, ...]:
        """The absolute paths, guidelines first."""
        others = (path for written, path in self.paths.items() if written not in self.guidelines)
        return (*self.guideline_paths, *others)


def attached_files(case: Case, formatting: Formatting) -> AttachedFiles:
    parts = [part for message in case.messages for part in message.parts if isinstance(part, FilePart)]
    patterns = formatting.guideline_patterns
    guidelines = dict.fromkeys(part.path for part in parts if is_guideline_file(part, patterns))
    return AttachedFiles(tuple(guidelines), {part.path: part.resolved or part.path for part in parts})
