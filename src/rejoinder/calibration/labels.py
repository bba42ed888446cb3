"""Files of labelled replies, JSONL or CSV: each row is a reply and a human label."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.errors import SuiteError, UsageError
from rejoinder.model import Problem
from rejoinder.spelling import did_you_mean, nearest
from rejoinder.suite.datasets import Row, read_rows
from rejoinder.suite.templates import write_value

_COLUMNS: dict[str, tuple[str, ...]] = {
    "reply": ("reply", "candidate_answer", "response"),
    "label": ("label", "passed", "human"),
    "prompt": ("prompt", "question"),
    "outcome": ("criteria", "outcome", "expected_outcome"),
    "reference": ("reference", "reference_answer"),
    "other": ("other",),
    "context": ("context", "retrieval_context"),
}
"""The accepted names of each column."""
_DIGEST = re.compile(r"[0-9a-f]{8,64}")
_PASSES = frozenset({"pass", "passed", "true", "yes", "good", "1", "1.0", "ok", "correct"})
_FAILS = frozenset({"fail", "failed", "false", "no", "bad", "0", "0.0", "wrong", "incorrect"})


class Label(Struct, frozen=True, kw_only=True):
    """A reply and its human label."""

    id: str
    reply: str
    passed: bool
    prompt: str = ""
    outcome: str = ""
    reference: str = ""
    other: str = ""
    context: tuple[str, ...] = ()
    asked: str = ""
    """The judge's instructions at the time of labelling; written by the viewer."""


class LabelFile(Struct, frozen=True):
    path: Path
    hash: str
    labels: list[Label]

    @property
    def judge(self) -> str | None:
        """The digest of the judge that the labels were given for; the viewer names its files by it."""
        is_viewers = self.path.absolute().parent.parts[-2:] == (".rejoinder", "labels")
        return self.path.stem if is_viewers and _DIGEST.fullmatch(self.path.stem) else None

    @property
    def asked(self) -> str:
        """The instructions of that judge; empty if unknown."""
        return next((label.asked for label in self.labels if label.asked), "")


def read_labels(path: Path) -> LabelFile:
    """Read a file. Raises SuiteError with every mistake in it."""
    labels: list[Label] = []
    problems: list[Problem] = []
    ids: set[str] = set()
    for row in read_rows(path, str(path)):
        label = row if isinstance(row, Problem) else _label(row)
        if isinstance(label, Problem):
            problems.append(label)
            if label.code in ("missing-field", "unknown-key") and path.suffix.lower() == ".csv":
                break  # it is the header, so every other row has the same
        elif label.id in ids:
            assert isinstance(row, Row)
            problems.append(row.source.problem("duplicate-id", "id", f"the id `{label.id}` is already used"))
        else:
            ids.add(label.id)
            labels.append(label)
    if problems:
        raise SuiteError(problems)
    if not labels:
        raise UsageError(f"{path} has no rows", "Each row is a reply and its label: pass or fail.")
    return LabelFile(path, sha256(path.read_bytes()).hexdigest(), labels)


def _label(row: Row) -> Label | Problem:
    for name in row.values:
        if meant := _meant(name, row.values):
            message = f"there is no column `{name}`; did you mean `{meant}`?"
            return row.source.problem("unknown-key", name, message)
    columns = {key: _column(row.values, names) for key, names in _COLUMNS.items()}
    for key in ("reply", "label"):
        if columns[key] is None and not any(name in row.values for name in _COLUMNS[key]):
            near = did_you_mean(key, row.values) or f"; it has {', '.join(row.values) or 'nothing'}"
            return row.source.problem("missing-field", key, f"this row has no `{key}`{near}")
    passed = _read_verdict(columns["label"])
    if passed is None:
        shown = write_value(columns["label"]).strip()
        message = f"`{shown}` is not a label; write pass or fail" if shown else "the label is empty; write pass or fail"
        return row.source.problem("wrong-type", "label", message)
    texts = {key: write_value(columns[key]) for key in ("reply", "prompt", "outcome", "reference", "other")}
    name, asked = write_value(row.values.get("id")) or f"row-{row.number}", write_value(row.values.get("asked"))
    context = columns["context"]
    passages = context if isinstance(context, list) else [] if context is None else [context]
    return Label(id=name, passed=passed, asked=asked, context=tuple(map(write_value, passages)), **texts)


def _meant(name: str, values: dict[str, Any]) -> str | None:
    """The column that a misspelt name stands for. Unrelated columns are ignored: `note` is not `other`."""
    spellings = {spelling: names for names in _COLUMNS.values() for spelling in names}
    meant = None if name in spellings else nearest(name, spellings, 0.8)
    return meant if meant and not any(one in values for one in spellings[meant]) else None


def _column(values: dict[str, Any], names: Iterable[str]) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _read_verdict(value: Any) -> bool | None:
    word = write_value(value).strip().lower()
    return True if word in _PASSES else False if word in _FAILS else None
