"""Markdown: within its limit, and with the same structure whatever the replies say."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import structs

from rejoinder.report.markdown import SUMMARY_LIMIT, code, write_within
from tests.kit import bounded
from tests.report.courses import caved
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

PARAGRAPH = ("paragraph_open", "text", "paragraph_close")
CODE = re.compile("<code>[^<>]*</code>")


def parse(text: str) -> list[Token]:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [inner for token in tokens for inner in (token.children or [token])]


def structure(text: str) -> list[tuple[str, str, str]]:
    """Kinds of tokens, with HTML as it is but for what stands in `<code>`, and the words of ours."""
    return [(token.type, token.tag, _ours(token)) for token in parse(text)]


def _ours(token: Token) -> str:
    """Numbers apart: how many conversations share a reason depends on the texts."""
    if token.type not in ("html_block", "html_inline", "text"):
        return ""
    return re.sub(r"\d+", "0", CODE.sub("<code/>", token.content))


def test_what_did_not_pass_stands_there_with_place_and_reason() -> None:
    text = written("markdown", mixed())
    assert text.startswith(
        "## rejoinder: `demo` passed 2 of 5 cases, `other` 0 of 1 case, 1 had errors, 1 not sent.\n\n> [!CAUTION]\n"
    )
    tokens = parse(text)
    reasons = [token.content for token in tokens if token.type == "code_inline"]
    assert 'match "*105*": *105* is not in it' in reasons
    blocks = [token.content for token in tokens if token.type == "html_block"]
    assert "<code>square / demo</code> in <code>suites/evals.yaml:12</code>" in "".join(blocks)
    assert ", 2 of 3 passed in" in "".join(blocks)
    assert next(token.content for token in tokens if token.type == "fence").splitlines()[-1] == '  failed match "*105*"'
    assert sum(token.type == "tr_open" for token in tokens) == 3


def test_a_run_in_which_all_passed_says_so() -> None:
    text = written("markdown", made_run([result()]))
    assert "[!TIP]" in text
    assert "Not passed" not in text


@pytest.mark.slow
@pytest.mark.parametrize("limit", [400, 1_000, 2_000, 20_000, SUMMARY_LIMIT])
def test_a_long_run_keeps_to_its_limit_and_counts_what_is_left_out(limit: int) -> None:
    run = made_run(failed(f"case-{number}", "ü" * 3_000) for number in range(2_000))
    text = "".join(write_within(run, limit))
    assert len(text.encode()) <= limit
    shown = sum(token.type == "html_block" and "<summary>" in token.content for token in parse(text))
    lines = len(re.findall(r"^- ❌", text, re.MULTILINE))
    [left_out] = re.findall(r"([\d,]+) more did not pass", text) or ["0"]
    assert shown + lines + int(left_out.replace(",", "")) == 2_000


def test_the_first_try_has_one_meaning_where_replies_cave() -> None:
    recovered = result("back", turn(passed=False, checks=(check(False),)), turn(number=2))
    doubted = (result("one"), recovered, caved(target="demo", variant=None))
    text = written("markdown", made_run(doubted))
    assert "1 passed on the first try, 1 recovered" in text
    assert "| Target | Does it listen? | Follow-ups fixed | Passed | Outcomes |" in text
    row = "not measured | 1 of 1, same words 1 of 2 | 2 of 3, 67% (21 to 94) | 1 first try, 1 recovered, 1 failed |"
    assert f"| `demo` | {row}" in text
    pooled = [structs.replace(one, variant=name) for one in doubted for name in ("a", "b")]
    text = written("markdown", made_run(pooled))
    assert f"| `a` | {row}" in text


def test_many_targets_are_cut() -> None:
    run = made_run(result("one", target=f"target-{number}") for number in range(60))
    text = written("markdown", run)
    assert "\n10 more targets\n" in text
    assert sum(token.type == "tr_open" for token in parse(text)) == 51


@bounded(200)
@given(hostile_texts)
def test_a_text_is_code_whatever_it_says(text: str) -> None:
    [token] = [token for token in parse(f"before {code(text)} after") if token.type not in PARAGRAPH]
    assert token.type == "code_inline"


@pytest.mark.slow
@bounded(100)
@given(hostile_texts)
def test_no_text_changes_the_structure(text: str) -> None:
    shown = written("markdown", hostile(text))
    assert not OBEYED.search(shown)
    assert structure(shown) == structure(written("markdown", hostile("plain")))
    assert not [line for line in shown.splitlines() if line.lstrip().startswith(("::", "##["))]


def test_html_of_replies_is_escaped() -> None:
    text = written("markdown", made_run([in_error("<b>&</b>")]))
    assert html.escape("<b>&</b>") in text
    assert not [token for token in parse(text) if "<b>" in token.content]
