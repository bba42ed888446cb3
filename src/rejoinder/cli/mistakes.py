"""Commands and options that do not exist: what was meant, as a whole command line that can be pasted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import click

from rejoinder.cli.output import echo
from rejoinder.spelling import nearest

COMMANDS_ELSEWHERE = {
    **dict.fromkeys(("test", "check", "start", "exec"), "run"),
    **dict.fromkeys(("list", "ls", "history", "get"), "runs"),
    **dict.fromkeys(("delete", "remove", "rm"), "runs rm"),
    "vars": "var list",
    "secrets": "secret list",
    "lint": "validate",
    **dict.fromkeys(("results", "inspect", "open"), "show"),
    **dict.fromkeys(("serve", "server", "ui"), "view"),
    "diff": "compare",
    **dict.fromkeys(("new", "create"), "init"),
    **dict.fromkeys(("rerun", "retry", "continue"), "resume"),
    **dict.fromkeys(("regrade", "score"), "grade"),
    **dict.fromkeys(("branch", "rewind"), "fork"),
    **dict.fromkeys(("baseline", "accept", "approve"), "bless"),
}
"""Commands that other tools have, and what does their work here."""

OPTIONS_ELSEWHERE = {
    **dict.fromkeys(("-k", "--filter", "--grep", "--id", "--cases"), "--case"),
    **dict.fromkeys(("-j", "--jobs", "--concurrency", "--max-concurrency", "--parallel"), "--workers"),
    **dict.fromkeys(("--lf", "--last-failed", "--only-failed", "--filter-failing"), "--failed"),
    **dict.fromkeys(("-x", "--exitfirst", "--bail"), "--fail-fast"),
    **dict.fromkeys(("-o", "--output", "--output-file"), "--out"),
    **dict.fromkeys(("--count", "--times", "--epochs", "--runs"), "--repeat"),
    **dict.fromkeys(("--budget", "--max-cost", "--cost-limit"), "--budget-usd"),
    **dict.fromkeys(("--retries", "--max-retry"), "--max-retries"),
    "--json": "--format json",
    "--junit": "--format junit",
    "--html": "--report",
}
"""Options that other tools have, and those that do the same here."""

LISTING = ("list", "ls", "all")
"""What groups of commands do by themselves, unless they have such a command."""
_NO_COMMAND = re.compile(r"No such command '(.*)'", re.DOTALL)


class Mistake(click.UsageError):
    """A command line that cannot be carried out: one line that says why, and commands to type instead."""

    def __init__(self, message: str, *commands: tuple[str, str]) -> None:
        super().__init__(message)
        self.commands = commands

    def show(self, file: IO[Any] | None = None) -> None:
        width = max((len(command) for command, _ in self.commands), default=0)
        lines = [f"error: {self.message}", *(f"  {command:{width}}   {why}" for command, why in self.commands)]
        if file is None:
            echo(*lines, err=True)
        else:
            file.write("".join(f"{' '.join(line.splitlines())}\n" for line in lines))


def explain(error: click.UsageError, given: Sequence[str]) -> Mistake:
    """`given`: the words of the command line after `rejoinder`."""
    if isinstance(error, Mistake):
        return error
    command = error.ctx.command if error.ctx is not None else None
    if isinstance(error, click.NoSuchOption) and command is not None:
        return _no_option(error.option_name, command, list(given))
    word = _NO_COMMAND.match(error.message)
    if word is not None and isinstance(command, click.Group) and error.ctx is not None:
        return _no_command(word[1], given, command.list_commands(error.ctx))
    return Mistake(" ".join(error.format_message().split()).removesuffix("."))


def no_command(given: Sequence[str], known: Sequence[str]) -> Mistake:
    """The first word is no command."""
    word = given[0]
    said = f"there is no command {word}"
    if Path(word).suffix.lower() in (".yaml", ".yml", ".json") or Path(word).exists():
        return Mistake(f"{said}; it is a suite", (_line("run", *given), "run it"))
    if (meant := COMMANDS_ELSEWHERE.get(word)) is not None:
        return Mistake(f"{said}; here it is called {meant}", (_line(*meant.split(), *given[1:]), "is what does it"))
    return _no_command(word, given, known)


def _no_command(word: str, given: Sequence[str], known: Sequence[str]) -> Mistake:
    meant, place = nearest(word, known), list(given).index(word) if word in given else 0
    if place and word in LISTING:
        return Mistake(f"there is no command {word}", (_line(*given[:place], *given[place + 1 :]), "lists them"))
    if meant is None:
        before = [*given[:place], "--help"]
        return Mistake(f"there is no command {word}", (_line(*before), "lists the commands"))
    corrected = [*given[:place], meant, *given[place + 1 :]]
    return Mistake(f"there is no command {word}", (_line(*corrected), "did you mean this?"))


def _no_option(option: str, command: click.Command, given: list[str]) -> Mistake:
    said = f"there is no option {option}"
    if command.name == "run" and any(word.partition("=")[0] == "--fork" for word in given):
        return Mistake("there is no option --fork; it is a command", (_forked(given), "does it"))
    known = [name for one in command.params if not getattr(one, "hidden", False) for name in one.opts]
    meant = OPTIONS_ELSEWHERE.get(option, "")
    if meant.partition(" ")[0] not in known:
        meant = nearest(option, (name for name in known if name.startswith("--"))) or ""
    if not meant:
        words = [word for word in given[:2] if not word.startswith("-")]
        names = words if isinstance(command, click.Group) or len(words) == 1 else _names(command, words)
        return Mistake(said, (_line(*names, "--help"), "lists the options"))
    corrected = [part for word in given for part in _replaced(word, option, meant)]
    return Mistake(said, (_line(*corrected), "did you mean this?"))


def _names(command: click.Command, words: list[str]) -> list[str]:
    """The words of a command line that name the command."""
    return words[: words.index(command.name) + 1] if command.name in words else words[:1]


def _replaced(word: str, option: str, meant: str) -> list[str]:
    """A word of the command line with another option in place of one, its value kept."""
    if word == option:
        return meant.split()
    if option.startswith("--") and word.startswith(f"{option}="):
        return [f"{meant}={word.partition('=')[2]}"]
    if not option.startswith("--") and word.startswith(option):
        return [*meant.split(), word.removeprefix(option)]
    return [word]


def _forked(given: list[str]) -> str:
    """`run --fork RUN ...` as `fork RUN ...`."""
    place = next(place for place, word in enumerate(given) if word.partition("=")[0] == "--fork")
    _, has_value, value = given[place].partition("=")
    run = [value] if has_value else given[place + 1 : place + 2]
    rest = [*given[:place], *given[place + (1 if has_value else 2) :]]
    return _line("fork", *run, *(word for number, word in enumerate(rest) if number or word not in ("run", "eval")))


def _line(*words: str) -> str:
    from shlex import join

    return join(("rejoinder", *words))
