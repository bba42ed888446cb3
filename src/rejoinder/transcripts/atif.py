"""Trajectories in ATIF (Harbor's Agent Trajectory Interchange Format): steps of the system, the user and the agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.json_values import at, count_at, list_at, money_at, text_at
from rejoinder.model import Usage
from rejoinder.transcripts.draft import Draft, as_text, assistant, blocks, finished, keep_rest, tool_call, when
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "atif"


def looks_like(document: Document) -> bool:
    return any(
        text_at(value, "schema_version").startswith("ATIF") and _is_trajectory(value) for value in document.values[:5]
    )


def read(document: Document) -> Iterator[Transcript]:
    trajectories = [value for value in document.values if _is_trajectory(value)]
    rest = [value for value in document.values if not _is_trajectory(value)]
    return iter(keep_rest((_conversation(document, one) for one in trajectories), rest))


def _is_trajectory(value: Any) -> bool:
    return isinstance(at(value, "steps"), list)


def _conversation(document: Document, trajectory: Any) -> Transcript:
    draft = Draft(NAME, document, trajectory)
    draft.id = text_at(trajectory, "trajectory_id") or text_at(trajectory, "session_id")
    draft.model = text_at(trajectory, "agent", "model_name") or None
    for step in list_at(trajectory, "steps"):
        _take(draft, step)
    if inner := len(list_at(trajectory, "subagent_trajectories")):
        draft.notes.append(f"{inner} trajectories of sub-agents are left out")
    return draft.finish()


def _take(draft: Draft, step: Any) -> None:
    source, time = text_at(step, "source"), when(at(step, "timestamp"))
    if source == "system":
        draft.hear("system", _text(draft, step), time)
    elif source == "user":
        draft.hear_user(_text(draft, step), time)
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
        status = "failed" if at(result, "extra", "tool_result_is_error") is True else "completed"
        draft.end_call(id or f"step {count_at(step, 'step_id')}.{place + 1}", as_text(at(result, "content")), status)


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
            finish_reason=finished(at(step, "extra", "stop_reason")),
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
        reasoning_tokens=count_at(metrics, "extra", "reasoning_output_tokens"),
        cached_tokens=count_at(metrics, "cached_tokens"),
        cache_write_tokens=count_at(metrics, "extra", "cache_creation_input_tokens"),
    ).possible()
