"""500 planned conversations of ten turns at 50 ms each with 50 workers, from the start of the process to its end.

Beside the ideal, in which no worker waits for anything but the model.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from timing import REJOINDER, Row, alternate, compile_package, fake_server, read_runs, say_load, show, time_process

CASES, TURNS, WORKERS, LATENCY_S = 500, 10, 50, 0.05
BOUND = 1.25
SUITE = """\
metadata: {model: asked}
targets: [{name: asked, provider: openai, model: gpt-5-mini, base_url: URL}]
cases: cases.jsonl
defaults:
  conversation_checks: [{always: {contains: "105"}}]
"""


def main() -> int:
    runs = read_runs(__doc__, 5)
    compile_package()
    say_load()
    with tempfile.TemporaryDirectory() as name, fake_server(LATENCY_S) as url:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        (folder / "evals.yaml").write_text(SUITE.replace("URL", url), encoding="utf-8")
        (folder / "cases.jsonl").write_text("\n".join(map(make_case, range(CASES))), encoding="utf-8")
        os.environ |= {"OPENAI_API_KEY": "none", "XDG_CACHE_HOME": str(folder / "cache")}
        ours = [REJOINDER, "run", "evals.yaml", "--workers", str(WORKERS)]
        medians = alternate({"ours": lambda: time_process(ours, folder)}, runs)
    ideal = CASES * TURNS * LATENCY_S / WORKERS
    what = f"{CASES} plans of {TURNS} turns at {LATENCY_S * 1000:g} ms, {WORKERS} workers / ideal"
    return show([Row(what, medians["ours"], ideal, BOUND)])


def make_case(number: int) -> str:
    words = (f"What is 15 * 7? Turn {turn} of number {number}." for turn in range(TURNS))
    turns = [{"prompt": prompt, "checks": [{"contains": "105"}]} for prompt in words]
    return json.dumps({"id": f"case-{number}", "turns": turns})


if __name__ == "__main__":
    sys.exit(main())
