"""`.env` files: `NAME=value` lines with `export`, quotes and comments as in shells.

Any other line sets nothing, and its number is reported. The line itself is never shown: it may hold a secret. Variables
that would make programs load code are skipped as well, and named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from rejoinder.project.code_variables import loads_code
from rejoinder.project.environment import own_environment
from rejoinder.project.files import FileFault, read_text
from rejoinder.project.folders import env_folders

_LINE = r"""[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*
        (?: (?: '([^']*)' | "((?:[^"\\]|\\.)*)" ) [ \t]*(?:\#.*)? | (?!['"])([^\n]*?)[ \t]*(?:(?<=[ \t])\#.*)? )$"""
_EMPTY = r"[ \t]*(?:\#.*)?$"
_REFUSED = "`{}` can make programs load code, so it is not taken from a .env file; set it in the environment itself"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class EnvFault(Struct, frozen=True):
    line: int | None
    """None if the whole file cannot be read."""
    message: str
    code: Literal["env-syntax", "env-loads-code"] = "env-syntax"


class EnvFile(Struct, frozen=True):
    values: dict[str, str]
    faults: list[EnvFault]


def parse_env(text: str) -> EnvFile:
    line = re.compile(_LINE, re.VERBOSE | re.MULTILINE)
    empty = re.compile(_EMPTY, re.MULTILINE)
    text = text.replace("\r\n", "\n") + "\n"
    found = EnvFile({}, [])
    start, number = 0, 1
    while start < len(text):
        match = line.match(text, start)
        end = match.end() if match else text.index("\n", start)
        if match:
            name, value = match[1], _value(match)
            if loads_code(name, value):
                found.faults.append(EnvFault(number, _REFUSED.format(name), "env-loads-code"))
            else:
                found.values[name] = value
        elif not empty.match(text, start):
            found.faults.append(EnvFault(number, _explain(text[start:end])))
        number += text.count("\n", start, end) + 1
        start = end + 1
    return found


def _value(match: re.Match[str]) -> str:
    _, single, double, plain = match.groups()
    if double is not None:
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), double)
    return single if single is not None else plain.strip()


def _explain(line: str) -> str:
    if re.match(r"""[^=]*=[ \t]*['"]""", line):
        return "the quotes of this value are not closed, or more text follows them; the line is skipped"
    return "this line is not `NAME=value`; it is skipped"


class Environment(dict[str, str]):
    """Variables by name, and the `.env` file of each that the process itself does not have."""

    def __init__(self, variables: Mapping[str, str], files: Mapping[str, Path]) -> None:
        super().__init__(variables)
        self.files = files


def read_environment(start: Path, root: Path, working: Path) -> Environment:
    """The process environment, on top of the variables of all `.env` files; the nearest file wins."""
    return merge_environment(env_files(start, root, working))


def environment_of(folders: tuple[str, ...]) -> Environment:
    """The environment of a suite's scripts and programs. `folders`: from the suite's own to the project's root."""
    return read_environment(Path(folders[0]), Path(folders[-1]), Path.cwd())


def merge_environment(files: Iterable[tuple[Path, EnvFile]]) -> Environment:
    merged: dict[str, str] = {}
    origins: dict[str, Path] = {}
    for path, file in files:
        merged.update(file.values)
        origins.update(dict.fromkeys(file.values, path))
    own = own_environment()
    return Environment({**merged, **own}, {name: path for name, path in origins.items() if name not in own})


def env_files(start: Path, root: Path, working: Path) -> Iterator[tuple[Path, EnvFile]]:
    """The `.env` files that apply, the farthest first."""
    for folder in reversed(env_folders(start, root, working)):
        path = folder / ".env"
        if path.is_file():
            yield path, read_env_file(path)


def read_env_file(path: Path) -> EnvFile:
    try:
        return parse_env(read_text(path))
    except FileFault as fault:
        return EnvFile({}, [EnvFault(None, f"{fault.message}; the file is skipped")])
