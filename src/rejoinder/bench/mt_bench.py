"""MT-Bench: 80 questions with a second turn, each reply rated by a judge."""

from __future__ import annotations

from functools import partial
from typing import Any

from rejoinder.bench.figures import Cases, Figure, mean
from rejoinder.bench.sources import Rows, json_rows, text_of
from rejoinder.imports.texts import literal
from rejoinder.model import Result

QUESTIONS, REFERENCES = "question.jsonl", "gpt-4.jsonl"
_CRITERION = (
    "How good is the reply to the user's last message? Consider helpfulness, relevance, accuracy, depth, creativity and"
    " level of detail, and compare it with the reference if there is one."
)
_RANGES = ((0, 2, "wrong, or of no use"), (3, 4, "weak"), (5, 6, "acceptable"), (7, 8, "good"), (9, 10, "excellent"))
_TURNS = ("turn1", "turn2")


def suite(files: Rows) -> dict[str, Any]:
    references = {row.get("question_id"): row for row in json_rows(files, REFERENCES)}
    evals = [_case(row, references.get(row.get("question_id"))) for row in json_rows(files, QUESTIONS)]
    return {"evals": evals}


def _case(row: dict[str, Any], reference: dict[str, Any] | None) -> dict[str, Any]:
    answers = _answers(reference)
    turns: list[dict[str, Any]] = []
    for number, (name, text) in enumerate(zip(_TURNS, row["turns"], strict=True)):
        turn: dict[str, Any] = {"name": name, "prompt": literal(text), "checks": [_check(name)]}
        if number < len(answers):
            turn["expected"] = literal(answers[number])
        turns.append(turn)
    return {
        "id": f"mt-{row['question_id']}",
        "tags": [text_of(row, "category")],
        "on_turn_failure": "continue",
        "turns": turns,
    }


def _check(name: str) -> dict[str, Any]:
    ranges = [{"score_range": [least, most], "meaning": meaning} for least, most, meaning in _RANGES]
    criterion = {"id": "quality", "criterion": _CRITERION, "min_score": 0, "score_ranges": ranges}
    return {"rubric": {"criteria": [criterion]}, "threshold": 0, "metric": name}


def _answers(reference: dict[str, Any] | None) -> list[str]:
    return [] if reference is None else [text for choice in reference["choices"][:1] for text in choice["turns"]]


def figures(cases: Cases) -> list[Figure]:
    """The mean ratings of first, of second, and of all replies."""
    named = {"turn 1": _TURNS[:1], "turn 2": _TURNS[1:], "all": _TURNS}
    return [mean(f"mean score {name}", cases, partial(_rating, turns), 10) for name, turns in named.items()]


def _rating(metrics: tuple[str, ...], result: Result) -> float | None:
    checks = [check for turn in result.turns for check in turn.checks]
    found = [float(check.score) * 10 for check in checks if check.metric in metrics and check.score is not None]
    return sum(found) / len(found) if found else None
