"""`rejoinder trust`"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rejoinder.cli.output import echo
from rejoinder.engine.env_trust import deciding_variables, forget_files, trust_files, trusted_files
from rejoinder.errors import UsageError
from rejoinder.project.dotenv import env_files, read_env_file
from rejoinder.project.folders import find_root
from rejoinder.words.numbers import count, plural


@click.command("trust")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--forget", is_flag=True, help="Stop trusting these files.")
@click.option("--list", "listing", is_flag=True, help="List the files that are trusted.")
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation.")
def command(files: tuple[Path, ...], forget: bool, listing: bool, yes: bool) -> None:
    """Allow .env files to set the addresses that receive your API keys.

    FILES are the .env files of the working project when none are given. A key of your environment goes to an address,
    or through a proxy, that a .env file names only if you trust the file. It is remembered by its path and content:
    when it changes, you are asked again. Nothing is stored in the project.
    """
    if listing:
        for path in trusted_files():
            echo(path)
        return
    chosen = files or tuple(_env_files())
    if not chosen:
        raise UsageError("there is no .env file in this project")
    if forget:
        forget_files(chosen)
        echo(f"{count(len(chosen), 'file')} no longer trusted")
        return
    for file in chosen:
        names = deciding_variables(read_env_file(file).values)
        echo(f"{file}: {', '.join(names) or 'names no address'}")
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("trusting a file needs your consent: add --yes")
    if not yes and not click.confirm(f"Send keys where {plural(len(chosen), 'it says', 'they say')}?"):
        echo("nothing changed")
        return
    trust_files(chosen)
    echo(f"{count(len(chosen), 'file')} trusted")


def _env_files() -> list[Path]:
    here = Path.cwd()
    return sorted({path for path, _ in env_files(here, find_root(here, here), here)})
