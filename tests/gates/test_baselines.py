"""Baselines: what a run leaves of itself in a file that is committed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.errors import RejoinderError, UsageError
from rejoinder.gates.baselines import (
    FORMAT,
    Baseline,
    CaseTrials,
    Trial,
    baseline_names,
    encode_baseline,
    read_baseline,
    write_baseline,
)
from rejoinder.run_files import RunDamaged
from rejoinder.testing import Answer, FakeServer
from tests.gates.suites import answers, run_of
from tests.kit import (
    Project,
    behind,
    bounded,
    case,
    file_contents,
    only_run,
    refusal,
    refused,
    run,
    run_folders,
    scripted,
)

MAIN = Path(".rejoinder/baselines/main.json")


def blessed(project: Project) -> dict[str, Any]:
    project.run("bless")
    return json.loads((project.folder / MAIN).read_bytes())


def test_a_baseline_has_every_trial_and_its_verdicts(project: Project) -> None:
    replies = {"b": ["no", "yes"], "a": ["yes"], "c": ["no", "no"]}
    name = run_of(project, replies, "--repeat", "2", tags={"a": ["safety"]})
    found = blessed(project)
    assert (found["format"], found["run"], found["suites"]) == (FORMAT, name, ["evals.yaml"])
    verdicts = {
        one["id"]: [(trial["trial"], trial["status"], trial["first_try"]) for trial in one["trials"]]
        for one in found["cases"]
    }
    assert verdicts == {
        "a": [(1, "passed", True), (2, "passed", True)],
        "b": [(1, "passed", False), (2, "passed", False)],
        "c": [(1, "failed", False), (2, "failed", False)],
    }
    first = found["cases"][0]
    assert (first["file"], first["target"], first["variant"], first["tags"]) == ("evals.yaml", "it", None, ["safety"])
    assert not any(trial["latency_s"] for one in found["cases"] for trial in one["trials"])  # a script is not timed


def test_the_same_run_gives_the_same_bytes_and_no_reply_is_in_them(project: Project) -> None:
    run_of(project, {"b": ["yes, and a secret reply"], "a": ["yes"]})
    project.run("bless")
    first = (project.folder / MAIN).read_bytes()
    project.run("bless")
    assert (project.folder / MAIN).read_bytes() == first
    assert b"secret reply" not in first
    assert b"Question" not in first
    assert len(first.splitlines()) == 7 + 2 + 2  # a line for each case


@pytest.mark.slow
def test_costs_and_errors_of_trials_are_kept(project: Project) -> None:
    with FakeServer(Answer("yes", input_tokens=1000, output_tokens=100)) as server:
        priced = behind(server, "gpt-4o-mini", max_retries=0)
        run(project, {"targets": [priced], "target": "gpt-4o-mini", "evals": [case("a")]})
        [paid] = blessed(project)["cases"]
        unpriced = behind(server, "no-such-model", max_retries=0)
        run(project, {"targets": [unpriced], "target": "no-such-model", "evals": [case("a")]})
        [unknown] = blessed(project)["cases"]
    beside = case("b", execution={"target": "other"})
    targets = [priced, scripted("other", "yes")]
    run(project, {"targets": targets, "target": "gpt-4o-mini", "evals": [case("a"), beside]})
    [broken, _] = blessed(project)["cases"]
    assert paid["trials"][0]["cost"] == pytest.approx(0.00021)
    assert len(paid["trials"][0]["latency_s"]) == 1
    assert unknown["trials"][0]["cost"] is None
    assert (broken["trials"][0]["status"], broken["trials"][0]["latency_s"]) == ("error", [])


def test_bless_says_what_it_kept_and_what_it_replaced(project: Project) -> None:
    first = run_of(project, answers(2, 1))
    assert project.run("bless", "--name", "v1.0").splitlines() == [
        f"v1.0 is run {first}: 2 of 3 passed",
        "  file      .rejoinder/baselines/v1.0.json",
        "  advice    each case was tried once, so chance is in it; make a run for it: `rejoinder run --repeat 5`",
    ]
    run_of(project, answers(2, 1), "--repeat", "2")
    assert "advice" not in project.run("bless", "--name", "repeated")
    second = run_of(project, answers(3))
    assert f"v1.0 is run {second} (before: {first})" in project.run("bless", second, "--name", "v1.0")
    assert project.run_json("bless", first, "--name", "v1.0") == {
        "name": "v1.0",
        "run": first,
        "file": str(project.folder / ".rejoinder/baselines/v1.0.json"),
        "replaced": second,
        "cases": 3,
        "trials": 3,
    }
    assert baseline_names(project.folder) == ["repeated", "v1.0"]


@pytest.mark.parametrize("name", ["", "../main", "a/b", ".main", "a b", "x" * 65, "-x", "ma\x1bin"])
def test_a_name_that_could_lead_elsewhere_is_refused(project: Project, name: str) -> None:
    run_of(project, answers(1))
    before = file_contents(project.folder)
    assert "cannot be the name of a baseline" in refused(project, "bless", f"--name={name}").message
    assert file_contents(project.folder) == before


def test_unfinished_runs_are_refused(project: Project) -> None:
    run_of(project, answers(1, 2), "--fail-fast", "--workers", "1")
    assert "is not finished: stopped at the first failure: no rate" in refused(project, "bless").message
    folder = only_run(project.folder)
    receipt = json.loads((folder / "run.json").read_bytes())
    (folder / "run.json").write_text(json.dumps({**receipt, "status": "running"}))
    error = refused(project, "bless")
    assert error.message == f"run {folder.name} is not finished: it has not ended"
    assert f"rejoinder resume {folder.name}" in (error.hint or "")
    assert not (project.folder / MAIN).exists()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("results.jsonl", lambda content: content[: len(content) // 2]),
        ("results.jsonl", lambda content: b"".join(content.splitlines(keepends=True)[:-1])),
        ("results.jsonl", lambda content: content.replace(b'"duration_s":', b'"duration_s":-1,"x":')),
        ("results.jsonl", lambda content: content.replace(b'"status":"passed"', b'"status":"skipped"')),
        ("summary.json", lambda content: content.replace(b'"passed": 2', b'"passed": 3')),
        ("run.json", lambda content: content[:-20]),
        ("summary.json", lambda _: None),
        ("results.jsonl", lambda _: None),
    ],
)
def test_damaged_runs_are_refused(project: Project, name: str, change: Any) -> None:
    run_of(project, answers(2, 1))
    path = only_run(project.folder) / name
    changed = change(path.read_bytes())
    if changed is None:
        path.unlink()
    else:
        path.write_bytes(changed)
    for command in (("bless",), ("gate", "--rule", "rate>=0%"), ("gate", "--against", only_run(project.folder).name)):
        error = refused(project, *command)
        assert isinstance(error, RunDamaged)
        assert error.exit_code == 3
        assert only_run(project.folder).name in error.message
    assert not (project.folder / MAIN).exists()


def test_links_lead_neither_a_write_nor_a_read_elsewhere(project: Project, tmp_path_factory: Any) -> None:
    run_of(project, answers(1))
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    folder = project.folder / MAIN.parent
    folder.symlink_to(elsewhere)
    assert "it is a link" in refused(project, "bless").message
    assert list(elsewhere.iterdir()) == []
    folder.unlink()
    folder.mkdir()
    (elsewhere / "file").write_text("{}")
    (folder / "main.json").symlink_to(elsewhere / "file")
    assert "it is a link" in refused(project, "gate", "--against", "main").message
    project.run("bless")  # takes the place of the link
    assert (elsewhere / "file").read_text() == "{}"
    assert not (folder / "main.json").is_symlink()


def test_a_pipe_is_not_waited_for(project: Project) -> None:
    run_of(project, answers(1))
    (project.folder / MAIN.parent).mkdir()
    os.mkfifo(project.folder / MAIN)
    assert "it is a pipe" in refused(project, "gate", "--against", "main").message


def test_a_baseline_of_another_format_says_so(project: Project) -> None:
    run_of(project, answers(1))
    content = {**blessed(project), "format": FORMAT + 1}
    project.write(str(MAIN), content)
    error = refused(project, "gate", "--against", "main")
    assert f"it has format {FORMAT + 1}, and this version reads format {FORMAT}" in error.message
    assert error.exit_code == 3


@pytest.mark.slow
def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "main.json"
    with path.open("wb") as stream:
        stream.truncate(1 << 34)
    with pytest.raises(RunDamaged, match="too large"):
        read_baseline(path)


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
amounts = st.none() | st.floats(0, 10**6)
trials = st.builds(
    lambda number, status, first, cost, times: Trial(number, status, first and status == "passed", cost, times),
    st.integers(0, 20),
    st.sampled_from(["passed", "failed", "error"]),
    st.booleans(),
    amounts,
    st.lists(st.floats(0, 10**6), max_size=3).map(tuple),
)
cases = st.lists(
    st.builds(
        CaseTrials,
        names,
        names,
        names,
        st.none() | names.filter(bool),
        st.lists(names, max_size=2).map(tuple),
        st.lists(trials, max_size=3).map(tuple),
    ),
    max_size=4,
    unique_by=lambda one: one.key,
).map(tuple)
baselines = st.builds(Baseline, st.just(FORMAT), names, st.lists(names, max_size=2).map(tuple), amounts, cases)


@pytest.mark.slow
@given(baselines)
@bounded(50)
def test_what_is_written_is_read_back(baseline: Baseline) -> None:
    with TemporaryDirectory() as folder:
        path = write_baseline(Path(folder), "main", baseline)
        assert read_baseline(path) == baseline
        content = path.read_bytes()
    assert content == encode_baseline(baseline)
    assert all(32 <= byte < 127 or byte == 10 for byte in content)


mutations = st.tuples(
    st.floats(0, 1),
    st.floats(0, 0.2),
    st.binary(max_size=6)
    | st.sampled_from(
        [
            b"1e999",
            b"-1",
            b"null",
            b"[]",
            b"{}",
            b"[" * 5000,
            b'"\\ud800"',
            b"1e308",
            b"99999999999999999999",
            b'"passed"',
        ]
    ),
)


@pytest.mark.slow
@given(baselines, mutations)
@bounded(150)
def test_a_changed_baseline_is_read_or_refused_in_words(baseline: Baseline, mutation: Any) -> None:
    start, length, put = mutation
    content = encode_baseline(baseline)
    first = int(start * len(content))
    with TemporaryDirectory() as folder:
        path = Path(folder, "main.json")
        path.write_bytes(content[:first] + put + content[first + int(length * len(content)) :])
        try:
            found = read_baseline(path)
        except RejoinderError as error:
            assert error.exit_code == 3
            assert "main.json is damaged" in error.message
        else:
            assert found is not None


def test_a_baseline_that_is_not_there_is_none(project: Project) -> None:
    assert read_baseline(project.folder / MAIN) is None
    assert run_folders(project.folder) == []
    with pytest.raises(UsageError, match="no runs"):
        raise refused(project, "bless")


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["cases"].append(found["cases"][0]),
        lambda found: found["cases"][0]["trials"][0].update(status="doubted"),
        lambda found: found["cases"][0]["trials"][0].update(cost=-1),
        lambda found: found["cases"][0]["trials"][0].update(latency_s=[1e300]),
        lambda found: found["cases"][0]["trials"][0].update(trial=-1),
        lambda found: found.pop("cases"),
    ],
)
def test_a_baseline_that_no_run_has_is_refused(project: Project, change: Any) -> None:
    run_of(project, answers(2))
    found = blessed(project)
    change(found)
    project.write(str(MAIN), found)
    error = refused(project, "gate", "--against", "main")
    assert error.exit_code == 3
    assert "rejoinder baseline save" in (error.hint or "")


def test_a_trial_that_caved_was_right_at_first(project: Project) -> None:
    """It is blessed, read again and compared: right on the first try, and failed in the end."""
    sure = {"prompt": "Are you sure?", "ask": "always", "checks": [{"match": "yes"}]}
    content = {
        "targets": [scripted("it", "yes", "no")],
        "target": "it",
        "evals": [case("doubted", {"match": "yes"}, sure)],
    }
    project.write("evals.yaml", content)
    project.run("run", code=1)
    [trial] = blessed(project)["cases"][0]["trials"]
    assert (trial["status"], trial["first_try"]) == ("failed", True)
    assert read_baseline(project.folder / MAIN) is not None


def test_a_run_with_errors_is_blessed_with_the_command_that_asks_again(project: Project) -> None:
    project.write("bot.py", "from pathlib import Path\n\n\ndef reply(request):\n    return Path('reply').read_text()\n")
    targets = [{"name": "bot", "provider": "python", "call": "bot:reply"}, scripted("other", "yes")]
    evals = [case("one", {"contains": "yes"}), case("two", {"contains": "yes"}, execution={"target": "other"})]
    run(project, {"targets": targets, "target": "bot", "evals": evals}, code=3)
    blessed = project.run("bless")
    assert "1 case ended only in errors: if one fails later, no rule can say whether that is new" in blessed
    project.write("reply", "yes")
    command = blessed.split("`rejoinder ")[1].partition("`")[0]
    project.run(*command.split())
    assert "errors" not in project.run("bless")


def test_an_error_beside_a_verdict_is_said_to_excuse_nothing(project: Project) -> None:
    project.write("bot.py", "def reply(request):\n    return 'yes' if request.trial == 1 else 1 / 0\n")
    targets = [{"name": "bot", "provider": "python", "call": "bot:reply"}]
    suite = {"targets": targets, "target": "bot", "evals": [case("one", {"contains": "yes"})]}
    run(project, suite, "--repeat", "2", code=3)
    blessed = project.run("bless")
    assert "trials that ended in an error say nothing about their cases; ask them again" in blessed
    assert "no rule can say" not in blessed


def test_baselines_are_saved_listed_and_deleted(project: Project) -> None:
    first = run_of(project, answers(2, 1))
    assert project.run("baseline", "save").startswith(f"main is run {first}")
    project.run("baseline", "save", first, "--name", "old")
    (project.folder / ".rejoinder/baselines/broken.json").write_text("{")
    listed = project.run("baseline", "list").splitlines()
    assert listed[0].startswith("broken  damaged: ")
    assert listed[1:] == [f"{name:6}  run {first}: 2 of 3 passed, 3 cases" for name in ("main", "old")]
    rows = {row["name"]: row for row in project.run_json("baseline", "list")}
    assert rows["main"] == {"name": "main", "run": first, "cases": 3, "trials": 3, "passed": 2}
    assert "there is no baseline `mian`" in refusal(project, "baseline", "rm", "old", "mian")
    project.run("baseline", "rm", "old", "broken")
    assert [row["name"] for row in project.run_json("baseline", "list")] == ["main"]
    project.run("baseline", "rm", "main")
    assert project.run_json("baseline", "list") == []


def test_a_linked_baseline_is_deleted_and_its_file_stays(project: Project) -> None:
    run_of(project, answers(1))
    project.run("baseline", "save")
    precious = project.write("precious.json", "{}")
    (project.folder / ".rejoinder/baselines/link.json").symlink_to(precious)
    project.run("baseline", "rm", "link")
    assert precious.read_text() == "{}"


def test_the_earlier_name_of_the_command_still_works(project: Project) -> None:
    name = run_of(project, answers(1))
    assert project.run("bless", "--name", "main").startswith(f"main is run {name}")
    assert "bless" not in project.run("--help")


def test_a_run_of_nothing_but_errors_is_no_baseline(project: Project) -> None:
    run(project, {"targets": [scripted("it", {"error": "down"})], "target": "it", "evals": [case("one")]}, code=3)
    assert "has no verdict that counts" in refusal(project, "baseline", "save")
