"""For whom lines are written: a person at a terminal, one who wants words alone, a build server, another program."""

from __future__ import annotations

import io
import sys

import pytest

from rejoinder.cli.output import echo_lines, form_for
from rejoinder.report.styled import PLAIN, Form, line

LINES = [line(("✗", "fail"), " 2 failed ", ("\x1b[2Jquiet", "quiet"))]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "REJOINDER_PLAIN", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "90")


@pytest.mark.parametrize(
    ("environment", "form"),
    [
        ({}, Form(90, symbols=True, commands=True)),
        ({"NO_COLOR": "1"}, Form(90, symbols=True, commands=True)),
        ({"REJOINDER_PLAIN": "1"}, Form(90, commands=True)),
        ({"TERM": "dumb"}, Form(None, commands=True)),
        ({"COLUMNS": "30"}, Form(None, commands=True)),
        ({"CI": "true"}, PLAIN),
    ],
)
def test_the_form_of_a_terminal(environment: dict[str, str], form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert form_for(Terminal()) == form


def test_a_pipe_has_no_width_and_nothing_to_type() -> None:
    assert form_for(io.StringIO()) == PLAIN


def printed(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stdout", stream)
    echo_lines(LINES)
    return stream.getvalue()


def test_colours_weights_and_words(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = "\N{REPLACEMENT CHARACTER}[2Jquiet"
    coloured = f"\x1b[1;91m✗\x1b[0m 2 failed \x1b[2m{quiet}\x1b[0m\n"
    assert printed(Terminal(), monkeypatch) == coloured
    assert printed(io.StringIO(), monkeypatch) == f"✗ 2 failed {quiet}\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert printed(io.StringIO(), monkeypatch) == coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed(Terminal(), monkeypatch) == f"\x1b[1m✗\x1b[0m 2 failed \x1b[2m{quiet}\x1b[0m\n"
    assert printed(io.StringIO(), monkeypatch) == f"✗ 2 failed {quiet}\n"
