"""A verdict says where in the reply the check found what it looked for, as P39 wants it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.checks.base import Context
from rejoinder.checks.registry import grade, grade_plain
from rejoinder.model import (
    Check,
    Contains,
    ContainsAll,
    ContainsAny,
    ContainsJson,
    EndsWith,
    Equals,
    IContains,
    IContainsAll,
    IContainsAny,
    IsJson,
    IsRefusal,
    Item,
    JsonPath,
    JsonSchema,
    Match,
    MaxWords,
    Not,
    NotMatch,
    Or,
    Regex,
    Reply,
    StartsWith,
    Verdict,
)
from tests.conftest import Project

spec = pytest.mark.spec
LETTERS = st.sampled_from(["a", "A", "b", "ß", "S", "s", "İ", "i", "ﬁ", "f", "é", "😀", "*", " ", "\n", "\u2003"])
TEXTS = st.lists(LETTERS, max_size=12).map("".join)
WORDS = st.lists(LETTERS, min_size=1, max_size=3).map("".join)


def judge(check: Check, reply: str) -> Verdict:
    context = Context(None, Reply(reply), 1, None)  # type: ignore[arg-type] - none of them looks at more
    verdicts = grade_plain((check,), context)
    [found] = verdicts if verdicts is not None else asyncio.run(grade((check,), context))
    assert all(0 <= start <= end <= len(reply) for start, end in found.spans)
    return found


def texts_of(verdict: Verdict, reply: str) -> list[str]:
    return [reply[start:end] for start, end in verdict.spans]


@spec("P39")
@given(reply=TEXTS, text=WORDS)
def test_span_is_the_text_that_was_found(reply: str, text: str) -> None:
    for check in (Contains(text=text), StartsWith(text=text), EndsWith(text=text)):
        verdict = judge(check, reply)
        assert texts_of(verdict, reply) == ([text] if verdict.passed else [])
    equal = judge(Equals(text=text), reply)
    assert texts_of(equal, reply) == ([reply.strip()] if equal.passed and reply.strip() else [])
    for start, end in judge(StartsWith(text=text), reply).spans:
        assert not reply[:start].strip() and end > start
    for start, end in judge(EndsWith(text=text), reply).spans:
        assert not reply[end:].strip() and end > start


@spec("P39")
@given(reply=TEXTS, text=WORDS)
def test_span_of_any_letter_case_covers_what_was_found(reply: str, text: str) -> None:
    verdict = judge(IContains(text=text), reply)
    assert verdict.passed == (text.casefold() in reply.casefold()) == bool(verdict.spans)
    for found in texts_of(verdict, reply):
        assert text.casefold() in found.casefold()
        if len(found.casefold()) == len(found):
            assert found.casefold() == text.casefold()


@spec("P39")
@given(reply=TEXTS, texts=st.lists(WORDS, min_size=1, max_size=3))
def test_spans_of_lists_are_the_texts_that_were_found(reply: str, texts: list[str]) -> None:
    for kind in (ContainsAny, ContainsAll):
        verdict = judge(kind(texts=tuple(texts)), reply)
        assert sorted(set(texts_of(verdict, reply))) == sorted({text for text in texts if text in reply})
    for kind in (IContainsAny, IContainsAll):
        verdict = judge(kind(texts=tuple(texts)), reply)
        for found in texts_of(verdict, reply):
            assert any(text.casefold() in found.casefold() for text in texts)


@spec("P39")
@given(reply=TEXTS, pieces=st.lists(WORDS | st.just(""), min_size=1, max_size=4))
def test_spans_of_a_pattern_are_its_pieces_in_order(reply: str, pieces: list[str]) -> None:
    pieces = [piece.replace("*", "") for piece in pieces]
    pattern = "*".join(pieces) or "*"
    verdict, contrary = judge(Match(pattern=pattern), reply), judge(NotMatch(pattern=pattern), reply)
    assert verdict.passed is not contrary.passed and verdict.spans == contrary.spans
    assert not verdict.spans or verdict.passed
    if verdict.passed and not pattern.startswith((".*", "^")) and len(reply.casefold()) == len(reply):
        wanted = [piece.casefold() for piece in pieces if piece]
        assert [text.casefold() for text in texts_of(verdict, reply)] == wanted
        assert list(verdict.spans) == sorted(verdict.spans)


@spec("P39")
@given(reply=TEXTS, pattern=st.sampled_from(["a+", "s", "^b", r"\w+", "x*", "(?i)A.", r"\s"]))
def test_span_of_a_regular_expression_is_its_match(reply: str, pattern: str) -> None:
    import regex

    verdict = judge(Regex(pattern=pattern), reply)
    match = regex.search(pattern, reply)
    assert texts_of(verdict, reply) == ([match[0]] if match and match[0] else [])


@pytest.mark.slow
@spec("P39")
@given(
    value=st.dictionaries(st.text("ab", max_size=2), st.integers() | st.text("xß\n", max_size=3), max_size=3),
    before=TEXTS,
)
def test_span_of_json_is_the_json(value: dict[str, Any], before: str) -> None:
    text = msgspec.json.encode(value).decode()
    for reply in (text, f" \n{text} ", f"{before}\n```json\n{text}\n```\n", f"{before} so {text} is it"):
        for check in (ContainsJson(), JsonSchema(document="{}"), JsonPath(path="$"), IsJson(), IsJson(wanted=False)):
            verdict = judge(check, reply)
            assert [msgspec.json.decode(found) for found in texts_of(verdict, reply)] == [value]


@spec("P39")
def test_check_inside_a_json_path_has_no_place_in_the_reply() -> None:
    reply = 'It is {"a": "Lima"}.'
    verdict = judge(JsonPath(path="$.a", check=Contains(text="Lima")), reply)
    assert verdict.passed and texts_of(verdict, reply) == ['{"a": "Lima"}']
    assert verdict.children[0].spans == ()


@spec("P39")
def test_not_points_at_the_forbidden_text() -> None:
    inner = Or(items=(Item(Contains(text="Quito")), Item(IContains(text="LIMA"))))
    verdict = judge(Not(check=inner), " It is Lima.")
    assert not verdict.passed and texts_of(verdict, " It is Lima.") == ["Lima"]
    assert judge(Not(check=inner), "It is Cusco.").spans == ()


@spec("P39")
def test_refusal_is_pointed_at_where_words_refuse() -> None:
    reply = "\n I'm sorry, I can't help."
    assert texts_of(judge(IsRefusal(), reply), reply) == ["I'm sorry"]
    assert judge(IsRefusal(), "").spans == ()


@spec("P39")
def test_kind_and_value_of_a_check_stand_in_its_verdict() -> None:
    words, text = judge(MaxWords(limit=3), "a b"), judge(Contains(text="5"), "5")
    assert (words.kind, words.value, words.check) == ("max_words", 3, "max_words 3")
    assert (text.kind, text.value, text.check) == ("contains", None, "contains 5")
    assert judge(IsJson(wanted=False), "x").check == "is_json false"


@spec("P39")
def test_records_of_checks_name_kind_spans_and_calls(project: Project) -> None:
    judging = {"provider": "scripted", "judge": [1, 0.5, 0], "embeddings": {"*": [1, 0]}}
    checks = [
        {"contains": "Lima"},
        {"llm_judge": {"criteria": "Right?", "votes": 2}},
        {"semantic": {"expected": "Lima", "threshold": 0.5}},
        {"or": [{"llm_judge": {"criteria": "Kind?"}}, {"max_words": 9}]},
        {"code": "echo true"},
    ]
    targets = [{"name": "it", "provider": "scripted", "replies": ["It is Lima."]}, {"name": "judge", **judging}]
    case = {"id": "a", "prompt": "Q", "checks": checks}
    roles = {"target": "it", "execution": {"judge_target": "judge"}, "embedding_target": "judge"}
    project.write("evals.yaml", {"targets": targets, **roles, "evals": [case]})
    document = msgspec.json.decode(project.run("run", "evals.yaml", "--format", "json"))
    contains, judged, meant, either, code = document["results"][0]["turns"][0]["checks"]
    journal = next((project.folder / ".rejoinder" / "runs").glob("*/journal.jsonl")).read_text(encoding="utf-8")
    assert contains["kind"] == "contains" and contains["spans"] == [[6, 10]] and "calls" not in contains
    assert [len(check["calls"]) for check in (judged, meant, either["children"][0], code)] == [2, 2, 1, 1]
    assert "calls" not in either and either["kind"] == "or"
    assert either["children"][1]["value"] == 9
    for check in (judged, meant, either["children"][0], code):
        assert all(key in journal for key in check["calls"])
