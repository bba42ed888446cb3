"""The tools whose files can be imported: one row each."""

from __future__ import annotations

from msgspec import Struct


class ImportKind(Struct, frozen=True):
    name: str
    """The word behind `rejoinder import`."""
    title: str
    """The files, in the plural."""
    converts: str
    """`module:function`; the function gets a SourceFile and a Workbench, and raises ImportFault."""
    patterns: tuple[str, ...]
    """The names of its files in a folder, in lower case."""
    about: str
    """The rest of its help."""


KINDS: tuple[ImportKind, ...] = ()
