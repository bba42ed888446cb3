"""Labels that people gave in the viewer: a file for each judge, which `rejoinder judge test --labels` reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from rejoinder.model import Result
from rejoinder.run_files import RunDamaged, lines_of, open_file

SUFFIX = ".jsonl"
_DIGEST = re.compile(r"[0-9a-zA-Z]{4,128}")


class LabelRow(Struct, frozen=True, kw_only=True):
    id: str
    """The run, the conversation, the turn and the check, with `:` between."""
    reply: str
    label: Literal["pass", "fail"]
    prompt: str = ""
    note: str = ""


class LabelFile(Struct, frozen=True):
    name: str
    """The digest of the judge's instructions."""
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


def label_id(run: str, suite: str, result: Result, turn: int | None, check: tuple[int, ...]) -> str:
    """`suite`: as rows of the run call it. `turn`: None for a check of the whole conversation."""
    name = (run, suite, result.id, result.target, result.variant or "", result.trial, turn, *check)
    return ":".join(map(str, name))


def read_rows(path: Path) -> list[LabelRow]:
    """Raises RunDamaged for a file that is not ours."""
    rows: list[LabelRow] = []
    try:
        with open_file(path) as stream:
            for number, line in enumerate(lines_of(stream, path), 1):
                try:
                    rows.append(msgspec.json.decode(line, type=LabelRow))
                except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
                    raise RunDamaged(path, f"line {number}: {error}", "Mend the line, or move the file away.") from None
    except FileNotFoundError:
        return []
    return rows


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
