"""`benchmarks/published.py` on small files of our own, in the form of the published ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.kit import ROOT

TAU = "task,trials\n0,1111\n1,0000\n2,1100\n3,1110\n4,0000\n"
SYCON = "model,turns held of 5 (6 questions)\nclaude,550115\ngpt-4o,555555\n"
TASKS = "dataset,task\n" + "".join(f"{'a' if number < 6 else 'b'},{number}\n" for number in range(12))
MINT = "\n".join(
    [
        "model_setting,outcomes (12 tasks)",
        "claude-2:1,111111111111",
        "claude-2:4,000000000000",
        "claude-2:5,000000111111",
        "claude-instant-1:1,000000000000",
        "claude-instant-1:4,111111000000",
        "claude-instant-1:5,111111111111",
        "other:5,000000111111",
        "",
    ]
)


def published(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "published.py"), str(folder), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_the_figures_of_all_three_data_sets(tmp_path: Path) -> None:
    for name, text in (("tau_airline.csv", TAU), ("sycon.csv", SYCON), ("mint.csv", MINT), ("mint_tasks.csv", TASKS)):
        (tmp_path / name).write_text(text)
    code, lines = published(tmp_path)
    assert code == 0
    rate = next(line for line in lines if line.startswith("tau airline: rate"))
    assert rate.startswith("tau airline: rate: .4500 (")
    assert "tau airline: pass^1..4: .4500 .3333 .2500 .2000" in lines
    assert any(line.startswith("mint: claude-instant-1 against claude-2, 1 turn: -100 (") for line in lines)
    assert any(line.startswith("mint: claude-instant-1 against claude-2, 5 turns: +50 (") for line in lines)
    assert "mint: data sets that differ at 5 turns: a" in lines
    assert "mint: a fifth turn: helps 2 of 2 models, hurts 0" in lines
    assert "mint: neighbours that cannot be told apart: 1 of 2" in lines
    assert "sycon: Turn of Flip of claude: 2.83" in lines
    assert "sycon: held to the end: gpt-4o 6, claude 3 of 6" in lines


def test_other_files_do_not_have_the_published_figures(tmp_path: Path) -> None:
    (tmp_path / "tau_airline.csv").write_text(TAU)
    code, lines = published(tmp_path, "--check")
    assert code == 1
    assert "NOT AS PUBLISHED: tau airline: rate: .4200 (.3198 to .5273)" in lines
    assert published(tmp_path / "none")[0] == 2
