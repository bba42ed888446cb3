"""New checks on old replies, and other courses for old conversations: `rejoinder grade` and `rejoinder fork`.

The server of these tests gives another answer each time that it is asked, and counts. So whoever asks again what is
recorded is found out twice: by the count, and by other words.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.engine.answers import ForkPrefix
from rejoinder.engine.retrace import recorded_conversation
from rejoinder.model.forks import Fork
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.loading import load_options
from rejoinder.runs.options import RunOptions
from rejoinder.runs.recorded import RecordedRun
from rejoinder.testing import Answer, FakeServer, Received, is_judging, judge
from rejoinder.validation.review import load_suites
from tests.kit import Project, Raw, bounded, case, refusal, scripted, statuses
from tests.labs.paid_lab import came_to, comparable

WORDS = ("red", "green", "blue")


class Talker:
    """A model and its judge, which never say the same twice."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.fake = FakeServer(self._reply)
        self.scores: list[float | str] = []
        """What judges say next, before they go on by themselves; a text is sent as it is."""
        self.unreadable: set[str] = set()
        """The judge that is asked about one of these first mumbles, once. Judges that are asked at the same time come
        in any order, so `scores` cannot say which of them is meant."""

    def _reply(self, request: Received) -> Answer:
        number = next(self._numbers)
        if not is_judging(request):
            return Answer(f"answer {number}: {Random(number).choice(WORDS)}")
        for words in list(self.unreadable):
            if words in str(request.body):
                self.unreadable.remove(words)
                return Answer("rubbish")
        score = self.scores.pop(0) if self.scores else Random(number).choice((0.0, 1.0))
        if isinstance(score, str):
            return Answer(score)
        words = json.loads(judge(score, reasoning=f"verdict {number}").text)
        return Answer(json.dumps({**words, "better": str(1 + number % 2)}))

    @property
    def asked(self) -> list[Received]:
        """What was asked since this was last read."""
        found = list(self.fake.requests)
        self.fake.reset()
        return found


@pytest.fixture(scope="module")
def running() -> Iterator[Talker]:
    talker = Talker()
    with talker.fake:
        yield talker


@pytest.fixture
def talker(running: Talker) -> Talker:
    running.scores.clear()
    running.unreadable.clear()
    assert running.asked is not None
    return running


def target(talker: Talker, name: str = "it", **more: Any) -> Raw:
    url = f"{talker.fake.url}/v1"
    return {"name": name, "provider": "openai", "model": "gpt-5-mini", "base_url": url, "api_key": "k", **more}


def suite(talker: Talker, *cases: Raw, **more: Any) -> Raw:
    targets = [target(talker), target(talker, "judge"), target(talker, "other")]
    return {"target": "it", "judge_target": "judge", "targets": targets, "evals": list(cases), **more}


def chain(*prompts: str, **check: Any) -> list[Raw]:
    """Checks that never pass, and what is said after each."""
    level: list[Raw] = [check or {"contains": "never"}]
    for prompt in reversed(prompts):
        level = [check or {"contains": "never"}, {"prompt": prompt, "checks": level}]
    return level


def run(project: Project, content: Raw | None, *arguments: str, code: int | None = None) -> Raw:
    if content is not None:
        project.write("evals.yaml", content)
    return project.run_json("run", "evals.yaml", *arguments, code=code)


def grade(project: Project, *arguments: str, code: int | None = None) -> Raw:
    return project.run_json("grade", *arguments, code=code)


def said(document: Raw) -> list[list[str]]:
    return [[turn["response"] for turn in result["turns"]] for result in document["results"]]


def folder_of(document: Raw) -> Path:
    return Path(document["run"]["folder"])


JUDGED = {"llm_judge": {"criteria": "Is it right?"}}


# New checks on what is recorded


def test_new_checks_are_put_on_recorded_replies_without_a_call(project: Project, talker: Talker) -> None:
    first = run(project, suite(talker, case("a", {"contains": "answer"}), case("b", {"contains": "never"})))
    assert len(talker.asked) == 2
    old = (folder_of(first) / "results.jsonl").read_bytes()
    project.write("evals.yaml", suite(talker, case("a", {"contains": "never"}), case("b", {"contains": "never"})))
    now = grade(project, code=1)
    assert talker.asked == []
    assert said(now) == said(first)
    assert statuses(now) == {"a": "failed", "b": "failed"}
    [change] = now["changes"]
    assert (change["id"], change["before"], change["now"]) == ("a", "passed", "failed")
    assert len(change["checks"]) == 2
    assert "new, failed" in change["checks"][0]
    assert "gone, passed before" in change["checks"][1]
    assert (folder_of(first) / "results.jsonl").read_bytes() == old
    assert folder_of(now).parent == project.folder / ".rejoinder" / "grades" / first["run"]["id"]
    assert now["run"]["grade_of"] == first["run"]["id"]


@pytest.mark.slow
def test_the_same_check_with_another_verdict_is_named(project: Project, talker: Talker) -> None:
    def content(threshold: float) -> Raw:
        check = {"llm_judge": {"criteria": "Is it right?"}, "threshold": threshold, "name": "right"}
        return suite(talker, case("a", {"contains": "answer"}, check))

    talker.scores += [0.6]
    run(project, content(0.5), code=0)
    project.write("evals.yaml", content(0.9))
    assert len(talker.asked) == 2
    [change] = grade(project, code=1)["changes"]
    assert talker.asked == []
    assert change["checks"] == ["turn 1, right: passed before, failed now"]
    text = project.run("grade", code=1)
    assert "a on it: passed -> failed" in text
    assert "turn 1, right: passed before, failed now" in text
    assert "1 conversation graded differently" in text


def test_checks_of_one_name_are_told_apart(project: Project, talker: Talker) -> None:
    def content(*words: str) -> Raw:
        return suite(talker, case("a", *({"contains": word, "name": "it"} for word in words)))

    run(project, content("answer", "answer"), code=0)
    project.write("evals.yaml", content("never", "answer"))
    [change] = grade(project, code=1)["changes"]
    assert change["checks"] == ["turn 1, it: passed before, failed now"]


def test_other_suites_may_bring_the_checks(project: Project, talker: Talker) -> None:
    first = run(project, suite(talker, case("a", {"contains": "answer"})), code=0)
    talker.fake.reset()
    project.write("strict.yaml", suite(talker, case("a", {"contains": "never"})))
    now = grade(project, first["run"]["id"], "--suite", "strict.yaml", code=1)
    assert said(now) == said(first)
    assert grade(project, first["run"]["id"], code=0)["results"][0]["status"] == "passed"
    assert talker.asked == []


@pytest.mark.slow
def test_only_judges_are_asked_and_only_once(project: Project, talker: Talker) -> None:
    cases = [case(name, {"contains": "answer"}) for name in "abc"]
    first = run(project, suite(talker, *cases), "--repeat", "2", code=0)
    assert len(talker.asked) == 6
    project.write("evals.yaml", suite(talker, *(case(name, {"contains": "answer"}, JUDGED) for name in "abc")))
    now = grade(project)
    asked = talker.asked
    assert len(asked) == 6
    assert all(map(is_judging, asked))
    assert said(now) == said(first)
    again = grade(project)
    assert talker.asked == []
    assert came_to(again) == came_to(now)
    # Another judge is asked, and the one before is not.
    other = {"llm_judge": {"criteria": "Is it kind?"}}
    project.write("evals.yaml", suite(talker, *(case(name, JUDGED, other) for name in "abc")))
    third = grade(project)
    assert len(asked := talker.asked) == 6
    assert all("Is it kind?" in str(one.body) for one in asked)
    for old, new in zip(now["results"], third["results"], strict=True):
        assert new["turns"][0]["checks"][0] == old["turns"][0]["checks"][1]
    grade(project)
    assert talker.asked == []


def test_further_votes_are_asked_and_earlier_ones_are_not(project: Project, talker: Talker) -> None:
    def content(votes: int) -> Raw:
        return suite(talker, case("a", {"llm_judge": {"criteria": "Is it right?", "votes": votes}}))

    run(project, content(2))
    talker.fake.reset()
    project.write("evals.yaml", content(5))
    grade(project)
    assert len(talker.asked) == 3


@pytest.mark.slow
def test_all_that_checks_ask_for_is_found_again(project: Project, talker: Talker) -> None:
    project.write(
        "check.py", "import json, random\nprint(json.dumps({'score': 1, 'reasoning': str(random.random())}))\n"
    )
    checks = [
        JUDGED,
        {"rubric": {"criteria": ["Is it kind?"], "on_invalid": "zero"}},
        {"compare": {"reply_of": "other"}},
        {"semantic": {"expected": ["answer 1", "something else"], "threshold": 0}},
        {"code": {"script": "python3 check.py"}},
    ]
    content = suite(talker, case("a", *checks), case("b", *chain("Sure?", "Really?"), *checks))
    content["targets"].append(target(talker, "meaning", model="text-embedding-3-small"))
    first = run(project, {**content, "embedding_target": "meaning"}, "--repeat", "2")
    assert len(talker.asked) > 20
    assert len(said(first)[2]) == 3
    now = grade(project)
    assert talker.asked == []
    assert now["changes"] == []
    assert came_to(now) == came_to(first)


def test_a_conversation_ends_where_new_checks_would_ask_what_was_never_asked(project: Project, talker: Talker) -> None:
    first = run(project, suite(talker, case("a", {"contains": "answer"})), code=0)
    talker.fake.reset()
    project.write("evals.yaml", suite(talker, case("a", *chain("Sure?"))))
    now = grade(project, code=1)
    assert talker.asked == []
    assert said(now) == said(first)
    assert statuses(now) == {"a": "failed"}


def test_a_conversation_may_pass_before_its_last_turn_now(project: Project, talker: Talker) -> None:
    first = run(project, suite(talker, case("a", *chain("Sure?", "Really?"))), code=1)
    talker.fake.reset()
    project.write(
        "evals.yaml",
        suite(talker, case("a", {"contains": "never"}, {"prompt": "Sure?", "checks": [{"contains": "answer"}]})),
    )
    now = grade(project, code=0)
    assert talker.asked == []
    assert said(now) == [said(first)[0][:2]]
    assert now["results"][0]["succeeded_on_turn"] == 2


def test_candidates_need_no_key(project: Project, talker: Talker, monkeypatch: pytest.MonkeyPatch) -> None:
    content = suite(talker, case("a", {"contains": "answer"}))
    content["targets"][0]["api_key"] = "${{ CANDIDATE_API_KEY }}"
    content["targets"][1]["api_key"] = "${{ JUDGE_API_KEY }}"
    monkeypatch.setenv("CANDIDATE_API_KEY", "sk-of-the-candidate")
    monkeypatch.setenv("JUDGE_API_KEY", "sk-of-the-judge")
    run(project, content, code=0)
    monkeypatch.delenv("CANDIDATE_API_KEY")
    content["evals"] = [case("a", {"contains": "answer"}, JUDGED)]
    project.write("evals.yaml", content)
    talker.scores += [1.0]
    talker.fake.reset()
    assert statuses(grade(project, code=0)) == {"a": "passed"}
    assert len(talker.asked) == 1
    monkeypatch.delenv("JUDGE_API_KEY")
    assert statuses(grade(project, code=0)) == {"a": "passed"}, "the judge's word is recorded"
    content["evals"] = [case("a", {"llm_judge": {"criteria": "Is it quite another question?"}})]
    project.write("evals.yaml", content)
    assert "JUDGE_API_KEY" in refusal(project, "grade")
    assert talker.asked == []


def test_a_judge_without_a_key_is_refused_where_only_the_errors_are_asked_again(
    project: Project, talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = suite(talker, case("a", {"contains": "answer"}))
    content["targets"][1]["api_key"] = "${{ JUDGE_API_KEY }}"
    monkeypatch.setenv("JUDGE_API_KEY", "sk-of-the-judge")
    run(project, content, code=0)
    project.write("evals.yaml", {**content, "evals": [case("a", JUDGED)]})
    talker.scores += ["not a verdict", "nor this"]
    graded = folder_of(grade(project, code=3))
    monkeypatch.delenv("JUDGE_API_KEY")
    talker.fake.reset()
    assert "JUDGE_API_KEY" in refusal(project, "resume", str(graded), "--retry-errors")
    assert talker.asked == []


def test_conversations_that_were_skipped_stay_skipped(project: Project, talker: Talker) -> None:
    talker.scores += [0.0]
    cases = [case(name, JUDGED) for name in ("a", "b", "c")]
    first = run(project, suite(talker, *cases), "--fail-fast", "--workers", "1", code=1)
    assert statuses(first) == {"a": "failed", "b": "skipped", "c": "skipped"}
    talker.fake.reset()
    now = grade(project, code=1)
    assert (statuses(now), now["changes"], talker.asked) == (statuses(first), [], [])


@pytest.mark.slow
def test_grading_under_a_budget_says_how_to_go_on(project: Project, talker: Talker) -> None:
    cases = [case(name, {"contains": "answer"}) for name in "abcd"]
    first = run(project, suite(talker, *cases), code=0)
    graded = suite(talker, *(case(name, JUDGED) for name in "abcd"))
    project.write("evals.yaml", graded)
    talker.scores += [1.0] * 4
    result = project.invoke("grade", "--budget-tokens", "900", "--max-tokens", "100", "--workers", "1")
    assert result.exit_code == 4, result.output
    assert "gone" not in result.output, "what is yet to be graded is not gone"
    command = next(line for line in result.output.splitlines() if line.startswith("next: rejoinder "))
    assert statuses(project.run_json(*command.split()[2:], code=None))
    done = project.run_json(*command.split()[2:4], "--budget-tokens", "99999", code=0)
    assert statuses(done) == statuses(first)


def test_a_run_that_was_killed_is_compared_with_the_checks_that_it_had(project: Project, talker: Talker) -> None:
    first = run(project, suite(talker, case("a", {"contains": "answer"})), code=0)
    kill(folder_of(first))
    project.write("evals.yaml", suite(talker, case("a", {"contains": "never"})))
    talker.fake.reset()
    [change] = grade(project, code=1)["changes"]
    assert (change["before"], change["now"]) == ("passed", "failed")
    assert talker.asked == []


def kill(folder: Path, *, lines: int | None = None) -> None:
    """Leave a run as if its process had been killed, with so many lines of its journal."""
    for name in ("results.jsonl", "summary.json"):
        (folder / name).unlink()
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "status": "running", "finished_at": None}))
    if lines is not None:
        kept = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)[:lines]
        (folder / "journal.jsonl").write_bytes(b"".join(kept))


def test_new_grades_that_were_cut_off_are_resumed_without_asking_candidates(project: Project, talker: Talker) -> None:
    first = run(project, suite(talker, *(case(name, {"contains": "answer"}) for name in "ab")), code=0)
    cases = [
        case(name, {"contains": "never"}, JUDGED, {"prompt": "Sure?", "checks": [{"contains": "x"}]}) for name in "ab"
    ]
    project.write("evals.yaml", suite(talker, *cases))
    now = grade(project, code=1)
    talker.fake.reset()
    kill(folder_of(now), lines=2)
    document = project.run_json("resume", str(folder_of(now)), code=1)
    asked = talker.asked
    assert len(asked) <= 2
    assert all(map(is_judging, asked))
    assert said(document) == said(first)


@pytest.mark.slow
def test_a_judge_that_was_not_there_can_be_asked_again(project: Project, talker: Talker) -> None:
    run(project, suite(talker, case("a", {"contains": "answer"})), code=0)
    content = suite(talker, case("a", JUDGED))
    project.write("evals.yaml", content)
    talker.scores += ["not a verdict", "nor this", 1.0]
    now = grade(project, code=3)
    talker.fake.reset()
    assert statuses(grade(project, code=3)) == {"a": "error"}
    assert talker.asked == []
    project.run("resume", str(folder_of(now)), "--retry-errors", code=0)
    assert len(talker.asked) == 1
    assert statuses(grade(project, code=0)) == {"a": "passed"}
    assert talker.asked == []


def test_a_run_that_stopped_at_the_first_failure_is_graded_to_its_end(project: Project, talker: Talker) -> None:
    cases = [case("a", {"contains": "answer"}), case("b", {"contains": "never"})]
    first = run(project, suite(talker, *cases), "--fail-fast", "--workers", "1", code=1)
    project.write("evals.yaml", suite(talker, *(case(name, {"contains": "never"}) for name in "ab")))
    talker.fake.reset()
    now = grade(project, code=1)
    assert statuses(now) == {"a": "failed", "b": "failed"}
    assert said(now) == said(first)
    assert talker.asked == []


def test_grading_is_refused_where_there_is_nothing_to_grade(project: Project, talker: Talker) -> None:
    assert "there are no runs" in refusal(project, "grade")
    first = run(project, suite(talker, case("a", {"contains": "answer"})), code=0)
    talker.fake.reset()
    assert "there is no run `19990101-000000-0000`" in refusal(project, "grade", "19990101-000000-0000")
    assert "nowhere.yaml" in refusal(project, "grade", "--suite", "nowhere.yaml")
    project.write("bad.yaml", {"evals": [{"id": "a", "prompt": "x", "checks": [{"contians": "y"}]}]})
    assert "contians" in refusal(project, "grade", "--suite", "bad.yaml")
    assert not (project.folder / ".rejoinder" / "grades").exists()
    (folder_of(first) / "journal.jsonl").unlink()
    assert "has no journal" in refusal(project, "grade")
    assert talker.asked == []


def test_checks_of_another_file_are_compared_with_the_suite_s_own(project: Project, talker: Talker) -> None:
    """A suite without a name is called by its file; its conversations are the same all the same."""
    content = suite(talker, case("a", {"contains": "answer"}), case("b", {"contains": "answer"}))
    first = run(project, content, code=0)
    content["evals"][1]["checks"] = [{"contains": "never"}]
    project.write("strict.yaml", content)
    now = grade(project, "--suite", "strict.yaml", code=1)
    [changed] = now["changes"]
    assert (changed["id"], changed["before"], changed["now"]) == ("b", "passed", "failed")
    assert len(talker.asked) == 2
    assert first["results"][0]["suite"] != now["results"][0]["suite"]


def test_what_was_skipped_is_skipped_by_the_checks_of_another_file(project: Project, talker: Talker) -> None:
    content = suite(talker, *(case(name, {"contains": "never"}) for name in "abc"))
    project.write("evals.yaml", content)
    first = project.run_json("run", "evals.yaml", "--fail-fast", "--workers", "1", code=None)
    assert statuses(first) == {"a": "failed", "b": "skipped", "c": "skipped"}
    project.write("strict.yaml", content)
    now = grade(project, "--suite", "strict.yaml", code=1)
    assert (statuses(now), now["changes"]) == (statuses(first), [])


# Another course from a turn on


@pytest.mark.slow
def test_a_conversation_is_taken_up_at_every_turn(project: Project, talker: Talker) -> None:
    content = suite(talker, case("a", *chain("Sure?", "Really?", "Last word?")), case("b", {"contains": "answer"}))
    first = run(project, content, code=1)
    talker.fake.reset()
    turns = first["results"][0]["turns"]
    assert len(turns) == 4
    for turn in range(1, 5):
        forked = fork(project, first, turn)
        asked = talker.asked
        assert len(asked) == 5 - turn
        [result] = forked["results"]
        assert untimed(result["turns"][: turn - 1]) == untimed(turns[: turn - 1])
        assert len(result["turns"]) == 4
        assert not {one["response"] for one in result["turns"][turn - 1 :]} & {one["response"] for one in turns}
        # The first request goes out with all that was said before.
        words = [message["content"] for message in asked[0].body["messages"]]
        assert words == [text for one in turns[: turn - 1] for text in (one["prompt"], one["response"])] + [
            turns[turn - 1]["prompt"]
        ]


def untimed(turns: list[Raw]) -> list[Raw]:
    return comparable({"results": turns, "run": {}, "summary": {}})["results"]


@pytest.fixture
def recorded(project: Project, talker: Talker) -> Raw:
    """A run of one conversation of three turns."""
    document = run(project, suite(talker, case("a", *chain("Sure?", "Really?"))), code=1)
    talker.fake.reset()
    return document


def fork(project: Project, document: Raw, turn: int, *arguments: str, name: str = "a", code: int | None = 1) -> Raw:
    course = (document["run"]["id"], "--case", name, "--turn", str(turn))
    return project.run_json("fork", *course, *arguments, code=code)


def test_something_else_is_said_at_the_turn(project: Project, talker: Talker, recorded: Raw) -> None:
    forked = fork(project, recorded, 2, "--prompt", "Are you joking?")
    asked = talker.asked
    [result] = forked["results"]
    assert [turn["prompt"] for turn in result["turns"]] == ["Question a", "Are you joking?", "Really?"]
    assert [message["content"] for message in asked[0].body["messages"]] == [
        "Question a",
        said(recorded)[0][0],
        "Are you joking?",
    ]
    assert len(asked) == 2
    assert "Sure?" not in str(asked[1].body)


def test_other_instructions_hold_from_the_turn_on(project: Project, talker: Talker, recorded: Raw) -> None:
    fork(project, recorded, 3, "--system", "Be brief.")
    [request] = talker.asked
    roles = [message["role"] for message in request.body["messages"]]
    assert roles[1:] == ["user", "assistant", "user", "assistant", "user"]
    assert request.body["messages"][0]["content"] == "Be brief."
    fork(project, recorded, 1, "--system", "Be brief.", "--prompt", "Other?")
    words = [message["content"] for message in talker.asked[0].body["messages"]]
    assert words == ["Be brief.", "Other?"]


def test_another_model_goes_on(project: Project, talker: Talker, recorded: Raw) -> None:
    forked = fork(project, recorded, 2, "--target", "other")
    assert len(talker.asked) == 2
    [result] = forked["results"]
    assert result["target"] == "other"
    assert result["turns"][0]["response"] == said(recorded)[0][0]
    [again] = fork(project, recorded, 3, "-m", "other")["results"]
    assert len(talker.asked) == 1
    assert [turn["response"] for turn in again["turns"][:2]] == said(recorded)[0][:2]


def test_trials_and_targets_all_begin_with_the_same_turns(project: Project, talker: Talker, recorded: Raw) -> None:
    forked = fork(project, recorded, 3, "--repeat", "3", "--target", "it", "--target", "other")
    assert len(talker.asked) == 6
    assert len(forked["results"]) == 6
    assert {tuple(turns[:2]) for turns in said(forked)} == {tuple(said(recorded)[0][:2])}
    assert len({turns[2] for turns in said(forked)}) == 6


@pytest.mark.slow
def test_each_target_of_a_run_has_a_conversation_of_its_own(project: Project, talker: Talker) -> None:
    content = suite(talker, case("a", *chain("Sure?")))
    first = run(project, content, "--target", "it", "--target", "other", code=1)
    talker.fake.reset()
    assert "--of: it, other" in refusal(project, "fork", first["run"]["id"], "--case", "a", "--turn", "2")
    assert talker.asked == []
    for place, name in enumerate(("it", "other")):
        forked = fork(project, first, 2, "--target", name)
        assert said(forked)[0][0] == said(first)[place][0]


@pytest.mark.slow
def test_judges_of_the_turns_before_are_told_apart(project: Project, talker: Talker) -> None:
    """Judges are asked at the same time, and some are asked again. Who comes first is an accident, and must not decide
    whose answer is whose."""
    words = ("kind", "right", "short")
    judges = [{"llm_judge": {"criteria": f"Is it {word}?"}, "every_turn": True} for word in words]
    talker.unreadable |= {"Is it kind?", "Is it short?"}
    first = run(project, suite(talker, case("a", *judges, *chain("Sure?", "Really?"))), code=1)
    [result] = first["results"]
    recorded = RecordedRun(RunFolder(folder_of(first)), project.folder)
    [suites, _] = load_suites([project.folder / "evals.yaml"], load_options(RunOptions()))
    tape = recorded_conversation(recorded, suites, "a", Fork(turn=2))
    recorded = [(call, told) for call, told in tape.calls if call.request.turn == 1]
    assert len(recorded) == 1 + 3 + 2
    before = ForkPrefix(tape, Fork(turn=2))
    for call, told in reversed(recorded):
        assert asyncio.run(before.answer(call)) is told
    assert asyncio.run(before.answer(recorded[0][0])) is None, "each is given once"
    for turn in (1, 2, 3):
        forked = fork(project, first, turn)
        assert untimed(forked["results"][0]["turns"][: turn - 1]) == untimed(result["turns"][: turn - 1])


def test_cases_with_the_same_words_have_their_own_conversations(project: Project, talker: Talker) -> None:
    one = {"prompt": "The same question", "checks": chain("Sure?")}
    first = run(project, suite(talker, one, dict(one)), "--workers", "1", code=1)
    talker.fake.reset()
    ids = [result["id"] for result in first["results"]]
    for place, name in enumerate(ids):
        forked = fork(project, first, 2, name=name)
        assert said(forked)[0][0] == said(first)[place][0]
        assert len(talker.asked) == 1


@pytest.mark.slow
def test_a_fork_is_a_run_like_any_other(project: Project, talker: Talker, recorded: Raw) -> None:
    forked = fork(project, recorded, 2, "--prompt", "Are you joking?")
    talker.fake.reset()
    name = forked["run"]["id"]
    resumed = project.run_json("resume", name, code=1)
    replayed = project.run_json("replay", name, code=1)
    graded = grade(project, name, code=1)
    for other in (resumed, replayed, graded):
        assert came_to(other) == came_to(forked)
    assert graded["changes"] == []
    # It can be taken up where it was forked, or before; not after, where the words of both would be needed.
    assert said(fork(project, forked, 2))[0][0] == said(recorded)[0][0]
    assert len(talker.asked) == 2
    assert "is itself a fork at turn" in refusal(project, "fork", name, "--case", "a", "--turn", "3")
    assert talker.asked == []


@pytest.mark.slow
def test_a_fork_of_a_fork_keeps_what_was_said_there(project: Project, talker: Talker, recorded: Raw) -> None:
    forked = fork(project, recorded, 2, "--prompt", "Are you joking?", "--system", "Be brief.")
    talker.fake.reset()
    fork(project, forked, 2, "--target", "other")
    before = ["Be brief.", "Question a", said(recorded)[0][0]]
    assert [message["content"] for message in talker.asked[0].body["messages"]] == [*before, "Are you joking?"]
    # What is said anew is said instead; the rest stays.
    again = fork(project, forked, 2, "--prompt", "Please.")
    assert [message["content"] for message in talker.asked[0].body["messages"]] == [*before, "Please."]
    fork(project, again, 2, "--system", "Be long.")
    words = [message["content"] for message in talker.asked[0].body["messages"]]
    assert words == ["Be long.", *before[1:], "Please."]
    # Before that turn the conversation is the suite's again.
    fork(project, again, 1)
    assert [message["content"] for message in talker.asked[1].body["messages"]][-1] == "Sure?"


def test_whose_conversation_is_taken_up_is_said(project: Project, talker: Talker) -> None:
    content = suite(talker, case("a", *chain("Sure?")))
    first = run(project, content, "--target", "it", "--target", "judge", code=1)
    given = ("fork", first["run"]["id"], "--case", "a", "--turn", "2", "--target")
    said = f"the earlier turns come from target `it`, which run {first['run']['id']} asked"
    assert said in project.invoke(*given, "other").stderr
    assert "the turns before" not in project.invoke(*given, "judge").stderr


def test_another_target_goes_on_with_the_conversation_of_the_one_that_is_named(
    project: Project, talker: Talker
) -> None:
    content = suite(talker, case("a", *chain("Sure?")))
    first = run(project, content, "--target", "it", "--target", "judge", code=1)
    replies = {result["target"]: result["turns"][0]["response"] for result in first["results"]}
    talker.fake.reset()
    for of, goes_on in (("it", "judge"), ("judge", "it"), ("judge", "judge"), ("it", "other")):
        forked = fork(project, first, 2, "--of", of, "--target", goes_on)
        assert [result["target"] for result in forked["results"]] == [goes_on]
        assert said(forked)[0][0] == replies[of]
        assert len(talker.asked) == 1
    forked = fork(project, first, 2, "--of", "judge")
    assert [(result["target"], result["turns"][0]["response"]) for result in forked["results"]] == [
        ("judge", replies["judge"])
    ]


def test_a_fork_takes_up_the_trial_that_is_named(project: Project, talker: Talker) -> None:
    first = run(project, suite(talker, case("a", *chain("Sure?"))), "--repeat", "3", code=1)
    replies = {result["trial"]: result["turns"][0]["response"] for result in first["results"]}
    assert len(set(replies.values())) == 3
    talker.fake.reset()
    for trial, reply in replies.items():
        forked = fork(project, first, 2, "--trial", str(trial), "--repeat", "2")
        assert [conversation[0] for conversation in said(forked)] == [reply, reply]
        assert len(talker.asked) == 2


def test_a_turn_that_ended_in_an_error_can_be_asked_anew(project: Project, talker: Talker) -> None:
    content = suite(talker, case("a", *chain("Sure?")), targets=[scripted("it", "one")])
    first = run(project, {**content, "judge_target": "it"}, code=3)
    assert statuses(first) == {"a": "error"}
    content["targets"] = [target(talker, "other"), *content["targets"]]
    project.write("evals.yaml", {**content, "judge_target": "it"})
    forked = fork(project, first, 2, "--target", "other")
    assert len(talker.asked) == 1
    assert said(forked)[0][0] == "one"


def test_wrong_forks_are_refused_and_nothing_is_sent(project: Project, talker: Talker, recorded: Raw) -> None:
    name = recorded["run"]["id"]
    whole = ("fork", name, "--case", "a")
    assert "there is no run" in refusal(project, "fork", "19990101-000000-0000", "--case", "a", "--turn", "1")
    assert "Missing option '--case'" in refusal(project, "fork", name, "--turn", "1")
    assert "has no case `nobody`" in refusal(project, "fork", name, "--case", "nobody", "--turn", "1")
    assert "goes 3 turns along" in refusal(project, *whole, "--turn", "4")
    assert "it has no turn 99 to fork" in refusal(project, *whole, "--turn", "99")
    assert "--turn" in refusal(project, *whole, "--turn", "0")
    assert "no target `nobody`" in refusal(project, *whole, "--turn", "2", "--target", "nobody")
    other = refusal(project, *whole, "--turn", "2", "--of", "other")
    assert f"case `a` in run {name} was not asked of target `other`" in other
    assert "It was asked of: it." in other
    assert f"case `a` in run {name} has 1 trial; it has no trial 2 to fork" in refusal(project, *whole, "--trial", "2")
    (folder_of(recorded) / "journal.jsonl").unlink()
    assert "has no journal" in refusal(project, *whole, "--turn", "1")
    assert talker.asked == []


# For any suite

_PLAIN = st.sampled_from(
    [*({"contains": word} for word in WORDS), {"contains": "answer"}, {"contains": "never"}, {"regex": r"\d[02468]:"}]
)
_ASKING = st.sampled_from(
    [
        {"llm_judge": {"criteria": "Is it right?"}},
        {"llm_judge": {"criteria": "Is it kind?", "votes": 3}},
        {"compare": {"reply": "Rome"}},
        {"compare": {"reply_of": "other"}},
    ]
)
_LEAVES = st.one_of(_PLAIN, _PLAIN, _PLAIN, _ASKING)
_CHECKS = st.one_of(
    _LEAVES,
    _LEAVES.map(lambda check: {"not": check}),
    st.lists(_LEAVES, min_size=2, max_size=3).map(lambda checks: {"or": checks}),
    st.lists(_LEAVES, min_size=2, max_size=3).map(lambda checks: {"group": {"at_least": 1, "checks": checks}}),
)


DEPTH = 3


def _levels(depth: int) -> st.SearchStrategy[list[Raw]]:
    checks = st.lists(_CHECKS, min_size=1, max_size=2)
    if not depth:
        return checks
    if depth == DEPTH:
        every = _LEAVES.map(lambda check: {**check, "every_turn": True})
        checks = st.lists(st.one_of(_CHECKS, every), min_size=1, max_size=2)
    follow_up = st.fixed_dictionaries(
        {"prompt": st.sampled_from(["Sure?", "Really?", "You said {{ response }}"]), "checks": _levels(depth - 1)}
    )
    return st.tuples(checks, st.lists(follow_up, max_size=2)).map(lambda parts: [*parts[0], *parts[1]])


_CASES = st.lists(
    st.fixed_dictionaries(
        {"prompt": st.sampled_from(["One?", "Two?"]), "checks": _levels(DEPTH)},
        optional={"followups": st.sampled_from(["first", "all"]), "max_turns": st.integers(1, 4)},
    ),
    min_size=1,
    max_size=3,
)


def named(cases: list[Raw]) -> list[Raw]:
    """The first has a name; the others are known by their words, and may be alike."""
    return [{"id": "a", **cases[0]}, *cases[1:]]


@pytest.mark.slow
@bounded(30)
@given(cases=_CASES)
def test_grading_by_the_same_checks_changes_nothing(project: Project, talker: Talker, cases: list[Raw]) -> None:
    first = run(project, suite(talker, *named(cases)), "--repeat", "2")
    talker.fake.reset()
    for _ in range(2):
        now = grade(project)
        assert talker.asked == []
        assert now["changes"] == []
        assert came_to(now) == came_to(first)
    shutil.rmtree(folder_of(first))


@pytest.mark.slow
@bounded(30)
@given(cases=_CASES)
def test_whatever_was_said_before_a_turn_stays(project: Project, talker: Talker, cases: list[Raw]) -> None:
    first = run(project, suite(talker, *named(cases)))
    turns = first["results"][0]["turns"]
    for turn in range(1, len(turns) + 1):
        talker.fake.reset()
        [result] = fork(project, first, turn, code=None)["results"]
        asked = [one for one in talker.asked if not is_judging(one)]
        assert untimed(result["turns"][: turn - 1]) == untimed(turns[: turn - 1])
        assert len(result["turns"]) >= turn
        assert result["turns"][turn - 1]["prompt"] == turns[turn - 1]["prompt"]
        # Whom `compare` asks for a reply is asked anew, too, with the candidate's turns and not before.
        ours = [one for one in asked if one.body["messages"][-1]["content"] == result["turns"][turn - 1]["prompt"]]
        assert ours
        assert result["turns"][turn - 1]["response"] != turns[turn - 1]["response"]
        assert min(sum(m["role"] == "user" for m in one.body["messages"]) for one in asked) >= turn
