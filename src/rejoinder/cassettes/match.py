"""Finding the recording that answers a request, and explaining a missing one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rejoinder.cassettes.file import Change, Recording, read_cassette

MOST_DIFFERENCE = 20
"""Maximum lines of a difference to show."""
MOST_COMPARED = 400
"""Maximum lines to compare, starting with the first different one."""
LONGEST_LINE = 100
"""Longer lines are compared sentence by sentence."""


class Playback:
    """Answers from one cassette. Equal questions get their answers in recorded order."""

    def __init__(self, path: Path, reveal: Change = str) -> None:
        self.path = path
        self._calls = read_cassette(path, reveal).calls
        self._left = list(range(len(self._calls)))

    def find(self, wanted: Recording) -> Recording | None:
        for position, number in enumerate(self._left):
            if self._calls[number].answers(wanted):
                del self._left[position]
                return self._calls[number]
        return None

    def stale(self) -> list[Recording]:
        """Unused recordings. Conversations share embeddings, so unused embeddings mean nothing."""
        left = (self._calls[number] for number in self._left)
        return [one for one in left if one.asked != "embedding"]

    def left_of(self, target: str | None = None) -> str:
        """A summary of unused recordings, of one target or of all; empty if none."""
        left = [one for one in self.stale() if target in (None, one.of)]
        more = f" and {len(left) - 1} more" if left[1:] else ""
        return f"{left[0].describe()}{more}" if left else ""

    def explain(self, wanted: Recording) -> str:
        """Why there is no answer: the nearest recording, and the difference."""
        return explain_miss(wanted, self._calls, str(self.path))


def likeness(wanted: Recording, recorded: Sequence[Recording]) -> int:
    """The number of equal lines in the nearest recording."""
    new = _lines(wanted)
    return max((sum(_alike(_lines(one), new)) for one in recorded if one.asked == wanted.asked), default=-1)


def explain_miss(
    wanted: Recording, recorded: Sequence[Recording], where: str, then: Sequence[str] = (), now: Sequence[str] = ()
) -> str:
    """The missing request, with the difference to the nearest recording of its kind. `then` and `now` are lines about
    the target at both times."""
    what, new = wanted.describe(), [*now, *_lines(wanted)]
    known = [[*then, *_lines(one)] for one in recorded if one.asked == wanted.asked]
    if not known:
        return f"{where} has no recording for {what}"
    old = max(known, key=lambda one: sum(_alike(one, new)))
    changes = _differences(old, new)
    if not changes:
        return f"{where} has answered {what} already, and it is asked once more"
    shown = changes[:MOST_DIFFERENCE]
    if changes[MOST_DIFFERENCE:]:
        shown.append(f"({len(changes) - MOST_DIFFERENCE} more lines)")
    return f"{where} has no recording for {what}; the nearest differs:\n" + "\n".join(shown)


def _differences(old: list[str], new: list[str]) -> list[str]:
    """The lines of a difference. Only the part between an equal beginning and an equal end is compared in full."""
    import difflib

    begin, end = _alike(old, new)
    begin = max(0, begin - 1)
    was, now = (one[begin : min(len(one) - max(0, end - 1), begin + MOST_COMPARED)] for one in (old, new))
    return list(difflib.unified_diff(was, now, "recorded", "asked now", lineterm="", n=1))


def _alike(old: list[str], new: list[str]) -> tuple[int, int]:
    """Number of equal lines at the beginning, and number of other equal lines at the end."""
    shortest = min(len(old), len(new))
    begin = next((n for n in range(shortest) if old[n] != new[n]), shortest)
    end = next((n for n in range(shortest - begin) if old[-1 - n] != new[-1 - n]), shortest - begin)
    return begin, end


def _lines(one: Recording) -> list[str]:
    lines = [f"{one.asked} {one.of}, turn {one.turn}", *([f"model {one.model}"] if one.model else [])]
    for message in one.messages:
        lines += [f"{message.role}:", *message.content.split("\n")]
        lines += [f"picture {picture.digest} {picture.name}" for picture in message.pictures if picture.digest]
        lines += [f"calls {call.name} {call.arguments}" for call in message.tool_calls]
    lines += one.text.split("\n") if one.text else []
    lines += [f"output schema {one.output_schema}"] if one.output_schema else []
    return [piece for line in lines for piece in _pieces(line)]


def _pieces(line: str) -> list[str]:
    return [line] if len(line) <= LONGEST_LINE else re.split(r"(?<=[.,;:!?]) ", line)
