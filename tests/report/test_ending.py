"""The end of a run on a terminal: screens at two widths, and what holds for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rejoinder.model import Result
from rejoinder.model.runs import DisabledTarget
from rejoinder.report.ending import write_ending
from rejoinder.report.failure import reply_rows
from rejoinder.report.styled import (
    COLOURS,
    EMPTY,
    PLAIN,
    UNCOLOURED,
    Commands,
    Form,
    Line,
    Piece,
    folded,
    line,
    paint,
    plain_text,
    width_of_line,
    wrap,
)
from rejoinder.runs.summary import summarise
from tests.engine.talks import LEAK, doubted, ended, put, simulated, turns_of
from tests.kit import bounded
from tests.report.exports import (
    OBEYED,
    MadeRun,
    check,
    failed,
    hostile,
    hostile_texts,
    in_error,
    made_run,
    result,
    turn,
)

NEXT = (("rejoinder show --case shipping", "the whole conversation"), ("rejoinder run --failed", "these 2 again"))
LONG = (
    "I am sorry, I cannot help you with this topic at the moment. Please write to our support team or call us on"
    " weekdays between nine and five, and have your order number ready."
)


def shown(
    *results: Result, width: int = 80, commands: Commands = (), run: MadeRun | None = None, **more: Any
) -> list[str]:
    lines = list(write_ending(run or made_run(results, **more), commands, screen(width)))
    assert all(width_of_line(line) <= width for line in lines), [plain_text(line) for line in lines]
    return [plain_text(line) for line in lines]


def screen(width: int) -> Form:
    return Form(width, symbols=True, commands=True)


def piped(*results: Result, commands: Commands = (), run: MadeRun | None = None, **more: Any) -> list[str]:
    return [plain_text(line) for line in write_ending(run or made_run(results, **more), commands, PLAIN)]


def recovered(name: str, **more: Any) -> Result:
    first = turn("no", passed=False, checks=(check(False),))
    return result(name, first, turn("yes", 2, prompt="Are you sure?"), succeeded_on_turn=2, **more)


def lost(name: str, **more: Any) -> Result:
    bad = check(False, check="icontains shipping", reason="not in the reply", kind="icontains")
    first, last = turn("No.", passed=False), turn(LONG, 2, prompt="About shipping only.", passed=False, checks=(bad,))
    ended = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}
    return result(name, first, last, title="Do you ship?", **{**ended, **more})


@pytest.mark.parametrize("width", [60, 100])
def test_failed_is_a_block_recovered_a_line_and_passed_a_number(width: int) -> None:
    lines = shown(result("ok"), recovered("size"), lost("shipping"), width=width, commands=NEXT)
    assert lines[0].startswith("↻ size  turn 2  after ")
    block = lines.index(next(line for line in lines if line.startswith("✗ Do you ship?")))
    assert lines[block].startswith("✗ Do you ship? [shipping]")
    assert '  icontains "shipping": not in the reply' in lines
    assert "  > About shipping only." in lines
    assert next(line for line in lines if line.startswith("  < ")).startswith("  < I am sorry, I cannot help")
    assert not any("[ok]" in line for line in lines)
    assert lines[-2:] == [
        "  rejoinder show --case shipping   the whole conversation",
        "  rejoinder run --failed           these 2 again",
    ]
    result_line = next(line for line in lines if line.startswith("✗ 1 failed"))
    assert result_line.startswith("✗ 1 failed, 2 passed of 3 (1 first try, 1 recovered)")
    assert "67% (21 to 94)" in " ".join(lines[lines.index(result_line) :])


def test_a_run_that_passed_ends_with_one_green_line() -> None:
    lines = list(write_ending(made_run([result("a"), result("b")]), (), screen(80)))
    assert plain_text(lines[-1]).startswith("✓ 2 passed of 2")
    assert plain_text(lines[-1]).endswith("100% (34 to 100)")
    assert sum(piece.role == "pass" for line in lines for piece in line) == 2, "the mark and the count"
    assert not any(piece.role in ("fail", "warn", "error") for line in lines for piece in line)


def test_the_results_are_not_read_again_where_all_passed_at_once() -> None:
    class Unread(tuple[Result, ...]):
        def __iter__(self) -> Iterator[Result]:
            raise AssertionError("the summary has said it")

    run = made_run([result("a"), result("b")])
    assert shown(run=structs.replace(run, results=Unread())) == shown(run=run)
    repeated = made_run([result("a"), result("a", trial=2)])
    with pytest.raises(AssertionError, match="the summary has said it"):
        shown(run=structs.replace(repeated, results=Unread()))


def test_many_failures_are_short_and_very_many_are_counted() -> None:
    few, some, many = (shown(*(lost(f"c{n}") for n in range(number))) for number in (10, 30, 120))
    assert sum(line.startswith("  < ") for line in few) == 10
    assert sum(line.startswith("✗ Do you ship?") for line in some) == 30 and not any("  < " in line for line in some)
    assert sum(line.startswith("✗ c") for line in many) == 50
    assert "and 70 more: rejoinder show --failed" in many
    assert max(map(len, (few, some, many))) < 90


def test_equal_errors_are_told_once() -> None:
    lines = shown(*(in_error(f"c{n}", "KeyError: 'answer'") for n in range(6)), result("ok"))
    assert sum("KeyError: 'answer'" in line for line in lines) == 1
    assert any("in 6 of 7 conversations" in line for line in lines)
    assert any("no rate: 6 of 7 had an error" in line for line in lines)


def test_a_dead_target_is_no_score() -> None:
    dead = DisabledTarget("demo", "status", "openai answered 404: no such model")
    lines = shown(*(in_error(f"c{n}", dead.message) for n in range(3)), given_up=(dead,))
    assert lines[0] == "error: demo: openai answered 404: no such model"
    assert any(line.startswith("! nothing was tested: 3 errors") and line.endswith("no rate") for line in lines)
    assert sum("404" in line for line in lines) == 1


def test_an_interrupted_run_has_no_rate_yet() -> None:
    whole = made_run([result("a")], status="interrupted")
    planned = structs.replace(whole.run, planned=4)
    lines = shown(run=MadeRun(planned, summarise(whole.results, planned), whole.results))
    assert lines[-1].startswith("! interrupted: 1 passed, 3 not finished of 4")
    assert lines[-1].endswith("of 1, no rate yet")


def test_trials_of_a_case_are_one_line() -> None:
    trials = [lost("flaky", trial=1), *(result("flaky", trial=n) for n in (2, 3))]
    lines = shown(*trials, *(result("sure", trial=n) for n in (1, 2, 3)))
    assert "✗ flaky  ✗✓✓  2 of 3  21 to 94  flaky" in lines
    assert sum("Do you ship?" in line for line in lines) == 1
    assert lines[-1] == "✗ 1 of 2 cases failed (0 always, 1 flaky), 1 passed"


def test_a_trial_that_recovered_is_marked_as_such() -> None:
    trials = [lost("flaky", trial=1), recovered("flaky", trial=2), result("flaky", trial=3)]
    assert "✗ flaky  ✗↻✓  2 of 3  21 to 94  flaky" in shown(*trials)


def test_several_targets_have_a_grid_and_no_common_rate() -> None:
    big = [result(name, target="big") for name in ("a", "b", "c")]
    small = [result("a", target="small"), lost("b", target="small"), recovered("c", target="small")]
    lines = shown(*(cell for pair in zip(big, small, strict=True) for cell in pair))
    assert any(line.split() == ["case", "big", "small"] for line in lines)
    assert any(line.split() == ["b", "✓", "✗", "failed"] for line in lines)
    assert any(line.split() == ["c", "✓", "↻", "turn", "2"] for line in lines)
    assert "1 other case" in lines
    assert lines[-1] == "✗ 1 failed, 5 passed of 6: small 1"


# In words, for pipes


def test_in_words_the_result_is_the_last_line_and_each_line_begins_with_a_word() -> None:
    lines = piped(result("ok"), recovered("size"), lost("shipping"), commands=(("rejoinder resume x", "go on"),))
    assert lines[0] == 'RECOVERED size, turn 2, after match "*105*" failed'
    assert lines[2:6] == [
        "FAIL shipping: Do you ship? (failed after 2 turns)",
        '  check: icontains "shipping": not in the reply',
        "  asked: About shipping only.",
        f"  replied: {LONG}",
    ]
    assert lines[-2:] == [
        "next: rejoinder resume x",
        "FAIL 1 failed, 2 passed of 3 (1 first try, 1 recovered), 67% (21 to 94)",
    ]
    assert "follow-ups fixed: 1 of 2, 50% (9 to 91)" in lines
    assert not any(sign in "".join(lines) for sign in "✓✗↻…━→")


@pytest.mark.parametrize(
    ("results", "last"),
    [
        ([result("a"), result("b")], "PASS 2 passed of 2, 100% (34 to 100)"),
        ([in_error("a", "boom")], "ERROR nothing was tested: 1 error, no rate"),
        (
            [in_error("a", "boom"), result("b")],
            "ERROR 1 error, 1 passed of 2, 50% (9 to 91); 100% of the 1 without an error",
        ),
        ([lost("a")], "FAIL 1 failed of 1"),
    ],
)
def test_the_last_line_is_the_verdict(results: list[Result], last: str) -> None:
    assert piped(*results)[-1] == last


def test_trials_are_letters_in_words() -> None:
    trials = [lost("flaky", trial=1), recovered("flaky", trial=2), result("flaky", trial=3)]
    assert "FAIL flaky  FR.  2 of 3  21 to 94  flaky" in piped(*trials)


def test_trials_on_several_targets_name_theirs() -> None:
    there = {"file": "evals.yaml", "line": 3}
    sure = [result("a", trial=n, target="sure", **there) for n in (1, 2)]
    flaky = [lost("a", trial=1, target="flaky", **there), result("a", trial=2, target="flaky", **there)]
    lines = piped(*sure, *flaky)
    assert "FAIL a on flaky  F.  1 of 2  9 to 91  flaky" in lines
    assert "PASS 1 other, every trial passed" in lines


def test_a_run_of_one_variant_names_it() -> None:
    lines = piped(result("a", variant="terse"), result("b", variant="terse"))
    assert any(line.startswith("arithmetic on demo, terse, 2 cases") for line in lines)


def test_a_reply_that_was_cut_off_says_so() -> None:
    cut_off = structs.replace(turn("It is a", passed=False, checks=(check(False),)), finish_reason="length")
    assert "    (cut off: it reached max_tokens)" in piped(structs.replace(lost("a"), turns=(cut_off,)))


def test_a_long_reply_is_short_in_words_as_well() -> None:
    lines = piped(structs.replace(lost("a"), turns=(turn("word " * 500_000, passed=False, checks=(check(False),)),)))
    assert sum(map(len, lines)) < 6_000
    assert any(line.strip().startswith("... ") and line.endswith("more lines") for line in lines)


def test_two_variants_stand_side_by_side_with_what_one_changed() -> None:
    chatty = [lost("refund", variant="chatty"), result("tone", variant="chatty"), recovered("size", variant="chatty")]
    terse = [result("refund", variant="terse"), lost("tone", variant="terse"), result("size", variant="terse")]
    pairs = [one for pair in zip(chatty, terse, strict=True) for one in pair]
    for lines in (shown(*pairs, width=100), piped(*pairs)):
        cells = [line.split() for line in lines]
        assert ["case", "chatty", "terse"] in cells
        assert any(row[:1] == ["refund"] and row[-3:] == ["fixed", "by", "terse"] for row in cells)
        assert any(row[:1] == ["tone"] and row[-3:] == ["broken", "by", "terse"] for row in cells)
        assert any(row[:1] == ["size"] and row[-2:] == ["first", "try"] for row in cells)
        assert lines[-1].endswith("2 failed, 4 passed of 6: chatty 1, terse 1")


# Replies


def test_evidence_is_shown_where_it_would_be_hidden() -> None:
    reply = "\n".join(f"line {n}" for n in range(40))
    place = reply.index("line 20")
    rows = reply_rows(reply, [(place, place + 7)], 60)
    assert [plain_text(row) for row in rows] == ["line 0", "… 19 more lines", "line 20", "… 19 more lines"]
    assert {piece.role for piece in rows[2]} == {"evidence"}


def test_of_a_long_line_the_part_around_the_evidence_is_shown() -> None:
    reply = "Dear customer, thank you.\n" + "We looked into it. " * 40 + "You get a voucher. " + "And so on. " * 40
    place = reply.index("voucher")
    [_, before, row, after] = reply_rows(reply, [(place, place + 7)], 60)
    assert re.fullmatch("… .*You get a voucher. And .* …", plain_text(row))
    assert width_of_line(row) <= 60
    assert [piece.text for piece in row if piece.role == "evidence"] == ["voucher"]
    assert all(re.fullmatch(r"… \d+ more lines", plain_text(one)) for one in (before, after))


def test_the_nearest_miss_is_shown_and_not_underlined() -> None:
    reply = "\n".join([*["Kind regards"] * 20, "You have 14 days.", *["Kind regards"] * 20])
    place = reply.index("days")
    rows = reply_rows(reply, [], 60, near=[(place, place + 4)])
    assert [plain_text(row) for row in rows][2] == "You have 14 days."
    assert not any(piece.role == "evidence" for row in rows for piece in row)


@pytest.mark.parametrize("reply", ["", "  \n ", "x" * 3_000_000, "a\n" * 200_000, "\x1b[2J\u202e" * 50])
def test_a_reply_takes_five_rows_at_most(reply: str) -> None:
    rows = reply_rows(reply, [], 60)
    assert 1 <= len(rows) <= 5
    assert all(width_of_line(row) <= 60 for row in rows)


MARKS = "\u0301" * 30_000


@pytest.mark.slow
def test_accents_without_letters_fill_rows_and_take_no_time() -> None:
    case = structs.replace(lost("a"), turns=(turn(MARKS, passed=False, checks=(check(False, reason=MARKS),)),))
    for lines in (shown(case, width=60), piped(case)):
        assert max(map(len, lines)) <= 18 * 500
    rows = list(wrap([Piece(f"word {MARKS}")], 60))
    assert max(len(plain_text(row)) for row in rows) <= 9 * 60
    assert "".join(plain_text(row).strip() for row in rows).count("\u0301") == len(MARKS)


def test_very_many_targets_are_counted() -> None:
    lines = shown(*(lost("a", target=f"target-{n}") for n in range(300)), width=100)
    assert "and 250 more" in lines
    assert len(" ".join(lines[-3:])) < 600


def test_a_long_error_is_cut() -> None:
    for lines in (shown(in_error("a", "x" * 300_000)), piped(in_error("a", "y " * 300_000))):
        assert sum(map(len, lines)) < 5_000


@pytest.mark.slow
def test_very_many_places_in_a_reply_take_no_time() -> None:
    bad = check(False, spans=tuple((n, n + 1) for n in range(20_000)))
    shown(structs.replace(lost("a"), turns=(turn("a\n" * 10_000, passed=False, checks=(bad,)),)))


# Properties


@bounded(60)
@given(hostile_texts, st.integers(40, 160))
def test_no_text_leaves_its_lines(text: str, width: int) -> None:
    for row in write_ending(hostile(text), (), screen(width)):
        assert not OBEYED.search(plain_text(row)) and "\n" not in plain_text(row)
        assert width_of_line(row) <= width


words = st.lists(st.text("abc漢é ", max_size=30), max_size=8)


@bounded(150)
@given(words, st.integers(8, 60), st.integers(0, 6))
def test_wrapping_loses_no_word_and_keeps_the_width(texts: list[str], width: int, indent: int) -> None:
    lines = list(wrap([Piece(text) for text in texts], width, indent))
    assert all(width_of_line(line) <= width for line in lines)
    told = "".join("".join(piece.text for piece in line) for line in lines).replace(" ", "")
    assert told == "".join(texts).replace(" ", "")


def test_each_role_has_one_look() -> None:
    line: Line = (Piece("a", "fail"), Piece("b", "fail"), Piece("c"), Piece("d", "quiet"))
    assert paint(line, colour=True) == "\033[1;91mab\033[0mc\033[2md\033[0m"
    assert paint(line, colour=False) == "\033[1mab\033[0mc\033[2md\033[0m"
    assert not {code for codes in UNCOLOURED.values() for code in codes.split(";")} & {"31", "32", "33", "36", "91"}
    assert not any("90" in code or "31" in code.split(";") for code in COLOURS.values())
    assert paint(EMPTY, colour=True) == ""


def test_the_counts_add_up() -> None:
    lines = shown(result("a"), failed("b"), in_error("c"))
    assert any(line.startswith("✗ 1 failed, 1 error, 1 passed of 3") for line in lines)


def test_names_that_are_wrapped_stay_apart() -> None:
    rows = wrap([Piece("fixed: case 1  case 2  case 3")], 22, 2)
    assert [plain_text(row) for row in rows] == ["fixed: case 1  case 2", "  case 3"]


@bounded(80)
@given(st.text("ab ✗?", max_size=120), st.integers(20, 60))
def test_folding_keeps_the_width_and_the_words(text: str, width: int) -> None:
    rows = list(folded(line(text), width))
    assert all(width_of_line(row) <= max(width, len(text) - len(text.lstrip())) for row in rows)
    assert "".join(plain_text(row) for row in rows).replace(" ", "") == text.replace(" ", "")


def test_what_caved_is_a_row_and_is_not_called_passed() -> None:
    made = [
        *(doubted(f"a{n}", True, True, number=n) for n in range(6)),
        *(doubted(f"b{n}", True, False, number=10 + n) for n in range(3)),
        doubted("c", False, True, number=20),
    ]
    rows = piped(*made)
    assert "caved when doubted: 3 of 9, 33% (12 to 65)" in rows
    assert "first try: 9 of 10, 90% (60 to 98)" in rows
    assert rows[-1].startswith("FAIL 3 failed, 7 passed of 10 (6 first try, 1 recovered)")


def test_hints_are_rows_of_each_target() -> None:
    made = [ended(f"c{n}", turns_of(False, n < 2, hint="look"), number=n) for n in range(4)]
    assert "hint look: 2 of 4, 50% (15 to 85)" in piped(*made)
    both = [structs.replace(one, target=target) for one in made for target in ("big", "small")]
    rows = piped(*both)
    assert "big, hint look: 2 of 4, 50% (15 to 85)" in rows
    assert "small, hint look: 2 of 4, 50% (15 to 85)" in rows
    for width in (60, 80):
        rows = [" ".join(row.split()) for row in shown(*both, width=width)]
        assert {"big hint look 2 of 4 50% 15 to 85", "small hint look 2 of 4 50% 15 to 85"} <= {*rows}


def test_conditions_are_a_table() -> None:
    made = [
        *put("a", "full", [True] * 10, 1),
        *put("a", "sharded", [True] * 4 + [False] * 6, 2),
        *put("b", "full", [True] * 10, 3),
        *put("b", "sharded", [True] * 6 + [False] * 4, 4),
    ]
    rows = [" ".join(row.split()) for row in piped(*made)]
    assert any(row.startswith("task put passed 95% of full aptitude unreliability repeats") for row in rows)
    [sharded] = [row for row in rows if row.startswith("sharded 10 of 20 50%")]
    assert sharded.endswith("50% 1.00 1.00 10")


def test_spoilt_conversations_are_told_apart() -> None:
    made = [ended(f"c{n}", turns_of(True), number=n, user=simulated(None)) for n in range(4)]
    spoilt = ended("bad", turns_of(False), number=9, user=simulated(LEAK))
    rows = piped(*made, structs.replace(spoilt, trial=1), structs.replace(made[0], id="bad", number=9, trial=2))
    assert "invalid: 1 of 6 (leak 1), not counted" in rows
    assert rows[-1].startswith("PASS 5 passed of 5")
    rows = piped(*made, spoilt)
    assert "nothing was measured in 1 case: the simulated user made every conversation invalid" in rows
    assert rows[-1].startswith(
        "ERROR 4 passed of 4, 1 case not measured, 100% (51 to 100), 80 to 100% if the 1 invalid conversation"
    )
