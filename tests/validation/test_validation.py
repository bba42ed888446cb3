"""What authors are told: codes, places, suggestions, and the schema that decides."""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import pytest

import rejoinder
from rejoinder.suite import schema
from tests.kit import Project, codes, scripted, spec


def found(project: Project, checks: Any, **case: Any) -> list[tuple[str, str]]:
    errors = project.errors({"evals": [{"prompt": "q", "checks": checks, **case}]})
    return [(one["code"], one["path"].removeprefix("evals[0].")) for one in errors]


MATCH = {"match": "*1a*"}
SPAN = {"score_range": [0, 10], "outcome": "a", "meaning": "b"}


@spec("R48", "R49", "R50", "R53", "R54", "R55", "C22", "C29", "C30")
@pytest.mark.parametrize(
    "checks",
    [
        [MATCH],
        [MATCH, {"not_match": "b"}, {"min_tokens": 0}, {"max_tokens": 9}],
        [{"semantic": {"expected": "x", "threshold": 1}}, {"llm_judge": {"criteria": "c"}}],
        {"or": [MATCH]},
        [MATCH, {"prompt": "p", "checks": [MATCH]}],
        [{**MATCH, "prompt": "p", "checks": {"or": [MATCH]}}],
        [{"or": [MATCH, {"or": [MATCH]}], "prompt": "p", "checks": [MATCH]}],
        {"or": [MATCH, {"prompt": "p", "checks": [MATCH]}]},
        [{**MATCH, "name": "n", "weight": 0.5, "required": True, "threshold": 0.3, "x-note": [1]}],
        [{"and": [MATCH, MATCH]}, {"not": MATCH}],
        [{"contains": "a"}, {"icontains": "a"}, {"contains_any": ["a"]}, {"contains_all": ["a", "b"]}],
        [
            {"starts_with": "a"},
            {"ends_with": "a"},
            {"equals": ""},
            {"min_words": 1},
            {"max_words": 2},
            {"latency": 1.5},
        ],
        [{"regex": "a+"}, {"regex": {"pattern": "a+", "flags": "im"}}, {"match": ".*[0-9]+.*"}, {"match": "^a"}],
    ],
)
def test_accepted(project: Project, checks: Any) -> None:
    assert found(project, checks) == []


@spec("R51", "R53", "R54", "C26", "C31", "C32", "P19", "P20", "P21")
@pytest.mark.parametrize(
    ("checks", "wanted"),
    [
        ([], [("empty-checks", "checks")]),
        ({"or": []}, [("empty-checks", "checks.or")]),
        ([{"or": []}], [("empty-checks", "checks[0].or")]),
        (None, [("wrong-type", "checks")]),
        ("x", [("wrong-type", "checks")]),
        ({}, [("legacy-checks-map", "checks")]),
        ({"match": "x", "min_tokens": 1}, [("legacy-checks-map", "checks")]),
        ({"or": [MATCH], "match": "x", "and": []}, [("unknown-key", "checks.match"), ("unknown-key", "checks.and")]),
        ([{"match": 42}], [("wrong-type", "checks[0].match")]),
        ([{"match": ["a", "b"]}], [("wrong-type", "checks[0].match")]),
        ([{"match": ""}], [("empty-pattern", "checks[0].match")]),
        ([{"not_match": ""}], [("empty-pattern", "checks[0].not_match")]),
        ([{"min_tokens": 1.5}], [("wrong-type", "checks[0].min_tokens")]),
        ([{"min_tokens": -1}], [("out-of-range", "checks[0].min_tokens")]),
        ([{"semantic": {"threshold": 0.5}}], [("missing-field", "checks[0].semantic.expected")]),
        ([{"semantic": {"expected": "x", "threshold": -0.1}}], [("out-of-range", "checks[0].semantic.threshold")]),
        ([{"semantic": {"expected": "x", "threshold": "1"}}], [("wrong-type", "checks[0].semantic.threshold")]),
        ([{"semantic": "x"}], [("wrong-type", "checks[0].semantic")]),
        ([{"llm_judge": {}}], [("missing-field", "checks[0].llm_judge.criteria")]),
        ([{"llm_judge": {"criteria": " "}}], [("empty-prompt", "checks[0].llm_judge.criteria")]),
        ([{"llm_judge": {"criteria": "x", "crit": 1}}], [("unknown-key", "checks[0].llm_judge.crit")]),
        ([{"regexp": "a", "nmae": "n"}], [("unknown-check", "checks[0].regexp")]),
        ([{**MATCH, "nmae": "n"}], [("unknown-key", "checks[0].nmae")]),
        ([{**MATCH, "equals": "x"}], [("multiple-check-keys", "checks[0]")]),
        ([MATCH, {"prompt": " ", "checks": [MATCH]}], [("empty-prompt", "checks[1].prompt")]),
        ([MATCH, {"prompt": "p", "checks": []}], [("empty-checks", "checks[1].checks")]),
        ([MATCH, {"prompt": 4, "checks": [MATCH]}], [("wrong-type", "checks[1].prompt")]),
        ([{**MATCH, "prompt": "p"}], [("prompt-without-checks", "checks[0]")]),
        ([MATCH, {"checks": [MATCH]}], [("checks-without-prompt", "checks[1]")]),
        ([{"prompt": "p", "checks": [MATCH]}], [("no-check-at-level", "checks")]),
        ({"or": [{"prompt": "p", "checks": [MATCH]}]}, [("no-check-at-level", "checks.or")]),
        ([MATCH, "text"], [("wrong-type", "checks[1]")]),
        ([MATCH, None], [("wrong-type", "checks[1]")]),
        ([{"match": "^("}], [("invalid-regex", "checks[0].match")]),
        ([{"regex": "[a"}], [("invalid-regex", "checks[0].regex")]),
        ([{"regex": {"pattern": "(", "flags": "i"}}], [("invalid-regex", "checks[0].regex.pattern")]),
        ([{"regex": {"pattern": "a", "flags": "q"}}], [("out-of-range", "checks[0].regex.flags")]),
        ([{**MATCH, "weight": -1}], [("out-of-range", "checks[0].weight")]),
        ([{"not": {"prompt": "p", "checks": [MATCH]}}], [("unknown-key", "checks[0].not.prompt")]),
        ([{"name": "n"}], [("missing-field", "checks[0]")]),
    ],
)
def test_refused(project: Project, checks: Any, wanted: list[tuple[str, str]]) -> None:
    assert found(project, checks) == wanted


@spec("R51")
def test_a_prompt_without_checks_says_so_in_the_words_of_the_feature(project: Project) -> None:
    [error] = project.errors({"evals": [{"prompt": "q", "checks": [MATCH, {"prompt": "again"}]}]})
    assert "prompt requires checks to be defined" in error["message"]


def nested(depth: int, innermost: Any = MATCH) -> list[Any]:
    checks: list[Any] = [innermost]
    for level in range(depth, 0, -1):
        checks = [MATCH, {"prompt": f"t{level}", "checks": checks}]
    return checks


@spec("R52", "C25", "P20")
def test_five_follow_ups_are_the_most(project: Project) -> None:
    assert found(project, nested(5)) == []
    too_deep = "checks[1]." * 5 + "checks[1].prompt"
    assert found(project, nested(6)) == [("followup-too-deep", too_deep)]
    # Nothing is reported below a prompt that is too deep.
    assert found(project, nested(6, {"mtch": 4})) == [("followup-too-deep", too_deep)]
    assert found(project, nested(8)) == [("followup-too-deep", too_deep)]


@spec("R52")
def test_depth_counts_through_or_blocks(project: Project) -> None:
    checks: Any = {"or": [MATCH]}
    for _ in range(6):
        checks = {"or": [MATCH, {"prompt": "p", "checks": checks}]}
    assert [code for code, _ in found(project, checks)] == ["followup-too-deep"]


@spec("C24", "P25")
def test_unreachable_follow_ups_are_warned_about(project: Project) -> None:
    follow_up = {"prompt": "p", "checks": [MATCH]}
    checks = [MATCH, follow_up, {**MATCH, **follow_up}, follow_up]
    suite: dict[str, Any] = {"evals": [{"prompt": "q", "checks": checks}]}
    assert [one["path"] for one in project.warnings(suite)] == [
        "evals[0].checks[2].prompt",
        "evals[0].checks[3].prompt",
    ]
    suite["metadata"] = {"followups": "all", "model": "scripted/x"}
    assert project.warnings(suite) == []
    assert project.warnings({"defaults": {"followups": "all"}, "evals": suite["evals"]}) == []


def asking(prompt: str, *checks: Any, **check: Any) -> dict[str, Any]:
    return {**check, "prompt": prompt, "checks": list(checks) or [MATCH]}


@spec("C24", "P25")
@pytest.mark.parametrize(
    ("checks", "unreachable"),
    [
        ([MATCH, asking("a"), {"or": [MATCH, asking("b")]}], ["checks[2].or[1].prompt"]),
        ([MATCH, asking("a"), {"and": [asking("b", match="x"), MATCH]}], ["checks[2].and[0].prompt"]),
        ([MATCH, asking("a"), {"group": {"checks": [MATCH, asking("b")]}}], ["checks[2].group.checks[1].prompt"]),
        ([MATCH, asking("a"), {"or": [{"and": [MATCH, asking("b")]}]}], ["checks[2].or[0].and[1].prompt"]),
        ({"or": [MATCH, asking("a"), {"and": [MATCH, asking("b")]}]}, ["checks.or[2].and[1].prompt"]),
        ({"or": [asking("a", match="x"), asking("b", match="y")]}, ["checks.or[1].prompt"]),
        ([asking("a", **{"or": [MATCH, asking("b")]})], ["checks[0].prompt"]),
        ([asking("a", **{"or": [MATCH, asking("b", match="x")]})], ["checks[0].prompt"]),
        ([asking("a", **{"and": [MATCH, MATCH, asking("b")]})], ["checks[0].prompt"]),
        # Not all checks of an `and`, nor all of a list, have failed when it has.
        ([asking("a", **{"and": [MATCH, asking("b", match="x")]})], []),
        ([asking("a", match="x"), asking("b", match="y"), asking("c")], []),
        ([MATCH, {"or": [MATCH, asking("a")]}, asking("b")], []),
        # The level below a follow-up is another one.
        ([MATCH, asking("a", MATCH, asking("b"))], []),
    ],
)
def test_unreachable_follow_ups_are_found_in_groups(project: Project, checks: Any, unreachable: list[str]) -> None:
    warnings = project.warnings({"evals": [{"prompt": "q", "checks": checks}]})
    assert places(warnings) == [("unreachable-followup", f"evals[0].{path}") for path in unreachable]


@spec("C24", "P18", "P25")
def test_the_suites_follow_up_comes_before_those_of_its_cases(project: Project) -> None:
    own = [MATCH, asking("own")]
    suite: dict[str, Any] = {
        "checks": [MATCH, asking("suite"), asking("later")],
        "evals": [{"prompt": "q", "checks": own}, {"prompt": "q", "checks": [{"or": own}]}, {"prompt": "q"}],
    }
    of_suite = ("unreachable-followup", "checks[2].prompt")
    of_cases = [
        ("unreachable-followup", "evals[0].checks[1].prompt"),
        ("unreachable-followup", "evals[1].checks[0].or[1].prompt"),
    ]
    found = project.warnings(suite)
    assert places(found) == [of_suite, *of_cases]
    assert "the suite's own follow-up" in found[1]["message"]
    # A case that tries all of them reaches the suite's, too.
    suite["evals"][0]["followups"] = "all"
    assert places(project.warnings(suite)) == of_cases[1:]
    # An `or` of the suite's may have passed when the level failed.
    suite["checks"] = {"or": [MATCH, asking("suite")]}
    assert project.warnings(suite) == []


@spec("C24", "P18", "P25")
def test_the_suites_follow_up_comes_before_those_of_rows(project: Project) -> None:
    rows = [{"prompt": "q", "checks": [MATCH, asking("own")]}, {"prompt": "q", "checks": [MATCH], "followups": "first"}]
    project.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    suite: dict[str, Any] = {"checks": [MATCH, asking("suite"), asking("later")], "cases": "rows.jsonl"}
    assert places(project.warnings(suite)) == [("unreachable-followup", "checks[2].prompt")]
    files = {file["path"]: places(file["warnings"]) for file in project.validate("evals.yaml")["files"]}
    assert files["rows.jsonl"] == [("unreachable-followup", "cases[0].checks[1].prompt")]
    project.write("rows.jsonl", json.dumps({**rows[0], "followups": "all"}) + "\n")
    assert [file["warnings"] for file in project.validate("evals.yaml")["files"]] == [[]]


@spec("P18")
def test_a_case_that_nothing_grades_is_refused(project: Project) -> None:
    case: dict[str, Any] = {"prompt": "q"}
    assert [(one["code"], one["path"]) for one in project.errors({"evals": [case]})] == [
        ("missing-field", "evals[0].checks")
    ]
    assert project.errors({"evals": [{**case, "outcome": "o"}]}) == []
    assert project.errors({"evals": [case], "checks": [MATCH]}) == []
    evaluators = {"evaluators": [{"name": "n", "type": "llm_judge"}]}
    assert project.errors({"evals": [{**case, "execution": evaluators}]}) == []
    assert project.errors({"evals": [case], "execution": evaluators}) == []
    assert project.errors({"evals": [{**case, **evaluators}]}) == []
    assert codes(project.errors({"evals": [{**case, "evaluators": []}]})) == ["missing-field"]


@spec("P18")
def test_level_zero_is_suite_checks_then_own_checks_then_evaluators(project: Project) -> None:
    project.write(
        "evals.yaml",
        {
            "checks": [{"max_words": 9, "every_turn": True}],
            "execution": {"evaluators": [{"name": "file", "type": "code", "script": "x"}]},
            "evals": [
                {"prompt": "a", "checks": [MATCH]},
                {"prompt": "b", "execution": {"evaluators": [{"name": "own", "type": "llm_judge"}]}},
                {"prompt": "c", "outcome": "o", "execution": {"evaluators": []}},
            ],
        },
    )
    suite = rejoinder.load("evals.yaml")
    kinds = [[type(item.check).__name__ for item in case.level.items] for case in suite.cases]
    assert kinds == [["MaxWords", "Match", "Code"], ["MaxWords", "LlmJudge"], ["MaxWords", "LlmJudge"]]
    assert all(case.level.items[0].check and case.level.items[0].check.every_turn for case in suite.cases)


@spec("P20", "P22")
def test_all_errors_of_a_file_come_in_document_order(project: Project) -> None:
    errors = project.errors(
        "metadata:\n  nam: x\nevals:\n  - prompt: q\n    checks:\n      - mtch: a\n      - match: 4\n"
        "  - prompt: ''\n    checks: []\n  - input_messages:\n      - role: usr\n        content: hi\n    outcome: o\n"
        "bogus: 1\n"
    )
    assert [(one["code"], one["line"], one["column"]) for one in errors] == [
        ("unknown-key", 2, 3),
        ("unknown-check", 6, 9),
        ("wrong-type", 7, 16),
        ("empty-prompt", 8, 13),
        ("empty-checks", 9, 13),
        ("bad-role", 11, 15),
        ("unknown-key", 14, 1),
    ]


@spec("P22")
def test_the_suggestion_quotes_a_value_of_the_wrong_type(project: Project) -> None:
    [error] = project.errors("evals:\n  - prompt: q\n    checks:\n      - match: 42\n")
    assert error["suggestion"] == '      - match: "42"'
    [error] = project.errors("evals:\n  - prompt: q\n    checks:\n      - contains_any: [true, x] # adult\n")
    assert error["suggestion"] == '      - contains_any: ["true", x] # adult'
    [error] = project.errors("evals:\n  - prompt: q\n    checks:\n      - min_tokens: '5'\n")
    assert error["suggestion"] == "      - min_tokens: 5"


@spec("P21")
def test_unknown_keys_name_the_nearest_known_one(project: Project) -> None:
    error, *_ = project.errors("evals:\n  - promt: q\n    outcome: o\n")
    assert "did you mean `prompt`" in error["message"]
    assert error["suggestion"] == "  - prompt: q"
    # Where the right key is there already, the line would only make it stand twice.
    [error] = project.errors("evals:\n  - promt: q\n    prompt: q\n    outcome: o\n")
    assert "did you mean `prompt`" in error["message"]
    assert "suggestion" not in error


@spec("P22")
def test_every_syntax_error_of_a_file_is_found_in_one_pass(project: Project) -> None:
    errors = project.errors(
        'evals:\n  - prompt: Hint: try\n    checks:\n      - match: *a*\n      - match: "*b*"\n'
        "  - prompt: It says: no\n    outcome: o\n"
    )
    assert [(one["code"], one["line"], one["column"], one["suggestion"]) for one in errors] == [
        ("yaml-syntax", 2, 17, '  - prompt: "Hint: try"'),
        ("yaml-syntax", 4, 16, '      - match: "*a*"'),
        ("yaml-syntax", 6, 20, '  - prompt: "It says: no"'),
    ]


@spec("P22")
@pytest.mark.parametrize(
    ("text", "line", "column", "suggestion"),
    [
        ("a: *72*\n", 1, 4, 'a: "*72*"'),
        ("a:\n\t- b\n", 2, 1, "  - b"),
        ("a: @[User] hi\n", 1, 4, 'a: "@[User] hi"'),
        ('a: "open\nb: c\n', 1, 4, 'a: "open"'),
        ("a: 'it's'\n", 1, 8, 'a: "it\'s"'),
        ("a: {{ name }} is\n", 1, 4, 'a: "{{ name }} is"'),
        ("a: {{ name }}\n", 1, 4, 'a: "{{ name }}"'),
        ("a: [1, 2\nb: 3\n", 1, 4, "a: [1, 2]"),
        ('a: "\\d+"\n', 1, 5, "a: '\\d+'"),
        ("a: - b\n", 1, 4, 'a: "- b"'),
        ("- prompt: hi\n  checks\n  - match: a\n", 2, 3, "  checks:"),
        ("a: b\n---\nc: d\n", 2, 1, None),
        ("a: C:\\dir: x\n", 1, 10, 'a: "C:\\\\dir: x"'),
    ],
)
def test_syntax_errors(project: Project, text: str, line: int, column: int, suggestion: str | None) -> None:
    error = project.errors(text)[0]
    assert (error["code"], error["line"], error["column"]) == ("yaml-syntax", line, column)
    assert error.get("suggestion") == suggestion


PERU = "evals:\n  - id: peru\n    prompt: q\n    "


@spec("P22")
@pytest.mark.parametrize(
    ("text", "line", "column", "suggestion"),
    [
        # Quotes that are closed by the next one
        ('a: "open\nb:\n  - c: "*d*"\n', 1, 4, 'a: "open"'),
        ('a: "open\nb: x\nc: "d"\n', 1, 4, 'a: "open"'),
        ("a: 'open\nb: 'd'\n", 1, 4, "a: 'open'"),
        # Tabs
        ("evals:\n  - id: a\n\tprompt: b\n    outcome: c\n", 3, 1, "    prompt: b"),
        ("a: |\n\tb\n", 2, 1, "  b"),
        ("a: |\n    b\n\tc\n", 3, 1, "    c"),
        ("evals:\n\t- id: a\n\t  prompt: b\n", 2, 1, "  - id: a"),
        ("evals:\n  -\tid: a\n    prompt: b\n", 2, 4, "  - id: a"),
        # Spaces and colons that are missing
        ("evals:\n  - id:peru\n    prompt: q\n", 2, 8, "  - id: peru"),
        ("evals:\n  - id: peru\n    prompt:What?\n    outcome: o\n", 3, 12, "    prompt: What?"),
        ("evals:\n  -id: a\n    prompt: b\n", 2, 4, "  - id: a"),
        ("checks:\n  - match: a\n  -match: b\n", 3, 4, "  - match: b"),
        ("evals\n  - id: a\n    prompt: b\n", 1, 1, "evals:"),
        # Lists and mappings are not turned into text
        (PERU + "checks: - match: a\n", 4, 13, None),
        (PERU + "checks: [{match: a: b}]\n", 4, 23, '    checks: [{match: "a: b"}]'),
        (PERU + "checks: [{contains_any: [*a*, *b*]}]\n", 4, 30, '    checks: [{contains_any: ["*a*", "*b*"]}]'),
        (PERU + "tags: [a] b\n", 4, 15, None),
        # Backslashes
        ('a: "\\d+"  # digits\n', 1, 5, "a: '\\d+'  # digits"),
        ('a: "it\'s \\d+"\n', 1, 10, 'a: "it\'s \\\\d+"'),
        ('a: "C:\\Users"\n', 1, 7, "a: 'C:\\Users'"),
        # Text that begins like something else
        ("prompt: [System] be brief\n", 1, 18, 'prompt: "[System] be brief"'),
        ("prompt: {name} is here\n", 1, 16, 'prompt: "{name} is here"'),
        ('tags:\n  - "Lima" or Callao\n', 2, 12, '  - "\\"Lima\\" or Callao"'),
        ("prompt: [be brief\noutcome: o\n", 1, 9, 'prompt: "[be brief"'),
        ("prompt: | hello\n", 1, 11, None),
        ("prompt: & what\n", 1, 9, 'prompt: "& what"'),
        ("prompt: , what\n", 1, 9, 'prompt: ", what"'),
        ("prompt: } x\n", 1, 9, 'prompt: "} x"'),
        ("match: !important\n", 1, 8, 'match: "!important"'),
        # Text over several lines
        ("prompt: This is\n  a note: long\n", 2, 9, None),
        ("- id: a\n  prompt: This is\n   checks: b\n", 3, 4, "  checks: b"),
        ("- id: a\n  prompt:\n  This is text.\n  outcome: o\n", 3, 3, None),
        ("- id: a\n  prompt: This is\n  text.\n  outcome: o\n", 3, 3, None),
        # And the rest
        ("- <<: *base\n", 1, 7, None),
        ("```yaml\nevals: []\n```\n", 1, 1, None),
        ("evals:\n  - id: a\n\xa0\xa0\xa0\xa0prompt: b\n", 3, 1, "    prompt: b"),
        ("[", 1, 1, "[]"),
    ],
)
def test_common_mistakes(project: Project, text: str, line: int, column: int, suggestion: str | None) -> None:
    error = project.errors(text)[0]
    assert (error["code"], error["line"], error["column"]) == ("yaml-syntax", line, column)
    assert error.get("suggestion") == suggestion
    assert "this is not valid YAML" not in error["message"], "the cause is said in words"


@spec("P22")
def test_tags_of_yaml_are_named_in_words(project: Project) -> None:
    [error] = project.errors("evals: !!int abc\n")
    assert error["message"] == "`abc` is not a whole number"


SEED_BLOCK = (
    "input_messages:\n  - role: system\n    content: You are a debugging expert.\n  - role: user\n"
    "    content: Here it is: [code snippet]\n"
)


@spec("C35")
def test_the_broken_examples_of_the_first_documents_are_explained(project: Project) -> None:
    [error] = project.errors(SEED_BLOCK)
    assert (error["line"], error["column"]) == (5, 24)
    assert error["suggestion"] == '    content: "Here it is: [code snippet]"'
    assert "may not contain ': '" in error["message"]
    [error] = project.errors("raw_request:\n  question: a\nraw_request:\n  question_toon: b\n")
    assert (error["code"], error["line"], error["key"], error["first_line"]) == ("duplicate-key", 3, "raw_request", 1)
    hint = "evals:\n  - prompt: x\n    checks:\n      - match: a\n      - prompt: Hint: 15 * 7 = 10*7 + 5*7. So?\n"
    [error] = project.errors(hint)
    assert (error["line"], error["column"]) == (5, 21)


@spec("P21")
def test_x_keys_are_allowed_anywhere(project: Project) -> None:
    suite = {
        "x-a": 1,
        "metadata": {"x-b": {"c": 1}},
        "evals": [{"prompt": "q", "x-d": 1, "checks": [{**MATCH, "x-e": 1}], "execution": {"x-f": 1}}],
        "formatting": {"x-g": 1},
        "targets": [{"name": "t", "provider": "scripted", "replies": ["a"], "x-h": 1}],
    }
    assert project.errors(suite) == []
    assert project.run("prompt", "evals.yaml")


def test_conflicting_keys(project: Project) -> None:
    message = {"role": "user", "content": "hi"}
    case = {"prompt": "q", "input_messages": [message], "checks": [MATCH]}
    assert [(one["code"], one["path"]) for one in project.errors({"evals": [case]})] == [
        ("conflicting-keys", "evals[0].input_messages")
    ]
    both = {"evals": [{"prompt": "q", "outcome": "o"}], "evalcases": [{"prompt": "q", "outcome": "o"}]}
    assert "conflicting-keys" in codes(project.errors(both))


@pytest.mark.parametrize(
    ("suite", "path"),
    [
        ({"metadata": {"system_prompt": "a", "systemPrompt": "b"}}, "metadata.systemPrompt"),
        ({"metadata": {"systemPrompt": "a", "system_prompt": "a"}}, "metadata.system_prompt"),
        ({"checks": [{"rubric": [{"criterion": "a", "outcome": "b"}]}]}, "checks[0].rubric[0].outcome"),
        (
            {"checks": [{"rubric": {"criteria": ["s", {"criterion": "a", "score_ranges": [SPAN]}]}}]},
            "checks[0].rubric.criteria[1].score_ranges[0].meaning",
        ),
    ],
)
def test_two_names_for_one_thing(project: Project, suite: dict[str, Any], path: str) -> None:
    [error] = project.errors({**suite, "evals": [{"prompt": "q", "checks": [MATCH]}]})
    assert (error["code"], error["path"]) == ("conflicting-keys", path)
    assert "say the same thing; keep one of them" in error["message"]


def test_a_suite_needs_cases(project: Project) -> None:
    for text in ("metadata: {name: x}\n", "", "# nothing\n"):
        [error] = project.errors(text)
        assert (error["code"], error["path"]) == ("missing-field", "evals")


def test_duplicate_ids(project: Project) -> None:
    case = {"prompt": "q", "outcome": "o"}
    [error] = project.errors(
        "evals:\n  - id: a\n    prompt: q\n    outcome: o\n  - id: a\n    prompt: q\n    outcome: o\n"
    )
    assert (error["code"], error["path"], error["line"], error["first_line"]) == ("duplicate-id", "evals[1].id", 5, 2)
    assert codes(project.errors({"evals": [{**case, "id": "eval-2"}, case]})) == ["duplicate-id"]


@spec("R1")
def test_case_ids_default_to_their_place(project: Project) -> None:
    shown = project.prompts({"evals": [{"prompt": "a", "outcome": "o"}, {"prompt": "b", "outcome": "o", "id": "x"}]})
    assert [one["id"] for one in shown] == ["eval-1", "x"]


# Each mistake once, and what follows from it not at all


def test_empty_items_are_refused_like_any_other(project: Project) -> None:
    assert [(one["code"], one["path"]) for one in project.errors("evals:\n  -\n  - 5\n")] == [
        ("wrong-type", "evals[0]"),
        ("wrong-type", "evals[1]"),
    ]
    assert codes(project.errors("{}")) == ["missing-field"]


@spec("P15")
def test_every_missing_variable_of_a_string_is_named(project: Project) -> None:
    errors = project.errors({"vars": {"a": 1}, "evals": [{"prompt": "{{ x }} {{ y }} {{ x }}", "outcome": "o"}]})
    assert [one["message"].partition(";")[0] for one in errors] == [
        "there is no variable `x`",
        "there is no variable `y`",
    ]


def test_an_empty_conversation_is_reported_unless_an_error_says_why(project: Project) -> None:
    def warnings(*content: Any) -> list[str]:
        message = {"role": "user", "content": list(content)}
        found = project.warnings({"evals": [{"input_messages": [message], "outcome": "o"}]})
        return [one["message"] for one in found]

    project.write("a.instructions.md", "Be kind.")
    assert warnings("") == ["this conversation is empty; nothing would be sent"]
    assert warnings({"type": "file", "value": "a.instructions.md"}) == [
        "only guidelines are left to send; add the question as text"
    ]
    assert warnings({"type": "file", "value": "gone.md"}) == []
    assert project.warnings({"evals": [{"prompt": "{{ e }}", "vars": {"e": ""}, "outcome": "o"}]}) == []


def test_a_misspelt_evals_is_one_error(project: Project) -> None:
    for key in ("eval", "tests"):
        [error] = project.errors(f"{key}:\n  - prompt: q\n    outcome: o\n")
        assert (error["code"], error["suggestion"]) == ("unknown-key", "evals:")


def test_text_with_a_colon_among_the_parts_of_a_message_is_one_error(project: Project) -> None:
    message = {"role": "user", "content": [{"Note": "review this."}]}
    [error] = project.errors({"evals": [{"input_messages": [message], "outcome": "o"}]})
    assert (error["code"], error["path"]) == ("wrong-type", "evals[0].input_messages[0].content[0]")


def test_wrong_words_are_replaced_in_the_suggestion(project: Project) -> None:
    text = "evals:\n  - input_messages:\n      - {role: human, content: hi}\n    checks:\n      - match: a\n        "
    assert [one["suggestion"] for one in project.errors(text + "required: yes\n")] == [
        "      - {role: user, content: hi}",
        "        required: true",
    ]


@spec("P19")
def test_positions_in_a_regular_expression_do_not_count_its_flags(project: Project) -> None:
    checks = [{"regex": {"pattern": "ab(", "flags": "imsx"}}, {"regex": "*Lima*"}, {"regex": "(?V0)(?V1)"}]
    first, second, third = project.errors({"evals": [{"prompt": "q", "checks": checks}]})
    assert first["message"].endswith("missing ) at position 3")
    assert second["message"] == "'*Lima*' is a pattern of `match`, not of `regex`"
    assert third["code"] == "invalid-regex"


def test_a_pipe_is_refused_and_not_waited_for(project: Project) -> None:
    os.mkfifo("pipe.yaml")
    [file] = project.validate("pipe.yaml")["files"]
    assert [(one["code"], one["message"]) for one in file["errors"]] == [
        ("unreadable-file", "'pipe.yaml' is a pipe or a device; name a file")
    ]


def test_names_of_near_files_are_proposed(project: Project) -> None:
    project.write("docs/Notes.md", "x")
    parts = [{"type": "file", "value": name} for name in ("docs/notes.md", "docs\\x.md", "")]
    suite = {"evals": [{"input_messages": [{"role": "user", "content": parts}], "outcome": "o"}]}
    assert [one["message"] for one in project.errors(suite)] == [
        "there is no file 'docs/notes.md' in this folder; did you mean `docs/Notes.md`?",
        "there is no file 'docs\\x.md' in this folder",
        "the path is empty",
    ]
    [file] = project.validate("evls.yaml")["files"]
    assert "did you mean `evals.yaml`?" in file["errors"][0]["message"]


# Text on a terminal


def test_long_lists_and_long_lines_are_cut_in_text_only(project: Project) -> None:
    long = "word " * 60
    cases = f"  - prompt: ''\n    outcome: {long}\n" * 60
    project.write("evals.yaml", f"evals:\n{cases}target: scripted/x\n")
    shown = project.run("validate", code=2)
    assert shown.count("error[empty-prompt]") == 50
    assert "... and 10 more" in shown
    assert len(project.validate()["files"][0]["errors"]) == 60
    [error] = project.errors(f"evals:\n  - prompt: Hint: {long}\n")
    assert long.strip() in error["suggestion"]
    assert max(map(len, project.run("validate", code=2).splitlines())) <= 100


def test_problems_of_whole_files_have_no_line(project: Project) -> None:
    assert project.run("validate", "nowhere.yaml", code=2).splitlines()[0] == "error[file-not-found] nowhere.yaml"


# YAML 1.2


def test_yaml_means_what_version_1_2_says(project: Project) -> None:
    text = (
        "vars: {a: no, b: on, c: 2024-01-15, d: 010, e: 1_000, f: 12:30:45, g: 1e3, h: 0o10, i: ~, j: yes}\n"
        "evals:\n  - prompt: '{{a}} {{b}} {{c}} {{d}} {{e}} {{f}} {{g}} {{h}} [{{i}}] {{j}}'\n    outcome: o\n"
    )
    [shown] = project.prompts(text)
    assert shown["question"] == "no on 2024-01-15 10 1_000 12:30:45 1000.0 8 [] yes"


def test_anchors_and_merges_are_accepted(project: Project) -> None:
    text = (
        "x-base: &base\n  outcome: Polite.\n  tags: [a]\nevals:\n  - <<: *base\n    prompt: q\n"
        "  - <<: *base\n    prompt: r\n    outcome: Rude.\n"
    )
    project.write("evals.yaml", text)
    assert [case.outcome for case in rejoinder.load("evals.yaml").cases] == ["Polite.", "Rude."]


# The schema as a product


def test_the_schema_is_the_validator(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = {"evals": [{"prompt": "q", "checks": [MATCH], "tags": ["a"]}]}
    assert project.errors(suite) == []
    smaller = copy.deepcopy(schema.read_schema())
    del smaller["$defs"]["case"]["properties"]["tags"]
    for item in ("checkItem", "conversationItem"):
        del smaller["$defs"][item]["properties"]["match"]
    monkeypatch.setattr(schema, "read_schema", lambda: smaller)
    caches = (schema._validator, schema.check_names, schema.case_keys)
    for cache in caches:
        cache.cache_clear()
    try:
        assert [(one["code"], one["path"]) for one in project.errors(suite)] == [
            ("unknown-check", "evals[0].checks[0].match"),
            ("unknown-key", "evals[0].tags"),
        ]
    finally:
        for cache in caches:
            cache.cache_clear()


def test_the_printed_schema_is_the_one_in_use(project: Project) -> None:
    assert json.loads(project.run("schema")) == schema.read_schema()
    for kind in ("targets", "config"):
        printed = json.loads(project.run("schema", kind))
        assert printed["$defs"] == schema.read_schema()["$defs"]


def test_the_schema_is_valid_by_its_own_draft() -> None:
    from jsonschema_rs import meta

    for kind in ("suite", "targets", "config"):
        meta.validate(schema.schema_for(kind))  # type: ignore[arg-type]


# Formats


def test_sarif(project: Project) -> None:
    project.write("evals.yaml", "evals:\n  - prompt: q\n    checks:\n      - regex: 42\ntarget: scripted/x\n")
    log = json.loads(project.run("validate", "--format", "sarif", code=2))
    [run] = log["runs"]
    [result] = run["results"]
    assert (log["version"], run["tool"]["driver"]["name"]) == ("2.1.0", "rejoinder")
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["wrong-type"]
    assert (result["ruleId"], result["level"]) == ("wrong-type", "error")
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "evals.yaml"
    assert location["region"] == {"startLine": 4, "startColumn": 16, "endLine": 4}
    assert result["partialFingerprints"]["rejoinder/v1"]


def test_folders_are_searched_for_suites(project: Project) -> None:
    project.write("a/one.yaml", {"evals": [{"prompt": "q", "outcome": "o"}]})
    project.write("a/b/two.yml", {"evalcases": [{"prompt": "q"}]})
    project.write("a/compose.yaml", "services: {}\n")
    project.write("a/.hidden/three.yaml", {"evals": 4})
    report = project.validate("a")
    assert [(file["path"], codes(file["errors"])) for file in report["files"]] == [
        ("a/b/two.yml", ["missing-field"]),
        ("a/one.yaml", []),
    ]
    assert "passed over 1 YAML file" in project.invoke("validate", "a").stderr


def test_without_a_path_the_suite_of_the_folder_is_taken(project: Project) -> None:
    result = project.invoke("validate")
    assert isinstance(result.exception, rejoinder.UsageError)
    project.write("eval.yml", {"evals": [{"prompt": "q", "outcome": "o"}]})
    assert project.validate()["files"][0]["path"] == "eval.yml"
    assert project.run("prompt")


def test_a_file_that_does_not_exist(project: Project) -> None:
    [file] = project.validate("nowhere.yaml")["files"]
    assert codes(file["errors"]) == ["file-not-found"]
    project.run("prompt", "nowhere.yaml", code=2)


def test_exit_codes(project: Project) -> None:
    project.write("bad.yaml", {"evals": [{"prompt": "q"}]})
    project.write("warned.yaml", {"evals": [{"prompt": "@[User]: hi", "outcome": "o"}]})
    project.write(
        "missing.yaml",
        {
            "evals": [
                {
                    "input_messages": [
                        {
                            "role": "user",
                            "content": [{"type": "text", "value": "x"}, {"type": "file", "value": "gone.md"}],
                        }
                    ],
                    "outcome": "o",
                }
            ]
        },
    )
    project.run("validate", "bad.yaml", code=2)
    project.run("validate", "warned.yaml", code=0)
    project.run("validate", "--strict", "warned.yaml", code=2)
    project.run("validate", "missing.yaml", code=2)
    project.run("prompt", "missing.yaml", code=0)
    project.run("prompt", "warned.yaml", "--judge", code=2)


def test_one_case_can_be_chosen(project: Project) -> None:
    suite = {"evals": [{"prompt": "a", "outcome": "o", "id": "first"}, {"prompt": "b", "outcome": "o"}]}
    assert [one["id"] for one in project.prompts(suite, "--case", "eval-2")] == ["eval-2"]
    result = project.invoke("prompt", "evals.yaml", "--case", "frst")
    assert isinstance(result.exception, rejoinder.UsageError)
    assert "first" in str(result.exception)


def test_load_gives_the_suite_or_every_problem(project: Project) -> None:
    project.write("evals.yaml", {"metadata": {"name": "n"}, "evals": [{"prompt": "q", "checks": [MATCH]}]})
    suite = rejoinder.load("evals.yaml")
    assert (suite.name, [case.id for case in suite.cases]) == ("n", ["eval-1"])
    project.write("evals.yaml", {"evals": [{"prompt": "q", "checks": [{"mtch": 1}]}, {"prompt": ""}]})
    with pytest.raises(rejoinder.SuiteError) as caught:
        rejoinder.load("evals.yaml")
    assert [problem.code for problem in caught.value.problems] == ["unknown-check", "missing-field", "empty-prompt"]
    assert "evals.yaml:1:" in str(caught.value)


# One fault does not hide another, nor does it make any up.


def places(errors: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["code"], one["path"]) for one in errors]


@spec("P20")
def test_a_broken_part_does_not_hide_the_other_errors_of_its_case(project: Project) -> None:
    missing = 'q {{ var("zz") }}'
    checks = [{"mtch": "x"}, {"regex": "("}, {"match": 1, "prompt": missing, "checks": [{"regex": "["}, {"x": 1}]}]
    messages = [{"role": "user", "content": [{"type": "file"}, missing]}, {"role": "usr", "content": missing}]
    suite = {"evals": [{"prompt": missing, "checks": checks}, {"input_messages": messages, "outcome": "o"}]}
    assert places(project.errors(suite)) == [
        ("missing-variable", "evals[0].prompt"),
        ("unknown-check", "evals[0].checks[0].mtch"),
        ("invalid-regex", "evals[0].checks[1].regex"),
        ("wrong-type", "evals[0].checks[2].match"),
        ("missing-variable", "evals[0].checks[2].prompt"),
        ("invalid-regex", "evals[0].checks[2].checks[0].regex"),
        ("unknown-check", "evals[0].checks[2].checks[1].x"),
        ("missing-field", "evals[1].input_messages[0].content[0].value"),
        ("missing-variable", "evals[1].input_messages[0].content[1]"),
        ("missing-variable", "evals[1].input_messages[1]"),
        ("bad-role", "evals[1].input_messages[1].role"),
    ]


@spec("P20")
@pytest.mark.parametrize("broken", [{"tagz": ["t"]}, {"weird_word": 1}, {"max_turns": 0}, {"checks": [{"mtch": "x"}]}])
def test_a_broken_case_still_has_its_id(project: Project, broken: dict[str, Any]) -> None:
    good = {"id": "a", "prompt": "q", "checks": [MATCH]}
    for cases in ([{**good, **broken}, good], [good, {**good, **broken}]):
        found = project.errors({"evals": cases})
        assert [one for one in places(found) if one[0] == "duplicate-id"] == [("duplicate-id", "evals[1].id")]
        assert len(found) == 2


@spec("P20")
@pytest.mark.parametrize("broken", [{"weird_word": 1}, {"idd": "b"}, {"id": 1}])
def test_a_case_without_a_known_id_takes_no_id(project: Project, broken: dict[str, Any]) -> None:
    good = {"prompt": "q", "checks": [MATCH]}
    assert len(project.errors({"evals": [{**good, **broken}, {**good, "id": "eval-1"}]})) == 1


@spec("P20")
def test_a_broken_row_still_has_its_id(project: Project) -> None:
    rows = [{"id": "a", "prompt": "q", "outcome": "o"}, {"id": "a", "prompt": "q", "outcome": "o", "max_turns": 0}]
    project.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    project.write("evals.yaml", {"cases": "rows.jsonl"})
    [_, rows_file] = project.validate("evals.yaml")["files"]
    assert places(rows_file["errors"]) == [("out-of-range", "cases[1].max_turns"), ("duplicate-id", "cases[1].id")]


@spec("P10", "P12", "P20")
@pytest.mark.parametrize("broken", [{"tagz": ["t"]}, {"max_turns": 0}, {"checks": [{"mtch": "x"}]}])
def test_a_broken_case_is_reviewed(project: Project, broken: dict[str, Any]) -> None:
    marked = {"prompt": "@[User]: hi", "checks": [MATCH], **broken}
    system = {"input_messages": [{"role": "system", "content": "s"}], "checks": [MATCH], **broken}
    suite = {"formatting": {"marker_in_text": "error"}, "evals": [marked, system]}
    assert ("marker-in-text", "evals[0].prompt") in places(project.errors(suite))
    assert places(project.warnings(suite)) == [("no-user-message", "evals[1].input_messages[0]")]
    # What was refused is not said to be missing.
    wrong = {"input_messages": [{"role": "usr", "content": "s"}, {"role": "system", "content": ["a", {"type": "x"}]}]}
    assert project.warnings({"evals": [{**wrong, "checks": [MATCH], **broken}]}) == []


@spec("P20")
def test_one_fault_does_not_hide_what_else_a_case_lacks(project: Project) -> None:
    suite = {
        "evals": [
            {"tagz": ["t"]},
            {"question": "q"},
            {"weird_word": "q"},
            {"prompt": "{{ var('x') }}", "checks": [{"compare": {}}], "note": 1},
            {"input_messages": [{"role": "user", "content": " "}], "checks": [{"match": "{{ var('y') }}"}]},
        ]
    }
    assert places(project.errors(suite)) == [
        ("missing-field", "evals[0].prompt"),
        ("missing-field", "evals[0].checks"),
        ("unknown-key", "evals[0].tagz"),
        ("missing-field", "evals[1].checks"),
        ("unknown-key", "evals[1].question"),
        ("unknown-key", "evals[2].weird_word"),
        ("missing-variable", "evals[3].prompt"),
        ("missing-field", "evals[3].checks[0].compare"),
        ("wrong-type", "evals[3].note"),
        ("missing-variable", "evals[4].checks[0].match"),
    ]
    assert codes(project.warnings(suite)) == ["no-visible-content"]


@spec("P20")
@pytest.mark.parametrize(
    ("broken", "hidden"),
    [
        ({"weird_word": 1}, False),
        ({"nmae": "n"}, False),
        ({"varz": {"x": 1}}, True),
        ({"variables": {"x": 1}}, True),
        ({"params": {"x": 1}}, True),
    ],
)
def test_only_what_may_have_been_vars_hides_missing_variables(
    project: Project, broken: dict[str, Any], hidden: bool
) -> None:
    case = {"prompt": "{{ var('x') }}", "checks": [MATCH]}
    wanted = [] if hidden else [("missing-variable", "evals[0].prompt")]
    for suite in ({**broken, "evals": [case]}, {"evals": [{**case, **broken}]}):
        found = places(project.errors(suite))
        assert [one for one in found if one[0] != "unknown-key"] == wanted
        assert len(found) == len(wanted) + 1


@spec("P20")
@pytest.mark.parametrize(
    ("broken", "code", "path"),
    [
        ({"checks": [{"mtch": "x"}]}, "unknown-check", "checks[0].mtch"),
        ({"check": [MATCH]}, "unknown-key", "check"),
        ({"execution": {"evaluators": [{"type": "x"}]}}, "out-of-range", "execution.evaluators[0].type"),
        ({"defaults": {"checks": "x"}}, "wrong-type", "defaults.checks"),
        ({"default": {"checks": [MATCH]}}, "unknown-key", "default"),
        ({"vars": ["name"], "checks": [MATCH]}, "wrong-type", "vars"),
        ({"defaults": {"vars": ["name"], "checks": [MATCH]}}, "wrong-type", "defaults.vars"),
    ],
)
def test_a_fault_of_the_suite_is_one_error(project: Project, broken: dict[str, Any], code: str, path: str) -> None:
    prompt = "{{ var('name') }}" if "vars" in json.dumps(broken) else "q"
    suite = {**broken, "evals": [{"prompt": prompt}, {"prompt": "q {{ name }}"}]}
    assert places(project.errors(suite)) == [(code, path)]


@spec("P20")
def test_faulty_defaults_do_not_hide_the_errors_of_cases(project: Project) -> None:
    suite = {
        "defaults": {"max_turns": "x", "tags": ["{{ var('t') }}"]},
        "checks": [{"regex": "("}, {"mtch": 1}],
        "evals": [{"prompt": "{{ var('a') }}", "checks": [MATCH]}],
    }
    assert places(project.errors(suite)) == [
        ("wrong-type", "defaults.max_turns"),
        ("missing-variable", "defaults.tags[0]"),
        ("invalid-regex", "checks[0].regex"),
        ("unknown-check", "checks[1].mtch"),
        ("missing-variable", "evals[0].prompt"),
    ]


@spec("P20")
@pytest.mark.parametrize("wrong", [None, 1, "x", [], {}, [1], [{}], {"or": [1]}, {"mtch": 1}, [{"prompt": 1}]])
def test_whatever_is_broken_the_rest_can_be_looked_at(project: Project, wrong: Any) -> None:
    suite: dict[str, Any] = {
        "metadata": {"tags": ["t"]},
        "checks": [MATCH],
        "defaults": {"vars": {"a": 1}, "execution": {"evaluators": [{"type": "code", "script": ["a"]}]}},
        "evals": [
            {"prompt": "q", "checks": [{"not": {"or": [MATCH]}}, {**MATCH, "prompt": "p", "checks": [MATCH]}]},
            {"input_messages": [{"role": "user", "content": ["a"]}], "evaluators": [{"type": "llm_judge"}]},
        ],
    }

    def spots(value: Any) -> list[tuple[Any, Any]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return [(value, key) for key, _ in inner] + [spot for _, one in inner for spot in spots(one)]

    for number in range(len(spots(suite))):
        broken = copy.deepcopy(suite)
        holder, key = spots(broken)[number]
        holder[key] = wrong
        project.errors(broken)


@spec("P21")
def test_a_follow_up_is_refused_however_deep_it_is_negated(project: Project) -> None:
    follow_up = {"prompt": "p", "checks": [MATCH]}
    assert found(project, [{"not": {"or": [MATCH, {"and": [MATCH, follow_up]}]}}]) == [
        ("unknown-key", "checks[0].not.or[1].and[1].prompt")
    ]
    assert found(project, [{"not": {"or": [follow_up]}}]) == [("unknown-key", "checks[0].not.or[0].prompt")]


@spec("P12")
@pytest.mark.parametrize(
    ("messages", "warned"),
    [
        ([{"role": "system", "content": "s"}, {"role": "user", "content": " "}], True),
        ([{"role": "user", "content": " "}, {"role": "assistant", "content": "a"}], True),
        ([{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "file", "value": "g.md"}]}], True),
        ([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], False),
        ([{"role": "user", "content": " "}], False),
    ],
)
def test_a_user_who_says_nothing_is_none(project: Project, messages: list[Any], warned: bool) -> None:
    project.write("g.md", "guideline")
    suite = {"guideline_patterns": ["g.md"], "evals": [{"input_messages": messages, "outcome": "o"}]}
    assert ("no-user-message" in codes(project.warnings(suite))) is warned


@spec("P19")
@pytest.mark.parametrize("number", [".inf", "-.inf", ".nan", "1.0e+400", "1e400"])
def test_infinity_is_out_of_range(project: Project, number: str) -> None:
    case = f"{{prompt: q, threshold: {number}, checks: [{{match: a, weight: {number}}}, {{min_tokens: {number}}}]}}"
    errors = project.errors(f"evals: [{case}]\n")
    assert places(errors) == [
        ("out-of-range", "evals[0].threshold"),
        ("out-of-range", "evals[0].checks[0].weight"),
        ("out-of-range", "evals[0].checks[1].min_tokens"),
    ]
    assert "at least 0 and at most 1" in errors[0]["message"]


@spec("P19", "P22")
@pytest.mark.parametrize(
    ("written", "words", "mended"),
    [
        ("1_000", "`_`", "1000"),
        ("'1_000'", "`_`", "1000"),
        ("'12'", "remove the quotes", "12"),
        ("inf", "not the text 'inf'", None),
    ],
)
def test_texts_that_look_like_numbers(project: Project, written: str, words: str, mended: str | None) -> None:
    [error] = project.errors(f"evals:\n  - prompt: q\n    checks:\n      - min_tokens: {written}\n")
    assert (error["code"], error["path"]) == ("wrong-type", "evals[0].checks[0].min_tokens")
    assert words in error["message"]
    assert error.get("suggestion") == (mended and f"      - min_tokens: {mended}")


@spec("P19")
def test_scripted_verdicts_have_a_type(project: Project) -> None:
    judge = [
        True,
        0.5,
        {"score": 1, "hits": ["h"]},
        {"error": "e", "retryable": True},
        "raw",
        None,
        [1],
        2,
    ]
    target = scripted("t", "a", judge=judge)
    assert places(project.errors({"targets": [target], "evals": [{"prompt": "q", "checks": [MATCH]}]})) == [
        ("wrong-type", "targets[0].judge[5]"),
        ("wrong-type", "targets[0].judge[6]"),
        ("out-of-range", "targets[0].judge[7]"),
    ]


@spec("P8")
def test_one_file_in_two_spellings_is_validated_once(project: Project) -> None:
    project.write("evals.yaml", {"evals": [{"prompt": "q", "checks": [MATCH]}]})
    project.write("sub/x", "")
    assert len(project.validate("evals.yaml", "sub/../evals.yaml", ".")["files"]) == 1
