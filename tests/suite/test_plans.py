"""Planned turns, users, shards and checks of the whole, from the file to the case; and what `validate` says of them."""

from __future__ import annotations

from typing import Any

import pytest

import rejoinder
from rejoinder.model import Case, Quote, levels_of
from tests.kit import Project, Raw, spec

YES = {"contains": "yes"}


def suite_of(*cases: Raw, **more: Any) -> Raw:
    return {
        "metadata": {"model": "scripted/x"},
        "targets": [{"name": "guest", "provider": "scripted", "replies": ["a"]}],
        "evals": [{"id": f"case-{place}", **case} for place, case in enumerate(cases)],
        **more,
    }


def load(project: Project, *cases: Raw, **more: Any) -> list[Case]:
    return list(rejoinder.load(project.write("evals.yaml", suite_of(*cases, **more))).cases)


def kinds(case: Case) -> list[list[str]]:
    return [[type(item.check).__name__ for item in level.items if item.check] for level in levels_of(case)]


def found(project: Project, *cases: Raw, **more: Any) -> list[tuple[str, str]]:
    """The codes and places of all problems."""
    suite = suite_of(*cases, **more)
    return [(one["code"], one["path"]) for one in (*project.errors(suite), *project.warnings(suite))]


def test_checks_of_the_case_judge_the_last_turn_and_every_turn(project: Project) -> None:
    every = {"max_words": 9, "every_turn": True}
    turns = [{"prompt": "a", "checks": [YES]}, {"prompt": "b"}, {"prompt": "c", "checks": [YES]}]
    [case] = load(project, {"turns": turns, "checks": [every, {"match": "x"}]})
    assert kinds(case) == [["Contains", "MaxWords"], ["MaxWords"], ["Contains", "MaxWords", "Match"]]
    assert case.plan is not None and case.plan.on_failure == "stop" and case.level == case.plan.steps[0].level


def test_a_later_turn_quotes_replies_steps_and_what_was_extracted(project: Project) -> None:
    turns = [
        {"name": "one", "prompt": "a", "extract": {"ref": {"regex": "(x)"}}, "checks": [YES]},
        {"prompt": "{{ response }} {{ response(1) }} {{ turn('one').response }} {{ ref }}"},
    ]
    [case] = load(project, {"turns": turns})
    assert case.plan is not None
    [words] = case.plan.steps[1].says
    assert [piece for piece in words.pieces if isinstance(piece, Quote)] == [
        Quote("response"),
        Quote("response", 1),
        Quote("response", name="one"),
        Quote("extracted", name="ref"),
    ]


def test_turns_come_after_the_messages_of_the_case(project: Project) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    [case] = load(project, {"input_messages": messages, "turns": [{"prompt": "a", "checks": [YES]}]})
    assert [message.role for message in case.messages] == ["user", "assistant", "user"]


def test_a_form_of_the_case_takes_the_place_of_the_default(project: Project) -> None:
    defaults = {"prompt": "q", "checks": [YES]}
    planned, asked = load(project, {"turns": [{"prompt": "a"}]}, {}, defaults=defaults)
    assert planned.plan is not None and asked.plan is None


@pytest.mark.parametrize("ready", ["ladder", "doubt"])
def test_ready_follow_ups_stand_behind_the_authors_own(project: Project, ready: str) -> None:
    own = {"contains": "yes", "prompt": "Again", "checks": [YES]}
    for case in load(project, {"prompt": "a", "checks": [own]}, {"turns": [{"prompt": "a", "checks": [own]}]},
                     ready_followups=ready):  # fmt: skip
        follow_up = case.level.items[-1].follow_up
        asks = []
        while follow_up is not None:
            asks.append((follow_up.ask, follow_up.hint))
            follow_up = follow_up.level.items[-1].follow_up
        assert asks == (
            [("failed", hint) for hint in ("look", "wrong", "kind", "answer")]
            if ready == "ladder"
            else [("always", None)] * 3
        )


def test_agentvs_conversations_are_read(project: Project) -> None:
    case = {
        "mode": "conversation",
        "input": [{"role": "system", "content": "Be kind."}],
        "turns": [
            {
                "input": "Hi",
                "expected_output": "Hello",
                "assert": [{"type": "contains", "value": "x"}, "Is polite.", {"type": "is-json", "negate": True}],
            },
            {
                "input": [{"role": "user", "content": "Bye"}],
                "assert": [{"type": "regex", "value": "x", "min_score": 1}],
            },
        ],
        "assert": [{"type": "icontains-any", "value": ["a", "b"], "required": True}],
        "aggregation": "min",
        "criteria": "Says goodbye.",
    }
    [read] = load(project, case)
    assert kinds(read) == [["Contains", "LlmJudge", "Not"], ["Regex", "LlmJudge"]]
    assert read.outcome == "Says goodbye."
    assert read.plan is not None and (read.plan.on_failure, read.plan.aggregation) == ("continue", "min")
    assert read.plan.steps[0].expected == "Hello"
    assert [message.role for message in read.messages] == ["system", "user"]
    assert [one.over for one in read.conversation_checks] == ["transcript"]


def test_conversations_of_agentv_4_are_read_under_their_own_names(project: Project) -> None:
    case = {
        "id": "tutor",
        "mode": "conversation",
        "criteria": "Keeps the context.",
        "aggregation": "mean",
        "on_turn_failure": "stop",
        "input": [{"role": "system", "content": "You teach."}],
        "turns": [
            {
                "input": "Say one",
                "assertions": [{"type": "contains", "value": "one"}, {"type": "icontains", "value": "O"}],
            },
            {"input": "And two", "expected_output": "two", "assertions": [{"type": "contains", "value": "two"}]},
        ],
        "assertions": [{"type": "contains", "value": "nowhere", "negate": True}],
    }
    suite = {"description": "of AgentV", "execution": {"target": "llm"}, "tests": [case]}
    judge = {"name": "judge", "provider": "scripted", "judge": [True]}
    llm = {"name": "llm", "provider": "scripted", "replies": ["one", "two"], "judge_target": "judge"}
    project.write(".agentv/targets.yaml", {"targets": [llm, judge]})
    project.write("evals/one.yaml", suite)
    assert project.validate("evals/one.yaml")["files"][0]["errors"] == []
    for path in ("evals/one.yaml", "evals"):
        [result] = project.run_json("run", path)["results"]
        assert (result["id"], result["passed"], len(result["turns"])) == ("tutor", True, 2)


@pytest.mark.parametrize(
    ("tests", "code"),
    [
        ([{"id": "a", "prompt": "q", "checks": [YES]}], "unknown-key"),
        ([{"id": "a", "mode": "conversation", "turns": [{"input": "a", "assertions": [5]}]}], "wrong-type"),
        (
            [{"id": "a", "mode": "conversation", "turns": [{"input": "a", "assert": ["x"], "assertions": ["y"]}]}],
            "conflicting-keys",
        ),
    ],
)
def test_mistakes_under_tests_are_found(project: Project, tests: list[dict[str, Any]], code: str) -> None:
    [error] = project.errors({"tests": tests, "target": "scripted/x"})
    assert error["code"] == code


def test_a_sharded_task_is_a_case_for_each_condition(project: Project) -> None:
    shards = {"task": "all", "pieces": ["one", "two", "three"], "order": "shuffled", "seed": 3}
    full, concat, sharded = load(project, {"id": "trip", "shards": shards, "checks": [YES]})
    assert [case.id for case in (full, concat, sharded)] == ["trip/full", "trip/concat", "trip/sharded"]
    assert [case.condition for case in (full, concat, sharded)] == ["full", "concat", "sharded"]
    assert sharded.plan is not None and len(sharded.plan.steps) == 3
    assert kinds(sharded) == [[], [], ["Contains"]]
    [only] = load(project, {"shards": {**shards, "conditions": ["sharded"]}, "checks": [YES]})
    assert only.condition == "sharded" and only.plan is not None and only.plan.steps == sharded.plan.steps


TURN = {"prompt": "a", "checks": [YES]}
ASKING = {"prompt": "a", "checks": [{**YES, "prompt": "b", "checks": [YES]}]}
GUEST = {"target": "guest", "goal": "g", "stop": "DONE"}


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        ({"turns": [TURN, {"prompt": "{{ turn('x').response }}"}]}, ("unknown-turn", "turns[1].prompt")),
        ({"turns": [TURN, {"prompt": "{{ response(2) }}"}]}, ("unknown-turn", "turns[1].prompt")),
        ({"turns": [TURN, {"name": "n"}]}, ("missing-field", "turns[1].prompt")),
        ({"turns": [{"checks": [YES]}]}, ("missing-field", "turns[0].prompt")),
        ({"turns": [{**TURN, "name": "n"}] * 2}, ("duplicate-id", "turns[1].name")),
        ({"turns": [{**TURN, "messages": []}]}, ("conflicting-keys", "turns[0].messages")),
        ({"turns": [TURN, {"messages": [{"role": "assistant", "content": "a"}]}]},
         ("no-user-words", "turns[1].messages")),
        ({"turns": [{**TURN, "extract": {"x": {}}}]}, ("missing-field", "turns[0].extract.x")),
        ({"turns": [{**TURN, "extract": {"x": {"regex": "("}}}]}, ("invalid-regex", "turns[0].extract.x.regex")),
        ({"turns": [{**TURN, "extract": {"x": {"json_path": "a"}}}]}, ("invalid-path", "turns[0].extract.x.json_path")),
        ({"turns": [{**TURN, "extract": {"x": {"regex": "a"}}}]}, ("unused-extract", "turns[0].extract.x")),
        ({"turns": [TURN, TURN], "max_turns": 1}, ("unreachable-turn", "turns[1]")),
        ({"turns": [TURN, TURN], "conversation_checks": [{"never": YES, "turns": [5, 9]}]},
         ("unreachable-turn", "conversation_checks[0].turns")),
        ({"turns": [TURN, TURN], "conversation_checks": [{"by_turn": {"turn": 3, "check": YES}}]},
         ("unreachable-turn", "conversation_checks[0].by_turn.turn")),
        ({"turns": [TURN, ASKING], "conversation_checks": [{"never": YES, "turns": [3, 3], "replies": "final"}]},
         ("unreachable-turn", "conversation_checks[0].turns")),
        ({"turns": [{"prompt": "a"}]}, ("missing-field", "checks")),
        ({"turns": [TURN], "prompt": "a"}, ("conflicting-keys", "prompt")),
        ({"mode": "conversation", "turns": [TURN], "outcome": "a", "criteria": "b"}, ("conflicting-keys", "criteria")),
        ({"turns": [TURN], "criteria": "b"}, ("unknown-key", "criteria")),
        ({"turns": [TURN], "user": GUEST}, ("conflicting-keys", "user")),
        ({"prompt": "a", "checks": [YES], "aggregation": "min"}, ("missing-field", "turns")),
        ({"prompt": "a", "checks": [{**YES, "hint": "look"}]}, ("unknown-key", "checks[0].hint")),
        ({"user": {"target": "guest", "goal": "g"}, "checks": [YES]}, ("user-without-stop", "user")),
        ({"user": {"target": "guest", "stop": "DONE"}, "checks": [YES]}, ("missing-field", "user.goal")),
        ({"user": {**GUEST, "target": "nobody"}, "checks": [YES]}, ("unknown-target", "user.target")),
        ({"user": {**GUEST, "audit": "nobody"}, "checks": [YES]}, ("unknown-target", "user.audit")),
        ({"user": {**GUEST, "stop": {"contians": "x"}}, "checks": [YES]}, ("unknown-check", "user.stop.contians")),
        ({"user": GUEST}, ("missing-field", "checks")),
        ({"prompt": "a", "conversation_checks": [{"always": {"contians": "x"}}]},
         ("unknown-check", "conversation_checks[0].always.contians")),
        ({"prompt": "a", "conversation_checks": [{"always": YES, "never": YES}]},
         ("multiple-check-keys", "conversation_checks[0]")),
        ({"prompt": "a", "conversation_checks": [{"never": YES, "turns": [3, 2]}]},
         ("out-of-range", "conversation_checks[0].turns")),
        ({"prompt": "a", "conversation_checks": [{**YES, "turns": [1, 2]}]},
         ("no-effect", "conversation_checks[0].turns")),
        ({"prompt": "a", "conversation_checks": [{"never": {**YES, "prompt": "b", "checks": [YES]}}]},
         ("unknown-key", "conversation_checks[0].never.prompt")),
        ({"prompt": "a", "conversation_checks": [{"after": {"when": YES}}]},
         ("missing-field", "conversation_checks[0].after.then")),
        ({"prompt": "a", "checks": [YES], "assert": [{"type": "contains", "value": "x"}]}, ("unknown-key", "assert")),
        ({"mode": "conversation", "turns": [{"input": "a", "assert": [{"type": "levitates", "value": "x"}, "good"]}]},
         ("unknown-check", "turns[0].assert[0].type")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_validate_finds(project: Project, case: Raw, wanted: tuple[str, str]) -> None:
    code, path = wanted
    assert (code, f"evals[0].{path}") in found(project, case)


def test_a_good_plan_has_no_problem(project: Project) -> None:
    turns = [
        {"name": "one", "prompt": "a", "extract": {"ref": {"json_path": "$.x"}}, "checks": [YES]},
        {"prompt": "{{ ref }} {{ turn('one').response }} {{ response(1) }}"},
    ]
    whole = [{"always": YES, "replies": "final", "turns": [1, 2]}, {"on": "transcript", "contains": "a"}]
    assert found(project, {"turns": turns, "conversation_checks": whole}, {"user": GUEST, "checks": [YES]}) == []


@pytest.mark.parametrize(
    ("written", "code", "wanted"),
    [
        ("turn(1).response", "unknown-turn", "`{{ response(1) }}`"),
        ("turn(1)", "unknown-turn", "`{{ response(1) }}`"),
        ("turns('a').response", "unknown-turn", "`{{ turn('a').response }}`"),
        ("turn('a')", "unknown-turn", "`{{ turn('a').response }}`"),
        ("turn('a').reply", "unknown-turn", "`{{ turn('a').response }}`"),
        ("turn['a'].response", "unknown-turn", "`{{ turn('a').response }}`"),
        ("turn(a).response", "unknown-turn", "`{{ turn('NAME').response }}`, by one of the names `a`"),
        ("turn.a", "unknown-turn", "`{{ turn('NAME').response }}`"),
        ("responses", "unfilled-braces", "did you mean `{{ response }}`?"),
        ("response('a')", "unfilled-braces", "did you mean `{{ response }}`?"),
        ("Response.text", "unfilled-braces", "did you mean `{{ response }}`?"),
        ("bookin", "unfilled-braces", "did you mean `{{ booking }}`?"),
    ],
)
def test_what_is_nearly_a_quote_is_not_sent_without_a_word(
    project: Project, written: str, code: str, wanted: str
) -> None:
    words = f"x {{{{ {written} }}}} {{{{ booking }}}}"
    follow_up = {"prompt": words, "checks": [{"match": "z"}]}
    first = {**TURN, "name": "a", "extract": {"booking": {"regex": "x"}}}
    suite = suite_of({"turns": [first, {"prompt": words, "checks": [YES, follow_up]}]})
    problems = [*project.errors(suite), *project.warnings(suite)]
    assert [one["path"] for one in problems] == ["evals[0].turns[1].prompt", "evals[0].turns[1].checks[1].prompt"]
    assert all(one["code"] == code and wanted in one["message"] for one in problems)


def test_near_quotes_in_a_follow_up_and_in_cases_with_variables(project: Project) -> None:
    def follow_up(words: str) -> Raw:
        return {"prompt": "a", "checks": [YES, {"prompt": words, "checks": [{"match": "z"}]}]}

    [warning] = project.warnings(suite_of(follow_up("{{ fialed }}")))
    assert "did you mean `{{ failed }}`?" in warning["message"]
    [error] = project.errors(suite_of({**follow_up("{{ responses }}"), "vars": {"x": 1}}))
    assert error["code"] == "missing-variable" and "did you mean `{{ response }}`?" in error["message"]
    own = {"responses": 1, "turn.a": 2}
    assert found(project, {**follow_up("{{ responses }} {{ turn.a }} {{ x(1) }}"), "vars": own}) == [
        ("unfilled-braces", "evals[0].checks[1].prompt")
    ]
    assert found(project, {"prompt": "{{ turns[0] }}", "checks": [YES]}) == []


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        ({"turns": ["hi", TURN]}, "a turn must be a mapping, not the text 'hi'; write `- prompt: hi`"),
        ({"turns": ["yes: no", TURN]}, "write `- prompt: ...`"),
        ({"turns": "hi"}, "`turns` must be a list"),
        ({"mode": "conversation", "turns": [{"input": "a"}], "criteria": " "}, "`criteria` is empty"),
        ({"turns": "hi", "input_messages": [{"role": "system", "content": "a"}]}, "`turns` must be a list"),
        ({"turns": [{**TURN, "conversation_checks": [{"never": YES}]}]},
         "unknown key `conversation_checks` in a turn; it belongs to the case"),
        ({"user": {**GUEST, "audit": True}}, "`audit` is the name of a target"),
        ({"user": "guest"}, "`user` must be a mapping"),
        ({"shards": {"task": "a", "pieces": ["a"]}}, "`pieces` needs at least 2 items, not 1"),
        ({"shards": {"task": "a"}}, "`shards` needs `pieces`"),
        *(
            ({"prompt": "a", "conversation_checks": [{**check, "prompt": "b", "checks": [YES]}]},
             "cannot send follow-ups")
            for check in ({"never": YES}, YES, {})
        ),
        ({"prompt": "a", "conversation_checks": [{"never": {"never": YES}}]}, "cannot be used in other checks"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_once_and_in_words_that_help(project: Project, case: Raw, wanted: str) -> None:
    suite = suite_of({"checks": [YES], **case})
    [problem] = [*project.errors(suite), *project.warnings(suite)]
    assert wanted in problem["message"] and "suggestion" not in problem


ANSWER = {"contains": "105"}


@spec("P43")
@pytest.mark.parametrize(
    ("words", "checks", "more", "warned"),
    [
        ("It is 105.", [ANSWER], {}, True),
        ("It is {{ response }} 105.", [ANSWER], {}, True),
        ("IT IS LIMA", [{"match": "*lima*"}], {}, True),
        ("a", [{"or": [ANSWER, {"regex": "^a$"}]}], {}, True),
        ("It is 105.", [ANSWER], {"hint": "answer"}, False),
        ("It is 105.", [ANSWER], {"hint": "kind"}, True),
        ("Try again.", [ANSWER], {}, False),
        ("Be brief.", [{"max_words": 5}], {}, False),
        ("Not 105", [{"not": ANSWER}], {}, False),
        ("Not 105", [{"not_match": "*x*"}], {}, False),
    ],
)
def test_a_follow_up_that_holds_the_answer_is_warned_of(
    project: Project, words: str, checks: list[Raw], more: Raw, warned: bool
) -> None:
    case = {"prompt": "15 * 7?", "checks": [ANSWER, {"prompt": words, "checks": checks, **more}]}
    assert found(project, case) == ([("answer-in-followup", "evals[0].checks[1].prompt")] if warned else [])


def test_turns_that_there_may_be_are_not_warned_of(project: Project) -> None:
    late = [{"never": YES, "turns": [3, 9]}, {"by_turn": {"turn": 9, "check": YES}}]
    cases = [
        {"turns": [TURN, ASKING], "conversation_checks": late},
        {"turns": [TURN, TURN], "conversation_checks": [{"never": YES, "turns": [2, 9]}]},
        {"user": GUEST, "conversation_checks": late},
    ]
    assert found(project, *cases) == []
    assert found(project, {"turns": [TURN, TURN]}, conversation_checks=late) == []


@spec("P43")
@pytest.mark.parametrize(
    ("user", "checks", "warned"),
    [
        ({}, [ANSWER], True),
        ({}, [{"or": [ANSWER, {"regex": "^a$"}]}], True),
        ({}, [{"match": "z", "prompt": "b", "checks": [ANSWER]}], True),
        ({"knows": "It is 105."}, [ANSWER], False),
        ({"opening": "Is it 105?"}, [ANSWER], False),
        ({"knows": "Nothing."}, [ANSWER], True),
        ({}, [{"contains": "106"}], False),
        ({}, [{"not": ANSWER}], False),
        ({}, [{"max_words": 50}], False),
    ],
)
def test_a_goal_that_holds_the_answer_is_warned_of(
    project: Project, user: Raw, checks: list[Raw], warned: bool
) -> None:
    case = {"user": {**GUEST, "goal": "Learn that 15 * 7 is 105.", **user}, "checks": checks}
    assert found(project, case) == ([("answer-in-goal", "evals[0].user.goal")] if warned else [])
