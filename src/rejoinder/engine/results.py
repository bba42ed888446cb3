"""Results: one record a conversation, in document order, made from what the conversation came to.

Conversations end in any order. Their records are kept on disk, in a file beside the results, and put in order at the
end, so that memory does not grow with the run.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rejoinder.engine.masking import Mask
from rejoinder.engine.plan import Job
from rejoinder.engine.points import reached
from rejoinder.model import NO_USAGE, Outcome, Turn, Usage, Verdict

Record = dict[str, Any]


def result_record(job: Job, outcome: Outcome, *, include_messages: bool = False) -> Record:
    """The object of `results.jsonl` for one conversation."""
    prepared, case = job.prepared, job.prepared.case
    deciding = outcome.turns[-1].verdicts if outcome.turns else ()
    leaves = [leaf for verdict in deciding for leaf in _leaves(verdict)]
    judges = [verdict for turn in outcome.turns for one in turn.verdicts for verdict in _leaves(one)]
    return {
        "suite": prepared.suite.name or Path(prepared.suite.path).name,
        "id": case.id,
        "name": case.name,
        "tags": case.tags,
        "conversation_id": case.conversation_id,
        "target": prepared.target.name,
        "trial": job.trial,
        "status": outcome.status,
        "passed": outcome.status == "passed",
        "score": outcome.score,
        "succeeded_on_turn": outcome.succeeded_on_turn,
        "hits": [hit for verdict in leaves for hit in verdict.hits],
        "misses": [miss for verdict in leaves for miss in verdict.misses],
        "reasoning": _reasoning(leaves),
        "turns": [_turn_record(turn, include_messages) for turn in outcome.turns],
        "usage": usage_record(sum((turn.usage for turn in outcome.turns), NO_USAGE)),
        "cost": add_costs(turn.cost for turn in outcome.turns),
        "judge_usage": usage_record(sum((verdict.usage for verdict in judges), NO_USAGE)),
        "judge_cost": add_costs(verdict.cost for verdict in judges if verdict.usage is not NO_USAGE),
        "raw_request": prepared.prompt.raw_request(),
        "error": _error_record(outcome),
    }


def usage_record(usage: Usage) -> dict[str, int]:
    record = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    if usage.reasoning_tokens:
        record["reasoning_tokens"] = usage.reasoning_tokens
    return record


def add_costs(costs: Any) -> float | None:
    """The sum; None as soon as nobody knows one of them, or when there is none."""
    known = list(costs)
    return None if not known or any(cost is None for cost in known) else sum(known)


def _turn_record(turn: Turn, include_messages: bool) -> Record:
    record: Record = {
        "turn": turn.turn,
        "depth": turn.depth,
        "prompt": turn.prompt,
        "response": turn.response,
        "passed": turn.passed,
        "checks": [verdict.as_record() for verdict in turn.verdicts],
        "usage": usage_record(turn.usage),
        "cost": turn.cost,
        "duration_s": turn.duration_s,
    }
    if include_messages:
        record["messages"] = turn.messages
    return record


def _leaves(verdict: Verdict) -> Iterator[Verdict]:
    if verdict.children:
        for child in verdict.children:
            yield from _leaves(child)
    else:
        yield verdict


def _reasoning(verdicts: list[Verdict]) -> str | None:
    """What judges said, each under its name."""
    said = [f"{verdict.name or verdict.check}: {verdict.reasoning}" for verdict in verdicts if verdict.reasoning]
    return " | ".join(said) or None


def _error_record(outcome: Outcome) -> Record | None:
    trouble = outcome.error
    if trouble is None:
        return None
    record: Record = {"type": trouble.type, "message": trouble.message, "turn": trouble.turn}
    if trouble.status is not None:
        record["status"] = trouble.status
    return record


class Spool:
    """Finished records in the order they come, and `results.jsonl` in document order at the end."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "results.jsonl"
        self._unordered = folder / "results.unordered"
        self._stream = self._unordered.open("wb+")
        self._starts = array("q")
        self._encode = msgspec.json.Encoder().encode
        self._end = 0

    def add(self, number: int, record: Record, mask: Mask | None = None) -> None:
        line = self._encode(record) + b"\n"
        if mask:
            line = mask.hide(line)
        while len(self._starts) <= number:
            self._starts.append(-1)
        self._starts[number] = self._end
        self._end += len(line)
        self._stream.write(line)

    def has(self, number: int) -> bool:
        return number < len(self._starts) and self._starts[number] >= 0

    def finish(self) -> Path:
        """Write `results.jsonl`, whole or not at all."""
        draft = self._path.with_suffix(".draft")
        with draft.open("wb") as ordered:
            for start in self._starts:
                if start >= 0:
                    self._stream.seek(start)
                    ordered.write(self._stream.readline())
            ordered.flush()
            os.fsync(ordered.fileno())
        reached("results.before_rename")
        draft.replace(self._path)
        self._stream.close()
        self._unordered.unlink()
        reached("results.written")
        return self._path


def read_results(path: Path) -> Iterator[Record]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with path.open("rb") as stream:
        for line in stream:
            yield decode(line)
