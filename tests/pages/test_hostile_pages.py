"""What models, files and authors wrote is shown as it is, and does nothing: no dialog, no request, no other title."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import Tab, Tabs
from tests.pages.kit import HOSTILE, LONG, SIGN, address, hostile_run, much_checked, write_report
from tests.report.exports import made_run, result, turn

VISIBLE = "text => document.querySelector('#detail').textContent.includes(text)"


def assert_harmless(tab: Tab, title: str) -> None:
    """Nothing has run, nothing was asked for, and the page is still ours."""
    assert tab.page.evaluate("sign => sign in window", SIGN) is False
    assert (
        tab.page.evaluate("() => document.querySelectorAll('iframe, object, embed, form, link, img, base').length") == 0
    )
    assert tab.page.evaluate("() => document.querySelectorAll('script:not([type]), style').length") == 2
    assert title in tab.page.title()
    tab.assert_quiet()


def inert(text: str) -> str:
    """Those of its words that a page has to show: what stands between invisible characters and lines."""
    parts = "".join(character if character.isprintable() else "\n" for character in text).split("\n")
    return max(parts, key=len).strip()


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(hostile_run(list(HOSTILE.values())), tmp_path_factory.mktemp("hostile") / "hostile.html")


@pytest.mark.slow
@pytest.mark.parametrize("names", [list(HOSTILE)[start::4] for start in range(4)], ids=", ".join)
def test_a_hostile_text_is_shown_in_every_place_and_does_nothing(tabs: Tabs, tmp_path: Path, names: list[str]) -> None:
    tab = tabs()
    for name in names:
        run = hostile_run([HOSTILE[name]])
        tab.asked.clear()
        tab.open(write_report(run, tmp_path / f"{name}.html"))
        title = tab.page.title()
        tab.press("/", "Escape", "Enter")
        for place in range(len(run.results)):
            tab.page.wait_for_function("n => document.querySelector('#rows .row.open')?.id === 'r' + n", arg=place)
            tab.page.wait_for_selector("#detail .turn")
            assert tab.page.evaluate(VISIBLE, inert(HOSTILE[name])), (name, place)
            tab.press("e", "j")
        tab.press("Escape")
        tab.page.fill("#q", inert(HOSTILE[name])[:40])
        assert_harmless(tab, title)


UNSEEN = "\u202e\u2066\x1b"


def test_choices_and_tooltips_show_characters_that_cannot_be_seen(tabs: Tabs, tmp_path: Path) -> None:
    names = [f"{name}{UNSEEN}" for name in "ab"]
    run = made_run([result("one", turn("reply"), target=name, tags=(f"tag{UNSEEN}",)) for name in names])
    tab = tabs()
    tab.open(write_report(run, tmp_path / "unseen.html"))
    tab.press("Enter")
    tab.page.wait_for_selector("#detail .turn")
    shown: list[str] = tab.page.evaluate(
        "() => [...document.querySelectorAll('option')].map(one => one.textContent)"
        ".concat([...document.querySelectorAll('[title]')].map(one => one.title))"
    )
    assert not [text for text in shown if set(text) & set(UNSEEN)]
    assert "a[U+202E][U+2066][U+001B]" in shown
    tab.page.select_option("select[name=target]", names[1])
    tab.page.wait_for_function("() => document.querySelectorAll('#rows .row').length === 1")


def test_what_is_typed_into_the_search_is_text(tabs: Tabs, hostile_report: Path) -> None:
    tab = tabs(hostile_report)
    for text in (HOSTILE["handlers"], HOSTILE["script"], ".*[", "%", "\\"):
        tab.page.fill("#q", text + " nowhere")
        tab.page.wait_for_selector(".empty >> text=Nothing contains")
    assert_harmless(tab, "")


REFUSED = (Path(__file__).parent / "data" / "refused.js").read_text(encoding="utf-8")


def test_the_page_refuses_markup_scripts_and_requests(tabs: Tabs, hostile_report: Path) -> None:
    """Even where a script of ours went wrong, the browser would refuse what it tried."""
    tab = tabs(hostile_report)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert tab.page.evaluate(REFUSED, server.getsockname()[1]) == []
        server.setblocking(False)
        with pytest.raises(BlockingIOError):  # not even a connection was made
            server.accept()


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_very_long_reply_is_cut_and_can_be_unfolded(tabs: Tabs, tmp_path: Path, name: str) -> None:
    lost: dict[str, Any] = {"status": "failed", "passed": False, "succeeded_on_turn": None}
    made = result("long", turn(LONG[name], passed=False), title="A long reply", **lost)
    tab = tabs(write_report(made_run([made]), tmp_path / "long.html"), address(made))
    tab.page.wait_for_selector("#detail .more")
    length = "() => document.querySelector('#detail').textContent.length"
    short = tab.page.evaluate(length)
    assert short < 25_000
    tab.page.click("#detail .more")
    assert tab.page.evaluate(length) > short
    assert tab.overflow() <= 0
    assert_harmless(tab, "A long reply")


@pytest.mark.slow
def test_hundreds_of_checks_and_checks_within_checks_are_all_there(tabs: Tabs, tmp_path: Path) -> None:
    run = much_checked()
    tab = tabs(write_report(run, tmp_path / "checks.html"))
    many, deep = run.results
    tab.go(address(many), "Many checks")
    text = tab.text("#detail")
    assert all(f"reason {number}" in text for number in range(0, 300, 3))  # those that failed
    tab.go(address(deep), "Deep checks")
    assert all(f"depth {level}" in tab.text("#detail") for level in range(1, 6))
    assert tab.overflow() <= 0
    assert_harmless(tab, "Deep checks")
