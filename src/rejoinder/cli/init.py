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
from rejoinder.suite import FileKind, schema_for

MODELS = {
    "scripted": "scripted",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama/llama3.2",
}
"""Providers of the starter suite, each with the model that it names."""
_KINDS: tuple[FileKind, ...] = ("suite", "targets", "config")


@click.command("init")
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option("--provider", type=click.Choice(list(MODELS)), help="Point the starter suite at this provider.")
@click.option("--yes", "-y", is_flag=True, help="Ask no questions; use the built-in scripted model.")
def command(folder: Path, provider: str | None, yes: bool) -> None:
    """Write a starter suite, targets and configuration into FOLDER.

    Files that exist are kept as they are. On a terminal you are asked which model to begin with; the built-in
    scripted model needs no key.
    """
    if provider is None:
        provider = "scripted"
        if not yes and sys.stdin.isatty():
            choices = click.Choice(list(MODELS))
            provider = click.prompt("Which model do you want to begin with?", type=choices, default="scripted")
    for name, content in _files(MODELS[provider]):
        path = folder / name
        try:
            kept = path.exists()
            if not kept:
                _write(path, content)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None
        echo(f"{'kept   ' if kept else 'written'} {path}")
    where = "" if folder == Path() else f"cd {folder} && "
    echo("", f"Next: {where}rejoinder validate")


def _files(model: str) -> Iterator[tuple[str, str]]:
    starter = resources.files("rejoinder.starter")
    yield "evals.yaml", starter.joinpath("evals.yaml").read_text("utf-8").replace("@MODEL@", model)
    yield ".rejoinder/targets.yaml", starter.joinpath("targets.yaml").read_text("utf-8")
    yield ".rejoinder/config.yaml", starter.joinpath("config.yaml").read_text("utf-8")
    yield ".rejoinder/.gitignore", starter.joinpath("gitignore").read_text("utf-8")
    for kind in _KINDS:
        name = "schema.json" if kind == "suite" else f"{kind}.schema.json"
        yield f".rejoinder/{name}", f"{json.dumps(schema_for(kind), ensure_ascii=False, indent=2)}\n"
    yield ".env.template", starter.joinpath("env.template").read_text("utf-8")


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # `x` never overwrites, even if the file has appeared since we looked.
    with path.open("x", encoding="utf-8", newline="\n") as stream:
        stream.write(content)
