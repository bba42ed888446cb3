"""Jobs of queued runs: options as data, as a request chose them; and entries that an earlier version wrote."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, inspect, structs

from rejoinder.client import RunChoices
from rejoinder.gates.baselines import baseline_file
from rejoinder.runs.folder import RunFolder, new_run_id, runs_folder
from rejoinder.runs.options import RunOptions, read_options
from rejoinder.runs.seal import code_of
from rejoinder.server.jobs import CommandJob, GradeJob, Job, RerunJob, ResumeJob, RunJob
from rejoinder.server.posted import options_of
from rejoinder.server.queue import Queue
from tests.kit import Project, refused, run_folders
from tests.server.kit import play, scripted, serving

OPTIONS = {
    field.name: field
    for group in (RunOptions, *(type(getattr(RunOptions(), one.name)) for one in structs.fields(RunOptions)))
    if issubclass(group, Struct)
    for field in structs.fields(group)
}
"""Every option of a run, whichever group it is in."""


def kinds_of(type_: Any) -> dict[str, tuple[Any, ...]]:
    """The members of a type by name, with their lower bounds."""
    found = inspect.type_info(type_)
    members = found.types if isinstance(found, inspect.UnionType) else (found,)
    return {type(one).__name__: (getattr(one, "ge", None), getattr(one, "gt", None)) for one in members}


def upper_bounds(type_: Any) -> list[float]:
    found = inspect.type_info(type_)
    members = found.types if isinstance(found, inspect.UnionType) else (found,)
    return [bound for one in members if (bound := getattr(one, "le", None)) is not None]


@pytest.mark.parametrize("field", structs.fields(RunChoices), ids=lambda field: field.name)
def test_a_choice_of_a_request_is_an_option_of_a_run(field: structs.FieldInfo) -> None:
    """With the same name, default, type and lower bound; a request has an upper bound of its own."""
    option = OPTIONS[field.name]
    assert (field.default, kinds_of(field.type)) == (option.default, kinds_of(option.type))
    most, allowed = upper_bounds(field.type), upper_bounds(option.type)
    assert all(mine <= theirs for mine in most for theirs in allowed) and len(most) >= len(allowed)


NAMES = st.lists(st.text(min_size=1, max_size=5), max_size=2).map(tuple)
CHOICES = st.builds(
    RunChoices,
    targets=NAMES,
    variants=NAMES,
    cases=NAMES,
    tags=NAMES,
    repeat=st.integers(1, 1000),
    limit=st.none() | st.integers(1, 1_000_000),
    workers=st.none() | st.integers(1, 100),
    timeout_s=st.none() | st.floats(0, 86_400, exclude_min=True),
    max_retries=st.none() | st.integers(0, 20),
    fail_fast=st.booleans(),
    budget_usd=st.none() | st.floats(0, 1_000_000, exclude_min=True),
    budget_tokens=st.none() | st.integers(1, 1_000_000_000_000),
    max_tokens=st.none() | st.integers(1, 10_000_000),
    system_prompt=st.none() | st.text(max_size=20),
    cache=st.booleans(),
    include_messages=st.booleans(),
)


@given(CHOICES)
def test_the_process_of_a_run_reads_what_a_request_chose_and_nothing_else(choices: RunChoices) -> None:
    job = RunJob("evals.yaml", options_of(choices).flat())
    sent = msgspec.json.decode(msgspec.json.encode(job), type=Job)
    assert isinstance(sent, RunJob)
    options, usual = read_options(sent.options), structs.asdict(RunChoices())
    assert options == RunOptions().changed(**structs.asdict(choices))
    assert options.changed(**usual) == RunOptions(), "an option that no request has was changed"


# The process


class TestProcess:
    def test_mistakes_in_a_suite_are_told_with_their_places(self, project: Project) -> None:
        project.write("evals.yaml", "targets: []\nevals:\n  - {id: a, prompt: Hello, chekcs: []}\n")
        code, said = play(project.folder, new_run_id(), RunJob(str(project.folder / "evals.yaml"), {}))
        assert code == 2
        assert said == project.invoke("run", "evals.yaml").stderr

    def test_a_target_that_is_not_there_is_told_as_the_command_tells_it(self, project: Project) -> None:
        project.write("evals.yaml", scripted(1))
        options = RunOptions().changed(targets=("other",))
        code, said = play(project.folder, new_run_id(), RunJob(str(project.folder / "evals.yaml"), options.flat()))
        assert (code, said) == (2, f"error: {refused(project, 'run', 'evals.yaml', '--target', 'other')}\n")

    def test_a_provider_that_is_not_known_is_told_at_its_place(self, project: Project) -> None:
        suite = {**scripted(1), "targets": [{"name": "s", "provider": "nobody"}]}
        project.write("evals.yaml", suite)
        code, said = play(project.folder, new_run_id(), RunJob(str(project.folder / "evals.yaml"), {}))
        assert (code, said) == (2, project.invoke("run", "evals.yaml").stderr)
        assert said.startswith("error[unknown-provider]")

    def test_the_exit_code_is_that_of_the_run(self, project: Project) -> None:
        suite = scripted(1)
        suite["evals"][0]["checks"] = [{"contains": "five"}]
        project.write("evals.yaml", suite)
        run = new_run_id()
        assert play(project.folder, run, RunJob(str(project.folder / "evals.yaml"), {})) == (1, "")
        assert (runs_folder(project.folder) / run / "results.jsonl").is_file()
        again, graded = new_run_id(), new_run_id()
        folder = str(runs_folder(project.folder) / run)
        code, said = play(project.folder, again, RerunJob(folder))
        assert (code, said) == (1, f"again what did not pass in run {run}: 1 on s\n")
        assert play(project.folder, graded, GradeJob(folder)) == (1, "")
        assert (project.folder / ".rejoinder" / "grades" / run / graded).is_dir()
        assert play(project.folder, run, ResumeJob(folder, retry_errors=True)) == (1, "")

    def test_options_are_data_whatever_they_look_like(self, project: Project) -> None:
        project.write("evals.yaml", scripted(1))
        run, prompt = new_run_id(), "--target=other\0\n-x"
        options = RunOptions().changed(system_prompt=prompt, repeat=2)
        job = RunJob(str(project.folder / "evals.yaml"), options.flat())
        assert play(project.folder, run, job) == (0, "")
        receipt = RunFolder(runs_folder(project.folder) / run).read_receipt()
        assert receipt is not None
        assert (receipt.planned, receipt.options["system_prompt"]) == (2, prompt)

    def test_a_run_against_a_baseline_is_compared_with_it_again_when_it_is_resumed(self, project: Project) -> None:
        project.write("evals.yaml", scripted(1))
        project.run("run", "evals.yaml")
        project.run("bless")
        project.run("run", "evals.yaml", "--against", "main", code=None)
        folder = run_folders(project.folder)[-1]
        baseline_file(project.folder, "main").unlink()
        code, said = play(project.folder, folder.name, ResumeJob(str(folder)))
        assert code == 2 and "there is neither a baseline nor a run `main`" in said, said


# Entries of an earlier version


def put_as_before(queue: Queue, verb: str, *arguments: str) -> str:
    """An entry as the last version wrote it: the words of a command, sealed."""
    run = queue.reserve()
    entry = {
        "id": run,
        "verb": verb,
        "arguments": arguments,
        "title": "t",
        "queued_at": time.time(),
        "of": None,
        "files": {},
        "stop": False,
        "ended": None,
        "message": "",
    }
    code = code_of(b"rejoinder queue\n" + str(queue.root).encode() + b"\n" + msgspec.json.encode(entry))
    assert code is not None
    path = queue.path / run / "entry.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode({"entry": entry, "code": code.decode()}), indent=2))
    return run


@pytest.mark.slow
def test_entries_of_an_earlier_version_are_still_run(project: Project) -> None:
    project.write("evals.yaml", scripted(2))
    project.run("run", "evals.yaml")
    [before] = run_folders(project.folder)
    queue = Queue(project.folder)
    file = str(project.folder / "evals.yaml")
    run = put_as_before(queue, "run", "run", file, "--case=c1", "--system-prompt=--case=c0")
    fork = put_as_before(queue, "fork", "fork", str(before), "--case=c0", "--turn=1", "--prompt=Again.")
    bad = put_as_before(queue, "run", "run", file, "--target=other")
    with serving(project.folder) as served:
        states = {name: served.server.wait(name) for name in (run, fork, bad)}
        documents = {name: served.server.document(name)["run"]["options"] for name in (run, fork)}
    assert {name: states[name].exit_code for name in states} == {run: 0, fork: 0, bad: 2}
    assert (documents[run]["cases"], documents[run]["system_prompt"]) == (["c1"], "--case=c0")
    assert documents[fork]["fork"]["prompt"] == "Again."
    assert "other" in (states[bad].message or "")


@pytest.mark.parametrize(
    ("words", "job"),
    [
        (("run", "evals.yaml", "--repeat=2"), CommandJob(("run", "evals.yaml", "--repeat=2"))),
        (("fork", "runs/1", "--case=c"), CommandJob(("fork", "runs/1", "--case=c"))),
        (("resume", "runs/1"), ResumeJob("runs/1")),
        (("resume", "runs/1", "--retry-errors"), ResumeJob("runs/1", retry_errors=True)),
        (("grade", "runs/1"), GradeJob("runs/1")),
    ],
)
def test_an_entry_of_an_earlier_version_has_a_job(project: Project, words: tuple[str, ...], job: Job) -> None:
    queue = Queue(project.folder)
    run = put_as_before(queue, words[0], *words)
    entry = queue.find(run)
    assert entry is not None and entry.job == job
    assert queue.change(entry, stop=True) == queue.find(run)


def test_an_entry_of_an_earlier_version_that_another_wrote_does_not_count(project: Project) -> None:
    queue = Queue(project.folder)
    run = put_as_before(queue, "run", "run", "evals.yaml")
    path = queue.path / run / "entry.json"
    path.write_text(path.read_text().replace('"run",\n      "evals.yaml"', '"run",\n      "other.yaml"'))
    assert "other.yaml" in path.read_text() and queue.find(run) is None
