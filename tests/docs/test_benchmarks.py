"""Benchmarks that need nothing but this machine still run. How fast anything is, is for them to say, not for tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kit import ROOT

pytestmark = pytest.mark.slow

BENCHMARKS = ROOT / "benchmarks"


@pytest.mark.parametrize("name", ["judging", "masking", "report"])
def test_a_benchmark_runs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{name}.py"), "--quick"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--quick: everything ran" in done.stdout


def test_the_journal_is_measured_beside_a_run_that_works_without_one() -> None:
    """What is left out there must not leave out the run: its conversations have to pass all the same."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "journal.py"), "--runs", "1", "--conversations", "20"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "20 conversations of two turns" in done.stdout, done.stderr
    assert "the journal adds" in done.stdout
