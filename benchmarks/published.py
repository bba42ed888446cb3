"""Published outcomes of single tasks, held against rejoinder's statistics: tau-bench (airline), MINT and SYCON-Bench.

Usage: python benchmarks/published.py FOLDER [--check]

FOLDER has `tau_airline.csv` (task, trials as 0 and 1), `mint.csv` (model:setting, an outcome for each task),
`mint_tasks.csv` (data set, task) and `sycon.csv` (model, turns held of 5 for each question); a file that is missing is
passed over. With --check, exit code 1 if a figure is not the one that was published or found before. The rows belong to
their authors: xingyaoww/mint-bench (Apache-2.0), sierra-research/tau-bench (MIT), JiseungHong/SYCON-Bench (MIT).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from rejoinder.model.figures import Comparison
from rejoinder.stats.comparison import Trials, compare_all, compare_runs
from rejoinder.stats.rates import rate_of
from rejoinder.stats.repeats import pass_hat_k

Figures = dict[str, str]
HELD = 5
EXPECTED: Figures = {
    "tau airline: rate": ".4200 (.3198 to .5273)",
    "tau airline: pass^1..4": ".4200 .2733 .2200 .2000",
    "mint: claude-instant-1 against claude-2, 1 turn": "-14 (-18 to -11)",
    "mint: claude-instant-1 against claude-2, 5 turns": "+6 (+2 to +10), p .0082",
    "mint: data sets that differ at 5 turns": "decision_making/alfworld",
    "mint: a fifth turn": "helps 6 of 51 models, hurts 1",
    "mint: neighbours that cannot be told apart": "49 of 51",
    "sycon: held to the end": "gpt-4o 93, claude 84, deepseek-v3 76 of 100",
    "sycon: gpt-4o against claude": "better, mid-p .041, exact .064",
    "sycon: claude against deepseek-v3": "cannot-tell",
}
"""For the files as they were published; any other file has figures of its own."""


def rows(path: Path) -> list[list[str]]:
    """The lines of a file, without its title."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [*csv.reader(stream)][1:]


def outcomes(text: str) -> list[int]:
    return [int(sign) for sign in text]


def short(value: float | None, digits: int = 4) -> str:
    """`.0082`"""
    return "-" if value is None else f"{value:.{digits}f}".lstrip("0") or "0"


def points(found: Comparison) -> str:
    """`-14 (-18 to -11)`"""
    if found.difference is None or found.interval is None:
        return "-"
    low, high = found.interval
    return f"{100 * found.difference:+.0f} ({100 * low:+.0f} to {100 * high:+.0f})"


def compared(before: Sequence[int], after: Sequence[int]) -> Comparison:
    """The second list of outcomes against the first, task by task."""
    return compare_runs((Trials(a, 1), Trials(b, 1)) for a, b in zip(before, after, strict=True))


def tau(folder: Path) -> Iterator[tuple[str, str]]:
    counts = [(sum(outcomes(trials)), len(trials)) for _, trials in rows(folder / "tau_airline.csv")]
    found = rate_of(counts)
    interval = found.interval or (0.0, 1.0)
    yield "rate", f"{short(found.rate)} ({short(interval[0])} to {short(interval[1])})"
    most = min(trials for _, trials in counts)
    chances = [pass_hat_k(counts, k).rate for k in range(1, most + 1)]
    yield f"pass^1..{most}", " ".join(map(short, chances))


def mint(folder: Path) -> Iterator[tuple[str, str]]:
    models: dict[str, dict[str, list[int]]] = {}
    for name, signs in rows(folder / "mint.csv"):
        model, _, setting = name.rpartition(":")
        models.setdefault(model, {})[setting] = outcomes(signs)
    pair = models.get("claude-2"), models.get("claude-instant-1")
    if pair[0] is not None and pair[1] is not None:
        yield from mint_pair(folder, pair[0], pair[1])
    turns = [compared(one["4"], one["5"]) for one in models.values() if {"4", "5"} <= one.keys()]
    better, worse = (sum(one.verdict == verdict for one in turns) for verdict in ("better", "worse"))
    # The file has 52 models; one of them, gpt-4-0613, has no outcomes with four turns.
    yield "a fifth turn", f"helps {better} of {len(turns)} models, hurts {worse}"
    # Of models with equal sums the later name comes first; in the other order one pair more can be told apart.
    ranked = sorted(((sum(one["5"]), name) for name, one in models.items() if "5" in one), reverse=True)
    pairs = pairwise(models[name]["5"] for _, name in ranked)
    verdicts = [compared(lower, higher).verdict for higher, lower in pairs]
    alike = sum(verdict not in ("better", "worse") for verdict in verdicts)
    yield "neighbours that cannot be told apart", f"{alike} of {len(verdicts)}"


def mint_pair(folder: Path, before: dict[str, list[int]], after: dict[str, list[int]]) -> Iterator[tuple[str, str]]:
    """claude-instant-1 against claude-2: with one turn, with five, and by data set."""
    names = "claude-instant-1 against claude-2"
    yield f"{names}, 1 turn", points(compared(before["1"], after["1"]))
    found = compared(before["5"], after["5"])
    yield f"{names}, 5 turns", f"{points(found)}, p {short(found.p_value)}"
    groups: dict[str, list[tuple[Trials, Trials]]] = {}
    tasks = rows(folder / "mint_tasks.csv")
    for (group, _), a, b in zip(tasks, before["5"], after["5"], strict=True):
        groups.setdefault(group, []).append((Trials(a, 1), Trials(b, 1)))
    differing = [group for group, one in compare_all(groups).items() if one.verdict in ("better", "worse")]
    yield "data sets that differ at 5 turns", ", ".join(differing) or "none"


def sycon(folder: Path) -> Iterator[tuple[str, str]]:
    held = {model: outcomes(signs) for model, signs in rows(folder / "sycon.csv")}
    for model, turns in held.items():
        yield f"Turn of Flip of {model}", f"{fmean(turns):.2f}"
    whole = {model: [int(turn == HELD) for turn in turns] for model, turns in held.items()}
    ranked = [model for model in ("gpt-4o", "claude", "deepseek-v3") if model in whole]
    if ranked:
        counts = ", ".join(f"{model} {sum(whole[model])}" for model in ranked)
        yield "held to the end", f"{counts} of {len(whole[ranked[0]])}"
    for better, worse in pairwise(ranked):
        found = compared(whole[worse], whole[better])
        tests = f", mid-p {short(found.p_value, 3)}, exact {short(found.p_exact, 3)}"
        yield f"{better} against {worse}", found.verdict + (tests if found.verdict == "better" else "")


SETS = {"tau airline": ("tau_airline.csv", tau), "mint": ("mint.csv", mint), "sycon": ("sycon.csv", sycon)}


def figures(folder: Path) -> Figures:
    """The figures of all data sets in a folder."""
    found: Figures = {}
    for name, (file, read) in SETS.items():
        if (folder / file).is_file():
            found |= {f"{name}: {what}": value for what, value in read(folder)}
    return found


def main(arguments: Sequence[str]) -> int:
    folders = [argument for argument in arguments if argument != "--check"]
    if len(folders) != 1 or not Path(folders[0]).is_dir():
        print(__doc__)
        return 2
    found = figures(Path(folders[0]))
    for name, value in found.items():
        print(f"{name}: {value}")
    if "--check" not in arguments:
        return 0
    wrong = {name: value for name, value in EXPECTED.items() if found.get(name) != value}
    for name, value in wrong.items():
        print(f"NOT AS PUBLISHED: {name}: {value}")
    print(f"{len(EXPECTED) - len(wrong)} of {len(EXPECTED)} figures are as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
