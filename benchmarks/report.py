"""Size and time of the HTML report with 45, 2,000 and 20,000 conversations, beside reading the same results.

A small suite is really run on three targets. Its conversations are multiplied: each copy has an id of its own, and
replies of a hundred to two hundred made-up words, drawn as often as words of a language are, so that compression is not
flattered. Times are those of the processor, medians of several files, each beside what reading and decoding
`results.jsonl` takes at the same moment. Memory is the peak of a process of its own.

    benchmarks/report.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

SIZES = (45, 2_000, 20_000)
MOST_RATIO = 30.0
"""Times that writing may take what reading takes."""
TARGETS = ("large", "medium", "small")
SUITE = {
    "targets": [
        {"name": "large", "provider": "scripted", "replies": ["yes"]},
        {"name": "medium", "provider": "scripted", "replies": ["no", "yes"]},
        {"name": "small", "provider": "scripted", "replies": ["no", "nor now"]},
    ],
    "evals": [
        {
            "id": f"case-{number}",
            "prompt": f"Is it so, number {number}?",
            "tags": ["a", f"b{number % 3}"],
            "checks": [
                {"match": "*yes*"},
                {"icontains_any": ["yes", "no"]},
                {"prompt": "Please think again.", "checks": [{"match": "*yes*"}]},
            ],
        }
        for number in range(15)
    ],
}


class Measured(NamedTuple):
    conversations: int
    bytes: int
    written_s: float
    read_s: float
    mib: float

    @property
    def ratio(self) -> float:
        return self.written_s / self.read_s


def prose(random: Random, words: list[str]) -> str:
    """Words by Zipf's law."""
    count = random.randrange(100, 200)
    return " ".join(words[int(len(words) ** random.random()) - 1] for _ in range(count))


def enlarged(folder: Path, conversations: int) -> None:
    """Rewrite the results of the one run of a folder, and its summary."""
    import msgspec
    from msgspec import structs

    from rejoinder.model import Receipt, Result
    from rejoinder.runs.recorded import open_recorded
    from rejoinder.runs.results import Results
    from rejoinder.runs.summary import summarise

    run = open_recorded(str(folder)).folder
    receipt = run.read_receipt()
    assert isinstance(receipt, Receipt)
    some = list(Results(run.results))
    random = Random(7)
    words = ["".join(random.choices("aeioubcdfghlmnprst", k=random.randrange(2, 11))) for _ in range(6_000)]

    def copies() -> Iterator[Result]:
        for number in range(conversations):
            one = some[number % len(some)]
            said = tuple(
                structs.replace(turn, response=f"{turn.response} {prose(random, words)}") for turn in one.turns
            )
            copy = number // len(some)
            yield structs.replace(one, id=f"{one.id}-{copy}", number=one.number + 15 * copy, turns=said)

    with (folder / "new.jsonl").open("wb") as stream:
        stream.writelines(msgspec.json.encode(one) + b"\n" for one in copies())
    (folder / "new.jsonl").replace(run.results)
    summary = summarise(Results(run.results), structs.replace(receipt, planned=conversations))
    (folder / "summary.json").write_bytes(msgspec.json.encode(summary))


def measured(folder: Path, times: int) -> None:
    """In a process of its own: the results are read and written in turns."""
    from rejoinder.report.html import write, write_to
    from rejoinder.runs.folder import RunFolder
    from rejoinder.runs.report import RunReport
    from rejoinder.runs.results import Results

    run = RunFolder(folder)
    receipt, summary = run.read_receipt(), run.read_summary()
    assert receipt is not None and summary is not None
    report, out = RunReport(receipt, summary, run), folder.parent / "report.html"
    size = write_to(out, write(report))  # what is imported is not measured
    read, written = list[float](), list[float]()
    for _ in range(times):
        start = time.process_time()
        deque(Results(run.results), maxlen=0)
        read.append(time.process_time() - start)
        start = time.process_time()
        write_to(out, write(report))
        written.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([summary.total, size, median(written), median(read), peak]))


def measure(conversations: int, times: int) -> Measured:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "evals.yaml").write_text(json.dumps(SUITE), encoding="utf-8")
        asked = [sys.executable, "-m", "rejoinder", "run", "-q", "-m", ",".join(TARGETS)]
        subprocess.run(asked, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        [run] = (path.parent for path in folder.glob(".rejoinder/runs/*/run.json"))
        for part in ("--enlarge", "--measure"):
            number = conversations if part == "--enlarge" else times
            command = [sys.executable, str(Path(__file__).resolve()), part, str(number), str(run)]
            said = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
        return Measured(*json.loads(said))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Only see that everything runs.")
    parser.add_argument("--enlarge", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.enlarge:
        enlarged(Path(given.enlarge[1]), int(given.enlarge[0]))
        return
    if given.measure:
        measured(Path(given.measure[1]), int(given.measure[0]))
        return
    print("conversations        size    written       read   ratio    peak")
    found = [measure(size, 1 if given.quick else 5) for size in (SIZES[:1] if given.quick else SIZES)]
    for one in found:
        size = f"{one.bytes / 1e6:.2f} MB"
        print(
            f"{one.conversations:13,} {size:>11} {one.written_s:8.3f} s {one.read_s:8.3f} s {one.ratio:7.1f} "
            f"{one.mib:4.0f} MiB"
        )
    if given.quick:
        print("--quick: everything ran")
        return
    worst = max(one.ratio for one in found[1:])  # of 45, half is the shell
    print(f"writing takes up to {worst:.1f} times what reading takes; the bound is {MOST_RATIO:g}")
    sys.exit(worst > MOST_RATIO)


if __name__ == "__main__":
    main()
