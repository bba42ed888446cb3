"""What all commands share in writing to a terminal: colour or not, how wide, JSON.

All text goes through `_print`, and what is not ours through `echo` or `echo_text`. They replace what a terminal would
obey: names, ids, prompts and paths come from files of any origin. JSON stays exact, with escapes. A lint rule keeps
`click.echo` out of all other modules.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click
from msgspec import Struct, structs

from rejoinder.cli.streams import is_read
from rejoinder.errors import RejoinderError
from rejoinder.model import Problem
from rejoinder.report.problems import Style, message_rows, plain, printable_line, write_problem
from rejoinder.words.numbers import count

if TYPE_CHECKING:
    from rejoinder.report.styled import Form, Line

MOST_NAMED = 10
"""Files that are named when they are passed over."""

_OBEYING = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Variables by which build servers are known."""
NARROWEST = 40
"""Columns below which there is no room for signs and columns."""
_COLOURS = {"error": "red", "warning": "yellow", "place": None, "dim": "blue", "fix": "green"}


class Look(Struct, frozen=True):
    """How a command is to look, as its options say."""

    plain: bool = False
    quiet: bool = False
    """Only the result, and what to type next."""
    colour: str = "auto"


_LOOK = "rejoinder.look"


def look() -> Look:
    context = click.get_current_context(silent=True)
    return Look() if context is None else context.meta.get(_LOOK, Look())


def _change_look(ctx: click.Context, param: click.Parameter, value: object) -> None:
    if value is not None:
        ctx.meta[_LOOK] = structs.replace(ctx.meta.get(_LOOK, Look()), **{param.name: value})


def look_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say how a command looks; what writes asks `look`."""
    for option in (
        click.option(
            "--color",
            "colour",
            type=click.Choice(["auto", "always", "never"]),
            callback=_change_look,
            expose_value=False,
            help="Use colours on a terminal, always or never.  [default: auto]",
        ),
        click.option(
            "--plain",
            is_flag=True,
            default=None,
            callback=_change_look,
            expose_value=False,
            help="Plain text: no symbols, colours or progress display.",
        ),
        click.option(
            "--quiet",
            "-q",
            is_flag=True,
            default=None,
            callback=_change_look,
            expose_value=False,
            help="Show only the result and what to type next.",
        ),
    ):
        function = option(function)
    return function


def wants_colour(stream: TextIO) -> bool:
    """Colour on a terminal, unless NO_COLOR says no; FORCE_COLOR asks for it everywhere. --color wins over both."""
    if (wanted := look().colour) != "auto":
        return wanted == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def is_screen(stream: TextIO) -> bool:
    """Is it a terminal that shows signs, for a person? Elsewhere there are words alone, one fact a line."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb" or os.environ.get("CI"):
        return False
    if look().plain or os.environ.get("REJOINDER_PLAIN"):
        return False
    try:
        "✓✗↻…".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return width_of(stream) >= NARROWEST


def form_for(stream: TextIO) -> Form:
    """How lines are written there. On a terminal that is to have words alone, what to type next is told as well; a
    build server and another program have nothing to type."""
    from rejoinder.report.styled import PLAIN, Form

    if is_screen(stream):
        return Form(width_of(stream), symbols=True, commands=True)
    if not stream.isatty() or os.environ.get("CI"):
        return PLAIN
    wraps = os.environ.get("TERM") != "dumb" and width_of(stream) >= NARROWEST
    return Form(width_of(stream) if wraps else None, commands=True)


def style_for(stream: TextIO) -> Style:
    if not wants_colour(stream):
        return plain
    return lambda text, name: click.style(text, fg=_COLOURS[name], bold=name != "dim")


def tell_passed_over(files: Sequence[str]) -> None:
    """Name on standard error the YAML files of a folder that are no suites."""
    if not files:
        return
    names = ", ".join(files[:MOST_NAMED])
    more = f" and {len(files) - MOST_NAMED} more" if len(files) > MOST_NAMED else ""
    echo(f"passed over {count(len(files), 'YAML file')} without `evals`: {names}{more}", err=True)


def width_of(stream: TextIO) -> int:
    """The terminal's width; a file is given a hundred columns."""
    return size_of(stream).columns


def size_of(stream: TextIO) -> os.terminal_size:
    """The size that this terminal has now, unless COLUMNS and LINES say otherwise. Standard output may be a file where
    standard error is a terminal, so each is asked itself."""
    try:
        now = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        now = os.terminal_size((0, 0))
    told = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    columns, lines = (int(text) if text.isdecimal() else 0 for text in told)
    return os.terminal_size((columns or now.columns or 100, lines or now.lines or 24))


def echo(*lines: str, err: bool = False) -> None:
    """Print each text as one line: a line break inside it does not begin another."""
    _print(map(printable_line, lines), err=err)


def echo_lines(lines: Iterable[Line], *, err: bool = False) -> None:
    """Print lines with roles: in colours, in weights alone, or as words."""
    from rejoinder.report.styled import printed

    stream = sys.stderr if err else sys.stdout
    colour, screen = wants_colour(stream), is_screen(stream)
    _print(printed(lines, colour=colour, screen=screen), err=err, color=True if colour or screen else None)


def _print(lines: Iterable[str], *, err: bool = False, color: bool | None = None) -> None:
    """The one way to standard output and standard error for text. A build server takes some lines for commands; there
    they are changed so that it does not."""
    if any(os.environ.get(name) for name in _OBEYING):
        from rejoinder.report.github import defused

        lines = map(defused, lines)
    click.echo("".join(f"{line}\n" for line in lines), nl=False, err=err, color=color)


def echo_text(text: str, *, err: bool = False) -> None:
    """Print a text that may have several lines."""
    echo(*text.replace("\r\n", "\n").split("\n"), err=err)


def show_error(error: RejoinderError) -> None:
    show_message(f"error: {error.message}\n{error.hint}" if error.hint else f"error: {error.message}")


def show_message(text: str) -> None:
    """Print on standard error why something was not done: wrapped on a terminal, and as it is elsewhere."""
    edge = form_for(sys.stderr).edge
    if edge is None:
        echo_text(text, err=True)
    else:
        _print(message_rows(text.replace("\r\n", "\n"), edge, hanging="  "), err=True)


def show_problems(problems: Iterable[Problem], *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    style, width = style_for(stream), width_of(stream)
    for problem in problems:
        # Its texts are printable, and its colours are ours.
        _print((*write_problem(problem, width=width, style=style), ""), err=err, color=True)


def write_data(data: Any) -> None:
    """Data of a command, as JSON."""
    from rejoinder.words.inert import to_json

    write_machine([to_json(data, indent=2), "\n"])


def write_machine(pieces: Iterable[str]) -> None:
    """Text for another program: UTF-8, whatever the terminal can show."""
    sys.stdout.flush()
    for piece in pieces:
        if not is_read():
            break
        sys.stdout.buffer.write(piece.encode("utf-8", "surrogatepass"))
    sys.stdout.flush()


def words(values: Iterable[str]) -> list[str]:
    """Lists that are separated by commas, in one or several options."""
    return [word.strip() for value in values for word in value.split(",") if word.strip()]
