"""A run as a row, read from its folder, which is untrusted: every text and count is limited."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.history.notes import FILE as NOTES
from rejoinder.history.notes import read_notes
from rejoinder.model import Receipt, Summary
from rejoinder.model.boards import Verdict, parts_of, verdict_of
from rejoinder.model.history import RowFigures, RunRow
from rejoinder.model.runs import with_reasons
from rejoinder.run_files import RunDamaged, lines_of, open_file, refuse_special_files
from rejoinder.runs.folder import RunFolder

STAMPED = ("run.json", "summary.json", NOTES)
"""The files that every row is made from."""
MOST_NAMES = 20
MOST_PARTS = 100
LONGEST_NAME = 200
LARGEST_JOURNAL = 1 << 26
"""Maximum bytes of a journal to count; a listing should not wait for a larger one."""
_CHOICES = ("cases", "tags", "limit", "shard", "fork")
"""Options that select a part of the suite's cases."""


def make_row(run: RunFolder) -> RunRow:
    try:
        refuse_special_files(run.path)
        receipt, summary = run.read_receipt(), run.read_summary()
    except (RunDamaged, OSError):
        return RunRow(id=run.id, status="damaged")
    notes = read_notes(run)
    if receipt is None:
        return RunRow(id=run.id, status="damaged", tags=notes.tags, note=notes.note)
    return RunRow(
        id=run.id,
        status=receipt.status,
        started_at=_short(receipt.started_at),
        finished_at=_short(receipt.finished_at),
        suites=_names(suite.title for suite in receipt.suites),
        targets=_names(target.name for target in receipt.targets),
        models=_names(f"{target.provider}/{target.model}" for target in receipt.targets if target.model),
        planned=receipt.planned,
        begun=_count_begun(run.journal) if summary is None else None,
        part=_is_part(receipt),
        replay_of=_short(receipt.replay_of),
        grade_of=_short(receipt.grade_of),
        fork_of=None if receipt.reported.fork is None else _short(receipt.reported.fork.run),
        summary=None if summary is None else _figures(with_reasons(summary, receipt), receipt),
        tags=notes.tags,
        note=notes.note,
        made_from=receipt.inputs,
    )


def _short(text: str | None) -> str | None:
    return None if text is None else text[:LONGEST_NAME]


def _names(names: Iterable[str]) -> tuple[str, ...]:
    found = dict.fromkeys(name[:LONGEST_NAME] for name in names)
    return tuple(found)[:MOST_NAMES]


def _is_part(receipt: Receipt) -> bool:
    return any(receipt.options.get(name) for name in _CHOICES)


def _figures(summary: Summary, receipt: Receipt) -> RowFigures:
    same = (name for name in RowFigures.__struct_fields__ if name not in ("listening", "listeners"))
    figures: dict[str, Any] = {name: getattr(summary, name) for name in same}
    figures["unfinished"] = max(0, summary.unfinished)
    parts = parts_of(receipt, summary)
    known: list[tuple[str, Verdict]] = []
    for one in parts[:MOST_PARTS]:
        if (verdict := verdict_of(one.part, receipt)) is not None:
            known.append((one.name, verdict))
    named = _names(name for name, verdict in known if verdict == "listens") if len(parts) > 1 else ()
    return RowFigures(**figures, listening=tuple(verdict for _, verdict in known), listeners=named)


class _Call(Struct, frozen=True):
    """The fields that identify a conversation in the record of a call."""

    type: str
    case: str = ""
    target: str = ""
    trial: int = 0
    suite: str = ""


def _count_begun(journal: Path) -> int | None:
    """The number of conversations with calls; None if they cannot be counted."""
    decode = msgspec.json.Decoder(_Call).decode
    begun: set[tuple[str, str, str, int]] = set()
    try:
        if journal.lstat().st_size > LARGEST_JOURNAL:
            return None
        with open_file(journal) as stream:
            for line in lines_of(stream, journal):
                if not line.endswith(b"\n"):
                    break  # torn by a crash
                call = decode(line)
                if call.type == "asked":
                    begun.add((call.suite, call.case, call.target, call.trial))
    except FileNotFoundError:
        return 0
    except (OSError, RunDamaged, msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return len(begun)
