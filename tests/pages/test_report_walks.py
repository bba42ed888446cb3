"""Ways through a report: by keys, by links, back and forward, and by addresses that somebody was sent."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from msgspec import structs

from rejoinder.model import AskedBy
from tests.comparison.sides import one
from tests.pages.browsing import Screen, Tab, Tabs
from tests.pages.kit import TARGETS, Desk, Sizes, address, large, write_report
from tests.report.exports import check, failed, made_run, result, turn

PHONE = Screen(390)


def heading(tab: Tab) -> str:
    return tab.text("#detail h1")


def current(tab: Tab) -> int:
    """The place of the row that is chosen, as screen readers are told."""
    return int((tab.page.get_attribute("#rows", "aria-activedescendant") or "r-1")[1:])


def wait_open(tab: Tab, place: int) -> None:
    tab.page.wait_for_function("n => document.querySelector('#rows .row.open')?.id === 'r' + n", arg=place)


def wait_total(tab: Tab, words: str) -> None:
    tab.page.wait_for_function("words => document.querySelector('.count').textContent.startsWith(words)", arg=words)


def pill(tab: Tab) -> str:
    return tab.page.locator(".pill[aria-pressed=true]").text_content() or ""


# Keys


def test_a_walk_by_keys(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report())
    title = tab.page.title()
    tab.press("/")
    assert tab.page.evaluate("() => document.activeElement.id") == "q"
    tab.page.keyboard.type("jkf?")  # a field takes letters as letters
    assert tab.page.input_value("#q") == "jkf?"
    assert not tab.page.locator("dialog[open]").count()
    tab.page.fill("#q", "")
    wait_total(tab, "45 conversations")
    tab.press("Escape")
    assert tab.page.evaluate("() => document.activeElement.id") == "rows"
    assert current(tab) == 0
    tab.press("j", "j", "k", "ArrowDown", "ArrowUp")
    assert current(tab) == 1
    tab.press("Enter")
    wait_open(tab, 1)
    assert heading(tab) == "Looks an order up before it answers"
    assert tab.page.title().startswith("Looks an order up before it answers: ")
    tab.press("j")
    wait_open(tab, 2)
    tab.press("k")
    wait_open(tab, 1)
    tab.press("Escape")
    tab.page.wait_for_selector("#detail", state="hidden")
    assert tab.page.title() == title
    assert tab.page.evaluate("() => document.activeElement.id") == "rows"
    tab.press("End")
    assert current(tab) == 44
    tab.press("j", "Home", "k")
    assert current(tab) == 0
    tab.assert_quiet()


def test_keys_of_filters_themes_and_help(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report())
    tab.press("f")
    wait_total(tab, "13 of 45")
    assert pill(tab) == "Failed 13"
    tab.press("f")
    wait_total(tab, "45 ")
    for key, shown in (("3", "Recovered 14"), ("4", "Errors 1"), ("5", "First try 17"), ("1", "All 45")):
        tab.press(key)
        tab.page.wait_for_function(
            "shown => document.querySelector('.pill[aria-pressed=true]').textContent === shown", arg=shown
        )
    tab.press("?")
    assert tab.page.locator("dialog[open]").is_visible()
    told = tab.page.locator("dialog[open] kbd").all_inner_texts()
    assert {"j", "k", "Enter", "Esc", "/", "f", "e", "c", "t", "?"} <= set(told)
    tab.press("j")  # a dialog takes no keys of the page
    tab.press("Escape")
    assert not tab.page.locator("dialog[open]").count()
    tab.press("Control+f", "Alt+j", "Meta+k")
    assert pill(tab) == "All 45"
    tab.assert_quiet()


def test_every_control_is_reached_by_tab_and_shows_that_it_is(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report(), "#/?show=failed")
    tab.press("Tab")
    assert tab.text(":focus") == "Skip to conversations"
    seen: set[str] = set()
    for _ in range(120):
        tab.press("Tab")
        name, outline = tab.page.evaluate(
            "() => { const e = document.activeElement, s = getComputedStyle(e); return "
            "[e.id || e.className || e.tagName, s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0]; }"
        )
        if name == "BODY":
            break
        assert outline or name in ("q", "rows"), name
        seen.add(name)
    assert {"keys", "theme", "q", "rows"} <= seen


# Links and the history


def test_three_clicks_to_why(tabs: Tabs, desk: Desk) -> None:
    """From the run: what failed, a row, and there the reason stands."""
    tab = tabs(desk.report())
    tab.page.click(".pill:has-text('Failed')")
    wait_total(tab, "13 of 45")
    tab.page.click("#rows .row >> nth=0")
    tab.page.wait_for_selector("#detail .why")
    assert tab.text("#detail .why").startswith('icontains "store credit" failed, and 1 more.')
    tab.page.click("#detail .why")
    tab.page.wait_for_function("() => document.activeElement.id === 't2'")
    assert "turn=2" in tab.page.url


def test_each_part_of_the_bar_leads_to_its_conversations(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report())
    row = tab.page.locator("#board .brow:has(svg a[href*='show=recovered'])").first
    parts = row.locator("svg a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert len(parts) > 1
    for part in parts:
        link = f"a[href='{part}']"
        number = row.locator(f".legend {link} strong").inner_text()
        row.locator(f"svg {link}").click()
        wait_total(tab, f"{number} of 45")
        tab.page.wait_for_selector("#rows .row")
    tab.assert_quiet()


def test_back_and_forward_lead_through_what_was_opened(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report(), "#/?show=recovered")
    wait_total(tab, "14 of 45")
    tab.page.evaluate("() => document.querySelector('#list').scrollIntoView()")
    before = tab.page.evaluate("() => scrollY")
    tab.page.click("#rows .row >> nth=2")
    wait_open(tab, 2)
    first = heading(tab)
    tab.press("j")
    wait_open(tab, 3)
    tab.page.go_back()
    wait_open(tab, 2)
    assert heading(tab) == first
    tab.page.go_back()
    tab.page.wait_for_selector("#detail", state="hidden")
    assert pill(tab) == "Recovered 14"
    assert abs(tab.page.evaluate("() => scrollY") - before) < 60
    tab.page.go_forward()
    wait_open(tab, 2)
    assert heading(tab) == first
    tab.assert_quiet()


def test_a_filter_stays_when_a_conversation_is_opened_and_closed(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report())
    tab.page.select_option("select[name=target]", TARGETS[1])
    wait_total(tab, "15 of 45")
    tab.page.fill("#q", "parcel")
    wait_total(tab, "4 of 45")  # transcripts are searched a moment later
    found = tab.text(".count")
    tab.press("Enter")
    tab.page.wait_for_selector("#detail h1")
    tab.press("Escape")
    tab.page.wait_for_selector("#detail", state="hidden")
    assert (tab.text(".count"), tab.page.input_value("#q")) == (found, "parcel")
    assert f"target={TARGETS[1]}" in tab.page.url
    assert "q=parcel" in tab.page.url


def test_on_a_phone_one_thing_is_shown_at_a_time(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report(), "#/?show=failed", screen=PHONE)
    tab.page.locator("#rows").scroll_into_view_if_needed()
    tab.page.tap("#rows .row >> nth=0")
    tab.page.wait_for_selector("#detail h1")
    assert not tab.page.locator("#rows").is_visible()
    tab.page.tap("text=← List")
    tab.page.wait_for_selector("#detail", state="hidden")
    assert tab.page.locator("#rows").is_visible()
    tab.assert_quiet()


# Addresses

PLACES = [
    "#/?show=recovered",
    f"#/?show=failed&target={TARGETS[2]}&q=refund",
    "#/?tag=tools",
    "#/c/service-desk/refund-window/orca-7b/-/1",
    "#/c/service-desk/date-arithmetic/orca-7b/-/1?turn=3",
    "#/c/service-desk/greeting-ja/atlas-mini/-/1?show=recovered",
    "#/compare/service-desk/date-arithmetic/atlas-mini/-/1/orca-7b/-/1",
]


def seen(tab: Tab) -> dict[str, str]:
    """What a person sees, and what the address bar says."""
    shown = tab.text("#detail") if tab.page.locator("#detail").is_visible() else ""
    return {
        "url": tab.page.url,
        "title": tab.page.title(),
        "count": tab.text(".count"),
        "pill": pill(tab),
        "shown": shown,
    }


def test_an_address_gives_the_same_page_in_a_fresh_browser(tabs: Tabs, desk: Desk) -> None:
    one = tabs(desk.report())
    for place in PLACES:
        title = one.page.title()
        one.page.evaluate("place => { location.hash = place }", place)
        if "/c" in place:
            one.page.wait_for_function("title => document.title !== title", arg=title)
        other = tabs(desk.report(), place)
        other.page.wait_for_function(
            "words => document.querySelector('.count').textContent === words", arg=one.text(".count")
        )
        assert seen(other) == seen(one), place
        assert other.page.url.endswith(place)
        other.assert_quiet()


def test_every_row_and_every_cell_leads_to_the_conversation_that_it_names(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report())
    cells = tab.page.eval_on_selector_all("#grid a.cell", "found => found.map(e => e.getAttribute('href'))")
    known = {address(result): result for result in desk.a.results}
    assert set(cells) == set(known)
    for place in cells[::5]:
        tab.go(place, known[place].title)
        assert known[place].target in tab.text("#detail .meta")


@pytest.mark.parametrize(
    "place",
    [
        "#/c/service-desk/no-such-case/orca-7b/-/1",
        "#/c/service-desk/refund-window/orca-7b/-/7",
        "#/c/service-desk/refund-window/orca-7b/other/1",
        "#/c/",
        "#/c/%E0%A4%A/x/y/-/1",
        "#/c/__proto__/constructor/toString/-/1",
        "#/a/service-desk/refund-window/orca-7b/-/1x",
    ],
)
def test_an_unknown_conversation_is_said_to_be_unknown(tabs: Tabs, desk: Desk, place: str) -> None:
    tab = tabs(desk.report(), place)
    if place.endswith("1x"):  # a number that is none is the first trial
        assert heading(tab) == "Return after the window has closed"
        return
    assert "There is no such conversation here." in tab.text("#detail")
    tab.page.click("text=Show the list")
    tab.page.wait_for_selector("#detail", state="hidden")
    assert tab.text(".count").startswith("45 conversations")
    tab.assert_quiet()


@pytest.mark.parametrize("place", ["#", "#/", "#/nonsense", "#/?show=nonsense", "#work", "#/?q=%", "#/?turn=-1&x=y"])
def test_any_other_address_is_the_run(tabs: Tabs, desk: Desk, place: str) -> None:
    tab = tabs(desk.report(), place)
    assert tab.page.locator("#overview").is_visible()
    assert not tab.page.locator("#detail").is_visible()
    tab.assert_quiet()


def test_a_conversation_that_was_left_out_says_how_to_have_it(
    tabs: Tabs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rejoinder.report.html.MOST_WHOLE", 50)
    monkeypatch.setattr("rejoinder.report.html.MOST_PASSED", 3)
    run = large(Sizes(100))
    tab = tabs(write_report(run, tmp_path / "report.html"))
    left = [result for result in run.results if result.status == "passed" and len(result.turns) == 1][-1]
    tab.go(address(left), left.title)
    assert "make the report with --full" in tab.text("#detail")
    assert "--full" in tab.text(".foot")
    lost = next(result for result in run.results if result.status == "failed")
    tab.go(address(lost), lost.title)
    assert "--full" not in tab.text("#detail")


def test_names_with_any_characters_have_addresses(tabs: Tabs, tmp_path: Path) -> None:
    names = ["a/b", "a?b#c", "50 %", "ünï côde", "..", "-", "a b+c", "%2F", "<b>", "&amp;"]
    made = [one(name, "f", target=name, suite=name, title=f"Case {number}") for number, name in enumerate(names)]
    path = write_report(made_run(made), tmp_path / "names.html")
    walked = tabs(path)
    for number, name in enumerate(names):
        part = quote(name, safe="")
        place = f"#/c/{part}/{part}/{part}/-/1"
        walked.go(place, f"Case {number}")
        assert walked.page.url.endswith(place)
    walked.assert_quiet()
    fresh = tabs(path, "#/c/" + "/".join([quote("a/b", safe="")] * 3) + "/-/1")
    assert heading(fresh) == "Case 0"


def test_a_report_works_without_a_network(tabs: Tabs, desk: Desk) -> None:
    tab = tabs(desk.report(), offline=True)
    tab.page.fill("#q", "refund")
    tab.page.wait_for_selector(".row")
    tab.page.click(".row >> nth=0")
    tab.page.wait_for_selector("#detail .turn")
    tab.assert_quiet()


def test_what_an_agent_changed_in_its_workspace_is_shown_as_a_diff(tabs: Tabs, tmp_path: Path) -> None:
    diff = "--- a/shop.py\n+++ b/shop.py\n@@ -1 +1 @@\n-price = 1\n+price = </script><b>2</b>\n"
    made = result("repair", turn("Done.", workspace_diff=diff))
    tab = tabs(write_report(made_run([made]), tmp_path / "report.html"), address(made))
    tab.page.wait_for_selector("pre .add")
    assert tab.page.locator("pre .del").all_inner_texts()[-1] == "-price = 1\n"
    assert tab.page.locator("pre .add").all_inner_texts()[-1] == "+price = </script><b>2</b>\n"
    tab.assert_quiet()


def test_a_reason_leads_to_its_conversations(tabs: Tabs, desk: Desk) -> None:
    """The number of a reason is the number of rows behind it, and there is a way back."""
    tab = tabs(desk.report())
    reason = tab.page.locator(".clusters .reason[href*='why=check']").first
    number, _, words = (reason.text_content() or "").partition(" ")
    reason.click()
    wait_total(tab, f"{number} of 45")
    assert tab.text(".only").startswith(f"Only {words}")
    assert tab.page.locator("#rows .row").count() == int(number)
    tab.page.click(".only .btn")
    wait_total(tab, "45 conversations")
    assert tab.page.locator(".only").is_hidden()
    tab.assert_quiet()


def test_the_same_words_again_are_a_band(tabs: Tabs, tmp_path: Path) -> None:
    """A reply that repeats an earlier one is folded; one that nearly does is shown beside it, word by word."""
    wrong = (check(False),)
    turns = (
        turn("You have fourteen days, and no more.", 1, passed=False, checks=wrong),
        turn("You have fourteen days,  and no more.", 2, passed=False, checks=wrong, asked_by=AskedBy(1, (0,))),
        turn("You have fifteen days, and no more.", 3, passed=False, checks=wrong, asked_by=AskedBy(2, (0,))),
        turn("You have fifteen days, and no more.", 4, passed=True, checks=(check(),), asked_by=AskedBy(3, (0,))),
    )
    made = structs.replace(failed("stubborn"), turns=turns)
    tab = tabs(write_report(made_run([made, structs.replace(made, target="other")]), tmp_path / "report.html"))
    tab.page.click("#rows .row")
    tab.page.wait_for_selector("#detail .same")
    assert tab.page.locator(".same:not(.fine)").all_inner_texts() == ["Same words as turn 1."]
    assert tab.page.locator(".same.fine").all_inner_texts() == ["Same words as turn 3."]
    assert "fourteen" not in tab.page.locator("#t2 > .msg.said").inner_text()
    tab.page.click("#t2 >> text=Show the reply")
    tab.page.wait_for_selector("#t2 > .msg.said .reply")
    assert "fourteen" in tab.page.locator("#t2 > .msg.said").inner_text()
    tab.page.click("text=Against turn 1: 86% the same words")
    tab.page.wait_for_selector(".side .da")
    assert tab.page.locator(".side .da").all_inner_texts() == ["fourteen"]
    assert tab.page.locator(".side .db").all_inner_texts() == ["fifteen"]
    tab.page.evaluate("place => { location.hash = place }", f"{address(made, '#/compare')}/other/-/1")
    tab.page.wait_for_selector("#detail .pair.heads")
    assert tab.page.locator("#t2 .side .same").all_inner_texts() == ["Same words as turn 1."] * 2
    assert tab.page.locator("#t2 .side .reply").count() == 0
    tab.assert_quiet()
