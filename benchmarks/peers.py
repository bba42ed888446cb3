"""rejoinder beside other eval tools, all of them against one fake model server on loopback and in one run.

BENCH_FOLDER holds the fake server (`fake_llm.py`), a suite for every other tool (`peers/*/gen.py`), the runner whose
parts are used here (`run_peers.py`) and the figures that were once taken of all of them (`README.md`). LAB is where
the tools are installed; `peers/README.md` of that folder says how. A tool that is missing in LAB stands in the tables
by its recorded multiple of the raw asyncio client, which is always measured here; the tables say which figures are so.

Every bound is a ratio, because seconds hold for one machine only. The exit code is 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import resource
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import dropwhile, takewhile
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from timing import REJOINDER, compile_package

PEERS = ("deepeval", "agentv", "pydantic_evals", "promptfoo", "inspect_ai")
OURS, RAW = "rejoinder", "raw-asyncio"
WORKERS = 50
SLOW = 60.0
"""Seconds of a run after which a tool sits out the further repeats: they would take hours, and it is not the best."""
TIMEOUT = 600.0
SUITE = """\
targets: [{name: t, provider: openai, model: fake}]
target: t
cases: cases.jsonl
defaults: {checks: [{contains: "{{ answer }}"}]}
"""

Record = dict[str, Any]


class Scenario(NamedTuple):
    cases: int
    latency_ms: int
    workers: int = WORKERS

    @property
    def ideal(self) -> float:
        """Seconds from the first request to the last reply when no worker ever waits for anything but the model."""
        return self.cases * self.latency_ms / 1000 / self.workers

    def __str__(self) -> str:
        return f"{self.cases:,} cases at {self.latency_ms} ms with {self.workers:,} workers"


class Turn(NamedTuple):
    """Tools that are measured side by side. Each has all of the scenarios at once, since their difference is wanted."""

    tools: tuple[str, ...]
    scenarios: tuple[Scenario, ...]


class Sizes(NamedTuple):
    few: Scenario
    many: Scenario
    short: Scenario
    long: Scenario
    flight: Scenario


ONE = Scenario(1, 0)
FULL = Sizes(Scenario(1000, 0), Scenario(5000, 0), Scenario(5000, 50), Scenario(1000, 500), Scenario(5000, 500, 1000))
QUICK = Sizes(Scenario(20, 0), Scenario(100, 0), Scenario(100, 50), Scenario(50, 200), Scenario(200, 200, 100))


class Recorded(NamedTuple):
    """What was once measured of a tool."""

    cpu_ms: float
    memory_mb: float
    start_s: float


class Figure(NamedTuple):
    tool: str
    value: float
    source: str


class Verdict(NamedTuple):
    name: str
    ratio: float
    bound: str
    holds: bool
    against: str = ""


def main() -> int:
    given = read_arguments()
    sizes, repeats = (QUICK, given.repeats or 1) if given.quick else (FULL, given.repeats or 5)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped then, too
    compile_package()
    recorded = read_recorded(given.bench / "README.md")
    with tempfile.TemporaryDirectory(prefix="peers-") as scratch, laboratory(given, Path(scratch).resolve()) as lab:
        lab.warm_up()
        describe(lab, repeats)
        lab.repeat(plan(sizes, lab, given.only), repeats)
        verdicts = judge(Results(lab, sizes, recorded), given.only)
        warn_of_noise(lab)
    missed = show(verdicts)
    if given.quick:
        print("\n--quick: everything ran, but so few cases say nothing; neither figures nor verdicts are meaningful.")
    return int(missed and not given.quick)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", metavar="BENCH_FOLDER", type=Path)
    parser.add_argument("--lab", type=Path, help="where the other tools are installed")
    parser.add_argument(
        "--only", type=names_of(tuple(JUDGES)), default=tuple(JUDGES), help=f"some of {','.join(JUDGES)}"
    )
    parser.add_argument("--peers", type=names_of(PEERS), default=PEERS, help="the tools to run, if they are installed")
    parser.add_argument("--repeats", type=int, help="how often each is measured (default: 5)")
    parser.add_argument("--quick", action="store_true", help="few cases: shows that the script works, nothing else")
    given = parser.parse_args()
    given.bench = given.bench.resolve()
    if not (given.bench / "run_peers.py").is_file():
        parser.error(f"{given.bench} has no run_peers.py")
    return given


def names_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(known)}")
        return names

    return read


def read_recorded(readme: Path) -> dict[str, Recorded]:
    """The main table of the folder's README; the columns are found by their names."""
    lines = dropwhile(lambda line: "| 1-case eval s |" not in line, readme.read_text(encoding="utf-8").splitlines())
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in takewhile(lambda line: line, lines)]
    if not rows:
        sys.exit(f"{readme} has no table with the column `1-case eval s`")
    cpu, memory, start = (
        next(number for number, title in enumerate(rows[0]) if title.startswith(wanted))
        for wanted in ("marginal CPU ms/eval (1000", "RSS MB 1000 / 5000", "1-case eval s")
    )
    return {
        row[0]: Recorded(float(row[cpu]), float(row[memory].split("/")[-1]), float(row[start]))
        for row in rows
        if row[0] in (*PEERS, RAW)
    }


def load_runner(bench: Path) -> ModuleType:
    """The folder's runner, without leaving bytecode in a folder that is not ours."""
    spec = importlib.util.spec_from_file_location("run_peers", bench / "run_peers.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


class Lab:
    """The server, the tools and every record that was taken of them."""

    def __init__(self, runner: ModuleType, server: Any, folder: Path, scratch: Path, wanted: Sequence[str]) -> None:
        self.runner, self.server, self.folder, self.scratch = runner, server, folder, scratch
        table = runner.peers(folder, WORKERS)
        self.peers = [name for name in wanted if Path(table[name].eval_cmd[0]).exists()]
        self.absent = {name: "not installed" for name in PEERS if name not in self.peers}
        self.absent |= {name: "left out" for name in PEERS if name not in wanted}
        self.records: dict[tuple[str, Scenario], list[Record]] = {}
        config = scratch / "promptfoo-config"
        self._context: dict[str, Any] = {
            "scratch": scratch,
            "server": server,
            "lock": None,
            "timeout": TIMEOUT,
            "concurrency": WORKERS,
            "config_dir": config,
            "config_seed": scratch / "promptfoo-config-seed",
            "env": runner.environment(folder, server.base, config),
        }

    def warm_up(self) -> None:
        """One case for each tool, so that nobody pays for bytecode or a first database; a tool that fails is absent."""
        for tool in (OURS, RAW, *self.peers):
            self.take(tool, [ONE])
        self.records.clear()
        if self._context["config_dir"].exists():
            shutil.copytree(self._context["config_dir"], self._context["config_seed"])

    def repeat(self, plan: Iterable[Turn], repeats: int) -> None:
        """Tools take turns within a repeat, each beginning elsewhere, so that a slow moment meets all of them."""
        slow: set[tuple[str, Turn]] = set()
        for number in range(repeats):
            for turn in plan:
                start = number % len(turn.tools)
                for tool in (*turn.tools[start:], *turn.tools[:start]):
                    if (tool, turn) not in slow and self.take(tool, turn.scenarios) > SLOW:
                        slow.add((tool, turn))

    def take(self, tool: str, scenarios: Sequence[Scenario]) -> float:
        """Measure a tool in each scenario; the seconds of the longest run. A peer that fails is absent from then on."""
        longest = 0.0
        for scenario in scenarios:
            if tool in self.absent:
                break
            record = self.measure(tool, scenario)
            if record["ok"]:
                used = f"{record['wall_s']:.2f} s, {cpu_of(record):.2f} s of processor, {record['maxrss_mb']:.0f} MB"
                print(f"{tool}: {scenario}: {used}", file=sys.stderr, flush=True)
                self.records.setdefault((tool, scenario), []).append(record)
                longest = max(longest, record["wall_s"])
            else:
                self.give_up(tool, scenario, record)
        return longest

    def give_up(self, tool: str, scenario: Scenario, record: Record) -> None:
        log = self.scratch / f"log-{tool}-eval-{scenario.cases}-{scenario.latency_ms}.txt"
        said = log.read_text(encoding="utf-8", errors="replace")[-1500:]
        what = f"exit code {record['rc']}, {record['requests']} requests for {scenario.cases} cases"
        print(f"{tool} failed, {scenario}: {what}\n{said}", file=sys.stderr)
        if tool not in self.peers:
            sys.exit(1)
        self.peers.remove(tool)
        self.absent[tool] = "failed here"

    def measure(self, tool: str, scenario: Scenario) -> Record:
        if tool == OURS:
            command = [REJOINDER, "run", "evals.yaml", "--workers", str(scenario.workers)]
            peer = self.runner.Peer(OURS, OURS, command)
            self._write_suite(scenario)
        else:
            peer = self.runner.peers(self.folder, scenario.workers)[tool]
            command = peer.eval_cmd
        if tool == RAW:
            # The raw client needs the standard library alone: with our Python it runs without LAB, and compares.
            command = [sys.executable, *command[1:]]
        record = self.runner.run_one(peer, command, "eval", scenario.cases, scenario.latency_ms, 0, self._context)
        if tool == OURS:
            record["ok"] = record["ok"] and self._all_passed(scenario)
        return record

    def _write_suite(self, scenario: Scenario) -> None:
        """A new folder each time, so that no run finds the results of another."""
        folder = self._our_folder(scenario)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / ".rejoinder").mkdir(parents=True)
        (folder / "evals.yaml").write_text(SUITE, encoding="utf-8")
        with (folder / "cases.jsonl").open("w", encoding="utf-8") as cases:
            for number in range(1, scenario.cases + 1):
                row = {"id": f"case-{number}", "prompt": f"What is {number} * 7?", "answer": str(number * 7)}
                cases.write(json.dumps(row) + "\n")

    def _all_passed(self, scenario: Scenario) -> bool:
        found = list(self._our_folder(scenario).glob(".rejoinder/runs/*/summary.json"))
        return len(found) == 1 and json.loads(found[0].read_bytes())["passed"] == scenario.cases

    def _our_folder(self, scenario: Scenario) -> Path:
        return self.scratch / f"{OURS}-{scenario.cases}"


@contextmanager
def laboratory(given: argparse.Namespace, scratch: Path) -> Iterator[Lab]:
    runner = load_runner(given.bench)
    folder = (given.lab or scratch / "nothing-installed").resolve()
    python = folder / "venv-server/bin/python"  # has a quicker event loop for the server, where it is installed
    with many_files():
        server = runner.FakeServer(str(python) if python.exists() else sys.executable)
    try:
        yield Lab(runner, server, folder, scratch, given.peers)
    finally:
        server.stop()


@contextmanager
def many_files() -> Iterator[None]:
    """The server may need more connections than a process is usually allowed; the tools get what is usual."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def plan(sizes: Sizes, lab: Lab, only: Sequence[str]) -> Iterable[Turn]:
    """Who is measured in what. Processor time and memory come from the same runs."""
    everybody, bounded = (OURS, RAW, *lab.peers), (OURS, RAW)
    sized = Turn(everybody, (sizes.few, sizes.many))
    turns = {
        "cpu": sized,
        "memory": sized,
        "pace": Turn(bounded, (sizes.short, sizes.long)),
        "flight": Turn(bounded, (sizes.flight,)),
        "start": Turn(everybody, (ONE,)),
    }
    return dict.fromkeys(turns[name] for name in only)


class Results:
    """Figures of all tools: measured ones, and for the absent their recorded multiple of the raw client's."""

    def __init__(self, lab: Lab, sizes: Sizes, recorded: dict[str, Recorded]) -> None:
        self.lab, self.sizes, self.recorded = lab, sizes, recorded

    def cpu(self) -> list[Figure]:
        """Milliseconds of processor for one more case: what starting costs is in both sizes and drops out."""
        few, many = self.sizes.few, self.sizes.many

        def marginal(tool: str) -> list[float]:
            pairs = zip(self.lab.records[tool, few], self.lab.records[tool, many], strict=True)
            return [(cpu_of(more) - cpu_of(less)) * 1000 / (many.cases - few.cases) for less, more in pairs]

        return self._with_absent(marginal, lambda known: known.cpu_ms, "taken at 50 ms")

    def memory(self) -> list[Figure]:
        return self._with_absent(
            lambda tool: self.series(tool, self.sizes.many, "maxrss_mb"),
            lambda known: known.memory_mb,
            "taken at 50 ms",
        )

    def start(self) -> list[Figure]:
        return self._with_absent(lambda tool: self.series(tool, ONE, "wall_s"), lambda known: known.start_s, "one case")

    def span(self, scenario: Scenario) -> list[Figure]:
        return [measured(tool, self.series(tool, scenario, "span_s")) for tool in (OURS, RAW)]

    def series(self, tool: str, scenario: Scenario, key: str) -> list[float]:
        return [record[key] for record in self.lab.records[tool, scenario]]

    def _with_absent(
        self, values: Callable[[str], list[float]], choose: Callable[[Recorded], float], remark: str
    ) -> list[Figure]:
        figures = [measured(tool, values(tool)) for tool in (OURS, RAW, *self.lab.peers)]
        raw = figures[1].value
        for name, why in self.lab.absent.items():
            if name in self.recorded:
                then, raw_then = choose(self.recorded[name]), choose(self.recorded[RAW])
                source = f"RECORDED ({why}): {then:g} / {raw_then:g} x {RAW}, {remark}"
                figures.append(Figure(name, then / raw_then * raw, source))
        return figures


def measured(tool: str, values: Sequence[float]) -> Figure:
    spread = f"{min(values):.3f} to {max(values):.3f}"
    return Figure(tool, statistics.median(values), f"measured, median of {len(values)}: {spread}")


def cpu_of(record: Record) -> float:
    return record["user_s"] + record["sys_s"]


def best_peer(figures: Sequence[Figure]) -> Figure:
    return min((figure for figure in figures if figure.tool in PEERS), key=lambda figure: figure.value)


def name_source(figure: Figure) -> str:
    return f"{figure.tool}, {figure.source.split()[0].strip(',')}"


def at_most(name: str, ratio: float, bound: float, against: str = "") -> Verdict:
    """A difference that noise made negative holds nothing."""
    return Verdict(name, ratio, f"<= {bound:g}", 0 < ratio <= bound, against)


def below_best(name: str, figures: Sequence[Figure]) -> Verdict:
    best = best_peer(figures)
    ratio = figures[0].value / best.value
    return Verdict(name, ratio, "< 1", ratio < 1, name_source(best))


def judge_cpu(results: Results) -> list[Verdict]:
    figures = results.cpu()
    few, many = results.sizes.few, results.sizes.many
    list_figures(f"Processor for one more case, from {few.cases:,} to {many} (ms)", figures)
    ours, raw, best = figures[0].value, figures[1].value, best_peer(figures)
    return [
        at_most("processor for one more case / best peer's", ours / best.value, 1 / 8, name_source(best)),
        at_most(f"processor for one more case / {RAW}'s", ours / raw, 5, f"{RAW}, measured"),
    ]


def judge_pace(results: Results) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for scenario, bound in ((results.sizes.short, 1.10), (results.sizes.long, 1.05)):
        figures = results.span(scenario)
        list_figures(f"First request to last reply, {scenario}; ideal {scenario.ideal:.2f} (s)", figures)
        verdicts.append(at_most(f"span of {scenario} / ideal", figures[0].value / scenario.ideal, bound))
    return verdicts


def judge_flight(results: Results) -> list[Verdict]:
    scenario = results.sizes.flight
    figures = results.span(scenario)
    list_figures(f"First request to last reply, {scenario}; ideal {scenario.ideal:.2f} (s)", figures)
    peaks = results.series(OURS, scenario, "peak_concurrency")
    print(f"  {OURS} had up to {min(peaks):,} requests in flight in every repeat")
    share = scenario.ideal / figures[0].value
    return [Verdict(f"throughput of {scenario} / ideal", share, ">= 0.8", share >= 0.8)]


def judge_memory(results: Results) -> list[Verdict]:
    figures = results.memory()
    few, many = results.sizes.few, results.sizes.many
    list_figures(f"Peak memory of the largest process, {many} (MB)", figures)
    floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  a process inherits the peak of the one that starts it: nothing below {floor:.1f} can be told apart")
    less = statistics.median(results.series(OURS, few, "maxrss_mb"))
    growth = at_most(f"peak memory at {many.cases:,} cases / at {few.cases:,}", figures[0].value / less, 1.2)
    if less <= floor:
        growth = growth._replace(holds=False, against="too small to be measured from here")
    return [growth, below_best(f"peak memory at {many.cases:,} cases / smallest peer's", figures)]


def judge_start(results: Results) -> list[Verdict]:
    figures = results.start()
    list_figures("One case from the shell, start to finish (s)", figures)
    return [below_best("one case, start to finish / quickest peer's", figures)]


JUDGES: dict[str, Callable[[Results], list[Verdict]]] = {
    "cpu": judge_cpu,
    "pace": judge_pace,
    "flight": judge_flight,
    "memory": judge_memory,
    "start": judge_start,
}


def judge(results: Results, only: Sequence[str]) -> list[Verdict]:
    return [verdict for name, take in JUDGES.items() if name in only for verdict in take(results)]


def describe(lab: Lab, repeats: int) -> None:
    print(f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores; repeats: {repeats}")
    print(f"measured here: {', '.join((OURS, RAW, *lab.peers))}")
    for name, why in lab.absent.items():
        print(f"recorded figures for {name}: {why}")


def warn_of_noise(lab: Lab) -> None:
    """Other work on the machine spoils the times; say how much there was instead of hiding it in a median."""
    records = [record for taken in lab.records.values() for record in taken]
    noisy = sum(record["foreign_cpu_s"] > 0.25 * record["wall_s"] for record in records)
    if noisy:
        print(f"\nNOISE: in {noisy} of {len(records)} runs other processes used more than a quarter of a core.")


def list_figures(title: str, figures: Sequence[Figure]) -> None:
    print(f"\n{title}")
    for figure in figures[:2]:
        print(f"  {figure.tool:15} {figure.value:9.3f}  {figure.source}")
    for figure in sorted(figures[2:], key=lambda figure: figure.value):
        print(f"  {figure.tool:15} {figure.value:9.3f}  {figure.source}")


def show(verdicts: Sequence[Verdict]) -> bool:
    """Print the table of bounds; True when one is missed."""
    width = max(len(verdict.name) for verdict in verdicts)
    print(f"\n{'':{width}}  ratio     bound")
    for name, ratio, bound, holds, against in verdicts:
        print(f"{name:{width}}  {ratio:5.3f}  {bound:>8}  {'PASS' if holds else 'FAIL'}  {against}".rstrip())
    return not all(verdict.holds for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main())
