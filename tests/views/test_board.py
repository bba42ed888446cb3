"""The board: one headline and one row for each target, variant or both, the same on every surface."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rejoinder.comparison.sides import Side
from rejoinder.gates.baselines import baseline_of, write_baseline
from rejoinder.history.rows import make_row
from rejoinder.model import CaseChanges
from rejoinder.model.boards import Verdict
from rejoinder.model.figures import GateResult, RuleResult, RuleVerdict
from rejoinder.report import html
from rejoinder.report.ending import Extras, write_ending
from rejoinder.report.styled import PLAIN, Form, plain_text
from rejoinder.runs.folder import RunFolder
from rejoinder.views.board import VERDICT_WORDS, Board, board_of, outcome_words
from rejoinder.views.clusters import LONGEST_CLUSTER, MOST_CLUSTERS, known_clusters, shared_clusters
from rejoinder.views.flips import SinceBaseline
from rejoinder.views.run import view_run
from rejoinder.words.figures import verdicts_words
from rejoinder.words.numbers import money, seconds, shortened
from tests.comparison.sides import compare_sides
from tests.kit import Project, bounded
from tests.report.exports import MadeRun, made_run
from tests.server.kit import ask, settings
from tests.views import surfaces
from tests.views.boards import CANNOT, FEW, LISTENS, STUCK, any_runs, one, run_of
from tests.views.surfaces import Said, Shown, counts_of, facts_of


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
        ("interrupted", "The run was interrupted: 12 of 12 conversations ended, 11 passed."),
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
    words = "The run was interrupted: 6 of 6 conversations ended, nothing was tested: 6 errors."
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


def by_variant() -> MadeRun:
    ways = {("a", "x"): LISTENS, ("a", "y"): "fffffrrll", ("b", "x"): STUCK, ("b", "y"): FEW}
    results = [
        one(way, f"c{place}", target, variant=variant)
        for (target, variant), each in ways.items()
        for place, way in enumerate(each)
    ]
    return made_run(sorted(results, key=lambda made: int(made.id[1:])))


def repeated() -> MadeRun:
    """Five trials of each case on two targets."""
    ways = {"large": ["fffff", "rrrrr", "rrrfl", "lllll"] * 3, "mini": ["fffff", "rllll", "lllll", "leeee"] * 3}
    results = [
        one(way, f"c{place}", name, trial=trial)
        for name, cases in ways.items()
        for place, each in enumerate(cases)
        for trial, way in enumerate(each, 1)
    ]
    return made_run(sorted(results, key=lambda made: int(made.id[1:])))


RUNS: dict[str, MadeRun] = {
    "three targets": run_of({"large": LISTENS + "ff", "mini": CANNOT + "ee", "tiny": STUCK + "ll"}),
    "variants by targets": by_variant(),
    "five repeats": repeated(),
    "errors only": run_of({"bot": "eeeeee"}),
    "interrupted": run_of({"bot": LISTENS, "mini": "eell" * 3}, status="interrupted"),
    "one target": run_of({"bot": LISTENS + "lll"}),
    "one of many failures": run_of({"bot": "frl" + "e" * 2 + "l" * 20}),
}


def check_terminal(run: MadeRun, shown: Shown) -> None:
    """A board of one row is no table: its figures have rows."""
    board, summary = board_of(run.run, run.summary), run.summary
    assert len(shown.rows) == len(board.rows)
    if len(board.rows) > 1:
        for row, line in zip(board.rows, shown.rows, strict=True):
            assert all(fact in line for fact in facts_of(row)) and row.passed in line, (row, line)
            assert row.repeated in line
    elif board.rows[0].listening is not None and board.rows[0].listening.afresh:
        [line] = shown.rows
        facts = set(facts_of(board.rows[0])) - {board.rows[0].name, board.rows[0].share.bounds}
        assert all(fact in line for fact in facts), (facts, line)
    if board.has_verdicts and not board.headline.is_early:
        assert shown.headline == board.headline.text
    last = " ".join(shown.whole.splitlines()[-3:])
    counted = {"failed": summary.failed, "error": summary.errors, "passed": summary.passed}
    if not summary.has_repeats and summary.no_rate != "untested":
        assert all(f"{number:,} {word}" in last for word, number in counted.items() if number), last
    if shown.clusters:
        assert shown.clusters == expected_clusters(run)
    for number, words in [] if shown.clusters else expected_clusters(run):
        assert words.startswith("server: HTTP 500") and f"in {number:,} of" in shown.whole


def expected_clusters(run: MadeRun) -> list[Said]:
    return [(row.number, row.words) for row in shared_clusters(run.summary, MOST_CLUSTERS)]


def check_page(run: MadeRun, shown: Shown) -> None:
    board = board_of(run.run, run.summary)
    assert shown.headline == board.headline.text
    for row, cell in zip(board.rows, shown.rows, strict=True):
        facts = [fact for fact in facts_of(row) if fact != "no rate"]
        assert all(fact in cell for fact in (*facts, *counts_of(row))), (row, cell)
        assert row.repeated in cell
    assert shown.clusters is not None
    assert shown.clusters == [(number, shortened(words, LONGEST_CLUSTER)) for number, words in expected_clusters(run)]


def check_comment(run: MadeRun, shown: Shown) -> None:
    board = board_of(run.run, run.summary)
    assert shown.headline == board.headline.text.replace("`", "")
    for row, cells in zip(board.rows, shown.rows, strict=True):
        counts = outcome_words(row.outcomes)
        assert all(fact in cells for fact in (*facts_of(row), *counts, row.passed, row.repeated)), (row, cells)
        assert cells.count("; ") <= 6, "GitHub shows few columns side by side"
    assert shown.clusters == expected_clusters(run)


def check_document(run: MadeRun, shown: Shown) -> None:
    board = board_of(run.run, run.summary)
    assert shown.headline == board.headline.text
    for row, facts in zip(board.rows, shown.rows, strict=True):
        assert all(fact in facts for fact in (*facts_of(row), *counts_of(row, str.lower)))
    assert shown.clusters is not None
    assert [one for one in shown.clusters if one in expected_clusters(run)] == expected_clusters(run)


def check_card(run: MadeRun, shown: Shown) -> None:
    board = board_of(run.run, run.summary)
    assert board.headline.text in shown.whole
    for row in board.rows:
        assert all(fact in shown.whole for fact in facts_of(row)), shown.whole
        assert " · ".join(outcome_words(row.outcomes)) in shown.whole, shown.whole
    trials = sum(row.outcomes.total for row in board.rows)
    assert (f", {trials:,} trials" in shown.whole) is run.summary.has_repeats
    assert shown.whole.count(" trials") == run.summary.has_repeats + board.headline.text.count(" trials") + len(
        [row for row in board.rows if row.cases and row.share.text and "of trials" in shown.whole]
    )
    assert "…" not in shown.whole


def check_money_and_time(run: MadeRun, shown: dict[str, Shown]) -> None:
    """Cost and time in the words of the facts, and no other money than theirs."""
    view = view_run(run)
    words = [view.facts[kind].said for kind in ("cost", "took") if kind in view.facts]
    assert words
    known = amounts(" ".join([*words, *(row.cost for row in view.board.rows), *(note.text for note in view.notes)]))
    for name, surface in shown.items():
        text = re.sub(r"([\d,.]+) USD", r"$\1", surface.whole)  # as Markdown has it
        if name != "card":
            assert all(word in text for word in words), (name, words, text)
        assert set(amounts(text)) <= set(known), (name, text)


def amounts(text: str) -> list[str]:
    return re.findall(r"\$[\d,.]*\d", text)


def check_viewer_of_killed(run: MadeRun, folder: Path) -> None:
    """The receipt says that it is running, and no process has it open."""
    surfaces.stored(run, folder)
    [title] = re.findall(r'<h1 id="h-run"[^>]*>(.*?)</h1>', surfaces.asked(run, folder))
    assert title.startswith("Killed: ")


def check_every_surface(run: MadeRun, folder: Path) -> None:
    if run.run.status == "running":
        check_viewer_of_killed(run, folder)
        run = structs.replace(run, run=structs.replace(run.run, status="killed"))
    shown = {
        "wide": surfaces.wide(run),
        "plain": surfaces.plain(run),
        "report": surfaces.report(run),
        "comment": surfaces.comment(run),
        "card": surfaces.card(run),
    }
    if run.run.status != "killed":
        shown["viewer"] = surfaces.viewer(run, folder)
        check_page(run, shown["viewer"])
        check_list(run, folder)
    check_terminal(run, shown["wide"])
    check_terminal(run, shown["plain"])
    check_page(run, shown["report"])
    check_comment(run, shown["comment"])
    check_document(run, surfaces.document(run))
    check_card(run, shown["card"])
    check_money_and_time(run, shown)


def check_list(run: MadeRun, folder: Path) -> None:
    """Cost and time in the list of the viewer."""
    listed = surfaces.words_of(ask(settings(folder), "GET", "/").text)
    assert seconds(run.summary.duration_s) in listed
    assert money(run.summary.total_cost) in listed


@pytest.mark.parametrize("name", RUNS)
def test_every_surface_has_the_same_facts(project: Project, name: str) -> None:
    check_every_surface(RUNS[name], project.folder)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
@pytest.mark.parametrize("name", ["three targets", "variants by targets", "five repeats"])
def test_no_width_leaves_out_whether_it_listens(name: str, width: int) -> None:
    run = RUNS[name]
    board = board_of(run.run, run.summary)
    lines = lines_of(run, Form(width=width, symbols=True))
    assert all(len(line) <= width for line in lines)
    begin = next(place for place, line in enumerate(lines) if line.startswith(board.what))
    places = [
        next(place for place in range(begin, len(lines)) if lines[place].startswith(f"{row.name} "))
        for row in board.rows
    ]
    for row, start, end in zip(board.rows, places, [*places[1:], lines.index("", places[-1])], strict=True):
        shown, found = " ".join(" ".join(lines[start:end]).split()), row.listening
        expected = [row.passed, row.share.text]
        if found is not None:
            expected += [found.word, found.fixed, found.afresh, found.net_words]
        assert all(fact in shown for fact in expected), (expected, shown)


@pytest.mark.parametrize(
    ("ways", "symbols", "words"),
    [
        ("rrrrr", "↻ 5 of 5", "5 of 5, recovered"),
        ("frrff", "5 of 5, ↻ 2", "5 of 5, 2 recovered"),
        ("rrlll", "↻ 2 of 5", "2 of 5, recovered"),
        ("fflll", "2 of 5", "2 of 5"),
    ],
)
def test_a_cell_of_repeats_says_what_passed_only_with_follow_ups(ways: str, symbols: str, words: str) -> None:
    results = [
        one(way, case, target, trial=trial)
        for case, each in {"c0": ways, "c1": "fffff"}.items()
        for target, endings in (("a", each), ("b", "lllll"))
        for trial, way in enumerate(endings, 1)
    ]
    run = made_run(results)
    for form, expected in ((surfaces.WIDE, symbols), (PLAIN, words)):
        lines = lines_of(run, form)
        head = next(place for place, line in enumerate(lines) if line.split()[:3] == ["case", "a", "b"])
        cells = re.split(r"\s{2,}", lines[head + 1].strip())
        assert cells[:3] == ["c0", expected, "0 of 5"], cells


def test_steady_cases_say_if_follow_ups_were_needed() -> None:
    ways = {"c0": "lffff", "c1": "rrrrr", "c2": "fffff"}
    run = made_run([one(way, case, trial=trial) for case, each in ways.items() for trial, way in enumerate(each, 1)])
    assert "✓ 2 other cases, every trial passed, 1 with follow-ups" in lines_of(run, surfaces.WIDE)


def test_reasons_are_new_where_the_baseline_had_none_of_them(project: Project) -> None:
    before = run_of({"bot": "ffffe" * 2}, id="20261101-120000-aaaa")
    now = run_of({"bot": "lffle" * 2})
    known = known_clusters(before.results)
    expected = [
        (4, f"same words again{surfaces.NEW}"),
        (4, f'match "*105*" failed{surfaces.NEW}'),
        (2, "server: HTTP 500"),
    ]
    since = SinceBaseline("main", CaseChanges(worse=4), GateResult("fail", ()), known=known)
    assert surfaces.comment(now, since).clusters == expected
    for form in (surfaces.WIDE, PLAIN):
        listed = surfaces.terminal(now, form, since).clusters or []
        assert [
            (number, words.replace(", new since the baseline", surfaces.NEW)) for number, words in listed
        ] == expected
    assert surfaces.reasons("".join(html.write(now, since=since))) == expected
    pair = "".join(
        html.write_pair(before, now, compare_sides(*(Side(run.run.id, run.results) for run in (before, now))))
    )
    assert surfaces.reasons(pair) == expected
    surfaces.stored(before, project.folder)
    assert surfaces.NEW not in str(surfaces.viewer(now, project.folder).clusters), "no run is a baseline"
    write_baseline(project.folder, "main", baseline_of(before.run.id, before.results))
    assert surfaces.reasons(surfaces.asked(now, project.folder)) == expected


VERDICTS: dict[RuleVerdict, str] = {
    "fail": "Worse than main: 3 broke, 1 fixed, 17 same.",
    "pass": "Not worse than main: 3 broke, 1 fixed, 17 same.",
    "cannot-tell": "Worse than main or not: we cannot tell; 3 broke, 1 fixed, 17 same.",
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_surface_says_if_it_is_worse_than_the_baseline(verdict: RuleVerdict) -> None:
    run, words = RUNS["three targets"], VERDICTS[verdict]
    changes = CaseChanges(worse=3, better=1, same=17)
    rules = (RuleResult("no-regression", verdict, "why"),)
    since = SinceBaseline("main", changes, GateResult(verdict, rules), run="20260101-030405-aaaa")
    for form in (surfaces.WIDE, PLAIN, Form(width=80, symbols=True)):
        lines = [plain_text(row) for row in write_ending(run, (), form, Extras(since=since))]
        assert words in " ".join(" ".join(lines[-6:]).split())
    assert words in surfaces.words_of("".join(html.write(run, since=since)))
    assert words.replace("main", "`main`") in surfaces.comment(run, since).whole


def test_the_viewer_compares_a_run_with_the_newest_baseline_before_it(project: Project) -> None:
    before = run_of({"bot": "ffffffffff"}, id="20260101-030405-aaaa")
    now = run_of({"bot": "fflllfffff"}, id="20260301-030405-bbbb")
    later = run_of({"bot": "ffffffffff"}, id="20260401-030405-cccc")
    for run in (before, now, later):
        surfaces.stored(run, project.folder)
    assert "than main" not in surfaces.asked(now, project.folder), "there is no baseline"
    write_baseline(project.folder, "late", baseline_of(later.run.id, later.results))
    write_baseline(project.folder, "main", baseline_of(before.run.id, before.results))
    shown = surfaces.asked(now, project.folder)
    words = "3 broke, 0 fixed, 7 same."
    assert words in surfaces.words_of(shown) and "than main" in shown
    assert f'href="/compare/{before.run.id}/{now.run.id}"' in shown
    for name in (before.run.id, later.run.id):
        asked = surfaces.words_of(ask(settings(project.folder), "GET", f"/runs/{name}").text)
        assert ("than main" in asked) is (name == later.run.id), "no run is compared with itself or a later one"
    told = " ".join(project.run("show", now.run.id).split())
    assert words in told and "than main" in told


def test_a_baseline_of_other_cases_or_a_broken_one_says_nothing(project: Project) -> None:
    now = run_of({"bot": "fflll"}, id="20260301-030405-bbbb")
    surfaces.stored(now, project.folder)
    other = made_run([one("f", f"d{place}") for place in range(5)], id="20260101-030405-aaaa")
    path = write_baseline(project.folder, "other", baseline_of(other.run.id, other.results))
    assert "than other" not in surfaces.asked(now, project.folder)
    path.write_text(path.read_text()[:200])
    assert "than other" not in surfaces.asked(now, project.folder)
    assert "than other" not in project.run("show", now.run.id)


@bounded(20)
@given(any_runs())
def test_every_surface_has_the_same_rows(tmp_path_factory: pytest.TempPathFactory, run: MadeRun) -> None:
    folder = tmp_path_factory.mktemp("project")
    (folder / ".rejoinder").mkdir()
    check_every_surface(run, folder)


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
    words = "a listens, 1 cannot tell, 1 too few"
    assert verdicts_words(row.summary.listening, row.summary.listeners) == words
    assert words in project.run("runs")
    folder.results.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in run.results))
    folder.close(run.run)
    assert words in surfaces.words_of(ask(settings(project.folder), "GET", "/").text)


@pytest.mark.parametrize(
    ("verdicts", "names", "words"),
    [
        (["listens", "cannot-tell", "cannot-tell"], ["large"], "large listens, 2 cannot tell"),
        (["listens", "listens"], ["a", "b"], "a and b listen"),
        (["listens"], ["a"], "a listens"),
        (["listens"] * 5 + ["stuck"], list("abcde"), "a, b and 3 more listen, 1 stuck"),
        (["listens"], ["x" * 200], f"{'x' * 21}... listens"),
        (["stuck", "not-measured"], [], "stuck"),
    ],
)
def test_lists_of_runs_name_those_that_listen(verdicts: list[Verdict], names: list[str], words: str) -> None:
    assert verdicts_words(verdicts, names) == words


def test_names_of_listeners_in_the_list_are_inert(project: Project) -> None:
    run = run_of({"\x1b[31m<b>x</b>": LISTENS, "b": CANNOT})
    surfaces.stored(run, project.folder)
    assert "\x1b" not in project.run("runs")
    assert "<b>x" not in ask(settings(project.folder), "GET", "/").text


def test_each_verdict_has_a_word() -> None:
    assert verdicts_words(["listens"]) == "listens"
    assert verdicts_words(["not-measured", "listens"]) == "listens"
    assert verdicts_words(["not-measured"]) == ""
    assert list(VERDICT_WORDS.values()) == ["listens", "stuck", "cannot tell", "too few", "not measured"]
