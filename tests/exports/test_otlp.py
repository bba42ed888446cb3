"""OpenTelemetry: messages that its own protocol buffers read, by the conventions for generative AI."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from rejoinder.exports.otlp import requests
from rejoinder.model import ChatMessage
from rejoinder.model.messages import ToolCall
from tests.exports.spans import attributes, read_spans
from tests.kit import bounded
from tests.report.exports import (
    OBEYED,
    check,
    failed,
    hostile,
    hostile_texts,
    in_error,
    made_run,
    mixed,
    result,
    turn,
    written,
)

EVENT = "gen_ai.evaluation.result"


def test_a_conversation_is_a_trace_of_turns() -> None:
    recovered = (turn("100", passed=False, checks=(check(False),)), turn("105", 2, prompt="Again."))
    [whole, first, second] = read_spans(written("otlp", made_run([result("times", *recovered, succeeded_on_turn=2)])))
    assert {len(whole.trace_id), len(whole.span_id)} == {16, 8}
    assert {first.trace_id, second.trace_id} == {whole.trace_id}
    assert {first.parent_span_id, second.parent_span_id} == {whole.span_id}
    assert len({whole.span_id, first.span_id, second.span_id}) == 3
    assert (whole.name, first.name) == ("invoke_workflow arithmetic", "chat gpt-5")
    assert (whole.kind, first.kind) == (1, 3)
    assert first.start_time_unix_nano == 1794830401250 * 1_000_000
    assert first.end_time_unix_nano - first.start_time_unix_nano == 1_500_000_000
    assert (whole.start_time_unix_nano, whole.end_time_unix_nano) == (
        first.start_time_unix_nano,
        second.end_time_unix_nano,
    )


def test_a_turn_has_the_names_of_the_conventions() -> None:
    [_, chat] = read_spans(written("otlp", made_run([result()])))
    shown = attributes(chat)
    assert {key: value for key, value in shown.items() if "messages" not in key and key.startswith("gen_ai")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.model": "gpt-5-2026",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.conversation.id": shown["gen_ai.conversation.id"],
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 5,
    }
    assert json.loads(shown["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "What is 15 * 7?"}]}
    ]
    assert json.loads(shown["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "105"}], "finish_reason": "stop"}
    ]


def test_tools_and_thinking_are_parts_of_messages() -> None:
    call = ToolCall("add", '{"a": 1}', "call-1")
    sent = (ChatMessage("user", "Add."), ChatMessage("assistant", "", (call,)), ChatMessage("tool", "2", (), "call-1"))
    said = turn("", messages=sent, thinking="Hm.", tool_calls=(call,), finish_reason="tool_calls")
    [_, chat] = read_spans(written("otlp", made_run([result("times", said)])))
    called = {"type": "tool_call", "id": "call-1", "name": "add", "arguments": '{"a": 1}'}
    assert json.loads(attributes(chat)["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Add."}]},
        {"role": "assistant", "parts": [called]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call-1", "response": "2"}]},
    ]
    [answer] = json.loads(attributes(chat)["gen_ai.output.messages"])
    assert answer["parts"] == [{"type": "reasoning", "content": "Hm."}, called]


def test_each_check_is_an_event_of_its_turn() -> None:
    parts = (check(True, name="polite"), check(False, name="brief", score=None, error=True))
    judged = check(False, name="tone", score=0.25, reason="too harsh", children=parts, judge="strict")
    [_, chat] = read_spans(written("otlp", made_run([result("times", turn("Go away.", checks=(judged, check())))])))
    assert {event.name for event in chat.events} == {EVENT}
    shown = [attributes(event) for event in chat.events]
    assert [event["gen_ai.evaluation.name"] for event in shown] == ["tone", "polite", "brief", "match *105*"]
    assert shown[0] == {
        "gen_ai.evaluation.name": "tone",
        "gen_ai.evaluation.score.value": 0.25,
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.evaluation.explanation": "too harsh",
        "rejoinder.check": "match",
        "rejoinder.judge": "strict",
    }
    assert shown[2]["error.type"] == "check"
    assert "gen_ai.evaluation.score.value" not in shown[2]


def test_an_error_is_the_status_of_its_turn() -> None:
    [whole, chat] = read_spans(written("otlp", made_run([in_error()])))
    assert (whole.status.code, chat.status.code, chat.status.message) == (2, 2, "HTTP 500")
    assert attributes(chat)["error.type"] == "server"
    assert chat.start_time_unix_nano == 1794830400000 * 1_000_000  # that of the run: the call has none


def test_the_same_run_has_the_same_ids_and_each_conversation_its_own() -> None:
    assert written("otlp", mixed()) == written("otlp", mixed())
    spans = read_spans(written("otlp", mixed()))
    assert len({span.span_id for span in spans}) == len(spans) == 19
    assert len({span.trace_id for span in spans}) == 9


def test_lines_hold_a_conversation_each() -> None:
    lines = written("otlp-lines", mixed()).splitlines()
    assert len(lines) == 9
    assert [span.span_id for line in lines for span in read_spans(line)] == [
        span.span_id for span in read_spans(written("otlp", mixed()))
    ]


def test_requests_keep_to_a_size_and_leave_out_what_was_said() -> None:
    run = made_run(failed(f"case-{number}", "a secret reply", reason="a secret reason") for number in range(50))
    sent = list(requests(run, content=False, most_characters=10_000))
    assert 5 < len(sent) < 50
    assert sum(count for _, count in sent) == 100 == sum(len(read_spans(text)) for text, _ in sent)
    assert max(len(text) for text, _ in sent) < 11_000
    assert not any("secret" in text for text, _ in sent)


@pytest.mark.parametrize("name", ["otlp", "otlp-lines"])
def test_a_run_without_results_is_read(name: str) -> None:
    text = written(name, made_run([]))
    assert (read_spans(text) if text else []) == []


@pytest.mark.slow
@bounded(100)
@given(hostile_texts)
def test_no_text_breaks_the_document(text: str) -> None:
    shown = written("otlp", hostile(text))
    assert not OBEYED.search(shown)
    spans = read_spans(shown)
    assert [span.kind for span in spans] == [1, 3, 1, 3, 1, 3, 3, 3, 1, 3, 3, 1, 3, 1, 1, 1, 1, 3, 3, 1, 3]
    [event] = spans[1].events
    assert event.name == EVENT
