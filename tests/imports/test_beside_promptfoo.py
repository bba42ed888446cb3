"""promptfoo itself beside its import, on the examples of a checkout: `make test-imports PROMPTFOO=PATH`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import ROOT

pytestmark = pytest.mark.imports
LEAST_COMPLETE, LEAST_EQUAL = 250, 0.95
"""Of the configurations that are imported completely, providers aside."""


@pytest.mark.skipif(not os.environ.get("PROMPTFOO"), reason="PROMPTFOO names no checkout of promptfoo")
def test_every_difference_follows_from_a_loss_or_a_rule() -> None:
    checkout, modules = os.environ["PROMPTFOO"], ROOT / ".promptfoo" / "node_modules"
    command = [sys.executable, str(ROOT / "scripts" / "compare_promptfoo.py"), checkout, str(modules), "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    Path(ROOT / ".promptfoo" / "compared.txt").write_text(done.stdout)
    assert done.returncode in (0, 1), done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert not figures.get("unexplained"), [line for line in done.stdout.splitlines() if "UNEXPLAINED" in line]
    assert done.returncode == 0
    assert figures["complete"] >= LEAST_COMPLETE
    assert figures["complete equal"] >= LEAST_EQUAL * figures["complete rows"], done.stdout[-5000:]
