"""How long `run --watch` takes from the change of a prompt's file to the verdict of the new run.

A suite of 20 cases over HTTP takes its system prompt from a file. Two texts take turns in it; both have been run, so
that all answers come from the cache: a single call of the server would take as long as the bound. The time is from
before the file is written until the last line of the new run can be read from a pipe. Its bound is one second.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import IO

from timing import PYTHON, compile_package, fake_server, read_runs, say_load

CASES = 20
BOUND_S = 1.0
SUITE = """\
targets: [{name: asked, provider: openai, model: gpt-5-mini, base_url: URL, cache: true}]
metadata: {system_prompt: {file: prompts/warm.md}}
evals:
"""
CASE = "  - {id: case-NUMBER, prompt: 'NUMBER) What is 15 * 7?', checks: [{contains: '105'}]}\n"
TEXTS = ("Be warm.\n", "Be warm and brief.\n")
VERDICT = f"{CASES} passed of {CASES}"


def main() -> int:
    runs = read_runs(__doc__, usual=15)
    compile_package()
    say_load()
    with tempfile.TemporaryDirectory() as name, fake_server(latency_s=BOUND_S) as url:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        (folder / "prompts").mkdir()
        cases = "".join(CASE.replace("NUMBER", str(number)) for number in range(CASES))
        (folder / "evals.yaml").write_text(SUITE.replace("URL", url) + cases, encoding="utf-8")
        os.environ |= {"OPENAI_API_KEY": "none", "XDG_CACHE_HOME": str(folder / "cache")}
        times = measure(folder, runs)
    median, longest = statistics.median(times), max(times)
    verdict = "ok" if longest <= BOUND_S else "OVER"
    print(
        f"from the change to the verdict: median {median:.2f} s, longest {longest:.2f} s, bound {BOUND_S:g} s {verdict}"
    )
    return int(longest > BOUND_S)


def measure(folder: Path, runs: int) -> list[float]:
    prompt, texts = folder / "prompts/warm.md", cycle(TEXTS)
    prompt.write_text(next(texts), encoding="utf-8")
    command = [PYTHON, "-m", "rejoinder", "run", "--watch"]
    watching = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert watching.stdout is not None
    try:
        read_verdict(watching.stdout)
        times: list[float] = []
        for _ in range(1 + runs):  # the first asks the server, because its text is new
            begun = perf_counter()
            prompt.write_text(next(texts), encoding="utf-8")
            read_verdict(watching.stdout)
            times.append(perf_counter() - begun)
    finally:
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=30)
    return times[1:]


def read_verdict(said: IO[str]) -> None:
    """Read until the run has ended, and is waited for the next change."""
    lines: list[str] = []
    for line in said:
        lines.append(line)
        if "waiting for a change" in line:
            break
    if not any(VERDICT in line for line in lines):
        sys.exit(f"the run did not pass:\n{''.join(lines)}")


if __name__ == "__main__":
    sys.exit(main())
