"""The board: one headline and one row for each target, variant or both, the same on every surface."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.history.rows import make_row
from rejoinder.report import html
from rejoinder.report.ending import write_ending
from rejoinder.report.markdown import write
from rejoinder.report.styled import PLAIN, Form, plain_text
from rejoinder.runs.folder import RunFolder
from rejoinder.views.board import VERDICT_WORDS, Board, BoardRow, board_of
from rejoinder.words.figures import verdicts_words
from tests.kit import Project, bounded
from tests.report.exports import MadeRun, made_run
from tests.views.boards import CANNOT, FEW, LISTENS, STUCK, one, run_of

WIDE = Form(width=240, symbols=True)


def board(ways: dict[str, str], **more: object) -> Board:
    run = run_of(ways, **more)
    return board_of(run.run, run.summary)


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        ({"bot": LISTENS}, "bot listens: follow-ups fixed 10 of 11, asking again 0 of 11."),
        ({"bot": STUCK}, "bot is stuck, starting over is better: follow-ups fixed 1 of 11, asking again 10 of 11."),
        ({"bot": CANNOT}, "We cannot tell yet whether bot listens: follow-ups fixed 4 of 10, asking again 3 of 10."),
        ({"bot": FEW}, "2 of 3 passed, follow-ups fixed 1 of 2, asking again 0 of 2."),
        ({"bot": "fff"}, "3 of 3 passed on the first try."),
        ({"bot": "ffe"}, "2 of 3 passed, 1 ended in an error."),
        ({"bot": "eee"}, "Nothing was tested: 3 errors."),
        ({"a": LISTENS, "b": CANNOT, "c": CANNOT}, "a listens. For the other two we cannot tell yet."),
        ({"a": LISTENS, "b": LISTENS}, "Both listen."),
        ({"a": CANNOT, "b": CANNOT}, "For both we cannot tell yet."),
        ({"a": LISTENS, "b": STUCK}, "a listens. b is stuck: starting over is better."),
        ({"a": LISTENS, "b": "ff"}, "a listens. b has nothing to recover from."),
        ({"a": LISTENS, "b": "ee"}, "a listens. b was not tested."),
        ({"a": LISTENS, "b": "fe"}, "a listens. For b it is not measured."),
        ({"a": LISTENS, "b": FEW}, "a listens. For b there are too few failures to tell."),
        (dict.fromkeys("abcde", LISTENS), "All 5 listen."),
        ({**dict.fromkeys("abcd", LISTENS), "e": STUCK}, "4 of 5 listen. e is stuck: starting over is better."),
        ({"a": "fff", "b": "ffl"}, "a passed 3 of 3, b 2 of 3."),
    ],
)
def test_the_headline_names_who_listens(ways: dict[str, str], words: str) -> None:
    assert board(ways).headline.text == words


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("interrupted", "Interrupted: 12 of 12 conversations ended, 11 passed."),
        ("budget", "The budget was reached: 12 of 12 conversations ended, 11 passed."),
        ("killed", "The run was killed: 12 of 12 conversations ended, 11 passed."),
    ],
)
def test_the_headline_of_a_run_that_ended_early_says_so_first(status: str, words: str) -> None:
    found = board({"bot": LISTENS}, status=status)
    assert found.headline.text == words and found.headline.is_early
    assert found.rows[0].listening is not None, "its row still has what was measured"


def test_an_interrupted_run_of_errors_says_both() -> None:
    found = board({"bot": "eeeeee"}, status="interrupted")
    words = "Interrupted: 6 of 6 conversations ended, nothing was tested: 6 errors."
    assert found.headline.text == words and found.headline.is_early
    [line] = [one for one in lines_of(run_of({"bot": "eee"}, status="interrupted"), PLAIN) if "nothing was" in one]
    assert "interrupted: nothing was tested: 3 errors" in line


def test_names_in_the_headline_are_marked_as_names() -> None:
    pieces = board({"say **hi** listens": LISTENS}).headline.pieces
    assert [piece.text for piece in pieces if piece.is_name] == ["say **hi** listens"]


def test_a_fork_has_no_verdict() -> None:
    fork = {"fork": {"run": "x", "suite": "s", "case": "c", "target": "t", "trial": 1, "turn": 2}}
    assert [row.listening for row in board({"bot": LISTENS}, options=fork).rows] == [None]


def test_variants_on_targets_have_a_row_each() -> None:
    ways = {("a", "x"): LISTENS, ("a", "y"): "fff", ("b", "x"): STUCK, ("b", "y"): FEW}
    results = [
        one(way, f"c{place}", target, variant=variant)
        for (target, variant), each in ways.items()
        for place, way in enumerate(each)
    ]
    run = made_run(sorted(results, key=lambda made: int(made.id[1:])))
    found = board_of(run.run, run.summary)
    assert found.what == "target / variant"
    assert [(row.name, row.target, row.variant) for row in found.rows] == [
        (f"{target} / {variant}", target, variant) for target, variant in ways
    ]
    verdicts = [None if row.listening is None else row.listening.verdict for row in found.rows]
    assert verdicts == ["listens", None, "stuck", "too-few"]


endings = st.text("frslae", min_size=2, max_size=14)
ways_of_runs = st.lists(endings, min_size=1, max_size=3).map(lambda each: dict(zip("abc", each, strict=False)))


@bounded(60)
@given(ways_of_runs)
def test_outcomes_add_up_to_the_summary(ways: dict[str, str]) -> None:
    run = run_of(ways)
    found, summary = board_of(run.run, run.summary), run.summary
    assert [row.name for row in found.rows] == list(dict.fromkeys(ways))
    totals = [
        sum(getattr(row.outcomes, name) for row in found.rows) for name in ("first", "recovered", "failed", "errors")
    ]
    assert totals == [summary.passed_at_once, summary.recovered, summary.failed, summary.errors]
    assert found.headline.text.endswith(".")


# One run, every surface


def lines_of(run: MadeRun, form: Form) -> list[str]:
    return [plain_text(row) for row in write_ending(run, (), form)]


def rows_on_the_page(run: MadeRun) -> list[str]:
    page = "".join(html.write(run)).partition('<section id="work"')[0]
    rows = re.findall(r'<li class="brow">(.*?</p>)</li>', page)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split()) for row in rows]


def facts_of(row: BoardRow) -> Iterator[str]:
    """What each surface has to say of a row, in these words."""
    yield row.name
    yield row.share.text or "no rate"
    if row.share.text:
        yield row.share.bounds
    if row.listening is not None:
        yield row.listening.word
        yield row.listening.fixed
        yield from filter(None, (row.listening.afresh, row.listening.net_words))


@bounded(40)
@given(ways_of_runs.filter(lambda ways: len(ways) > 1))
def test_every_surface_has_the_same_rows(ways: dict[str, str]) -> None:
    run = run_of(ways)
    found = board_of(run.run, run.summary)
    markdown = [line for line in "".join(write(run)).splitlines() if line.startswith("| `")]
    page = rows_on_the_page(run)
    assert len(page) == len(markdown) == len(found.rows)
    for form in (WIDE, PLAIN):
        lines = lines_of(run, form)
        begin = next(place for place, line in enumerate(lines) if line.startswith("target"))
        shown = lines[begin + 1 : begin + 1 + len(found.rows)]
        for row, line in zip(found.rows, shown, strict=True):
            assert all(fact in line for fact in facts_of(row)), (row, line)
    for row, line, cell in zip(found.rows, markdown, page, strict=True):
        assert all(fact in line for fact in facts_of(row)), (row, line)
        assert all(fact in cell for fact in facts_of(row) if fact != "no rate"), (row, cell)
    headline = found.headline.text
    [title] = re.findall(r'<h1 id="h-run"[^>]*>(.*?)</h1>', "".join(html.write(run)))
    assert unescape(re.sub(r"<[^>]*>", "", title)) == headline
    assert "".join(write(run)).splitlines()[0].replace("`", "") == f"## rejoinder: {headline.replace('`', '')}"
    if found.has_verdicts:
        assert headline in lines_of(run, PLAIN)


def test_the_list_of_runs_has_the_verdicts_of_the_rows(project: Project) -> None:
    run = run_of({"a": LISTENS, "b": CANNOT, "c": FEW})
    folder = RunFolder(project.folder / ".rejoinder/runs" / run.run.id)
    folder.path.mkdir(parents=True)
    folder.write_receipt(run.run)
    folder.write_summary(run.summary)
    row = make_row(folder)
    assert row.summary is not None
    verdicts = [one.listening.verdict for one in board_of(run.run, run.summary).rows if one.listening is not None]
    assert list(row.summary.listening) == verdicts
    assert verdicts_words(row.summary.listening) == "1 listens, 1 cannot tell, 1 too few"
    assert "1 listens, 1 cannot tell, 1 too few" in project.run("runs")


def test_each_verdict_has_a_word() -> None:
    assert verdicts_words(["listens"]) == "listens"
    assert verdicts_words(["not-measured", "listens"]) == "listens"
    assert verdicts_words(["not-measured"]) == ""
    assert list(VERDICT_WORDS.values()) == ["listens", "stuck", "cannot tell", "too few", "not measured"]
