"""A thousand cases with a judge and a comparison of meanings each, on a fake server that takes 50 ms for every call.

The server runs in a process of its own. Of each conversation only two things must wait for each other: the reply, and
then all that is asked about it at once. So with W workers the ideal is cases x 2 x 50 ms / W, however many votes a
judge has and however many texts are compared. The vector of a text that all cases expect is asked for once in a run;
that call is among those counted. The time is taken from the first request to the last reply, by the server.

The exit code is 1 when a bound is missed, or when other calls are made than are needed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from timing import PYTHON, REJOINDER, compile_package

from rejoinder.testing import Answer, FakeServer, Received, is_judging, judge

BOUND = 1.15
SHARED = "It is the capital of Italy."
NUMBERS = 256
"""In a vector. All of them are alike, so that every comparison passes."""

Calls = dict[str, int]


class Sizes(NamedTuple):
    cases: int
    workers: int
    latency_s: float

    @property
    def ideal(self) -> float:
        return self.cases * 2 * self.latency_s / self.workers


class Variant(NamedTuple):
    name: str
    votes: int = 1
    own_texts: bool = False
    """Does each case expect another text?"""
    bound: float | None = BOUND
    """None where the ratio is shown for what it is: five calls a conversation on two processors, one of them the
    server's, are near to what the machine can do."""

    def calls(self, cases: int) -> Calls:
        """What has to be asked."""
        return {
            "candidate": cases,
            "judge": cases * self.votes,
            "embeddings": 2 * cases if self.own_texts else cases + 1,
        }

    def write(self, folder: Path, sizes: Sizes, url: str) -> None:
        judge = {"criteria": "Is it right?", **({"votes": self.votes} if self.votes > 1 else {})}
        expected = "{{ expected }}" if self.own_texts else SHARED
        asked = [{"llm_judge": judge}, {"semantic": {"expected": expected, "threshold": 0.9}}]
        suite = {
            "targets": [
                {"name": name, "provider": "openai", "model": f"fake-{name}", "base_url": url, "api_key": "none"}
                for name in ("candidate", "judge", "embedder")
            ],
            "target": "candidate",
            "execution": {"judge_target": "judge"},
            "embedding_target": "embedder",
            "cases": "cases.jsonl",
            "defaults": {"checks": asked},
        }
        (folder / ".rejoinder").mkdir()
        (folder / "evals.yaml").write_text(json.dumps(suite), encoding="utf-8")
        with (folder / "cases.jsonl").open("w", encoding="utf-8") as stream:
            for number in range(sizes.cases):
                row = {"prompt": f"What is the word of number {number}?", "expected": f"{SHARED} It has {number}."}
                stream.write(json.dumps(row) + "\n")


class Measured(NamedTuple):
    wall: float
    cpu: float
    """Of the command's process, its start and its end included."""
    calls: Calls
    others: float
    """How much of one processor other work of the machine took meanwhile."""


VARIANTS = (
    Variant("one text for all"),
    Variant("votes: 3", votes=3, bound=None),
    Variant("a text for each", own_texts=True),
)
FULL, QUICK = Sizes(1000, 50, 0.05), Sizes(20, 5, 0.01)


def main() -> int:
    given = read_arguments()
    if given.serve is not None:
        serve(given.serve)
        return 0
    sizes, repeats = (QUICK, given.repeats or 1) if given.quick else (FULL, given.repeats or 5)
    sizes = sizes._replace(workers=given.workers or sizes.workers)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped then, too
    compile_package()
    taken: dict[str, list[Measured]] = {variant.name: [] for variant in VARIANTS}
    load = os.getloadavg()[0]
    with serving(sizes.latency_s) as server:
        for _ in range(repeats):
            for variant in VARIANTS:  # in turns, so that a slow moment of the machine meets all of them
                taken[variant.name].append(measure(variant, sizes, server))
    broken = show(sizes, taken, repeats, load)
    if given.quick:
        print("\n--quick: everything ran, but so few cases say nothing about time.")
    return int(broken)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, help="how often each is measured (default: 5)")
    parser.add_argument("--workers", type=int, help="conversations at the same time (default: 50)")
    parser.add_argument("--quick", action="store_true", help="few cases: shows that the script works, nothing else")
    parser.add_argument("--serve", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    return parser.parse_args()


# The server


def serve(latency_s: float) -> None:
    """Answer until standard input ends; every line on it asks for what came since the last one."""
    tokens: dict[str, Any] = {"input_tokens": 200, "output_tokens": 20}  # else it counts words
    verdict = Answer(judge(1.0, reasoning="It is as demanded.").text, **tokens)

    def reply(received: Received) -> Answer:
        if is_judging(received):
            return verdict
        return Answer(f"To that: {received.body['messages'][-1]['content']}", **tokens)

    def kind(received: Received) -> str:
        if received.path.endswith("/embeddings"):
            return "embeddings"
        return "judge" if is_judging(received) else "candidate"

    with FakeServer(reply, latency_s=latency_s, embed=lambda _: [1.0] * NUMBERS) as server:
        print(server.openai_url, flush=True)
        for _ in sys.stdin:
            heard = server.requests
            server.reset()
            calls: Calls = {}
            for one in heard:
                calls[kind(one)] = calls.get(kind(one), 0) + 1
            wall = heard[-1].at + latency_s - heard[0].at if heard else 0.0
            print(json.dumps({"wall": wall, "calls": calls, "cpu": time.process_time()}), flush=True)


class Server:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._cpu = 0.0
        self.url = self._line().strip()

    def heard(self) -> tuple[float, Calls, float]:
        """Seconds from the first request to the last reply, what was asked, and the seconds of a processor that this
        took; then it forgets."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        told = json.loads(self._line())
        used, self._cpu = told["cpu"] - self._cpu, told["cpu"]
        return told["wall"], told["calls"], used

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit("the server ended")
        return line


@contextmanager
def serving(latency_s: float) -> Iterator[Server]:
    command = [PYTHON, __file__, "--serve", str(latency_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Server(process)
        finally:
            process.communicate()  # the end of its input ends it


# The client


def measure(variant: Variant, sizes: Sizes, server: Server) -> Measured:
    with tempfile.TemporaryDirectory(prefix="judging-") as name:
        folder = Path(name).resolve()
        variant.write(folder, sizes, server.url)
        with (folder / "output").open("wb") as output:
            server.heard()
            busy, began = busy_s(), time.monotonic()
            command = [REJOINDER, "run", "evals.yaml", "--workers", str(sizes.workers)]
            process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said = (folder / "output").read_text(encoding="utf-8", errors="replace")[-2000:]
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{said}")
        wall, calls, served = server.heard()
        cpu = used.ru_utime + used.ru_stime
        others = (busy_s() - busy - cpu - served) / (time.monotonic() - began)
    return Measured(wall, cpu, calls, max(0.0, others))


def busy_s() -> float:
    """Seconds that all processors have worked so far; 0 where nobody says."""
    path = Path("/proc/stat")
    if not path.exists():
        return 0.0
    ticks = [int(one) for one in path.read_text(encoding="ascii").partition("\n")[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # without those of idling and waiting


def show(sizes: Sizes, taken: dict[str, list[Measured]], repeats: int, load: float) -> bool:
    print(f"{sizes.cases:,} cases, {sizes.workers} workers, {sizes.latency_s * 1000:g} ms a call; median of {repeats};")
    print(f"{os.cpu_count()} processors, load {load:.2f} before it began")
    print(f"{'':17} {'candidate':>9} {'judge':>6} {'embeddings':>10}", end="  ")
    print(f"{'wall s':>7} {'ideal s':>7} {'ratio':>5} {'bound':>5} {'CPU s':>6} {'CPU ms a call':>13}")
    verdicts = [show_variant(variant, sizes, taken[variant.name]) for variant in VARIANTS]
    every = [one for measured in taken.values() for one in measured]
    noisy = sum(one.others > 0.25 for one in every)
    if noisy:
        most = max(one.others for one in every)
        print(f"NOISE: in {noisy} of {len(every)} runs other processes used more than a quarter of a processor", end="")
        print(f", up to {most:.2f} of one.")
    return not all(verdicts)


def show_variant(variant: Variant, sizes: Sizes, taken: Sequence[Measured]) -> bool:
    wall, cpu = (statistics.median(values) for values in zip(*(one[:2] for one in taken), strict=True))
    wrong = [one.calls for one in taken if one.calls != variant.calls(sizes.cases)]
    calls = wrong[0] if wrong else taken[0].calls
    ratio = wall / sizes.ideal
    is_quick = sizes == QUICK
    holds = not wrong and (is_quick or variant.bound is None or ratio <= variant.bound)
    counts = (calls.get("candidate", 0), calls.get("judge", 0), calls.get("embeddings", 0))
    print(f"{variant.name:17} {counts[0]:9,} {counts[1]:6,} {counts[2]:10,}", end="  ")
    print(f"{wall:7.2f} {sizes.ideal:7.2f} {ratio:5.2f} {variant.bound or '-':>5}", end=" ")
    print(f"{cpu:6.2f} {1000 * cpu / sum(counts):13.3f}", end="  ")
    if wrong:
        needed = ", ".join(f"{number:,} {kind}" for kind, number in variant.calls(sizes.cases).items())
        print(f"WRONG: needed are {needed}")
    else:
        print("ok" if holds else "OVER")
    return holds


if __name__ == "__main__":
    sys.exit(main())
