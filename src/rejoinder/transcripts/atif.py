"""Trajectories in ATIF (Harbor's Agent Trajectory Interchange Format): steps of the system, the user and the agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.json_values import at, count_at, list_at, money_at, text_at
from rejoinder.model import Usage
from rejoinder.transcripts.draft import Draft, as_text, assistant, blocks, tool_call, when
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "atif"


def looks_like(document: Document) -> bool:
    return any(
        text_at(value, "schema_version").startswith("ATIF") and isinstance(at(value, "steps"), list)
        for value in document.values[:5]
    )


def read(document: Document) -> Iterator[Transcript]:
    for trajectory in document.values:
        draft = Draft(NAME, document.name)
        draft.id = text_at(trajectory, "trajectory_id") or text_at(trajectory, "session_id")
        draft.title = text_at(trajectory, "title")
        draft.model = text_at(trajectory, "agent", "model_name") or None
        for step in list_at(trajectory, "steps"):
            _take(draft, step)
        if inner := len(list_at(trajectory, "subagent_trajectories")):
            draft.notes.append(f"{inner} trajectories of sub-agents are left out")
        yield draft.finish()


def _take(draft: Draft, step: Any) -> None:
    source, time = text_at(step, "source"), when(at(step, "timestamp"))
    if source in ("system", "user"):
        draft.hear("system" if source == "system" else "user", _text(draft, step), time)
    elif source == "agent":
        _reply(draft, step, time)
    else:
        draft.not_understood(f"step of {source or 'no source'}", step)
    results = list_at(step, "observation", "results")
    calls = list_at(step, "tool_calls")
    for place, result in enumerate(results):
        id = text_at(result, "source_call_id")
        if not id and len(results) == len(calls):
            id = text_at(calls[place], "tool_call_id")
        draft.end_call(id or f"step {count_at(step, 'step_id')}.{place + 1}", as_text(at(result, "content")))


def _reply(draft: Draft, step: Any, time: float | None) -> None:
    calls = [
        tool_call(text_at(call, "tool_call_id"), text_at(call, "function_name"), at(call, "arguments"))
        for call in list_at(step, "tool_calls")
    ]
    draft.say(
        assistant(
            _text(draft, step),
            calls,
            at=time,
            usage=_usage(at(step, "metrics")),
            cost=money_at(step, "metrics", "cost_usd"),
            model=text_at(step, "model_name") or draft.model,
            thinking=text_at(step, "reasoning_content") or None,
        )
    )


def _text(draft: Draft, step: Any) -> str:
    texts: list[str] = []
    for part in blocks(at(step, "message")):
        if text_at(part, "type") == "text":
            texts.append(text_at(part, "text"))
        else:
            draft.not_understood(f"part {text_at(part, 'type')}", part)
    return "\n".join(texts)


def _usage(metrics: Any) -> Usage | None:
    if not isinstance(metrics, dict):
        return None
    return Usage(
        count_at(metrics, "prompt_tokens"),
        count_at(metrics, "completion_tokens"),
        cached_tokens=count_at(metrics, "cached_tokens"),
    ).possible()
