"""The viewer's pages over HTTP: what they show, what they refuse, and what strangers' files cannot do to them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
import yaml
from msgspec import structs

from rejoinder.calibration.measure import CANDIDATE
from rejoinder.report.page.overview import figure
from rejoinder.runs.folder import RunFolder
from rejoinder.server.app import make_app
from rejoinder.server.copies import as_curl, as_yaml
from rejoinder.server.desk import Desk
from rejoinder.server.index_folder import IndexFolder
from rejoinder.server.jobs import RunJob
from rejoinder.server.pages import case_page, run_page
from rejoinder.server.pages.frame import PageData, page
from rejoinder.server.pages.live import Live
from rejoinder.server.queue import Entry, Queue
from rejoinder.server.run_index import RunIndex
from rejoinder.server.settings import Settings
from rejoinder.server.streams import Streams
from rejoinder.testing import FakeServer
from tests.kit import Project, behind, case, follow, only_run, run, run_folders, scripted
from tests.report.exports import HOSTILE, result, turn

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&</noscript>"
NAME = "a/b c?d#e%2F"
"""An id that would be many pieces of an address."""


def suite(**more: Any) -> dict[str, Any]:
    """Two cases: one recovers, one fails."""
    cases = [
        case("capital", {"icontains": "bern", **follow("Are you sure?", {"icontains": "bern"})}, tags=["geo"]),
        case("largest", {"icontains": "zurich"}),
    ]
    replies = {"capital": [{"text": "Basel"}, {"text": "Bern"}], "largest": [{"text": "Geneva"}]}
    target = {"name": "geo", "provider": "scripted", "replies": replies}
    return {"name": "cities", "targets": [target], "target": "geo", "evals": cases, **more}


class Viewer:
    """One server, asked without a network."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.settings = structs.replace(Settings(root=root), **changes)
        self._app = make_app(self.settings)

    def get(self, path: str) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url=self.settings.address) as client:
                return await client.get(path)

        return asyncio.run(send())

    def close(self) -> None:
        """Fixtures live until the session's own are checked, which look for folders that are left."""
        self._app.state.desk.close()

    def page(self, path: str, status: int = 200) -> str:
        answer = self.get(path)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"].startswith("text/html")
        return answer.text

    def data(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def first_of(page: str) -> Any:
    """The block of data in a page."""
    [block] = re.findall(r'<script id="first" type="application/json">(.*?)</script>', page)
    return json.loads(block)


def address(run: str, name: str, target: str = "geo", of: str = "cities") -> str:
    return f"/runs/{run}/c/{quote(of, safe='')}/{quote(name, safe='')}/{target}/-/1"


@pytest.fixture
def viewer(project: Project) -> Iterator[Viewer]:
    run(project, suite())
    viewer = Viewer(project.folder)
    yield viewer
    viewer.close()


@pytest.fixture
def made(viewer: Viewer) -> str:
    """The id of the viewer's only run."""
    return only_run(viewer.settings.root).name


# Runs


def test_a_folder_without_suites_says_how_to_begin_and_what_appears(project: Project):
    page = Viewer(project.folder).page("/")
    assert "There are no runs and no suites here yet" in page
    lines = re.findall(r'<code>([^<]+)</code><button class="btn" data-copy="([^"]+)"', page)
    assert lines == [(line, line) for line in ("rejoinder init --local first", "cd first", "rejoinder run")]
    assert "how many cases passed" in page
    assert first_of(page)["live"] is True


def test_a_project_without_runs_says_how_to_start_one(project: Project):
    project.write("evals.yaml", {"targets": [scripted("geo", "x")], "target": "geo", "evals": [case("a")]})
    page = Viewer(project.folder).page("/")
    assert "There are no runs yet" in page
    assert re.findall(r'data-copy="([^"]+)"', page) == ["rejoinder run"]


def test_the_list_shows_the_figures_of_the_summary(viewer: Viewer, made: str):
    page = viewer.page("/")
    summary = json.loads((only_run(viewer.settings.root) / "summary.json").read_text())
    assert f'href="/runs/{made}"' in page
    assert f"{summary['passed']} of {summary['total']}" in page
    low, high = summary["pass_rate_interval"]
    assert f"{100 * low:.0f} to {100 * high:.0f}" in page


def test_filters_are_in_the_address(project: Project):
    run(project, suite())
    run(project, suite(name="towns"))
    first, second = (folder.name for folder in run_folders(project.folder))
    project.run("runs", "tag", second, "nightly")
    viewer = Viewer(project.folder)
    for words, found in (("suite=towns", second), ("tag=nightly", second), ("q=cities", first), ("q=NIGHTLY", second)):
        page = viewer.page(f"/?{words}")
        assert re.findall(r'data-run="([^"]+)"', page) == [found], words
    assert "No run is like that" in viewer.page("/?suite=none")
    assert re.findall(r'data-run="([^"]+)"', viewer.page("/")) == [second, first]


def test_the_last_run_can_be_compared_with_the_one_before(project: Project):
    run(project, suite())
    run(project, suite())
    first, second = (folder.name for folder in run_folders(project.folder))
    assert f'href="/compare/{first}/{second}"' in Viewer(project.folder).page("/")


def test_a_test_of_a_judge_is_not_the_last_run(project: Project):
    run(project, suite())
    run(project, suite(name="judge test of x", targets=[scripted(CANDIDATE, "x")], target=CANDIDATE))
    page = Viewer(project.folder).page("/")
    assert re.search(r'<p class="say"><a href="[^"]+" dir="auto">cities</a></p><h1 class="headline', page)


def test_many_suites_are_a_choice_and_a_few_are_links(project: Project):
    for number in range(6):
        run(project, suite(name=f"cities {number}"))
        page = Viewer(project.folder).page("/")
        options = re.findall(r'<option value="([^"]+)"( selected)?>', page)
        assert (len(options) == 7 and 'aria-label="Suite"' in page) == (number == 5)
    assert options[0] == ("/", " selected") and options[6][0].startswith("/?suite=cities")


def test_a_fork_is_not_the_last_run(project: Project):
    first = run(project, suite())["run"]["id"]
    project.run("fork", "--case", "largest", "--turn", "1", "--prompt", "Please!", code=None)
    fork = run_folders(project.folder)[-1].name
    page = Viewer(project.folder).page("/")
    assert re.search(rf'<p class="say"><a href="/runs/{first}" [^>]*>[^<]*</a></p><h1 class="headline', page)
    assert re.findall(r'data-run="([^"]+)"', page) == [fork, first]


def test_runs_on_several_targets_have_a_rate_and_a_line_of_their_own(project: Project):
    targets = [scripted("good", "Paris"), scripted("bad", "Lyon")]
    cases = [case("one", {"contains": "Paris"}), case("two", {"icontains": "a"})]
    several = {"name": "towns", "targets": targets, "target": "good", "evals": cases}
    project.write("towns.yaml", several)
    for _ in range(3):
        project.run("run", "towns.yaml", "-m", "good,bad", code=None)
    project.run("run", "towns.yaml", "-m", "good", code=None)
    page = Viewer(project.folder).page("/")
    assert page.count('class="spark"') == 1, "one run on one target makes no line, and joins no other"
    assert 'aria-label="Lowest pass rates of the last 3 runs: 0%, 0%, 0%"' in page
    assert page.count("worst <b>0%</b>, best <b>100%</b>") == 3


def test_crumbs_lead_from_a_run_to_its_suite_and_to_all_runs(viewer: Viewer, made: str):
    crumbs = re.findall(r'<nav class="crumbs".*?</nav>', viewer.page(f"/runs/{made}"))[0]
    assert re.findall(r'href="([^"]+)"', crumbs) == ["/", "/?suite=cities", f"/runs/{made}"]
    assert f'title="{made}" dir="auto">run {made[-4:]}<' in crumbs


def test_a_changed_summary_is_damage_and_its_figures_are_nowhere(viewer: Viewer, made: str):
    path = only_run(viewer.settings.root) / "summary.json"
    path.write_text(path.read_text().replace('"total": 2', '"total": 2468'))
    listed, page = viewer.page("/"), viewer.page(f"/runs/{made}")
    assert "damaged: summary.json" in listed
    assert "This run is damaged" in page
    assert figure(2468) not in re.sub(r"<script.*?</script>", "", listed + page)
    answer = viewer.get(f"/data/runs/{made}/rows")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "damaged")


def test_a_run_that_waits_is_on_the_list_and_has_a_page(viewer: Viewer, made: str):
    queue = Queue(viewer.settings.root)
    name = queue.reserve()
    queue.put(Entry(id=name, job=RunJob("evals.yaml", {}), title="<b>evals</b>", queued_at=1.0))
    assert "1 run waits to begin" in viewer.page("/")
    page = viewer.page(f"/runs/{name}")
    assert "&lt;b&gt;evals&lt;/b&gt;" in page
    assert first_of(page)["page"] == "waiting"


# A run and its conversations


def test_a_run_has_its_overview_and_first_rows_in_the_page(viewer: Viewer, made: str):
    first = first_of(viewer.page(f"/runs/{made}?show=failed"))
    assert first["page"] == "run"
    assert [row["case"] for row in first["found"]["rows"]] == ["largest"]
    assert first["found"]["counts"]["recovered"] == 1
    assert first["found"] == viewer.data(f"/data/runs/{made}/rows?show=failed")
    assert first["live"] is None


def test_the_page_of_a_conversation_has_it_in_itself(viewer: Viewer, made: str):
    page = viewer.page(address(made, "capital"))
    kept = first_of(page)["conversation"]
    asked = f"/data/runs/{made}/conversation?suite=cities&case=capital&target=geo&trial=1"
    assert kept == viewer.data(asked)
    assert kept["row"]["word"] == "Recovered on turn 2"
    plain = page[page.index("<noscript>") : page.index("</noscript>")]
    assert "Are you sure?" in plain


def test_places_and_siblings_are_those_of_the_list(viewer: Viewer, made: str):
    named = "suite=cities&case=capital&target=geo&trial=1"
    assert viewer.data(f"/data/runs/{made}/place?{named}") == {"place": 1}
    assert viewer.data(f"/data/runs/{made}/place?{named}&list_show=recovered") == {"place": 0}
    assert viewer.data(f"/data/runs/{made}/place?{named}&list_target=none") == {"place": -1}
    assert [row["case"] for row in viewer.data(f"/data/runs/{made}/siblings?suite=cities&case=capital")] == ["capital"]


def test_a_name_with_slashes_is_one_piece_of_an_address(project: Project):
    run(project, {"name": NAME, "targets": [scripted("geo", "x")], "target": "geo", "evals": [case(NAME)]})
    made = only_run(project.folder).name
    page = Viewer(project.folder).page(address(made, NAME, of=NAME))
    assert first_of(page)["conversation"]["row"]["case"] == NAME


@pytest.mark.parametrize(
    "path",
    [
        "/runs/nothing",
        "/runs/20200101-000000-aaaa",
        "/runs/..%2f..%2fetc",
        "/runs/%2e%2e",
        "/runs/last",
        "/runs/20200101-000000-aaaa%00",
        "/compare/20200101-000000-aaaa/20200101-000000-bbbb",
        "/compare/last/last",
        "/cases/no/such",
        "/cases/one",
        "/cases/%ff/x",
        "/judges/0123456789abcdef",
        "/judges/..%2f..",
        "/label?run=last&check=x",
    ],
)
def test_what_is_not_there_is_said_on_a_page(viewer: Viewer, path: str):
    page = viewer.page(path, 404)
    assert 'href="/"' in page
    assert re.search(r'<p class="say">[A-Z][^<]+\.</p>', page), "a whole sentence says why"


def test_pages_and_the_api_say_the_same_of_a_run_that_is_not_there(viewer: Viewer):
    run = "20200101-000000-aaaa"
    [asked, page] = [viewer.get(f"{place}/runs/{run}{rest}") for place, rest in (("/api/v1", ""), ("/data", "/rows"))]
    assert (asked.status_code, asked.json()["error"]["code"]) == (404, "no-run")
    assert page.json() == asked.json()


@pytest.mark.parametrize(
    "rest", ["c/cities/none/geo/-/1", "c/cities/capital/geo/-/2", "c/cities/capital", "x", "c/%ff/a/b/-/1"]
)
def test_an_unknown_conversation_is_said_on_a_page_that_leads_to_the_run(viewer: Viewer, made: str, rest: str):
    assert f'href="/runs/{made}"' in viewer.page(f"/runs/{made}/{rest}", 404)


@pytest.mark.parametrize("words", ["from=x", "count=-1", "from=99999999999", "from=١"])
def test_numbers_are_read_strictly(viewer: Viewer, made: str, words: str):
    assert viewer.get(f"/data/runs/{made}/rows?{words}").status_code == 400


def test_a_link_in_the_place_of_a_run_leads_nowhere(viewer: Viewer, made: str, tmp_path: Path):
    runs = only_run(viewer.settings.root).parent
    (runs / "20200101-000000-aaaa").symlink_to(runs / made)
    viewer.page("/runs/20200101-000000-aaaa", 404)
    (runs / made / "summary.json").rename(tmp_path / "elsewhere.json")
    (runs / made / "summary.json").symlink_to(tmp_path / "elsewhere.json")
    assert "This run is damaged" in viewer.page(f"/runs/{made}")


def test_a_folder_of_runs_outside_the_project_has_none_of_its_runs(viewer: Viewer, made: str, tmp_path_factory: Any):
    runs = only_run(viewer.settings.root).parent
    elsewhere = runs.rename(tmp_path_factory.mktemp("elsewhere") / "runs")
    runs.symlink_to(elsewhere)
    viewer.page(f"/runs/{made}", 404)


@pytest.mark.parametrize("line", [b"nonsense", b"{}", b"[" * 50_000, b"\xff\xfe"])
def test_results_that_are_none_make_the_run_damaged(viewer: Viewer, made: str, line: bytes):
    folder = only_run(viewer.settings.root)
    (folder / "checksums").unlink()
    with (folder / "results.jsonl").open("ab") as stream:
        stream.write(line + b"\n")
    assert "This run is damaged" in viewer.page(f"/runs/{made}")


def test_a_line_that_is_too_long_is_not_read_into_memory(viewer: Viewer, made: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rejoinder.server.folders.LONGEST", 100)
    monkeypatch.setattr("rejoinder.server.run_index.LONGEST", 100)
    monkeypatch.setattr("rejoinder.server.damage.find_damage", pytest.fail)
    assert "results.jsonl: a line has more than 0 MiB" in viewer.page(f"/runs/{made}")


def test_text_of_others_is_text_on_every_page(project: Project):
    words = [text.encode("utf-8", "replace").decode() for text in HOSTILE if text.strip() and "\x00" not in text]
    evil = "".join(words) + EVIL
    reply = {"name": EVIL, "provider": "scripted", "replies": [{"text": evil}]}
    tags = ["<b>tag</b>"]
    one = case(EVIL, {"icontains": EVIL, "name": EVIL}, {"icontains": "never", "name": EVIL}, name=EVIL, tags=tags)
    run(project, {"name": EVIL, "targets": [reply], "target": EVIL, "evals": [one]})
    run(project, {"name": EVIL, "targets": [reply], "target": EVIL, "evals": [one]})
    first, second = (folder.name for folder in run_folders(project.folder))
    viewer = Viewer(project.folder)
    there = quote(EVIL, safe="")
    paths = ("/", f"/?q={there}", f"/runs/{first}", f"/compare/{first}/{second}", f"/cases/{there}/{there}")
    for path in (*paths, f"/runs/{first}/c/{there}/{there}/{there}/-/1", f"/runs/{there}"):
        page = viewer.get(path).text
        assert "<script>alert" not in page, path
        assert "<img" not in page, path
        assert page.count("</noscript>") == 1, path


# Compare, cases, judges, labels


def test_two_runs_are_compared_with_the_verdict_of_compare(project: Project):
    run(project, suite())
    other = suite()
    other["targets"][0]["replies"]["largest"] = [{"text": "Zurich"}]
    run(project, other)
    first, second = (folder.name for folder in run_folders(project.folder))
    told = project.run_json("compare", first, second)
    viewer = Viewer(project.folder)
    page = viewer.page(f"/compare/{first}/{second}")
    assert {"cannot-tell": "Worse or not: we cannot tell"}[told["verdict"]] in page
    found = first_of(page)["found"]
    assert (found["counts"]["better"], found["counts"]["same"]) == (1, 1)
    assert found["rows"][0]["change"] == "better"
    named = "suite=cities&case=largest&target=geo&trial=1"
    sides = [viewer.data(f"/data/compare/{first}/{second}/conversation?{named}&side={side}") for side in "ab"]
    assert [side["row"]["outcome"] for side in sides] == ["failed", "first"]
    pair = f"/compare/{first}/{second}/c/cities/largest/geo/-/1"
    assert first_of(viewer.page(pair))["page"] == "compare"
    assert "in this file" not in viewer.page(f"/compare/{first}/{second}")
    viewer.page(f"/compare/{first}/{second}/c/cities/none/geo/-/1", 404)


def test_a_case_is_shown_over_its_runs(project: Project):
    for _ in range(3):
        run(project, suite())
    page = Viewer(project.folder).page("/cases/cities/capital")
    assert "3 of 3 conversations passed, in 3 runs" in page
    for folder in run_folders(project.folder):
        assert f'href="{address(folder.name, "capital")}"' in page


def test_a_case_in_quarantine_decides_nothing_on_its_page(project: Project):
    told = suite()
    run(project, told)
    told["evals"][1]["quarantine"] = {"until": "2999-01-01", "reason": "under repair"}
    run(project, told)
    page = Viewer(project.folder).page("/cases/cities/largest")
    assert "0 of 1 conversation passed, in 2 runs" in page
    assert page.count("apart</a>") == 1


def test_a_judge_has_a_page_and_labels_are_given_blind(project: Project):
    judge = {"name": "judge", "provider": "scripted", "judge": [{"score": 0.9, "reasoning": "the-judge-likes-it"}]}
    told = {
        "name": "cities",
        "targets": [scripted("geo", "Bern, of course."), judge],
        "judge_target": "judge",
        "target": "geo",
        "evals": [case("one", {"llm_judge": {"criteria": "Is friendly."}, "name": "tone"})],
    }
    document = run(project, told)
    check = document["results"][0]["turns"][0]["checks"][0]
    assert check["passed"], check
    digest, made = check["judged_by"], only_run(project.folder).name
    viewer = Viewer(project.folder)
    assert "Is friendly." in viewer.page(f"/judges/{digest}")
    page = viewer.page(f"/label?run={made}&check={digest}")
    assert "Bern, of course." in page
    assert check["reason"] not in page
    first = first_of(page)
    [item] = first["items"]
    assert (item["turn"], item["check"], first["done"]) == (1, [0], [])
    asked = f"run={made}&check={digest}&id={quote(item['id'], safe='')}"
    assert check["reason"] not in json.dumps(viewer.data(f"/data/label/reply?{asked}"))
    assert viewer.data(f"/data/label/verdict?{asked}")["reason"] == check["reason"]
    assert viewer.get(f"/label?run={made}").headers["location"] == f"/label?run={made}&check={digest}"


def test_a_plan_that_recovered_before_its_end_says_on_which_turn(project: Project):
    second = {
        "prompt": "And of France?",
        "checks": [{"contains": "Paris", "prompt": "Sure?", "checks": [{"contains": "Paris"}]}],
    }
    turns = [{"prompt": "The capital of Italy?"}, second, {"prompt": "Thanks."}]
    targets = [scripted("geo", "Rome", "Lyon", "Paris", "You are welcome.")]
    run(project, {"name": "cities", "targets": targets, "target": "geo", "evals": [{"id": "plan", "turns": turns}]})
    [row] = Viewer(project.folder).data(f"/data/runs/{only_run(project.folder).name}/rows")["rows"]
    assert (row["outcome"], row["turns"], row["recovered_on"]) == ("recovered", 4, 3)


def test_judges_with_the_same_criteria_are_told_apart(project: Project):
    judge = {"name": "judge", "provider": "scripted", "judge": [0.9, 0.8, 0.7, 0.6]}
    checks = [{"llm_judge": {"criteria": "Is friendly.", "votes": votes}} for votes in (1, 3)]
    targets = [scripted("geo", "Bern, of course."), judge]
    told = {
        "name": "cities",
        "targets": targets,
        "judge_target": "judge",
        "target": "geo",
        "evals": [case("one", *checks)],
    }
    document = run(project, told)
    page = Viewer(project.folder).page(f"/label?run={only_run(project.folder).name}")
    for one in document["results"][0]["turns"][0]["checks"]:
        assert f"scripted/judge ({one['judged_by'][:6]}): llm_judge Is friendly." in page


# To take away


def copied(viewer: Viewer, run: str, name: str, kind: str, **more: Any) -> str:
    words = {"suite": "cities", "case": name, "target": "geo", "trial": 1, "as": kind, **more}
    answer = viewer.get(f"/data/runs/{run}/copy?{httpx.QueryParams(words)}")
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_copied_case_loads_again(viewer: Viewer, made: str, project: Project, is_gone: bool):
    if is_gone:
        project.write("evals.yaml", {"evals": [case("another")]})
    text = copied(viewer, made, "capital", "yaml")
    project.write("copy.yaml", text)
    [file] = project.validate("copy.yaml")["files"]
    assert file["errors"] == []
    assert ("Are you sure?" in text) is not is_gone
    assert "`rejoinder run FILE -m geo` runs it" in text


def test_a_copied_command_is_one_request_whatever_was_said(project: Project, tmp_path: Path):
    evil = "'; touch hacked; echo '$(touch hacked) `touch hacked` \\ \"\n"
    run(
        project,
        {
            "name": "cities",
            "targets": [scripted("geo", evil, "x")],
            "target": "geo",
            "evals": [case("one", {"icontains": "never", **follow(f"Really? {evil}", {"icontains": "x"})})],
        },
    )
    command = copied(Viewer(project.folder), only_run(project.folder).name, "one", "curl", turn=2)
    assert "a system prompt, tools and settings are not in it" in command
    script = 'curl() { for word; do printf "%s\\0" "$word"; done; }\n' + command
    environment = {"OPENAI_API_KEY": "the-key", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, check=True)
    words = done.stdout.decode().split("\0")
    assert "the-key" not in command
    assert "Authorization: Bearer the-key" in words
    messages = json.loads(words[words.index("-d") + 1])["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == evil
    assert messages[2]["content"] == f"Really? {evil}".strip()
    assert not (tmp_path / "hacked").exists()


OBEYED = "a\u202eb \u2066c\u2069 \x1b[2J\x9b \ufeffé 日本 \U000e0041 'd' \"e\" #: x\n- y"


def test_copies_hold_no_character_that_a_terminal_obeys_and_say_the_same(tmp_path: Path):
    one = result(OBEYED, turn("x", prompt=OBEYED), file="gone.yaml", name=OBEYED, tags=(OBEYED, "plain é"))
    written, command = as_yaml(one, tmp_path, "r"), as_curl(one, None, 1)
    for text in (written, command):
        assert text.replace("\n", "").isprintable()
    [made] = yaml.safe_load(written)["evals"]
    assert (made["id"], made["name"], made["prompt"]) == (OBEYED, OBEYED, OBEYED)
    assert made["tags"] == [OBEYED, "plain é"]
    assert "- plain é\n" in written
    words = shlex.split(command)
    assert json.loads(words[words.index("-d") + 1])["messages"][-1]["content"] == OBEYED


@pytest.mark.parametrize("name", ["pipe.yaml", "\0.yaml", "folder.yaml", "x" * 5000 + ".yaml", "out.yaml"])
def test_a_file_of_a_run_that_is_none_is_not_waited_for(tmp_path: Path, name: str):
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "out.yaml").symlink_to("/dev/zero")
    one = result("case", turn("x", prompt="as it was recorded"), file=name)
    assert yaml.safe_load(as_yaml(one, tmp_path, "r"))["evals"][0]["prompt"] == "as it was recorded"


def test_a_copy_of_nothing_is_refused(viewer: Viewer, made: str):
    base = f"/data/runs/{made}/copy?suite=cities&target=geo"
    assert viewer.get(f"{base}&case=none&as=yaml").status_code == 404
    assert viewer.get(f"{base}&case=capital&as=sh").status_code == 400
    assert viewer.get(f"{base}&case=capital&as=curl&turn=9").status_code == 404


# Files, acts, large and growing runs


def test_files_of_the_page_are_kept_for_ever_and_have_their_digest_in_their_name(viewer: Viewer):
    page = viewer.page("/")
    names = re.findall(r'(?:href|src)="(/static/app-[0-9a-f]{16}\.(?:js|css))"', page)
    assert len(names) == 2
    for name in names:
        answer = viewer.get(name)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert viewer.get("/static/app-0000000000000000.js").status_code == 404
    assert viewer.get("/static/..%2f..%2fpyproject.toml").status_code == 404


def test_pages_are_not_kept_and_allow_nothing_but_their_own(viewer: Viewer, made: str):
    for path in ("/", f"/runs/{made}"):
        headers = viewer.get(path).headers
        assert headers["cache-control"] == "no-store"
        assert "require-trusted-types-for 'script'" in headers["content-security-policy"]


def test_no_sentence_of_a_page_has_backticks(project: Project):
    asked = case("capital", {"llm_judge": {"criteria": "Good?", "target": "j"}})
    with FakeServer('{"score": 1, "hits": [], "misses": [], "reasoning": "Good."}') as server:
        targets = [scripted("geo", "Bern"), behind(server, "j")]
        run(project, {"targets": targets, "target": "geo", "evals": [asked]})
    page = Viewer(project.folder).page(f"/runs/{only_run(project.folder).name}")
    assert "<code>rejoinder judge test</code>" in page
    assert "`" not in page


def test_a_server_that_only_shows_offers_no_acts(viewer: Viewer, made: str):
    assert first_of(viewer.page(f"/runs/{made}"))["acts"] is True
    shown = Viewer(viewer.settings.root, read_only=True)
    assert first_of(shown.page(f"/runs/{made}"))["acts"] is False


def test_a_stopped_run_can_go_on_and_only_runs_of_the_server_can_be_stopped(viewer: Viewer, made: str):
    told = first_of(viewer.page(f"/runs/{made}"))
    assert (told["resumes"], told["stops"]) == (False, False)
    assert _look(viewer, made, "interrupted").is_stopped


def _look(viewer: Viewer, made: str, status: Any) -> Any:
    look = Desk(viewer.settings).look(made)
    assert look.receipt is not None
    return structs.replace(look, receipt=structs.replace(look.receipt, status=status))


def _do_nothing(_index: RunIndex) -> None:
    """Instead of a thread that goes on."""


def test_a_large_run_is_shown_before_it_is_read_whole(viewer: Viewer, made: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rejoinder.server.row_store.BATCH", 1)
    monkeypatch.setattr(run_page, "FIRST_S", 0.0)
    monkeypatch.setattr("rejoinder.server.damage.QUICKLY", 0)
    monkeypatch.setattr(RunIndex, "grow_on", _do_nothing)
    page = viewer.page(f"/runs/{made}")
    assert first_of(page)["live"] == {"running": False, "rows": 1, "whole": False}
    assert 'still being read: <span id="done">1</span> so far' in page
    assert viewer.data(f"/data/runs/{made}/rows")["total"] == 2


def test_a_case_is_found_by_lines_that_name_it(viewer: Viewer, made: str, monkeypatch: pytest.MonkeyPatch):
    path = only_run(viewer.settings.root) / "results.jsonl"
    monkeypatch.setattr("rejoinder.server.result_lines.LONGEST", 100)
    assert list(case_page.find_case(path, "cities", "capital", case_page.Frame())) == []
    monkeypatch.undo()
    assert [row.case for row in case_page.find_case(path, "cities", "capital", case_page.Frame())] == ["capital"]


async def events_of(stream: AsyncIterator[bytes]) -> tuple[str, Any]:
    """The next event."""
    while True:
        head, _, data = (await anext(stream)).decode().partition("\ndata: ")
        if head.startswith("event: "):
            return head.removeprefix("event: "), json.loads(data)


def test_a_run_that_goes_on_tells_its_new_rows_and_its_end(viewer: Viewer, made: str):
    folder = RunFolder(only_run(viewer.settings.root))
    lines = folder.results.read_bytes().splitlines(keepends=True)
    ended = folder.read_receipt()
    assert ended is not None
    whole = {name: (folder.path / name).read_bytes() for name in ("summary.json", "results.jsonl", "run.json")}
    folder.write_receipt(structs.replace(ended, status="running", finished_at=None))
    for name in ("summary.json", "results.jsonl"):
        (folder.path / name).unlink()
    draft = folder.path / ".results.jsonl.0123456789abcdef.draft"
    draft.write_bytes(lines[1])
    folder.lock()
    draft.write_bytes(lines[1])  # locking sweeps drafts of killed runs away

    async def watch() -> None:
        desk, streams = Desk(viewer.settings), Streams(1, asyncio.Event())
        stream = streams.told(Live(desk, streams).events(made, 0), 0.01)
        kind, news = await events_of(stream)
        assert (kind, [row["case"] for row in news["rows"]]) == ("news", ["largest"])
        assert (news["planned"], news["state"], news["counts"]["failed"]) == (2, "running", 1)
        with draft.open("ab") as file:
            file.write(lines[0])
        kind, news = await events_of(stream)
        assert (news["next"], [row["case"] for row in news["rows"]]) == (2, ["capital"])
        draft.unlink()
        for name, content in whole.items():
            (folder.path / name).write_bytes(content)
        folder.unlock()
        last = news
        while kind != "over":
            last, (kind, news) = news, await events_of(stream)
        assert last["state"] == "ended"
        desk.close()

    assert "Running: cities" in viewer.page(f"/runs/{made}")
    asyncio.run(watch())


def test_a_killed_run_shows_what_it_had_and_how_to_go_on(viewer: Viewer, made: str):
    folder = RunFolder(only_run(viewer.settings.root))
    receipt = folder.read_receipt()
    assert receipt is not None
    folder.results.rename(folder.path / ".results.jsonl.0123456789abcdef.draft")
    (folder.path / "summary.json").unlink()
    folder.write_receipt(structs.replace(receipt, status="running"))
    page = viewer.page(f"/runs/{made}")
    assert f"rejoinder resume {made}" in page
    assert first_of(page)["found"]["total"] == 2
    assert f"<code>rejoinder resume {made}</code> continues it" in viewer.page("/")


def test_a_server_that_ends_leaves_no_index(viewer: Viewer, made: str, tmp_path_factory: pytest.TempPathFactory):
    desk = Desk(viewer.settings)
    index = desk.index(desk.look(made))
    place = index.file
    assert place.exists()
    desk.close()
    assert not place.parent.exists()


def test_what_a_killed_server_left_goes_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    make = "from rejoinder.server.index_folder import IndexFolder as I; import os; kept = I(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", make], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    [left] = tmp_path.iterdir()
    (left / "1.sqlite").write_bytes(b"rows")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (tmp_path / "rejoinder-view-link").symlink_to(elsewhere)
    alive, other = IndexFolder(), IndexFolder()
    assert not left.exists()
    assert alive.path.is_dir()
    assert (elsewhere / "lock").exists()
    alive.delete()
    other.delete()


class _Hostile(PageData, frozen=True, kw_only=True, tag="hostile"):
    text: str


def test_the_data_of_a_page_cannot_end_its_block():
    made = page("x", run_page.element("p"), _Hostile(text="</script><!--<script>"))
    assert msgspec.json.decode(re.findall(r'json">(.*?)</script>', bytes(made.body).decode())[0])["text"] == (
        "</script><!--<script>"
    )
