"""`rejoinder report` and `run --report`: which run, which file, and what becomes of damaged runs and secrets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import rejoinder
from rejoinder.errors import UsageError
from rejoinder.report import html
from rejoinder.runs.verify import verify_run
from rejoinder.testing import Answer, FakeServer, Received
from tests.kit import Project, Raw, case, follow, only_run, refusal, run_folders, scripted
from tests.report.html_files import HtmlFile

YES = {"match": "*yes*"}
SUITE: Raw = {
    "metadata": {"name": "manners"},
    "targets": [scripted("demo", "no", "yes", "never")],
    "target": "demo",
    "evals": [
        case("recovers", YES, follow("Again.", YES), prompt="Say yes."),
        case("fails", {"match": "*please*"}, prompt="Say please.", tags=["polite"]),
    ],
}


def ran(project: Project, suite: Raw | None = None, *arguments: str) -> str:
    """A run of the suite; its id."""
    project.write("evals.yaml", suite or SUITE)
    return project.run_json("run", "evals.yaml", *arguments, code=None)["run"]["id"]


def read(project: Project, name: str) -> HtmlFile:
    return HtmlFile((project.folder / name).read_text(encoding="utf-8"))


def test_the_latest_run_is_written_under_its_name(project: Project) -> None:
    ran(project)
    latest = ran(project)
    said = project.run("report")
    size = (project.folder / f"{latest}.html").stat().st_size
    assert said == f"wrote {latest}.html ({round(size / 1000)} kB)\n"
    page = read(project, f"{latest}.html")
    assert page.index["head"]["run"] == latest
    assert page.of("title") == ["1 failed, 1 of 2 passed (50%): manners"]


def test_a_run_is_named_as_for_show_and_the_file_by_out(project: Project) -> None:
    first = ran(project)
    ran(project)
    project.run("report", "last~1", "--out", "deep/er/page.html")
    assert read(project, "deep/er/page.html").index["head"]["run"] == first
    assert not list(project.folder.glob("*.html"))


def test_export_and_out_write_the_same_file(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    project.run("run", "--out", "a.html", code=1)
    project.run("report", "--out", "b.html")
    project.run("export", "--out", "c.html")
    contents = {(project.folder / name).read_bytes() for name in ("a.html", "b.html", "c.html")}
    assert len(contents) == 1
    assert project.run("export", "--to", "html").encode() in contents


def test_a_run_writes_its_report_at_its_end(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    result = project.invoke("run", "evals.yaml", "--format", "json", "--report")
    document = json.loads(result.stdout)  # alone on standard output
    name = f"{document['run']['id']}.html"
    assert f"wrote {name} (" in result.stderr
    assert result.exit_code == 1
    assert read(project, name).index["head"]["run"] == document["run"]["id"]


def test_a_report_of_a_run_may_be_named(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    project.run("run", "--report", "page.html", code=1)
    assert read(project, "page.html").of("h1")


def test_a_suite_behind_report_is_run_and_not_written_over(project: Project) -> None:
    path = project.write("evals.yaml", SUITE)
    before = path.read_bytes()
    project.run("run", "--report", "evals.yaml", code=1)
    assert path.read_bytes() == before
    assert len(list(project.folder.glob("*.html"))) == 1


def test_files_that_the_results_come_from_are_spared(project: Project) -> None:
    ran(project)
    folder = only_run(project.folder)
    for name in (str(folder / "x.html"), ".rejoinder/x.html", "evals.yaml"):
        assert "Write the results to another file" in refusal(project, "report", "--out", name)
    assert "cannot be written" in refusal(project, "report", "--out", "evals.yaml/x.html")
    assert "cannot be written" in refusal(project, "run", "--report", "evals.yaml/x.html")
    assert len(run_folders(project.folder)) == 1  # nothing was sent


def test_more_than_two_runs_are_refused(project: Project) -> None:
    assert "3 runs are named, and a report shows one or two" in refusal(project, "report", "a", "b", "c")


def test_two_runs_are_written_side_by_side(project: Project) -> None:
    a = ran(project)
    b = ran(project, {**SUITE, "targets": [scripted("demo", "no", "never", "please")]})
    project.run("report", "last~1", "last")
    page = read(project, f"{a}-{b}.html")
    assert page.index["head"]["pair"] == {"a": a, "b": b}
    found = rejoinder.compare(a, b)
    assert page.index["columns"]["change"].count(0) == len(found.broke) == 1
    assert f"{found.eventual.a.passed} of {found.eventual.a.of}" in page.of("table", class_="figures")[0]
    assert page.of("h1") == ["Worse or not: we cannot tell; 1 broke, 0 fixed."]


def test_a_damaged_run_is_written_as_damaged(project: Project) -> None:
    name = ran(project)
    path = only_run(project.folder) / "summary.json"
    summary = json.loads(path.read_text())
    path.write_text(json.dumps({**summary, "passed": 2, "failed": 0}))
    result = project.invoke("report", "--out", "page.html")
    assert result.exit_code == 3
    assert f"run {name} is damaged" in result.stderr
    page = read(project, "page.html")
    assert page.of("h1") == ["This run is damaged"]
    assert "summary.json: " in page.of("ul", class_="wrong")[0]
    assert not page.of("script", id="index")


def test_a_changed_journal_is_damage_too(project: Project) -> None:
    ran(project)
    journal = only_run(project.folder) / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"yes"', b'"YES"'))
    assert project.invoke("report", "--out", "page.html").exit_code == 3
    assert "journal.jsonl" in read(project, "page.html").of("ul", class_="wrong")[0]


def test_a_pair_with_a_damaged_run_names_it(project: Project) -> None:
    ran(project)
    b = ran(project)
    results = next(folder for folder in run_folders(project.folder) if folder.name == b) / "results.jsonl"
    results.write_bytes(results.read_bytes().replace(b'"passed":false', b'"passed":true'))
    result = project.invoke("report", "last~1", "last", "--out", "page.html")
    assert (result.exit_code, f"run {b} is damaged" in result.stderr) == (3, True)


def test_a_run_that_was_cut_off_says_so(project: Project) -> None:
    ran(project)
    folder = only_run(project.folder)
    receipt = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**receipt, "status": "running"}))
    for name in ("summary.json", "results.jsonl", "checksums.json"):
        (folder / name).unlink(missing_ok=True)
    assert verify_run(rejoinder.runs.recorded.open_recorded(None)).verdict == "intact"
    project.run("report", "--out", "page.html")
    assert read(project, "page.html").of("h1")[0].startswith("The run was killed: ")


def test_a_large_file_is_warned_of(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    ran(project)
    monkeypatch.setattr(html, "LARGE", 1000)
    assert "opens slowly" in project.invoke("report").stderr


def test_the_browser_is_opened_only_when_it_is_asked_for(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    ran(project)
    project.run("report", "--out", "page.html")
    assert not opened
    project.run("report", "--out", "page.html", "--open")
    assert opened == [(project.folder / "page.html").as_uri()]


SECRET = "7eC0ffee51b6A9d2"


def tells_all(received: Received) -> Answer:
    """The whole request, with its headers, in the reply; the key in its thinking."""
    return Answer(
        f"{received.raw!r} {received.headers}", thinking=f"I know sk-{SECRET}", input_tokens=1, output_tokens=1
    )


def test_no_secret_of_a_run_is_in_its_report(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"sk-{SECRET}")
    monkeypatch.setenv("REJOINDER_SECRET_COUPON", f"WINTER-{SECRET}")
    with FakeServer(tells_all) as server:
        target = {"name": "model", "provider": "openai", "model": "m", "base_url": server.openai_url}
        asks = case("a", {"match": "never"}, prompt="Is {{ secret('coupon') }} valid?")
        project.write("evals.yaml", {"target": "model", "targets": [target], "evals": [asks]})
        project.run("run", "--include", "messages", "--report", "page.html", code=1)
        assert any(SECRET in str(request.headers) and SECRET.encode() in request.raw for request in server.requests)
    page = read(project, "page.html")
    told = json.dumps([page.text, page.index, page.bodies])
    assert SECRET not in told
    assert "secret('coupon')" in told  # it was there, and its name stands in its place


def test_pages_are_not_imported_for_the_help() -> None:
    script = (
        "import sys; from rejoinder.cli.app import cli; cli.main(['--help'], standalone_mode=False);"
        "from rejoinder.cli import run;"
        "print([name for name in sys.modules if 'report.page' in name or 'report.html' in name or 'starlette' in name])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert "Write a run, or two runs side by side, as one HTML file." in shown
    assert shown.splitlines()[-1] == "[]"


def test_a_file_that_cannot_be_written_is_a_mistake_in_words(project: Project) -> None:
    ran(project)
    Path("page.html").mkdir()
    result = project.invoke("report", "--out", "page.html")
    assert result.exit_code == 2 or isinstance(result.exception, UsageError)
