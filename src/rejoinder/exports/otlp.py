"""OpenTelemetry spans of a run, by the conventions for generative AI, as OTLP/JSON.

A conversation is a trace: a span for the whole, below it one for each turn, with an event
`gen_ai.evaluation.result` for each check, and below that one for each call of a tool. Ids come from what the
conversation is, so that the same run exported twice gives the same spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from rejoinder.model import ChatMessage, CheckResult, Result, Spoilt, ToolCall, TurnResult, UserResult
from rejoinder.model.runs import TargetOfRun
from rejoinder.views.cases import LATEST_MS, Run, bounded, milliseconds
from rejoinder.views.course import audit_words
from rejoinder.words.inert import to_json
from rejoinder.words.numbers import both_ends

LONGEST_TEXT = 32_768
"""Characters of one text. Collectors refuse large requests, and most back ends cut attributes much earlier."""
MOST_CHECKS = 128
"""Events of a span that SDKs keep."""
MOST_CALLS = 128
"""Calls of tools in a turn that have a span."""
_INTERNAL, _CLIENT = 1, 3
_OK, _ERROR = 1, 2
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""The convention's names, if they are not ours."""
_LABELS = {"passed": "pass", "failed": "fail"}
Data = dict[str, Any]
Value = str | bool | int | float | tuple[str, ...] | None


def write(run: Run) -> Iterator[str]:
    """One document."""
    head, tail = _frame(run)
    yield head
    separator = "\n"
    for span in _spans(run, content=True):
        yield f"{separator}{to_json(span)}"
        separator = ",\n"
    yield f"\n{tail}\n"


def write_lines(run: Run) -> Iterator[str]:
    """A document for each conversation, each on its line, as collectors read files."""
    head, tail = _frame(run)
    for result in run.results:
        yield f"{head}{','.join(map(to_json, _Trace(run, result, content=True).spans()))}{tail}\n"


def requests(run: Run, *, content: bool, most_characters: int = 1 << 19) -> Iterator[tuple[str, int]]:
    """Documents of a size that collectors accept, and the number of spans in each."""
    head, tail = _frame(run)
    held: list[str] = []
    size = 0
    for span in _spans(run, content=content):
        text = to_json(span)
        if held and size + len(text) > most_characters:
            yield f"{head}{','.join(held)}{tail}", len(held)
            held, size = [], 0
        held.append(text)
        size += len(text)
    if held:
        yield f"{head}{','.join(held)}{tail}", len(held)


def _frame(run: Run) -> tuple[str, str]:
    resource = _attributes(
        {"service.name": "rejoinder", "service.version": run.run.version, "rejoinder.run": run.run.id}
    )
    scope = {"name": "rejoinder", "version": run.run.version}
    head = f'{{"resourceSpans":[{{"resource":{to_json({"attributes": resource})}'
    return f'{head},"scopeSpans":[{{"scope":{to_json(scope)},"spans":[', "]}]}]}"


def _spans(run: Run, *, content: bool) -> Iterator[Data]:
    for result in run.results:
        yield from _Trace(run, result, content=content).spans()


class _Times(Struct, frozen=True):
    """In nanoseconds since 1970."""

    start: int
    end: int


class _Trace:
    """The spans of one conversation."""

    def __init__(self, run: Run, result: Result, *, content: bool) -> None:
        self._result = result
        self._content = content
        self._target = next((one for one in run.run.targets if one.name == result.target), None)
        names = (run.run.id, result.suite, result.file, result.id, result.target, result.variant or "")
        self._name = "\0".join((*names, str(result.trial)))
        self._id = _digest(self._name, 16)
        self._conversation = result.conversation_id or self._id
        self._times = _times_of(result, run.run.started_at)

    def spans(self) -> Iterator[Data]:
        root = self._span_id("conversation")
        yield self._whole(root)
        for turn, times in zip(self._result.turns, self._times, strict=True):
            span = self._turn(turn, times, root)
            yield span
            for number, call in enumerate(filter(_was_made, turn.tool_calls[:MOST_CALLS]), 1):
                yield self._tool(f"turn {turn.turn} tool {number}", call, times, span["spanId"])

    def _span_id(self, part: str) -> str:
        return _digest(f"{self._name}\0{part}", 8)

    def _whole(self, span_id: str) -> Data:
        result = self._result
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": result.suite,
            "gen_ai.conversation.id": self._conversation,
            "test.suite.name": result.suite,
            "test.case.name": result.id,
            "test.case.result.status": _LABELS.get(result.status),
            "code.file.path": result.file or None,
            "code.line.number": result.line or None,
            "rejoinder.status": result.status,
            "rejoinder.target": result.target,
            "rejoinder.variant": result.variant,
            "rejoinder.trial": result.trial,
            "rejoinder.score": result.score,
            "rejoinder.succeeded_on_turn": result.succeeded_on_turn,
            "rejoinder.cost_usd": result.cost,
            "rejoinder.tags": result.tags or None,
            "rejoinder.steps": tuple([step.status for step in result.steps]) or None,
            "rejoinder.condition": result.condition,
            "rejoinder.user.stopped_by": None if result.user is None else result.user.stopped_by,
            "rejoinder.user.audit": None if result.user is None else self._audit(result.user),
            "rejoinder.quarantine_until": None if result.quarantine is None else result.quarantine.until,
        }
        status: Data = {"code": _ERROR if result.status == "error" else _OK}
        if result.error is not None:
            attributes["error.type"] = result.error.type
            status["message"] = both_ends(result.error.message, LONGEST_TEXT)
        start = self._times[0].start if self._times else 0
        end = self._times[-1].end if self._times else start
        span = _span(f"invoke_workflow {both_ends(result.suite, 200)}", _INTERNAL, _Times(start, end), attributes)
        if result.conversation_checks:
            # Without their parts: what a rule over time saw of single replies is no verdict on them.
            span["events"] = [self._event(check, end) for check in result.conversation_checks[:MOST_CHECKS]]
        return {"traceId": self._id, "spanId": span_id, **span, "status": status}

    def _audit(self, user: UserResult) -> str:
        """The evidence quotes what was said."""
        if self._content or not isinstance(user.spoilt, Spoilt):
            return both_ends(audit_words(user), LONGEST_TEXT)
        return f"invalid: {user.spoilt.kind} at turn {user.spoilt.turn}"

    def _turn(self, turn: TurnResult, times: _Times, parent: str) -> Data:
        target = self._target or TargetOfRun(self._result.target, "", None)
        model = target.model or turn.model
        usage = turn.usage
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(target.provider, target.provider) or None,
            "gen_ai.request.model": model,
            "gen_ai.response.model": turn.model,
            "gen_ai.response.finish_reasons": None if turn.finish_reason is None else (turn.finish_reason,),
            "gen_ai.conversation.id": self._conversation,
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
            "rejoinder.turn": turn.turn,
            "rejoinder.depth": turn.depth,
            "rejoinder.step": turn.step,
            "rejoinder.step.name": turn.name,
            "rejoinder.simulated": turn.simulated or None,
            "rejoinder.passed": turn.passed,
            "rejoinder.cost_usd": turn.cost,
            "rejoinder.request_id": turn.request_id,
            "rejoinder.cached": turn.cached or None,
            "rejoinder.retries": turn.retries or None,
        }
        if self._content:
            attributes["gen_ai.input.messages"] = to_json(list(_said(turn)))
            if turn.response is not None:
                attributes["gen_ai.output.messages"] = to_json([_answered(turn)])
        error = self._result.error
        status: Data = {"code": 0}
        if error is not None and error.turn == turn.turn and turn.response is None:
            attributes["error.type"] = error.type
            status = {"code": _ERROR, "message": both_ends(error.message, LONGEST_TEXT)}
        return {
            "traceId": self._id,
            "spanId": self._span_id(f"turn {turn.turn}"),
            "parentSpanId": parent,
            **_span(f"chat {both_ends(model or '', 200)}".strip(), _CLIENT, times, attributes),
            "events": [self._event(check, times.end) for check in _every(turn.checks)],
            "status": status,
        }

    def _tool(self, part: str, call: ToolCall, turn: _Times, parent: str) -> Data:
        """A call of a tool, within its turn. What a result is, is told as content."""
        has_failed = call.status in ("failed", "denied")
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": both_ends(call.name, 200),
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id or None,
            "gen_ai.tool.call.arguments": _short(call.arguments) if self._content else None,
            "gen_ai.tool.call.result": _short(call.result) if self._content and call.result is not None else None,
            "gen_ai.conversation.id": self._conversation,
            "error.type": (call.fault or "tool_error") if has_failed else None,
            "rejoinder.tool.server": call.server or None,
            "rejoinder.tool.status": call.status,
            "rejoinder.tool.fault": call.fault,
        }
        status: Data = {"code": _ERROR if has_failed else 0}
        if has_failed and self._content and call.result:
            status["message"] = _short(call.result)
        span = _span(f"execute_tool {both_ends(call.name, 200)}", _INTERNAL, _times_of_call(call, turn), attributes)
        return {"traceId": self._id, "spanId": self._span_id(part), "parentSpanId": parent, **span, "status": status}

    def _event(self, check: CheckResult, time: int) -> Data:
        reason = both_ends(check.reason, LONGEST_TEXT) if check.reason and self._content else None
        attributes: dict[str, Value] = {
            "gen_ai.evaluation.name": both_ends(check.name or check.check, 200),
            "gen_ai.evaluation.score.value": None if check.score is None else float(check.score),
            "gen_ai.evaluation.score.label": _LABELS.get(check.state),
            "gen_ai.evaluation.explanation": reason,
            "error.type": "check" if check.error else None,
            "rejoinder.check": check.kind,
            "rejoinder.judge": check.judge,
        }
        return {
            "name": "gen_ai.evaluation.result",
            "timeUnixNano": str(time),
            "attributes": _attributes(attributes),
        }


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def _times_of(result: Result, run_started: str | None) -> list[_Times]:
    """When each turn began and ended. What is not known follows what came before."""
    times: list[_Times] = []
    before = (milliseconds(result.timestamp) or milliseconds(run_started)) * 1_000_000
    for turn in result.turns:
        start = milliseconds(turn.started_at) * 1_000_000 or before
        before = min(start + round(bounded(turn.duration_s) * 1_000_000_000), LATEST_MS * 1_000_000)
        times.append(_Times(start, before))
    return times


def _was_made(call: ToolCall) -> bool:
    """False for a call that the model wanted and that was not carried out."""
    return call.result is not None or call.status not in (None, "pending")


def _times_of_call(call: ToolCall, turn: _Times) -> _Times:
    """Within its turn: clocks of agents may differ from ours."""
    start = turn.start if call.started_at is None else call.started_at * 1_000_000_000
    start = round(min(max(start, turn.start), turn.end))
    end = start + round(bounded(call.duration_s or 0.0) * 1_000_000_000)
    return _Times(start, min(end, turn.end))


def _span(name: str, kind: int, times: _Times, attributes: Mapping[str, Value]) -> Data:
    return {
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(times.start),
        "endTimeUnixNano": str(times.end),
        "attributes": _attributes(attributes),
    }


def _attributes(values: Mapping[str, Value]) -> list[Data]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Value) -> Data:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if abs(value) < float("inf") else 0.0}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [_value(entry) for entry in value]}}
    return {"stringValue": value or ""}


def _every(checks: Iterable[CheckResult]) -> list[CheckResult]:
    """The checks with their parts, in order."""
    found: list[CheckResult] = []
    waiting = list(checks)[::-1]
    while waiting and len(found) < MOST_CHECKS:
        check = waiting.pop()
        found.append(check)
        waiting += check.children[::-1]
    return found


def _said(turn: TurnResult) -> Iterator[Data]:
    """What was sent: all messages where the run kept them, else the prompt."""
    for message in turn.messages or (ChatMessage("user", turn.prompt),):
        parts = [_text(message.content)] if message.content or not message.tool_calls else []
        if message.role == "tool":
            parts = [_known(type="tool_call_response", id=message.tool_call_id, response=_short(message.content))]
        yield {"role": message.role, "parts": [*parts, *map(_called, message.tool_calls)]}


def _answered(turn: TurnResult) -> Data:
    parts = [{"type": "reasoning", "content": _short(turn.thinking)}] if turn.thinking else []
    for call in turn.tool_calls:
        parts.append(_called(call))
        if call.result is not None:
            said = _known(type="tool_call_response", id=call.id, status=call.status, fault=call.fault)
            parts.append({**said, "response": _short(call.result)})
    parts += [_text(turn.response or "")] if turn.response or not turn.tool_calls else []
    return _known(role="assistant", parts=parts, finish_reason=turn.finish_reason)


def _text(content: str) -> Data:
    return {"type": "text", "content": _short(content)}


def _called(call: ToolCall) -> Data:
    return _known(type="tool_call", id=call.id, name=call.name, arguments=_short(call.arguments))


def _known(**values: Any) -> Data:
    return {key: value for key, value in values.items() if value not in (None, "")}


def _short(text: str) -> str:
    return both_ends(text, LONGEST_TEXT)
