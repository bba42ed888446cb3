"""MINT, the tasks of reasoning: an answer, and up to four more attempts after "Your answer is wrong."."""

from __future__ import annotations

from typing import Any

from rejoinder.bench.checks import MODULE
from rejoinder.bench.figures import Cases, Figure, rate
from rejoinder.bench.sources import Rows, SourceFault, json_rows, text_of
from rejoinder.imports.texts import literal, literal_tree
from rejoinder.model import Result

TASKS = ("gsm8k", "math", "mmlu", "theoremqa", "hotpotqa")
_MOST = 5
"""Attempts, with the first."""
_WRONG = "Your answer is wrong."
_FORM = "Solve the task step by step. End with a line of the form `Solution: ANSWER`; of options, ANSWER is the letter."
_KINDS = {
    "integer": "whole number",
    "float": "number",
    "list of integer": "numbers",
    "bool": "truth",
    "option": "choice",
}
"""The kinds of answers of TheoremQA."""


def suite(files: Rows) -> dict[str, Any]:
    evals = [_case(task, row) for task in TASKS for row in json_rows(files, f"{task}.jsonl")]
    return {"system_prompt": _FORM, "evals": evals}


def _case(task: str, row: dict[str, Any]) -> dict[str, Any]:
    kind, reference = _answer(task, row)
    check = {"python": {"call": f"{MODULE}:solved", "with": {"kind": kind, "reference": literal_tree(reference)}}}
    again = {"prompt": _WRONG, "times": _MOST - 1, "checks": [check]}
    prompt = literal(text_of(row, "prompt").strip())
    return {"id": f"{task}-{row['id']}", "tags": [task], "prompt": prompt, "checks": [check, again]}


def _answer(task: str, row: dict[str, Any]) -> tuple[str, Any]:
    """The kind of the answer, and the right one."""
    reference = row["reference"]
    if task == "mmlu":
        return "choice", reference
    if task == "theoremqa":
        kind = _KINDS.get(str(row.get("answer_type")))
        if kind is None:
            raise SourceFault(f"{task}.jsonl", f"task {row['id']} has no known type of answer")
        return kind, reference
    try:
        return "number", float(str(reference).replace(",", ""))
    except ValueError:
        return "text", reference


def figures(cases: Cases) -> list[Figure]:
    """The share of tasks that are solved within k turns."""
    return [rate(f"SR_{k}", [_solved(trials, k) for trials in cases.values()]) for k in range(1, _MOST + 1)]


def _solved(trials: Any, k: int) -> tuple[int, int]:
    return sum(_turn(one) <= k for one in trials), len(trials)


def _turn(result: Result) -> int:
    """The turn of the right answer."""
    return result.succeeded_on_turn or _MOST + 1
