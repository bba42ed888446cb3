"""Cases from failed conversations: a suite to edit, which loads as written and fails on the recorded replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from rejoinder.json_values import decoded
from rejoinder.model import ToolCall
from rejoinder.transcripts.values import Said, Transcript, Turn, is_visible, joined
from rejoinder.words.numbers import beginning
from rejoinder.yaml_text import yaml_comment, yaml_flow, yaml_lines, yaml_text

_BRACES = "two_braces"
_LONGEST_KEY = 1000
"""Maximum characters of a key in a mapping on one line, which YAML readers limit."""
_SHOWN_LINES = 8
_SHOWN_CHARACTERS = 120


class Chosen(Struct, frozen=True):
    """A conversation and the turn that went wrong."""

    transcript: Transcript
    turn: Turn
    id: str
    """Of the case."""
    target: str | None = None
    """Its recording, if the suite has several."""


class Recorded(Struct, frozen=True):
    """A target that answers with recorded replies."""

    name: str
    file: str
    format: str | None = None
    match: str | None = None


def choose(transcript: Transcript, number: int | None) -> Turn | None:
    """The turn to use: the named one, else the last that has a reply. None if missing."""
    answered = [turn for turn in transcript.turns if turn.has_reply and number in (None, turn.number)]
    return answered[-1] if answered else None


class Form(NamedTuple):
    """The form of a suite made from conversations."""

    about: tuple[str, ...]
    """Its first lines."""
    checks: tuple[str, ...]
    """Checks of all cases."""
    case: Callable[[Chosen], Iterator[str]]


def write_suite(
    form: Form,
    name: str,
    chosen: Sequence[Chosen],
    recorded: Sequence[Recorded] = (),
    *,
    target: str | None = None,
    path: Path | None = None,
) -> str:
    """The text of a suite. `recorded`: targets that answer with the recordings; `target`: the target that continues;
    `path`: its file."""
    body = [*form.checks, "evals:", *(line for one in chosen for line in form.case(one))]
    lines = [*form.about, *_how_to_go_on(chosen, path), f"name: {yaml_text(name, '  ')}"]
    if any(_BRACES in line for line in body):
        lines += ["vars:", f'  {_BRACES}: "{{{{" # literal braces of the recording, in which nothing is filled in']
    if recorded:
        lines += yaml_lines({"targets": [_target(one) for one in recorded]}, "")
    first = target or (recorded[0].name if recorded else None)
    if first is not None:
        lines.append(f"target: {yaml_text(first, '  ')}")
    return "\n".join([*lines, *body, ""])


def _how_to_go_on(chosen: Sequence[Chosen], path: Path | None) -> Iterator[str]:
    yield yaml_comment(f"#   rejoinder run {path or 'evals.yaml'} -m openai/gpt-5-mini")
    yield from _about_tools(chosen)


def _about_tools(chosen: Sequence[Chosen]) -> Iterator[str]:
    names = list(dict.fromkeys(name for one in chosen for name in one.transcript.tools))
    if names:
        listed = _cut(", ".join(names))
        yield f"# The recorded model had tools: {listed}. List tools in `tools` for another model to call."


def _target(one: Recorded) -> dict[str, Any]:
    settings = {"name": one.name, "provider": "transcript", "file": one.file, "format": one.format, "match": one.match}
    return {key: value for key, value in settings.items() if value is not None}


def _case(one: Chosen) -> Iterator[str]:
    transcript, turn = one.transcript, one.turn
    yield from _head(one)
    yield "  input_messages:"
    for message in _history(transcript, turn):
        yield from _message(message)
    yield from _what_was_said(transcript, turn)
    yield "  checks:"
    yield "  # - contains: words that a right reply has"
    yield "  # - llm_judge: { criteria: what a right reply does }"
    for name in dict.fromkeys(call.name for call in _calls(turn)):
        yield f"  # - tool_calls: [{yaml_comment(yaml_flow(name))}]"
    yield "  - name: not what was said"
    yield from yaml_lines({"not": {"equals": _literal(turn.text)}}, "    ")


def _graded_case(one: Chosen) -> Iterator[str]:
    yield from _head(one)
    system = joined(said.message for said in one.transcript.messages if said.message.role == "system")
    if system:
        yield f"  system_prompt: {yaml_text(_literal(system), '    ')}"
    yield "  turns:"
    for turn in one.transcript.turns[: one.turn.number]:
        yield f"  - prompt: {yaml_text(_literal(turn.prompt), '      ')}"


def _head(one: Chosen) -> Iterator[str]:
    """The case's id, name, tags and recording."""
    head = {"id": one.id, "name": one.transcript.title}
    first, *rest = yaml_lines({key: _literal(text) for key, text in head.items() if text}, "  ")
    yield f"- {first.removeprefix('  ')}"
    yield from rest
    yield f"  tags: {yaml_flow([_literal(tag) for tag in tags_of(one.transcript)])}"
    if one.target is not None:
        yield from yaml_lines({"execution": {"target": one.target}}, "  ")


def tags_of(transcript: Transcript) -> list[str]:
    """The format, the tools and the day."""
    day = transcript.started_at
    days = [] if day is None else [datetime.fromtimestamp(day, UTC).strftime("%Y-%m-%d")]
    return list(dict.fromkeys([transcript.format, *transcript.tools, *days, *transcript.tags]))


def _history(transcript: Transcript, turn: Turn) -> list[Said]:
    """All messages before the reply to grade."""
    last = turn.asked[-1]
    place = next(n for n, one in enumerate(transcript.messages) if one is last)
    return [one for one in transcript.messages[: place + 1] if is_visible(one)]


def _message(said: Said) -> Iterator[str]:
    """A message, plus one for each result of its tool calls."""
    message = said.message
    calls = [(call, arguments) for call in message.tool_calls if (arguments := _object(call)) is not None]
    odd = [f"{call.name}({call.arguments})" for call in message.tool_calls if _object(call) is None]
    text = "\n".join([message.content, *odd] if message.content else odd) if odd else message.content
    yield f"  - role: {message.role}"
    if message.tool_call_id:
        yield f"    tool_call_id: {yaml_text(_literal(message.tool_call_id), '      ')}"
    yield f"    content: {yaml_text(_literal(text), '      ')}"
    if calls:
        yield "    tool_calls:"
        for number, (call, arguments) in enumerate(calls, 1):
            yield f"    - id: {yaml_text(_literal(_id(call, number)), '        ')}"
            yield f"      name: {yaml_text(_literal(call.name), '        ')}"
            yield f"      arguments: {_literal_flow(arguments)}"
    for number, (call, _) in enumerate(calls, 1):
        if call.result is not None:
            yield "  - role: tool"
            yield f"    tool_call_id: {yaml_text(_literal(_id(call, number)), '      ')}"
            yield f"    content: {yaml_text(_literal(call.result), '      ')}"


def _id(call: ToolCall, number: int) -> str:
    return call.id or f"{call.name}-{number}"


def _object(call: ToolCall) -> dict[str, Any] | None:
    """The arguments, if a suite can hold them: an object without overlong keys."""
    value = decoded(call.arguments or "{}")
    return value if isinstance(value, dict) and _has_short_keys(value) else None


def _has_short_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(len(key) <= _LONGEST_KEY and _has_short_keys(one) for key, one in value.items())
    return not isinstance(value, list) or all(map(_has_short_keys, value))


def _literal(text: str) -> str:
    """A text whose braces are escaped, so that nothing is filled in when the suite loads: untrusted words must not read
    variables."""
    return text.replace("{{", f"{{{{ var('{_BRACES}') }}}}")


def _literal_flow(value: Any) -> str:
    return yaml_flow(_each_text(value))


def _each_text(value: Any) -> Any:
    if isinstance(value, str):
        return _literal(value)
    if isinstance(value, list):
        return [_each_text(one) for one in value]
    if isinstance(value, dict):
        return {key: _each_text(one) for key, one in value.items()}
    return value


def _calls(turn: Turn) -> list[ToolCall]:
    return [call for one in turn.replies for call in one.message.tool_calls]


def _what_was_said(transcript: Transcript, turn: Turn) -> Iterator[str]:
    """The failing example, as a comment."""
    model = turn.reply().model or transcript.model
    speaker = f" by {model}" if model else ""
    yield yaml_comment(f"  # What was said{speaker} at turn {turn.number} of {len(transcript.turns)}:")
    lines = turn.text.strip().splitlines() or ["(nothing)"]
    for line in lines[:_SHOWN_LINES]:
        yield f"  #   {_cut(line)}".rstrip()
    if len(lines) > _SHOWN_LINES:
        yield f"  #   and {len(lines) - _SHOWN_LINES} more lines"
    for call in _calls(turn):
        yield f"  # It called {_cut(f'{call.name}({call.arguments})')}: {call.status or 'no result'}"


def _cut(text: str) -> str:
    return beginning(yaml_comment(text), _SHOWN_CHARACTERS)


UP_TO_A_REPLY = Form(
    (
        "# Each case ends at a wrong reply. Its check fails on the recorded reply.",
        "# Describe a right reply in `checks`, and put another model in place of the one that failed:",
    ),
    (),
    _case,
)
EVERY_TURN = Form(
    (
        "# Each case is a conversation. Describe a right reply in `checks`: they grade every reply of all cases.",
        "# To ask another model the same:",
    ),
    (
        "defaults: { on_turn_failure: continue }",
        "checks:",
        "# - { not: { icontains: words that no reply may have }, every_turn: true }",
        "# - { llm_judge: { criteria: what a right reply does }, every_turn: true }",
        "- { min_words: 1, every_turn: true }",
    ),
    _graded_case,
)
"""Whole conversations, up to the chosen turn: checks of the suite grade every reply."""
