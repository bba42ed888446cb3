"""Parts of a run, and what a run would be: `run --shard`, `rejoinder merge`, `run --failed-from`, `run --dry-run`."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rejoinder.engine.estimate import bounds_of, most_of
from rejoinder.engine.estimate import estimate as count_calls
from rejoinder.engine.plan import plan
from rejoinder.report.styled import Form
from rejoinder.runs.loading import load_options
from rejoinder.runs.options import GRADE, RunOptions, Selection
from rejoinder.testing import Answer, FakeServer, Received, is_judging, judge
from rejoinder.validation.review import load_suites
from tests.kit import KILLED, Process, Project, Raw, bounded, refusal, scripted, spec
from tests.labs.paid_lab import came_to

EMBEDDER = "text-embedding-3-small"


class Model:
    """What it says depends on what it is asked alone, and it can be made to please every judge or none."""

    def __init__(self) -> None:
        self.pleases: bool | None = None
        self.fake = FakeServer(self._reply)

    def _reply(self, request: Received) -> Answer:
        good = self._is_good(request)
        if is_judging(request):
            # Shown first or second, `compare` has to hear the same of the reply: it is the one that says "reply".
            said = json.loads(judge(1.0 if good else 0.0).text)
            first = str(request.body).find("It is") < str(request.body).find("Rome")
            rubric = {"criteria": [{"id": "1", "met": good}], "better": "1" if first == good else "2"}
            return Answer(json.dumps({**said, **rubric}))
        return Answer(f"It is {'right' if good else 'wrong'}: {len(request.raw) % 7}")

    def _is_good(self, request: Received) -> bool:
        return self.pleases if self.pleases is not None else sum(request.raw) % 2 == 0

    @property
    def asked(self) -> Counter[str]:
        """Who was asked how often since this was last read."""
        kinds = Counter(_kind(request) for request in self.fake.requests)
        self.fake.reset()
        return kinds


def _kind(request: Received) -> str:
    if "embeddings" in request.path:
        return "embedding"
    return "judge" if is_judging(request) else str(request.body["model"])


@pytest.fixture(scope="module")
def running() -> Iterator[Model]:
    model = Model()
    with model.fake:
        yield model


@pytest.fixture
def model(running: Model) -> Model:
    running.pleases = None
    running.fake.reset()
    return running


def suite(model: Model, *cases: Raw, **more: Any) -> Raw:
    common = {"provider": "openai", "base_url": f"{model.fake.url}/v1", "api_key": "k", "retry_initial_delay_ms": 1}
    names = {"it": "candidate", "judge": "grader", "other": "rival", "meaning": EMBEDDER}
    targets = [{"name": name, "model": model_name, **common} for name, model_name in names.items()]
    chosen = {"target": "it", "judge_target": "judge", "embedding_target": "meaning"}
    return {**chosen, "targets": targets, "evals": list(cases), **more}


RIGHT = {"contains": "right"}


def case(case_id: str, *checks: Raw, **more: Any) -> Raw:
    return {"id": case_id, "prompt": f"Question {case_id}", "checks": list(checks) or [RIGHT], **more}


def many(count: int) -> list[Raw]:
    return [case(f"case {number}") for number in range(count)]


def run(project: Project, *arguments: str, code: int | None = None) -> Raw:
    return project.run_json("run", *arguments, code=code)


def merge(project: Project, *documents: Raw, code: int | None = None) -> Raw:
    folders = [document["run"]["folder"] for document in documents]
    return project.run_json("merge", *folders, code=code)


def shards(project: Project, parts: int, *arguments: str) -> list[Raw]:
    """All parts of a run that have a case."""
    texts = [
        project.run("run", "--format", "json", "--shard", f"{part}/{parts}", *arguments, code=None)
        for part in range(1, parts + 1)
    ]
    return [json.loads(text) for text in texts if text]


def ids(document: Raw) -> list[str]:
    return [result["id"] for result in document["results"]]


# Parts


def parts_of(project: Project, cases: list[Raw], parts: int) -> list[list[str]]:
    project.write("evals.yaml", {"target": "scripted/x", "evals": cases})
    suites, _ = load_suites([project.folder / "evals.yaml"], load_options(RunOptions()))
    chosen = (plan(suites, RunOptions(selection=Selection(shard=(part, parts)))) for part in range(1, parts + 1))
    return [[job.prepared.case.id for job in jobs] for jobs in chosen]


def test_every_case_is_in_one_part(project: Project) -> None:
    for parts in (1, 2, 5, 13):
        found = parts_of(project, many(60), parts)
        assert sorted(name for part in found for name in part) == sorted(one["id"] for one in many(60))
    assert all(parts_of(project, many(200), 5)), "a part without any of 200 cases is no part"


def test_parts_stay_what_they_are(project: Project) -> None:
    """By a fixed hash: machines with other versions and other seeds agree on who has what."""
    assert [len(part) for part in parts_of(project, many(60), 4)] == [12, 17, 13, 18]
    first = parts_of(project, many(6), 3)
    assert first == parts_of(project, many(6), 3)


def test_a_new_case_moves_no_other(project: Project) -> None:
    before = parts_of(project, many(30), 4)
    cases = many(30)
    for place in (0, 15, 31):
        cases.insert(place, case(f"new at {place}"))
    after = parts_of(project, cases[::-1], 4)
    for old, new in zip(before, after, strict=True):
        assert set(old) == {name for name in new if not name.startswith("new")}


def test_cases_without_names_are_known_by_their_words(project: Project) -> None:
    cases = [{"prompt": f"Question {number}", "checks": [RIGHT]} for number in range(12)]

    def words(cases: list[Raw]) -> list[set[str]]:
        numbered = {f"eval-{number}": one["prompt"] for number, one in enumerate(cases, 1)}
        return [{numbered[name] for name in part} for part in parts_of(project, cases, 3)]

    before = words(cases)
    after = words([{"prompt": "New", "checks": [RIGHT]}, *cases])
    assert [part - {"New"} for part in after] == before


@pytest.mark.slow
def test_a_limit_counts_cases_of_the_whole(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, *many(12)))
    parts = shards(project, 3, "--limit", "7")
    assert sorted(name for part in parts for name in ids(part)) == sorted(one["id"] for one in many(7))
    assert came_to(merge(project, *parts)) == came_to(run(project, "--limit", "7"))


def test_a_part_may_be_empty(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, case("only")))
    results = [project.invoke("run", "--shard", f"{part}/2") for part in (1, 2)]
    [empty] = [result for result in results if "this shard has no cases" in result.output]
    assert empty.exit_code == 0
    assert model.asked == {"candidate": 1}
    assert "there is no case `onyl`" in refusal(project, "run", "--case", "onyl", "--shard", "1/2")


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "1/0", "-1/2", "a/b", "1/2/3", ""])
def test_wrong_parts_are_refused(project: Project, model: Model, shard: str) -> None:
    project.write("evals.yaml", suite(model, case("only")))
    assert "is not a shard" in refusal(project, "run", "--shard", shard)
    assert not model.asked


# The whole again


RICH = [
    case("judged", {"llm_judge": {"criteria": "Is it right?", "votes": 3}}, RIGHT),
    case("followed", RIGHT, {"prompt": "Sure?", "checks": [RIGHT, {"prompt": "Really?", "checks": [RIGHT]}]}),
    case("compared", {"compare": {"reply": "Rome"}}, {"compare": {"reply_of": "other"}}),
    case("meant", {"semantic": {"expected": ["It is right", "It is wrong"], "threshold": 0.9}}),
    case("meant too", {"semantic": {"expected": ["It is right"], "threshold": 0.9}}),
    *many(12),
]


@pytest.mark.slow
def test_all_parts_together_are_the_whole(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, *RICH))
    arguments = ("--repeat", "2", "--target", "it", "--target", "other")
    whole = run(project, *arguments)
    parts = shards(project, 3, *arguments)
    assert len(parts) == 3
    model.fake.reset()
    together = merge(project, *parts)
    assert not model.asked
    assert came_to(together) == came_to(whole)
    assert together["run"]["status"] == "completed"
    assert together["run"]["options"]["shard"] is None
    assert came_to(merge(project, *parts[::-1], parts[0])) == came_to(whole)
    for command in ("replay", "resume"):
        again = project.run_json(command, together["run"]["id"], code=None)
        assert came_to(again) == came_to(whole)
    assert not model.asked


@pytest.mark.slow
def test_what_no_part_has_is_left_open_and_only_that_is_asked(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, *RICH))
    whole = run(project)
    parts = shards(project, 3)
    model.fake.reset()
    some = merge(project, *parts[:2])
    assert not model.asked
    assert len(some["results"]) < len(RICH)
    assert ids(some) == [one["id"] for one in RICH if one["id"] in {*ids(parts[0]), *ids(parts[1])}]
    assert some["summary"]["unfinished"] == len(ids(parts[2]))
    name = some["run"]["id"]
    resumed = project.run_json("resume", name, code=None)
    asked = {_case_of(request) for request in model.fake.requests if _kind(request) == "candidate"}
    assert asked == {f"Question {name}" for name in ids(parts[2])}
    assert came_to(resumed) == came_to(whole)


def _case_of(request: Received) -> str:
    return next(message["content"] for message in request.body["messages"] if message["role"] == "user")


@pytest.mark.slow
def test_cases_with_the_same_words_are_not_lost(project: Project, model: Model) -> None:
    """They are told apart by their order in the whole, so no part may have one of them alone."""
    project.write(".rejoinder/targets.yaml", {"targets": suite(model)["targets"]})
    same = [{"prompt": "The same", "checks": [RIGHT]}] * 3
    for name in ("one/evals.yaml", "two/evals.yaml"):
        project.write(name, {"target": "it", "evals": [*same, case("a"), case("b"), case("c")]})
    whole = run(project, "one", "two")
    parts = shards(project, 4, "one", "two")
    together = merge(project, *parts)
    assert together["summary"]["unfinished"] == 0
    assert came_to(together) == came_to(whole)


def test_a_failure_in_one_part_does_not_hide_an_answer_in_another(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, case("a")))
    model.pleases = True
    good = run(project, code=0)
    bad_folder = shutil.copytree(good["run"]["folder"], project.folder / "bad")
    journal = bad_folder / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        if line["type"] == "told":
            del line["reply"]
            line["failure"] = {"type": "connection", "message": "nobody there"}
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bad = {"run": {"folder": str(bad_folder)}}
    for order in ((good, bad), (bad, good)):
        assert came_to(merge(project, *order, code=0)) == came_to(good)


@pytest.mark.slow
def test_parts_of_another_machine_are_merged_here(project: Project, model: Model, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    os.chdir(there)
    away = Project(there)
    (there / ".rejoinder").mkdir()
    away.write("evals.yaml", suite(model, *many(8)))
    whole, parts = run(away), shards(away, 2)
    here = tmp_path / "here"
    (here / ".rejoinder").mkdir(parents=True)
    for number, part in enumerate(parts):
        part["run"]["folder"] = str(shutil.copytree(part["run"]["folder"], here / f"part-{number}"))
    shutil.rmtree(there)
    os.chdir(here)
    model.fake.reset()
    together = merge(Project(here), *parts)
    assert came_to(together)["summary"] == came_to(whole)["summary"]
    assert Path(together["run"]["folder"]).parent == here / ".rejoinder" / "runs"
    assert not there.exists()
    assert not model.asked


@pytest.mark.slow
def test_what_is_no_part_of_the_same_is_refused(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, *many(2)))
    project.write("others.yaml", suite(model, *many(2)))
    one, other = run(project, "evals.yaml"), run(project, "others.yaml")
    folders = [one["run"]["folder"], other["run"]["folder"]]
    runs = project.folder / ".rejoinder" / "runs"
    before = sorted(runs.iterdir())
    assert "has other suites than" in refusal(project, "merge", *folders)
    assert "there is no run `nobody`" in refusal(project, "merge", folders[0], "nobody")
    assert "Missing argument" in refusal(project, "merge")
    assert sorted(runs.iterdir()) == before
    for option, value in (("--repeat", "2"), ("--target", "other"), ("--case", "case 1"), ("--limit", "1")):
        different = run(project, "evals.yaml", option, value)["run"]["folder"]
        assert f"a different {option} than run" in refusal(project, "merge", folders[0], different)
    (Path(folders[0]) / "journal.jsonl").unlink()
    assert "has no journal" in refusal(project, "merge", folders[0])


MOMENTS = ["run.created", "batch.torn:1", "conversation.finished:2", "results.before_rename", "summary.written"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_merge_that_was_killed_asks_for_nothing_that_its_parts_have(
    project: Project, model: Model, moment: str
) -> None:
    project.write("evals.yaml", suite(model, *RICH))
    whole, parts = run(project), shards(project, 2)
    elsewhere = shutil.move(parts[0]["run"]["folder"], project.folder / "copied")
    folders = [str(elsewhere), parts[1]["run"]["folder"]]
    model.fake.reset()
    assert Process(project.folder, "merge", *folders, REJOINDER_KILL_AT=moment).end().code == KILLED
    resumed = project.run_json("resume", "last", code=None)
    assert not model.asked
    assert came_to(resumed) == came_to(whole)
    shutil.rmtree(elsewhere)  # now it has everything itself
    assert came_to(project.run_json("resume", "last", code=None)) == came_to(whole)


@pytest.mark.slow
def test_a_merge_that_was_killed_asks_what_no_part_has(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, *RICH))
    whole, parts = run(project), shards(project, 3)
    model.fake.reset()
    folders = [part["run"]["folder"] for part in parts[:2]]
    assert Process(project.folder, "merge", *folders, REJOINDER_KILL_AT="run.created").end().code == KILLED
    resumed = project.run_json("resume", "last", code=None)
    asked = {_case_of(request) for request in model.fake.requests if _kind(request) == "candidate"}
    assert asked == {f"Question {name}" for name in ids(parts[2])}
    assert came_to(resumed) == came_to(whole)


@pytest.mark.slow
def test_a_merge_of_replayed_parts_goes_on_with_the_cassettes(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, *many(8)))
    whole = run(project, "--record", "cassettes")
    parts = shards(project, 2, "--replay", "cassettes")
    model.fake.reset()
    assert (
        Process(project.folder, "merge", parts[0]["run"]["folder"], REJOINDER_KILL_AT="run.created").end().code
        == KILLED
    )
    resumed = project.run_json("resume", "last", code=None)
    assert not model.asked
    assert [one["status"] for one in resumed["results"]] == [one["status"] for one in whole["results"]]


@pytest.mark.slow
def test_a_merge_that_was_killed_and_has_lost_a_part_says_so(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, *many(8)))
    parts = shards(project, 2)
    folders = [part["run"]["folder"] for part in parts]
    assert Process(project.folder, "merge", *folders, REJOINDER_KILL_AT="run.created").end().code == KILLED
    shutil.move(folders[1], project.folder / "away")
    model.fake.reset()
    assert f"takes answers from is gone: {folders[1]}" in refusal(project, "resume", "last")
    assert not model.asked
    shutil.move(project.folder / "away", folders[1])
    project.run("resume", "last", code=None)
    shutil.rmtree(folders[1])
    project.run("resume", "last", code=None)
    assert not model.asked
    # It has all their answers now, but does not know what they have spent.
    words = refusal(project, "resume", "last", "--budget-tokens", "100000", "--max-tokens", "9")
    assert f"counts what its parts have spent, and one of them is gone: {folders[1]}" in words


@pytest.mark.slow
def test_errors_of_parts_are_asked_again_where_that_is_wanted(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, case("a")))
    model.pleases = True
    good = run(project, code=0)
    folder = Path(good["run"]["folder"])
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    for line in lines:
        if line["type"] == "told":
            line["failure"] = {"type": "connection", "message": f"nobody there: {line.pop('reply')['text']}"}
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for moment in ("run.created", "results.before_rename"):
        assert Process(project.folder, "merge", str(folder), REJOINDER_KILL_AT=moment).end().code == KILLED
        model.fake.reset()
        assert project.run_json("resume", "last", code=3)["summary"]["errors"] == 1
        assert not model.asked
        assert Process(project.folder, "merge", str(folder), REJOINDER_KILL_AT=moment).end().code == KILLED
        mended = project.run_json("resume", "last", "--retry-errors", code=0)
        assert (mended["summary"]["passed"], model.asked) == (1, {"candidate": 1})


def test_parts_that_asked_different_models_are_refused(
    project: Project, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = suite(model, *many(8))
    content["targets"][0]["model"] = "${{ MODEL }}"
    project.write("evals.yaml", content)
    folders: list[str] = []
    for part, name in enumerate(("one", "two"), 1):
        monkeypatch.setenv("MODEL", name)
        folders.append(run(project, "--shard", f"{part}/2")["run"]["folder"])
    words = refusal(project, "merge", *folders)
    assert "target `it` asked model `two` in run" in words
    assert "`one`" in words


# What did not pass


@pytest.mark.slow
def test_what_did_not_pass_is_run_again_and_nothing_else(project: Project, model: Model) -> None:
    bad = {"contains": "never"}
    broken = {"llm_judge": {"criteria": "?", "target": "silent"}}
    content = suite(model, case("good"), case("bad", bad), case("broken", broken), case("fine"), case("worse", bad))
    content["targets"].append(scripted("silent", judge=[]))
    project.write("evals.yaml", content)
    model.pleases = True
    first = run(project, code=3)
    assert {result["id"]: result["status"] for result in first["results"]} == {
        "good": "passed",
        "bad": "failed",
        "broken": "error",
        "fine": "passed",
        "worse": "failed",
    }
    model.fake.reset()
    again = run(project, "--failed-from", first["run"]["id"], code=3)
    assert ids(again) == ["bad", "broken", "worse"]
    assert model.asked == {"candidate": 3}
    assert ids(run(project, "--failed-from", first["run"]["id"], "--case", "worse", "--case", "good")) == ["worse"]
    model.fake.reset()
    nothing = project.invoke("run", "--failed-from", first["run"]["id"], "--case", "good")
    assert (nothing.exit_code, model.asked) == (0, {})
    assert "there is nothing to run" in nothing.output


def test_one_trial_or_target_that_failed_is_enough(project: Project, model: Model) -> None:
    scripts = [
        {"name": "one", "provider": "scripted", "replies": {"a": ["right"], "b": ["right"], "c": ["wrong"]}},
        {"name": "two", "provider": "scripted", "replies": {"a": ["right"], "b": ["wrong"], "c": ["wrong"]}},
    ]
    project.write("evals.yaml", {"targets": scripts, "evals": [case(name) for name in "abc"]})
    first = run(project, "--target", "one", "--target", "two", "--repeat", "2", code=1)
    again = run(project, "--target", "one", "--failed-from", first["run"]["id"], code=1)
    assert ids(again) == ["b", "c"]


@pytest.mark.slow
def test_what_a_run_never_came_to_has_not_passed(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, case("a"), case("b", {"contains": "never"}), case("c"), case("d")))
    model.pleases = True
    first = run(project, "--fail-fast", "--workers", "1", code=1)
    assert ids(run(project, "--failed-from", first["run"]["id"])) == ["b", "c", "d"]
    parts = shards(project, 2)
    part = merge(project, parts[0])
    passed = {result["id"] for result in part["results"] if result["status"] == "passed"}
    again = run(project, "--failed-from", part["run"]["id"])
    assert set(ids(again)) == {"a", "b", "c", "d"} - passed


def test_where_all_passed_nothing_is_run(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, *many(2)))
    model.pleases = True
    first = run(project, code=0)
    model.fake.reset()
    result = project.invoke("run", "--failed-from", first["run"]["id"])
    assert (result.exit_code, model.asked) == (0, {})
    assert "there is nothing to run" in result.output
    assert "there is no run `nobody`" in refusal(project, "run", "--failed-from", "nobody")


# What would be asked


def estimate(project: Project, *arguments: str) -> Raw:
    return project.run_json("run", "--dry-run", *arguments, code=0)


def calls(found: Raw, which: int) -> Counter[str]:
    """The calls of an estimate, at least (0) or at most (1), as the model counts them."""
    name = ("least_calls", "most_calls")[which]
    counted = Counter({"it": 0, **{target: one[name] for target, one in found["targets"].items()}})
    return Counter(candidate=counted["it"], besides=found["judge_calls"][which])


def was_asked(model: Model) -> Counter[str]:
    asked = model.asked
    # Whom `compare` asks for a reply counts as a judge: it is asked for the sake of a check.
    return Counter(candidate=asked["candidate"], besides=asked["judge"] + asked["rival"])


def follow(*checks: Raw, prompt: str = "Sure?", inner: list[Raw] | None = None) -> list[Raw]:
    return [*checks, {"prompt": prompt, "checks": inner or [RIGHT]}]


JUDGE = {"llm_judge": {"criteria": "Is it right?"}}
VOTES = {"llm_judge": {"criteria": "Is it right?", "votes": 3}}
COMPARE = {"compare": {"reply": "Rome"}}
RIVAL = {"compare": {"reply_of": "other", "votes": 2}}

TREES: dict[str, tuple[Raw, int, int]] = {
    "one turn": (case("a"), 1, 0),
    "a judge": (case("a", JUDGE), 1, 1),
    "votes": (case("a", VOTES), 1, 3),
    "a comparison": (case("a", COMPARE), 1, 2),
    "a rival": (case("a", RIVAL), 1, 5),
    "a rubric": (case("a", {"rubric": {"criteria": ["Is it?"], "votes": 2}}), 1, 2),
    "one follow-up": (case("a", *follow(RIGHT)), 2, 0),
    "a judge in a follow-up": (case("a", *follow(RIGHT, inner=[RIGHT, VOTES])), 2, 3),
    "a chain": (case("a", *follow(JUDGE, inner=follow(JUDGE, inner=follow(VOTES)))), 4, 5),
    "a chain that is cut": (case("a", *follow(JUDGE, inner=follow(JUDGE, inner=[VOTES])), max_turns=2), 2, 2),
    "no second turn": (case("a", *follow(JUDGE), max_turns=1), 1, 1),
    "of two the first": (case("a", *follow(RIGHT), *follow(RIGHT, prompt="Well?")), 2, 0),
    "all of two": (case("a", *follow(RIGHT), *follow(prompt="Well?"), followups="all"), 3, 0),
    "all of a tree": (
        case("a", *follow(RIGHT, inner=follow(JUDGE)), *follow(prompt="Well?", inner=[VOTES]), followups="all"),
        4,
        4,
    ),
    "all, cut": (
        case("a", *follow(RIGHT), *follow(prompt="B?"), *follow(prompt="C?"), followups="all", max_turns=2),
        2,
        0,
    ),
    "all, at most twenty": (
        case("a", RIGHT, *({"prompt": f"{n}?", "checks": [JUDGE, RIGHT]} for n in range(30)), followups="all"),
        20,
        19,
    ),
    "every turn": (case("a", {**JUDGE, "every_turn": True}, *follow(RIGHT, inner=follow(RIGHT))), 3, 3),
    "every turn, all": (
        case("a", {**VOTES, "every_turn": True}, *follow(RIGHT), *follow(prompt="Well?"), followups="all"),
        3,
        9,
    ),
    "or": (case("a", {"or": [RIGHT, JUDGE, VOTES]}, {"prompt": "Sure?", "checks": [JUDGE]}), 2, 5),
    "not": (case("a", {"not": {"not": JUDGE}}), 1, 1),
    "a group": (case("a", {"group": {"at_least": 2, "checks": [RIGHT, JUDGE, COMPARE]}}), 1, 3),
    "a follow-up in a group": (
        case("a", {"or": [RIGHT, {**JUDGE, "prompt": "Sure?", "checks": [VOTES]}]}),
        2,
        4,
    ),
}
"""A case, and the turns and the calls of judges that it takes where nothing ever passes."""


@pytest.mark.parametrize("name", TREES)
def test_at_most_is_what_is_asked_where_nothing_passes(project: Project, model: Model, name: str) -> None:
    tree, turns, besides = TREES[name]
    project.write("evals.yaml", suite(model, tree))
    found = estimate(project, "--repeat", "2")
    assert not model.asked
    assert found["conversations"] == 2
    assert calls(found, 1) == Counter(candidate=2 * turns, besides=2 * besides)
    model.pleases = False
    run(project, "--repeat", "2")
    assert was_asked(model) == Counter(candidate=2 * turns, besides=2 * besides)


@pytest.mark.parametrize("name", TREES)
def test_at_least_is_what_is_asked_where_all_passes(project: Project, model: Model, name: str) -> None:
    tree, _, _ = TREES[name]
    project.write("evals.yaml", suite(model, tree))
    found = estimate(project)
    model.pleases = True
    run(project, code=0)
    assert was_asked(model) == calls(found, 0)


def test_embeddings_are_counted_once_for_equal_texts(project: Project, model: Model) -> None:
    check = {"semantic": {"expected": ["It is right", "It is good"], "threshold": 0.01}}
    project.write(
        "evals.yaml",
        suite(model, case("a", check), case("b", check, {"semantic": {"expected": "Another", "threshold": 0.5}})),
    )
    least, most = estimate(project)["embedding_calls"]
    assert (least, most) == (3, 8)
    run(project)
    assert least <= model.asked["embedding"] <= most


def test_paths_of_follow_ups_are_bounds_of_each_number(project: Project, model: Model) -> None:
    """The longest path has no judge here, and the path with judges is short."""
    checks = [
        {**RIGHT, "prompt": "Long?", "checks": follow(RIGHT, inner=follow(RIGHT))},
        {"contains": "never", "prompt": "Judged?", "checks": [VOTES]},
    ]
    project.write("evals.yaml", suite(model, case("a", *checks)))
    found = estimate(project)
    assert calls(found, 1) == Counter(candidate=4, besides=3)


@spec("A12", "A21")
def test_nothing_is_sent_and_no_key_is_needed(project: Project, model: Model) -> None:
    content = suite(model, case("a", JUDGE), case("b", RIVAL))
    for target in content["targets"]:
        target["api_key"] = "${{ A_KEY_THAT_NOBODY_HAS }}"
    project.write("evals.yaml", content)
    found = estimate(project)
    text = project.run("run", "--dry-run", code=0)
    assert "would run 2 conversations" in text and text.endswith("   nothing was sent\n")
    assert [line.split()[:3] for line in text.splitlines() if line.startswith("judge ")] == [
        ["judge", "judge", "5"],
        ["judge", "other", "1"],
    ]
    assert {name: one["most_calls"] for name, one in found["judges"].items()} == {"judge": 5, "other": 1}
    assert found["targets"]["it"]["least_calls"] == 2
    assert not model.asked
    assert not (project.folder / ".rejoinder" / "runs").exists()
    assert "A_KEY_THAT_NOBODY_HAS" in refusal(project, "run")


def test_large_numbers_have_separators(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, case("a", *follow(RIGHT))))
    text = project.run("run", "--dry-run", "--repeat", "1000", code=0)
    assert project.run("run", "--dry-run", "--repeat", "1000", "--quiet") == f"{text.splitlines()[-1]}\n"
    assert "would run 1,000 conversations" in text
    [row] = [line for line in text.splitlines() if line.startswith("it ")]
    assert row.split()[:5] == ["it", "1", "1,000", "to", "2,000"]


def test_options_choose_what_is_counted(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, *many(20)))
    assert estimate(project, "--repeat", "3", "--limit", "4")["conversations"] == 12
    both = estimate(project, "--target", "it", "--target", "other")
    assert {name: one["most_calls"] for name, one in both["targets"].items()} == {"it": 20, "other": 20}
    assert sum(estimate(project, "--shard", f"{part}/3")["conversations"] for part in (1, 2, 3)) == 20
    model.pleases = False
    first = run(project, "--limit", "3")
    model.fake.reset()
    assert estimate(project, "--failed-from", first["run"]["id"])["conversations"] == 3
    assert not model.asked


def test_costs_have_bounds_where_prices_and_lengths_are_known(project: Project, model: Model) -> None:
    content = suite(model, case("a", *follow(RIGHT, inner=follow(RIGHT))))
    content["targets"][0]["max_tokens"] = 1000
    project.write("evals.yaml", content)
    project.write(".rejoinder/config.yaml", {"prices": {"it": {"input": 1, "output": 10}}})
    one = estimate(project)["targets"]["it"]
    # Three replies of a thousand tokens are paid for; the first is sent again twice, and the second once.
    assert one["most_usd"] == pytest.approx((one["most_input_tokens"] + 3000) / 1e6 + 3000 * 10 / 1e6)
    assert 0 < one["least_usd"] < one["most_usd"]
    model.pleases = False
    spent = run(project)["summary"]["total_cost"]
    assert one["least_usd"] <= spent <= one["most_usd"]
    del content["targets"][0]["max_tokens"]
    project.write("evals.yaml", content)
    assert estimate(project)["targets"]["it"]["most_usd"] is None
    assert "set `max_tokens` to bound it" in project.run("run", "--dry-run")


def test_the_most_of_a_judge_is_known_where_replies_have_a_longest(project: Project, model: Model) -> None:
    content = suite(model, case("a", *follow(JUDGE, inner=[JUDGE])))
    for target in content["targets"]:
        target["max_tokens"] = 1000
    project.write("evals.yaml", content)
    project.write(".rejoinder/config.yaml", {"prices": {"*": {"input": 1, "output": 10}}})
    judge = estimate(project)["judges"]["judge"]
    assert (judge["least_calls"], judge["most_calls"], judge["replies_shown"]) == (1, 2, {"it": 4})
    assert judge["most_usd"] == pytest.approx((judge["most_input_tokens"] + 4000 + 2000 * 10) / 1e6)
    model.pleases = False
    spent = run(project)["summary"]["judge_cost"]
    assert judge["least_usd"] <= spent <= judge["most_usd"]
    del content["targets"][0]["max_tokens"]
    project.write("evals.yaml", content)
    assert estimate(project)["judges"]["judge"]["most_usd"] is None


def test_programs_get_the_bounds_of_a_whole_run(project: Project, model: Model) -> None:
    content = suite(model, case("a", JUDGE), case("b", JUDGE))
    for target in content["targets"]:
        target["max_tokens"] = 1000
    project.write("evals.yaml", content)
    project.write(".rejoinder/config.yaml", {"prices": {"*": {"input": 1, "output": 10}}})
    options = RunOptions()
    suites, _ = load_suites([project.folder / "evals.yaml"], load_options(options))
    bounds = bounds_of(count_calls(suites, options), suites, options)
    shown = estimate(project)
    rows = [*shown["targets"].values(), *shown["judges"].values()]
    assert [(one.name, one.role) for one in bounds.targets] == [("it", "candidate"), ("judge", "judge")]
    assert bounds.cost == pytest.approx(tuple(sum(row[key] for row in rows) for key in ("least_usd", "most_usd")))
    received = 1000 * sum(row["most_calls"] for row in rows)
    dollars, tokens = most_of(suites, options)
    sent = sum(one.tokens[1] or 0 for one in bounds.targets if one.tokens is not None)
    assert dollars == bounds.cost[1] and tokens == sent + received
    judges_only, _ = most_of(suites, structs.replace(options, answers=GRADE))
    assert judges_only == pytest.approx(shown["judges"]["judge"]["most_usd"])


def test_the_same_command_with_a_budget(project: Project, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    content = suite(model, case("a"))
    content["targets"][0]["max_tokens"] = 1000
    project.write("evals.yaml", content)
    project.write(".rejoinder/config.yaml", {"prices": {"it": {"input": 1, "output": 10}}})
    monkeypatch.setattr("rejoinder.cli.estimate.form_for", lambda _: Form(80, symbols=True, commands=True))
    *_, last = project.run("run", "evals.yaml", "--repeat", "3", "--dry-run").splitlines()
    assert last == "  rejoinder run evals.yaml --repeat 3 --budget-usd 0.031   run with this budget"
    del content["targets"][0]["max_tokens"]
    project.write("evals.yaml", content)
    *_, last = project.run("run", "--dry-run").splitlines()
    assert last == "  rejoinder run --dry-run --max-tokens 1000   bounds replies, and so the cost"


def test_what_cannot_be_run_is_refused_all_the_same(project: Project, model: Model) -> None:
    project.write("evals.yaml", suite(model, case("a", {"contians": "x"})))
    assert "contians" in refusal(project, "run", "--dry-run")
    project.write("evals.yaml", suite(model, case("a")))
    assert "there is no case `b`" in refusal(project, "run", "--dry-run", "--case", "b")
    assert "no target `nobody`" in refusal(project, "run", "--dry-run", "--target", "nobody")
    assert not model.asked


# For any suite

_LEAVES = st.sampled_from([RIGHT, {"contains": "never"}, {"contains": "It"}, JUDGE, VOTES, COMPARE, RIVAL])
_CHECKS = st.one_of(_LEAVES, _LEAVES, st.lists(_LEAVES, min_size=2, max_size=3).map(lambda checks: {"or": checks}))
_LEVELS = st.recursive(
    st.lists(_CHECKS, min_size=1, max_size=2),
    lambda inner: st.tuples(
        st.lists(_CHECKS, min_size=1, max_size=2),
        st.lists(st.fixed_dictionaries({"prompt": st.just("Sure?"), "checks": inner}), max_size=2),
    ).map(lambda parts: [*parts[0], *parts[1]]),
    max_leaves=5,
)
_CASES = st.lists(
    st.fixed_dictionaries(
        {"prompt": st.sampled_from(["One?", "Two?"]), "checks": _LEVELS},
        optional={"followups": st.sampled_from(["first", "all"]), "max_turns": st.integers(1, 3)},
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@bounded(25)
@given(cases=_CASES)
def test_any_run_is_within_its_estimate_and_the_sum_of_its_parts(
    project: Project, model: Model, cases: list[Raw]
) -> None:
    project.write("evals.yaml", suite(model, *cases))
    found = estimate(project)
    assert not model.asked
    whole = run(project)
    asked = was_asked(model)
    assert calls(found, 0)["candidate"] <= asked["candidate"] <= calls(found, 1)["candidate"]
    assert calls(found, 0)["besides"] <= asked["besides"] <= calls(found, 1)["besides"]
    parts = shards(project, 2)
    model.fake.reset()
    assert came_to(merge(project, *parts)) == came_to(whole)
    assert not model.asked
