"""Redirection of user output: standard output is for results. Output of users' code goes to standard error, including
output of programs that it starts, which write to the descriptor and not to `sys.stdout`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Generator
from typing import TextIO

_lock = threading.Lock()
_redirections: list[contextlib.ExitStack] = []
"""The active redirections, to undo them; runs in several threads share one standard output."""


@contextlib.contextmanager
def redirect_user_output() -> Generator[None]:
    """Send all output during the block to standard error."""
    with _lock:
        _redirections.append(_redirect() if not _redirections else contextlib.ExitStack())
    try:
        yield
    finally:
        with _lock:
            _redirections.pop().close()  # the first one, which can undo it, is closed last


def redirect_import_output() -> contextlib.AbstractContextManager[None]:
    """Redirect output during an import. Inside a run this does nothing, because an import that hangs must not hold back
    the run's results."""
    return contextlib.nullcontext() if _redirections else redirect_user_output()


def _redirect() -> contextlib.ExitStack:
    with contextlib.ExitStack() as undo:
        stdout, stderr = sys.stdout, sys.stderr
        undo.enter_context(contextlib.redirect_stdout(stderr))
        if stdout is sys.__stdout__ and stdout is not None and stderr is not None:  # else it is captured: not ours
            with contextlib.suppress(OSError, ValueError):  # a stream that is closed, or has no number
                _move_descriptor(stdout, stderr, undo)
        return undo.pop_all()


def _move_descriptor(stdout: TextIO, stderr: TextIO, undo: contextlib.ExitStack) -> None:
    number, instead = stdout.fileno(), stderr.fileno()
    stdout.flush()
    kept = os.dup(number)
    undo.callback(os.close, kept)
    undo.callback(os.dup2, kept, number)
    os.dup2(instead, number)
    undo.callback(_flush, stdout)  # first: other code may have written to it nonetheless


def _flush(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
