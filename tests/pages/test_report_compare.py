"""Two conversations beside each other: the first difference is the one that a plain reading finds, from both sides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rejoinder.model import Result, TurnResult
from tests.pages.browsing import Screen, Tab, Tabs
from tests.pages.kit import Desk, address, write_report
from tests.report.exports import check, made_run, result, turn


def said(*turns: tuple[str, str | None, bool]) -> tuple[TurnResult, ...]:
    """Turns by prompt, reply and verdict."""
    return tuple(
        turn(reply, number, prompt=prompt, passed=passed, checks=(check(passed),) if reply is not None else ())
        for number, (prompt, reply, passed) in enumerate(turns, 1)
    )


PAIRS = {
    "nothing": (said(("q", "a", True)), said(("q", "a", True))),
    "reply": (said(("q", "one two three", False)), said(("q", "one 2 three", False))),
    "second reply": (said(("q", "a", False), ("w", "b", False)), said(("q", "a", False), ("w", "c", True))),
    "verdict": (said(("q", "a", False), ("w", "b", True)), said(("q", "a", True))),
    "longer": (said(("q", "a", False), ("w", "b", False)), said(("q", "a", False))),
    "prompt": (said(("q", "a", False), ("w", "b", True)), said(("q", "a", False), ("v", "b", True))),
    "no reply": (said(("q", None, False)), said(("q", "a", True))),
}


def first_difference(one: tuple[TurnResult, ...], other: tuple[TurnResult, ...]) -> int:
    """The first turn of which prompt, reply or verdict differ, or that only one of them has; 0 for none."""
    for number, (a, b) in enumerate(zip(one, other, strict=False), 1):
        if (a.prompt, a.response, a.passed) != (b.prompt, b.response, b.passed):
            return number
    return 0 if len(one) == len(other) else min(len(one), len(other)) + 1


def of_pair(name: str, target: str, turns: tuple[TurnResult, ...]) -> Result:
    passed = turns[-1].passed
    ended = {"status": "passed", "succeeded_on_turn": len(turns)} if passed else {"status": "failed"}
    known = {"succeeded_on_turn": None, "score": float(passed), "passed": passed, "title": name, "target": target}
    return result(name, *turns, **{**known, **ended})


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = [of_pair(name, target, pair[side]) for name, pair in PAIRS.items() for side, target in enumerate("AB")]
    return write_report(made_run(results), tmp_path_factory.mktemp("pairs") / "report.html")


def shown_difference(tab: Tab, name: str, one: str, other: str) -> tuple[int, str]:
    """The turn at which the page says that two targets part, and its words."""
    tab.go(f"#/compare/arithmetic/{name.replace(' ', '%20')}/{one}/-/1/{other}/-/1", name)
    tab.page.wait_for_selector("#detail .pair.heads")
    words = tab.text("#detail .note")
    found = re.search(r"differ from turn (\d+) on", words)
    marked = tab.page.locator("#first").all_inner_texts()
    assert bool(found) is bool(marked)
    if not found:
        return 0, words
    assert f"turn {found[1]}:" in marked[0]
    below = tab.page.evaluate("() => document.querySelector('#first').nextElementSibling.id")
    assert below == f"t{found[1]}"
    return int(found[1]), marked[0]


def test_the_first_difference_is_that_of_a_plain_reading(tabs: Tabs, report: Path) -> None:
    tab = tabs(report)
    for name, (one, other) in PAIRS.items():
        assert shown_difference(tab, name, "A", "B")[0] == first_difference(one, other), name
        assert tab.overflow() <= 0
    tab.assert_quiet()


def test_swapped_sides_are_mirrored(tabs: Tabs, report: Path) -> None:
    tab = tabs(report)

    def sides() -> list[list[str]]:
        pairs = "found => found.map(p => [...p.querySelectorAll(':scope > .side:not(.asked)')].map(s => s.innerText))"
        return tab.page.eval_on_selector_all("#detail .pair", pairs)

    for name in PAIRS:
        turn_, words = shown_difference(tab, name, "A", "B")
        forth = sides()
        again, mirrored = shown_difference(tab, name, "B", "A")
        assert again == turn_
        assert [side[::-1] for side in sides()] == forth, name
        assert sorted(re.findall(r"\w+", words)) == sorted(re.findall(r"\w+", mirrored)), name  # by names, not by sides


def test_words_that_differ_are_marked_on_both_sides(tabs: Tabs, report: Path) -> None:
    tab = tabs(report)
    shown_difference(tab, "reply", "A", "B")
    assert tab.page.locator("#detail .side .da").all_inner_texts() == ["two"]
    assert tab.page.locator("#detail .side .db").all_inner_texts() == ["2"]


def test_long_replies_are_folded_around_what_differs(tabs: Tabs, tmp_path: Path) -> None:
    """Also where it stands behind what a page shows of a long text, and where too much differs to compare words."""
    story = "\n\n".join(
        f"Paragraph {n}: the parcel was held because its label had lost the barcode." for n in range(110)
    )
    raw = " ".join(f"line{n}" for n in range(9_000))
    others = [" ".join(f"{letter}{n}" for n in range(700)) for letter in "ab"]
    pairs = {
        "end": (f"{story}\n\nIt arrived in Basel.", f"{story}\n\nIt arrived at last in Bern today."),
        "raw": (f"{raw} Basel", f"{raw} Bern"),
        "much": (f"{story} Basel {others[0]}", f"{story} Bern {others[1]}"),
    }
    results = [
        of_pair(name, target, said(("q", pair[side], False)))
        for name, pair in pairs.items()
        for side, target in enumerate("AB")
    ]
    tab = tabs(write_report(made_run(results), tmp_path / "report.html"))
    inside = """() => [...document.querySelectorAll('.side')].map(side => {
        const box = side.querySelector('.clamp').getBoundingClientRect();
        const word = side.querySelector('.from');
        const place = word.getBoundingClientRect();
        return [word.textContent.replace('.', ''), place.top > box.top && place.bottom < box.bottom];
    })"""
    for name in pairs:
        shown_difference(tab, name, "A", "B")
        words = "in", "at" if name == "end" else "Bern"
        assert tab.page.evaluate(inside) == [["in" if name == "end" else "Basel", True], [words[1], True]], name
        marked = tab.page.locator(".side :is(.da, .db)").all_inner_texts()
        assert bool(marked) is (name != "much"), name
    assert tab.overflow() <= 0


LOOKS = """found => found.map(one => {
    const css = getComputedStyle(one);
    return [css.backgroundColor, css.color, css.textDecorationLine, css.boxShadow];
})"""
PAINTS = """names => names.map(name => {
    const one = document.createElement('span');
    one.style.background = `var(--${name})`;
    document.body.append(one);
    const { backgroundColor } = getComputedStyle(one);
    one.remove();
    return backgroundColor;
})"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_side_has_not_the_colour_of_an_outcome(tabs: Tabs, report: Path, theme: str) -> None:
    tab = tabs(report, screen=Screen(theme=theme))
    shown_difference(tab, "reply", "A", "B")
    [one], [other] = (tab.page.eval_on_selector_all(f"#detail .side .{side}", LOOKS) for side in ("da", "db"))
    assert one[:2] == other[:2], "which side is better is not said by a colour"
    assert (one[2], other[2]) == ("line-through", "underline")
    assert {one[3], other[3]} == {"none"}
    outcomes = ["first", "rec", "fail", "err", "first-bg", "rec-bg", "fail-bg", "err-bg", "hit", "miss", "found"]
    painted = tab.page.evaluate(PAINTS, [*outcomes, "side"])
    assert one[0] == painted[-1]
    assert one[0] not in painted[:-1]
    red, green, blue = (int(part) for part in re.findall(r"\d+", one[0])[:3])
    assert max(red, green, blue) - min(red, green, blue) <= 16, "grey"
    assert list(tab.faults("compare", Screen(theme=theme))) == []


def test_both_sides_are_links_and_lead_there(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report(), "#/compare/service-desk/date-arithmetic/atlas-mini/-/1/orca-7b/-/1")
    for place, target in enumerate(("atlas-mini", "orca-7b")):
        tab.go("#/compare/service-desk/date-arithmetic/atlas-mini/-/1/orca-7b/-/1", "Ninety days from today")
        tab.page.wait_for_selector("#detail .headlink")
        tab.page.locator("#detail .headlink").nth(place).click()
        tab.page.wait_for_selector("#detail .headlink", state="detached")
        assert target in tab.text("#detail .meta")


def test_a_conversation_is_compared_by_its_menu(tabs: Tabs, desk: Desk) -> None:
    one = next(made for made in desk.a.results if made.id == "sql-lookup" and made.target == "orca-7b")
    tab = tabs(desk.report(), address(one))
    menu = tab.page.locator("#detail select[aria-label='Compare with']")
    assert menu.locator("option").all_inner_texts()[1:] == [
        "atlas-large: Passed on the first try",
        "atlas-mini: Recovered on turn 2",
    ]
    menu.select_option(index=2)
    tab.page.wait_for_selector("#detail .pair.heads")
    assert "compare" in tab.page.url
    assert re.search(r"differ from turn \d on", tab.text("#detail .note"))


def test_flips_of_two_runs_are_those_of_their_results(tabs: Tabs, desk: Desk) -> None:
    """In words, and counted without any code of comparisons."""
    a = {address(made): made for made in desk.a.results}
    b = {address(made): made for made in desk.b.results}
    worse = [place for place in a if a[place].passed and not b[place].passed]
    better = [place for place in a if not a[place].passed and b[place].passed and a[place].status != "error"]
    other = [
        place
        for place in a
        if a[place].passed == b[place].passed
        and [turn.response for turn in a[place].turns] != [turn.response for turn in b[place].turns]
    ]
    assert (len(worse), len(better), len(other)) == (1, 1, 1)
    tab = tabs(desk.comparison())
    for show, places in (("worse", worse), ("better", better), ("words", other)):
        tab.page.evaluate("show => { location.hash = '#/?show=' + show }", show)
        tab.page.wait_for_function("() => document.querySelector('.count').textContent.startsWith('1 of 45')")
        tab.page.evaluate("() => document.querySelector('#list').scrollIntoView()")
        tab.page.wait_for_selector("#rows .row")
        found = tab.page.eval_on_selector_all(
            "#rows .row", "found => found.map(e => e.getAttribute('href').split('?')[0])"
        )
        assert found == places, show
        words = " ".join((tab.page.text_content("#r0 .w") or "").split())
        assert show == "words" or re.match(r"(Broke|Fixed): [^:]* → [^:]* · (First )?it said “", words), words
    assert tab.page.title() == "Cannot tell, 1 broke, 1 fixed: service-desk"
    tab.assert_quiet()
