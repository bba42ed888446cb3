"""`rejoinder import`"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from rejoinder.cli.import_kinds import commands
from rejoinder.cli.output import echo, write_machine
from rejoinder.errors import UsageError, reason_of
from rejoinder.words.numbers import count

if TYPE_CHECKING:
    from rejoinder.transcripts.cases import Chosen, Recorded
    from rejoinder.transcripts.stand_ins import Replaced
    from rejoinder.transcripts.values import Transcript


@click.group("import")
def command() -> None:
    """Make suites from files of other tools, and from conversations that already happened."""


for _one in commands():
    command.add_command(_one)


class _Wanted(Struct, frozen=True, kw_only=True):
    """What is to become of the conversations."""

    format: str | None
    turn: int | None
    every_turn: bool
    out: Path | None
    target: str | None

    def write(self, name: str, chosen: Sequence[Chosen], recorded: Sequence[Recorded] = ()) -> str:
        """The text of the suite."""
        from rejoinder.transcripts.cases import EVERY_TURN, UP_TO_A_REPLY, write_suite

        form = EVERY_TURN if self.every_turn else UP_TO_A_REPLY
        return write_suite(form, name, chosen, recorded, target=self.target, path=self.out)


@command.command("transcript")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER...", type=click.Path(path_type=Path))
@click.option("--format", "form", metavar="FORMAT", help="Say how the files are written, where that cannot be seen.")
@click.option("--turn", type=click.IntRange(1), metavar="N", help="The N-th reply went wrong.  [default: the last]")
@click.option("--every-turn", is_flag=True, help="Write whole conversations, and checks that grade every reply.")
@click.option("--anonymise", is_flag=True, help="Put stand-ins in the place of names, addresses, numbers and keys.")
@click.option("--list", "listed", type=click.Path(path_type=Path), help="Write what was replaced to this file.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the suite to this file instead of standard output.")
@click.option("--target", metavar="NAME", help="Let this target, or PROVIDER/MODEL, take over where the other failed.")
def transcript(
    paths: tuple[Path, ...],
    form: str | None,
    turn: int | None,
    every_turn: bool,
    anonymise: bool,
    listed: Path | None,
    out: Path | None,
    target: str | None,
) -> None:
    """Write a suite with a case for each conversation of files or folders.

    A case holds what was said up to the reply that went wrong, and a check that fails on that reply. It runs unchanged
    on the recording or on any other target. With --every-turn a case holds all that was asked, and one list of checks
    grades every reply of all conversations. Formats: openai, anthropic, claude, codex, copilot, gemini, pi, opencode,
    agentv, atif, otel, openinference.
    """
    if listed is not None and not anonymise:
        raise click.UsageError("--list says what --anonymise has replaced")
    _refuse_what_is_there("--out", out)
    _refuse_what_is_there("--list", listed)
    wanted = _Wanted(format=form, turn=turn, every_turn=every_turn, out=out, target=target)
    text, replaced = _hidden_suite(paths, wanted) if anonymise else (_suite(paths, wanted), None)
    if out is None:
        write_machine([text])
    else:
        _write(out, text)
        chosen = " -m TARGET" if anonymise and target is None else ""
        echo(f"wrote {out}; next: rejoinder run {out}{chosen}", err=True)
    if replaced is not None:
        _tell_replaced(replaced, listed)


def _refuse_what_is_there(option: str, path: Path | None) -> None:
    if path is not None and os.path.lexists(path):
        raise UsageError(f"{path} exists already and was not changed", f"Name another file with {option}.")


def _suite(paths: Sequence[Path], wanted: _Wanted) -> str:
    """The suite with the recordings as its first target."""
    from rejoinder.transcripts.cases import Recorded
    from rejoinder.transcripts.formats import read_transcripts

    chosen: list[Chosen] = []
    recorded: list[Recorded] = []
    ids: dict[str, int] = {}
    folder = Path() if wanted.out is None else wanted.out.parent
    for number, path in enumerate(paths, 1):
        name = "recorded" if len(paths) == 1 else f"recorded-{number}"
        transcripts = read_transcripts([path], wanted.format, note=_say)
        found = _choose(transcripts, wanted.turn, ids, name if len(paths) > 1 else None)
        renamed = len(transcripts) > 1 and any(one.id != one.transcript.id for one in found)
        file = os.path.relpath(path, folder).replace(os.sep, "/")
        if "{{" in file:
            raise UsageError(f"{path} has braces in its name, where a suite fills in variables", "Rename the file.")
        recorded.append(Recorded(name, file, wanted.format, "prompt" if renamed else None))
        chosen += found
    _refuse_nothing(chosen, wanted.turn)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return wanted.write(f"imported from {paths[0].name}{more}", chosen, recorded)


def _hidden_suite(paths: Sequence[Path], wanted: _Wanted) -> tuple[str, list[Replaced]]:
    """The suite with stand-ins, and a list of them. It has no recording: that says all that the suite hides."""
    from rejoinder.transcripts.anonymise import anonymise
    from rejoinder.transcripts.formats import read_transcripts

    transcripts, anonymiser = anonymise(read_transcripts(paths, wanted.format, note=_say))
    chosen = _choose(transcripts, wanted.turn, {}, None)
    _refuse_nothing(chosen, wanted.turn)
    text = wanted.write("imported, with stand-ins", chosen)
    return text, anonymiser.replaced_in(text)


def _say(line: str) -> None:
    echo(line, err=True)


def _choose(
    transcripts: Sequence[Transcript], turn: int | None, ids: dict[str, int], target: str | None
) -> list[Chosen]:
    """The turn of each conversation, with an id for its case. What is left out, or was not understood, is said."""
    from rejoinder.transcripts.cases import Chosen, choose
    from rejoinder.transcripts.values import not_understood, own_id

    chosen: list[Chosen] = []
    for one in transcripts:
        found = choose(one, turn)
        for note in (*one.notes, *not_understood([one])):
            echo(f"{one.id}: {note}", err=True)
        if found is None:
            what = (
                "has no reply" if turn is None else f"has {count(len(one.turns), 'turn')}, and no reply at turn {turn}"
            )
            echo(f"{one.id}: {what}, and makes no case", err=True)
            continue
        chosen.append(Chosen(one, found, own_id(one.id, ids), target))
    return chosen


def _refuse_nothing(chosen: Sequence[Chosen], turn: int | None) -> None:
    if not chosen:
        what = "no conversation has a reply" if turn is None else f"no conversation has a reply at turn {turn}"
        raise UsageError(what)


def _tell_replaced(rows: Sequence[Replaced], listed: Path | None) -> None:
    lines = [*map(_row, rows)]
    if listed is not None:
        _write(listed, "".join(f"{line}\n" for line in lines))
    else:
        for line in lines:
            echo(line, err=True)
    echo(
        f"replaced {count(len(rows), 'text')}; read the suite before you share it: only what has a form is found",
        err=True,
    )


def _row(row: Replaced) -> str:
    return f"{row.kind:<7}{row.count:>5} x  {row.stand_in}"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:  # also where a link leads to no file yet
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from error
