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
    **dict.fromkeys(("baselines", "accept", "approve"), "baseline"),
}
"""Commands that other tools have, and what does their work here."""

_THINGS = {
    **dict.fromkeys(("runs", "run"), ("runs", "show", None, "runs rm")),
    **dict.fromkeys(("models", "model"), ("models", "models", None, None)),
    **dict.fromkeys(("targets", "target"), ("targets", "targets", None, None)),
    **dict.fromkeys(("suites", "suite"), ("suites", "suites show", "suites save", "suites rm")),
    **dict.fromkeys(("vars", "var"), ("var list", "var get", "var set", "var rm")),
    **dict.fromkeys(("secrets", "secret"), ("secret list", "secret list", "secret set", "secret rm")),
}
"""What vibecheck's commands of two words speak of, and what lists all, shows one, sets one and deletes one here."""
_VERBS = {
    **dict.fromkeys(("get", "list", "ls"), "get"),
    **dict.fromkeys(("set", "add", "save"), "set"),
    **dict.fromkeys(("delete", "remove", "rm"), "delete"),
}
_DELETING = frozenset({"rm", "prune", "clear"})
"""Commands that delete: one is named where it is asked for, and never proposed because its name is similar."""

_TRUSTING = frozenset({"--trust", "--trust-env", "--allow-targets", "--allow-code"})
"""Options that let files decide more: one is never proposed because its name is similar."""

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
    if (meant := _two_words(given)) is not None:
        return meant
    word = _NO_COMMAND.match(error.message)
    if word is not None and isinstance(command, click.Group) and error.ctx is not None:
        place = given.index(word[1], 1) if word[1] in given[1:] else 0
        return _no_command(place, given, command.list_commands(error.ctx))
    return Mistake(" ".join(error.format_message().split()).removesuffix("."))


def no_command(given: Sequence[str], known: Sequence[str]) -> Mistake:
    """The first word is no command."""
    word = given[0]
    said = f"there is no command {word}"
    if Path(word).suffix.lower() in (".yaml", ".yml", ".json") or Path(word).exists():
        return Mistake(f"{said}; it is a suite", (_line("run", *given), "run it"))
    if (found := _two_words(given)) is not None:
        return found
    if word == "version":
        return Mistake(f"{said}; it is an option", (_line("--version"), "shows the version"))
    meant = COMMANDS_ELSEWHERE.get(word)
    if word in _VERBS and len(given) > 1 and not given[1].startswith("-"):
        return Mistake(f"there is no command {word} {given[1]}", (_line("--help"), "lists the commands"))
    if meant is not None and _DELETING & set(meant.split()):
        return Mistake(f"{said}; here it is called {meant}", (_line(*meant.split(), "--help"), "says how it is used"))
    if meant is not None:
        return Mistake(f"{said}; here it is called {meant}", (_line(*meant.split(), *given[1:]), "is what does it"))
    return _no_command(0, given, known)


def _two_words(given: Sequence[str]) -> Mistake | None:
    """What a command of two words is here, such as vibecheck's `get runs`; None for others."""
    verb, thing, *rest = (*given, "", "")[: max(2, len(given))]
    said = f"there is no command {verb} {thing}"
    if (verb, thing) in (("stop", "run"), ("stop", "runs")):
        return Mistake(f"{said}; here it is called stop", (_line("stop", *rest[:1]), "does it"))
    if verb in _THINGS and thing in ("list", "ls") and _THINGS[verb][0] != f"{verb} {thing}":
        every = _THINGS[verb][0]
        return Mistake(f"{said}; here it is called {every}", (_line(*every.split(), *rest), "does it"))
    if verb not in _VERBS or thing not in _THINGS:
        return None
    every, one, setting, deleting = _THINGS[thing]
    names = [word for word in rest if not word.startswith("-")]
    is_one = bool(rest) and not rest[0].startswith("-")
    meant = {"get": one if is_one else every, "set": setting, "delete": deleting}[_VERBS[verb]]
    if meant is None:
        return None
    if meant == deleting:
        return Mistake(f"{said}; here it is called {meant}", (_line(*meant.split(), "--help"), "says how it is used"))
    if meant == "secret set":  # its value does not belong on a command line
        rest = names[:1]
    elif meant == "suites save":
        rest = ["NAME", *(names or ["FILE"])]
    elif meant == "secret list":
        rest = []
    return Mistake(f"{said}; here it is called {meant}", (_line(*meant.split(), *rest), "does it"))


def _no_command(place: int, given: Sequence[str], known: Sequence[str]) -> Mistake:
    """The word at a place is none of the known commands."""
    word = given[place]
    meant = nearest(word, [name for name in known if name not in _DELETING])
    if meant is None:
        before = [*given[:place], "--help"]
        return Mistake(f"there is no command {word}", (_line(*before), "lists the commands"))
    corrected = [*given[:place], meant, *given[place + 1 :]]
    return Mistake(f"there is no command {word}", (_line(*corrected), "did you mean this?"))


def _no_option(option: str, command: click.Command, given: list[str]) -> Mistake:
    said = f"there is no option {option}"
    if command.name == "run" and any(word.partition("=")[0] == "--fork" for word in given):
        return Mistake("there is no option --fork; it is a command", (_forked(given), "does it"))
    if command.name == "run" and option in ("--rule", "--rules"):
        rules = _line("gate", "--against", "NAME", "--rule", "RULE")
        return Mistake(f"{said}; a recorded run is put to rules", (rules, "does it"))
    if command.name == "run" and option in ("--var", "--vars"):
        return Mistake(f"{said}; variables are under `vars` in the suite", (_saved(given), "saves one for all suites"))
    known = [name for one in command.params if not getattr(one, "hidden", False) for name in one.opts]
    meant = OPTIONS_ELSEWHERE.get(option, "")
    if meant.partition(" ")[0] not in known:
        meant = nearest(option, (name for name in known if name.startswith("--") and name not in _TRUSTING)) or ""
    if not meant:
        words = [word for word in given[:2] if not word.startswith("-")]
        names = words if isinstance(command, click.Group) or len(words) == 1 else _names(command, words)
        return Mistake(said, (_line(*names, "--help"), "lists the options"))
    corrected = [part for word in given for part in _replaced(word, option, meant)]
    return Mistake(said, (_line(*corrected), "did you mean this?"))


def _saved(given: list[str]) -> str:
    """`run --var a=b` as `var set a b`."""
    place = next((place for place, word in enumerate(given) if word.startswith("--var")), len(given))
    _, has_value, value = given[place].partition("=") if place < len(given) else ("", "", "")
    written = value if has_value else next(iter(given[place + 1 : place + 2]), "")
    name, _, value = written.partition("=")
    return _line("var", "set", name or "NAME", value or "VALUE")


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
