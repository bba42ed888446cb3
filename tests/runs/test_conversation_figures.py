"""What conversations come to beyond passing: doubts, hints, sharded tasks and simulated users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import pytest
from msgspec import structs, to_builtins

from rejoinder.model import Condition, Hint, Result, Spoilt, Summary, TurnResult
from rejoinder.model.results import NOT_AUDITED, AskedBy, ErrorResult
from rejoinder.runs.conversation_counts import CONDITIONS, HINTS
from rejoinder.runs.counts import MOST_OPEN
from rejoinder.runs.summary import summarise
from rejoinder.stats.intervals import wilson
from tests.engine.talks import DOUBT, LEAK, doubted, ended, put, simulated, turns_of
from tests.kit import Project, case, run, scripted
from tests.report.exports import check, made_run, turn
from tests.stats.simulated import Draw


def near(value: float) -> object:
    return pytest.approx(value, abs=5e-5)


def summary_of(results: Sequence[Result]) -> Summary:
    return made_run(results).summary


def rows(*counts: tuple[int, tuple[bool, ...]]) -> list[Result]:
    every = [verdicts for number, verdicts in counts for _ in range(number)]
    return [doubted(f"c{number}", *verdicts, number=number) for number, verdicts in enumerate(every)]


# Doubts


KNOWN = rows((8, (False, True)), (12, (False, False)), (3, (True, False)), (27, (True, True)))


def test_the_known_answer_of_doubt() -> None:
    summary = summary_of(KNOWN)
    found = summary.transitions
    assert found is not None
    assert (found.wrong_right.passed, found.wrong_right.of, found.wrong_right.interval) == (8, 20, wilson(8, 20))
    assert (found.right_wrong.passed, found.right_wrong.of, found.right_wrong.interval) == (3, 30, wilson(3, 30))
    assert (found.stationary, found.stationary_interval) == (near(0.7819), (near(0.5404), near(0.9162)))
    assert summary.caves is not None
    assert (summary.caves.passed, summary.caves.of, summary.caves.interval) == (3, 30, wilson(3, 30))
    assert found.by_doubt == ()


def test_the_names_of_papers_are_keys_and_the_books_close() -> None:
    document = to_builtins(summary_of(KNOWN))["transitions"]
    named = [document[name] for name in ("Acc@t1", "Acc@t2", "i->c", "c->i")]
    assert named == [30 / 50, 35 / 50, 8 / 50, 3 / 50]
    assert named[1] == pytest.approx(named[0] + named[2] - named[3])
    assert document["after"]["passed"] == document["before"]["passed"] - 3 + 8


def test_the_counts_of_a_run_close() -> None:
    """Passed in the end = right at first - caved + recovered."""
    summary = summary_of(KNOWN)
    assert summary.rates is not None and summary.caves is not None
    first, eventual, gain = (one.passed for one in structs.astuple(summary.rates))
    assert (first, eventual, gain) == (30, 35, 8)
    assert eventual == first - summary.caves.passed + gain
    assert (summary.first_try, summary.passed_at_once, summary.recovered) == (30, 27, 8)


def test_several_doubts_are_told_one_by_one() -> None:
    """Flips are SYCON's: the turn of the first one counts the replies before it, and all where there is none."""
    summary = summary_of(rows((1, (True, False, True, False)), (2, (True, True, True, True)), (1, (False, True, True))))
    found = summary.transitions
    assert found is not None and found.number_of_flips is not None and found.turn_of_flip is not None
    told = [(one.doubt, one.right_wrong.passed, one.right_wrong.of, one.wrong_right.passed) for one in found.by_doubt]
    assert told == [(1, 1, 3, 1), (2, 0, 3, 1), (3, 1, 3, 0)]
    assert (found.right_wrong.passed, found.wrong_right.passed) == (1, 1), "of the first doubt"
    assert (found.number_of_flips.mean, found.number_of_flips.cases) == ((3 + 0 + 0 + 1) / 4, 4)
    assert (found.turn_of_flip.mean, found.turn_of_flip.cases) == ((1 + 4 + 4) / 3, 3)
    assert summary.caves is not None
    assert (summary.caves.passed, summary.caves.of) == (1, 3)


def test_equal_flips_are_not_certain_to_be_scores() -> None:
    found = summary_of(rows((4, (True, False)))).transitions
    assert found is not None and found.number_of_flips is not None
    assert (found.number_of_flips.mean, found.number_of_flips.interval) == (1.0, None)


def test_a_doubt_that_an_error_answers_is_in_no_rate() -> None:
    first, second = turns_of(True, False, **DOUBT)
    trouble = ErrorResult("server", "HTTP 500", 2, 500)
    broken = ended("b", (first, structs.replace(second, response=None, checks=())), number=9, error=trouble)
    summary = summary_of([*rows((2, (True, True))), structs.replace(broken, status="error", score=None)])
    found = summary.transitions
    assert found is not None and summary.caves is not None
    assert (found.errors, found.before.of, summary.caves.of, summary.errors) == (1, 2, 2, 1)


def test_an_error_of_the_whole_is_none_of_the_last_follow_up() -> None:
    whole = (check(False, error=True, score=None),)
    trouble = ErrorResult("judge", "no verdict", 2)
    talk = ended("a", turns_of(False, False), conversation_checks=whole, error=trouble)
    [row] = summary_of([structs.replace(talk, status="error", score=None)]).recovery
    assert (row.at_risk, row.recovered, row.errors) == (1, 0, 0)


def test_each_planned_turn_is_a_question_of_its_own() -> None:
    one, two = turns_of(True, False, **DOUBT), turns_of(True, True, **DOUBT)
    later = [
        structs.replace(
            turn, turn=turn.turn + 2, asked_by=turn.asked_by and AskedBy(turn.asked_by.turn + 2, (0,)), step=2
        )
        for turn in two
    ]
    planned = ended("plan", (*one, *later))
    summary = summary_of([planned])
    assert summary.caves is not None
    assert (summary.caves.passed, summary.caves.of, summary.caves.cases) == (1, 2, 1)
    assert not planned.caved, "it passed in the end"


def test_nothing_doubted_says_nothing() -> None:
    summary = summary_of([ended("a", turns_of(False, True)), ended("b", turns_of(True), number=2)])
    assert (summary.transitions, summary.caves) == (None, None)
    assert summary.answered_back is not None
    assert (summary.answered_back.passed, summary.answered_back.of) == (1, 1)


def test_targets_are_not_pooled() -> None:
    both = [structs.replace(one, target=target) for one in KNOWN for target in ("a", "b")]
    summary = summary_of(both)
    assert (summary.transitions, summary.caves, summary.by_hint, summary.by_condition) == (None, None, {}, {})
    for one in summary.by_target.values():
        assert one.transitions is not None and one.caves is not None
        assert (one.transitions.stationary, one.caves.of) == (near(0.7819), 30)


# What is a first try


@pytest.mark.parametrize(
    ("turns", "more", "first_try", "caved", "recovered"),
    [
        (turns_of(True, False, **DOUBT), {}, True, True, False),
        (turns_of(False, True, **DOUBT), {}, False, False, True),
        (turns_of(True, False, True, **DOUBT), {}, True, False, False),
        (turns_of(True, True, **DOUBT), {"conversation_checks": (check(False),), "passed": False}, False, False, False),
        (turns_of(True, False, **DOUBT), {"steps": ("one", "two")}, False, True, False),
        ((turn(), turn(number=2, depth=0), *turns_of(True, False, **DOUBT)[1:]), {}, True, True, False),
    ],
    ids=["caved", "recovered", "turned back", "the whole failed", "a turn never reached", "a simulated user's turns"],
)
def test_right_at_first(
    turns: tuple[TurnResult, ...], more: dict[str, Any], first_try: bool, caved: bool, recovered: bool
) -> None:
    passed = more.get("passed", turns[-1].passed)
    found = ended("a", turns, **{**more, "passed": passed, "status": "passed" if passed else "failed"})
    assert (found.first_try, found.caved, found.recovered) == (first_try, caved, recovered)


def test_a_simulated_user_is_no_control_of_itself() -> None:
    made = [ended("sim", turns_of(False, True), trial=trial, user=simulated(None)) for trial in range(1, 4)] + [
        ended("sim", turns_of(True), trial=4, user=simulated(None))
    ]
    assert summary_of(made).net_recovery is None


# Hints


def test_recovery_by_hint() -> None:
    """A rung of the ladder is told by those that came to it; net recovery only of conversations that began with it."""
    ladder = turns_of(False, False, True)
    hinted = (ladder[0], structs.replace(ladder[1], hint="look"), structs.replace(ladder[2], hint="wrong"))
    made = [
        *(ended("a", hinted, trial=trial) for trial in (1, 2)),
        ended("a", turns_of(True), trial=3),
        ended("b", turns_of(False, True, hint="answer"), number=2),
        ended("c", turns_of(True, True, hint="look", **DOUBT), number=3),
    ]
    found = summary_of(made).by_hint
    assert [(hint, one.recovered, one.at_risk, one.cases) for hint, one in found.items()] == [
        ("look", 0, 2, 1),
        ("wrong", 2, 2, 1),
        ("answer", 1, 1, 1),
    ]
    net = found["look"].net_recovery
    assert net is not None
    assert (net.failures, net.answered_back, net.afresh) == (2, 0.0, 0.5), "the third trial is the control"
    assert (found["wrong"].net_recovery, found["answer"].net_recovery) == (None, None)


def test_all_hints_and_conditions_are_known() -> None:
    assert set(HINTS) == set(get_args(Hint))
    assert set(CONDITIONS) == set(get_args(Condition))


# Sharded tasks


def test_conditions_are_held_against_full_on_the_same_tasks() -> None:
    made = [
        *put("a", "full", [True] * 4, 1),
        *put("a", "sharded", [True, False, False, False], 2),
        *put("b", "full", [True, True, False, False], 3),
        *put("b", "sharded", [True, True, False, False], 4),
        *put("c", "sharded", [True] * 4, 5),
    ]
    found = summary_of(made).by_condition
    assert list(found) == ["full", "sharded"]
    full, sharded = found["full"], found["sharded"]
    assert (full.rate.passed, full.rate.of, full.rate.cases, full.relative, full.against_full) == (6, 8, 2, 1.0, None)
    assert (sharded.rate.passed, sharded.rate.of, sharded.rate.cases) == (7, 12, 3)
    assert sharded.relative == pytest.approx((0.25 + 0.5) / (1 + 0.5)), "without the task that was never put whole"
    assert sharded.against_full is not None
    assert (sharded.against_full.cases, sharded.against_full.difference) == (2, pytest.approx(-0.375))
    assert sharded.aptitude is None


def test_aptitude_is_told_from_ten_repeats_on() -> None:
    made = [*put("a", "full", [True] * 10, 1), *put("a", "concat", [True] * 5 + [False] * 5, 2)]
    found = summary_of(made).by_condition
    able = found["concat"].aptitude
    assert able is not None
    assert (able.aptitude, able.unreliability, able.average, able.repeats) == (1.0, 1.0, 0.5, 10)
    assert summary_of(made[:-1]).by_condition["concat"].aptitude is None


def test_tasks_that_are_closed_on_the_way_stay_whole() -> None:
    made: list[Result] = []
    for number in range(MOST_OPEN):
        made += put(f"t{number}", "full", [True], 3 * number)
        made += put(f"t{number}", "concat", [number % 2 == 0], 3 * number + 1)
        made += put(f"t{number}", "sharded", [number % 4 == 0], 3 * number + 2)
    receipt = structs.replace(made_run(made).run, planned=len(made))
    on_the_way, at_the_end = summarise(made, receipt), summarise(iter(made), receipt)
    assert on_the_way == at_the_end
    assert {name: one.relative for name, one in on_the_way.by_condition.items()} == {
        "full": 1.0,
        "concat": 0.5,
        "sharded": 0.25,
    }


# Simulated users


def test_spoilt_conversations_count_apart_and_are_no_quarantine() -> None:
    made = [
        ended("a", turns_of(True), user=simulated(None)),
        ended("a", turns_of(True), trial=2, user=simulated(LEAK)),
        ended("b", turns_of(False), number=2, user=simulated(NOT_AUDITED)),
        ended("b", turns_of(False), number=2, trial=2, user=simulated(Spoilt("role", 1, "as an AI"))),
    ]
    for order in (made, [made[1], made[0], made[3], made[2]]):
        summary = summary_of(order)
        spoilt = summary.spoilt
        assert spoilt is not None
        assert (spoilt.conversations, spoilt.of, spoilt.by_kind) == (2, 4, {"leak": 1, "role": 1})
        assert (spoilt.not_audited, spoilt.cases) == (1, 0)
        assert (summary.passed, summary.failed, summary.apart, summary.unfinished, summary.decided) == (1, 1, 0, 0, 2)
        assert (summary.pass_rate, summary.exit_code, summary.by_case.failed) == (0.5, 1, 1)
        assert summary.by_target["demo"].spoilt == spoilt


def test_a_case_that_is_spoilt_in_every_trial_was_not_measured() -> None:
    made = [ended("a", turns_of(True)), ended("b", turns_of(True), number=2, user=simulated(LEAK))]
    summary = summary_of(made)
    assert summary.spoilt is not None
    assert (summary.spoilt.cases, summary.exit_code) == (1, 3)
    assert summary.by_target["demo"].spoilt == summary.spoilt
    several = summary_of([structs.replace(one, variant=name) for one in made for name in ("long", "short")])
    assert [one.spoilt and one.spoilt.cases for one in several.by_variant.values()] == [1, 1]
    assert several.spoilt is not None
    assert several.spoilt.cases == 2
    assert summary_of(made[:1]).exit_code == 0


def test_an_error_is_an_error_whatever_the_user_said() -> None:
    broken = ended("a", turns_of(False), user=simulated(LEAK), error=ErrorResult("server", "no", 1))
    summary = summary_of([structs.replace(broken, status="error", score=None)])
    assert (summary.errors, summary.spoilt and summary.spoilt.conversations, summary.exit_code) == (1, 0, 3)


def test_what_simulated_users_cost_is_told_apart_and_in_the_total() -> None:
    made = [
        ended("a", turns_of(True), user=simulated(None)),
        ended("b", turns_of(True), number=2, user=simulated(LEAK)),
        ended("c", turns_of(True), number=3, user=simulated(None, cost=None)),
    ]
    summary = summary_of(made)
    assert (summary.user_usage.total_tokens, summary.user_cost) == (45, 0.5)
    assert summary.total_tokens == 3 * 25 + 45
    assert summary.total_cost == pytest.approx(0.503), "a user on this machine costs nothing"
    assert made[2].total_cost == pytest.approx(0.001)
    unknown = summary_of([*made, ended("d", turns_of(True), number=4, user=simulated(None, cost=None, unpriced="x/y"))])
    assert (unknown.user_cost, unknown.total_cost, unknown.unpriced) == (None, None, {"x/y": 1})


def test_a_budget_counts_what_simulated_users_say(project: Project) -> None:
    user = {"persona": "a guest", "goal": "a room", "target": "guest", "stop": "DONE", "max_turns": 9}
    suite = {
        "targets": [scripted("bot", *["ok"] * 9), scripted("guest", *["word " * 50] * 9)],
        "target": "bot",
        "evals": [{"id": "sim", "user": user, "checks": [{"contains": "ok"}]}],
    }
    document = run(project, suite, "--budget-tokens", "2000", code=0)
    assert document["run"]["budget"]["spent_tokens"] == 9 * 50 + 9 == document["summary"]["total_tokens"]
    assert document["summary"]["user_usage"]["total_tokens"] == 9 * 50
    stopped = run(project, suite, "--budget-tokens", "200", code=4)
    assert stopped["run"]["budget"]["reached"]


# Planted rates: intervals cover them as often as they claim


ROUNDS = 150


def covers(interval: tuple[float, float] | None, truth: float) -> bool:
    return interval is not None and interval[0] <= truth <= interval[1]


def test_intervals_of_caves_and_transitions_cover_what_was_planted() -> None:
    draw, held = Draw(71), [0, 0, 0]
    right, caves, mends = 0.6, 0.25, 0.35
    for _ in range(ROUNDS):
        made: list[Result] = []
        for number, rate in enumerate(draw.rates(15, right, 0.2)):
            for trial in range(1, 4):
                first = bool(draw.passes(rate, 1))
                then = not draw.passes(caves, 1) if first else bool(draw.passes(mends, 1))
                made.append(doubted(f"c{number}", first, then, number=number, trial=trial))
        summary = summary_of(made)
        found = summary.transitions
        assert found is not None and summary.caves is not None
        held[0] += covers(summary.caves.interval, caves)
        held[1] += covers(found.wrong_right.interval, mends)
        held[2] += covers(found.stationary_interval, mends / (mends + caves))
    assert min(held) / ROUNDS >= 0.91, held


def test_intervals_by_hint_cover_what_was_planted() -> None:
    draw = Draw(72)
    hears: dict[Hint, float] = {"look": 0.1, "answer": 0.8}
    held = dict.fromkeys(hears, 0), dict.fromkeys(hears, 0)
    for _ in range(ROUNDS):
        made: list[Result] = []
        for number in range(40):
            hint: Hint = "look" if number % 2 else "answer"
            for trial in range(1, 4):
                first = bool(draw.passes(0.4, 1))
                then = bool(draw.passes(0.4 + hears[hint] * 0.6, 1))
                verdicts = (True,) if first else (False, then)
                made.append(ended(f"c{number}", turns_of(*verdicts, hint=hint), number=number, trial=trial))
        for hint, one in summary_of(made).by_hint.items():
            held[0][hint] += covers(one.interval, 0.4 + hears[hint] * 0.6)
            held[1][hint] += one.net_recovery is not None and covers(one.net_recovery.interval, hears[hint] * 0.6)
    assert min(*held[0].values(), *held[1].values()) / ROUNDS >= 0.91, held


def test_intervals_of_conditions_cover_what_was_planted() -> None:
    draw, held, relative = Draw(73), [0, 0, 0], 0.0
    mean, kept = 0.8, 0.6
    for _ in range(ROUNDS):
        made: list[Result] = []
        for number, rate in enumerate(draw.rates(25, mean, 0.15)):
            shares: dict[Condition, float] = {"full": 1.0, "sharded": kept}
            for place, (condition, share) in enumerate(shares.items()):
                passes = [bool(draw.passes(rate * share, 1)) for _ in range(2)]
                made += put(f"t{number}", condition, passes, 2 * number + place)
        found = summary_of(made).by_condition
        difference = found["sharded"].against_full
        assert difference is not None and found["sharded"].relative is not None
        held[0] += covers(found["full"].rate.interval, mean)
        held[1] += covers(found["sharded"].rate.interval, mean * kept)
        held[2] += covers(difference.interval, mean * kept - mean)
        relative += found["sharded"].relative / ROUNDS
    assert min(held) / ROUNDS >= 0.91, held
    assert relative == pytest.approx(kept, abs=0.02)


# Through the engine


OWN = """
import random


def answer(request):
    chance = random.Random(f"{request.case_id} {request.trial} {request.turn}").random()
    if request.case_id.startswith("doubt"):
        return "yes" if chance < (0.7 if request.turn == 1 else 0.5) else "no"
    if request.case_id.startswith("ladder"):
        return "yes" if chance < 0.2 * request.turn else "no"
    return "yes" if chance < (0.9 if request.case_id.endswith("/full") else 0.4) else "no"
"""


def test_a_run_reports_what_its_replies_say(project: Project) -> None:
    """Every figure is counted again from the results, by hand."""
    project.write("own.py", OWN)
    yes = {"equals": "yes"}
    shards = {"task": "Say yes.", "pieces": ["Say a word.", "It is yes."], "conditions": ["full", "sharded"]}
    suite = {
        "targets": [{"name": "it", "provider": "python", "call": "own:answer"}],
        "target": "it",
        "evals": [
            *(case(f"doubt-{n}", yes, ready_followups="doubt") for n in range(6)),
            *(case(f"ladder-{n}", yes, ready_followups="ladder") for n in range(6)),
            *({"id": f"task-{n}", "shards": shards, "checks": [yes]} for n in range(3)),
        ],
    }
    document = run(project, suite, "--repeat", "2")
    summary, results = document["summary"], document["results"]
    doubts = [[one["passed"] for one in result["turns"]] for result in results if result["id"].startswith("doubt")]
    assert len(doubts) == 12
    assert {len(verdicts) for verdicts in doubts} == {4}
    found = summary["transitions"]
    assert found["before"]["passed"] == sum(verdicts[0] for verdicts in doubts)
    assert found["after"]["passed"] == sum(verdicts[1] for verdicts in doubts)
    assert found["right_wrong"]["passed"] == sum(one[0] and not one[1] for one in doubts)
    assert found["wrong_right"]["passed"] == sum(one[1] and not one[0] for one in doubts)
    assert summary["caves"]["passed"] == sum(one[0] and not one[-1] for one in doubts) > 0
    assert summary["caves"]["of"] == sum(one[0] for one in doubts)
    for hint, row in summary["by_hint"].items():
        sent = [turn for result in results for turn in result["turns"] if turn.get("hint") == hint]
        assert (row["at_risk"], row["recovered"]) == (len(sent), sum(one["passed"] for one in sent))
    assert list(summary["by_hint"]) == ["look", "wrong", "kind", "answer"]
    assert summary["by_hint"]["look"]["net_recovery"] is not None
    for condition in ("full", "sharded"):
        own = [result["passed"] for result in results if result.get("condition") == condition]
        rate = summary["by_condition"][condition]["rate"]
        assert (rate["passed"], rate["of"], rate["cases"]) == (sum(own), 6, 3)
    assert summary["spoilt"] is None


def test_a_spoilt_conversation_stops_nothing_and_is_run_again(project: Project) -> None:
    """`--fail-fast` is for failures of the model; `--failed` takes what was not measured."""
    user = {"persona": "a guest", "goal": "a room", "target": "guest", "opening": "Hello.", "stop": "DONE"}
    suite = {
        "targets": [scripted("bot", "Which?", "Nothing."), scripted("guest", "Room 7!", "DONE")],
        "target": "bot",
        "evals": [
            {"id": "spoilt", "user": user, "checks": [{"contains": "Room 7"}]},
            case("plain", {"contains": "Which"}),
        ],
    }
    document = run(project, suite, "--fail-fast", "--workers", "1", code=3)
    assert [(one["id"], one["status"]) for one in document["results"]] == [("spoilt", "failed"), ("plain", "passed")]
    assert (document["summary"]["skipped"], document["summary"]["spoilt"]["cases"]) == (0, 1)
    again = project.run_json("run", "--failed", code=3)
    assert [one["id"] for one in again["results"]] == ["spoilt"]
