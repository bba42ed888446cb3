"""AgentV itself beside its import, on the examples of its repository: `make test-imports AGENTV=PATH`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import ROOT

pytestmark = pytest.mark.imports
LEAST_RUNNING = {"4.42.4": 105, "5.3": 100}
LEAST_EQUAL, LEAST_ALIKE = 0.95, 0.99
"""The others are in the table of differences of docs/guides/coming-from-agentv.md."""


@pytest.mark.skipif(not os.environ.get("AGENTV"), reason="AGENTV names no clone of AgentV")
def test_examples_run_and_their_scores_are_equal() -> None:
    repository, modules = os.environ["AGENTV"], ROOT / ".agentv-itself" / "node_modules"
    command = [sys.executable, str(ROOT / "scripts" / "compare_agentv.py"), repository, str(modules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    Path(ROOT / ".agentv-itself" / "compared.txt").write_text(done.stdout)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    for version, least in LEAST_RUNNING.items():
        assert figures[version]["runs"] >= least, done.stdout[-5000:]
    compared = figures["4.42.4"]
    assert compared["equal"] >= LEAST_EQUAL * compared["scores"], done.stdout[-5000:]
    assert compared["verdicts"] >= LEAST_ALIKE * compared["scores"], done.stdout[-5000:]
