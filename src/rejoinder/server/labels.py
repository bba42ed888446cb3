"""Labels that people gave in the viewer: a file for each judge, and one for replies alone. `rejoinder judge test
--labels` reads them.

The folder may come with a cloned repository: no link is followed, and a file is read up to a bound."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from rejoinder.locks import lock_within
from rejoinder.model import CheckResult, Result
from rejoinder.run_files import (
    RunDamaged,
    lines_of,
    make_folder,
    open_file,
    open_to_append,
    refuse_linked_folder,
    replace_file,
)
from rejoinder.server.errors import ApiError
from rejoinder.server.result_lines import read_line
from rejoinder.words.checks import called

SUFFIX = ".jsonl"
REPLIES = "replies"
"""The name of the file of labels that are for no judge: no digest is spelt so."""
LOCK_S = 2.0
LARGEST = 1 << 26
"""Bytes of a file of labels."""
_MEND = "Mend the line, or move the file away."
_DIGEST = re.compile(r"[0-9a-zA-Z]{4,128}")


class LabelRow(Struct, frozen=True, kw_only=True):
    id: str
    """The run, the conversation, the turn and the check, with `:` between."""
    reply: str
    label: Literal["pass", "fail"]
    prompt: str = ""
    note: str = ""
    asked: str = ""
    """What the judge was asked when the label was given; empty for a label of the reply alone."""


class LabelFile(Struct, frozen=True):
    name: str
    """The digest of the judge's instructions, or `replies`."""
    file: str
    labels: int
    passed: int


def labels_folder(root: Path) -> Path:
    return root / ".rejoinder" / "labels"


def is_digest(text: str) -> bool:
    """May it be the digest of a judge's instructions? It becomes the name of a file."""
    return _DIGEST.fullmatch(text) is not None


def label_file(root: Path, digest: str) -> Path:
    """The labels for one judge."""
    return labels_folder(root) / f"{digest}{SUFFIX}"


def asked_of(check: CheckResult) -> str:
    """What a judge was asked."""
    label = check.check.removeprefix(f"{check.kind} ") if check.kind else check.check
    return f"{called(check)}: {label}" if check.name else label


def label_id(run: str, suite: str, result: Result, turn: int | None, check: tuple[int, ...]) -> str:
    """`suite`: as rows of the run call it. `turn`: None for a check of the whole conversation."""
    name = (run, suite, result.id, result.target, result.variant or "", result.trial, turn, *check)
    return ":".join(map(str, name))


def read_rows(path: Path) -> list[LabelRow]:
    """Raises RunDamaged for a file that is not ours."""
    refuse_linked_folder(path.parent)
    try:
        with open_file(path) as stream:
            if os.fstat(stream.fileno()).st_size > LARGEST:
                raise RunDamaged(path, f"it has more than {LARGEST >> 20} MiB", "Move the file away.")
            numbered = enumerate(lines_of(stream, path), 1)
            return [read_line(line, LabelRow, path, number, _MEND) for number, line in numbered]
    except FileNotFoundError:
        return []


def add_row(root: Path, digest: str, row: LabelRow) -> int:
    """Keep a label in place of an earlier one for the same reply; how many the file has then. Raises RunDamaged, or
    ApiError where another process writes."""
    path = label_file(root, digest)
    make_folder(path.parent)
    with _locked(path.parent):
        rows = [*(one for one in read_rows(path) if one.id != row.id), row]
        with replace_file(path) as stream:
            stream.writelines(msgspec.json.encode(one) + b"\n" for one in rows)
    return len(rows)


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Two people may label at the same time."""
    handle = open_to_append(folder / ".lock")
    try:
        if not lock_within(handle, LOCK_S):
            raise ApiError(409, "another process writes labels", code="busy")
        yield
    finally:
        os.close(handle)


def label_files(root: Path) -> list[LabelFile]:
    """The files that can be read."""
    found: list[LabelFile] = []
    for path in sorted(one for one in labels_folder(root).glob(f"*{SUFFIX}") if is_digest(one.stem)):
        try:
            rows = read_rows(path)
        except (RunDamaged, OSError):
            continue
        passed = sum(row.label == "pass" for row in rows)
        found.append(LabelFile(path.stem, path.relative_to(root).as_posix(), len(rows), passed))
    return found
