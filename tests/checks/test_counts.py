"""How often a text or pattern occurs in a reply: `count` beside a check."""

from __future__ import annotations

import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.checks.patterns import MOST_COUNTED, MOST_MARKED, count_match, count_search, count_texts
from tests.kit import Project, Raw, bounded, codes, follow
from tests.labs.check_lab import run_one, verdicts

LETTERS = st.sampled_from(["a", "A", "b", "ß", "S", "s", "İ", "*", " ", "\n"])
TEXTS = st.lists(LETTERS, max_size=20).map("".join)
WORDS = st.lists(LETTERS.filter(lambda letter: letter != "*"), min_size=1, max_size=3).map("".join)


@pytest.mark.parametrize(
    ("check", "reply", "reason"),
    [
        ({"contains": "ab", "count": 2}, "ab ab", ""),
        ({"contains": "ab", "count": 2}, "ab Ab", "found 1 time; at least 2 needed"),
        ({"contains": "aa", "count": 2}, "aaa", "found 1 time; at least 2 needed"),
        ({"icontains": "ab", "count": 2}, "ab Ab", ""),
        ({"icontains": "ss", "count": {"min": 2, "max": 2}}, "Straße, STRASSE", ""),
        ({"contains": "x", "count": {"max": 2}}, "x x", ""),
        ({"contains": "x", "count": {"max": 2}}, "none", ""),
        ({"contains": "x", "count": {"max": 2}}, "x x x", "found 3 times; at most 2 allowed"),
        ({"contains": "x", "count": {"min": 1, "max": 2}}, "none", "found 0 times; at least 1 needed"),
        ({"contains": "x", "count": {"max": 0}}, "x", "found 1 time; at most 0 allowed"),
        ({"regex": r"\d+", "count": 3}, "1, 22 and 333", ""),
        ({"regex": r"\d*", "count": 2}, "1 a b c", "found 1 time; at least 2 needed"),
        ({"regex": {"pattern": "^- ", "flags": "m"}, "count": {"min": 2, "max": 3}}, "- a\n- b", ""),
        ({"match": "*ab*", "count": 2}, "AB and ab", ""),
        ({"match": "*a*b*", "count": 2}, "a b a b", ""),
        ({"match": "*a*b*", "count": 3}, "a b a b", "found 2 times; at least 3 needed"),
        ({"match": r"*2 \* 3*", "count": 2}, "2 * 3 is 2 * 3", ""),
        ({"match": r"^a\b", "count": 2}, "a\na", "found 1 time; at least 2 needed"),
        ({"not": {"contains": "x", "count": 2}}, "x", ""),
        ({"json_path": {"path": "$.a", "check": {"contains": "x", "count": 2}}}, '{"a": "xx"}', ""),
    ],
)
def test_occurrences_are_counted_without_overlaps(project: Project, check: Raw, reply: str, reason: str) -> None:
    [verdict] = verdicts(project, (check, reply))
    assert verdict["passed"] is not bool(reason)
    assert not reason or verdict["reason"] == reason


def test_every_occurrence_is_a_place_in_the_reply(project: Project) -> None:
    result = run_one(project, [{"match": "*a*b*", "count": 2}], " \na-B a-b!")
    assert result["turns"][0]["checks"][0]["spans"] == [[2, 3], [4, 5], [6, 7], [8, 9]]


@given(reply=TEXTS, text=WORDS)
@bounded(200)
def test_counts_agree_with_pythons_own(reply: str, text: str) -> None:
    assert count_texts((text,), reply)[0] == reply.count(text)
    assert count_texts((text,), reply, any_case=True)[0] == reply.casefold().count(text.casefold())
    assert count_match(f"*{text}*", reply)[0] == reply.casefold().count(text.casefold())
    number, spans = count_search(regex.escape(text), "", reply)
    assert (number, [reply[start:end] for start, end in spans]) == (reply.count(text), [text] * number)
    assert all(0 <= start < end <= len(reply) for start, end in count_match(f"*{text}*", reply)[1])


def test_counting_is_bounded_in_number_and_time(project: Project) -> None:
    number, spans = count_texts(("x",), "x" * 1_000_000)
    assert (number, len(spans)) == (MOST_COUNTED + 1, MOST_MARKED)
    many, slow = verdicts(
        project,
        ({"contains": "x", "count": {"max": 3}}, "x" * 20_000),
        ({"regex": "(a+)+b", "count": 2}, "a" * 5_000),
    )
    assert many["reason"] == "found more than 10,000 times; at most 3 allowed"
    assert slow["error"] and "took more than 1 s" in slow["reason"]
    started = time.monotonic()
    count_match("*a*b*", "a" * 200_000)
    assert time.monotonic() - started < 5


def test_failure_in_words_for_the_model_does_not_say_the_text_is_missing(project: Project) -> None:
    checks = [{"contains": "sorry", "count": {"max": 1}}, follow("{{ failed }}", {"match": "*"})]
    result = run_one(project, checks, "sorry, sorry", "Fine.")
    assert result["turns"][1]["prompt"] == "contains: something occurs too often"


@pytest.mark.parametrize(
    ("check", "code", "words"),
    [
        ({"contains": "x", "count": 0}, "out-of-range", "`count` must be at least 1"),
        ({"contains": "x", "count": "2"}, "wrong-type", "a whole number or a mapping"),
        ({"contains": "x", "count": 20_000}, "out-of-range", "at most 10000"),
        ({"contains": "x", "count": {}}, "missing-field", "`min` or `max`"),
        ({"contains": "x", "count": {"min": 0}}, "missing-field", "`min` or `max`"),
        ({"contains": "x", "count": {"min": 3, "max": 2}}, "out-of-range", "`max: 2` is less than `min: 3`"),
        ({"contains": "x", "count": {"least": 3}}, "unknown-key", "unknown key `least`"),
        ({"regex": {"pattern": "x", "count": 3}}, "unknown-key", "`count` belongs beside `regex`"),
        ({"match": "ab", "count": 2}, "out-of-range", "such as `*ab*`"),
        ({"match": "ab*", "count": 2}, "out-of-range", "such as `*ab*`"),
        ({"match": r"*ab\*", "count": 2}, "out-of-range", "a star at both ends"),
        ({"match": "**", "count": 2}, "out-of-range", "`*` is any text"),
        ({"is_json": True, "count": 2}, "unknown-key", "`match`, `contains`, `icontains` or `regex`"),
        ({"or": [{"max_words": 2, "count": 2}]}, "unknown-key", "`count` belongs beside"),
    ],
)
def test_counts_that_cannot_be_meant_are_refused(project: Project, check: Raw, code: str, words: str) -> None:
    errors = project.errors({"target": "scripted/x", "evals": [{"prompt": "Q", "checks": [check]}]})
    assert codes(errors) == [code]
    assert words in errors[0]["message"]


def test_rule_over_time_takes_no_count(project: Project) -> None:
    checks = [{"never": {"contains": "x", "count": 2}}, {"always": {"contains": "x"}, "count": 2}]
    suite = {"target": "scripted/x", "evals": [{"prompt": "Q", "conversation_checks": checks}]}
    [error] = project.errors(suite)
    assert error["code"] == "unknown-key" and "`count` belongs beside" in error["message"]
