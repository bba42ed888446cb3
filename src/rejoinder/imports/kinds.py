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


KINDS: tuple[ImportKind, ...] = (
    ImportKind(
        "promptfoo",
        "configurations of promptfoo",
        "rejoinder.imports.promptfoo.convert:convert",
        ("*promptfooconfig*.yaml", "*promptfooconfig*.yml", "*promptfooconfig*.json"),
        "Assertions become checks, prompts a prompt or variants, providers targets. JavaScript and Python of the"
        " configuration is run by the suite, through a file that is written beside it, and never by the import.",
    ),
)
