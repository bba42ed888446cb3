"""What hiding secrets costs: the records of one case without a secret, hidden by one key and by five.

The baseline is a search for five short texts in the same records, which is what hiding one key did before it knew other
cases, pieces and more spellings. Beside it stands the CPU time of one more case of `rejoinder run` against a fake
server, with a key that is hidden and with a placeholder that is not.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path

from timing import REJOINDER, compile_package

from rejoinder.runs.secrets import Mask
from rejoinder.testing import Answer, FakeServer

KEYS = [f"sk-proj-{number}7eC0ffee51b6A9d2abcdEFGH0123456789zyxwvutsrqponmlkjihg" for number in range(5)]
NEEDLES = [b"sk-proj-", b"c2stcHJv", b"nByb2otM", b"rLXByb2o", b"<<"]
TEXT = "The parcel leaves our house on Monday and arrives within three working days. "
BOUND = 3.0


def records(text: str) -> list[bytes]:
    """What is written for a case with one turn: the question, the reply and the result."""
    asked = b'{"type":"asked","key":"59cd3055c4919a7cf907869e588d278c","case":"a","target":"t","trial":1,"turn":1}\n'
    told = b'{"type":"told","key":"59cd3055c4919a7cf907869e588d278c","reply":{"text":"%b","model":"fake"}}\n'
    result = (
        b'{"suite":"e.yaml","id":"a","name":null,"tags":[],"target":"t","trial":1,"status":"passed","passed":true,'
        b'"turns":[{"turn":1,"prompt":"Where is my parcel?","response":"%b","checks":[{"check":"contains parcel",'
        b'"passed":true,"score":1.0,"reason":"contains it"}],"usage":{"input_tokens":6,"output_tokens":78}}],'
        b'"raw_request":{"question":"Where is my parcel?","guidelines":"","chat_prompt":null},"error":null}\n'
    )
    words = text.encode()
    return [asked, told % words, result % words]


def search(lines: list[bytes]) -> None:
    for line in lines:
        for needle in NEEDLES:
            if needle in line:
                raise AssertionError(needle)


def hide(mask: Mask, lines: list[bytes]) -> None:
    for line in lines:
        if mask.hide(line) is not line:
            raise AssertionError(line)


def microseconds(measure: str, names: dict[str, object], rounds: int) -> float:
    return min(timeit.repeat(measure, globals={**globals(), **names}, number=100, repeat=rounds)) / 100 * 1e6


def show_records(rounds: int) -> bool:
    within = True
    one, five = (Mask({key: f"env KEY_{key[8]}" for key in KEYS[:count]}) for count in (1, 5))
    print("records of one case    search us  one key us  five keys us  ratio  bound")
    for name, times in (("a short reply", 1), ("a reply of 0.5 KB", 6), ("a reply of 4 KB", 52)):
        lines = records(TEXT * times)
        base, mine, more = (
            microseconds("search(lines)", {"lines": lines}, rounds),
            microseconds("hide(mask, lines)", {"lines": lines, "mask": one}, rounds),
            microseconds("hide(mask, lines)", {"lines": lines, "mask": five}, rounds),
        )
        within = within and mine / base <= BOUND
        print(f"{name:22} {base:10.1f} {mine:11.1f} {more:13.1f} {mine / base:6.2f} {BOUND:6g}")
    return within


def cpu_of(folder: Path, key: str, cases: int) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [REJOINDER, "run", "evals.yaml", "--repeat", str(cases)]
    environment = {**os.environ, "OPENAI_API_KEY": key}
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show_cases(times: int, few: int, many: int, rounds: int) -> None:
    costs: dict[str, list[float]] = {"test": [], KEYS[0]: []}
    with FakeServer(Answer(TEXT * times)) as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        suite = f"targets: [{{name: t, provider: openai, model: fake, base_url: {server.openai_url}}}]\ntarget: t\n"
        suite += "evals: [{id: a, prompt: Where is my parcel?, checks: [{contains: parcel}]}]\n"
        (folder / "evals.yaml").write_text(suite, encoding="utf-8")
        for _ in range(rounds):
            for key, taken in costs.items():
                taken.append((cpu_of(folder, key, many) - cpu_of(folder, key, few)) / (many - few) * 1e6)
    plain, hidden = min(costs["test"]), min(costs[KEYS[0]])
    print(
        f"one more case, {len(TEXT) * times:,} characters: {plain:.0f} us without a secret, {hidden:.0f} us with a key"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few cases: shows that the script works, nothing else")
    given = parser.parse_args()
    compile_package()
    few, many, rounds = (5, 20, 1) if given.quick else (200, 2200, given.rounds)
    within = show_records(2 if given.quick else 20 * given.rounds)
    for times in (6, 52):
        show_cases(times, few, many, rounds)
    if given.quick:
        print("\n--quick: everything ran, but so few cases say nothing; the figures are not meaningful.")
    return int(not within and not given.quick)


if __name__ == "__main__":
    sys.exit(main())
