"""Write-ahead journal: every call is recorded before it is made, and its answer before the conversation continues.

The file is append-only, one JSON record per line. `asked` reaches the operating system before the call; `told` is on
disk (fdatasync) before the caller continues. A call with `asked` but no `told` is *in doubt*: only such calls can be
made twice. `journal_writer` writes the records.

A torn last line is removed when the journal is reopened. Damage anywhere else is an error that names the line. A
record of a type that this version does not know is damage, unless it says `"skippable": true`: later versions may add
such records, and earlier ones read the rest.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias, get_args

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import RejoinderError, decoding_reason
from rejoinder.model import CUT_OFF, Failure, Reply
from rejoinder.model.calls import Cost
from rejoinder.model.spending import Amount
from rejoinder.run_files import lines_of, open_file
from rejoinder.runs.ledger import Ledger
from rejoinder.runs.secrets import Mask

FORMAT = 3
OLDEST_FORMAT = 2
"""The oldest format that is read: it has the price of a reply in the record `told`."""


class JournalError(RejoinderError):
    """The journal cannot be written or read. What is in it is safe."""

    exit_code = 3


class Opened(Struct, frozen=True, tag="opened"):
    """The first record, and one for each time that the run is taken up again."""

    format: int
    in_doubt: int = 0


class Asked(Struct, frozen=True, gc=False, tag="asked", omit_defaults=True):
    key: str
    case: str
    target: str
    trial: int
    turn: int
    most: Amount | None = None
    """What it can cost at most, where a budget was reserved for it."""
    suite: str = ""
    """The suite's file as seen from its project, where a run has several: their targets may share a name."""
    inside: bool = False
    """The call does not leave this process, so it cannot be in doubt."""


class Told(Struct, frozen=True, gc=False, tag="told", omit_defaults=True):
    """The result of a call (reply or failure) and its number of attempts."""

    key: str
    reply: Reply | None = None
    failure: Failure | None = None
    attempts: int = 1

    @property
    def has_failed(self) -> bool:
        """Did the call end in an error? A conversation that was cut off and began anew did not."""
        return self.failure is not None and self.failure.type != CUT_OFF

    def at(self, price: Cost) -> Told:
        """The same with the price of its reply."""
        return self if self.reply is None else structs.replace(self, reply=self.reply.at(price))


class Priced(Struct, frozen=True, tag="priced"):
    """The price of a reply that was recorded without one. It is looked up when the reply is on the disk."""

    key: str
    price: Cost


class Failed(Struct, frozen=True, tag="failed", omit_defaults=True):
    """An attempt that is known to have come to nothing: it is not in doubt, and may be made again."""

    key: str
    charged: bool = False
    """May it have to be paid for all the same?"""


Record: TypeAlias = Opened | Asked | Told | Priced | Failed
_decode = msgspec.json.Decoder(Record).decode
_TYPES = frozenset(kind.__struct_config__.tag for kind in get_args(Record))


class _Other(Struct, frozen=True):
    """A record of a type that this version does not know."""

    type: str
    skippable: bool = False


class History(Struct, frozen=True):
    """What a journal holds."""

    told: dict[str, Told]
    in_doubt: int
    """Calls that were made and whose outcome is unknown, over the whole life of the run."""
    size: int
    """Bytes up to the end of the last whole record."""
    heard: Mapping[str, int] = {}
    """How often each call was made that has no reply, where the target may have heard it."""


def read_journal(path: Path, mask: Mask, ledger: Ledger | None = None) -> History:
    """Read a journal; the ledger, if one is given, counts what was spent."""
    told: dict[str, Told] = {}
    asked: set[str] = set()
    heard: Counter[str] = Counter()
    in_doubt = size = 0
    with open_file(path) as stream:
        for number, line in enumerate(lines_of(stream, path), 1):
            if not line.endswith(b"\n"):
                break  # torn by a crash in the middle of a write
            record = _decoded(line, number, path, mask)
            size += len(line)
            if isinstance(record, Told):
                told[record.key] = record
                asked.discard(record.key)
                if record.failure is None:
                    heard.pop(record.key, None)
                elif not record.failure.was_turned_away:
                    heard[record.key] += 1
            elif isinstance(record, Asked):
                if not record.inside:
                    asked.add(record.key)
                    heard[record.key] += 1
            elif isinstance(record, Failed):
                asked.discard(record.key)
                heard[record.key] -= 1
            elif isinstance(record, Priced):
                if record.key in told:
                    told[record.key] = told[record.key].at(record.price)
            elif isinstance(record, Opened):
                _refuse_other_format(record, path)
                in_doubt = record.in_doubt
                asked.clear()
            if ledger is not None:
                _enter(record, ledger)
    if ledger is not None:
        ledger.close()
    return History(told, in_doubt + len(asked), size, +heard)


def read_journals(journals: Iterable[tuple[Path, Mask]], ledger: Ledger | None = None) -> History:
    """Read several journals as one: parts of a run, or runs that answers are taken from. Of several answers
    to a call the first one counts, and a reply counts more than a failure. Nothing can be appended to them."""
    told: dict[str, Told] = {}
    heard: Counter[str] = Counter()
    in_doubt = 0
    for path, mask in journals:
        history = read_journal(path, mask, ledger)
        in_doubt += history.in_doubt
        heard.update(history.heard)
        for key, one in history.told.items():
            if key not in told or told[key].reply is None:
                told[key] = one
    calls = {key: times for key, times in heard.items() if key not in told or told[key].reply is None}
    return History(told, in_doubt, 0, calls)


def _decoded(line: bytes, number: int, path: Path, mask: Mask) -> Record | _Other:
    """A record; one of an unknown type only if it may be skipped."""
    try:
        return _decode(mask.reveal(line) if mask else line)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, UnicodeError):
            other = msgspec.json.decode(line, type=_Other)
            if other.skippable and other.type not in _TYPES:
                return other
        raise JournalError(
            f"line {number} of {path} is damaged: {decoding_reason(error)}",
            "The lines before it are intact. Restore the file from a copy, or start a new run.",
        ) from None


def _refuse_other_format(record: Opened, path: Path) -> None:
    if not OLDEST_FORMAT <= record.format <= FORMAT:
        raise JournalError(
            f"{path} has format {record.format}, and this version reads formats {OLDEST_FORMAT} to {FORMAT}",
            "Use the version of rejoinder that started the run.",
        )


def _enter(record: Record | _Other, ledger: Ledger) -> None:
    if isinstance(record, Asked):
        ledger.asked(record.key, (record.suite, record.target), record.most)
    elif isinstance(record, Told):
        ledger.told(record.key, record.reply)
    elif isinstance(record, Failed):
        ledger.failed(record.key, charged=record.charged)
    elif isinstance(record, Priced):
        ledger.priced(record.key, record.price)
    elif isinstance(record, Opened):
        ledger.taken_up()
