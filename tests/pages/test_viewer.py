"""The viewer in a real browser: pages that read well, acts that do what they say, and a run that is watched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rejoinder.words.numbers import clock
from tests.kit import Process, Project, case, run, run_folders, scripted, wait_until
from tests.pages.browsing import SCREENS, Chromium, Screen, Tab, Tabs, computed
from tests.pages.kit import Desk, Serve

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e"


def judge_of(desk: Desk) -> str:
    return next(judge.digest for judge in desk.b.summary.judges if judge.judged)


def pages_of(desk: Desk) -> dict[str, str]:
    a, b = desk.a.run.id, desk.b.run.id
    refund = "c/service-desk/refund-window/orca-7b/-/1"
    return {
        "runs": "/",
        "suite": "/?suite=service-desk",
        "run": f"/runs/{b}",
        "grid": f"/runs/{b}?view=grid",
        "conversation": f"/runs/{b}/{refund}",
        "compare": f"/compare/{a}/{b}",
        "figures": f"/compare/{a}/{b}?view=figures",
        "pair": f"/compare/{a}/{b}/{refund}",
        "case": "/cases/service-desk/refund-window",
        "judge": f"/judges/{judge_of(desk)}",
        "label": f"/label?run={b}&check={judge_of(desk)}",
        "missing": "/runs/20200101-000000-aaaa",
    }


def run_of(tab: Tab) -> str:
    """The run whose page is shown."""
    return urlsplit(tab.page.url).path.strip("/").split("/")[1]


def assert_kept_to_itself(tab: Tab, base: str, logged: list[str]) -> None:
    assert (tab.logged, tab.dialogs) == (logged, [])
    assert {urlsplit(asked).netloc for asked in tab.asked} == {urlsplit(base).netloc}


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_every_page_is_quiet_fits_and_has_no_barriers(
    desk: Desk, serve: Serve, tabs: Tabs, pictures: Path, screen: Screen
):
    base, found = serve(desk.folder), list[str]()
    for name, path in pages_of(desk).items():
        tab = tabs(f"{base}{path}", screen=screen)
        missing = ["error: Failed to load resource: the server responded with a status of 404 (Not Found)"]
        assert_kept_to_itself(tab, base, missing if name == "missing" else [])
        tab.page.screenshot(path=pictures / f"viewer-{name}-{screen}.png")
        found += tab.faults(name, screen)
        tab.page.context.close()
    assert not found, "\n".join(found)


@pytest.fixture
def repeated(project: Project, browser: Chromium) -> Path:
    """A run of two variants, three trials each, of which one passes after a follow-up."""
    target = scripted("geo", "Basel", "It is Bern")
    checks = {"icontains": "bern", "prompt": "Are you sure?", "checks": [{"icontains": "bern"}]}
    ask = {"prompt": "Name the {{ var('what') }} of Switzerland.", "checks": [checks]}
    variants = [
        {"name": "terse", "system_prompt": "Answer in one short word.", "vars": {"what": "capital"}},
        {"name": "warm", "system_prompt": "Answer in one warm word.", "vars": {"what": "seat"}},
    ]
    evals = [{"id": "a", **ask}, {**case("b", {"icontains": "basel"})}]
    run(
        project,
        {"name": "plain", "targets": [target], "target": "geo", "variants": variants, "evals": evals},
        "--repeat",
        "3",
    )
    [made] = run_folders(project.folder)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_repeats_and_variants_have_no_barriers(
    repeated: Path, project: Project, serve: Serve, tabs: Tabs, pictures: Path, screen: Screen
):
    base, found = serve(project.folder), list[str]()
    pair = "compare/plain/a/geo/terse/1/geo/warm/1"
    places = {
        "grid": f"/runs/{repeated.name}?view=grid",
        "case": "/cases/plain/a",
        "pair": f"/runs/{repeated.name}/{pair}",
    }
    for name, path in places.items():
        tab = tabs(f"{base}{path}", screen=screen)
        tab.page.wait_for_selector("#detail .pair.heads" if name == "pair" else ".trials")
        tab.page.screenshot(path=pictures / f"viewer-repeats-{name}-{screen}.png")
        found += tab.faults(name, screen)
        assert_kept_to_itself(tab, base, [])
        tab.page.context.close()
    assert not found, "\n".join(found)


def test_two_prompts_that_differ_stand_open_with_their_words_compared(
    repeated: Path, project: Project, serve: Serve, tabs: Tabs
):
    tab = tabs(f"{serve(project.folder)}/runs/{repeated.name}/compare/plain/a/geo/terse/1/geo/warm/1")
    tab.page.wait_for_selector("#detail .pair.heads")
    assert tab.page.locator("#detail .asked .da").all_inner_texts() == ["short", "capital"]
    assert tab.page.locator("#detail .asked .db").all_inner_texts() == ["warm", "seat"]
    assert tab.page.locator("#detail h2").first.inner_text() == "System prompts differ"
    assert tab.text("#detail .note").startswith("The system prompts differ. They differ from turn 1 on")
    assert tab.logged == []


def test_on_a_phone_the_crumbs_tell_suite_and_runs(desk: Desk, serve: Serve, tabs: Tabs):
    base, (a, b) = serve(desk.folder), (run.run.id for run in (desk.a, desk.b))
    for path, words in {f"/runs/{b}": f"run {b[-4:]}", f"/compare/{a}/{b}": f"run {a[-4:]} and {b[-4:]}"}.items():
        tab = tabs(f"{base}{path}", screen=Screen(390))
        assert tab.text(".crumbs .runid") == words
        cut = "() => [...document.querySelectorAll('.crumbs a')].filter(one => one.scrollWidth > one.clientWidth)"
        assert tab.page.evaluate(f"({cut})().length") == 0
        assert tab.overflow() <= 0


def test_on_a_phone_figures_say_whose_they_are_where_there_are_two_runs(desk: Desk, serve: Serve, tabs: Tabs):
    base, said = serve(desk.folder), dict[str, list[str]]()
    for name in ("figures", "judge"):
        tab = tabs(f"{base}{pages_of(desk)[name]}", screen=Screen(390))
        before = "found => found.map(one => getComputedStyle(one, '::before').content)"
        said[name] = tab.page.eval_on_selector_all(".figures tbody tr:first-child td", before)
    assert said["figures"][:2] == ['"A "', '"B "']
    assert set(said["judge"]) == {"none"}


def test_ages_of_what_is_in_flight_are_written_alike_by_server_and_script() -> None:
    ages = [0, 0.6, 9.4, 59.9, 60, 605, 3_599, 3_600, 3_849, 90_000]
    assert computed(f"{ages}.map(clockWords)", "server_live") == [clock(age) for age in ages]
    assert clock(605) == "10:05"


def test_three_clicks_lead_from_the_start_to_why_a_conversation_failed(desk: Desk, serve: Serve, tabs: Tabs):
    tab = tabs(serve(desk.folder))
    tab.page.click("table tbody th a >> nth=0")
    tab.wait_ready()
    tab.page.click(".pill:has-text('Failed')")
    tab.page.click(".row >> nth=0")
    assert "Go to turn" in tab.text(".why")
    assert tab.logged == []


def test_on_a_phone_the_buttons_of_a_check_leave_its_words_the_width(desk: Desk, serve: Serve, tabs: Tabs):
    judged = next(one for one in desk.b.results if any(check.judged_by for turn in one.turns for check in turn.checks))
    path = f"/runs/{desk.b.run.id}/c/service-desk/{judged.id}/{judged.target}/-/{judged.trial}"
    tab = tabs(f"{serve(desk.folder)}{path}", screen=Screen(390))
    words = tab.page.locator(".chk:has(a:text-is('Judge')) > .lb").first.bounding_box()
    assert words is not None
    assert words["width"] > 250


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_the_lines_of_an_empty_project_can_be_copied(project: Project, serve: Serve, tabs: Tabs, screen: Screen):
    tab = tabs(serve(project.folder), screen=screen)
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    assert tab.page.locator(".begin li code").all_inner_texts()[0] == "rejoinder init --local first"
    tab.page.get_by_role("button", name="Copy rejoinder init --local first").click()
    tab.page.wait_for_function("async () => await navigator.clipboard.readText() === 'rejoinder init --local first'")
    assert list(tab.faults("empty project", screen)) == []


def test_two_runs_are_ticked_and_compared_by_keys(desk: Desk, serve: Serve, tabs: Tabs):
    tab = tabs(serve(desk.folder))
    tab.press("j", "x", "j", "x")
    assert "Ticked: 2" in tab.text("#ticked")
    tab.press("c")
    tab.page.wait_for_url(f"**/compare/{desk.a.run.id}/{desk.b.run.id}")
    tab.wait_ready()
    assert "Flipped" in tab.text(".tools .pills")


def test_back_and_a_fresh_session_show_what_the_address_says(desk: Desk, serve: Serve, tabs: Tabs):
    base, run_id = serve(desk.folder), desk.b.run.id
    tab = tabs(f"{base}/runs/{run_id}?show=recovered&target=atlas-mini")
    tab.page.click(".row >> nth=1")
    tab.page.wait_for_selector("#detail h1")
    title = tab.text("#detail h1")
    again = tabs(tab.page.url)
    again.page.wait_for_selector("#detail h1")
    assert again.text("#detail h1") == title
    assert again.text(".pill[aria-pressed=true]") == tab.text(".pill[aria-pressed=true]")
    tab.page.go_back()
    tab.page.wait_for_selector("#detail", state="hidden")
    assert tab.page.url.endswith("?show=recovered&target=atlas-mini")


def test_a_conversation_leads_to_its_run_and_a_filter_to_its_list(desk: Desk, serve: Serve, tabs: Tabs):
    base, run_id = serve(desk.folder), desk.b.run.id
    tab = tabs(f"{base}{pages_of(desk)['conversation']}")
    tab.page.wait_for_selector("#detail h1")
    tab.page.click(".crumbs .runid a")
    tab.page.wait_for_selector("#board")
    assert urlsplit(tab.page.url).path.rstrip("/") == f"/runs/{run_id}"
    tab = tabs(f"{base}/runs/{run_id}?show=failed")
    top = tab.page.locator("#list").bounding_box()
    assert top is not None
    assert 0 <= top["y"] < 100, "the list is what the address asks for"
    for query in ("", "?view=grid", "?q=refund", "?why=repeated:"):
        assert tabs(f"{base}/runs/{run_id}{query}").page.evaluate("scrollY") == 0, (
            "the headline is what a page begins with"
        )


def test_labels_are_given_by_keys_and_the_verdict_is_told_afterwards(desk: Desk, serve: Serve, tabs: Tabs):
    digest = judge_of(desk)
    tab = tabs(f"{serve(desk.folder)}/label?run={desk.a.run.id}&check={digest}")
    assert "0 of" in tab.text(".progress")
    tab.press("p")
    tab.page.wait_for_selector(".lastlabel .mark")
    assert "You said pass, and the judge" in tab.text(".lastlabel")
    tab.page.wait_for_selector(".progress:has-text('1 of')")
    file = desk.folder / ".rejoinder" / "labels" / f"{digest}.jsonl"
    [row] = [json.loads(line) for line in file.read_text().splitlines()]
    file.unlink()
    assert (row["label"], row["id"].startswith(desk.a.run.id)) == ("pass", True)
    assert tab.logged == []


def test_any_reply_is_labelled_below_it_and_the_label_is_there_again(
    project: Project, browser: Chromium, serve: Serve, tabs: Tabs
):
    with browser.aside():
        run(project, {"name": "plain", "targets": [scripted("geo", "Bern.")], "target": "geo", "evals": [case("a")]})
    [made] = run_folders(project.folder)
    tab = tabs(f"{serve(project.folder)}/runs/{made.name}/c/plain/a/geo/-/1")
    passes = tab.page.get_by_role("button", name="Label the reply of turn 1: pass")
    fails = tab.page.get_by_role("button", name="Label the reply of turn 1: fail")
    for button, other in ((fails, passes), (passes, fails)):
        button.click()
        tab.page.wait_for_function("one => one.getAttribute('aria-pressed') === 'true'", arg=button.element_handle())
        assert other.get_attribute("aria-pressed") == "false"
    tab.page.reload()
    tab.wait_ready()
    tab.page.wait_for_selector(".give [aria-pressed=true]")
    assert passes.get_attribute("aria-pressed") == "true"
    assert list(tab.faults("a labelled reply")) == []
    assert tab.logged == []
    rows = (project.folder / ".rejoinder" / "labels" / "replies.jsonl").read_text().splitlines()
    assert [json.loads(row)["label"] for row in rows] == ["pass"]


def test_a_server_that_only_shows_has_no_buttons_that_change_something(desk: Desk, serve: Serve, tabs: Tabs):
    base = serve(desk.folder, read_only=True)
    tab = tabs(f"{base}/runs/{desk.b.run.id}")
    words = tab.text()
    assert not any(verb in words for verb in ("Re-run failed", "Re-grade", "Tags and note", "Save as baseline"))
    tab.open(f"{base}{pages_of(desk)['conversation']}")
    tab.page.wait_for_selector("#detail h1")
    assert "Fork from here" not in tab.text()
    assert "Copy as YAML case" in tab.text()


def test_text_of_others_stays_text(project: Project, browser: Chromium, serve: Serve, tabs: Tabs):
    reply = {"name": EVIL, "provider": "scripted", "replies": [{"text": EVIL}]}
    one = case(EVIL, {"icontains": EVIL * 2, "name": EVIL}, name=EVIL, tags=["<i>"])
    with browser.aside():
        run(project, {"name": EVIL, "targets": [reply], "target": EVIL, "evals": [one]})
    [made] = run_folders(project.folder)
    tab = tabs(f"{serve(project.folder)}/runs/{made.name}")
    tab.page.click(".row >> nth=0")
    tab.page.wait_for_selector("#detail h1")
    assert (tab.logged, tab.dialogs) == ([], [])
    assert "<img src=x" in tab.text("#detail .said")
    assert tab.page.locator("img").count() == 0


WAITS = """
from pathlib import Path
from time import sleep

def answer(request):
    while "wait" in str(request) and not Path(__file__).with_name("go").exists():
        sleep(0.02)
    return "yes"
"""


def test_a_run_is_watched_to_its_end(project: Project, start: Callable[..., Process], serve: Serve, tabs: Tabs):
    project.write("waits.py", WAITS)
    target = {"name": "slow", "provider": "python", "call": "waits:answer"}
    cases = [
        case("first", {"icontains": "yes"}),
        case("wait", {"icontains": "yes"}),
        case("wait-too", {"icontains": "no"}),
    ]
    project.write("evals.yaml", {"name": "slowly", "targets": [target], "target": "slow", "evals": cases})
    start("run", "evals.yaml")
    [made] = wait_until(lambda: run_folders(project.folder))
    wait_until((made / "journal.jsonl").exists)
    tab = tabs(f"{serve(project.folder)}/runs/{made.name}")
    tab.page.wait_for_selector("h1:has-text('Running: slowly')")
    tab.page.wait_for_selector(".row:has-text('Question first')")
    assert "1 of 3 conversations are done" in tab.text("#going")
    (project.folder / "go").touch()
    tab.page.wait_for_selector("#board")
    assert tab.text("h1") == "2 of 3 passed."
    assert tab.logged == []


@pytest.mark.slow
def test_a_fork_in_other_words_is_run_and_shown(project: Project, browser: Chromium, serve: Serve, tabs: Tabs):
    replies = [{"text": "Basel"}, {"text": "Bern"}]
    target = {"name": "geo", "provider": "scripted", "replies": replies}
    checks = {"icontains": "geneva", "prompt": "Are you sure?", "checks": [{"icontains": "geneva"}]}
    with browser.aside():
        run(project, {"name": "cities", "targets": [target], "target": "geo", "evals": [case("one", checks)]})
    [made] = run_folders(project.folder)
    tab = tabs(f"{serve(project.folder)}/runs/{made.name}/c/cities/one/geo/-/1")
    tab.press("e")
    assert tab.page.locator(".forkform").count() == 0, "what is unfolded is what was said"
    tab.page.click("summary:has-text('Fork from here') >> nth=1")
    tab.page.fill(".forkform textarea", "Think again, please.")
    tab.page.click("text=Run the fork")
    tab.page.wait_for_selector("#board")
    assert f"Fork of {made.name} from turn 2 on" in tab.text(".notes")
    assert tab.page.get_attribute("text=Compare with its run", "href") == f"/compare/{made.name}/{run_of(tab)}"
    assert "Net recovery is not measured" not in tab.text()
    tab.page.click(".row >> nth=0")
    tab.page.wait_for_selector("#detail .from")
    assert "Think again, please." in tab.text("#detail")
    assert made.name in tab.text("#detail .from")


@pytest.mark.slow
def test_in_a_fork_another_target_goes_on_with_the_turns_on_the_screen(
    project: Project, browser: Chromium, serve: Serve, tabs: Tabs
):
    """Also where it had a conversation of its own, and where a later trial is looked at."""
    targets = [scripted("geo", "Basel", "Basel again"), scripted("atlas", "Bern", "It is Geneva")]
    checks = {"icontains": "geneva", "prompt": "Are you sure?", "checks": [{"icontains": "geneva"}]}
    with browser.aside():
        suite = {"name": "cities", "targets": targets, "target": "geo", "evals": [case("one", checks)]}
        run(project, suite, "--target", "geo", "--target", "atlas", "--repeat", "2")
    [made] = run_folders(project.folder)
    tab = tabs(f"{serve(project.folder)}/runs/{made.name}/c/cities/one/geo/-/2")
    tab.page.click("summary:has-text('Fork from here') >> nth=1")
    tab.page.select_option(".forkform select", "atlas")
    tab.page.click("text=Run the fork")
    tab.page.wait_for_selector("#board")
    tab.page.click(".row >> nth=0")
    tab.page.wait_for_selector("#detail .from")
    assert "Basel" in tab.text("#t1")
    assert "It is Geneva" in tab.text("#t2")


@pytest.mark.slow
def test_a_judge_is_tested_from_its_page(project: Project, browser: Chromium, serve: Serve, tabs: Tabs):
    judge = {"name": "judge", "provider": "scripted", "judge": [{"score": 0.9, "reasoning": "fine"}]}
    suite = {"name": "cities", "targets": [scripted("geo", "Bern."), judge], "judge_target": "judge", "target": "geo"}
    asked = {"llm_judge": {"criteria": "Is friendly."}, "name": "tone"}
    with browser.aside():
        document = run(project, {**suite, "evals": [case(name, asked) for name in ("one", "two", "three")]})
    digest = document["results"][0]["turns"][0]["checks"][0]["judged_by"]
    base, made = serve(project.folder), run_folders(project.folder)[0].name
    tab = tabs(f"{base}/judges/{digest}")
    assert "A test needs 20 of them" in tab.text("#overview")
    assert tab.page.locator("button:has-text('Test it')").count() == 0, "there is nothing to test it with"
    assert tab.page.locator(".figures th").all_inner_texts() == [
        "Run",
        "Check",
        "Passed",
        "Started",
        f"run {made[-4:]}",
    ]
    tab.page.click("text=Label its 3 replies (20 are better)")
    tab.wait_ready()
    for key, number in zip("pfp", "123", strict=True):
        tab.press(key)
        tab.page.wait_for_selector(f".progress:has-text('{number} of')")
    tab.open(f"{base}/judges/{digest}")
    assert "3 of 20 labels are there." in tab.text(".labelled")
    tab.press("j", "f")  # the label with which the judge disagrees stands first, and is given anew
    file = project.folder / ".rejoinder" / "labels" / f"{digest}.jsonl"
    tab.page.wait_for_selector(".toast.on")
    assert sorted(json.loads(row)["label"] for row in file.read_text().splitlines()) == ["fail", "pass", "pass"]
    tab.press("p")
    tab.page.wait_for_selector(".disagreements li:first-child button[aria-pressed=true]:text-is('Pass')")
    assert [json.loads(row)["label"] for row in file.read_text().splitlines()].count("pass") == 3
    tab.press("f")
    tab.page.wait_for_selector(".disagreements li:first-child button[aria-pressed=true]:text-is('Fail')")
    tab.page.click("button:has-text('Test it with these 3 labels')")
    assert "about the 3 replies" in tab.text("dialog.ask")
    tab.page.click("dialog.ask button:text-is('Test')")
    tab.page.wait_for_selector("h2:has-text('Passport')", timeout=60_000)
    assert "2 of 2" in tab.text(".figures")
    tab.page.wait_for_selector("button:has-text('Test it again')")
    assert tab.page.locator("text=rejoinder judge test").count() == 0
    assert urlsplit(tab.page.url).path == f"/judges/{digest}"
    assert tab.logged == []
    assert f"run {made[-4:]}" in tab.text("#overview")
    assert list(tab.faults("a judge with labels")) == []
