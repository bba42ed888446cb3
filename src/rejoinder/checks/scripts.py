"""Scripts of checks: running them, and reading verdicts from their output."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from rejoinder.checks.base import CheckFault
from rejoinder.checks.user_verdicts import WANTED, read_opinion
from rejoinder.model import Opinion
from rejoinder.user_code.processes import Command, Ended, end_of, run_process, shell_words
from rejoinder.user_code.programs import ProcessFault
from rejoinder.words.numbers import beginning

_LONGEST_QUOTE = 200
_LONGEST_REASON = 600


def words_to_run(words: tuple[str, ...]) -> tuple[str, ...]:
    """One word is a line for the shell, several are the words of a program."""
    return shell_words(words[0]) if len(words) == 1 else words


async def run_script(
    words: tuple[str, ...], folder: Path, stdin: bytes, timeout_s: float, environment: Mapping[str, str] = os.environ
) -> Ended:
    """Run a script to its end. Raises CheckFault if it cannot be started, does not end in time or prints too much."""
    command = Command(
        words=words_to_run(words), folder=folder, environment=environment, timeout_s=timeout_s, stdin=stdin
    )
    try:
        return await run_process(command)
    except ProcessFault as fault:
        raise CheckFault(str(fault)) from None


def opinion_of(ended: Ended) -> Opinion:
    """The verdict of a script: the JSON that it printed, else its exit code. Raises CheckFault."""
    printed = ended.stdout.strip()
    if ended.exit_code < 0:
        raise _fault(f"the script {ended.how()}", ended.stderr)
    if ended.exit_code > 0:
        return _refusal(ended, printed)
    return _verdict(ended, printed) if printed else Opinion(passed=True)


def _refusal(ended: Ended, printed: str) -> Opinion:
    """The verdict of a script that exits with an error. One that fails on purpose prints a plain reason, if any. Output
    on standard error means a crash, and a printed verdict before an error exit is a contradiction."""
    if ended.stderr.strip():
        raise _fault(f"the script {ended.how()}", ended.stderr)
    if _found(printed) is not UNSET:
        raise CheckFault(
            f"the script ended with exit code {ended.exit_code} although it printed {_quoted(printed)}; "
            "a script that prints its verdict ends with 0"
        )
    return Opinion(passed=False, reason=beginning(printed, _LONGEST_REASON) or f"exit code {ended.exit_code}")


def _verdict(ended: Ended, printed: str) -> Opinion:
    value = _found(printed)
    if not isinstance(value, bool | int | float | dict):
        wanted = "JSON is expected: an object with `score` or `passed`, true or false, or a number from 0 to 1"
        raise _fault(f"the script printed {_quoted(printed)}; {wanted}", ended.stderr, "; standard error: ")
    try:
        return read_opinion(_forgiven(value))
    except CheckFault as fault:
        raise _fault(f"the script {fault}", ended.stderr, "; standard error: ") from None
    except RecursionError:
        raise CheckFault(f"the script printed JSON that is nested too deeply; {WANTED} is expected") from None


def _found(printed: str) -> Any:
    """The printed JSON: the whole output or, since scripts may log before it, the object on the last line; UNSET if
    missing."""
    value = _json(printed)
    if value is not UNSET:
        return value
    last = _json(printed.rpartition("\n")[2])
    return last if isinstance(last, dict) else UNSET


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return UNSET


def _forgiven(value: Any) -> Any:
    """The value with its score limited to 0 to 1, as in AgentV: scripts may count points."""
    if isinstance(value, dict):
        return {**value, "score": _clamped(value["score"])} if "score" in value else value
    return _clamped(value)


def _clamped(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return min(max(value, 0), 1)  # JSON knows no NaN


def _fault(what: str, stderr: str, before: str = ": ") -> CheckFault:
    """An error with the last words of the script."""
    end = end_of(stderr)
    return CheckFault(f"{what}{before}{end}" if end else what)


def _quoted(text: str) -> str:
    return repr(beginning(text, _LONGEST_QUOTE))
