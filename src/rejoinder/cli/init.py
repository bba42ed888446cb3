"""`rejoinder init`"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from importlib import invalidate_caches, resources
from keyword import iskeyword
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from rejoinder.cli.output import echo
from rejoinder.errors import UsageError, reason_of
from rejoinder.model.providers import PROVIDERS, row_of
from rejoinder.suite.schema import schema_for
from rejoinder.suite.target_names import check_target
from rejoinder.suite.targets import resolve
from rejoinder.words.numbers import listed

SUITE = "evals.yaml"


class Start(Struct, frozen=True):
    """What a first suite is pointed at."""

    name: str
    """Of the target."""
    lines: tuple[str, ...] = ()
    """Its entry among the suite's targets, for what needs one."""
    cases: str = "evals.yaml"
    """The starter file with the cases."""
    files: Mapping[str, str] = {}
    """What is written beside the suite: names of files and their content."""

    @property
    def suite(self) -> str:
        entry = ("targets:", *self.lines) if self.lines else ()
        target = "\n".join((*entry, f"target: {_quoted(self.name)}"))
        return _starter(self.cases).replace("@TARGET@", target)


@click.command("init")
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option("--model", metavar="NAME", help="Test a model, such as openai/gpt-5-mini.")
@click.option("--python", "call", metavar="MODULE:NAME", help="Test a Python function; it is written if it is missing.")
@click.option("--http", "url", metavar="URL", help="Test an HTTP service.")
@click.option("--agent", metavar="NAME", help="Test a coding agent, such as claude, codex or gemini, or a command.")
@click.option("--local", is_flag=True, help="Begin with a small model on this machine.")
@click.option("--scripted", is_flag=True, help="Begin with replies from a list.")
@click.option("--yes", "-y", is_flag=True, help="Ask no questions.")
def command(folder: Path, yes: bool, **given: Any) -> None:
    """Write a first suite into FOLDER.

    On a terminal you are asked what you want to test. Without one, and with --yes, it is a small model on this machine
    if llama.cpp is installed, else replies from a list; neither needs a key. Existing files are not changed.
    """
    chosen = [name for name, value in given.items() if value]
    if len(chosen) > 1:
        raise UsageError("one thing can be tested to begin with", "Add more targets in the suite.")
    kind, value = (chosen[0], given[chosen[0]]) if chosen else _nothing_yet()
    if not chosen and not yes and sys.stdin.isatty():
        kind, value = _ask(kind, folder)
    start = _STARTS[kind](str(value), folder)
    is_new = _put(folder / SUITE, start.suite)
    for name, content in start.files.items():
        _put(folder / name, content)
    _put(folder / ".rejoinder/schema.json", f"{json.dumps(schema_for('suite'), ensure_ascii=False, indent=2)}\n")
    _put(folder / ".rejoinder/.gitignore", _starter("gitignore"))
    echo("")
    if is_new and (lack := _lack(folder / SUITE, start.name)):
        echo(f"First: {lack}")
    where = "" if folder == Path() else f"cd {folder} && "
    echo(f"Next: {where}rejoinder run")


def _nothing_yet() -> tuple[str, bool]:
    from rejoinder.providers.local import is_installed

    return ("local" if is_installed() else "scripted"), True


class _Question(Struct, frozen=True):
    """A line of the menu, and what is asked of one who chooses it."""

    line: str
    kind: str
    """Its key among what can be tested."""
    asked: str
    default: str


_QUESTIONS = (
    _Question("a model, by its name", "model", "Model", "openai/gpt-5-mini"),
    _Question("a Python function", "call", "Function", "bot:reply"),
    _Question("an HTTP service", "url", "Address", "http://localhost:8000/chat"),
    _Question("a coding agent", "agent", "Agent", "claude"),
)


def _ask(nothing: str, folder: Path) -> tuple[str, str | bool]:
    """What is to be tested, in the user's words. `nothing`: what it is for one who has nothing yet."""
    example = "a small model on this machine" if nothing == "local" else "replies from a list"
    lines = (*(question.line for question in _QUESTIONS), f"nothing yet: {example} will do")
    echo("What do you want to test?", *(f"  {number}  {line}" for number, line in enumerate(lines, 1)))
    answer = click.prompt("Number", default=str(len(lines)), value_proc=_one_of_them)
    if answer > len(_QUESTIONS):
        return nothing, True
    question = _QUESTIONS[answer - 1]

    def tested(text: str) -> str:
        try:
            _STARTS[question.kind](text, folder)
        except UsageError as error:
            raise click.UsageError("; ".join(filter(None, (error.message, error.hint)))) from None
        return text

    return question.kind, click.prompt(question.asked, default=question.default, value_proc=tested)


def _one_of_them(text: str) -> int:
    """The number of a line. What is refused is asked for again."""
    numbers = [str(number) for number in range(1, len(_QUESTIONS) + 2)]
    if text.strip() not in numbers:
        raise click.UsageError(f"{text.strip()!r} is none of them; type {listed(numbers, 'or')}")
    return int(text)


# What can be tested


def _model(name: str, folder: Path) -> Start:  # noqa: ARG001 - the same for all of them
    target, faults = resolve(name, {}), check_target(name, {})
    if target is None or faults:
        raise UsageError(faults[0].message)
    lines = (
        f"  - name: {_quoted(name)}",
        f"    provider: {target.provider}",
        *(f"    {setting}: {_quoted(str(value))}" for setting, value in target.settings.items()),
        "    # api_key: ${{ VARIABLE }} # where the key is in another variable than usual",
    )
    return Start(name, lines, cases="model.yaml")


def _python(call: str, folder: Path) -> Start:
    from rejoinder.user_code.lookup import find_module

    module, _, function = call.partition(":")
    if not all(part.isidentifier() and not iskeyword(part) for part in (*module.split("."), function)):
        raise UsageError(f"`{call}` names no function", "Write module:function, such as bot:reply for that of bot.py.")
    lines = ("  - name: bot", "    provider: python", f"    call: {call}")
    if find_module(call, (str(folder.resolve()),)) is None:
        return Start("bot", lines)
    code = _starter("bot.txt").replace("@FUNCTION@", function)
    return Start("bot", lines, files={f"{module.replace('.', '/')}.py": code})


def _http(url: str, folder: Path) -> Start:  # noqa: ARG001
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"`{url}` begins with neither http:// nor https://", f"Write it out: https://{url}")
    is_chat = url.endswith("/chat/completions")
    model, path = ("model: default, ", "choices[0].message.content") if is_chat else ("", "reply")
    lines = (
        "  - name: service",
        "    provider: http",
        f"    url: {_quoted(url)}",
        '    # headers: { Authorization: "Bearer ${{ SERVICE_KEY }}" } # from the environment or a .env file',
        "    # For a service whose client keeps the history: every request has the whole conversation, {{ messages }}.",
        "    # {{ prompt }} is only what was said last.",
        f'    body: {{ {model}messages: "{{{{ messages }}}}" }}',
        "    # Where the reply is in the JSON that comes back; without this line the whole text is the reply.",
        f"    reply_path: {path}",
    )
    return Start("service", lines if is_chat else (*lines, *_service_with_sessions(url)))


def _service_with_sessions(url: str) -> tuple[str, ...]:
    """A second target, as a comment: for a service that keeps the conversation itself."""
    return (
        "  # For a service that keeps the conversation: every request has only what is new, and the session id that is",
        "  # in the first response (`session`). Uncomment it, then: rejoinder run -m service-with-sessions",
        "  # - name: service-with-sessions",
        "  #   provider: http",
        f"  #   url: {_quoted(url)}",
        "  #   history: theirs",
        '  #   body: { message: "{{ prompt }}", session_id: "{{ session }}" }',
        "  #   reply_path: reply",
        "  #   session: { json_path: session_id }",
    )


def _agent(name: str, folder: Path) -> Start:
    known, words = resolve(name, {}), name.split()
    if known is not None and row_of(known.provider).agent:
        provider, settings = known.provider, known.settings
    elif words and (shutil.which(words[0]) or (folder / words[0]).is_file()):
        provider, settings = "acp", {"command": words}
    else:
        names = ", ".join(name for name, info in PROVIDERS.items() if info.agent and info.ready)
        raise UsageError(f"there is no agent `{name}`", f"Write {names}, or the command of one that speaks ACP.")
    lines = (
        "  - name: agent",
        f"    provider: {provider}",
        *(f"    {setting}: {json.dumps(value, ensure_ascii=False)}" for setting, value in settings.items()),
        "    permissions: { edit: allow } # it may read and search anyway; running commands is `execute: allow`",
        "    workspace_template: project",
        "    timeout_seconds: 600",
        "    # home: shared # where you are logged in and have no key",
    )
    files = {"project/prices.py": _starter("prices.txt"), "project/test_prices.py": _starter("test_prices.txt")}
    return Start("agent", lines, cases="agent.yaml", files=files)


def _local(given: str, folder: Path) -> Start:  # noqa: ARG001
    lines = (
        "  # A small model on this machine, which costs nothing. With a seed and one worker its replies are the same",
        "  # each time.",
        "  - { name: tiny, provider: local, model: smollm2, temperature: 0.7, seed: 4, max_tokens: 48, workers: 1 }",
    )
    return Start("tiny", lines, cases="local.yaml")


def _scripted(given: str, folder: Path) -> Start:  # noqa: ARG001
    lines = (
        "  # Replies from a list, so that everything can be tried without a model and without a key.",
        "  - name: demo",
        "    provider: scripted",
        "    replies:",
        '      greeting: ["Hello! How can I help you?"]',
        '      hours: ["From 9 to 5.", "From Monday to Friday, 9 to 5."]',
        '      "*": ["I do not know."]',
    )
    return Start("demo", lines)


_STARTS: dict[str, Callable[[str, Path], Start]] = {
    "model": _model,
    "call": _python,
    "url": _http,
    "agent": _agent,
    "local": _local,
    "scripted": _scripted,
}


def _lack(file: Path, name: str) -> str | None:
    """What to do before the suite can run."""
    from rejoinder.engine.probe import find_lack
    from rejoinder.errors import SuiteError
    from rejoinder.runs.loading import load_options
    from rejoinder.runs.options import RunOptions, Selection
    from rejoinder.validation.review import load_suites

    invalidate_caches()  # a module that was just written is found
    try:
        [suite], _ = load_suites([file], load_options(RunOptions(selection=Selection(targets=("scripted/none",)))))
    except SuiteError:  # of the project around it; `run` shows it
        return None
    target = resolve(name, suite.targets)
    lack = find_lack(target, suite) if target is not None else None
    return None if lack is None else lack.hint or str(lack)


# Files


def _quoted(text: str) -> str:
    """As YAML reads it, whatever it holds."""
    return json.dumps(text, ensure_ascii=False)


def _starter(name: str) -> str:
    return resources.files("rejoinder.starter").joinpath(name).read_text("utf-8")


def _put(path: Path, content: str) -> bool:
    """Write a file unless there is one. Was it written?"""
    try:
        kept = path.exists()
        if not kept:
            path.parent.mkdir(parents=True, exist_ok=True)
            # `x` never overwrites, even if the file has appeared since we looked.
            with path.open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(content)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None
    echo(f"{'kept   ' if kept else 'written'} {path}")
    return not kept
