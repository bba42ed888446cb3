"""The frameworks' bots on the page about sessions work as they stand there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.kit import ROOT, spec

RECIPES = ROOT / ".venv-recipes/bin/python"
PAGE = (ROOT / "docs/guides/sessions.md").read_text(encoding="utf-8")


@spec("P44")
@pytest.mark.slow
@pytest.mark.skipif(not RECIPES.exists(), reason="`make test` makes the environment with these frameworks")
def test_bots_of_frameworks_keep_the_conversation(tmp_path: Path) -> None:
    for name, code in re.findall(r"^```python (\w+_bot\.py)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(code, encoding="utf-8")
    child = [str(RECIPES), str(ROOT / "tests/labs/recipe_child.py"), str(tmp_path)]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(child, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    told = json.loads(done.stdout)
    assert told["elsewhere"] == [], "nothing but this machine was called"
    said = ["turn 1 of 1", "turn 2 of 3", "turn 3 of 5"]
    assert told["results"] == {
        name: [["passed", said, None]] * 2 for name in ("langgraph_bot:ask", "agents_bot:Bot", "pydantic_bot:Bot")
    }
