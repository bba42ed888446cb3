"""`rejoinder runs`: the list, its filters and sorts, names of runs, tags, notes and deleting."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from rejoinder.history import index
from rejoinder.history.index import History
from rejoinder.history.query import Query, Range, find_runs
from rejoinder.model.history import Page, RowFigures, RunRow
from rejoinder.report.history import write_runs, write_trend
from rejoinder.report.styled import PLAIN, Form, Line, plain_text
from rejoinder.runs import folder as folders
from tests.kit import (
    Process,
    Project,
    Raw,
    case,
    file_contents,
    follow,
    refusal,
    refused,
    run,
    run_folders,
    scripted,
)


def suite(*replies: str, name: str = "capitals", cases: int = 2, **more: Any) -> Raw:
    return {
        "metadata": {"name": name},
        "targets": [scripted("bot", *replies), scripted("other", "no")],
        "target": "bot",
        "evals": [case(f"c{number}", {"contains": "yes"}) for number in range(cases)],
        **more,
    }


def ids(project: Project, *arguments: str) -> list[str]:
    return [row["id"] for row in project.run_json("runs", *arguments)]


def started(project: Project, *replies: str, arguments: tuple[str, ...] = (), **more: Any) -> str:
    return run(project, suite(*replies, **more), *arguments)["run"]["id"]


def row(number: int, **more: Any) -> RunRow:
    known: Raw = {"id": f"20260101-{number:06d}-{number:04x}", "status": "completed", "suites": ("capitals",)}
    return RunRow(**{**known, **more})


def figures(passed: int, failed: int = 0, **more: Any) -> RowFigures:
    known: Raw = {
        "total": passed + failed,
        "passed": passed,
        "failed": failed,
        "errors": 0,
        "skipped": 0,
        "unfinished": 0,
        "first_try": passed,
        "recovered": 0,
        "pass_rate": passed / (passed + failed),
        "total_tokens": 9,
        "total_cost": 0.01,
        "duration_s": 2.0,
        "exit_code": int(failed > 0),
        **more,
    }
    return RowFigures(**known)


def found(rows: list[RunRow], **query: Any) -> list[int]:
    """The numbers of the rows that a query finds, in its order."""
    page = find_runs(History(tuple(rows), None), Query(**query))
    return [int(one.id.split("-")[1]) for one in page.rows]


# The list


def test_runs_are_listed_newest_first_with_what_they_came_to(project: Project) -> None:
    first = started(project, "yes")
    second = started(project, "no", name="rivers")
    lines = project.run("runs").splitlines()
    assert lines[0].split() == ["run", "suite", "passed", "rate", "age", "status"]
    assert lines[1].split() == [second, "last", "rivers", "0", "of", "2", "0%", "now", "2", "failed"]
    assert lines[2].split() == [first, "capitals", "2", "of", "2", "100%", "now", "passed"]


def test_recovered_runs_say_how_many(project: Project) -> None:
    checks = [{"contains": "yes"}, follow("Again.", {"contains": "yes"})]
    run(project, {**suite("no", "yes"), "evals": [case("a", *checks)]})
    title, line = project.run("runs").splitlines()
    assert "recovered" in title
    assert line.split()[-3:] == ["1", "now", "passed"]


def test_a_killed_run_says_how_far_it_came(project: Project) -> None:
    """Of a run without a summary the journal knows which conversations were begun."""
    started(project, "yes", cases=5, arguments=("--workers", "1"))
    [folder] = run_folders(project.folder)
    receipt = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**receipt, "status": "running", "finished_at": None}))
    (folder / "summary.json").unlink()
    journal = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join(journal[:5]) + b'{"type": "ask')
    begun = len([line for line in journal[:5] if json.loads(line)["type"] == "asked"])
    [listed] = project.run_json("runs")
    assert (listed["status"], listed["begun"], listed["planned"]) == ("killed", begun, 5)
    assert f"killed, {begun} of 5 begun" in project.run("runs")


def test_csv_has_all_runs_and_no_cell_that_a_spreadsheet_runs(project: Project) -> None:
    started(project, "yes", name="=1+1")
    for number in range(25):
        shutil.copytree(
            run_folders(project.folder)[-1], project.folder / f".rejoinder/runs/20260101-000000-{number:04x}"
        )
    rows = list(csv.DictReader(io.StringIO(project.run("runs", "--format", "csv"))))
    assert len(rows) == 26
    assert rows[0]["suites"] == "'=1+1"
    assert rows[0]["passed"] == "2"
    text = project.run("runs")
    assert "6 other runs of 26; --limit and --offset show them" in text


# Filters and sorts


@pytest.mark.spec("C34")
def test_every_filter_keeps_what_holds() -> None:
    rows = [
        row(1, summary=figures(1, 1), started_at="2026-01-01T10:00:00Z", targets=("bot",)),
        row(2, summary=figures(2, total_cost=0.5, duration_s=60), models=("openai/gpt-5",), tags=("good",)),
        row(3, status="interrupted", suites=("rivers",), finished_at="2026-02-01T10:00:00Z"),
        row(4, status="running"),
    ]
    assert found(rows) == [4, 3, 2, 1]
    assert found(rows, statuses=("running", "interrupted")) == [4, 3]
    assert found(rows, statuses=("failed",)) == [1]
    assert found(rows, statuses=("completed",)) == [2, 1]
    assert found(rows, not_statuses=("completed",)) == [4, 3]
    assert found(rows, suites=("rivers",)) == [3]
    assert found(rows, models=("bot",)) == [1]
    assert found(rows, models=("gpt-5",)) == [2]
    assert found(rows, model_like="GPT") == [2]
    assert found(rows, tags=("good",)) == [2]
    assert found(rows, cost=Range(0.02)) == [2]
    assert found(rows, success=Range(None, 50)) == [1]
    assert found(rows, duration_s=Range(2, 2)) == [1]
    assert found(rows, started=Range(0)) == [1]
    assert found(rows, finished=Range(None, 1e10)) == [3]
    assert found(rows, limit=2, offset=1) == [3, 2]


@pytest.mark.parametrize(
    ("sort", "order"),
    [("created", [3, 2, 1]), ("success", [2, 1, 3]), ("cost", [1, 2, 3]), ("time", [2, 1, 3])],
)
def test_sorts_put_the_best_first_and_what_has_no_figure_last(sort: str, order: list[int]) -> None:
    best = figures(2, total_cost=0.2, duration_s=1)
    rows = [row(1, summary=figures(1, 1, total_cost=0.1, duration_s=5)), row(2, summary=best), row(3, status="killed")]
    assert found(rows, sort=sort) == order


def test_price_performance_is_vibechecks_score() -> None:
    assert row(1, summary=figures(3, 1, total_cost=0.01, duration_s=50)).price_performance == 75 / (10 + 5)
    assert row(1, summary=figures(3, total_cost=None)).price_performance is None
    assert row(1, summary=figures(3), status="interrupted").price_performance is None
    cheap, dear = figures(1, 1, total_cost=0.001, duration_s=1), figures(2, total_cost=1, duration_s=1)
    assert found([row(1, summary=dear), row(2, summary=cheap)], sort="price-performance") == [2, 1]


def test_options_reach_the_filters(project: Project) -> None:
    good, bad = started(project, "yes"), started(project, "no", name="rivers")
    assert ids(project, "--status", "passed") == [good]
    assert ids(project, "--status-ne", "passed,damaged") == [bad]
    assert ids(project, "--suite", "rivers") == [bad]
    assert ids(project, "--min-success", "50") == ids(project, "--success-gt", "50") == [good]
    assert ids(project, "--max-duration", "1000") == ids(project, "--time-lt", "1000") == [bad, good]
    assert ids(project, "--min-cost", "1") == []
    assert ids(project, "--date-from", "2000-01-01", "--completed-to", "2999-12-31") == [bad, good]
    assert ids(project, "--date-to", "2000-01-01") == []
    assert ids(project, "--sort-by", "success", "--reverse") == [bad, good]
    assert ids(project, "--limit", "1", "--offset", "1") == [good]
    assert "no run matches; there are 2 in all" in project.run("runs", "--model", "gpt-9")
    assert "is not a status; there are running" in refusal(project, "runs", "--status", "fine")
    assert "is not a date" in refusal(project, "runs", "--date-from", "soon")


def test_a_date_without_a_time_is_the_whole_day(project: Project) -> None:
    identity = started(project, "yes")
    [folder] = run_folders(project.folder)
    receipt = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**receipt, "started_at": "2026-03-05T12:00:00Z"}))
    assert ids(project, "--date-from", "2026-03-05", "--date-to", "2026-03-05") == [identity]
    assert ids(project, "--date-from", "2026-03-06T23:00") == []
    assert ids(project, "--date-to", "2026-03-04") == []


# Names of runs


@pytest.mark.slow
def test_commands_take_names_of_runs(project: Project) -> None:
    first, second, third = started(project, "yes"), started(project, "no", name="rivers"), started(project, "yes")

    def shown(name: str) -> str:
        return project.run_json("show", name, code=None)["run"]["id"]

    assert [shown(name) for name in ("last", "last~1", "last~2")] == [third, second, first]
    assert [shown(name) for name in ("capitals", "capitals~1", "rivers")] == [third, first, second]
    assert project.run_json("replay", "last~1", code=None)["run"]["replay_of"] == second
    assert "there is no run `last~9`: the project has 4 runs" in str(refused(project, "show", "last~9"))
    assert "suite `rivers` has 1 run" in str(refused(project, "show", "rivers~1"))
    assert "there is no run `seas`" in str(refused(project, "show", "seas"))


# Tags, notes and deleting


@pytest.mark.slow
def test_tags_and_notes_lie_in_the_folder_and_are_found(project: Project) -> None:
    first, second = started(project, "yes"), started(project, "yes")
    project.run("runs", "tag", first, "good", "v1.2")
    project.run("runs", "tag", "last", "good")
    project.run("runs", "tag", "last", "good", "--remove")
    project.run("runs", "note", "last~1", "before the\nnew prompt")
    assert ids(project, "--tag", "good") == [first]
    kept = json.loads((project.folder / ".rejoinder/runs" / first / "notes.json").read_text())
    assert kept == {"tags": ["good", "v1.2"], "note": "before the\nnew prompt"}
    text = project.run("runs")
    assert "passed #good #v1.2\n  note: before the new prompt\n" in text
    assert project.run_json("runs", "--tag", "v1.2")[0]["note"] == "before the\nnew prompt"
    project.run("runs", "note", first, "")
    assert "note:" not in project.run("runs")
    assert second in ids(project)
    assert project.run_json("show", first)["run"]["id"] == first


@pytest.mark.parametrize("tag", ["", "two words", "x" * 65, "\x1b[31m", "x\n"])
def test_a_tag_is_a_word(project: Project, tag: str) -> None:
    started(project, "yes")
    assert "a tag has letters" in str(refused(project, "runs", "tag", "last", tag))
    assert not list(project.folder.rglob("notes.json"))


def test_rm_deletes_runs_with_their_grades_and_asks_first(project: Project) -> None:
    first, second, third = (started(project, "yes") for _ in range(3))
    grades = Path(project.run_json("grade", first)["run"]["folder"])
    assert "add --yes" in refusal(project, "runs", "rm", first)
    assert "deleted" in project.run("runs", "rm", first, "last~1", "--yes")
    assert ids(project) == [third]
    assert not grades.exists()
    assert second not in ids(project)
    assert "there is no run" in str(refused(project, "runs", "rm", "last", "nothing", "--yes"))
    assert ids(project) == [third]


def test_rm_deletes_grades_alone(project: Project) -> None:
    started(project, "yes")
    grades = Path(project.run_json("grade")["run"]["folder"])
    project.run("runs", "rm", grades.name, "--yes")
    assert not grades.exists()
    assert len(ids(project)) == 1


def test_rm_leaves_folders_of_others_alone(project: Project, tmp_path: Path) -> None:
    started(project, "yes")
    elsewhere = tmp_path / "elsewhere" / "20260101-000000-abcd"
    shutil.copytree(run_folders(project.folder)[0], elsewhere)
    assert "is not a run of this project" in str(refused(project, "runs", "rm", str(elsewhere), "--yes"))
    assert elsewhere.is_dir()


def test_rm_deletes_a_folder_that_is_no_run(project: Project) -> None:
    folder = project.folder / ".rejoinder/runs/20260101-000000-abcd"
    folder.mkdir(parents=True)
    (folder / "lock").symlink_to(project.folder / "victim")
    project.run("runs", "rm", "abcd", "--yes")
    assert not folder.exists()
    assert not (project.folder / "victim").exists()


def test_blessed_runs_have_their_names(project: Project) -> None:
    first, second = started(project, "yes"), started(project, "yes")
    project.run("bless", first)
    project.run("bless", first, "--name", "v1")
    project.write(".rejoinder/baselines/broken.json", "{}")
    found = {one["id"]: one["baselines"] for one in project.run_json("runs")}
    assert found == {first: ["main", "v1"], second: []}
    assert f"{first} main v1" in project.run("runs")


def test_whole_summaries_are_read_from_the_folders_that_the_list_has(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking each run up by its name reads the list of all runs for each."""
    known = [started(project, "yes") for _ in range(3)]
    listings = list[Path]()
    listed = folders.run_ids

    def counted(parent: Path) -> list[str]:
        listings.append(parent)
        return listed(parent)

    for module in (folders, index):
        monkeypatch.setattr(module, "run_ids", counted)
    rows = project.run_json("runs")
    assert [one["id"] for one in rows] == known[::-1]
    assert all("score" in one["summary"] for one in rows)
    assert len(listings) == 1


@pytest.mark.parametrize(
    ("part", "command"),
    [
        ("runs", ("rm", "last")),
        ("runs", ("prune", "--keep", "0")),
        ("grades", ("rm", "GRADES")),
        ("", ("rm", "last")),
        ("", ("rm", "GRADES")),
        ("", ("prune", "--keep", "0")),
    ],
)
def test_nothing_is_deleted_through_a_link(
    project: Project, tmp_path_factory: pytest.TempPathFactory, part: str, command: tuple[str, ...]
) -> None:
    started(project, "yes")
    grades = Path(project.run_json("grade")["run"]["folder"]).name
    other = tmp_path_factory.mktemp("other") / ".rejoinder"
    (project.folder / ".rejoinder").rename(other)
    link = project.folder / ".rejoinder" / part
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(other / part, target_is_directory=True)
    before = file_contents(other)
    words = [grades if word == "GRADES" else word for word in command]
    assert "nothing is deleted through it" in str(refused(project, "runs", *words, "--yes"))
    assert file_contents(other) == before


def test_a_project_below_a_link_deletes_its_runs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    started(project, "yes")
    (project.folder / ".rejoinder").rename(project.folder / "store")
    (project.folder / ".rejoinder").symlink_to("store", target_is_directory=True)
    link = project.folder.parent / "link"
    link.symlink_to(project.folder, target_is_directory=True)
    monkeypatch.chdir(link)
    project.run("runs", "rm", "last", "--yes")
    assert not any(path.is_dir() for path in (project.folder / "store/runs").iterdir())


def test_prune_deletes_what_a_killed_rm_has_left(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project.folder / ".rejoinder/runs" / started(project, "yes")
    for name in ("lock", "run.json"):
        (folder / name).unlink()
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert "kept 1 run" in project.invoke("runs", "prune", "--keep", "0", "--yes").stderr
    assert folder.is_dir()
    monkeypatch.undo()
    monkeypatch.chdir(project.folder)
    assert project.run("runs", "prune", "--keep", "0", "--yes") == "deleted 1 run\n"
    assert not folder.exists()


@pytest.mark.slow
def test_tags_that_are_given_at_once_are_all_kept(project: Project) -> None:
    started(project, "yes")
    processes = [Process(project.folder, "runs", "tag", "last", f"t{number}") for number in range(8)]
    ended = [process.end() for process in processes]
    assert [(one.code, one.err) for one in ended if one.code] == []
    [listed] = project.run_json("runs")
    assert sorted(listed["tags"]) == [f"t{number}" for number in range(8)]


# On a terminal


SCREEN = Form(80, symbols=True, commands=True)


def terminal(rows: list[RunRow], width: int = 80) -> list[Line]:
    page = find_runs(History(tuple(rows), rows[-1].id), Query())
    return list(write_runs(page, Form(width, symbols=True, commands=True), 1_767_261_600))


def text_of(page: Page, form: Form = SCREEN) -> list[str]:
    return [plain_text(line) for line in write_runs(page, form, 0)]


def loud(line: Line) -> list[tuple[str, str]]:
    return [(piece.text, piece.role) for piece in line if piece.role not in ("text", "quiet")]


def test_a_terminal_shows_the_end_of_ids_and_drops_columns_that_have_no_room() -> None:
    rows = [
        row(1, summary=figures(26, 4, recovered=3, total_cost=0.029), started_at="2025-12-31T09:00:00Z"),
        row(2, summary=figures(21, 9, total_cost=0.031), started_at="2026-01-01T09:58:00Z", models=("openai/gpt-5",)),
    ]
    wide = terminal(rows)
    assert plain_text(wide[1]) == "0002 last   capitals   21 of 30    70%               $0.031   2 min   9 failed"
    assert plain_text(wide[2]) == "0001        capitals   26 of 30    87%           3   $0.029   1 day   4 failed"
    assert loud(wide[2]) == [("0001", "name"), ("87%", "name"), ("3", "recovered"), ("4 failed", "reason")]
    assert plain_text(terminal(rows, 64)[0]).split() == ["run", "suite", "passed", "rate", "cost", "age", "status"]
    assert plain_text(terminal(rows, 44)[0]).split() == ["run", "suite", "passed", "age", "status"]


def test_baselines_stand_beside_their_runs_and_a_command_at_the_end() -> None:
    rows = [row(number, summary=figures(2)) for number in (1, 2)]
    page = find_runs(History(tuple(rows), rows[-1].id), Query())
    assert text_of(page)[-2:] == ["", "  rejoinder show last   the latest run"]
    blessed = structs.replace(page, baselines={rows[0].id: ("main", "v1")})
    shown = text_of(blessed)
    assert shown[2].startswith("0001 main v1")
    assert shown[-2:] == ["", "  rejoinder compare main last   what changed since main"]
    assert text_of(blessed, structs.replace(SCREEN, width=40))[-2:] == [
        "  rejoinder compare main last",
        "      what changed since main",
    ]
    in_a_pipe = text_of(blessed, PLAIN)
    assert in_a_pipe[-1].startswith(f"{rows[0].id} main v1"), "no command"


def test_an_end_that_two_ids_share_is_not_used() -> None:
    twins = [row(1, id="20260101-000001-abcd"), row(2, id="20260101-000002-abcd")]
    assert ("abcd", "name") in loud(terminal(twins)[1])
    assert plain_text(terminal(twins)[1]).startswith("20260101-000002-abcd")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_lines_fit_the_terminal(width: int) -> None:
    rows = [row(number, summary=figures(21, 9)) for number in range(1, 9)]
    page = find_runs(History(tuple(rows), rows[-1].id), Query())
    assert all(len(line) <= width for line in text_of(page, Form(width, symbols=True, commands=True)))


# The trend


def trend(*rates: tuple[int, int], **more: Any) -> str | None:
    rows = [row(number, summary=figures(*rate), **more) for number, rate in enumerate(rates, 1)]
    page = find_runs(History(tuple(rows), None), Query())
    return None if page.trend is None else plain_text(write_trend(page.trend, SCREEN))


def test_the_trend_of_a_suite_runs_from_the_lowest_rate_to_the_highest() -> None:
    assert trend((63, 37), (75, 25), (87, 13), (70, 30)) == "capitals, 4 runs  ▁▄▇▃  63% to 87%, last 70%"
    assert trend((1, 1), (1, 1), (1, 1), (1, 1)) == "capitals, 4 runs  ▄▄▄▄  always 50%"
    assert trend((1, 1), (1, 1), (1, 1)) is None


def test_runs_that_cannot_be_compared_are_in_no_trend() -> None:
    rates = ((1, 1), (2, 0), (1, 1), (2, 0))
    assert trend(*rates, part=True) is None
    assert trend(*rates, replay_of="x") is None
    assert trend(*rates, grade_of="x") is None
    assert trend(*rates, status="interrupted") is None
    rows = [row(number, targets=(f"bot{number % 2}",), summary=figures(1, number)) for number in range(1, 10)]
    shown = find_runs(History(tuple(rows), None), Query()).trend
    assert shown is not None
    assert (shown.suite, shown.runs) == ("capitals on bot1", 5)


def test_real_runs_have_a_trend_and_a_chosen_case_does_not_count(project: Project) -> None:
    for reply in ("yes", "no", "yes", "yes"):
        started(project, reply)
    assert project.run("runs").splitlines()[-1] == "capitals, 4 runs  7177  0% to 100%, last 100%"
    started(project, "no", arguments=("--case", "c1"))
    assert project.run("runs").splitlines()[-1] == "capitals, 4 runs  7177  0% to 100%, last 100%"
