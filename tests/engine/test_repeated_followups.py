"""Follow-ups that are sent several times: `times`, and `prompts` in turn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rejoinder
from rejoinder.model import Failure, Reply
from tests.engine.readings import Had, have
from tests.kit import KILLED, Project, Raw, bounded, codes, essence, follow, run, run_process, scripted, spec

RIGHT = {"match": "right"}
AGAIN = follow("Again.", RIGHT, times=3)


def talk(checks: list[Raw], *replies: str, judge: Any = None, **case: Any) -> Had:
    return have(
        {"prompt": "Q", "checks": checks, **case},
        lambda turn: Reply(replies[turn - 1]) if turn <= len(replies) else Failure("scripted", f"no turn {turn}"),
        judge or (lambda _turn, _shown: Failure("scripted", "no judge")),
    )


@spec("R52")
def test_same_words_are_sent_until_a_reply_passes() -> None:
    had = talk([RIGHT, AGAIN], "no", "no", "no", "right")
    assert had.prompts == ["Q", "Again.", "Again.", "Again."]
    assert had.depths == [0, 1, 1, 1] and had.ending == ("passed", 4)
    assert talk([RIGHT, AGAIN], "no", "right").prompts == ["Q", "Again."]
    assert talk([RIGHT, AGAIN], "no", "no", "no", "no").ending == ("failed", None)
    assert talk([RIGHT, AGAIN], "right").prompts == ["Q"]


def test_prompts_are_sent_in_turn_and_quote_the_reply_before() -> None:
    several = {"prompts": ["Not {{ response }}.", "{{ failed }}", "Last."], "checks": [RIGHT], "hint": "wrong"}
    had = talk([RIGHT, several], "a", "b", "c", "d")
    assert had.prompts == ["Q", "Not a.", "match: it does not match", "Last."]
    assert [turn.hint for turn in had.outcome.turns] == [None, "wrong", "wrong", "wrong"]
    assert [turn.asked_by.turn for turn in had.outcome.turns if turn.asked_by] == [1, 2, 3]


def test_follow_ups_of_its_checks_come_after_the_last_time() -> None:
    inner = {**RIGHT, **follow("Then {{ response }}.", RIGHT)}
    had = talk([RIGHT, follow("Again.", inner, times=2)], "a", "b", "c", "right")
    assert had.prompts == ["Q", "Again.", "Again.", "Then c."]
    assert had.depths == [0, 1, 1, 2]


def test_doubts_are_all_raised() -> None:
    doubt = {"prompts": ["Sure?", "Really?"], "checks": [RIGHT], "ask": "always"}
    had = talk([RIGHT, doubt], "right", "right", "no")
    assert had.prompts == ["Q", "Sure?", "Really?"] and had.ending == ("failed", None)


def test_each_time_counts_towards_the_turns() -> None:
    had = talk([RIGHT, AGAIN], "no", "no", max_turns=2)
    assert had.prompts == ["Q", "Again."] and had.ending == ("failed", None)


def test_all_follow_ups_are_tried_in_their_order() -> None:
    checks = [RIGHT, follow("A.", RIGHT, times=2), follow("B.", RIGHT)]
    had = talk(checks, *["no"] * 4, followups="all")
    assert had.prompts == ["Q", "A.", "A.", "B."] and had.depths == [0, 1, 1, 1]


EITHER = {"or": [{"contains": "c"}, {"contains": "d"}]}
CHECKS = st.lists(st.sampled_from([{"contains": "a"}, {"contains": "b"}, EITHER]), max_size=2)


def tree_of(times: int, checks: list[Raw], deeper: Raw | None) -> Raw:
    return {"times": times, "checks": [*(checks or [RIGHT]), *([] if deeper is None else [deeper])]}


def trees(inner: st.SearchStrategy[Raw | None]) -> st.SearchStrategy[Raw]:
    return st.builds(tree_of, st.integers(1, 3), CHECKS, inner)


TREES = trees(st.none() | trees(st.none() | trees(st.none())))


def written(tree: Raw, number: int = 0) -> Raw:
    """A tree as a suite has it, with `times` or `prompts`."""
    checks = [written(one, number + 1) if "times" in one else one for one in tree["checks"]]
    words = [f"P{number}"] * tree["times"]
    said = {"prompt": words[0], "times": len(words)} if number % 2 else {"prompts": words}
    return {**said, "checks": checks}


def by_hand(tree: Raw, number: int = 0) -> Raw:
    """The same with each time nested by hand."""
    plain = [one for one in tree["checks"] if "times" not in one]
    checks = [by_hand(one, number + 1) if "times" in one else one for one in tree["checks"]]
    made: Raw = {"prompt": f"P{number}", "checks": checks}
    for _ in range(tree["times"] - 1):
        made = {"prompt": f"P{number}", "checks": [*plain, made]}
    return made


def levels(tree: Raw) -> int:
    return tree["times"] + max((levels(one) for one in tree["checks"] if "times" in one), default=0)


def is_shallow(tree: Raw) -> bool:
    return levels(tree) <= 5


@given(tree=TREES.filter(is_shallow), replies=st.lists(st.text("abc", max_size=3), min_size=6))
@bounded(60)
def test_repeating_equals_nesting_by_hand(tree: Raw, replies: list[str]) -> None:
    first = [{"contains": "abc"}]
    one, other = (talk([*first, form(tree)], *replies) for form in (written, by_hand))
    assert (one.prompts, one.ending, one.outcome.score) == (other.prompts, other.ending, other.outcome.score)
    assert [turn.verdicts for turn in one.outcome.turns] == [turn.verdicts for turn in other.outcome.turns]


def suite_of(checks: list[Raw], *replies: Any, **case: Any) -> Raw:
    evals = [{"id": "a", "prompt": "Q", "checks": checks, **case}]
    return {"target": "it", "targets": [scripted("it", *replies)], "evals": evals}


def test_results_count_each_time_as_a_follow_up(project: Project) -> None:
    document = run(project, suite_of([RIGHT, AGAIN], "no", "no", "right"))
    assert [(row["depth"], row["recovered"]) for row in document["summary"]["recovery"]] == [(1, 0), (2, 1)]
    [result] = document["results"]
    assert [turn["depth"] for turn in result["turns"]] == [0, 1, 1] and result["succeeded_on_turn"] == 3


def test_replay_show_fork_and_grade_know_each_time(project: Project) -> None:
    document = run(project, suite_of([RIGHT, AGAIN], "no", "no", "right", "no"))
    assert essence(project.run_json("show", "last")) == essence(document)
    again = project.run_json("replay", "last")
    assert essence(again)["results"] == essence(document)["results"]
    assert project.run_json("grade", "last", code=None)
    forked = project.run_json("fork", "last", "--case", "a", "--turn", "3", "--prompt", "Else.", code=None)
    [result] = forked["results"]
    assert [turn["prompt"] for turn in result["turns"]][:3] == ["Q", "Again.", "Else."]


def test_dry_run_counts_each_time(project: Project) -> None:
    project.write("evals.yaml", suite_of([RIGHT, follow("Again.", RIGHT, follow("More.", RIGHT, times=3), times=4)]))
    found = project.run_json("run", "evals.yaml", "--dry-run")
    target = found["targets"]["it"]
    assert [target["least_calls"], target["most_calls"]] == [1, 8]


@pytest.mark.slow
def test_deepest_and_longest_follow_ups_run(project: Project) -> None:
    inner: Raw = follow("P5", RIGHT, times=20)
    for number in range(4, 0, -1):
        inner = follow(f"P{number}", RIGHT, inner, times=20)
    document = run(project, suite_of([RIGHT, inner], *["no"] * 101))
    [result] = document["results"]
    assert len(result["turns"]) == 101 and result["turns"][-1]["depth"] == 5
    assert project.run_json("run", "evals.yaml", "--dry-run")["targets"]["it"]["most_calls"] == 101


@pytest.mark.parametrize(
    ("item", "code", "words"),
    [
        ({**AGAIN, "times": 0}, "out-of-range", "at least 1 and at most 20"),
        ({**AGAIN, "times": 21}, "out-of-range", "at least 1 and at most 20"),
        ({**AGAIN, "times": "2"}, "wrong-type", "remove the quotes"),
        ({"contains": "x", "times": 2}, "unknown-key", "`times` belongs to a follow-up"),
        ({"prompts": [], "checks": [RIGHT]}, "empty-prompt", "`prompts` is empty"),
        ({"prompts": [" "], "checks": [RIGHT]}, "empty-prompt", ""),
        ({"prompts": ["x"] * 21, "checks": [RIGHT]}, "out-of-range", "at most 20 items, not 21"),
        ({"prompts": "x", "checks": [RIGHT]}, "wrong-type", "a list"),
        ({"prompts": ["x"]}, "prompt-without-checks", "requires checks"),
        ({"checks": [RIGHT]}, "checks-without-prompt", "add the `prompt`"),
        ({"prompts": ["x"], "prompt": "y", "checks": [RIGHT]}, "conflicting-keys", "both say what is sent"),
        ({"prompts": ["x"], "times": 2, "checks": [RIGHT]}, "conflicting-keys", "how often"),
        ({"not": {"prompts": ["x"], "checks": [RIGHT]}}, "unknown-key", "cannot be negated"),
    ],
)
def test_what_cannot_be_meant_is_refused(project: Project, item: Raw, code: str, words: str) -> None:
    errors = project.errors({"target": "scripted/x", "evals": [{"prompt": "Q", "checks": [RIGHT, item]}]})
    assert codes(errors) == [code]
    assert words in errors[0]["message"]


@spec("R52")
def test_repeating_does_not_hide_that_follow_ups_are_too_deep(project: Project) -> None:
    inner: Raw = {"prompts": ["P6"], "checks": [RIGHT]}
    for number in range(5, 0, -1):
        inner = follow(f"P{number}", RIGHT, inner, times=2)
    [error] = project.errors({"target": "scripted/x", "evals": [{"prompt": "Q", "checks": [RIGHT, inner]}]})
    assert error["code"] == "followup-too-deep" and error["path"].endswith(".prompts")


def test_answer_in_several_words_is_warned_about_once(project: Project) -> None:
    target = {"contains": "105"}
    said = {"prompts": ["No.", "It is 105.", "I said 105."], "checks": [target]}
    checks = [target, follow("It is 105.", target, times=5), said]
    suite = {"target": "scripted/x", "evals": [{"prompt": "Q", "checks": checks, "followups": "all"}]}
    found = [one["path"] for one in project.warnings(suite) if one["code"] == "answer-in-followup"]
    assert found == ["evals[0].checks[1].prompt", "evals[0].checks[2].prompts[1]", "evals[0].checks[2].prompts[2]"]


def test_python_suites_write_them(project: Project) -> None:
    from rejoinder import Case, FollowUp, Suite, checks

    several = FollowUp(prompts=["A", "B"], checks=[checks.match("right")])
    again = FollowUp("C", times=2, checks=[checks.match("right")])
    case = Case(id="a", prompt="Q", checks=[checks.match("right", follow_up=several), again])
    suite = Suite(target="it", targets=[scripted("it", *["no"] * 3)], evals=[case])
    assert rejoinder.loads(suite.to_yaml()) == suite


@pytest.mark.slow
@pytest.mark.parametrize("point", ["told.queued", "told.synced"])
def test_run_that_is_killed_between_two_times_resumes_there(project: Project, point: str) -> None:
    """With a part of the reply that a function finds: what it returned is not asked for again, either."""
    project.write("parts.py", "def last(evidence): return evidence.reply.splitlines()[-1]\n")
    suite = suite_of([{"equals": "right"}, follow("Again.", {"equals": "right"}, times=4)], *["x\nno"] * 3, "x\nright")
    project.write("evals.yaml", {**suite, "reply": {"python": "parts:last"}})
    ended = run_process(project.folder, "run", "evals.yaml", REJOINDER_KILL_AT=f"{point}:5")
    assert ended.code == KILLED
    document = project.run_json("resume")
    [result] = document["results"]
    assert [turn["prompt"] for turn in result["turns"]] == ["Q", *["Again."] * 3]
    assert [turn["depth"] for turn in result["turns"]] == [0, 1, 1, 1] and result["status"] == "passed"
    assert [turn["part"] for turn in result["turns"]] == ["no", "no", "no", "right"]
    assert "intact" in project.run("verify")
