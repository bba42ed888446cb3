"""`rejoinder init`"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import click

from rejoinder.cli.output import echo
from rejoinder.errors import UsageError, reason_of
from rejoinder.suite import schema_for

MODELS = {
    "scripted": "scripted",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama/llama3.2",
}
"""What the starter suite can be pointed at."""


@click.command("init")
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option("--provider", type=click.Choice(list(MODELS)), help="What the starter suite is pointed at.")
@click.option("--yes", "-y", is_flag=True, help="Ask no questions; use the built-in scripted model.")
def command(folder: Path, provider: str | None, yes: bool) -> None:
    """Write a starter suite, targets and configuration into FOLDER.

    Files that exist are kept as they are. On a terminal you are asked which model to begin with; the built-in
    scripted model needs no key.
    """
    if provider is None:
        provider = "scripted" if yes or not sys.stdin.isatty() else _ask()
    for name, content in _files(MODELS[provider]):
        path = folder / name
        try:
            kept = path.exists()
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None
        if not kept:
            _write(path, content)
        echo(f"{'kept   ' if kept else 'written'} {path}")
    where = "" if folder == Path() else f"cd {folder} && "
    echo("", f"Next: {where}rejoinder validate")


def _ask() -> str:
    return click.prompt("Which model do you want to begin with?", type=click.Choice(list(MODELS)), default="scripted")


def _files(model: str) -> Iterator[tuple[str, str]]:
    starter = resources.files("rejoinder.starter")
    yield "evals.yaml", starter.joinpath("evals.yaml").read_text("utf-8").replace("@MODEL@", model)
    yield ".rejoinder/targets.yaml", starter.joinpath("targets.yaml").read_text("utf-8")
    yield ".rejoinder/config.yaml", starter.joinpath("config.yaml").read_text("utf-8")
    yield ".rejoinder/.gitignore", starter.joinpath("gitignore").read_text("utf-8")
    yield ".rejoinder/schema.json", _as_text("suite")
    yield ".rejoinder/targets.schema.json", _as_text("targets")
    yield ".rejoinder/config.schema.json", _as_text("config")
    yield ".env.template", starter.joinpath("env.template").read_text("utf-8")


def _as_text(kind: str) -> str:
    schema = schema_for(kind)  # pyright: ignore[reportArgumentType] - one of the three kinds above
    return f"{json.dumps(schema, ensure_ascii=False, indent=2)}\n"


def _write(path: Path, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # `x` never overwrites, even if the file has appeared since we looked.
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(content)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None
