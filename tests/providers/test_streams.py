"""Services that stream: their frames are never taken for the text of a reply."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.testing import FakeServer, Fault
from tests.kit import Project, Raw, run

FRAMES = 'event: delta\ndata: {"delta": "Par"}\n\ndata: {"delta": "is"}\n\ndata: [DONE]\n\n'
LINES = '{"delta": "Par"}\n{"delta": "is"}\n'
WORDS = "data: Paris\n\ndata: is the capital.\n\n"


def asked(project: Project, sent: str, content_type: str, code: int, **more: Any) -> Raw:
    fault = Fault("status", status=200, body=sent, headers={"content-type": content_type})
    with FakeServer(faults=[fault]) as server:
        target = {"name": "bot", "provider": "http", "url": f"{server.url}/x", "max_retries": 0, **more}
        suite = {
            "targets": [target],
            "evals": [{"id": "one", "prompt": "Hi", "checks": [{"not": {"contains": "zzz"}}]}],
        }
        [result] = run(project, suite, code=code)["results"]
    return result


STREAMS = {
    "events": (FRAMES, "text/event-stream"),
    "events of prose": (WORDS, "text/event-stream; charset=utf-8"),
    "one event of prose": ("data: Paris\n\n", "Text/Event-Stream"),
    "ndjson": (LINES, "application/x-ndjson"),
    "ndjson without x": (LINES, "application/ndjson; charset=utf-8"),
    "one line": ('{"reply": "Paris"}\n', "application/jsonl"),
    "json lines": (LINES, "application/jsonlines"),
    "json sequences": (LINES, "application/json-seq"),
    "spring": (LINES, "application/stream+json"),
    "events as plain text": (FRAMES, "text/plain"),
    "events of prose as plain text": (WORDS.replace("\n", "\r\n"), "text/plain"),
    "a mark of UTF-8 first": ("\ufeff" + FRAMES, "text/plain"),
    "comments first": (": keep-alive\n\n" + FRAMES, "text/html"),
    "a long stream as plain text": (FRAMES * 5000, "text/plain"),
    "lines of json as plain text": (LINES, "text/plain"),
    "lines of json without a type": (LINES, ""),
    "lines of json as bytes": (LINES, "application/octet-stream"),
    "a long stream of lines of json": (LINES * 5000, "text/plain"),
    "objects in one line": ('{"delta": "wr"}{"delta": "ong"}', "text/plain"),
    "one event of prose as plain text": ("data: zebra\n\n", "text/plain"),
    "one event with other line ends": ("data: zebra\r\n\r\n", "text/plain"),
    "one event with its name": ("event: message\ndata: zebra", "text/plain"),
    "one event with an id": ("id: 7\ndata: zebra\n", "text/html"),
    "one event with a delay": ("retry: 3000\ndata: zebra\n", ""),
    "one event after a comment": (": connected\ndata: zebra\n", "text/plain"),
    "an event without data": ("event: zebra\n\n", "text/plain"),
    "comments alone": (": zebra\n\n: zebra\n\n", "text/plain"),
    "an unknown type": (WORDS, "application/x-words"),
    "marks of records": ('\x1e{"delta": "Par"}\n\x1e{"delta": "is"}\n', "text/plain"),
    "one marked record": ('\x1e{"delta": "Paris"}\n', "text/plain"),
    "lines of lists": ('["delta", "Par"]\n["delta", "is"]\n', "text/plain"),
    "lines of lists of objects": ('[{"delta": "Par"}]\n[{"delta": "is"}]\n', "text/plain"),
    "lines of json after a word": ("connected\n" + LINES, "text/plain"),
    "lines of json after a guard": (")]}'\n" + LINES, "text/plain"),
    "lines of json after a length": ("48\n" + LINES, "text/plain"),
    "parts that replace each other": (
        "--b\r\nContent-Type: text/plain\r\n\r\nParis\r\n--b--",
        "multipart/x-mixed-replace",
    ),
    "parts as plain text": ("--b\r\nContent-Type: text/plain\r\n\r\nParis\r\n--b--", "text/plain"),
    "lines of texts in json": ('"Par"\n"is"\n', "text/plain"),
    "a list of chunks": ('[{"delta": "Par"}\n,{"delta": "is"}]', "text/plain"),
    "a list of chunks in many lines": ('[{\n  "candidates": []\n}\n,\n{\n  "candidates": []\n}\n]\n', "text/plain"),
    "a long list of chunks": ('[{"delta": "Par"}' + ', {"delta": "is"}' * 9000 + "]", "text/plain"),
    "numbered parts": ('0:"wr"\n0:"ong"\nd:{"finishReason": "stop"}\n', "text/plain"),
}


@pytest.mark.parametrize("reply_path", [None, "reply", "delta"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_an_error_whatever_the_checks_are(name: str, reply_path: str | None, project: Project) -> None:
    body, content_type = STREAMS[name]
    result = asked(project, body, content_type, 3, **({"reply_path": reply_path} if reply_path else {}))
    assert result["status"] == "error"
    assert "a stream is joined only where the target says how" in result["error"]["message"]
    assert "plain JSON reply" in result["error"]["message"]


PLAIN = {
    "one line that begins like a frame": "data: the facts of the matter",
    "a glossary": "data: facts\nevent: something that happens\nmodel: a program",
    "a remark": ": yes",
    "frames that are quoted": "The server sends:\n\ndata: 1\n\ndata: 2\n",
    "one object": '{"answer": "Paris"}',
    "an object and prose": '{"answer": "Paris"}\nThat is the capital.',
    "an object in many lines": '{\n  "answer": {"city": "Paris"}\n}',
    "lists": "[1]\n[2]",
    "lists of numbers": "[1, 2]\n[3, 4]",
    "one list": '["Paris", "Rome"]\n',
    "times": '1:"one"',
    "a glossary in markdown": "**data**: facts\n\ndata: x\n\nSee above.\n",
    "a smile": ":)\n\n",
    "a word": "data\n\n",
    "a number of an order": "id: 42\n\n",
    "objects after a sentence": 'Two examples:\n{"a": 1}\n{"a": 2}',
    "an object after a word": 'Sure\n{"a": 1}',
    "a rule of markdown": "---\nContent: words\n",
    "a quoted line": '"Paris"',
    "quoted lines and prose": '"Par"\n"is"\nThat is it.',
    "a list of records": '[{"city": "Paris"}, {"city": "Rome"}]',
}


NO_TEXT = {
    "nothing": ("", "text/plain", "the body is empty"),
    "blanks": (" \n", "text/plain", "the body is empty"),
    "nothing without a type": ("", "", "the body is empty"),
    "parts": ("--b\r\n\r\nParis\r\n--b--", "multipart/mixed; boundary=b", "it is not text"),
    "protobuf": ("\n\x05Paris", "application/x-protobuf", "it is not text"),
    "protobuf of google": ("\n\x05Paris", "application/vnd.google.protobuf", "it is not text"),
    "a picture": ("GIF89a", "image/gif", "it is not text"),
    "bytes": ("Par\0is", "application/octet-stream", "it is not text"),
}


@pytest.mark.parametrize("name", NO_TEXT)
def test_a_body_without_text_is_an_error_whatever_the_checks_are(name: str, project: Project) -> None:
    body, content_type, words = NO_TEXT[name]
    error = asked(project, body, content_type, 3)["error"]
    assert error["type"] == "bad-response" and words in error["message"]


@pytest.mark.parametrize("name", PLAIN)
def test_a_text_that_only_resembles_a_stream_is_a_reply(name: str, project: Project) -> None:
    result = asked(project, PLAIN[name], "text/plain", 0)
    assert result["turns"][0]["response"] == PLAIN[name]


def test_a_stream_in_a_session_is_an_error(project: Project) -> None:
    more = {"body": {"s": "{{ session }}"}, "history": "theirs", "session": {"header": "content-type"}}
    result = asked(project, FRAMES, "text/event-stream", 3, **more)
    assert "a stream is joined only where the target says how" in result["error"]["message"]
