"""Playing a judge: a judge's answers, and telling its requests from those to the model under test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rejoinder.testing.values import Answer, Received, Reply, Script, as_list, as_object

_DEMAND = "Reply with one JSON object and nothing else:"
"""A line in the system text of every judge."""


def judge(
    score: float = 1.0, *, hits: Sequence[str] = (), misses: Sequence[str] = (), reasoning: str = "As demanded."
) -> Answer:
    """A judge's answer: the single JSON object that `llm_judge` asks for."""
    words = {"score": score, "hits": list(hits), "misses": list(misses), "reasoning": reasoning}
    return Answer(msgspec.json.encode(words).decode())


def is_judging(received: Received) -> bool:
    """Whether a request is for a judge, by its system text, whichever API it uses."""
    return any(_DEMAND in text for text in _system_texts(as_object(received.body)))


def with_judge(reply: Reply | Script, verdict: Reply | Script) -> Script:
    """A model and its judge at one address: `verdict` answers the judge's requests, `reply` all others.

    Each may be an answer, or a function of the request that returns one:

        script = with_judge("It is Rome.", judge(0.8, hits=["names the city"], reasoning="A little short."))
        with FakeServer(script) as server:
            ...  # one target at `server.openai_url` is both

    Judges with their own answer format are answered verbatim: `'{"better": "1"}'` for `compare`.
    """

    def answer(received: Received) -> Reply:
        chosen = verdict if is_judging(received) else reply
        return chosen(received) if callable(chosen) else chosen

    return answer


def _system_texts(body: dict[str, Any]) -> list[str]:
    """The system texts in the body of any API: a message, `instructions`, `system` or `systemInstruction`."""
    messages = [as_object(one) for name in ("messages", "input") for one in as_list(body.get(name))]
    contents = [one.get("content") for one in messages if one.get("role") in ("system", "developer")]
    contents += [body.get("instructions"), body.get("system")]
    contents += [as_object(body.get(name)).get("parts") for name in ("systemInstruction", "system_instruction")]
    return [text for content in contents for text in _texts(content)]


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [text for part in as_list(content) if isinstance(text := as_object(part).get("text"), str)]
