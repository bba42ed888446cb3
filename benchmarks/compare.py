"""Memory and time of `compare` and `export`: the peak must not grow with the conversations. Only the list of files in
Inspect's archive does.

Two runs of one suite are compared, and one is exported in every format, each in a process of its own: with few and with
many conversations. In the second run a tenth of the cases fails. With `--shuffled` the second run has its cases in
another order, and a hundredth of them under other ids. The library that writes YAML takes milliseconds for a
conversation, so that format is measured with fewer. Two cases are really run; the run folders are made of their
results, by the functions that write those of a run, which takes seconds instead of minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

SUITE = """\
targets:
  - {name: demo, provider: python, call: "bot:answer"}
cases: rows.jsonl
defaults:
  prompt: What is 15 * 7, number {{ number }}?
  checks:
    - match: "*105*"
    - prompt: That is not right. Please calculate again.
      checks:
        - match: "*105*"
"""
BOT = """\
import pathlib

BROKEN = pathlib.Path("broken").exists()

def answer(messages):
    fails = BROKEN and "number 0" in messages[0]["content"]
    return "word " * 200 + ("100" if fails or len(messages) == 1 else "105")
"""
FEW, MANY = 10_000, 100_000
BOUND = 1.15
"""Ratio of the peaks: ten times the conversations, and the memory of a few."""
ARCHIVE_BOUND = 600
"""Bytes that a conversation may add to the peak while Inspect's archive is written: `zipfile` lists its files."""
COMPARE = {"compare": ["compare"], "compare, JSON": ["compare", "--format", "json"]}
YAML_PART = 20
"""YAML is measured with this fraction of the conversations."""


class Peak(NamedTuple):
    mib: float
    seconds: float


def measure(conversations: int, commands: dict[str, list[str]], *, shuffled: bool) -> dict[str, Peak]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        (folder / "evals.yaml").write_text(SUITE, encoding="utf-8")
        (folder / "bot.py").write_text(BOT, encoding="utf-8")
        rows = (json.dumps({"id": f"case-{number}", "number": number}) for number in range(2))
        (folder / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
        for place in ("a", "b"):
            rejoinder(folder, "run")
            # In a process of its own: the peak of a child is at least the size of what it was forked from.
            order = "shuffled" if shuffled and place == "b" else "in-order"
            subprocess.run([sys.executable, __file__, "--enlarge", str(conversations), order], cwd=folder, check=True)
            (folder / "broken").touch()
        return {name: rejoinder(folder, *command) for name, command in commands.items()}


def export(form: str) -> list[str]:
    """The command for a format; `eval` is the archive of Inspect."""
    return ["export", "--out", "log.eval"] if form == "eval" else ["export", "--to", form]


def export_name(form: str) -> str:
    return f"export {form}"


def rejoinder(folder: Path, *command: str) -> Peak:
    start = time.monotonic()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "rejoinder", *command], cwd=folder, stdout=output, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), command
    return Peak(usage.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024), time.monotonic() - start)


def enlarge(conversations: int, *, shuffled: bool) -> None:
    """Make the latest run one of so many cases, like its two."""
    from msgspec import structs

    from rejoinder.model import Case, Result
    from rejoinder.runs.folder import find_run, write_lines
    from rejoinder.runs.receipt import StoredCases
    from rejoinder.runs.results import Results, ResultWriter, read_results
    from rejoinder.runs.secrets import Mask
    from rejoinder.runs.summary import summarise

    folder, mask = find_run(Path.cwd(), None), Mask({})
    cases, results = list(StoredCases(folder.path / "cases.jsonl", 0, mask)), list(read_results(folder.results))
    receipt = folder.read_receipt()
    assert receipt is not None
    receipt = structs.replace(receipt, planned=conversations)
    numbers = list(range(conversations))
    if shuffled:
        Random(1).shuffle(numbers)

    def name(number: int) -> str:
        return f"{'renamed' if shuffled and number % 100 == 7 else 'case'}-{number}"

    def case_lines() -> Iterator[tuple[int, Case]]:
        for place, number in enumerate(numbers, 1):
            case = cases[min(1, number % 10)]
            yield 0, structs.replace(case, id=name(number), number=place, line=place)

    def result(place: int, number: int) -> Result:
        one = results[min(1, number % 10)]
        turns = tuple(structs.replace(turn, model="demo", duration_s=number * 7919 % 1000 / 1000) for turn in one.turns)
        request = structs.replace(one.raw_request, question=f"What is 15 * 7, number {number}?")
        return structs.replace(one, id=name(number), number=place + 1, line=place + 1, raw_request=request, turns=turns)

    write_lines(folder.path / "cases.jsonl", case_lines(), mask)
    writer = ResultWriter(folder.path)
    for place, number in enumerate(numbers):
        writer.add(place, result(place, number))
    folder.write_summary(summarise(Results(writer.finish()), receipt))
    folder.close(receipt)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", type=int, default=FEW)
    parser.add_argument("--many", type=int, default=MANY)
    parser.add_argument("--export", action="append", metavar="FORMAT", help="also export in this format; `eval`, `all`")
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--enlarge", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.enlarge:
        enlarge(int(given.enlarge[0]), shuffled=given.enlarge[1] == "shuffled")
        return 0
    exports = given.export or []
    if "all" in exports:
        from rejoinder.exports.formats import FORMATS

        exports = [*FORMATS, "eval"]
    commands = COMPARE | {export_name(form): export(form) for form in exports if form != "yaml"}
    measured = [(commands, given.few, given.many)]
    if "yaml" in exports:
        measured += [({export_name("yaml"): export("yaml")}, given.few // YAML_PART, given.many // YAML_PART)]
    worst = listed = 0.0
    for each, few, many in measured:
        low, high = (measure(count, each, shuffled=given.shuffled) for count in (few, many))
        for name in each:
            ratio = high[name].mib / low[name].mib
            if name == export_name("eval"):
                listed = (high[name].mib - low[name].mib) * 1024 * 1024 / (many - few)
            else:
                worst = max(worst, ratio)
            print(
                f"{name:18} {low[name].mib:6.1f} MiB with {few:,} conversations, {high[name].mib:6.1f} MiB with"
                f" {many:,} ({high[name].seconds:.1f} s): {ratio:.2f}"
            )
    print(f"bound: {BOUND}")
    if listed:
        print(f"Inspect's archive: {listed:.0f} bytes for each conversation, bound: {ARCHIVE_BOUND}")
    return 0 if worst <= BOUND and listed <= ARCHIVE_BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
