"""A run has a pass rate or a reason for having none, and everything that shows the run shows the same."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from rejoinder.engine.run import show_run
from rejoinder.history.index import read_history
from rejoinder.model.figures import NoRate, NoRateReason
from rejoinder.model.runs import RunStatus
from rejoinder.report import github, html
from rejoinder.report.card import write_card
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport
from rejoinder.runs.results import EveryResult
from rejoinder.runs.summary import summarise
from rejoinder.runs.verify import find_damage
from rejoinder.testing import Answer, FakeServer, Fault
from rejoinder.views.board import board_of
from rejoinder.views.notes import bounds_words
from rejoinder.words.figures import without_errors_words
from tests.kit import ROOT, Project, Raw, behind, bounded, case, only_run, run_folders
from tests.server.kit import api, ask, settings

SOURCES = ROOT / "src/rejoinder"
REPLIES = {"y": "yes", "n": "no", "e": {"error": "down"}}
APART = {"until": "9999-12-31", "reason": "the tokenizer"}


class Story(Struct, frozen=True, kw_only=True):
    """What happens in a run: a letter for each case, one that passes, fails or ends in an error."""

    ways: str
    targets: int = 1
    variants: int = 1
    repeat: int = 1
    apart: int = 0
    """Cases in quarantine: the first ones."""
    fail_fast: bool = False
    given_up: bool = False
    """What was not started was left out because the target was given up."""
    status: RunStatus = "completed"
    missing: int = 0
    """Conversations that were planned and are not there."""


STORIES: dict[NoRateReason | None, tuple[Story, ...]] = {
    None: (
        Story(ways="yyn"),
        Story(ways="yye"),
        Story(ways="nyy", repeat=3),
        Story(ways="eeyn", apart=2),
        Story(ways="yyyn", fail_fast=True),
    ),
    "untested": (Story(ways="eee"), Story(ways="ee", targets=2), Story(ways="ee", status="interrupted")),
    "running": (),
    "killed": (Story(ways="yyn", status="running"),),
    "interrupted": (
        Story(ways="yyn", status="interrupted", missing=2),
        Story(ways="yn", status="interrupted", targets=2),
    ),
    "budget": (Story(ways="yyn", status="budget", missing=1),),
    "unfinished": (Story(ways="yyn", missing=2), Story(ways="yyn", status="error")),
    "fail-fast": (Story(ways="yynyy", fail_fast=True), Story(ways="ynyy", fail_fast=True, targets=2)),
    "given-up": (Story(ways="yynyy", fail_fast=True, given_up=True),),
    "several-targets": (Story(ways="yyn", targets=2), Story(ways="yn", targets=2, variants=2)),
    "several-variants": (Story(ways="yyn", variants=2),),
    "several-conditions": (),  # `test_conditions.py`
    "errors": (Story(ways="yyeee"), Story(ways="yee", repeat=2)),
    "nothing": (Story(ways="yn", apart=2),),
}
CASES = [(because, story) for because, stories in STORIES.items() for story in stories]


def play(project: Project, story: Story) -> RunReport:
    """The run of a story, and its folder as such a run leaves it."""
    replies = {f"c{place}": [REPLIES[way]] for place, way in enumerate(story.ways)}
    targets = [{"name": f"t{place}", "provider": "scripted", "replies": replies} for place in range(story.targets)]
    evals = [
        case(name, {"contains": "yes"}, prompt=name, **({"quarantine": APART} if place < story.apart else {}))
        for place, name in enumerate(replies)
    ]
    suite: Raw = {"targets": targets, "evals": evals}
    if story.variants > 1:
        suite["variants"] = [{"name": f"v{place}"} for place in range(story.variants)]
    project.write("evals.yaml", suite)
    chosen = [f"--target=t{place}" for place in range(story.targets)]
    project.run(
        "run", "--workers=1", f"--repeat={story.repeat}", *chosen, *["--fail-fast"] * story.fail_fast, code=None
    )
    folder = RunFolder(run_folders(project.folder)[-1])
    receipt, summary = folder.read_receipt(), folder.read_summary()
    assert receipt is not None
    assert summary is not None
    if story.given_up:
        receipt = structs.replace(receipt, options={**receipt.options, "fail_fast": False})
    receipt = structs.replace(receipt, status=story.status, planned=receipt.planned + story.missing)
    folder.write_summary(summarise(EveryResult(folder.results), receipt))
    folder.close(receipt)
    recorded = RecordedRun(folder, project.folder)
    assert find_damage(recorded) is None
    return show_run(recorded)


def has_percentage(text: str) -> bool:
    return re.search(r"\d%", text) is not None


def surfaces(project: Project, report: RunReport) -> dict[str, bool]:
    """Whether each of them shows a pass rate of the run."""
    run = report.folder.id
    verbose = project.run("show", run, "-v", code=None).splitlines()
    document = project.run_json("show", run, "--format", "json", code=None)["summary"]
    [page] = ["".join(html.write(report))]
    head = page.partition("<body>")[0], "".join(re.findall(r'<ol class="board one".*?<p class="share">(.*?)</p>', page))
    inspect = json.loads(project.run("export", run, "--to", "inspect"))["results"]["scores"][0]["metrics"]
    toon = re.search(r"^\s*pass_rate: (.*)$", project.run("export", run, "--to", "toon"), re.MULTILINE)
    return {
        "last line": has_percentage(project.run("show", run, "-q", code=None).splitlines()[-1]),
        "-v": any(line.startswith("  pass rate") and has_percentage(line) for line in verbose),
        "JSON": document["pass_rate"] is not None,
        "interval in JSON": document["pass_rate_interval"] is not None,
        "title of the page": has_percentage(re.findall(r"<title>(.*?)</title>", head[0])[0]),
        "number of the page": "%" in head[1],
        "outputs of a step": "pass_rate=\n" not in github.outputs(report),
        "Inspect": "pass_rate" in inspect,
        "TOON": toon is not None and toon[1] != "null",
    }


def of_one(project: Project, report: RunReport) -> dict[str, bool]:
    """The same for surfaces that show a rate for each target and variant, where a run has one of each."""
    page = ask(settings(project.folder), "GET", f"/runs/{report.folder.id}").text
    share = "".join(re.findall(r'<p class="share">(.*?)</p>', page))
    card = re.sub(r"<style>.*?</style>|<[^>]*>", " ", write_card(report), flags=re.DOTALL)
    [row] = [line for line in github.sticky_text(report).splitlines() if line.startswith("| `")]
    return {
        "run page of the viewer": "%" in share,
        "card": has_percentage(card),
        "comment": has_percentage(row),
    }


def rates_beside(report: RunReport) -> tuple[str, ...]:
    """Percentages that are not the rate: without errors, and bounds without invalid conversations."""
    return without_errors_words(report.summary.without_errors), bounds_words(report.summary.spoilt)


def check_headline_of_comment(report: RunReport) -> None:
    """It counts; the table under it has the rates."""
    headline = github.sticky_text(report).partition("\n|")[0]
    for words in filter(None, rates_beside(report)):
        headline = headline.replace(words, "")
    assert not has_percentage(headline), headline


def lists(project: Project, report: RunReport) -> dict[str, bool]:
    """The same for what lists runs. A run that was killed has no figures there."""
    [row] = [row for row in read_history(project.folder).rows if row.id == report.folder.id]
    text = project.run("runs").splitlines()[1]
    [whole] = [one for one in json.loads(project.run("runs", "--format", "json")) if one["id"] == row.id]
    [cells] = csv.DictReader(io.StringIO(project.run("runs", "--format", "csv")))
    answer = api(settings(project.folder), "GET", f"/runs/{row.id}").json()
    page = ask(settings(project.folder), "GET", "/").text
    [cell] = re.findall(r'<td class="rate">(.*?)</td>', page) or [""]
    return {
        "rows": row.rate is not None,
        "runs": has_percentage(text),
        "runs as JSON": whole["summary"]["pass_rate"] is not None,
        "runs as CSV": cells["pass_rate"] != "",
        "API": answer.get("summary", {}).get("pass_rate") is not None,
        "Runs page": bool(re.search(r"\d to \d", cell)),
    }


def check_every_surface(project: Project, report: RunReport) -> None:
    rate = report.summary.rate
    has_rate = not isinstance(rate, NoRate)
    assert report.summary.no_rate == (None if has_rate else rate.because)
    shown = surfaces(project, report) | lists(project, report)
    if len(board_of(report.run, report.summary).rows) == 1:
        shown |= of_one(project, report)
    if has_rate and report.summary.finished < 2:
        del shown["last line"]  # a rate of one conversation is no line worth
    assert set(shown.values()) == {has_rate}, shown
    whole = project.run("show", report.folder.id, "-v", code=None)
    assert not (re.search(r"no rate", whole.splitlines()[-1]) and re.search(r"pass rate .*\d%", whole)), whole
    check_groups(project, report)
    check_headline_of_comment(report)


def check_groups(project: Project, report: RunReport) -> None:
    """Each of several targets or variants has a rate or none, whoever shows it."""
    markdown = project.run("export", report.folder.id, "--to", "markdown").splitlines()
    shown = project.run("show", report.folder.id, "--quiet", code=None)
    for groups in (report.summary.by_target, report.summary.by_variant):
        for group in groups.values():
            has_rate = not isinstance(group.rate, NoRate)
            assert (group.pass_rate is not None, group.pass_rate_interval is not None) == (has_rate, has_rate)
    for row in board_of(report.run, report.summary).rows:
        has_rate = bool(row.share.text)
        assert has_rate is not bool(row.share.why)
        cells = next(line for line in markdown if line.startswith(f"| `{row.name}`"))
        assert has_percentage(cells) is has_rate, cells
        lines = [line for line in shown.splitlines() if line.startswith(f"{row.name} ")]
        assert all(has_percentage(line) is has_rate for line in lines), lines


@pytest.mark.parametrize(("because", "story"), CASES)
def test_every_surface_says_the_same(project: Project, because: NoRateReason | None, story: Story) -> None:
    report = play(project, story)
    assert report.summary.no_rate == because
    check_every_surface(project, report)


def test_every_reason_is_tried_and_documented() -> None:
    assert {because for because in STORIES if because is not None} == set(get_args(NoRateReason))
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    table = page.partition("### Why there is no pass rate")[2].partition("###")[0]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == get_args(NoRateReason)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    ways = draw(st.text("yne", min_size=2, max_size=5))
    status = draw(st.sampled_from(["completed", "completed", "interrupted", "budget", "error", "running"]))
    return Story(
        ways=ways,
        targets=draw(st.integers(1, 2)),
        variants=draw(st.integers(1, 2)),
        repeat=draw(st.integers(1, 2)),
        apart=draw(st.integers(0, len(ways))),
        fail_fast=draw(st.booleans()),
        given_up=draw(st.booleans()),
        status=status,  # type: ignore[arg-type]
        missing=draw(st.integers(0, 2)),
    )


@pytest.mark.slow
@bounded(12)
@given(story=stories())
def test_every_surface_says_the_same_whatever_happened(tmp_path_factory: pytest.TempPathFactory, story: Story) -> None:
    folder = tmp_path_factory.mktemp("story")
    (folder / ".rejoinder").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        project = Project(folder)
        check_every_surface(project, play(project, story))


def test_a_target_that_is_given_up_has_no_rate_of_its_first_conversations(project: Project) -> None:
    """Its key is refused from the sixth call: five of ten conversations are no rate of the ten."""
    with FakeServer(lambda _: Answer("yes"), faults=[*[None] * 5, *[Fault("status", status=401)] * 5]) as server:
        evals = [case(f"c{number}", {"contains": "yes"}) for number in range(10)]
        project.write("evals.yaml", {"targets": [behind(server, "t0")], "evals": evals})
        project.run("run", "--workers=1", code=3)
    report = show_run(RecordedRun(RunFolder(only_run(project.folder)), project.folder))
    assert (report.summary.passed, report.summary.skipped) == (5, 4)
    assert report.summary.rate == NoRate("given-up", 6, 1)
    check_every_surface(project, report)
    [rule] = project.run_json("gate", "--rule", "rate>=10%", "--format", "json", code=5)["rules"]
    assert rule["reason"] == "a target was given up: no rate"


def test_a_summary_without_reasons_gets_them_when_it_is_read(project: Project) -> None:
    """An earlier version wrote the rate of a run that has none."""
    report = play(project, Story(ways="yyeee"))
    folder, receipt = report.folder, structs.replace(report.run, format=2)
    path = folder.path / "summary.json"
    document = json.loads(path.read_bytes())
    for part in (document, document["by_target"]["t0"]):
        del part["no_rate"]
        part |= {"pass_rate": 0.4, "pass_rate_interval": [0.1, 0.8], "pass_rate_method": "wilson"}
    path.write_bytes(msgspec.json.encode(document))
    folder.close(receipt)
    assert find_damage(RecordedRun(folder, project.folder)) is None
    read = show_run(RecordedRun(folder, project.folder))
    assert (read.summary.no_rate, read.summary.by_target["t0"].no_rate) == ("errors", "errors")
    check_every_surface(project, read)


def test_a_comparison_has_no_rate_of_a_run_that_has_none(project: Project) -> None:
    runs = [play(project, Story(ways=ways)) for ways in ("yyyyy", "yyeee")]
    text = project.run("compare", *(run.folder.id for run in runs), code=None)
    [row] = [line for line in text.splitlines() if line.startswith("  final pass rate") and "of 5" in line]
    assert re.findall(r"\d+%|no rate", row) == ["100%", "no rate"]
    [headline] = [line for line in text.splitlines() if "broke" in line and "final pass rate" in line] or [""]
    assert "40%" not in headline
    project.run("report", *(run.folder.id for run in runs), "--out", "two.html", code=None)
    page = (project.folder / "two.html").read_text(encoding="utf-8")
    assert "no rate (2 of 5)" in page
    assert "40% (2 of 5)" not in page


# Who may read a rate


READERS = {
    "model/runs.py",  # the rule
    "model/history.py",  # a row, whose summary was put to the rule
    *("runs/summary.py", "runs/conversation_counts.py"),  # they make it, and figures of it
    *("report/github.py", "exports/toon.py"),  # the number alone, or nothing
}


def test_only_named_files_read_a_pass_rate() -> None:
    """What shows a rate asks `Summary.rate`, which is the rate or the reason for having none."""
    readers = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and reads_rate(node)
    }
    assert readers == READERS


def reads_rate(node: ast.Attribute) -> bool:
    if node.attr in ("pass_rate", "pass_rate_interval"):
        return True
    of_rates = isinstance(node.value, ast.Attribute | ast.Name) and "rates" in ast.unparse(node.value)
    return node.attr == "eventual" and of_rates


def test_only_the_rule_compares_errors_with_a_half() -> None:
    deciders = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if re.search(r"2 \* [\w.]*errors|errors \* 2", path.read_text(encoding="utf-8"))
    }
    assert deciders == {"model/figures.py"}
