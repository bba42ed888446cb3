"""Sessions of pytest in processes of their own, and what they said of each item."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.kit import Process, Project, Raw, case, run_folders, run_process, scripted

PLUGINS = ("-p", "rejoinder.pytest_plugin")
XDIST = ("-p", "xdist")
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Only the plugins of these tests: others take time, and have tests of their own."""
_LINE = re.compile(
    r"^(?:\[gw\d+\] \[ *\d+%\] (?P<first>[A-Z]+) )?(?P<id>\S+?\.ya?ml::.*?|\S+\.py::\S+)(?: (?P<word>[A-Z]+)\b.*)? *$"
)


class Said(NamedTuple):
    """The end of a session."""

    code: int
    text: str
    outcomes: dict[str, str]
    """By node id: PASSED, FAILED, ERROR, SKIPPED, XFAIL, XPASS."""

    @property
    def last_lines(self) -> str:
        return self.text.partition("- rejoinder -")[2]


def arguments_of(*arguments: str, has_xdist: bool = True) -> list[str]:
    return [sys.executable, "-m", "pytest", "-v", "--color=no", *PLUGINS, *(XDIST if has_xdist else ()), *arguments]


def pytest_in(
    project: Project | Path, *arguments: str, on: bool = True, has_xdist: bool = True, **environment: str
) -> Said:
    folder = project if isinstance(project, Path) else project.folder
    if not (folder / "pytest.ini").exists():
        (folder / "pytest.ini").write_text("[pytest]\n")
    options = ("--rejoinder", *arguments) if on else arguments
    done = run_process(folder, command=arguments_of(*options, has_xdist=has_xdist), **ALONE, **environment)
    return said(done.code, done.out + done.err)


def said(code: int, text: str) -> Said:
    outcomes: dict[str, str] = {}
    body = text.partition("= short test summary info")[0]
    for line in body.splitlines():
        if (found := _LINE.match(line)) is not None and (word := found["first"] or found["word"]):
            outcomes[found["id"]] = word
    return Said(code, text, outcomes)


def suite(*cases: Raw, replies: object = ("15 * 7 = 105",), **more: object) -> Raw:
    target = scripted("demo", *replies) if isinstance(replies, tuple) else {**scripted("demo"), "replies": replies}
    return {"targets": [target], "target": "demo", "evals": list(cases) or [case("one"), case("two")], **more}


GOOD, BAD = {"contains": "105"}, {"contains": "106"}


def only_run_of(folder: Path) -> Path:
    [run] = run_folders(folder)
    return run


def junit(path: Path) -> ElementTree.Element:
    return ElementTree.parse(path).getroot()


@contextmanager
def started(project: Project, *arguments: str, **environment: str) -> Iterator[Process]:
    """A session that goes on while the test looks at it."""
    if not (project.folder / "pytest.ini").exists():
        (project.folder / "pytest.ini").write_text("[pytest]\n")
    command = arguments_of("--rejoinder", *arguments)
    process = Process(project.folder, command=command, **{**os.environ, **ALONE, **environment})
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.kill()
