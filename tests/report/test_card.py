"""The card: valid XML, within its frame, the same facts as the board, and nothing that runs or asks for anything."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given

from rejoinder.model.runs import SuiteOfRun
from rejoinder.report.card import HEIGHT, MOST_ROWS, WIDTH, write_card
from rejoinder.run_files import RunDamaged
from rejoinder.views.board import board_of
from tests.kit import Project, bounded, case, refusal, scripted
from tests.report.exports import MadeRun, hostile, hostile_texts
from tests.views.boards import CANNOT, FEW, LISTENS, STUCK, run_of

SVG = "{http://www.w3.org/2000/svg}"
RUNS = {
    "one": run_of({"bot": LISTENS}),
    "three": run_of({"large": LISTENS, "mini": CANNOT, "tiny": STUCK}),
    "six": run_of({"openai/gpt-5-mini": LISTENS, "b": CANNOT, "c": STUCK, "d": FEW, "e": "fff", "f": "eefr" * 3}),
    "sixty": run_of({f"target-{number}": LISTENS for number in range(60)}),
    "errors": run_of({"bot": "eee"}),
    "interrupted": run_of({"bot": "ffrl"}, status="interrupted"),
}


def texts(svg: str) -> list[str]:
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", RUNS)
def test_a_card_says_what_the_board_says(name: str) -> None:
    run = RUNS[name]
    board = board_of(run.run, run.summary)
    told = texts(write_card(run))
    assert " ".join(told[2:]).startswith(board.headline.text)
    assert told[0] == "arithmetic" and told[-2:] == ["rejoinder", "2026-11-16"]
    assert told[1].startswith(f"{run.summary.cases} cases on ")
    for row in board.rows[:MOST_ROWS]:
        assert (row.share.text or row.share.why) in told
        found = row.listening
        if found is not None:
            assert {found.word, found.sentence} <= set(told)
            assert not found.net or f"net recovery {found.net_words}" in told
    assert [one for one in told if one.startswith("and ")] == (["and 54 more"] if name == "sixty" else [])


def test_the_whole_headline_is_bold() -> None:
    [line, *_] = re.findall(r'<text [^>]*font-size="[3-9]\d"[^>]*>[^<]*</text>', write_card(RUNS["three"]))
    assert 'font-weight="600"' in line and "listens" in line


def test_no_figure_is_cut_where_rows_and_numbers_are_large() -> None:
    """Four outcomes of thousands of conversations on six targets."""
    ways = "f" * 1234 + "r" * 1111 + "l" * 2222 + "e" * 333
    told = texts(write_card(run_of(dict.fromkeys("abcdef", ways))))
    assert "1,234 first · 1,111 recovered · 2,222 failed · 333 errors" in told
    assert not [one for one in told if "…" in one]


def test_the_parts_of_a_bar_have_the_colours_of_outcomes_and_their_counts() -> None:
    svg = write_card(RUNS["three"])
    assert "1 first try · 10 recovered · 1 failed" in texts(svg)
    bars = [one for one in ET.fromstring(svg).iter(f"{SVG}rect") if one.get("height") == "18"]
    assert [one.get("fill") for one in bars[:3]] == ["#0a7868", "#1f4fa8", "#c2400c"]
    first, recovered, failed = (float(one.attrib["width"]) for one in bars[:3])
    assert recovered > 9 * first == pytest.approx(9 * failed, rel=0.05)
    dark = write_card(RUNS["three"], "dark")
    assert "#58dcbd" in dark and "#0a7868" not in dark


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", RUNS)
def test_a_card_stays_in_its_frame(name: str, theme: str) -> None:
    svg = write_card(RUNS[name], theme)  # type: ignore[arg-type]
    assert svg == write_card(RUNS[name], theme)  # type: ignore[arg-type]
    root = ET.fromstring(svg)
    assert (root.get("viewBox"), root.get("width"), root.get("height")) == (f"0 0 {WIDTH} {HEIGHT}", "1200", "630")
    for one in root.iter():
        x, y = float(one.get("x", 0)), float(one.get("y", 0))
        assert 0 <= x <= WIDTH and 0 <= y <= HEIGHT
        assert x + float(one.get("width", 0)) <= WIDTH and y + float(one.get("height", 0)) <= HEIGHT
    rows = [float(one.attrib["y"]) for one in root.iter(f"{SVG}text")]
    assert rows[-1] - max(rows[:-2]) > 20  # nothing stands in the last line


def nothing_runs(svg: str) -> None:
    root = ET.fromstring(svg)
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {"svg", "rect", "line", "text", "tspan"}
    for one in root.iter():
        assert not {name for name in one.attrib if name.startswith("on") or "href" in name or name in ("src", "style")}
        assert "url(" not in " ".join(value for name, value in one.attrib.items() if name != "aria-label")


@pytest.mark.slow
@bounded(200)
@given(hostile_texts)
def test_no_name_leaves_its_text(text: str) -> None:
    made = hostile(text)
    named = run_of({text: LISTENS, f"{text}2" * 40: CANNOT}, suites=(SuiteOfRun(text, text),))
    lone = run_of({text * 30: FEW}, suites=(SuiteOfRun(text * 40, text * 40),))
    for run in (made, named, lone):
        for theme in ("light", "dark"):
            nothing_runs(write_card(run, theme))


def test_a_card_of_several_rows_without_a_rate_says_so() -> None:
    told = texts(write_card(run_of({"a": "eee", "b": "eef"})))
    assert told.count("no rate") == 2


def test_similar_long_names_differ_on_the_card() -> None:
    names = [f"a-company/a-very-long-name-of-a-model-{number}" for number in range(3)]
    told = texts(write_card(run_of({names[0]: LISTENS, names[1]: CANNOT, names[2]: STUCK})))
    assert [one for one in told if one.startswith("a-comp") and " " not in one] == ["a-company/"] * 3
    assert len([one for one in told if re.fullmatch(r"….*name-of-a-model-\d", one)]) == 3
    headline = " ".join(told[2:5])
    assert [number for number in "012" if f"model-{number}" in headline] == ["0", "1", "2"]


def test_a_long_headline_takes_at_most_three_lines_of_smaller_letters() -> None:
    def sizes(run: MadeRun) -> list[str]:
        lines = [one for one in ET.fromstring(write_card(run)).iter(f"{SVG}text") if int(one.attrib["font-size"]) > 26]
        return [one.attrib["font-size"] for one in lines]

    assert sizes(run_of({"a": LISTENS, "b": LISTENS})) == ["46"]
    long = {f"{'name' * 5}{number}": way for number, way in enumerate((LISTENS, CANNOT, CANNOT, STUCK, FEW, "fff"))}
    assert len(sizes(run_of(long))) == 3 and set(sizes(run_of(long))) == {"28"}


# The command


def ran(project: Project) -> None:
    suite = {
        "metadata": {"name": "manners"},
        "targets": [scripted("demo", "yes")],
        "target": "demo",
        "evals": [case("one", {"match": "*yes*"}, prompt="Say yes.")],
    }
    project.write("evals.yaml", suite)
    project.run("run", "evals.yaml")


def test_the_command_writes_a_card(project: Project) -> None:
    ran(project)
    assert project.run("report", "--card").startswith("wrote card.svg (")
    light = (project.folder / "card.svg").read_text(encoding="utf-8")
    assert "1 of 1 passed on the first try." in texts(light)
    project.run("report", "last", "--card", "--dark", "--out", "deep/dark.svg")
    dark = (project.folder / "deep" / "dark.svg").read_text(encoding="utf-8")
    assert texts(dark) == texts(light) and dark != light


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dark"], "--dark is for --card"),
        (["--card", "--full"], "--card has no conversations"),
        (["last", "last", "--card"], "--card shows one run, and two are named"),
    ],
)
def test_options_that_do_not_fit_are_refused(project: Project, arguments: list[str], words: str) -> None:
    ran(project)
    assert words in refusal(project, "report", *arguments)
    assert not list(project.folder.glob("*.svg"))


def test_a_damaged_run_has_no_card(project: Project) -> None:
    ran(project)
    [summary] = (project.folder / ".rejoinder" / "runs").glob("*/summary.json")
    summary.write_text(re.sub(r'"passed": *1', '"passed": 2', summary.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(RunDamaged, match=r"summary\.json is damaged"):
        project.run("report", "--card")
    assert not list(project.folder.glob("*.svg"))
