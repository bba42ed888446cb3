"""The notebook of the documentation runs, and shows what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.documentation import NOTEBOOK, ROOT, executed_notebook


def test_the_notebook_is_stored_without_outputs_and_named_in_the_guide() -> None:
    cells = json.loads(NOTEBOOK.read_bytes())["cells"]
    assert [cell["outputs"] for cell in cells if cell["cell_type"] == "code"] == [[]] * 5
    assert "](notebook.ipynb)" in (ROOT / "docs/guides/python.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    outputs = [one for cell in executed_notebook(tmp_path) for one in cell.get("outputs", [])]
    printed = "".join(one["text"] for one in outputs if one["output_type"] == "stream")
    shown = [one["data"] for one in outputs if one["output_type"] == "execute_result"]
    assert "name: tables\n" in printed and "<CaseVerdict 'times' on 'demo': passed, 1 of 1 passed>" in printed
    assert 'FAIL product: What is 7 * 15? (failed after 1 turn)\n  check: match "*105*"' in printed
    board, frame, fork = shown
    assert 'class="rejoinder-run"' in board["text/html"] and "1 of 2 passed" in board["text/html"]
    assert board["text/plain"].startswith("<RunReport ") and "1 passed, 1 failed" in board["text/plain"]
    assert "<table" in frame["text/html"] and "the reply does not match" in frame["text/plain"]
    assert fork["text/plain"] == "'It is 100.'"
