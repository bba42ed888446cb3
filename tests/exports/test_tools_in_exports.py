"""Calls of tools in every form for other tools: what was called, with what, and what came of it."""

from __future__ import annotations

import csv
import io
import json

from rejoinder.exports.toon import tables
from rejoinder.model.messages import ToolCall
from tests.kit import Raw
from tests.report.exports import MadeRun, check, failed, made_run, result, turn, written

STOCK = ToolCall("stock", '{"item": "kettle"}', "c1", '{"pieces": 3}', "completed", 1794830401.5, 0.25, "shop")
LATE = ToolCall("stock", '{"item": "pan"}', "", "the tool did not answer within 5 s", "failed", fault="timeout")
LEFT = ToolCall("order", "{}", "c3", None, "pending")


def lost(*calls: ToolCall) -> MadeRun:
    said = turn("plenty", passed=False, tool_calls=calls, checks=(check(False),))
    changes = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}
    return made_run([result("kettles", said, **changes)])


RUN = lost(STOCK, LATE, LEFT)
SHOWN = """\
  tool stock of shop
  | {"item": "kettle"}
  result
  | {"pieces": 3}
  tool stock (failed, timeout on purpose)
  | {"item": "pan"}
  result
  | the tool did not answer within 5 s
  tool order (pending)
  | {}
  reply
  | plenty
"""


def test_markdown_shows_each_call_before_the_reply() -> None:
    assert SHOWN in written("markdown", RUN)


def test_ctrf_and_junit_have_the_same_transcript() -> None:
    [test] = json.loads(written("ctrf", RUN))["results"]["tests"]
    assert SHOWN in "\n".join(test["stdout"]) + "\n"
    assert test["steps"][0]["extra"]["tools"] == [
        {"name": "stock", "server": "shop", "status": "completed"},
        {"name": "stock", "status": "failed", "fault": "timeout"},
        {"name": "order", "status": "pending"},
    ]
    assert SHOWN in written("junit", RUN)


def test_transcripts_are_bounded_in_number_and_length_of_calls() -> None:
    long = ToolCall("look", "a" * 100_000, "", "b" * 100_000, "completed")
    text = written("markdown", lost(*[long] * 50))
    assert len(text) < 60_000
    assert "characters left out" in text
    assert "  and 30 more calls of tools\n" in text


def test_csv_names_the_tools() -> None:
    [row] = csv.DictReader(io.StringIO(written("csv", RUN)))
    assert row["tools"] == "stock, stock (failed, timeout on purpose), order (pending)"
    [row] = csv.DictReader(io.StringIO(written("csv", made_run([failed()]))))
    assert row["tools"] == ""


def test_toon_has_a_table_of_calls_where_there_are_any() -> None:
    first, second, third = tables(RUN)["tool_calls"]
    assert first == {
        "result": 1, "turn": 1, "tool": "stock", "server": "shop", "arguments": '{"item": "kettle"}',
        "answer": '{"pieces": 3}', "status": "completed", "fault": None,
    }  # fmt: skip
    assert (second["fault"], third["answer"]) == ("timeout", None)
    assert "tool_calls" not in tables(made_run([failed()]))


def spans(run: MadeRun) -> list[Raw]:
    [resource] = json.loads(written("otlp", run))["resourceSpans"]
    return resource["scopeSpans"][0]["spans"]


def attributes(span: Raw) -> Raw:
    return {entry["key"]: next(iter(entry["value"].values())) for entry in span["attributes"]}


def test_each_call_that_was_made_is_a_span_below_its_turn() -> None:
    _, chat, stock, late = spans(RUN)
    assert stock["parentSpanId"] == late["parentSpanId"] == chat["spanId"]
    assert len({span["spanId"] for span in (chat, stock, late)}) == 3
    assert (stock["name"], stock["kind"], stock["status"]) == ("execute_tool stock", 1, {"code": 0})
    shown = attributes(stock)
    del shown["gen_ai.conversation.id"]
    assert shown == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "stock",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"item": "kettle"}',
        "gen_ai.tool.call.result": '{"pieces": 3}',
        "rejoinder.tool.server": "shop",
        "rejoinder.tool.status": "completed",
    }
    assert late["status"] == {"code": 2, "message": "the tool did not answer within 5 s"}
    assert attributes(late)["error.type"] == "timeout"


def test_a_span_of_a_call_lies_within_its_turn() -> None:
    far = ToolCall("look", "{}", "", "a", "completed", 9e12, 9e9)
    for call in (STOCK, far, ToolCall("look", "{}", "", "a", "completed", 0.0, 0.5)):
        _, chat, tool = spans(lost(call))
        times = [int(one[key]) for one, key in ((chat, "start"), (tool, "start"), (tool, "end"), (chat, "end"))
                 for key in (f"{key}TimeUnixNano",)]  # fmt: skip
        assert times == sorted(times)
    _, _, tool = spans(lost(STOCK))
    assert int(tool["endTimeUnixNano"]) - int(tool["startTimeUnixNano"]) == 250_000_000


def test_what_was_called_and_answered_are_parts_of_the_turns_messages() -> None:
    _, chat, *_ = spans(RUN)
    [message] = json.loads(attributes(chat)["gen_ai.output.messages"])
    kinds = [part["type"] for part in message["parts"]]
    assert kinds == ["tool_call", "tool_call_response", "tool_call", "tool_call_response", "tool_call", "text"]
    assert message["parts"][1] == {
        "type": "tool_call_response", "id": "c1", "status": "completed", "response": '{"pieces": 3}'
    }  # fmt: skip


def test_inspect_has_messages_of_tools_with_what_failed() -> None:
    [sample] = json.loads(written("inspect", RUN))["samples"]
    _, asked, stock, late, reply = sample["messages"]
    assert [call["id"] for call in asked["tool_calls"]] == ["c1", "call-1-2"]
    assert (stock["tool_call_id"], stock["content"], stock["metadata"]) == ("c1", STOCK.result, {"server": "shop"})
    assert (late["tool_call_id"], late["error"]["type"], late["metadata"]) == (
        "call-1-2",
        "timeout",
        {"fault": "timeout"},
    )
    assert [call["function"] for call in reply["tool_calls"]] == ["order"]
    assert "error" not in stock


def test_an_answer_without_a_status_is_no_failure() -> None:
    [sample] = json.loads(written("inspect", lost(ToolCall("look", "{}", "c1", "found"))))["samples"]
    assert "error" not in sample["messages"][2]
