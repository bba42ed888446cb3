"""Starting agents: the command, words that a target adds, and the error if an agent cannot start."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping

from rejoinder.providers.agents.driver import Seat, agent_error
from rejoinder.providers.agents.kinds import AGENTS, AgentKind
from rejoinder.providers.settings import Settings
from rejoinder.user_code.line_process import LineProcess
from rejoinder.user_code.programs import ProcessFault


def command_of(kind: AgentKind, settings: Settings) -> tuple[str, ...]:
    """The command that starts the agent: the target's `command`, or the kind's with `executable` as its first word."""
    command = _words(settings, "command") or kind.command
    executable = settings.text("executable")
    if executable:
        return executable, *command[1:]
    if not command:
        raise settings.error("needs `command`")
    return command


def added_words(settings: Settings) -> tuple[str, ...]:
    """The target's `args`: words that are passed to the agent unchecked."""
    return _words(settings, "args")


def flag(word: str, value: object) -> tuple[str, ...]:
    """An option with its value; empty if the value is missing."""
    return () if value is None else (word, str(value))


def above_zero(settings: Settings, name: str, read: Callable[[str], int] | Callable[[str], float]) -> float | None:
    """A setting that is a number above zero. Raises UsageError."""
    text = settings.text(name)
    if text is None:
        return None
    try:
        value = read(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise settings.error(f"has `{name}: {text}`, which is not a {'whole ' if read is int else ''}number above 0")
    return value


def start(words: tuple[str, ...], seat: Seat, called: str, variables: Mapping[str, str] | None = None) -> LineProcess:
    """Start an agent in its seat. Raises ProviderError."""
    environment = {**seat.environment, **(variables or {})}
    try:
        return LineProcess(words, seat.workspace, environment, called=called, owner=seat.owner)
    except ProcessFault as fault:
        program = words[0]
        missing = shutil.which(program, path=environment.get("PATH")) is None
        hint = f"; {install}" if missing and (install := install_hint(program)) else ""
        raise agent_error(f"{called} cannot be started: {fault}{hint}", ends_target=missing) from None


def install_hint(program: str) -> str | None:
    """A hint on installing a missing agent; None if unknown."""
    install = next((kind.install for kind in AGENTS.values() if kind.command[:1] == (program,)), "")
    return f"install it by `{install}`, or write where it is as `executable`" if install else None


def _words(settings: Settings, name: str) -> tuple[str, ...]:
    said = settings.values.get(name) or ()
    said = (said,) if isinstance(said, str) else said
    if not isinstance(said, list | tuple) or not all(isinstance(word, str | int | float) for word in said):
        raise settings.error(f"has `{name}` that is not a list of words")
    return tuple(str(word) for word in said)
