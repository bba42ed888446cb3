"""What becomes of a command whose output is not taken: its reader has gone, or the disk is full."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import IO

import pytest

from tests.kit import Project, case, command_line, only_run, run, run_folders, run_process, scripted

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")]

SUITE = {
    "metadata": {"name": "words"},
    "targets": [scripted("bot", "yes"), scripted("other", "no")],
    "target": "bot",
    "evals": [case(f"c{number}", {"equals": "yes"}) for number in range(12)],
}
READING = {
    ("show",): 0,
    ("show", "--verbose"): 0,
    ("show", "--format", "json"): 0,
    ("export", "--to", "json"): 0,
    ("export", "--to", "junit"): 0,
    ("runs",): 0,
    ("runs", "--format", "json"): 0,
    ("runs", "--format", "csv"): 0,
    ("compare", "last~1", "last"): 1,
    ("compare", "last~1", "last", "--format", "json"): 1,
    ("gate", "--rule", "rate>=0%"): 0,
    ("gate", "--rule", "rate>=50%"): 1,
    ("gate", "--rule", "rate>=50%", "--format", "json"): 1,
    ("gate", "last~1", "--rule", "no-regression", "--against", "last~1"): 5,
    ("bless", "--format", "json"): 0,
    ("verify",): 0,
    ("verify", "--format", "json"): 0,
    ("validate",): 0,
    ("validate", "--format", "json"): 0,
    ("prompt",): 0,
    ("targets",): 0,
    ("models",): 0,
    ("suites",): 0,
    ("var", "list", "--format", "json"): 0,
    ("secret", "list", "--format", "json"): 0,
    ("cache",): 0,
    ("schema",): 0,
    ("completion", "bash"): 0,
    ("replay", "last"): 1,
    ("grade", "last"): 1,
    ("run", "--target", "other"): 1,
    ("--help",): 0,
    ("gate", "--help"): 0,
}
"""Commands that print something, and their exit codes."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with two runs, the second of which is worse."""
    folder = tmp_path_factory.mktemp("recorded")
    project = Project(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        (folder / ".rejoinder").mkdir()
        run(project, SUITE)
        run(project, SUITE, "--target", "other")
        yield folder
    finally:
        os.chdir(before)


def end_of(folder: Path, command: tuple[str, ...], output: IO[bytes] | int) -> tuple[int, str]:
    done = subprocess.run(
        command_line(*command),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr.decode()


def into_a_closed_pipe(folder: Path, command: tuple[str, ...]) -> tuple[int, str]:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return end_of(folder, command, writing)
    finally:
        os.close(writing)


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_closed_pipe_does_not_change_the_exit_code(recorded: Path, command: tuple[str, ...]) -> None:
    names = command if command[0] not in ("replay", "grade") else (command[0], run_folders(recorded)[1].name)
    code, said = into_a_closed_pipe(recorded, names)
    assert code == READING[command], said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    if command[0] in ("replay", "run"):
        subprocess.run(command_line("runs", "rm", "last", "--yes"), cwd=recorded, check=True, capture_output=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("command", [one for one in READING if one[0] not in ("replay", "grade", "run")], ids=" ".join)
def test_a_full_disk_is_said_and_never_taken_for_an_answer(recorded: Path, command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        code, said = end_of(recorded, command, full)
    assert code == 3, said
    assert said.splitlines()[-1] == (
        "error: standard output cannot be written: no space left on device; make room on the disk"
    )
    assert "Traceback" not in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_what_was_begun_is_done_on_a_full_disk(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    with Path("/dev/full").open("wb") as full:
        code, said = end_of(project.folder, ("run",), full)
    assert (code, "standard output cannot be written" in said) == (3, True)
    assert project.run_json("verify")["verdict"] == "intact"
    assert only_run(project.folder).is_dir()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_errors_that_cannot_be_printed_keep_their_exit_code(project: Project) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command_line("show"), cwd=project.folder, stderr=full, stdout=full, check=False)
    assert done.returncode == 2


def test_a_reader_that_takes_the_beginning_gets_it(recorded: Path) -> None:
    with subprocess.Popen(command_line("export", "--to", "json"), cwd=recorded, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(10) == b'{\n  "run": '[:10]
        process.stdout.close()
        assert process.wait(60) == 0


def test_a_file_that_cannot_grow_is_an_error_in_words(recorded: Path) -> None:
    limited = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command_line("runs", "tag", "last", "x")]
    ended = run_process(recorded, command=limited)
    assert ended.code == 3, ended
    [said] = ended.err.splitlines()
    assert said.endswith(
        "cannot be written: file too large; raise the limit for the size of files (`ulimit -f unlimited`)"
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_crash(project: Project, closed: str) -> None:
    project.write("evals.yaml", SUITE)
    command = " ".join(map(quote, command_line("run", "evals.yaml")))
    shell = ["sh", "-c", f"{command} {closed}"]
    ended = subprocess.run(shell, cwd=project.folder, capture_output=True, text=True, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)
    assert len(run_folders(project.folder)) == 1
