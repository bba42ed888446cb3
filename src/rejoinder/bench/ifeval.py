"""IFEval: 541 prompts with instructions that a program can verify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rejoinder.bench.checks import MODULE
from rejoinder.bench.figures import Cases, Figure, rate
from rejoinder.bench.instructions import INSTRUCTIONS, follows, follows_loosely
from rejoinder.bench.sources import Rows, SourceFault, json_rows, text_of
from rejoinder.imports.texts import literal, literal_tree
from rejoinder.model import Result

PROMPTS = "input_data.jsonl"
_KEPT = "instructions"
"""The key of a case's metadata: its instructions, which the figures are computed from."""


def suite(files: Rows) -> dict[str, Any]:
    return {"evals": [_case(row) for row in json_rows(files, PROMPTS)]}


def _case(row: dict[str, Any]) -> dict[str, Any]:
    wanted = [
        {"instruction": name, **{key: one for key, one in values.items() if one is not None}}
        for name, values in zip(row["instruction_id_list"], row["kwargs"], strict=True)
    ]
    unknown = [one["instruction"] for one in wanted if one["instruction"] not in INSTRUCTIONS]
    if unknown:
        raise SourceFault(PROMPTS, f"prompt {row['key']} has the unknown instruction {unknown[0]}")
    values = [literal_tree(one) for one in wanted]
    checks = [{"python": {"call": f"{MODULE}:follows", "with": one}, "name": one["instruction"]} for one in values]
    return {
        "id": f"if-{row['key']}",
        "tags": list(dict.fromkeys(one["instruction"].split(":")[0] for one in wanted)),
        "prompt": literal(text_of(row, "prompt")),
        "checks": checks,
        "metadata": {_KEPT: values},
    }


def figures(cases: Cases) -> list[Figure]:
    """Accuracy by prompts and by instructions, strict and loose."""
    found: list[Figure] = []
    for way, test in {"strict": follows, "loose": follows_loosely}.items():
        verdicts = {case: [_followed(one, test) for one in trials] for case, trials in cases.items()}
        prompts = [(sum(map(all, trials)), len(trials)) for trials in verdicts.values()]
        instructions = [(sum(map(sum, trials)), sum(map(len, trials))) for trials in verdicts.values()]
        found += [rate(f"prompt-level {way}", prompts), rate(f"instruction-level {way}", instructions)]
    return [found[0], found[2], found[1], found[3]]


def _followed(result: Result, test: Callable[..., bool]) -> list[bool]:
    """Whether the first reply follows each instruction."""
    reply = (result.turns[0].response or "") if result.turns else ""
    followed: list[bool] = []
    for one in result.metadata.get(_KEPT, []):
        values = dict(one)
        followed.append(test(values.pop("instruction"), reply, values))
    return followed
