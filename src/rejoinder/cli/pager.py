"""A pager for text that is longer than the screen, where a person reads it."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from typing import TextIO

import click

DEFAULT = "less -FRX"


@contextlib.contextmanager
def paged() -> Generator[None]:
    """Hold what is printed back until the end, and show it with `$PAGER` if it is more than one screen. Where standard
    input or output is no terminal, nothing is held back. Without a pager that works the text is printed as it is."""
    terminal, command = sys.stdout, _command()
    if not (command and sys.stdin is not None and sys.stdin.isatty() and terminal.isatty()):
        yield
        return
    held = _Held(terminal)
    sys.stdout = held
    try:
        yield
    finally:
        sys.stdout = terminal
        text = held.getvalue()
        if not (_is_long(text) and _page(text, command)):
            terminal.write(text)
            terminal.flush()


class _Held(io.StringIO):
    """What a terminal would be written, which is to look as it does there."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._terminal = terminal

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - a property in typeshed's base
        return self._terminal.encoding

    def isatty(self) -> bool:
        return True


def _command() -> list[str]:
    if os.environ.get("TERM") == "dumb":
        return []
    try:
        return shlex.split(os.environ.get("PAGER", DEFAULT))
    except ValueError:  # an open quote
        return []


def _is_long(text: str) -> bool:
    """Has it more rows than the screen, with long lines wrapped?"""
    columns, rows = shutil.get_terminal_size()
    lines = click.unstyle(text).splitlines()
    return sum(max(1, -(-len(line) // max(columns, 1))) for line in lines) >= rows


def _page(text: str, command: list[str]) -> bool:
    """False where there is no such pager. One that ends before the text does is no error."""
    sys.stdout.flush()
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env={"LESS": "FRX", **os.environ})
    except (OSError, ValueError):
        return False
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        with contextlib.suppress(OSError):
            pager.communicate(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))
        pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return True
