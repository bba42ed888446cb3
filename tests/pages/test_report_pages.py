"""Every page of a report in a real browser: light and dark, on a desk and on a phone, on paper, and without script."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from rejoinder.report.html import write_damaged, write_to
from tests.pages.browsing import DESK, SCREENS, Screen, Tab, Tabs
from tests.pages.kit import Desk, address

SUITE = "service-desk"


class Place(NamedTuple):
    """A page of a report: what pictures call it, where it is, and the heading of the conversation that it shows."""

    name: str
    at: str
    title: str | None = None


def conversation(case: str, target: str, prefix: str = "#/c") -> str:
    return f"{prefix}/{SUITE}/{case}/{target}/-/1"


PLACES = [
    Place("run", "#/"),
    Place("grid", "#/?view=grid"),
    Place("steps", "#/?view=steps"),
    Place("figures", "#/?view=about"),
    Place("recovered-only", "#/?show=recovered&target=atlas-mini&q=refund"),
    Place("nothing-found", "#/?q=not-in-any-transcript"),
    Place("failed", conversation("refund-window", "orca-7b"), "Return after the window has closed"),
    Place("recovered", conversation("date-arithmetic", "orca-7b"), "Ninety days from today"),
    Place("first-try", conversation("greeting-de", "atlas-mini"), "Freundliche Anrede"),
    Place("judge", conversation("angry-customer", "orca-7b"), "Third message, in capitals"),
    Place("rubric", conversation("store-credit-tone", "atlas-mini"), "Voucher instead of money"),
    Place("tools", conversation("book-replacement", "atlas-mini"), "Two tools in one go"),
    Place("json", conversation("extract-invoice", "atlas-mini"), "Invoice to JSON"),
    Place("code", conversation("sql-lookup", "orca-7b"), "No SQL injection"),
    Place("long", conversation("summary-limit", "atlas-mini"), "Sixty words for the board"),
    Place("right-to-left", conversation("greeting-ar", "orca-7b"), None),
    Place("hostile", conversation("prompt-injection", "orca-7b"), None),
    Place("error", conversation("pii-redaction", "atlas-large"), "Personal data removed"),
    Place("targets", f"#/compare/{SUITE}/date-arithmetic/atlas-mini/-/1/orca-7b/-/1", "Ninety days from today"),
    Place("unknown", conversation("no-such-case", "orca-7b"), "no-such-case"),
]
PAIRS = [
    Place("runs", "#/"),
    Place("runs-figures", "#/?view=figures"),
    Place("runs-worse", "#/?show=worse"),
    Place("pair", conversation("order-status", "atlas-mini"), "Looks an order up before it answers"),
    Place("pair-one-side", conversation("order-status", "atlas-mini", "#/a"), "Looks an order up before it answers"),
]


PAINT = """name => {
    const one = document.createElement('span');
    one.style.color = `var(--${name})`;
    document.body.append(one);
    return getComputedStyle(one).color;
}"""


def titles(desk: Desk) -> dict[str, str]:
    return {address(result): result.title for result in desk.a.results}


def look(tab: Tab, places: list[Place], known: dict[str, str], folder: Path, screen: Screen) -> None:
    """Go to each place in turn, take its picture, and say all that is wrong at once."""
    found: list[str] = []
    for place in places:
        tab.go(place.at, place.title or known.get(place.at))
        tab.page.screenshot(path=folder / f"{place.name}-{screen}.png")
        found += tab.faults(place.name, screen)
    assert not found, "\n".join(found)


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_every_page_of_a_report(tabs: Tabs, desk: Desk, pictures: Path, screen: Screen) -> None:
    tab = tabs(desk.report(), screen=screen)
    look(tab, PLACES, titles(desk), pictures, screen)
    tab.assert_quiet()


@pytest.mark.slow
@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_every_page_of_two_runs(tabs: Tabs, desk: Desk, pictures: Path, screen: Screen) -> None:
    tab = tabs(desk.comparison(), screen=screen)
    look(tab, PAIRS, {}, pictures, screen)
    tab.assert_quiet()


@pytest.mark.slow
@pytest.mark.parametrize("screen", [DESK, Screen(390, "dark")], ids=str)
def test_a_damaged_run(tabs: Tabs, tmp_path: Path, pictures: Path, screen: Screen) -> None:
    path = tmp_path / "damaged.html"
    write_to(
        path, write_damaged("20261116-120000-abcd", ["passed is 3, and 2 in the results", "results.jsonl: cut off"])
    )
    tab = tabs(screen=screen)
    tab.page.goto(path.as_uri())
    tab.page.screenshot(path=pictures / f"damaged-{screen}.png")
    assert "passed is 3, and 2 in the results" in tab.text()
    assert list(tab.faults("damaged", screen)) == []
    tab.assert_quiet()


def test_themes_take_turns_and_are_remembered(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report())
    ink = "getComputedStyle(document.body).backgroundColor"
    light = tab.page.evaluate(ink)
    tab.press("t", "t")
    dark = tab.page.evaluate(ink)
    assert light != dark
    tab.page.reload()
    tab.wait_ready()
    assert tab.page.evaluate(ink) == dark
    tab.page.click("#theme")
    assert tab.page.evaluate(ink) == light  # as the system has it


def test_colours_of_the_system_and_reduced_motion_are_kept(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report(), forced_colors="active")
    assert tab.page.locator("#overview").is_visible()
    assert list(tab.faults("forced colours")) == []


def test_twice_the_size_of_letters_needs_no_scrolling_to_the_side(tabs: Tabs, desk: Desk) -> None:
    """A zoom of 200 % is a window of half the width."""
    tab = tabs(desk.report(), screen=Screen(640))
    assert tab.overflow() <= 0
    tab.go(PLACES[3].at, PLACES[3].title)
    assert tab.overflow() <= 0


def test_reasons_are_never_cut_on_a_wide_screen_or_on_paper(tabs: Tabs, desk: Desk) -> None:
    for screen, media in ((DESK, "screen"), (Screen(720), "print")):
        tab = tabs(desk.report(), screen=screen)
        tab.page.emulate_media(media=media)
        cut = "found => found.filter(one => one.scrollWidth > one.clientWidth + 1).length"
        assert tab.page.eval_on_selector_all(".clusters, .clusters ul", cut) == 0
        assert (
            tab.page.evaluate("getComputedStyle(document.querySelector('.brow')).gridTemplateColumns.split(' ').length")
            == 4
        )


def test_a_colour_means_one_thing(tabs: Tabs, desk: Desk) -> None:
    """What is not known to be reliable is no failure, and where two replies part is neither better nor worse."""
    tab = tabs(desk.report(), "#/?view=judges")
    failed = tab.page.evaluate(PAINT, "fail")
    assert tab.page.evaluate("getComputedStyle(document.querySelector('.uncal')).color") != failed
    tab.go(PLACES[-2].at, PLACES[-2].title)
    assert tab.page.evaluate("getComputedStyle(document.querySelector('.split-at')).color") != failed


# On paper


def test_a_run_on_paper_has_every_row(tabs: Tabs, desk: Desk, pictures: Path) -> None:
    tab = tabs(desk.report())
    paper = tab.page.pdf()
    assert paper.startswith(b"%PDF")
    tab.page.emulate_media(media="print")
    tab.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    tab.page.wait_for_function("() => document.querySelectorAll('#rows .row').length === 45")
    assert not tab.page.locator("#theme").is_visible()
    assert not tab.page.locator("#q").is_visible()
    tab.page.screenshot(path=pictures / "paper-run.png", full_page=True)
    tab.page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    tab.page.emulate_media(media="screen")
    tab.page.wait_for_function("() => document.querySelectorAll('#rows .row').length < 45")
    tab.assert_quiet()


def test_a_conversation_on_paper_is_unfolded_and_alone(tabs: Tabs, desk: Desk, pictures: Path) -> None:
    place = next(place for place in PLACES if place.name == "long")
    tab = tabs(desk.report(), place.at)
    tab.page.emulate_media(media="print")
    tab.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert "Part 9" in tab.text("#detail")
    assert not tab.page.locator("#rows").is_visible()
    assert not tab.page.locator("header.top").is_visible()
    tab.page.screenshot(path=pictures / "paper-conversation.png", full_page=True)


# Without JavaScript


@pytest.mark.parametrize("screen", [DESK, Screen(390, "dark")], ids=str)
def test_without_script_the_header_and_what_did_not_pass_are_there(
    tabs: Tabs, desk: Desk, pictures: Path, screen: Screen
) -> None:
    tab = tabs(screen=screen, java_script_enabled=False)
    tab.page.goto(desk.report().as_uri())
    rows = tab.page.locator("noscript tr, .plain tbody tr")
    lost = [result for result in desk.a.results if result.status in ("failed", "error")]
    assert rows.count() >= len(lost)
    text = tab.page.locator(".plain").inner_text()
    assert all(result.id in text for result in lost)
    assert tab.page.locator("#overview").is_visible()
    assert not tab.page.locator("#work").is_visible()
    tab.page.screenshot(path=pictures / f"no-javascript-{screen}.png")
    tab.assert_quiet()
