"""`reply`: which part of a reply is checked, and what becomes of checks if the part is missing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.checks.parts import strip_reply
from rejoinder.model import CHECKS
from rejoinder.model.checks import ReplyPart
from rejoinder.testing import Answer, FakeServer
from tests.kit import Project, Raw, behind, bounded, essence, follow, refused, run, scripted, spec
from tests.labs.check_lab import run_one

ANSWER = {"regex": r"(?m)^Answer: (.*)$"}
SAID = "I think it is not 70, but:\nAnswer: 72\nNot 70!"
THOUGHT = "<think>maybe 70\n</think>\n\n72"
FENCED = '```json\n{"city": "Rome"}\n```\n'


@pytest.mark.parametrize(
    ("reply", "raw", "check", "passed"),
    [
        (ANSWER, SAID, {"equals": "72"}, True),
        (ANSWER, SAID, {"not": {"contains": "70"}}, True),
        (ANSWER, SAID, {"contains": "70"}, False),
        (ANSWER, SAID, {"max_words": 1}, True),
        ({"regex": "Answer: .*"}, SAID, {"equals": "Answer: 72"}, True),
        ({"json_path": "$.city"}, FENCED, {"equals": "Rome"}, True),
        ({"json_path": "$.size"}, '{"size": {"km": 2}}', {"json_path": {"path": "$.km", "equals": 2}}, True),
        ({"json_path": "$.n"}, '{"n": 3}', {"equals": "3"}, True),
        ({"strip": ["thinking"]}, THOUGHT, {"equals": "72"}, True),
        ({"strip": ["thinking"]}, "so 70</think> 72", {"equals": "72"}, True),
        ({"strip": ["thinking"]}, "A <THINKING>70</THINKING> B <think>x", {"equals": "A  B"}, True),
        ({"strip": ["thinking"]}, "72 </b>, 73", {"equals": "72 </b>, 73"}, True),
        ({"strip": ["fences"]}, FENCED, {"is_json": True}, True),
        ({"strip": ["fences"]}, "See:\n~~~\na\n~~~\nb `c`", {"equals": "See:\na\nb `c`"}, True),
        ({"strip": ["fences"]}, "```js\nlet a = `b`\n```", {"equals": "let a = `b`"}, True),
        ({"strip": ["fences", "thinking"]}, f"<think>```\n</think>{FENCED}", {"is_json": True}, True),
        ({"strip": ["thinking"], **ANSWER}, f"<think>\nAnswer: 70\n</think>\n{SAID}", {"equals": "72"}, True),
        ("whole", SAID, {"contains": "70"}, True),
    ],
)
def test_checks_see_the_part(project: Project, reply: Any, raw: str, check: Raw, passed: bool) -> None:
    result = run_one(project, [check], raw, reply=reply)
    [turn] = result["turns"]
    assert turn["checks"][0]["passed"] is passed, turn
    assert turn["response"] == raw


MISSING = "the reply has no part that `reply` ((?m)^Answer: (.*)$) finds"
SOME: dict[str, Any] = {
    **{kind: ["x"] for kind in ("contains_any", "contains_all", "icontains_any", "icontains_all", "rubric")},
    **dict.fromkeys(("max_words", "min_words"), 0),
    **dict.fromkeys(("is_json", "contains_json", "is_refusal", "is_xml"), False),
    **{kind: {} for kind in ("faithful", "relevant", "complete")},
    "not_match": "*x*",
    "json_schema": {"type": "object"},
    "levenshtein": {"expected": "x", "max": 2000},
    **{kind: {"expected": "x", "threshold": 0} for kind in ("rouge_l", "similar", "semantic")},
    "compare": {"reply": "x"},
    "field_accuracy": {"fields": {"a": {"expected": 1}}, "threshold": 0},
    "python": "checks:polite",
    "webhook": "http://127.0.0.1:1/x",
    "check": "polite",
    "code": "true",
    "json_path": "$.a",
    "not": {"contains": "x"},
    "or": [{"not": {"contains": "x"}}, {"max_words": 5}],
    "and": [{"not": {"or": [{"contains": "x"}, {"contains": "y"}]}}],
    "group": {"checks": [{"not_match": "*x*"}, {"max_words": 5}], "at_least": 1},
}
TEXT_CHECKS = [name for name, kind in CHECKS.items() if kind.of_text or name in ("not", "or", "and", "group")]


@pytest.mark.parametrize("kind", TEXT_CHECKS)
def test_no_check_passes_without_the_part(project: Project, kind: str) -> None:
    """Not even one that forbids something, and nothing is asked about a text that is not there."""
    project.write(".rejoinder/checks.py", "import rejoinder\n@rejoinder.check\ndef polite(evidence): return True\n")
    project.write("checks.py", "def polite(evidence): return True\n")
    result = run_one(project, [{kind: SOME.get(kind, "x")}], "It is fine.", judge=[], reply=ANSWER, context="Fine.")
    [verdict] = result["turns"][0]["checks"]
    assert result["status"] == "failed" and verdict["score"] == 0 and not verdict.get("error")
    assert MISSING in str(verdict)


def test_checks_of_other_things_than_the_text_are_as_ever(project: Project) -> None:
    checks = [{"max_tokens": 10}, {"not": {"finish_reason": "length"}}, {"not": {"tool_calls": ["pay"]}}]
    result = run_one(project, checks, "It.", reply=ANSWER)
    assert [one["passed"] for one in result["turns"][0]["checks"]] == [True, True, True]
    either = run_one(project, [{"or": [{"contains": "x"}, {"max_tokens": 10}]}], "It.", reply=ANSWER)
    assert either["status"] == "passed"


@pytest.mark.parametrize(
    ("reply", "raw"),
    [
        ({"json_path": "$.city"}, "no JSON"),
        ({"json_path": "$.town"}, FENCED),
        ({"json_path": "$.city"}, '{"city": " "}'),
        ({"strip": ["thinking"]}, "<think>cut off"),
        ({"strip": ["fences"]}, "```\n```"),
        ({"regex": "Answer:(.*)"}, "Answer: "),
        ({"regex": "x"}, ""),
    ],
)
def test_empty_part_is_a_missing_one(project: Project, reply: Raw, raw: str) -> None:
    result = run_one(project, [{"not": {"contains": "x"}}], raw, reply=reply)
    assert result["status"] == "failed" and "the reply has no part that `reply`" in str(result["turns"][0]["checks"])


def test_part_that_cannot_be_looked_for_is_an_error(project: Project) -> None:
    slow = run_one(project, [{"not": {"contains": "x"}}], "a" * 5_000, reply={"regex": "(a+)+b"})
    assert slow["status"] == "error" and "took more than 1 s" in slow["error"]["message"]
    many = run_one(project, [{"contains": "x"}], '{"a": ' * 60 + "1" + "}" * 60, reply={"json_path": "$" + "..*" * 9})
    assert many["status"] in ("error", "failed")


TAGS = ["<think>", "</think>", "```\n", "~~~ js\n", "\n", " ", "ab", "c", "ß"]


@spec("P39")
@given(raw=st.lists(st.sampled_from(TAGS), max_size=12).map("".join), text=st.sampled_from(["ab", "c", "b", "ß"]))
@bounded(150)
def test_places_in_the_part_are_places_in_the_reply(raw: str, text: str) -> None:
    taken = strip_reply(ReplyPart(strip=("fences", "thinking")), raw)
    assert taken.places is not None
    assert "".join(raw[place : place + size] for _, place, size in taken.places) == taken.text
    assert [start for start, _, _ in taken.places] == sorted({start for start, _, _ in taken.places})
    start = taken.text.find(text)
    if start >= 0 and len(text) == 1:
        low, high = taken.place((start, start + 1), taken.places)
        assert raw[low:high] == text


@spec("P39")
def test_evidence_is_shown_in_the_whole_reply(project: Project) -> None:
    result = run_one(project, [{"contains": "72"}, {"not": {"contains": "7"}}], SAID, reply=ANSWER)
    first, second = result["turns"][0]["checks"]
    assert [SAID[low:high] for low, high in first["spans"]] == ["72"]
    assert (
        [SAID[low:high] for low, high in second["spans"]]
        == ["7"]
        == [SAID[a:b] for a, b in second["children"][0]["spans"]]
    )
    unplaced = run_one(project, [{"contains": "Rome"}], FENCED, reply={"json_path": "$.city"})
    assert not unplaced["turns"][0]["checks"][0].get("spans")
    assert unplaced["turns"][0]["part"] == "Rome"


def test_conversation_has_the_whole_reply_and_judges_see_the_part(project: Project) -> None:
    said = iter([SAID, '{"score": 0, "reasoning": "no"}', "Answer: 73", '{"score": 1}'])
    with FakeServer(lambda _: Answer(next(said))) as server:
        again = follow("You said: {{ response }}", {"llm_judge": "Right?"})
        suite = {
            "target": "it",
            "targets": [behind(server, "it"), behind(server, "judge")],
            "judge_target": "judge",
            "reply": ANSWER,
            "metadata": {"threads": 1},
            "evals": [{"id": "a", "prompt": "Q", "checks": [{"llm_judge": "Right?"}, again]}],
        }
        document = run(project, suite)
        sent = [request.body["messages"] for request in server.requests]
    assert document["results"][0]["status"] == "passed"
    assert sent[1][-1]["content"].endswith("[[ ## candidate_answer ## ]]\n72")
    assert [message["content"] for message in sent[2]][-2:] == [SAID, f"You said: {SAID}"]
    assert SAID in sent[3][-1]["content"] and sent[3][-1]["content"].endswith("\n73")


def test_turns_win_over_cases_and_cases_over_the_suite(project: Project) -> None:
    replies = ["a: 1\nb: 2\nc: 3"] * 3
    turns = [
        {"prompt": "one", "checks": [{"equals": "2"}]},
        {"prompt": "two", "reply": {"regex": "c: (.)"}, "checks": [{"equals": "3"}]},
        {"prompt": "three", "reply": "whole", "checks": [{"contains": "a: 1"}]},
    ]
    evals = [
        {"id": "suite", "prompt": "Q", "checks": [{"equals": "1"}]},
        {
            "id": "case",
            "reply": {"regex": "b: (.)"},
            "turns": turns,
            "conversation_checks": [{"always": {"regex": "."}}],
        },
        {"id": "whole", "reply": "whole", "prompt": "Q", "checks": [{"contains": "c: 3"}]},
    ]
    targets = [scripted("it", *replies)]
    document = run(project, {"target": "it", "targets": targets, "reply": {"regex": "a: (.)"}, "evals": evals})
    assert [result["status"] for result in document["results"]] == ["passed"] * 3
    assert [turn.get("part") for turn in document["results"][1]["turns"]] == ["2", "3", None]


def test_checks_over_time_see_the_part_of_each_turn(project: Project) -> None:
    turns = [{"prompt": "one", "checks": [{"min_words": 1}]}, {"prompt": "two", "reply": {"regex": "b: (.)"}}]
    whole = [{"never": {"contains": "x"}}, {"contains": "2"}, {"on": "transcript", "contains": "x"}]
    case = {"id": "a", "reply": {"regex": "a: (.)"}, "turns": turns, "conversation_checks": whole}
    document = run(project, {"target": "it", "targets": [scripted("it", "x a: 1", "x b: 2")], "evals": [case]})
    assert [one["passed"] for one in document["results"][0]["conversation_checks"]] == [True, True, True]
    lacking = run(project, {"target": "it", "targets": [scripted("it", "x a: 1", "nothing")], "evals": [case]})
    never, last, transcript = lacking["results"][0]["conversation_checks"]
    assert (last["passed"], transcript["passed"]) == (False, True)
    assert never["passed"] is False and "turn 2: the reply has no part" in never["reason"]


@pytest.mark.parametrize(
    ("rule", "passed"),
    [
        ({"never": {"contains": "x"}}, False),
        ({"never": {"or": [{"contains": "x"}, {"finish_reason": "length"}]}}, False),
        ({"never": {"finish_reason": "length"}}, True),
        ({"always": {"contains": "1"}}, False),
        ({"always": {"not": {"contains": "x"}}}, False),
        ({"by_turn": {"turn": 2, "check": {"contains": "1"}}}, True),
        ({"after": {"when": {"contains": "x"}, "then": {"contains": "1"}}}, False),
        ({"after": {"when": {"contains": "1"}, "then": {"contains": "2"}}}, False),
        ({"before": {"first": {"contains": "1"}, "second": {"contains": "x"}}}, True),
        ({"before": {"first": {"contains": "2"}, "second": {"contains": "x"}}}, False),
    ],
)
def test_rule_that_forbids_something_needs_the_part(project: Project, rule: Raw, passed: bool) -> None:
    turns = [{"prompt": "one", "checks": [{"min_tokens": 0}]}, {"prompt": "two"}]
    case = {"id": "a", "reply": {"regex": "a: (.)"}, "turns": turns, "conversation_checks": [rule]}
    document = run(project, {"target": "it", "targets": [scripted("it", "a: 1", "nothing")], "evals": [case]})
    assert document["results"][0]["conversation_checks"][0]["passed"] is passed


def test_extracted_values_come_from_the_part(project: Project) -> None:
    turns = [
        {"prompt": "one", "extract": {"number": {"regex": "[0-9]+"}}, "reply": ANSWER},
        {"prompt": "Not {{ number }}?", "checks": [{"match": "*"}]},
    ]
    evals = [{"id": "a", "turns": turns}]
    document = run(project, {"target": "it", "targets": [scripted("it", SAID, "yes")], "evals": evals})
    assert document["results"][0]["turns"][1]["prompt"] == "Not 72?"


PARTS = """\
def last_line(evidence):
    return evidence.reply.splitlines()[-1] if evidence.vars["on"] else None

async def number(evidence):
    return 7

def broken(evidence):
    raise ValueError("no")
"""


def by_function(name: str, *replies: str, on: bool = True, checks: list[Raw] | None = None) -> Raw:
    case = {"id": "a", "prompt": "Q", "vars": {"on": on}, "checks": checks or [{"not": {"contains": "70"}}]}
    reply = {"python": f"parts:{name}"}
    return {"target": "it", "targets": [scripted("it", *replies)], "reply": reply, "evals": [case]}


def test_function_returns_the_part_and_is_recorded(project: Project) -> None:
    project.write("parts.py", PARTS)
    whole = [{"always": {"equals": "72"}}]
    suite = by_function("last_line", "70\n72", checks=[{"equals": "72"}])
    suite["evals"][0]["conversation_checks"] = whole
    document = run(project, suite)
    assert document["results"][0]["status"] == "passed" and document["results"][0]["turns"][0]["part"] == "72"
    journal = next((project.folder / ".rejoinder" / "runs").glob("*/journal.jsonl")).read_text(encoding="utf-8")
    assert journal.count('"work-') == 2, "asked and told once, however often the reply is checked"
    (project.folder / "parts.py").unlink()
    assert essence(project.run_json("show", "last")) == essence(document)


@pytest.mark.parametrize(
    ("name", "on", "status", "words"),
    [
        ("last_line", False, "failed", "the reply has no part that `reply` (parts:last_line) finds"),
        ("number", True, "error", "`parts:number` returned a int; a text is expected"),
        ("broken", True, "error", "`parts:broken` raised ValueError: no"),
        ("absent", True, "error", "absent"),
    ],
)
def test_function_without_a_part(project: Project, name: str, on: bool, status: str, words: str) -> None:
    project.write("parts.py", PARTS)
    [result] = run(project, by_function(name, "70\n72", on=on))["results"]
    assert result["status"] == status
    assert words in str(result["error"] or result["turns"][0]["checks"])


def test_function_is_code_of_the_project(project: Project) -> None:
    project.write("parts.py", PARTS)
    project.write("evals.yaml", by_function("last_line", "72"))
    assert "runs code of the project" in str(refused(project, "run", "evals.yaml", "--no-code"))
    missing = by_function("last_line", "72")
    missing["reply"]["python"] = "nothere:f"
    [error] = project.errors(missing)
    assert (error["code"], error["path"]) == ("file-not-found", "reply.python")


def test_new_grades_take_another_part(project: Project) -> None:
    suite: Raw = {"target": "it", "targets": [scripted("it", SAID)]}
    suite["evals"] = [{"id": "a", "prompt": "Q", "checks": [{"equals": "72"}]}]
    assert run(project, suite)["results"][0]["status"] == "failed"
    project.write("evals.yaml", {**suite, "reply": ANSWER})
    graded = project.run_json("grade", "last", code=None)
    assert "passed" in str(graded)
    project.run("show", "last")


def test_terminal_shows_the_checked_part(project: Project) -> None:
    run_one(project, [{"equals": "72"}], SAID, reply=ANSWER)
    assert "    Checked: 72\n" in project.run("show", "last", "-v")


def test_column_of_a_data_set_named_reply_is_a_variable(project: Project) -> None:
    project.write("rows.csv", "id,prompt,reply\na,Q,hello\n")
    checks = [{"contains": "{{ reply }}"}]
    document = run(
        project, {"target": "it", "targets": [scripted("it", "hello")], "cases": "rows.csv", "checks": checks}
    )
    assert document["results"][0]["status"] == "passed"


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        ({}, "missing-field", "`reply` needs `regex`, `json_path`, `python` or `strip`"),
        ({"regex": "a", "json_path": "$.a"}, "conflicting-keys", "keep one of them"),
        ({"regex": "(a"}, "invalid-regex", "cannot be read"),
        ({"regex": ""}, "empty-pattern", ""),
        ({"json_path": "a"}, "invalid-path", "begins with `$`"),
        ({"python": "parts"}, "out-of-range", "`module:function`"),
        ({"strip": ["fence"]}, "out-of-range", "did you mean `fences`"),
        ({"strip": "fences"}, "wrong-type", "a list"),
        ({"strip": []}, "out-of-range", "must not be empty"),
        ({"strip": ["fences"], "regexp": "a"}, "unknown-key", "did you mean `regex`"),
        ("all", "out-of-range", "must be `whole`"),
        (3, "wrong-type", "`reply`"),
    ],
)
@pytest.mark.parametrize("where", ["suite", "case", "turn"])
def test_mistakes_are_named_at_their_place(project: Project, where: str, reply: Any, code: str, words: str) -> None:
    turn: Raw = {"prompt": "Q", "checks": [{"match": "*"}]}
    case: Raw = {"turns": [turn]}
    suite: Raw = {"target": "scripted/x", "evals": [case]}
    {"suite": suite, "case": case, "turn": turn}[where]["reply"] = reply
    [error] = project.errors(suite)
    assert error["code"] == code and words in error["message"]
    assert error["path"].startswith(
        {"suite": "reply", "case": "evals[0].reply", "turn": "evals[0].turns[0].reply"}[where]
    )
