"""Files that commands write for people are there whole, or not at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from tests.kit import Project, case, command_line, run_folders, run_process, scripted

OUT = ("x.html", "x.json", "x.csv", "x.md", "x.xml", "x.jsonl", "x.eval")
COMMANDS = (
    ("report", "--out", "{}"),
    ("export", "last", "--out", "{}"),
    ("show", "last", "--out", "{}"),
    ("replay", "last", "--out", "{}"),
    ("ci", "--comment", "{}"),
)


@pytest.fixture
def ran(project: Project) -> Project:
    cases = [case(f"case-{number}", {"contains": "x" * 400}, prompt="Say it. " * 50) for number in range(40)]
    project.write("evals.yaml", {"targets": [scripted("t", "long reply " * 40)], "evals": cases})
    project.run("run", code=1)
    return project


def limited(project: Project, *arguments: str) -> tuple[int, str]:
    """The command where no file can have more than 4 KiB, as on a disk that is nearly full."""
    line = ["sh", "-c", 'ulimit -f 8; exec "$0" "$@"', *command_line(*arguments)]
    ended = run_process(project.folder, command=line, NO_COLOR="1")
    return ended.code, ended.err


def files(project: Project) -> set[str]:
    return {one.name for one in project.folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("before", [None, b"what was there before"])
def test_a_full_disk_leaves_no_file_that_is_cut_off(ran: Project, name: str, before: bytes | None) -> None:
    if before is not None:
        ran.write(name, before)
    there = files(ran)
    command = ("report", "--out", name) if name == "x.html" else ("export", "last", "--out", name)
    code, said = limited(ran, *command)
    assert code != 0 and f"{name} cannot be written: " in said and "Traceback" not in said
    assert files(ran) == there
    assert before is None or (ran.folder / name).read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_that_writes_a_file_does_so(ran: Project, command: tuple[str, ...]) -> None:
    name = "x.html" if command[0] == "report" else "x.md"
    there = files(ran)
    code, said = limited(ran, *(word.format(name) for word in command))
    if code != 0:
        assert "Traceback" not in said and files(ran) == there
    ran.run(*(word.format(name) for word in command), code=None)
    assert files(ran) == {*there, name}


def test_an_error_in_the_middle_leaves_what_was_there(ran: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    ran.write("x.html", "before")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    result = ran.invoke("report", "--out", "x.html")
    assert "no space left on device" in str(result.exception)
    assert (ran.folder / "x.html").read_text() == "before"
    assert not [one for one in ran.folder.iterdir() if one.name.endswith(".draft")]


def test_permissions_and_links_stay_as_they_are(ran: Project) -> None:
    kept = ran.write("kept/x.html", "before")
    kept.chmod(0o640)
    (ran.folder / "link.html").symlink_to(kept)
    ran.run("report", "--out", "link.html")
    assert (ran.folder / "link.html").is_symlink() and "<html" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


def test_a_pipe_is_written_as_it_comes(ran: Project) -> None:
    os.mkfifo(ran.folder / "pipe.md")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((ran.folder / "pipe.md").read_text()))
    reader.start()
    ran.run("export", "last", "--to", "markdown", "--out", "pipe.md")
    reader.join(30)
    assert "case-1" in read[0]
    shown = run_process(ran.folder, "export", "last", "--to", "markdown", "--out", "/dev/stdout")
    assert "case-1" in shown.out, shown
    assert run_folders(ran.folder)
