"""`stream` of an `http` target: events and lines of JSON are joined, and anything that is not whole is an error."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model import Reply, Target
from rejoinder.providers.http import TemplatedHttp
from rejoinder.providers.http1 import HttpAnswer
from rejoinder.providers.settings import Settings
from rejoinder.providers.streamed import Joiner, StreamedCall
from tests.kit import Project, Raw, bounded, case, run, spec
from tests.labs.stream_lab import END, NDJSON, SSE, chunk, head, serving, target

DELTA: Raw = {"delta_path": "choices[0].delta.content", "done": "[DONE]"}


def event(data: Any, name: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def said(piece: Any, **more: Any) -> bytes:
    return event({"choices": [{"delta": {"content": piece}}], **more})


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


OPENAI = event({"choices": [{"delta": {"role": "assistant"}}]}) + said("Par") + said("is, ü") + event("[DONE]")
ANTHROPIC = (
    event({"type": "message_start", "message": {"usage": {"input_tokens": 7}}}, "message_start")
    + event({"type": "ping"}, "ping")
    + event({"type": "content_block_delta", "delta": {"text": "Par"}}, "content_block_delta")
    + event({"type": "content_block_delta", "delta": {"text": "is"}}, "content_block_delta")
    + event({"type": "message_delta", "delta": {}, "usage": {"input_tokens": 7, "output_tokens": 3}}, "message_delta")
    + event({"type": "message_stop"}, "message_stop")
)
OLLAMA = lines(
    {"message": {"content": "Par"}}, {"message": {"content": "is"}}, {"message": {"content": ""}, "done": True}
)

PLAIN: Raw = {"delta_path": "d"}
BY_PATH: Raw = {"delta_path": "d", "done": {"json_path": "done"}}
AS_LINES: Raw = {"delta_path": "d", "format": "ndjson"}


def joined(
    body: bytes, stream: Raw, kind: str = SSE, *, sizes: tuple[int, ...] = (), framed: bool = True, **more: Any
) -> Reply:
    """The reply that a stream becomes, heard in pieces of these sizes."""
    settings = Settings(Target(name="t", provider="http", settings={"url": "http://x", "stream": stream, **more}), {})
    wire = TemplatedHttp(settings)
    assert wire.stream is not None
    call = StreamedCall(wire, wire.stream)
    headers = {"content-type": kind}
    if call.joiner.begins(200, headers):
        rest = body
        for size in sizes:
            call.joiner.hear(rest[:size])
            rest = rest[size:]
        call.joiner.hear(rest)
    return call.read(HttpAnswer(200, headers, body, framed))


def fault(body: bytes, stream: Raw, kind: str = SSE, **more: Any) -> str:
    with pytest.raises(msgspec.DecodeError) as caught:
        joined(body, stream, kind, **more)
    return str(caught.value)


WHOLE: dict[str, tuple[bytes, Raw, str, str]] = {
    "openai": (OPENAI, DELTA, SSE, "Paris, ü"),
    "anthropic": (ANTHROPIC, {"delta_path": "delta.text", "done": "message_stop"}, SSE, "Paris"),
    "ollama": (OLLAMA, {"delta_path": "message.content", "done": {"json_path": "done"}}, NDJSON, "Paris"),
    "no mark, framed": (lines({"d": "Par"}, {"d": "is"}), {"delta_path": "d"}, NDJSON, "Paris"),
    "no line end": (lines({"d": "Par"}, {"d": "is"})[:-1], {"delta_path": "d"}, NDJSON, "Paris"),
    "no empty line at the end": (event({"d": "Paris"})[:-1], {"delta_path": "d"}, SSE, "Paris"),
    "the usual mark is known": (event({"d": "Paris"}) + event("[DONE]"), {"delta_path": "d"}, SSE, "Paris"),
    "plain data": (event("Par") + event("is") + event("[DONE]"), {"done": "[DONE]"}, SSE, "Paris"),
    "several lines of data": (b"data: one\ndata: two\n\n", {"format": "sse"}, SSE, "one\ntwo"),
    "CR alone": (b"id: 1\rdata: Par\r\rdata: is\r\r", {"format": "sse"}, SSE, "Paris"),
    "CR alone, found by its content": (b"data: Paris\r\rdata: [DONE]\r\r", {"done": "[DONE]"}, "text/plain", "Paris"),
    "CR within JSON lines": (b'{"text":\r"Paris"}\n', {"delta_path": "text", "format": "ndjson"}, NDJSON, "Paris"),
    "CR LF, comments, ids": (b": hi\r\n\r\nid: 1\r\nretry: 9\r\ndata: Paris\r\n\r\n", {"format": "sse"}, SSE, "Paris"),
    "told by its first line": (b"\xef\xbb\xbf" + event({"d": "Paris"}), {"delta_path": "d"}, "text/plain", "Paris"),
    "lines as plain text": (lines({"d": "Paris"}), {"delta_path": "d"}, "text/plain", "Paris"),
    "named although it says JSON": (lines({"d": "Paris"}), AS_LINES, "application/json", "Paris"),
    "json sequences": (b'\x1e{"d": "Paris"}\n', {"delta_path": "d"}, "application/json-seq", "Paris"),
    "an empty reply": (said("") + event("[DONE]"), DELTA, SSE, ""),
}  # fmt: skip


@spec("3B")
@pytest.mark.parametrize("name", WHOLE)
def test_whole_streams_become_replies(name: str) -> None:
    body, stream, kind, text = WHOLE[name]
    assert joined(body, stream, kind).text == text


@given(name=st.sampled_from(sorted(WHOLE)), sizes=st.lists(st.integers(0, 20), max_size=40))
@bounded(300)
def test_where_a_stream_is_split_changes_nothing(name: str, sizes: list[int]) -> None:
    body, stream, kind, text = WHOLE[name]
    assert joined(body, stream, kind, sizes=tuple(sizes)).text == text


@given(name=st.sampled_from(["openai", "anthropic", "ollama"]), share=st.floats(0, 1, exclude_max=True))
@bounded(300)
def test_a_stream_that_was_cut_is_never_a_reply(name: str, share: float) -> None:
    body, stream, kind, _ = WHOLE[name]
    end = {"openai": b"data: [DONE]", "anthropic": b'data: {"type": "message_stop"}', "ollama": b'"done": true}'}[name]
    cut = (
        body[: int(share * (body.index(end) - 1))]
        if name != "anthropic"
        else body[: int(share * body.rindex(b"event:"))]
    )
    assert fault(cut, stream, kind)


SPOILT: dict[str, tuple[bytes, Raw, str, str]] = {
    "malformed": (said("Par") + b"data: {oops\n\n" + event("[DONE]"), DELTA, SSE, "malformed or was cut: {oops"),
    "lines malformed": (b'{"d": "Par"}\n<html>\n', {"delta_path": "d"}, NDJSON, "malformed or was cut"),
    "no end": (said("Par"), DELTA, SSE, "ended without `[DONE]`"),
    "no end by path": (lines({"d": "P", "done": False}), BY_PATH, NDJSON, "without `done`"),
    "a page": (b"<html>\n", DELTA, SSE, "belongs to no event: <html>"),
    "data without its field": (said("Par") + b'{"choices": []}\n\n', DELTA, SSE, "belongs to no event"),
    "error event": (said("Par") + event("too busy", "error"), DELTA, SSE, "reports an error: too busy"),
    "error inside": (said("P") + event({"error": {"message": "no"}}), DELTA, SSE, 'an error: {"message":"no"}'),
    "error as a type": (event({"type": "error", "x": 1}), DELTA, SSE, "reports an error"),
    "error on a line": (lines({"d": "P"}, {"error": "it crashed"}), PLAIN, NDJSON, "reports an error: it crashed"),
    "wrong path": (OPENAI, {"delta_path": "delta.text"}, SSE, "has `delta_path: delta.text`; the first event"),
    "no text there": (said({"a": 1}) + event("[DONE]"), DELTA, SSE, "has dict, and a text is expected"),
    "nothing": (b"", DELTA, SSE, "ended without `[DONE]`"),
    "no UTF-8": (b"data: \xff\n\n", DELTA, SSE, "not UTF-8"),
    "too deep": (b"data: " + b"[" * 5000 + b"\n\n", DELTA, SSE, "malformed"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_streams_are_errors(name: str) -> None:
    body, stream, kind, words = SPOILT[name]
    assert words in fault(body, stream, kind)


def test_an_end_that_only_the_connection_marks_may_be_a_cut() -> None:
    assert "may have been cut" in fault(event({"d": "Paris"}), {"delta_path": "d"}, framed=False)
    assert joined(OPENAI, DELTA, framed=False).text == "Paris, ü"


@given(body=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@bounded(400)
def test_no_bytes_end_in_a_traceback(body: bytes) -> None:
    for stream in (DELTA, {"delta_path": "d"}, {"format": "ndjson", "delta_path": "d"}):
        with contextlib.suppress(msgspec.DecodeError):
            joined(body, stream, "text/plain")


def test_tool_calls_in_pieces_are_joined_and_counts_are_read() -> None:
    calls: list[Raw] = [
        {"index": 0, "id": "a", "function": {"name": "look", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"q": '}},
        {"index": 1, "id": "b", "function": {"name": "buy", "arguments": "{}"}},
        {"index": 0, "function": {"arguments": '"x"}'}},
    ]
    body = b"".join(event({"choices": [{"delta": {"tool_calls": [one]}}]}) for one in calls)
    body += event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}) + event("[DONE]")
    reply = joined(body, DELTA, tool_calls_path="choices[0].delta.tool_calls", usage_path="usage")
    assert [(one.name, one.arguments, one.id) for one in reply.tool_calls] == [
        ("look", '{"q": "x"}', "a"),
        ("buy", "{}", "b"),
    ]
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.text) == (9, 4, "")
    plain = lines({"tool": {"name": "look", "arguments": {"q": 1}}}, {"d": "ok"})
    reply = joined(plain, {"delta_path": "d"}, NDJSON, tool_calls_path="tool")
    assert [(one.name, one.arguments) for one in reply.tool_calls] == [("look", '{"q":1}')]


def test_counts_told_in_two_events_are_put_together() -> None:
    stream: Raw = {"delta_path": "delta.text", "done": "message_stop"}
    usage = joined(ANTHROPIC, stream, usage_path="usage").usage
    assert (usage.input_tokens, usage.output_tokens) == (7, 3)
    assert "no event of the stream has `usage_path: used`" in fault(ANTHROPIC, stream, usage_path="used")


def test_a_long_stream_is_refused_while_it_comes() -> None:
    wire = TemplatedHttp(Settings(Target(name="t", provider="http", settings={"url": "http://x", "stream": DELTA}), {}))
    assert wire.stream is not None
    joiner = Joiner(wire.stream)
    assert joiner.begins(200, {"content-type": SSE})
    for _ in range(20):
        joiner.hear(b": " + b"x" * (1 << 20) + b"\n")
    assert joiner.is_over


# Over real connections


def asked(
    project: Project, *pieces: bytes | float, code: int, cut: bool = False, check: Raw | None = None, **more: Any
) -> Raw:
    with serving(*pieces, cut=cut) as service:
        suite = {"targets": [target(service, **more)], "evals": [case("one", {"contains": "Paris"})]}
        [result] = run(project, suite, code=code)["results"]
    return result


def test_the_time_to_the_first_token_is_recorded_and_shown(project: Project) -> None:
    pieces = head(), 0.3, chunk(said("Par")), 0.5, chunk(said("is") + event("[DONE]")), END
    result = asked(project, *pieces, code=0, stream=DELTA)
    [turn] = result["turns"]
    assert turn["response"] == "Paris"
    assert 0.3 <= turn["first_token_s"] < turn["duration_s"] - 0.25  # of a pause of 0.5: the first piece may come late
    assert "first token after" in project.run("show", "last", "-v")


def test_a_stream_ends_with_its_mark_though_the_connection_stays(project: Project) -> None:
    began = time.monotonic()
    result = asked(project, head(), chunk(OPENAI), -1.0, code=0, stream=DELTA, timeout_seconds=60)
    assert result["turns"][0]["response"] == "Paris, ü" and time.monotonic() - began < 30


def test_an_endless_stream_ends_at_the_time_limit(project: Project) -> None:
    result = asked(project, head(), chunk(said("Par")), -1.0, code=3, stream=DELTA, timeout_seconds=1)
    assert "no answer within 1 s" in result["error"]["message"]


@pytest.mark.parametrize("framing", ["transfer-encoding: chunked\r\n", "content-length: 9999\r\n", ""])
def test_a_connection_that_breaks_off_is_an_error(project: Project, framing: str) -> None:
    part = said("Paris")
    data = chunk(part) if "chunked" in framing else part
    result = asked(project, head(framing=framing), data, code=3, cut=True, stream=DELTA)
    assert "broke off in the middle" in result["error"]["message"] or "cut" in result["error"]["message"]


def test_garbage_ends_the_call_at_once(project: Project) -> None:
    result = asked(project, head(), chunk(b"data: {oops\n\n"), -1.0, code=3, stream=DELTA, timeout_seconds=60)
    assert "malformed or was cut" in result["error"]["message"] and "text/event-stream" in result["error"]["message"]


def test_a_compressed_stream_is_joined_without_a_time(project: Project) -> None:
    body = gzip.compress(OPENAI)
    more = f"content-length: {len(body)}\r\n"
    result = asked(project, head(framing=more, more="content-encoding: gzip\r\n"), body, code=0, stream=DELTA)
    assert result["turns"][0]["response"] == "Paris, ü" and "first_token_s" not in result["turns"][0]


def test_a_service_may_answer_without_a_stream(project: Project) -> None:
    body = b'{"reply": "Paris"}'
    plain = head("application/json", framing=f"content-length: {len(body)}\r\n")
    assert asked(project, plain, body, code=0, stream=DELTA, reply_path="reply")["turns"][0]["response"] == "Paris"


def test_a_session_is_found_in_an_event(project: Project) -> None:
    body = event({"session": "s-7"}) + event({"d": "Paris"}) + event("[DONE]")
    more: Raw = {"body": {"s": "{{ session }}"}, "history": "theirs", "session": {"json_path": "session"}}
    result = asked(project, head(), chunk(body), END, code=0, stream={"delta_path": "d"}, **more)
    assert result["turns"][0]["session"] == "s-7"


def test_it_is_asked_for_as_a_stream(project: Project) -> None:
    with serving(head(), chunk(OPENAI), END) as service:
        run(project, {"targets": [target(service, stream=DELTA)], "evals": [case()]}, code=0)
    assert "accept: text/event-stream, application/x-ndjson, application/json" in service.asked[0]
