"""The file of results: one `Result` for each conversation, in document order.

Conversations end in any order. Their results are written to a draft beside the results and put in order at the end, so
that memory does not grow with the run.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import msgspec
from msgspec import structs

from rejoinder.errors import decoding_reason, reason_of
from rejoinder.model import (
    ChatMessage,
    Result,
    TurnResult,
)
from rejoinder.model.results import SentMessages
from rejoinder.run_files import RunDamaged, lines_of, open_draft, open_file, replace_file
from rejoinder.runs.crash_points import reached
from rejoinder.runs.secrets import Mask

MOST_MESSAGES = 1 << 23
"""Messages of all turns of a result together: they are stored as differences, and a folder may come from elsewhere."""


def _with_messages(result: Result) -> Result:
    """The result with the messages of each turn whole. Raises ValueError if they do not fit together."""
    if not any(turn.sent is not None for turn in result.turns):
        return result
    messages: tuple[ChatMessage, ...] = ()
    turns: list[TurnResult] = []
    count = 0
    for turn in result.turns:
        sent = turn.sent or SentMessages(0, turn.messages or ())
        count += sent.kept + len(sent.added)
        if sent.kept > len(messages) or count > MOST_MESSAGES:
            raise ValueError(f"the messages of turn {turn.turn} do not fit those before")
        messages = (*messages[: sent.kept], *sent.added)
        turns.append(structs.replace(turn, messages=messages, sent=None))
    return structs.replace(result, turns=tuple(turns))


class ResultWriter:
    """Takes results in any order and writes `results.jsonl` in document order at the end."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "results.jsonl"
        self._draft, self._stream = open_draft(self._path)
        self._starts = array("q")
        self._encode = msgspec.json.Encoder().encode
        self._end = 0

    def add(self, number: int, result: Result, mask: Mask | None = None) -> None:
        line = self._encode(result) + b"\n"
        if mask:
            line = mask.hide(line)
        while len(self._starts) <= number:
            self._starts.append(-1)
        self._starts[number] = self._end
        self._end += len(line)
        self._stream.write(line)
        self._stream.flush()  # those who look on see it at once; it takes some microseconds

    def abandon(self) -> None:
        """Delete the draft; a resumed run derives the results again."""
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._draft.unlink()

    def finish(self) -> Path:
        """Write `results.jsonl`, whole or not at all."""
        with self._stream as lines, replace_file(self._path) as ordered:
            lines.seek(0)
            position = 0
            for start in self._starts:
                if start >= 0:
                    if start != position:  # seeking throws the buffer away, and most lines are in order
                        lines.seek(start)
                    line = lines.readline()
                    position = start + len(line)
                    ordered.write(line)
            reached("results.before_rename")
        self._draft.unlink()
        reached("results.written")
        return self._path


def read_results(path: Path) -> Iterator[Result]:
    """All results of a file, one at a time. Raises RunDamaged for a line that rejoinder did not write."""
    decode = msgspec.json.Decoder(Result).decode
    with open_file(path) as stream:
        for number, line in enumerate(lines_of(stream, path), 1):
            try:
                result = _with_messages(decode(line))
            except (msgspec.MsgspecError, RecursionError, ValueError) as error:
                raise RunDamaged(path, f"line {number}: {decoding_reason(error)}") from None
            yield result


def read_result(path: Path, offset: int, size: int) -> Result:
    """One result of a file, by its place. Raises RunDamaged where no result lies there, or the file is gone."""
    try:
        with open_file(path) as stream:
            stream.seek(offset)
            return _with_messages(msgspec.json.decode(stream.read(size), type=Result))
    except OSError as error:
        raise RunDamaged(path, f"it cannot be read: {reason_of(error)}") from None
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise RunDamaged(path, f"it was changed: {decoding_reason(error)}") from None


class CountedResults:
    """The results of a run without those of cases that are in quarantine on its day, and without those that a simulated
    user has spoilt, unless these are wanted."""

    def __init__(self, results: Iterable[Result], day: str, *, with_spoilt: bool = False) -> None:
        self._results = results
        self._day = day
        self._with_spoilt = with_spoilt

    def __iter__(self) -> Iterator[Result]:
        kept = (result for result in self._results if not result.is_apart_on(self._day))
        return (result for result in kept if self._with_spoilt or not result.is_spoilt)


class Results(Sequence[Result]):
    """The results of a run, read from the disk: one at a time when walked through, all of them when indexed."""

    def __init__(self, path: Path, holds: object = None, *, confirming: bool = False) -> None:
        """`holds`: what must not go away before the results are read. `confirming`: those of trials that confirm new
        failures, which count nowhere, instead of the others."""
        self.path = path
        self._holds = holds
        self._confirming = confirming

    def __iter__(self) -> Iterator[Result]:
        return (result for result in read_results(self.path) if result.confirming is self._confirming)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | Sequence[Result]:
        return list(self)[index]

    def __repr__(self) -> str:
        return f"<Results: {len(self):,} in {self.path}>"


class EveryResult:
    """The results of a run with those that confirm new failures, in the order of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Result]:
        return read_results(self._path)
