"""For whom lines are written: a person at a terminal, one who wants words alone, a build server, another program."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import termios

import pytest

from rejoinder.cli.app import cli
from rejoinder.cli.mistakes import Mistake
from rejoinder.cli.output import echo_lines, form_for, show_error, show_message, size_of
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model import Problem
from rejoinder.report.problems import write_problem
from rejoinder.report.styled import PLAIN, Form, line
from tests.engine.variants import two
from tests.kit import Project, Raw, case, run, scripted

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


LONG_PATH = "/home/somebody/" + "folder/" * 12 + "evals.yaml"
REFUSED = UsageError(
    f"{LONG_PATH} cannot be read, because it is a folder and not a file", f"Then type `rejoinder run {LONG_PATH} -v`."
)


def refusal_of(error: RejoinderError, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sys, "stderr", stream)
    show_error(error)
    return stream.getvalue().splitlines()


def test_errors_are_wrapped_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal_of(REFUSED, io.StringIO(), monkeypatch) == [f"error: {REFUSED.message}", REFUSED.hint]
    monkeypatch.setenv("COLUMNS", "40")
    rows = refusal_of(REFUSED, Terminal(), monkeypatch)
    assert " ".join(row.strip() for row in rows) == f"error: {REFUSED.message} {REFUSED.hint}"
    assert [row for row in rows if len(row) > 40] == [f"  {LONG_PATH}", f"  `rejoinder run {LONG_PATH} -v`."]
    assert rows[2] == "  cannot be read, because it is a folder"
    monkeypatch.setenv("CI", "true")
    assert refusal_of(REFUSED, Terminal(), monkeypatch) == [f"error: {REFUSED.message}", REFUSED.hint]


def test_commands_for_a_mistake_are_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with pytest.raises(Mistake) as mistaken:
        cli.main(["runn", "one/folder/evals.yaml", "--verbose"], standalone_mode=False)
    shown = io.StringIO()
    mistaken.value.show(shown)
    show_message(shown.getvalue())
    assert "\n  rejoinder run one/folder/evals.yaml --verbose\n  did you mean this?\n" in stream.getvalue()


def test_words_of_a_problem_are_not_broken() -> None:
    problem = Problem(file="evals.yaml", line=1, column=1, code="file-not-found", message=REFUSED.message)
    assert any(row.strip() == LONG_PATH for row in write_problem(problem, width=50))


def test_each_stream_has_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error is a terminal where standard output is a file."""
    monkeypatch.delenv("COLUMNS")
    monkeypatch.delenv("LINES", raising=False)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 57, 0, 0))
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours):
        assert size_of(terminal) == (57, 30)
    assert size_of(io.StringIO()) == (100, 24)


# Commands that obey it


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What commands write goes to a terminal, without a pager."""
    monkeypatch.setenv("PAGER", "")
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)


def half(*replies: str) -> Raw:
    return {
        "targets": [scripted("s", *replies)],
        "evals": [case("a", {"match": "yes"}), case("b", {"match": "no"})],
    }


@pytest.mark.slow
@pytest.mark.usefixtures("terminal")
def test_every_screen_has_words_alone_where_they_are_wanted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    run(project, half("yes"))
    project.run("bless")
    run(project, half("no"))
    commands = (
        ("compare",),
        ("gate", "--against", "main", "--rule", "no-regression", "--rule", "rate>=10%"),
        ("run", "--fail-under", "50%"),
        ("show", "--case", "a"),
        ("show", "-v"),
    )
    for command in commands:
        assert not project.run(*command, code=None).isascii(), "signs on a terminal"
        shown = project.run(*command, "--plain", code=None)
        assert shown.isascii(), shown
    monkeypatch.setenv("REJOINDER_PLAIN", "1")
    for command in commands:
        assert project.run(*command, code=None).isascii()


@pytest.mark.usefixtures("terminal")
def test_two_variants_are_summed_up_in_words(project: Project) -> None:
    project.write("evals.yaml", two())
    assert "→" in project.run("run", "evals.yaml", code=None)
    shown = project.run("run", "evals.yaml", "--plain", code=None)
    assert "->" in shown and shown.isascii()


def test_a_pipe_keeps_the_signs_of_a_conversation(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    run(project, half("yes"))
    assert "  Overall: ✅ PASS" in project.run("show", "-v", code=None)
    monkeypatch.setenv("REJOINDER_PLAIN", "1")
    assert "  Overall: ✅ PASS" in project.run("show", "-v", code=None), "programs read them"


def test_a_quiet_comparison_and_a_quiet_gate_are_a_line(project: Project) -> None:
    run(project, half("yes"))
    project.run("bless")
    run(project, half("no"))
    [compared] = project.run("compare", "-q", code=None).splitlines()
    assert compared.startswith("cannot tell: ") and compared.endswith("1 broke, 1 fixed of 2")
    [decided] = project.run("gate", "--against", "main", "-q", code=5).splitlines()
    assert decided == "CANNOT TELL gate cannot tell: 2 of 2 rules   exit 5"
