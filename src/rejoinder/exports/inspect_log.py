"""A log of Inspect, so that `inspect view` and Inspect's own readers open a run.

A case is a sample and a trial is an epoch. Inspect has two forms: one JSON document, and an archive with a file for
each sample (`.eval`), which it opens without reading all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import msgspec

from rejoinder.model import ChatMessage, CheckResult, Result, Summary, ToolCall, TurnResult, UsageResult
from rejoinder.model.runs import RunStatus, TargetSummary
from rejoinder.views.board import rate_of
from rejoinder.views.cases import Run, bounded, duration_of, milliseconds
from rejoinder.views.course import audit_words
from rejoinder.views.transcript import reasons_of
from rejoinder.words.inert import to_json, visible
from rejoinder.words.numbers import both_ends

LOG_VERSION = 2
LONGEST_ID = 200
LONGEST_SHOWN = 1_000
"""Characters of a text in the list of samples; the sample has all of it."""
_STATUSES: dict[RunStatus, str] = {
    "completed": "success",
    "running": "started",
    "error": "error",
    "killed": "cancelled",
    "interrupted": "cancelled",
    "budget": "cancelled",
}
_STOPS = {
    "stop": "stop",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
}
_NOT_IN_NAMES = {
    "/": "\N{DIVISION SLASH}",
    "\\": "\N{REVERSE SOLIDUS OPERATOR}",
    "\n": "\N{RETURN SYMBOL}",
    "\t": "\N{RIGHTWARDS ARROW}",
}
"""An id is the name of a file in the archive, and must not lead out of the folder where it is unpacked."""
Data = dict[str, Any]


def write(run: Run) -> Iterator[str]:
    """One document."""
    yield f'{to_json(_header(run))[:-1]},"samples":['
    separator = "\n"
    for result in run.results:
        yield f"{separator}{to_json(_sample(run, result))}"
        separator = ",\n"
    yield "\n]}\n"


def write_archive(run: Run, stream: BinaryIO) -> None:
    """The file `.eval`: samples one by one, then their list, then the header. Raises OSError."""
    header = _header(run)
    with ZipFile(stream, "w") as archive:
        start = {key: header[key] for key in ("version", "eval", "plan")}
        archive.writestr(_file("_journal/start.json"), to_json(start))
        for result in run.results:
            sample = _sample(run, result)
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            if name not in archive.NameToInfo:  # only a damaged run has a result twice
                archive.writestr(_file(name), to_json(sample))
        with archive.open(_file("summaries.json"), "w", force_zip64=True) as listed:
            listed.writelines(_briefs(run))
        archive.writestr(_file("header.json"), to_json(header))


def _file(name: str) -> ZipInfo:
    """A file of the archive, which has no time of its own: the same run gives the same archive."""
    file = ZipInfo(name)
    file.compress_type = ZIP_DEFLATED
    return file


def _briefs(run: Run) -> Iterator[bytes]:
    separator = b"["
    for result in run.results:
        yield separator + to_json(_brief(_sample(run, result))).encode()
        separator = b",\n"
    yield b"[]" if separator == b"[" else b"]"


def _header(run: Run) -> Data:
    receipt, summary = run.run, run.summary
    created = receipt.started_at if milliseconds(receipt.started_at) else "1970-01-01T00:00:00.000Z"
    ended = receipt.finished_at if milliseconds(receipt.finished_at) else ""
    names = ", ".join(dict.fromkeys(suite.name or suite.path for suite in receipt.suites)) or "rejoinder"
    spec = {
        "eval_id": _digest(receipt.id),
        "run_id": receipt.id,
        "created": created,
        "task": both_ends(names, LONGEST_ID),
        "task_id": _digest(names),
        "task_version": 0,
        "task_file": receipt.suites[0].path if len(receipt.suites) == 1 else None,
        "dataset": {"name": both_ends(names, LONGEST_ID), "samples": summary.cases or summary.total},
        "model": both_ends(", ".join(_models(run)) or "unknown", LONGEST_ID),
        "config": {"epochs": max(1, receipt.reported.repeat)},
        "packages": {"rejoinder": receipt.version},
        "metadata": {"rejoinder_run": receipt.id},
    }
    return {
        "version": LOG_VERSION,
        "status": _STATUSES[receipt.status],
        "eval": spec,
        "plan": {"name": "plan", "steps": [{"solver": "rejoinder", "params": {}}]},
        "results": _results(run),
        "stats": {"started_at": created, "completed_at": ended, "model_usage": _usage_by_model(run)},
    }


def _models(run: Run) -> list[str]:
    return [f"{one.provider}/{one.model or one.name}" for one in run.run.targets]


def _usage_by_model(run: Run) -> Data:
    """Inspect has usage by model; a run has it by target."""
    return {_model_of(run, name): _usage(target.usage) for name, target in run.summary.by_target.items()}


def _model_of(run: Run, target: str) -> str:
    found = next((one for one in run.run.targets if one.name == target), None)
    return target if found is None else f"{found.provider}/{found.model or found.name}"


def _results(run: Run) -> Data:
    summary = run.summary
    values = {**_rates(summary), "score": summary.score.mean}
    if len(summary.by_target) > 1:  # they have no common rate
        for name, target in summary.by_target.items():
            values |= _rates(target, f" {name}")
    metrics = {name: {"name": name, "value": value} for name, value in values.items() if value is not None}
    return {
        "total_samples": summary.total,
        "completed_samples": summary.finished,
        "scores": [{"name": "rejoinder", "scorer": "rejoinder", "metrics": metrics}],
    }


def _rates(part: Summary | TargetSummary, end: str = "") -> dict[str, float | None]:
    """Metrics of one target; `end` of their names tells it from others."""
    rate = rate_of(part)
    if rate is None or part.rates is None:
        return {}
    return {f"pass_rate{end}": rate.rate, f"first_try{end}": part.rates.first_try.rate}


def _usage(usage: UsageResult) -> Data:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "input_tokens_cache_read": usage.cached_tokens or None,
        "input_tokens_cache_write": usage.cache_write_tokens or None,
        "reasoning_tokens": usage.reasoning_tokens or None,
    }


def _sample(run: Run, result: Result) -> Data:
    model = _model_of(run, result.target)
    messages = list(_messages(result))
    sample: Data = {
        "id": _sample_id(run, result),
        "epoch": max(1, result.trial),
        "input": result.turns[0].prompt if result.turns else result.raw_request.question,
        "target": "",
        "messages": messages,
        "output": _output(result, model),
        "scores": _scores(result),
        "metadata": _metadata(result),
        "store": {},
        "events": [],
        "model_usage": {model: _usage(result.usage)},
        "uuid": _digest(run.run.id, result.file, result.suite, result.id, result.target, result.variant, result.trial),
        "total_time": duration_of(result),
        "working_time": duration_of(result),
        "error": None,
        "attachments": {},
    }
    if milliseconds(result.timestamp):
        sample["started_at"] = result.timestamp
    if result.status == "error":
        message = "unknown" if result.error is None else f"{result.error.type}: {result.error.message}"
        sample["error"] = {
            "message": visible(message),
            "traceback": visible(message),
            "traceback_ansi": visible(message),
        }
    return sample


def _brief(sample: Data) -> Data:
    """What the list of samples shows."""
    scores: Data | None = sample["scores"]
    if scores is not None:
        scores = {
            name: {key: _thin(value) for key, value in score.items() if key != "metadata"}
            for name, score in scores.items()
        }
    kept = ("id", "epoch", "target", "model_usage", "uuid", "total_time", "working_time", "started_at")
    return {
        **{key: sample[key] for key in kept if key in sample},
        "input": both_ends(sample["input"], LONGEST_SHOWN),
        "metadata": {},
        "scores": scores,
        "error": None if sample["error"] is None else both_ends(sample["error"]["message"], LONGEST_SHOWN),
        "completed": True,
        "message_count": len(sample["messages"]),
    }


def _thin(value: Any) -> Any:
    return both_ends(value, LONGEST_SHOWN) if isinstance(value, str) else value


def _sample_id(run: Run, result: Result) -> str:
    """The case's id, with what tells it from others of this run: Inspect knows a sample by id and epoch alone."""
    parts = [result.file or result.suite] if len(run.run.suites) > 1 else []
    parts += [result.id]
    parts += [result.target] if len(run.summary.by_target) > 1 else []
    parts += [result.variant] if result.variant is not None else []
    name = visible(" ".join(parts)).translate(str.maketrans(_NOT_IN_NAMES))
    return name if len(name) <= LONGEST_ID else f"{name[:LONGEST_ID]} {_digest(name)[:8]}"


def _digest(*parts: object) -> str:
    text = "\0".join(map(str, parts))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _metadata(result: Result) -> Data:
    known = {
        "suite": result.suite,
        "title": result.title,
        "target": result.target,
        "variant": result.variant,
        "tags": list(result.tags) or None,
        "status": result.status,
        "quarantine_until": None if result.quarantine is None else result.quarantine.until,
        "succeeded_on_turn": result.succeeded_on_turn,
        "steps": list(result.steps) or None,
        "condition": result.condition,
        "stopped_by": None if result.user is None else result.user.stopped_by,
        "audit": None if result.user is None else audit_words(result.user),
        "file": result.file or None,
        "line": result.line or None,
        "cost_usd": result.cost,
        "metadata": result.metadata or None,
    }
    return {key: value for key, value in known.items() if value is not None}


def _scores(result: Result) -> Data | None:
    if result.status not in ("passed", "failed"):
        return None
    checks = [_check(turn.turn, check) for turn in result.turns for check in turn.checks]
    checks += [_check(None, check) for check in result.conversation_checks]
    score: Data = {
        "value": "C" if result.passed else "I",
        "answer": result.turns[-1].response if result.turns else None,
        "explanation": "\n".join(reasons_of(result)) or None,
        "metadata": {"score": result.score, "checks": checks},
    }
    return {"rejoinder": score}


def _check(turn: int | None, check: CheckResult) -> Data:
    """Without a turn it looks at the whole conversation."""
    return {
        "turn": turn,
        "check": check.check,
        "state": check.state,
        "score": check.score,
        "reason": check.reason,
    }


def _messages(result: Result) -> Iterator[Data]:
    """The conversation from its first message; whole where the run kept messages."""
    last = result.turns[-1] if result.turns else None
    if last is not None and last.messages is not None:
        yield from _given(last.messages)
        yield from _replied(last)
        return
    opening = result.raw_request.chat_prompt
    for place, turn in enumerate(result.turns):
        yield from _given(opening if place == 0 and opening else (ChatMessage("user", turn.prompt),))
        yield from _replied(turn)


def _given(messages: Iterable[ChatMessage]) -> Iterator[Data]:
    for message in messages:
        shown: Data = {"role": message.role, "content": message.content}
        if message.role == "tool":
            shown["tool_call_id"] = message.tool_call_id or None
        if message.role == "assistant" and message.tool_calls:
            shown["tool_calls"] = _calls(message.tool_calls)
        yield shown


def _replied(turn: TurnResult) -> Iterator[Data]:
    """The reply, and before it what tools were asked and answered in the same turn."""
    if turn.response is None:
        return
    answered = [call for call in turn.tool_calls if call.result is not None]
    if answered:
        shown = _calls(answered, turn.turn)
        yield {"role": "assistant", "content": "", "source": "generate", "tool_calls": shown}
        for call, one in zip(answered, shown, strict=True):
            told = {"role": "tool", "content": call.result, "tool_call_id": one["id"], "function": call.name}
            yield {**told, **_failure(call), **_origin(call)}
    yield _reply(turn)


def _reply(turn: TurnResult) -> Data:
    content: Any = turn.response or ""
    if turn.thinking:
        content = [{"type": "reasoning", "reasoning": turn.thinking}, {"type": "text", "text": content}]
    reply: Data = {"role": "assistant", "content": content, "source": "generate"}
    if turn.model:
        reply["model"] = turn.model
    left = [call for call in turn.tool_calls if call.result is None]
    return {**reply, "tool_calls": _calls(left, turn.turn)} if left else reply


def _failure(call: ToolCall) -> Data:
    if call.status not in ("failed", "denied"):
        return {}
    kind = "permission" if call.status == "denied" else "timeout" if call.fault == "timeout" else "unknown"
    return {"error": {"type": kind, "message": call.result}}


def _origin(call: ToolCall) -> Data:
    """Whose tool it is, and the fault that was wanted."""
    known = {key: value for key, value in (("server", call.server), ("fault", call.fault)) if value}
    return {"metadata": known} if known else {}


def _calls(calls: Iterable[ToolCall], turn: int = 0) -> list[Data]:
    return [
        {
            "id": call.id or f"call-{turn}-{number}",
            "function": call.name,
            "type": "function",
            **_arguments(call.arguments),
        }
        for number, call in enumerate(calls, 1)
    ]


def _arguments(text: str) -> Data:
    """Inspect wants an object; what is none is kept as a text, with a note."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        value = None
    if isinstance(value, dict):
        return {"arguments": value}
    return {"arguments": {"text": text}, "parse_error": "the arguments are no JSON object"}


def _output(result: Result, model: str) -> Data:
    last = result.turns[-1] if result.turns else None
    if last is None or last.response is None:
        return {"model": model, "choices": []}
    choice = {"message": _reply(last), "stop_reason": _STOPS.get(last.finish_reason or "", "unknown")}
    return {
        "model": last.model or model,
        "choices": [choice],
        "completion": last.response,
        "usage": _usage(last.usage),
        "time": bounded(last.duration_s),
    }
