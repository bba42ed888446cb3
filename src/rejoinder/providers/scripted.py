"""`scripted`: answers from a list, so that every rule can be shown without a model or a key. `mock`: always the same
answer, after a fixed or random time, with AgentV's fields.

`scripted` stores nothing between calls: the number of calls in the conversation decides which reply is due. So each
conversation starts at the beginning, however many run at once, and a resumed one continues where it stopped. Its
`embeddings` map a text to its vector: the meaning of a text does not depend on earlier calls.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec

from rejoinder.model import NO_USAGE, Reply, Request, Target, ToolCall, Usage
from rejoinder.providers.base import ProviderError
from rejoinder.providers.settings import normalize_keys
from rejoinder.providers.vector_bytes import no_embeddings, pack_vector
from rejoinder.words.numbers import beginning, plural

LONGEST_TEXT = 80
"""Maximum characters of a text in an error."""


class ScriptedProvider:
    outside = False
    limiter = None

    def __init__(self, target: Target, *_: object) -> None:
        settings = target.settings
        self._name = target.name
        self._replies: Any = settings.get("replies", [])
        self._judge: list[Any] = settings.get("judge", [])
        self._embeddings: dict[str, Any] = settings.get("embeddings") or {}
        self._delay_s = settings.get("delay_ms", 0) / 1000

    async def reply(self, request: Request) -> Reply:
        if request.embed is not None:
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            return Reply("", vector=self._vector(request.embed))
        script = self._script(request)
        if request.call >= len(script):
            what = "verdicts of judges" if request.judging else f"replies for case `{request.case_id}`"
            verb = plural(len(script), "is", "are")
            raise ProviderError(f"target `{self._name}` has run out of {what}: {len(script)} {verb} scripted")
        entry = script[request.call]
        delay = entry.get("delay_ms", 0) / 1000 if isinstance(entry, dict) else 0
        if delay or self._delay_s:
            await asyncio.sleep(delay or self._delay_s)
        return _judgement(entry) if request.judging else _reply(entry)

    def foresee(self, request: Request) -> Usage:
        script = self._script(request) if request.embed is None else []
        try:
            return NO_USAGE if request.judging else _reply(script[request.call]).usage
        except (IndexError, ProviderError):  # there is none, and that costs nothing
            return NO_USAGE

    async def close(self) -> None:
        pass

    def _vector(self, text: str) -> bytes:
        numbers = self._embeddings.get(text, self._embeddings.get("*"))
        shown = repr(beginning(text, LONGEST_TEXT))
        if numbers is None:
            raise ProviderError(f"target `{self._name}` has no vector for {shown} among its `embeddings`, nor for `*`")
        try:
            return pack_vector(msgspec.convert(numbers, list[float]))
        except msgspec.ValidationError as error:
            raise ProviderError(f"target `{self._name}` has a vector for {shown} that is not valid: {error}") from None

    def _script(self, request: Request) -> list[Any]:
        if request.judging:
            return self._judge
        if isinstance(self._replies, dict):
            return self._replies.get(request.case_id, self._replies.get("*", []))
        return self._replies


def _reply(entry: Any) -> Reply:
    if isinstance(entry, str):
        return Reply(entry, Usage(0, len(entry.split())))
    _refuse_error(entry)
    text = entry.get("text", "")
    return Reply(
        text,
        Usage(
            entry.get("input_tokens", 0),
            entry.get("output_tokens", len(text.split())),
            entry.get("reasoning_tokens", 0),
        ),
        tool_calls=tuple(_tool_call(call) for call in entry.get("tool_calls", ())),
    )


def _tool_call(call: dict[str, Any]) -> ToolCall:
    """A scripted tool call. Arguments given as text are used verbatim: models write invalid JSON, too."""
    given = call.get("arguments", {})
    arguments = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    return ToolCall(call["name"], arguments, call.get("id", ""))


def _judgement(entry: Any) -> Reply:
    """A scripted verdict of a judge: its JSON, or raw text verbatim."""
    if isinstance(entry, str):
        return Reply(entry)
    if isinstance(entry, dict):
        _refuse_error(entry)
    else:
        entry = {"score": float(entry)}
    return Reply(msgspec.json.encode(entry).decode())


def _refuse_error(entry: dict[str, Any]) -> None:
    if "error" in entry:
        raise ProviderError(str(entry["error"]), type="scripted", retryable=bool(entry.get("retryable")))


DEFAULT_RESPONSE = '{"answer": "A mock answered. Give the target a `response` to have it say something else."}'


class MockProvider:
    outside = False
    limiter = None

    def __init__(self, target: Target, *_: object) -> None:
        settings = normalize_keys(target.settings)
        self._response: str = settings.get("response", DEFAULT_RESPONSE)
        fixed = settings.get("delay_ms", 0)
        least = settings.get("delay_min_ms", fixed if "delay_max_ms" not in settings else 0)
        self._delays = (least / 1000, max(least, settings.get("delay_max_ms", least)) / 1000)

    async def reply(self, request: Request) -> Reply:
        if request.embed is not None:
            raise no_embeddings("mock")
        delay = random.uniform(*self._delays)
        if delay:
            await asyncio.sleep(delay)
        return Reply(self._response, self.foresee(request))

    def foresee(self, request: Request) -> Usage:  # noqa: ARG002 - every answer is the same
        return Usage(0, len(self._response.split()))

    async def close(self) -> None:
        pass
