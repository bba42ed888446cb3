"""`rejoinder verify`: intact runs of every kind, and folders with something changed, cut off, added or lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rejoinder import __version__
from rejoinder.runs.checksums import write_checksums
from rejoinder.runs.crash_points import POINTS
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.results import read_results
from rejoinder.runs.summary import summarise
from rejoinder.testing import Answer, FakeServer, Fault
from tests.kit import (
    KILLED,
    Process,
    Project,
    Raw,
    behind,
    case,
    cases_of,
    file_contents,
    follow,
    only_run,
    refusal,
    run,
    run_folders,
    scripted,
)

SUITE: Raw = {
    "metadata": {"name": "words"},
    "targets": [scripted("bot", "no", "yes", judge=[0.9])],
    "target": "bot",
    "judge_target": "bot",
    "evals": [
        case("recovers", {"equals": "yes"}, follow("Again.", {"equals": "yes"})),
        case("fails", {"equals": "maybe"}),
        case("judged", {"llm_judge": {"criteria": "Is it short?"}}),
    ],
}
FILES = ("run.json", "suite.json", "cases.jsonl", "seal", "checksums", "journal.jsonl", "results.jsonl", "summary.json")


def verify(project: Project, *arguments: str, code: int = 0) -> Raw:
    found = project.run_json("verify", *arguments, code=code)
    assert found["verdict"] == ("damaged" if code else "intact"), found
    return found


def places(found: Raw) -> set[tuple[str, int | None, str | None]]:
    return {(one["file"], one.get("line"), one.get("field")) for one in found["differences"]}


def made(project: Project) -> Path:
    run(project, SUITE)
    return only_run(project.folder)


# Intact


def test_a_run_is_intact_and_nothing_is_written(project: Project) -> None:
    folder = made(project)
    before = file_contents(project.folder)
    found = verify(project)
    assert found["finished"] and found["sealed"] and found["replayed"]
    assert (found["planned"], found["conversations"], found["calls"]) == (3, 3, 5)
    assert found["differences"] == [] and found["notes"] == []
    assert project.run("verify").strip() == f"intact: run {folder.name}, 3 of 3 conversations, 5 calls"
    assert file_contents(project.folder) == before


KINDS: dict[str, tuple[Raw, tuple[str, ...]]] = {
    "repeated": (SUITE, ("--repeat", "3")),
    "with messages": (SUITE, ("--include", "messages")),
    "ended at the first failure": ({**SUITE, "evals": cases_of(30, {"equals": "x"})}, ("--fail-fast", "-w", "1")),
    "several targets": ({**SUITE, "targets": [*SUITE["targets"], scripted("b", "yes")]}, ("--target", "bot,b")),
    "a shard": (SUITE, ("--shard", "1/2")),
    "cases of one name": ({**SUITE, "evals": [{"prompt": "Hi", "checks": [{"match": "*"}]}] * 2}, ()),
    "a script": (
        {**SUITE, "evals": [case("a", {"code": {"script": ["python3", "-c", "print('{\"score\": 1}')"]}})]},
        (),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_runs_of_every_kind_are_intact(project: Project, kind: str) -> None:
    suite, arguments = KINDS[kind]
    document = run(project, suite, *arguments)
    found = verify(project)
    assert found["replayed"] and found["notes"] == []
    assert found["conversations"] == len(document["results"])


@pytest.mark.slow
def test_runs_that_were_made_from_others_are_intact(project: Project) -> None:
    first = run(project, SUITE)["run"]["id"]
    project.write(
        "other.yaml",
        {
            **SUITE,
            "evals": [
                case("recovers", {"equals": "sure"}, follow("Again.", {"equals": "yes"}, follow("?", {"equals": "x"})))
            ],
        },
    )
    commands = (
        ("replay", first),
        ("fork", first, "--case", "recovers", "--turn", "2", "--prompt", "Really?"),
        ("run", "evals.yaml", "--record", "cassettes"),
        ("run", "evals.yaml", "--replay", "cassettes"),
        ("merge", first),
        ("resume", first),
    )
    for command in commands:
        project.run_json(*command, code=None)
        assert verify(project)["notes"] == [], command
    project.run_json("grade", first, "--suite", "other.yaml", code=None)
    [grades] = (project.folder / ".rejoinder/grades" / first).glob("2*")
    assert verify(project, str(grades))["replayed"]


def test_answers_that_no_cassette_holds_are_intact(project: Project) -> None:
    run(project, SUITE, "--record", "cassettes")
    changed = {**SUITE, "evals": [*SUITE["evals"], case("new", {"equals": "x"})]}
    document = run(project, changed, "--replay", "cassettes")
    assert document["summary"]["errors"] == 1
    verify(project)


@pytest.mark.parametrize("options", [("--cache",), ("--budget-tokens", "40"), ("--workers", "1")])
def test_runs_that_asked_a_server_are_intact(project: Project, options: tuple[str, ...]) -> None:
    with FakeServer(Answer("yes", input_tokens=10, output_tokens=5)) as server:
        suite = {
            "targets": [behind(server, "far", max_tokens=20)],
            "target": "far",
            "evals": cases_of(4, {"equals": "yes"}),
        }
        for _ in range(2):
            run(project, suite, *options)
            verify(project)


def test_a_run_with_errors_is_intact_before_and_after_they_are_tried_again(project: Project) -> None:
    with FakeServer("yes", faults=[None, Fault("status", status=400)]) as server:
        run(
            project,
            {"targets": [behind(server, "far")], "target": "far", "evals": cases_of(3, {"equals": "yes"})},
            "-w",
            "1",
        )
        verify(project)
        project.run_json("resume", "last", "--retry-errors", code=None)
        verify(project)


def test_a_secret_in_a_reply_is_no_damage(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "a-secret-word-0123456789")
    run(project, {**SUITE, "evals": [case("a", {"contains": "{{ secret('WORD') }}"}, prompt="{{ secret('WORD') }}?")]})
    assert verify(project)["notes"] == []


def test_suites_that_changed_since_are_no_damage(project: Project) -> None:
    made(project)
    project.write("evals.yaml", {**SUITE, "evals": SUITE["evals"][:1]})
    assert verify(project)["notes"] == []
    project.run_json("resume", "last", code=None)  # with other suites than the run began with
    found = verify(project)
    assert found["notes"] and "suites that the run began with" in found["notes"][0]


@pytest.mark.slow
@pytest.mark.parametrize("point", [point for point in POINTS if point != "asked.written"])  # a script is not asked
@pytest.mark.every(4)
def test_a_run_that_was_killed_is_intact_but_unfinished(
    project: Project, start: Callable[..., Process], point: str
) -> None:
    project.write("evals.yaml", SUITE)
    assert start("run", REJOINDER_KILL_AT=point).end().code == KILLED
    found = verify(project)
    assert (found["status"], found["finished"]) == (("completed", True) if point == "run.closed" else ("killed", False))
    if point != "run.created":  # then there is nothing to show
        summary = project.run_json("show", "last", code=None)["summary"]
        assert found["conversations"] == summary["passed"] + summary["failed"] + summary["errors"]
    words = "intact: run" if point == "run.closed" else "intact, but unfinished: run"
    assert project.run("verify").splitlines()[-1].startswith(words)
    project.run_json("resume", "last", code=None)
    assert verify(project)["finished"]


@pytest.mark.slow
def test_a_run_that_was_interrupted_is_intact_but_unfinished(project: Project, start: Callable[..., Process]) -> None:
    project.write(
        "bot.py",
        "import os, signal, time\ndef reply(request):\n    os.kill(os.getpid(), signal.SIGINT)\n    return 'yes'\n",
    )
    bot = {"name": "bot", "provider": "python", "call": "bot:reply"}
    project.write("evals.yaml", {"targets": [bot], "target": "bot", "evals": cases_of(5, {"equals": "yes"})})
    assert start("run", "-w", "1").end().code == 130
    found = verify(project)
    assert (found["status"], found["finished"]) == ("interrupted", False)
    assert 0 < found["conversations"] < 5
    assert "was interrupted; 1 of 5 conversations" in project.run("verify")


# Damaged


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def drop_line(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[len(lines) // 2]
    return b"".join(lines)


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": flip,
    "a line that is gone": drop_line,
    "the last line gone": lambda content: b"".join(content.splitlines(keepends=True)[:-1]),
    "the end cut off": lambda content: content[:-3],
    "a line twice": lambda content: content + content.splitlines(keepends=True)[-1],
    "something behind": lambda content: content + b"x",
    "nothing left": lambda _: b"",
    "no text": lambda _: b"\xff\x00" * 100,
}


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one run, which tests copy."""
    project = Project(tmp_path_factory.mktemp("intact"))
    (project.folder / ".rejoinder").mkdir()
    here = Path.cwd()
    os.chdir(project.folder)
    try:
        run(project, SUITE)
    finally:
        os.chdir(here)
    return project.folder


@pytest.fixture
def copy(project: Project, intact: Path) -> Path:
    """The run of a copy of that project."""
    shutil.copytree(intact, project.folder, dirs_exist_ok=True)
    return only_run(project.folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_file_is_found(project: Project, copy: Path, name: str, change: str) -> None:
    path = copy / name
    path.write_bytes(CHANGES[change](path.read_bytes()))
    found = verify(project, code=3)
    assert name in {one["file"] for one in found["differences"]}
    said = project.run("verify", code=3)
    assert said.splitlines()[-1].startswith(f"damaged: run {copy.name}, ")
    assert f"{name}:" in said


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_gone_is_found(project: Project, copy: Path, name: str) -> None:
    (copy / name).unlink()
    found = verify(project, str(copy) if name != "run.json" else copy.name, code=3)
    assert name in {one["file"] for one in found["differences"]}


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_what_differs_is_named_with_its_place(project: Project, copy: Path) -> None:
    replaced(copy / "summary.json", '"failed": 1', '"failed": 7')
    lines = (copy / "results.jsonl").read_text().splitlines(keepends=True)
    lines[1] = (
        lines[1].replace('"status":"failed"', '"status":"passed"').replace('"response":"no"', '"response":"maybe"')
    )
    (copy / "results.jsonl").write_text("".join(lines))
    replaced(copy / "run.json", '"planned": 3', '"planned": 2')
    found = verify(project, code=3)
    assert places(found) >= {
        ("summary.json", None, "failed"),
        ("summary.json", None, "total"),
        ("results.jsonl", 2, "status"),
        ("results.jsonl", 2, "turns[0].response"),
        ("run.json", None, "planned"),
    }
    said = project.run("verify", code=3)
    assert 'results.jsonl:2: turns[0].response is "maybe", and by the journal it is "no"' in said
    assert "run.json: planned is 2, and by the plan it is 3" in said


@pytest.mark.parametrize("edit", ["result", "journal", "dropped", "doubled", "order", "summary", "planned"])
def test_new_checksums_of_a_stranger_hide_no_edit(
    project: Project, copy: Path, edit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are consistent with their checksums, which have the seal of another key."""
    results = copy / "results.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    match edit:
        case "result":
            replaced(results, '"response":"yes"', '"response":"Yes"')
        case "journal":
            replaced(copy / "journal.jsonl", '"yes"', '"Yes"')
        case "dropped":
            results.write_text("".join(lines[1:]))
        case "doubled":
            results.write_text("".join([*lines, lines[0]]))
        case "order":
            results.write_text("".join(reversed(lines)))
        case "summary":
            replaced(copy / "summary.json", '"first_try": 1', '"first_try": 2')
        case _:
            replaced(copy / "run.json", '"planned": 3', '"planned": 4')
    with monkeypatch.context() as patch:
        patch.setenv("REJOINDER_SEAL_KEY", "the key of a stranger")
        write_checksums(copy, copy.name, (copy / "run.json").read_bytes())
    found = verify(project, code=3)
    assert not found["sealed"] and found["replayed"]


def test_a_stranger_who_makes_no_edit_is_told_apart(
    project: Project, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that came from elsewhere: its suites are here, so its journal is played by them."""
    monkeypatch.setenv("REJOINDER_SEAL_KEY", "the key of another user")
    found = verify(project)
    assert not found["sealed"] and found["replayed"]
    assert "not sealed with your key" in found["notes"][0]
    project.write("evals.yaml", {**SUITE, "evals": SUITE["evals"][:1]})
    found = verify(project)
    assert not found["replayed"]
    assert "the suites here differ" in found["notes"][1]
    assert verify(project, "--trust")["replayed"]
    (project.folder / "evals.yaml").unlink()
    assert "was not played again" in verify(project)["notes"][1]


def test_more_differences_than_can_be_read_are_counted(project: Project, copy: Path) -> None:
    lines = [json.loads(line) for line in (copy / "results.jsonl").read_text().splitlines()]
    for line in lines:
        line |= {
            "title": "x" * 500,
            "number": 9,
            "score": 0.5,
            "line": 99,
            "tags": ["a"],
            "name": "\x1b[31m",
            "usage": {**line["usage"], "total_tokens": 9},
        }
    (copy / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = verify(project, code=3)
    assert len(found["differences"]) == 20 and found["more"] > 0
    said = project.run("verify", code=3)
    assert max(map(len, said.splitlines())) < 300
    assert "more difference" in said and "\x1b" not in said


def test_a_run_that_never_started_is_no_run(project: Project, copy: Path) -> None:
    for path in copy.iterdir():
        path.unlink()
    assert "never started" in refusal(project, "verify", copy.name)


def test_links_are_refused(project: Project, copy: Path) -> None:
    (copy / "summary.json").rename(project.folder / "elsewhere")
    (copy / "summary.json").symlink_to(project.folder / "elsewhere")
    result = project.invoke("verify", str(copy))
    assert getattr(result.exception, "exit_code", None) == 3


def test_runs_of_an_earlier_version_have_no_checksums(project: Project, copy: Path) -> None:
    (copy / "checksums").unlink()
    replaced(copy / "run.json", '"format": 3', '"format": 1')
    assert "no checksums" in verify(project)["notes"][0]
    replaced(copy / "summary.json", '"failed": 1', '"failed": 2')
    assert ("summary.json", None, "failed") in places(verify(project, code=3))


def test_a_project_that_moved_keeps_intact_runs(project: Project, copy: Path) -> None:
    assert verify(project)["notes"] == []
    assert run_folders(project.folder) == [copy]


# One answer for every command


USES = {
    "gate": ("gate", "--rule", "rate>=0%"),
    "bless": ("bless",),
    "compare": ("compare", "{run}", "{run}"),
    "export": ("export", "--to", "csv"),
    "ci": ("ci",),
}


def used(project: Project, command: str, name: str) -> int:
    result = project.invoke(*(part.format(run=name) for part in USES[command]))
    return getattr(result.exception, "exit_code", result.exit_code)


LOSSES: dict[str, tuple[str, Callable[[bytes], bytes | None]]] = {
    "the journal cut off": ("journal.jsonl", lambda content: content[:-200]),
    "a call gone": ("journal.jsonl", drop_line),
    "no checksums": ("checksums", lambda _: None),
    "no summary": ("summary.json", lambda _: None),
    "no receipt": ("run.json", lambda _: None),
    "no results": ("results.jsonl", lambda _: None),
}


@pytest.mark.parametrize("command", USES)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_damaged_run_is_refused_by_what_uses_it(project: Project, copy: Path, command: str, loss: str) -> None:
    name, change = LOSSES[loss]
    assert used(project, command, copy.name) == 0
    content = change((copy / name).read_bytes())
    (copy / name).unlink()
    if content is not None:
        (copy / name).write_bytes(content)
    assert project.invoke("verify", copy.name).exit_code == 3
    assert used(project, command, copy.name) == 3


def test_a_damaged_run_is_shown_as_one(project: Project, copy: Path) -> None:
    figures = (copy / "summary.json").read_text()
    assert project.invoke("show", copy.name).exit_code == 0
    (copy / "summary.json").write_text(figures.replace('"failed": 1', '"failed": 0'))
    for more in ((), ("--verbose",), ("--failed",), ("-q",)):
        result = project.invoke("show", copy.name, *more)
        assert result.exit_code == 3, more
        assert "is damaged: its figures disagree with the results" in result.stderr
        assert result.stdout, "what there is can be looked at"


def verdicts_edited(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure made a pass, in results, summary and checksums."""
    lines = [json.loads(line) for line in (copy / "results.jsonl").read_text().splitlines()]
    lines[1] |= {"status": "passed", "passed": True, "score": 1.0, "succeeded_on_turn": 1}
    (copy / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = RunFolder(copy)
    receipt = run.read_receipt()
    assert receipt is not None
    run.write_summary(summarise(read_results(run.results), receipt))
    with monkeypatch.context() as patch:
        patch.setenv("REJOINDER_SEAL_KEY", "the key of a stranger")
        write_checksums(copy, copy.name, (copy / "run.json").read_bytes())


@pytest.mark.parametrize("command", ["gate", "bless"])
def test_verdicts_that_the_journal_does_not_give_decide_nothing(
    project: Project, copy: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts_edited(copy, monkeypatch)
    assert used(project, command, copy.name) == 3
    assert not (project.folder / ".rejoinder/baselines").exists()


def test_what_is_missing_is_said_once(project: Project, copy: Path) -> None:
    (copy / "summary.json").unlink()
    assert project.run("verify", code=3).count("summary.json: it is missing") == 1


def other_figures(copy: Path, version: str, **figures: object) -> None:
    """A summary of this version or another, with other figures, and checksums to match."""
    for name, values in (("run.json", {"version": version}), ("summary.json", figures)):
        path = copy / name
        path.write_text(json.dumps({**json.loads(path.read_bytes()), **values}))
    write_checksums(copy, copy.name, (copy / "run.json").read_bytes())


@pytest.mark.parametrize(
    ("version", "figures", "code"),
    [
        (__version__, {"pass_rate": 2 / 3 + 2e-16}, 0),
        (__version__, {"pass_rate": 0.66}, 3),
        ("0.0.1", {"pass_rate": 0.66, "pass_rate_method": "wald", "rates": None}, 0),
        ("0.0.1", {"failed": 2}, 3),
        ("0.0.1", {"by_target": {}}, 3),
    ],
)
def test_figures_count_where_this_version_made_them_and_rounding_never(
    project: Project, copy: Path, version: str, figures: Raw, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("REJOINDER_SEAL_KEY", "the key of a stranger")
        other_figures(copy, version, **figures)
    assert project.invoke("verify").exit_code == code
    assert {used(project, command, copy.name) for command in USES} == {code}


def test_figures_with_a_seal_are_counted_again_where_something_is_decided(project: Project, copy: Path) -> None:
    """The user's own rejoinder has counted them; what is shown takes them as they are."""
    other_figures(copy, __version__, pass_rate=0.66)
    assert project.invoke("verify").exit_code == 3
    assert [command for command in USES if used(project, command, copy.name) == 3] == ["gate", "bless"]
    (copy / "results.jsonl").write_text((copy / "results.jsonl").read_text().replace('"score":1.0', '"score":0.5', 1))
    assert {used(project, command, copy.name) for command in USES} == {3}
