"""Transcripts of other programs are read: every format, branches, what is not understood, and files that are broken."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.errors import UsageError
from rejoinder.model import Usage
from rejoinder.transcripts import files as transcript_files
from rejoinder.transcripts.formats import FORMATS, read_bytes, read_transcripts
from rejoinder.transcripts.values import Transcript, not_understood, own_id
from tests.kit import Raw, bounded
from tests.transcripts.kit import EXPECTED, SAMPLES, TALKS, lines, sample


def only(data: bytes) -> Transcript:
    [found] = read_bytes(data, "talk.jsonl")
    return found


def words(transcript: Transcript) -> list[tuple[str, str]]:
    return [(turn.prompt, turn.text) for turn in transcript.turns]


def test_there_is_a_sample_of_every_format() -> None:
    assert {path.name for path in SAMPLES.glob("*.json*")} == set(EXPECTED)
    assert {format for format, _, _ in EXPECTED.values()} == set(FORMATS)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_sample_is_read_and_its_format_found(name: str) -> None:
    format, turns, tools = EXPECTED[name]
    found = sample(name)
    assert {one.format for one in found} == {format}
    assert {one.id: len(one.turns) for one in found} == turns
    assert list(found[0].tools) == tools
    assert [one.unknown for one in found] == [()] * len(found)
    for one in found:
        for turn in one.turns:
            assert turn.prompt and turn.text
            assert all(call.status in ("completed", "failed") and call.result for call in turn.reply().tool_calls)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_no_other_format_takes_a_sample(name: str) -> None:
    document = transcript_files.parse((SAMPLES / name).read_bytes(), name)
    assert [row.name for row in FORMATS.values() if row.looks_like(document)] == [EXPECTED[name][0]]


def test_figures_of_replies_are_those_of_the_recording() -> None:
    first = sample("claude.jsonl")[0].turns[0].reply()
    assert first.usage == Usage(300, 14, cached_tokens=60, cache_write_tokens=40)
    assert first.cost == pytest.approx(0.000978)
    assert (first.model, first.finish_reason) == ("claude-sonnet-4-5", "stop")
    assert sample("codex_tool.jsonl")[0].turns[0].reply().usage == Usage(300, 14, reasoning_tokens=4, cached_tokens=60)
    assert sample("codex_tool.jsonl")[0].turns[0].reply().latency_s == 0.198
    whole = sample("agentv.jsonl")[0].turns[0].reply()
    assert (whole.usage, whole.cost, whole.latency_s) == (Usage(100, 18, cached_tokens=20), 0.0003, 0.9)
    step = sample("atif.json")[0].turns[0].reply()
    assert (step.usage, step.finish_reason) == (Usage(300, 14, cached_tokens=60, cache_write_tokens=40), "stop")
    assert step.cost == pytest.approx(0.000978)
    assert sample("atif_codex.json")[0].turns[0].reply().usage.reasoning_tokens == 4
    assert sample("opencode.json")[0].turns[1].reply().cost == 0.000134
    assert sample("otel.json")[0].turns[0].reply().latency_s == pytest.approx(0.048735, abs=1e-3)
    assert sample("otel_agent.json")[0].turns[0].reply().cost == pytest.approx(0.0000565)


@pytest.mark.parametrize("name", sorted(TALKS))
def test_programs_that_write_one_conversation_differently_are_read_the_same(name: str) -> None:
    [found] = sample(name)
    assert words(found) == [("Will it rain in Oslo?", "Yes, take an umbrella."), ("And tomorrow?", "No, it stays dry.")]
    first, second = (turn.reply() for turn in found.turns)
    [call] = first.tool_calls
    assert (json.loads(call.arguments), json.loads(call.result or "")) == (
        {"place": "Oslo", "days": 1},
        {"rain": True, "mm": 4},
    )
    if name in ("openai.json", "anthropic.json"):
        return  # messages alone: nothing tells their tokens
    cached = 0 if name in ("otel_details.json", "otel_events.jsonl") else 20
    assert first.usage == Usage(100, 18, cached_tokens=cached)
    assert second.usage == Usage(80, 5, cached_tokens=3 * cached)
    assert (first.model, first.finish_reason) == (second.model, "stop")
    assert first.model in ("gpt-5-mini", "claude-sonnet-4-5")
    assert [one.message.content for one in found.messages if one.message.role == "system"] == [
        "You are the weather desk."
    ]


@pytest.mark.parametrize("name", ["openai_log.jsonl", "anthropic_log.jsonl"])
def test_a_log_may_hold_requests_in_several_forms(name: str) -> None:
    pairs = [json.loads(line) for line in (SAMPLES / name).read_text().splitlines()]
    flat = [{**pair["request"], "response": pair["response"]} for pair in pairs]
    over_http = [{key: {"body": json.dumps(value)} for key, value in pair.items()} for pair in pairs]
    for log in (flat, over_http, flat[-1:]):
        assert words(only(lines(*log))) == words(sample(name)[0])
    assert words(only(json.dumps(pairs).encode())) == words(sample(name)[0])


def test_requests_of_several_conversations_in_one_log_are_told_apart() -> None:
    pairs = [json.loads(line) for line in (SAMPLES / "openai_log.jsonl").read_text().splitlines()]
    other = json.loads(json.dumps(pairs).replace("Oslo", "Rome"))
    mixed = [one for both in zip(pairs, other, strict=True) for one in both]
    assert [words(one)[0][0] for one in read_bytes(lines(*mixed), "log.jsonl")] == [
        "Will it rain in Oslo?",
        "Will it rain in Rome?",
    ]
    twice = read_bytes(lines(*(one for pair in pairs for one in (pair, pair))), "log.jsonl")
    assert [len(one.turns) for one in twice] == [2, 2]


def test_a_log_may_hold_the_answer_as_text() -> None:
    asked = {"messages": [{"role": "user", "content": "Ask."}], "response": "Answer."}
    assert words(only(lines(asked))) == [("Ask.", "Answer.")]


def test_a_failed_tool_of_anthropic_is_told_and_its_old_form_of_a_document_is_read() -> None:
    spoken = [
        {"role": "user", "content": "Ask."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}]},
    ]
    answer = {"content": [{"type": "text", "text": "I cannot."}], "usage": {"input_tokens": 5, "output_tokens": 2}}
    found = only(json.dumps({"system": "Be brief.", "messages": spoken, "response": answer}).encode())
    reply = found.turns[0].reply()
    assert (reply.text, reply.usage, reply.tool_calls[0].status) == ("I cannot.", Usage(5, 2), "failed")


def test_agentv_reads_its_older_form_of_a_conversation_on_a_line() -> None:
    whole = {
        "input": "Ask.",
        "output": [{"role": "assistant", "content": "Answer."}],
        "source": {"session_id": "s"},
        "token_usage": {"input": 3, "output": 1},
    }
    found = only(lines(whole))
    assert (found.id, words(found), found.turns[0].reply().usage) == ("s", [("Ask.", "Answer.")], Usage(3, 1))


def test_spans_without_what_was_said_say_how_to_get_it() -> None:
    spans = (SAMPLES / "otel_events.jsonl").read_text().splitlines()[0]
    with pytest.raises(UsageError) as caught:
        read_bytes(spans.encode(), "spans.json")
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in (caught.value.hint or "")


def test_a_folder_is_all_its_files_and_equal_ids_get_numbers(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b/c.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((SAMPLES / "pi.jsonl").read_bytes())
    (tmp_path / "notes.txt").write_text("no transcript")
    first, second = read_transcripts([tmp_path])
    assert second.id == f"{first.id}-2"
    assert second.source == str(tmp_path / "b/c.jsonl")


# Branches and events


def spoken(id: str, parent: str | None, role: str, content: Any, **more: Any) -> Raw:
    message = {"role": role, "content": content, **more.pop("message", {})}
    return {"type": role, "uuid": id, "parentUuid": parent, "sessionId": "s", "message": message, **more}


@pytest.mark.slow
def test_many_conversations_of_one_id_get_numbers_in_bounded_time(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": "No."}]
    (tmp_path / "talk.jsonl").write_bytes(lines(*({"id": "a", "messages": messages} for _ in range(30_000))))
    started = time.process_time()
    found = read_transcripts([tmp_path / "talk.jsonl"])
    assert time.process_time() - started < 15  # it was a minute
    assert [found[0].id, found[1].id, found[-1].id] == ["a", "a-2", "a-30000"]


def test_numbers_of_equal_ids_are_no_other_ids() -> None:
    taken: dict[str, int] = {}
    assert [own_id(id, taken) for id in ("a", "a-2", "a", "a", "a-2")] == ["a", "a-2", "a-3", "a-4", "a-2-2"]


def test_an_id_that_is_a_book_is_none() -> None:
    messages = [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": "No."}]
    [found] = read_bytes(lines({"id": "a" * 5000, "messages": messages}), "talk.jsonl")
    assert found.id == "talk-1"


def test_of_many_types_that_are_not_known_some_are_told() -> None:
    [found] = read_bytes(
        (SAMPLES / "pi.jsonl").read_bytes() + lines(*({"type": f"t{n}"} for n in range(99))), "pi.jsonl"
    )
    told = not_understood([found])
    assert (len(told), told[0], told[-1]) == (
        21,
        "not understood: 1 event of type `t0`",
        "not understood: 79 more types of events",
    )


def test_claude_reads_the_branch_of_the_last_message() -> None:
    found = only(
        lines(
            spoken("1", None, "user", "Ask."),
            spoken("2", "1", "assistant", [{"type": "text", "text": "Wrong."}]),
            spoken("3", "2", "user", "No."),
            spoken("4", "1", "assistant", [{"type": "text", "text": "Right."}]),
            spoken("5", "4", "user", "Thanks."),
            spoken("6", "1", "user", "What a helper was told.", isSidechain=True),
            spoken("7", "5", "assistant", "Welcome."),
        )
    )
    assert words(found) == [("Ask.", "Right."), ("Thanks.", "Welcome.")]
    assert [note.split(" are")[0] for note in found.notes] == [
        "1 messages of sub-agents (sidechains)",
        "2 messages of other branches",
    ]


def test_claude_counts_a_message_of_several_lines_once_and_finds_results_beside_the_branch() -> None:
    def part(id: str, parent: str, block: Raw) -> Raw:
        usage = {"input_tokens": 10, "output_tokens": 5}
        return spoken(id, parent, "assistant", [block], message={"id": "m", "usage": usage})

    def result(id: str, parent: str, call: str) -> Raw:
        return spoken(id, parent, "user", [{"type": "tool_result", "tool_use_id": call, "content": f"of {call}"}])

    denied = {**result("r2", "c2", "b"), "permissionDecision": {"decision": "reject"}}
    found = only(
        lines(
            spoken("q", None, "user", "Ask."),
            part("c1", "q", {"type": "tool_use", "id": "a", "name": "look", "input": {}}),
            part("c2", "c1", {"type": "tool_use", "id": "b", "name": "look", "input": {}}),
            result("r1", "c1", "a"),
            denied,
            spoken("e", "r2", "assistant", "Done."),
        )
    )
    reply = found.turns[0].reply()
    assert reply.usage == Usage(10, 5)
    assert [(call.result, call.status) for call in reply.tool_calls] == [("of a", "completed"), ("of b", "denied")]


def test_claude_reads_many_sessions_of_one_file_in_bounded_time() -> None:
    def session(number: int) -> list[Raw]:
        asked = {**spoken(f"{number}a", None, "user", f"Ask {number}."), "sessionId": f"s{number}"}
        answered = {**spoken(f"{number}b", f"{number}a", "assistant", "Answer."), "sessionId": f"s{number}"}
        return [asked, answered]

    title = {"type": "summary", "summary": "About asking", "leafUuid": "0b"}
    found = read_bytes(lines(title, *(line for number in range(3000) for line in session(number))), "talk.jsonl")
    assert [one.id for one in found[:2]] == ["s0", "s1"]
    assert len(found) == 3000
    assert (found[0].title, found[-1].title) == ("Ask 0.", "About asking")


def test_claude_refuses_sessions_that_all_go_on_with_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rejoinder.transcripts.claude.MOST_IN_BRANCHES", 50)
    first = [spoken("0", None, "user", "Ask."), *(spoken(f"{n}", f"{n - 1}", "assistant", "So.") for n in range(1, 20))]
    later = [{**spoken(f"x{n}", "19", "user", "And?"), "sessionId": f"s{n}"} for n in range(3)]
    with pytest.raises(UsageError, match="has sessions of more than 50 lines in all"):
        read_bytes(lines(*first, *later), "talk.jsonl")
    assert len(read_bytes(lines(*first, *later[:2]), "talk.jsonl")) == 2


def test_codex_without_records_takes_tokens_from_its_totals() -> None:
    values = [json.loads(line) for line in (SAMPLES / "codex.jsonl").read_text().splitlines()]
    found = only(lines(*(value for value in values if value["type"] != "token_usage_record")))
    assert [turn.reply().usage for turn in found.turns] == [Usage(150, 7, reasoning_tokens=2, cached_tokens=30)] * 2


def test_codex_takes_no_words_of_the_program_for_the_user() -> None:
    def item(role: str, text: str) -> Raw:
        content = [{"type": "input_text", "text": text}]
        return {"type": "response_item", "payload": {"type": "message", "role": role, "content": content}}

    found = only(
        lines(
            item("user", "<environment_context>\n  <cwd>/srv</cwd>\n</environment_context>"),
            item("user", "Ask."),
            item("assistant", "Answer."),
            {"type": "event_msg", "payload": {"type": "agent_message", "message": "Answer."}},
        )
    )
    assert words(found) == [("Ask.", "Answer.")]


def test_pi_reads_the_branch_of_the_last_message() -> None:
    def entry(id: str, parent: str | None, role: str, text: str) -> Raw:
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        return {"type": "message", "id": id, "parentId": parent, "message": message}

    head = {"type": "session", "id": "s"}
    found = only(
        lines(
            head,
            entry("1", None, "user", "Ask."),
            entry("2", "1", "assistant", "Wrong."),
            entry("3", "1", "assistant", "Right."),
        )
    )
    assert words(found) == [("Ask.", "Right.")]
    assert found.notes[0].startswith("1 messages of other branches are left out")


def test_gemini_plays_its_log() -> None:
    def message(id: str, kind: str, text: str, **more: Any) -> Raw:
        return {"id": id, "type": kind, "content": [{"text": text}], **more}

    call = {
        "id": "c",
        "name": "look",
        "args": {},
        "status": "error",
        "result": [{"functionResponse": {"response": {}}}],
    }
    found = only(
        lines(
            {"sessionId": "s", "projectHash": "p", "startTime": "2026-11-15T10:00:00Z"},
            message("1", "user", "Ask."),
            message("2", "gemini", "Half an answer"),
            message("2", "gemini", "Half an answer, and the rest.", toolCalls=[call]),
            message("3", "user", "Taken back."),
            {"$rewindTo": "3"},
            {"$set": {"summary": "About asking"}},
        )
    )
    assert words(found) == [("Ask.", "Half an answer, and the rest.")]
    assert found.turns[0].reply().tool_calls[0].status == "failed"
    assert found.title == "About asking"


@pytest.mark.slow
def test_gemini_plays_a_log_of_many_changes_in_bounded_time() -> None:
    talk = [{"id": f"{n}", "type": "user" if n % 2 == 0 else "gemini", "content": "So."} for n in range(10_000)]
    rewinds = [{"$rewindTo": "9999"}, talk[-1]] * 30_000
    keys = [{"$set": {f"{n} {m}": "x" for m in range(5)}} for n in range(10_000)]
    started = time.process_time()
    found = only(lines({"sessionId": "s", "projectHash": "p"}, *talk, *rewinds, *keys))
    assert time.process_time() - started < 20  # it was minutes
    assert (len(found.turns), len(found.keys) < 500) == (5000, True)
    assert found.notes == ("30000 messages that the log took back are left out",)


def test_spans_of_several_conversations_are_told_apart() -> None:
    document = json.loads((SAMPLES / "openinference.json").read_text())
    trace = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
    other = json.loads(json.dumps(document).replace("weather-desk-7", "weather-desk-9").replace(trace, "d" * 32))
    found = read_bytes(lines(document, other), "spans.jsonl")
    assert [(one.id, len(one.turns)) for one in found] == [("weather-desk-7", 2), ("weather-desk-9", 2)]


# Broken files


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "talk.jsonl is empty"),
        (b"\xff\xfe{}", "talk.jsonl:1: this is not UTF-8 text"),
        (b"hello", "talk.jsonl:1: this is not JSON"),
        (b"42", "talk.jsonl holds a number, not a conversation"),
        (b'{"a": 1}\n{"b": \n{"c": 2}\n', "talk.jsonl:2: this is not JSON"),
        (
            b'{"a": 1, "b": 2}',
            "talk.jsonl is not in a known transcript format: it holds a mapping with the keys `a`, `b`",
        ),
        (b'[{"x": 1}]', "it holds a list of mappings with the keys `x`"),
        (b'{"messages": [{"role": "assistant", "content": "x"}]}', "it contains no user message"),
        (b"[" * 150 + b"]" * 150, "nested more than 100 deep"),
        (b"[" * 100_000, "nested more than 100 deep"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(data: bytes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_bytes(data, "talk.jsonl")
    assert said in caught.value.message


def test_a_file_that_two_formats_fit_asks_which() -> None:
    data = (SAMPLES / "otel.json").read_text().replace("server.address", "openinference.span.kind")
    with pytest.raises(UsageError, match=r"could be `otel` .* and `openinference`"):
        read_bytes(data.encode(), "spans.json")
    assert read_bytes(data.encode(), "spans.json", "otel")


def test_a_format_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(UsageError, match="there is no transcript format `codx`; did you mean `codex`"):
        read_transcripts([SAMPLES / "codex.jsonl"], "codx")


def test_numbers_that_no_clock_shows_are_no_times() -> None:
    # Half a character is read by Python's own reader, which has numbers of any size.
    asked = b'{"role": "user", "content": "Rain? \\ud800", "timestamp": ' + b"9" * 400 + b"}"
    answered = b'{"role": "assistant", "content": "Yes.", "timestamp": NaN}'
    [found] = read_bytes(b'{"messages": [' + asked + b"," + answered + b"]}", "talk.json")
    assert [one.at for one in found.messages] == [None, None]


def test_half_a_line_at_the_end_is_kept_and_said() -> None:
    [found] = read_bytes((SAMPLES / "pi.jsonl").read_bytes() + b'{"type": "mess', "pi.jsonl")
    assert [(one.type, one.raw) for one in found.unknown] == [("half a line at the end", ('{"type": "mess',))]


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(transcript_files, "LONGEST_LINE", 1000)
    with pytest.raises(UsageError, match=r"talk.jsonl:2: this line has [\d,]+ bytes, and at most 1,000 are read"):
        read_bytes(lines({"a": 1}, {"b": "x" * 2000}, {"c": 1}), "talk.jsonl")
    monkeypatch.setattr("rejoinder.transcripts.draft.MOST_MESSAGES", 2)
    with pytest.raises(UsageError, match="has more than 2 messages"):
        sample("otel.json")
    monkeypatch.setattr(transcript_files, "MOST_LINES", 3)
    with pytest.raises(UsageError, match="has more than 3 lines"):
        read_bytes(lines({}, {}, {}, {}), "talk.jsonl")
    monkeypatch.setattr(transcript_files, "MOST_VALUES", 5)
    with pytest.raises(UsageError, match="holds more than 5 values"):
        read_bytes(b"[[],[],[]]", "talk.json")
    monkeypatch.setattr(transcript_files, "MOST_BYTES", 10)
    (tmp_path / "talk.json").write_text("x" * 20)
    with pytest.raises(UsageError, match="has 20 bytes, and at most 10 are read"):
        read_transcripts([tmp_path / "talk.json"])


def test_files_that_are_not_there_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        read_transcripts([tmp_path / "nothing.json"])
    with pytest.raises(UsageError, match="has no file that ends with"):
        read_transcripts([tmp_path])


def readable(data: bytes, format: str | None = None) -> None:
    """Reads bytes, or says why not. What was read can be gone through."""
    try:
        found = read_bytes(data, "talk", format)
    except UsageError as error:
        assert error.message.startswith("talk")
        return
    for one in found:
        for turn in one.turns:
            turn.reply()
            assert turn.prompt is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@bounded(100)
@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    readable(data)


ENTRIES = {name: transcript_files.parse((SAMPLES / name).read_bytes(), name).values for name in EXPECTED}


@bounded(250)
@given(st.data())
def test_real_files_with_changes_are_read_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(ENTRIES)))
    values = json.loads(json.dumps(ENTRIES[name]))
    for _ in range(data.draw(st.integers(1, 4))):
        _change(values, data)
    format = EXPECTED[name][0]
    readable(lines(*values), data.draw(st.sampled_from([None, format])))


def _change(value: Any, data: st.DataObject) -> None:
    """Put something else in one place of a value, or take the place away."""
    holder: Any = value
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        inner = holder[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.integers(0, 5)):
            holder = inner
            continue
        if data.draw(st.booleans()):
            holder[key] = data.draw(json_values)
        else:
            del holder[key]
        return
