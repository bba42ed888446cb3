"""`run --watch`: a real child that runs again when one of its files changes, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Project

SUITE = """\
targets: [{{name: script, provider: scripted, replies: [yes it is]}}]
target: script
evals:
  - id: {name}
    prompt: Is it?
    checks: [{{contains: "{wanted}"}}]
"""
PATIENCE_S = 60


class Watching:
    def __init__(self, folder: Path, *paths: str) -> None:
        self.said = folder / "said.txt"
        with self.said.open("wb") as stream:
            words = [sys.executable, "-m", "rejoinder", "run", "--watch", *paths]
            self.process = subprocess.Popen(words, cwd=folder, stdout=stream, stderr=stream, env={**os.environ})

    def wait_for(self, words: str, times: int) -> str:
        end = time.monotonic() + PATIENCE_S
        while (text := self.said.read_text(encoding="utf-8")).count(words) < times:
            assert self.process.poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.02)
        return text


@pytest.fixture
def two_suites(project: Project) -> Iterator[Watching]:
    project.write("one.yaml", SUITE.format(name="one", wanted="yes"))
    project.write("two.yaml", SUITE.format(name="two", wanted="yes"))
    watching = Watching(project.folder, "one.yaml", "two.yaml")
    yield watching
    if watching.process.poll() is None:
        watching.process.kill()
    watching.process.wait()


def test_what_a_change_touches_is_run_again(two_suites: Watching, project: Project) -> None:
    assert "2 passed" in two_suites.wait_for("waiting for a change", 1)
    project.write("two.yaml", SUITE.format(name="two", wanted="no"))
    text = two_suites.wait_for("waiting for a change", 2)
    assert "two.yaml: something changed" in text
    again = text.partition("something changed")[2]
    assert "two.yaml on script: 1 conversation" in again
    assert "1 failed" in again
    assert "one.yaml" not in again


def test_a_suite_that_breaks_is_told_and_waited_for(two_suites: Watching, project: Project) -> None:
    two_suites.wait_for("waiting for a change", 1)
    project.write("one.yaml", "evals: [{prompt: hi, cheks: []}]\n")
    two_suites.wait_for("unknown-key", 1)
    project.write("one.yaml", SUITE.format(name="mended", wanted="yes"))
    assert "Traceback" not in two_suites.wait_for("waiting for a change", 2)


def test_ctrl_c_ends_it(two_suites: Watching) -> None:
    two_suites.wait_for("waiting for a change", 1)
    two_suites.process.send_signal(signal.SIGINT)
    assert two_suites.process.wait(PATIENCE_S) == 130
    assert "Traceback" not in two_suites.said.read_text(encoding="utf-8")
