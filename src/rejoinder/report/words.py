"""Short texts that reports and commands share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

Commands: TypeAlias = tuple[tuple[str, str], ...]
"""What to type next, with what each does."""


def command_lines(commands: Iterable[tuple[str, str]], width: int | None) -> Iterator[str]:
    """Commands to type next, each with what it does, behind it or below it."""
    listed = list(commands)
    longest = max((len(command) for command, _ in listed), default=0)
    for command, use in listed:
        line = f"  {command.ljust(longest)}   {use}"
        yield from [line] if width is None or len(line) <= width else [f"  {command}", f"      {use}"]


def count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def shortened(text: str, most: int) -> str:
    """A text in one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
