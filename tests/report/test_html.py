"""The HTML report as a file: figures of the summary, conversations as a whole, and words for what it leaves out."""

from __future__ import annotations

import re
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rejoinder.comparison.sides import Side
from rejoinder.model import Receipt, Result, Summary, TurnResult
from rejoinder.model.comparisons import RunComparison, first_difference
from rejoinder.model.runs import SuiteOfRun
from rejoinder.report import html
from rejoinder.report.html import UnequalFigures, write, write_damaged, write_pair, write_to
from rejoinder.report.page.pairs import CHANGES, differs_from, pair_of
from rejoinder.runs.summary import summarise
from rejoinder.views.rows import OUTCOMES
from tests.comparison.sides import compare_sides
from tests.kit import bounded
from tests.report.courses import caved, failed_in_step, spoilt
from tests.report.exports import MadeRun, check, failed, in_error, judged_together, made_run, mixed, result, turn
from tests.report.html_files import HtmlFile, Raw, Tag
from tests.views.boards import run_of

RECOVERED = (turn("100", passed=False, checks=(check(False),)), turn("105", 2, prompt="Again."))


def page_of(run: MadeRun, **options: bool) -> HtmlFile:
    return HtmlFile(write(run, **options))


def legend_of(page: HtmlFile) -> Counter[str]:
    """What the rows of the board say of each outcome together."""
    counted = Counter[str]()
    for legend in page.of("ul", class_="legend"):
        for name, number in re.findall(r"(First try|Recovered|Failed|Errors|Not sent) ([\d,]+)", legend):
            counted[name] += int(number.replace(",", ""))
    return counted


def outcomes_of(page: HtmlFile) -> Counter[str]:
    columns, texts = page.index["columns"], page.index["texts"]
    pairs = zip(columns["outcome"], columns["aside"], strict=True)
    counted = (OUTCOMES[place] for place, aside in pairs if not texts[aside])
    return Counter(counted)


# Figures


@pytest.mark.parametrize(
    "run", [mixed(), judged_together(), made_run([]), made_run([spoilt(), caved(), failed_in_step()])]
)
def test_header_rows_and_summary_say_the_same(run: MadeRun) -> None:
    page, summary = page_of(run), run.summary
    legend, outcomes = legend_of(page), outcomes_of(page)
    assert legend["First try"] == outcomes["first"] == summary.passed - summary.recovered
    assert legend["Recovered"] == outcomes["recovered"] == summary.recovered
    assert legend["Failed"] == outcomes["failed"] == summary.failed
    assert legend["Errors"] == outcomes["error"] == summary.errors
    assert legend["Not sent"] == outcomes["skipped"] == summary.skipped
    assert len(page.index["columns"]["case"]) == summary.total


def recovered(case: str) -> Result:
    return result(case, *RECOVERED, succeeded_on_turn=2)


def place_of(cell: Tag) -> tuple[str, str]:
    """The case and the target of the conversation that a cell leads to."""
    *_, case, target, _, _ = str(cell.attributes["href"]).split("/")
    return case, target


makers = st.sampled_from([result, recovered, failed, in_error])


@bounded(25)
@given(st.lists(st.tuples(makers, st.sampled_from("abc"), st.sampled_from(["x", "y"])), max_size=12))
def test_grid_and_rows_of_any_run_agree(drawn: list[tuple[Callable[[str], Result], str, str]]) -> None:
    trials, results = Counter[tuple[str, str]](), list[Result]()
    for make, case, target in sorted(drawn, key=lambda one: one[1:]):
        trials[case, target] += 1
        results.append(structs.replace(make(case), target=target, trial=trials[case, target], title=case))
    page = page_of(made_run(results))
    cells = [one for one in page.texts if one[0].attributes.get("class") == "cell" and "href" in one[0].attributes]
    if len({one.target for one in results}) < 2 and max(trials.values(), default=0) < 2:
        assert not cells
        return
    assert {place_of(tag) for tag, _ in cells} == set(trials)
    columns = [
        tag.attributes["data-of"] for tag, text in page.texts if "data-of" in tag.attributes and text != "–not run"
    ]
    assert columns == [place_of(tag)[1] for tag, _ in cells]
    for tag, text in cells:
        words, _, said = text.partition(": ")
        case, target = place_of(tag)
        mine = [one for one in results if (one.id, one.target) == (case, target)]
        passed = sum(one.passed for one in mine)
        if len(mine) > 1:
            again = sum(one.recovered for one in mine)
            assert words == f"{passed} of {len(mine)} passed{f' ({again} recovered)' if again else ''}"
        else:
            assert (
                words
                == {
                    "passed": "recovered on turn 2" if mine[0].recovered else "passed on the first try",
                    "failed": "failed",
                    "error": "error",
                }[mine[0].status]
            )
        assert said
        [linked] = [one for one in mine if str(tag.attributes["href"]).endswith(f"/{one.target}/-/{one.trial}")]
        assert linked.passed == (passed == len(mine))  # a failed trial, where there is one


def test_the_rate_stands_with_its_interval_and_number() -> None:
    run = made_run([*(result(f"a{number}") for number in range(8)), failed("b"), failed("c")])
    page = page_of(run)
    [said], [number] = page.of("p", class_="say"), page.of("p", class_="share")
    assert run.summary.rates is not None
    low, high = run.summary.rates.eventual.interval or (0, 0)
    assert number == f"80% passed {100 * low:.0f} to {100 * high:.0f}"
    assert said.startswith("With 95% confidence")
    assert f"the rate is between {100 * low:.0f}% and {100 * high:.0f}%." in said
    assert page.of("title")[0] == "2 failed, 8 of 10 passed (80%): arithmetic"


def test_several_targets_have_no_common_rate() -> None:
    page = page_of(made_run([result("a"), failed("a", target="other")]))
    assert page.of("p", class_="say") == ["1 of 2 conversations passed on 2 targets. "]
    assert page.of("p", class_="share") == ["100% passed 21 to 100", "0% passed 0 to 79"]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (
            made_run([in_error("a"), in_error("b"), result("c")]),
            "No rate: 2 of 3 had an error.",
        ),
        (
            made_run([result("a"), in_error("b"), result("c")]),
            "1 ended in an error and counts as not passed: 100% of the 2 without an error passed.",
        ),
        (made_run([result("a"), failed("b")], options={"failed_from": "x"}), "Only what did not pass in x was run."),
    ],
)
def test_the_header_says_why_a_rate_is_none_or_not_what_it_seems(run: MadeRun, words: str) -> None:
    assert words in page_of(run).of("p", class_="say")[0]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (made_run([in_error("a"), in_error("b")]), "Nothing was tested: 2 errors."),
        (
            made_run([result("a")], status="interrupted"),
            "The run was interrupted: 1 of 1 conversation ended, 1 passed.",
        ),
        (made_run([result("a"), result("b")]), "2 of 2 passed on the first try."),
        (made_run([result("a"), recovered("b"), failed("c")]), "2 of 3 passed, follow-ups fixed 1 of 1."),
    ],
)
def test_the_headline_says_how_the_run_ended(run: MadeRun, words: str) -> None:
    assert page_of(run).of("h1") == [words]


def test_charts_tell_their_numbers_to_screen_readers() -> None:
    run = made_run(
        [result("a"), result("b", *RECOVERED, succeeded_on_turn=2), failed("c"), failed("c", target="other")]
    )
    labels = [str(tag.attributes["aria-label"]) for tag in page_of(run).tags if tag.attributes.get("role") == "img"]
    [recovery] = labels
    assert "Follow-up 1: 100%, 1 of 1" in recovery


def test_a_summary_that_disagrees_is_never_written() -> None:
    run = mixed()
    for field in ("failed", "errors", "recovered", "total", "skipped"):
        wrong = structs.replace(run.summary, **{field: getattr(run.summary, field) + 1})
        with pytest.raises(UnequalFigures, match="disagrees with its results"):
            next(write(MadeRun(run.run, wrong, run.results)))


def test_a_run_that_was_cut_off_has_the_rows_that_ended() -> None:
    run = structs.replace(made_run([result("a"), failed("b")]).run, planned=5, status="killed")
    page = page_of(MadeRun(run, summarise(two := (result("a"), failed("b")), run), two))
    assert len(page.bodies) == 2
    assert page.of("h1") == ["The run was killed: 2 of 5 conversations ended, 1 passed."]


# Conversations


def test_every_conversation_is_whole_in_the_file() -> None:
    run = made_run([result(f"case-{number}", turn(f"reply {number} " + "x" * 30_000)) for number in range(130)])
    page = page_of(run)
    assert [len(block) for block in page.blocks] == [64, 64, 2]
    columns, bodies = page.index["columns"], page.bodies
    assert columns["body"] == list(range(130))
    for place, one in enumerate(run.results):
        body = bodies[columns["body"][place]]
        assert body["row"]["case"] == one.id
        assert body["turns"][0]["response"] == one.turns[0].response


def test_links_of_the_page_lead_to_its_conversations() -> None:
    run = made_run([failed("a/b c"), failed("a/b c", target="x y", variant="ü")])
    links = {link for link in page_of(run).links() if link.startswith("#/c/")}
    assert links == {"#/c/arithmetic/a%2Fb%20c/demo/-/1", "#/c/arithmetic/a%2Fb%20c/x%20y/%C3%BC/1"}


def test_outcomes_of_the_bar_are_links_that_filter() -> None:
    shown = {link for link in page_of(mixed()).links() if "?show=" in link}
    assert {link.partition("&")[0] for link in shown} == {f"#/?show={name}" for name in OUTCOMES}
    assert "#/?show=failed&target=demo" in shown


def test_what_did_not_pass_is_readable_without_javascript() -> None:
    page = page_of(made_run([failed(f"case-{number}") for number in range(250)]))
    [plain] = page.of("noscript")
    assert "case-0" in plain and "case-199" in plain and "case-200" not in plain
    assert "50 more are not shown here." in plain


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / "a.html", tmp_path / "b.html"]
    for path in paths:
        assert write_to(path, write(mixed())) == path.stat().st_size
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    run = mixed()
    path = tmp_path / "a.html"
    path.write_text("before")
    with pytest.raises(UnequalFigures):
        write_to(path, write(MadeRun(run.run, run.summary, run.results[1:])))
    assert path.read_text() == "before"


def test_judges_are_told_with_what_is_known_of_them() -> None:
    judged = check(False, check="llm_judge Is kind.", kind="llm_judge", judge="grader", judged_by="abc", threshold=0.5)
    run = made_run([failed("a", reason="x"), result("b", turn(checks=(judged,)), status="failed", passed=False)])
    page = page_of(run)
    [row] = page.of("div", class_="jrow")
    assert "llm_judge Is kind." in row and "0 of 1 passed" in row and row.endswith("uncalibrated")
    assert page.index["head"]["judges"] == {"abc": "uncalibrated"}


def test_judges_that_read_alike_are_told_apart_by_their_digests() -> None:
    asked = {"check": "llm_judge Is kind.", "kind": "llm_judge", "judge": "grader", "threshold": 0.5}
    checks = tuple(check(True, judged_by=digest, **asked) for digest in ("abcdef0123", "fedcba3210"))
    rows = page_of(made_run([result("a", turn(checks=checks))])).of("div", class_="jrow")
    assert [row.partition(")")[0] for row in rows] == ["grader (abcdef", "grader (fedcba"]


def test_a_damaged_run_has_words_and_no_figures() -> None:
    page = HtmlFile(write_damaged("20261116-1", ["summary.json: passed is 3, and 2 are counted"], 4))
    assert page.of("h1") == ["This run is damaged"]
    assert page.of("ul", class_="wrong") == ["summary.json: passed is 3, and 2 are countedand 4 more"]
    assert not page.of("script", id="index") and not page.of("svg", class_="bar") and not page.of("ol", class_="board")


# Large runs


class Many:
    """A run whose results are made when they are read: each third recovers, fails or passes."""

    def __init__(self, number: int, reply: str = "yes", targets: tuple[str, ...] = ("demo",)) -> None:
        self._number, self._reply, self._targets = number, reply, targets
        made = made_run(self)
        self.run: Receipt = structs.replace(made.run, suites=(SuiteOfRun("evals.yaml", "arithmetic"),))
        self.summary: Summary = made.summary

    @property
    def results(self) -> Iterator[Result]:
        return iter(self)

    def __iter__(self) -> Iterator[Result]:
        kinds = (result("x"), failed("x"), result("x", *RECOVERED, succeeded_on_turn=2))
        for number in range(self._number):
            one = kinds[number % 3]
            said = structs.replace(one.turns[0], response=f"{number} {self._reply}")
            target = self._targets[number // 3 % len(self._targets)]
            yield structs.replace(one, id=f"case-{number}", turns=(said, *one.turns[1:]), target=target)


@pytest.fixture
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MOST_WHOLE", 50)
    monkeypatch.setattr(html, "MOST_PASSED", 4)


@pytest.mark.usefixtures("_small_bounds")
def test_a_large_run_keeps_all_rows_and_what_did_not_pass_at_once() -> None:
    page = HtmlFile(write(Many(60, targets=("a", "b"))))
    columns = page.index["columns"]
    assert len(columns["case"]) == 60
    kept = Counter(OUTCOMES[columns["outcome"][place]] for place, body in enumerate(columns["body"]) if body >= 0)
    assert kept == {"first": 8, "failed": 20, "recovered": 20}
    assert len(page.bodies) == 48 == 1 + max(columns["body"])
    for place, body in enumerate(columns["body"]):
        if body >= 0:
            assert page.bodies[body]["row"]["case"] == page.index["cases"][columns["case"][place]][1]
    [foot] = page.of("footer")
    assert "It lists all 60 conversations and holds 48 of them whole" in foot


@pytest.mark.usefixtures("_small_bounds")
def test_full_and_small_runs_keep_everything() -> None:
    for page in (HtmlFile(write(Many(60), full=True)), HtmlFile(write(Many(50)))):
        assert -1 not in page.index["columns"]["body"]
        assert "of them whole" not in page.of("footer")[0]


@pytest.mark.slow
def test_memory_grows_by_rows_and_not_by_what_was_said() -> None:
    reply = "All work and no play makes a long reply. " * 500

    def peak(number: int) -> int:
        run = Many(number, reply)
        tracemalloc.start()
        try:
            for _ in write(run):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(3)
    assert (peak(900) - peak(300)) / 600 < len(reply) / 10


# Two runs


def compared(a: MadeRun, b: MadeRun) -> RunComparison:
    return compare_sides(Side(a.run.id, a.results), Side(b.run.id, b.results))


def pair_page(a: MadeRun, b: MadeRun) -> HtmlFile:
    return HtmlFile(write_pair(a, b, compared(a, b)))


def changes_of(page: HtmlFile) -> dict[str, str]:
    columns, cases = page.index["columns"], page.index["cases"]
    return {cases[case][1]: CHANGES[change] for case, change in zip(columns["case"], columns["change"], strict=True)}


A = made_run(
    [
        result("same"),
        result("words", turn("one")),
        result("breaks"),
        failed("fixed"),
        result("gone", turn(checks=(check(check="match *another question*"),))),
        result("errs"),
        result("unasked", status="skipped", passed=False),
    ],
    id="20261115-a",
)
B = made_run(
    [
        result("new"),
        failed("breaks", reply="nope"),
        result("words", turn("two")),
        result("fixed", *RECOVERED, succeeded_on_turn=2),
        result("same"),
        in_error("errs"),
        result("unasked"),
    ],
    id="20261116-b",
)


def test_two_runs_are_paired_by_case_whatever_their_order() -> None:
    page = pair_page(A, B)
    assert changes_of(page) == {
        "new": "only",
        "breaks": "worse",
        "words": "words",
        "fixed": "better",
        "same": "same",
        "errs": "worse",
        "unasked": "only",
        "gone": "only",
    }
    columns = page.index["columns"]
    assert {len(column) for column in columns.values()} == {8}
    before = dict(zip((page.index["cases"][case][1] for case in columns["case"]), columns["before"], strict=True))
    assert before == {"new": -1, "breaks": 0, "words": 0, "fixed": 2, "same": 0, "errs": 0, "unasked": 4, "gone": 0}
    assert page.index["head"]["pair"] == {"a": "20261115-a", "b": "20261116-b"}


def test_pairs_hold_both_conversations() -> None:
    page = pair_page(A, B)
    columns = page.index["columns"]
    for place, body in enumerate(columns["body"]):
        name = page.index["cases"][columns["case"][place]][1]
        a, b = page.bodies[body]
        assert (a is None, b is None) == (name == "new", name == "gone")
        assert {side["row"]["case"] for side in (a, b) if side is not None} == {name}


def test_flips_are_those_of_the_comparison() -> None:
    found, changes = compared(A, B), changes_of(pair_page(A, B))
    assert {flip.id for flip in found.broke} == {name for name, change in changes.items() if change == "worse"}
    assert {flip.id for flip in found.fixed} == {name for name, change in changes.items() if change == "better"}
    turns = dict(zip((case[1] for case in pair_page(A, B).index["cases"]), differing(pair_page(A, B)), strict=True))
    assert {flip.id: flip.turn for flip in found.flips} == {flip.id: turns[flip.id] for flip in found.flips}


def differing(page: HtmlFile) -> list[int]:
    columns = page.index["columns"]
    return [columns["differs"][columns["case"].index(case)] for case in range(len(page.index["cases"]))]


def test_swapped_runs_mirror() -> None:
    one, other = pair_page(A, B), pair_page(B, A)
    mirrored = {"worse": "better", "better": "worse"}
    assert changes_of(other) == {name: mirrored.get(change, change) for name, change in changes_of(one).items()}
    names = [[case[1] for case in page.index["cases"]] for page in (one, other)]
    assert dict(zip(names[0], differing(one), strict=True)) == dict(zip(names[1], differing(other), strict=True))


def asked(prompt: str, reply: str | None, passed: bool) -> TurnResult:
    return turn(reply, prompt=prompt, passed=passed)


said = st.builds(asked, st.sampled_from("pq"), st.sampled_from(["a", "b", None]), st.booleans())


@bounded(200)
@given(st.lists(said, max_size=3), st.lists(said, max_size=3))
def test_the_first_difference_is_that_of_compare(one: list[TurnResult], other: list[TurnResult]) -> None:
    a, b = (structs.replace(result("x"), turns=tuple(turns)) for turns in (one, other))
    kept = [[(turn.prompt, turn.response, turn.passed) for turn in side.turns] for side in (a, b)]
    numbers = {text: place for place, text in enumerate({part for side in kept for row in side for part in row[:2]})}
    rows = [[(numbers[asked], numbers[reply], int(passed)) for asked, reply, passed in side] for side in kept]
    expected = 0 if kept[0] == kept[1] else first_difference(rows[0], rows[1])[0]
    assert differs_from(a, b) == differs_from(b, a) == expected
    if expected > 1:
        assert kept[0][: expected - 1] == kept[1][: expected - 1] or kept[0][expected - 1 :] != kept[1][expected - 1 :]


def test_what_decides_nothing_flips_nothing() -> None:
    aside = spoilt()
    assert pair_of(aside, structs.replace(aside, status="failed", passed=False)).change == "same"
    assert pair_of(None, aside).change == "only"
    with pytest.raises(ValueError, match="one conversation at least"):
        pair_of(None, None)


def test_one_target_against_another_is_paired_without_its_name() -> None:
    a, b = made_run([result("x", target="old")]), made_run([failed("x", target="new")])
    found = compare_sides(Side("a", a.results, "old"), Side("b", b.results, "new"))
    page = HtmlFile(write_pair(a, b, found))
    assert changes_of(page) == {"x": "worse"}
    assert page.index["targets"] == ["new"]


def test_a_renamed_case_is_one_pair() -> None:
    a, b = made_run([result("before"), result("stays")]), made_run([failed("after"), result("stays")])
    a = MadeRun(
        a.run,
        a.summary,
        (
            structs.replace(a.results[0], raw_request=structs.replace(a.results[0].raw_request, question="Q")),
            a.results[1],
        ),
    )
    b = MadeRun(
        b.run,
        b.summary,
        (
            structs.replace(b.results[0], raw_request=structs.replace(b.results[0].raw_request, question="Q")),
            b.results[1],
        ),
    )
    found = compared(a, b)
    assert [(one.a.id, one.b.id) for one in found.renamed] == [("before", "after")]
    assert changes_of(HtmlFile(write_pair(a, b, found))) == {"after": "worse", "stays": "same"}


def test_a_case_of_a_alone_keeps_an_address_of_its_own() -> None:
    a = made_run([result("x", file="old.yaml", turns=(turn("one", checks=(check(check="match *other*"),)),))])
    b = made_run([result("x", file="new.yaml")])
    page = pair_page(a, b)
    assert [case[0] for case in page.index["cases"]] == ["arithmetic", "arithmetic (A)"]


def test_two_runs_of_several_targets_have_a_row_for_each() -> None:
    ways = {"mini": "fffll", "large": "fffff", "huge": "lllll"}
    a, b = (run_of(ways, id=f"20260101-030405-000{n}") for n in (1, 2))
    page = pair_page(a, b)
    [told, every] = page.of("table", class_="figures")
    assert re.findall("mini|large|huge", told) == ["huge", "large", "mini"]
    assert "60% (3 of 5)" in told and "First try" not in told and "First try" in every
    [title] = page.of("h1")
    assert title == "Worse or not: we cannot tell; 0 broke, 0 fixed."
    many = run_of({f"t{n}": "ff" for n in range(20)})
    [told, _] = pair_page(many, many).of("table", class_="figures")
    assert told.count("2 of 2") == 2 * 6
    assert "14 more below, in all figures." in "".join(pair_page(many, many).of("p", class_="about"))


def test_the_header_of_two_runs_says_what_compare_says() -> None:
    found, page = compared(A, B), pair_page(A, B)
    [figures] = page.of("table", class_="figures")
    assert page.of("h1") == ["Worse or not: we cannot tell; 2 broke, 1 fixed."]
    assert "2 of 5 cases broke, 1 was fixed" in page.of("p", class_="say")[0]
    eventual = found.eventual
    assert f"{eventual.a.passed} of {eventual.a.of}" in figures and f"{eventual.b.passed} of {eventual.b.of}" in figures
    assert eventual.difference is not None and f"{100 * eventual.difference:+.0f} points" in figures
    assert "First try" in figures and "Final pass rate" in figures and "Tokens per case" in figures


def raw_head(page: HtmlFile) -> Raw:
    return page.index["head"]


def test_the_head_says_what_the_script_needs() -> None:
    head = raw_head(page_of(made_run([result("a", variant="terse"), result("a", variant="long")])))
    assert head == {
        "run": "20261116-120000-abcd",
        "title": "arithmetic",
        "targets": ["demo"],
        "variants": ["terse", "long"],
        "block": html.BLOCK,
        "judges": {},
        "fork": True,
        "version": "0.2.0",
    }
