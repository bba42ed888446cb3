"""`rejoinder import promptfoo` and its like: one command for each row of `imports.kinds.KINDS`"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rejoinder.cli.output import echo, write_data, write_machine
from rejoinder.errors import UsageError
from rejoinder.imports.kinds import KINDS, ImportKind, ImportOption
from rejoinder.words.numbers import count, listed

if TYPE_CHECKING:
    from rejoinder.imports.ledger import ImportReport, Loss
    from rejoinder.imports.workbench import Workbench

_MOST_LINES = 100
"""Maximum losses that the report for people lists."""


def commands() -> Iterator[click.Command]:
    """The commands, in the order of the table."""
    return map(_command, KINDS)


def _command(kind: ImportKind) -> click.Command:
    @click.command(kind.name, help=_help(kind), short_help=f"Write suites from {kind.title}.")
    @click.argument("path", metavar="FILE|FOLDER", type=click.Path(path_type=Path))
    @click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="Write the suites into this folder.")
    @click.option("--strict", is_flag=True, help="End with exit code 1 if anything is left out or approximated.")
    @click.option(
        "--format", "form", type=click.Choice(["text", "json"]), default="text", help="Write the report as JSON."
    )
    def command(path: Path, out: Path | None, strict: bool, form: str, choice: str = "") -> None:
        from rejoinder.imports.workbench import import_files

        bench, report = import_files(kind, path, out, choice)
        if form == "json":
            _write_json(bench, report)
        else:
            _write_text(bench, report)
        if report.unreadable:
            raise click.exceptions.Exit(UsageError.exit_code)
        if strict and report.lost:
            raise click.exceptions.Exit(1)

    if kind.option is not None:
        command.params.insert(1, _own_option(kind.option))
    return command


def _own_option(option: ImportOption) -> click.Option:
    values = click.Choice(option.values)
    return click.Option([f"--{option.name}", "choice"], type=values, default=option.values[0], help=option.help)


def _help(kind: ImportKind) -> str:
    return (
        f"Write suites from {kind.title}: a file, or all files of a folder.\n\n{kind.about}\n\n"
        "A single suite is printed; with --out, suites and what they need are written into a folder. Whatever has no"
        " form here has a comment at its place and a line in the report. The import runs no code and reads nothing"
        " outside of the source's folder."
    )


def _write_json(bench: Workbench, report: ImportReport) -> None:
    """Write the files if there is a folder for them, and the report to standard output."""
    from msgspec import structs, to_builtins

    files = () if bench.out is None else bench.write()
    write_data(to_builtins(structs.replace(report, files=files)))


def _write_text(bench: Workbench, report: ImportReport) -> None:
    if bench.out is not None:
        for file in bench.write():
            echo(f"wrote {file}")
    elif len(bench.made) == 1:
        write_machine(bench.made.values())
    elif bench.made:
        names = listed([f"`{name}`" for name in sorted(bench.made)[:5]] + ["others"] * (len(bench.made) > 5))
        raise UsageError(f"this makes {count(len(bench.made), 'file')}: {names}", "Name a folder with --out DIR.")
    is_aside = bench.out is None
    for heading, losses in (
        ("could not be imported", report.unreadable),
        ("not imported", report.left_out),
        ("not the same", report.approximated),
    ):
        _write_losses(heading, losses, err=is_aside)
    echo(_sum(report), err=is_aside)


def _write_losses(heading: str, losses: tuple[Loss, ...], *, err: bool) -> None:
    if not losses:
        return
    echo(f"{heading}:", err=err)
    for loss in losses[:_MOST_LINES]:
        place = f"{loss.file}:{loss.line}" if loss.line else loss.file
        echo(f"  {place}  {loss.what}{f': {loss.how}' if loss.how else ''}", err=err)
    if len(losses) > _MOST_LINES:
        echo(f"  and {len(losses) - _MOST_LINES} more; --format json lists all", err=err)


def _sum(report: ImportReport) -> str:
    """The last line: figures of the whole import."""
    sources = f"{report.complete} of {count(report.sources, 'file')} completely" if report.sources > 1 else ""
    parts = [
        count(report.cases, "case"),
        f"{report.mapped} mapped",
        f"{len(report.approximated)} approximated",
        f"{len(report.left_out)} left out",
        sources,
        f"{len(report.unreadable)} could not be imported" if report.unreadable else "",
    ]
    return f"imported {', '.join(filter(None, parts))}"
