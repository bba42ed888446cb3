"""Templates, variables, data sets, targets, the project around a suite, and `init`."""

from __future__ import annotations

import gc
import json
import tempfile
from typing import Any

import msgspec
import pytest

import rejoinder
from rejoinder.model import Case, Quote
from rejoinder.project.dotenv import parse_env
from rejoinder.project.files import Finder
from rejoinder.suite import case_collector, cases
from rejoinder.suite.plans import Course, read_course
from tests.kit import Project, codes, scripted, spec, statuses

OUTCOME = {"outcome": "o"}
OPENAI = {"name": "a", "provider": "openai", "model": "m"}


# Templates


@spec("P15")
def test_functions_are_expanded_in_every_string(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWN", "Oslo")
    monkeypatch.setenv("REJOINDER_SECRET_TOKEN", "s3cret-value")
    project.write(".rejoinder/config.yaml", {"vars": {"product": "Skates"}})
    suite = {
        "metadata": {"system_prompt": "In {{ env('TOWN') }}."},
        "evals": [
            {
                "id": "{{ var('product') }}",
                "prompt": "Sell {{var(\"product\")}} with {{ secret('token') }}",
                "checks": [{"match": "*{{ var('product') }}*"}],
            }
        ],
    }
    [shown] = project.prompts(suite)
    assert shown["id"] == "Skates"
    assert shown["messages"][0]["content"] == "In Oslo."
    # The value of a secret is sent but never shown.
    assert shown["question"] == "Sell Skates with {{ secret('token') }}"
    assert "s3cret-value" not in project.run("prompt", "evals.yaml")
    [case] = rejoinder.load("evals.yaml").cases
    assert case.messages[0].parts[0].text == "Sell Skates with s3cret-value"  # type: ignore[union-attr]


@spec("P15")
def test_variables_may_be_made_of_each_other_in_any_order(project: Project) -> None:
    project.write(".rejoinder/config.yaml", {"vars": {"town": "Oslo", "own": "project"}})
    suite_vars = {
        "greeting": "Hello {{ var('who') }}",
        "who": "{{ var('name') }} of {{ var('town') }}",
        "name": "Ada {{ var('n') }}",
        "n": 2,
        "own": "suite over {{ var('own') }}",
        "list": ["{{ var('name') }}", {"k": "{{ var('n') }}"}],
        "text": "{{ name }} stays",
    }
    case_vars = {"b": "{{ var('a') }} {{ var('n') }} {{ var('row') }}", "a": "A", "n": "own {{ var('n') }}", "row": "-"}
    prompt = "{{ greeting }}|{{ own }}|{{ list }}|{{ text }}|{{ b }}|{{ n }}|{{ row }}"
    project.write("rows.jsonl", '{"row": "{{ var(\'a\') }}"}\n')
    wanted = 'Hello Ada 2 of Oslo|suite over project|["Ada 2",{"k":"2"}]|{{ name }} stays|A own 2 '
    for keys in (sorted(suite_vars), sorted(suite_vars, reverse=True)):
        case = {"prompt": prompt, "vars": case_vars, **OUTCOME}
        suite = {"vars": {key: suite_vars[key] for key in keys}, "evals": [case, {**case, "cases": "rows.jsonl"}]}
        alone, row = project.prompts(suite)
        assert alone["question"] == f"{wanted}-|own 2|-"
        assert row["question"] == f"{wanted}{{{{ var('a') }}}}|own 2|{{{{ var('a') }}}}", "rows are data"


@spec("P15")
@pytest.mark.parametrize(
    ("given", "place", "words"),
    [
        ({"a": "{{ var('a') }}"}, "a", "`a` refers to itself; give it a value"),
        (
            {"x": "{{ var('b') }}", "b": "{{ var('c') }}", "c": "{{ var('b') }}"},
            "b",
            "`b` refers to itself, through `c`",
        ),
        ({"c": "{{ var('a') }}", "b": "{{ var('c') }}", "a": ["{{ var('b') }}"]}, "c", "through `a` and `b`"),
    ],
)
def test_variables_that_need_themselves_are_refused(
    project: Project, given: dict[str, Any], place: str, words: str
) -> None:
    for suite, at in (({"vars": given}, "vars"), ({"defaults": {"vars": given}}, "defaults.vars")):
        [error] = project.errors(
            {**suite, "evals": [{"prompt": "q {{ var('b') }}" if "b" in given else "q", **OUTCOME}]}
        )
        assert (error["code"], error["path"]) == ("missing-variable", f"{at}.{place}")
        assert words in error["message"]


@pytest.mark.slow
@spec("P15")
def test_variables_that_double_each_other_end(project: Project) -> None:
    given = {f"v{i}": f"{{{{ var('v{i - 1}') }}}}" * 100 if i else "0123456789" for i in range(40)}
    errors = project.errors({"vars": given, "evals": [{"prompt": "q", **OUTCOME}]})
    assert (errors[0]["code"], errors[0]["path"]) == ("too-large", "vars.v4")
    chain = {f"v{i}": f"{{{{ var('v{i + 1}') }}}}" for i in range(3000)} | {"v3000": "end"}
    [shown] = project.prompts({"vars": chain, "evals": [{"prompt": "{{ v0 }}", **OUTCOME}]})
    assert shown["question"] == "end"


@spec("P15")
def test_missing_ones_are_errors_at_their_place(project: Project) -> None:
    text = (
        "target: scripted/x\nevals:\n  - prompt: \"{{ var('a') }}\"\n"
        "    checks:\n      - match: \"{{ secret('b') }}\"\n"
        "      - prompt: \"{{ env('REJOINDER_NO_SUCH') }}\"\n        checks:\n          - match: x\n"
    )
    errors, warnings = project.errors(text), project.warnings(text)
    assert [(one["code"], one["path"], one["line"]) for one in (*errors, *warnings)] == [
        ("missing-variable", "evals[0].prompt", 3),
        ("missing-secret", "evals[0].checks[0].match", 5),
        ("missing-environment", "evals[0].checks[1].prompt", 6),
    ]


@spec("P15")
def test_names_are_expanded_only_in_cases_with_variables(project: Project) -> None:
    suite: dict[str, Any] = {
        "evals": [
            {"prompt": "{{ name }} stays", **OUTCOME},
            {"prompt": "{{ name }} and {{  n  }}", "vars": {"name": "{{ n }}", "n": 3}, **OUTCOME},
        ]
    }
    assert [one["question"] for one in project.prompts(suite)] == ["{{ name }} stays", "{{ n }} and 3"]
    suite["evals"][1]["prompt"] = "{{ nme }}"
    [error] = project.errors(suite)
    assert error["code"] == "missing-variable"
    assert "did you mean `name`" in error["message"]


@spec("P15")
def test_everything_else_in_braces_is_text(project: Project) -> None:
    prompt = "{{ 1 + 1 }} {{ var(x) }} {% if %} {{}} {{ name | upper }} {{ var('a }} {name}"
    [shown] = project.prompts({"evals": [{"prompt": prompt, "vars": {"name": "n"}, **OUTCOME}]})
    assert shown["question"] == prompt


@spec("P15")
def test_attached_files_are_never_expanded(project: Project) -> None:
    project.write("a.txt", "{{ var('x') }} {{ name }}")
    message = {"role": "user", "content": [{"type": "file", "value": "{{ name }}.txt"}]}
    [shown] = project.prompts({"evals": [{"input_messages": [message], "vars": {"name": "a"}, **OUTCOME}]})
    assert "{{ var('x') }} {{ name }}" in shown["question"]


@spec("P15")
def test_follow_ups_keep_their_quotes_apart_from_variables(project: Project) -> None:
    project.write(
        "evals.yaml",
        {
            "evals": [
                {
                    "prompt": "q {{ response }}",
                    "vars": {"trap": "{{ response }}", "response": "var"},
                    "checks": [
                        {"match": "*a*"},
                        {
                            "prompt": "You said {{ response }}, then {{response(2)}}: {{ failed }} {{ trap }}",
                            "checks": [{"match": "x"}],
                        },
                    ],
                }
            ]
        },
    )
    [case] = rejoinder.load("evals.yaml").cases
    follow_up = case.level.items[1].follow_up
    assert follow_up is not None
    assert follow_up.prompt == (
        "You said ",
        Quote("response"),
        ", then ",
        Quote("response", 2),
        ": ",
        Quote("failed"),
        " {{ response }}",
    )
    assert case.messages[0].parts[0].text == "q var"  # type: ignore[union-attr]


@spec("P15")
def test_what_is_empty_after_expansion_is_refused(project: Project) -> None:
    suite = {"vars": {"e": ""}, "evals": [{"prompt": "{{ e }}", "checks": [{"match": "{{ e }}"}]}]}
    assert codes(project.errors(suite)) == ["empty-prompt", "empty-pattern"]


# Data sets


@spec("P15")
def test_rows_of_a_jsonl_file_are_cases(project: Project) -> None:
    rows = [
        {"id": "a", "country": "Italy", "capital": "Rome"},
        {"prompt": "Own {{ country }}", "country": "Peru", "vars": {"capital": "Lima"}, "tags": ["t"]},
        {"country": "Japan", "capital": "Tokyo", "checks": [{"equals": "Tokyo"}]},
    ]
    project.write("rows.jsonl", "\n\n".join(json.dumps(row) for row in rows))
    suite = {"cases": "rows.jsonl", "defaults": {"prompt": "{{country}}?", "checks": [{"match": "*{{ capital }}*"}]}}
    project.write("evals.yaml", suite)
    loaded = rejoinder.load("evals.yaml")
    for _ in range(2):  # it can be walked again
        cases = list(loaded.cases)
        assert [case.id for case in cases] == ["a", "eval-2", "eval-3"]
        patterns = [getattr(case.level.items[0].check, "pattern", "own") for case in cases]
        assert patterns == ["*Rome*", "*Lima*", "own"]
    assert [one["question"] for one in project.prompts(suite)] == ["Italy?", "Own Peru", "Japan?"]


@pytest.mark.parametrize("in_memory", [0, 1_000, 1 << 20])
def test_cases_of_a_data_set_are_the_same_in_memory_and_on_the_disk(
    in_memory: int, project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(case_collector, "IN_MEMORY", in_memory)
    project.write("rows.jsonl", "\n".join(json.dumps({"n": n, "metadata": {"x": [n, 1.0, None]}}) for n in range(9)))
    project.write("evals.yaml", {"cases": "rows.jsonl", "defaults": {"prompt": "{{ n }}?", **OUTCOME}})
    loaded = rejoinder.load("evals.yaml").loaded.cases
    assert isinstance(loaded, case_collector.CaseStore)
    on_disk = [msgspec.json.decode(line, type=Case) for line in loaded.lines()]
    for _ in range(2):
        assert list(loaded) == on_disk
    assert [case.metadata["x"][0] for case in on_disk] == list(range(9))
    assert len(list(folder.iterdir())) == (in_memory < 1 << 20)
    del loaded
    gc.collect()
    assert not list(folder.iterdir())


def test_rows_of_a_csv_file(project: Project) -> None:
    project.write(
        "rows.csv",
        '\ufeffid,prompt,tags,threshold,city\r\nx,"Say ""{{ city }}"",\nplease","a, b",0.5,Rome\r\n,,,,Oslo\r\n',
    )
    suite = {"cases": "rows.csv", "defaults": {"prompt": "Default {{ city }}", "checks": [{"match": "*"}]}}
    project.write("evals.yaml", suite)
    first, second = rejoinder.load("evals.yaml").cases
    assert (first.id, first.tags, first.level.threshold) == ("x", ("a", "b"), 0.5)
    assert first.messages[0].parts[0].text == 'Say "Rome",\nplease'  # type: ignore[union-attr]
    assert (second.id, second.messages[0].parts[0].text) == ("eval-2", "Default Oslo")  # type: ignore[union-attr]


def test_a_case_can_be_run_once_a_row(project: Project) -> None:
    project.write("rows.csv", "id,n\nsmall,1\n,22\n")
    case = {"id": "square", "prompt": "{{ n }} squared?", "checks": [{"match": "*"}], "cases": "rows.csv"}
    shown = project.prompts({"evals": [case, {"prompt": "plain", **OUTCOME}]})
    assert [(one["id"], one["question"]) for one in shown] == [
        ("square-small", "1 squared?"),
        ("square-2", "22 squared?"),
        ("eval-2", "plain"),
    ]


def test_a_row_takes_the_place_of_what_the_case_around_it_says(project: Project) -> None:
    rows = [
        {"a": "1", "checks": [{"contains": "nope"}]},
        {"a": "2", "prompt": "y {{ a }}", "tags": ["t"], "threshold": 0.5, "name": "Second"},
        {"vars": {"a": "3"}, "input_messages": [{"role": "user", "content": "z {{ a }}"}], "prompt": ""},
    ]
    project.write("r.jsonl", "\n".join(map(json.dumps, rows)))
    case = {"cases": "r.jsonl", "prompt": "x {{ a }}", "checks": [{"contains": "hi"}]}
    project.write("evals.yaml", {"target": "s", "targets": [scripted("s", "hi")], "evals": [case]})
    cases = rejoinder.load("evals.yaml").cases
    assert [one.messages[-1].parts[0].text for one in cases] == ["x 1", "y 2", "z 3"]  # type: ignore[union-attr]
    assert (cases[1].id, cases[1].name, cases[1].tags, cases[1].level.threshold) == ("eval-1-2", "Second", ("t",), 0.5)
    assert list(statuses(project.run_json("run", code=1)).values()) == ["failed", "passed", "passed"]


def test_a_column_that_the_case_names_is_a_variable(project: Project) -> None:
    project.write("r.csv", "id,name,input,criteria,user\nx,Ann,4 * 2,eight,u\n")
    project.write("ask.txt", "{{ name }}: {{ input }}?")
    checks = [{"contains": "{{ var('criteria') }} {{ user }} {{ id }}"}]
    case = {"id": "c", "cases": "r.csv", "prompt": {"file": "ask.txt"}, "checks": checks}
    project.write("evals.yaml", {"target": "scripted/x", "evals": [case]})
    [loaded] = rejoinder.load("evals.yaml").cases
    assert (loaded.id, loaded.name) == ("c-x", None)
    assert loaded.messages[0].parts[0].text == "Ann: 4 * 2?"  # type: ignore[union-attr]
    assert "'eight u x'" in str(loaded.level)


def test_faults_of_rows_inside_a_case_have_the_row_as_their_place(project: Project) -> None:
    rows = [
        {"prompt": "ok"},
        {"prompt": 4},
        {"checks": [{"mtch": 1}]},
        {"checks": [{"contains": "{{ no }}"}]},
        {"vars": 1},
    ]
    project.write("r.jsonl", "\n".join(map(json.dumps, rows)))
    case = {"cases": "r.jsonl", "prompt": "x", "checks": [{"match": "*"}]}
    project.write("evals.yaml", {"target": "scripted/x", "evals": [case]})
    assert [(code, line) for code, line, _ in files(project)["r.jsonl"]] == [
        ("wrong-type", 2),
        ("unknown-check", 3),
        ("missing-variable", 4),
        ("wrong-type", 5),
    ]
    assert files(project)["evals.yaml"] == []


def test_faults_of_rows_have_the_row_as_their_place(project: Project) -> None:
    project.write(
        "rows.jsonl", '{"prompt": "ok"}\n{"prompt": 4}\n[1]\n{broken\n{"prompt": "x", "checks": [{"mtch": 1}]}\n'
    )
    project.write("evals.yaml", {"cases": "rows.jsonl", "defaults": {"checks": [{"match": "*"}]}})
    report = {file["path"]: file["errors"] for file in project.validate("evals.yaml")["files"]}
    assert report["evals.yaml"] == []
    assert [(one["code"], one["line"]) for one in report["rows.jsonl"]] == [
        ("wrong-type", 2),
        ("wrong-type", 3),
        ("json-syntax", 4),
        ("unknown-check", 5),
    ]


def test_faults_of_csv_files(project: Project) -> None:
    project.write("rows.csv", "prompt,a\nx,1\ny\nz,1,2\n")
    project.write("evals.yaml", {"cases": "rows.csv", "defaults": {"checks": [{"match": "*{{ b }}*"}]}})
    report = {file["path"]: file["errors"] for file in project.validate("evals.yaml")["files"]}
    assert [(one["code"], one["line"]) for one in report["rows.csv"]] == [("csv-syntax", 3), ("csv-syntax", 4)]
    [error] = report["evals.yaml"]
    assert (error["code"], error["path"]) == ("missing-variable", "defaults.checks[0].match")
    assert "line 2 of rows.csv" in error["message"]


def files(project: Project, kind: str = "errors") -> dict[str, list[tuple[str, int, str]]]:
    """What `validate` says about evals.yaml and the files that it names: codes, lines and messages."""
    report = project.validate("evals.yaml")["files"]
    return {file["path"]: [(one["code"], one["line"], one["message"]) for one in file[kind]] for file in report}


@pytest.mark.slow
def test_rows_that_stumble_over_one_line_of_the_suite_give_one_problem(project: Project) -> None:
    project.write("rows.jsonl", "".join(f'{{"c{i % 9}": {i}}}\n' for i in range(3000)))
    suite = {"cases": "rows.jsonl", "defaults": {"prompt": "{{ nope }} {{ neither }}", "checks": [{"match": "*"}]}}
    project.write("evals.yaml", suite)
    assert [(code, message[:31]) for code, _, message in files(project)["evals.yaml"]] == [
        ("missing-variable", "there is no variable `nope`; th"),
        ("missing-variable", "there is no variable `neither`;"),
    ]


def test_warnings_about_rows_have_the_row_as_their_place(project: Project) -> None:
    follow_up = {"prompt": "b", "checks": [{"match": "*"}]}
    rows = [
        {"prompt": "fine"},
        {"prompt": "@[User]: hi"},
        {"input_messages": [{"role": "system", "content": "x"}]},
        {"prompt": "a", "checks": [{"match": "*"}, follow_up, follow_up]},
    ]
    project.write("rows.jsonl", "\n".join(map(json.dumps, rows)))
    suite = {"target": "scripted/x", "cases": "rows.jsonl", "defaults": {"checks": [{"match": "*"}]}}
    project.write("evals.yaml", suite)
    found = files(project, "warnings")
    assert found["evals.yaml"] == []
    assert [(code, line) for code, line, _ in found["rows.jsonl"]] == [
        ("marker-in-text", 2),
        ("no-user-message", 3),
        ("unreachable-followup", 4),
    ]


def test_each_case_is_built_once_for_validation(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from rejoinder.suite.cases import CaseBuilder

    built: list[str] = []
    build = CaseBuilder.build
    monkeypatch.setattr(
        CaseBuilder, "build", lambda self, name, *rest: built.append(name.text) or build(self, name, *rest)
    )
    project.write("rows.csv", "prompt\na\nb\n")
    project.write("evals.yaml", {"cases": "rows.csv", "defaults": OUTCOME})
    assert files(project) == {"evals.yaml": []}
    assert built == ["eval-1", "eval-2"]


def test_rows_share_what_grades_them_where_it_depends_on_none_of_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []

    def read_one(data: Any, *rest: Any) -> Course:
        read.append(data)
        return read_course(data, *rest)

    monkeypatch.setattr(cases, "read_course", read_one)

    def load(checks: Any, *rows: Any) -> list[Any]:
        read.clear()
        project.write("rows.jsonl", "\n".join(map(json.dumps, rows)))
        project.write("evals.yaml", {"target": "scripted/x", "cases": "rows.jsonl", "defaults": {"checks": checks}})
        loaded = rejoinder.load("evals.yaml").cases
        return [[getattr(item.check, "text", None) for item in case.level.items] for case in loaded]

    plain, of_own = {"prompt": "a", "word": "1"}, {"prompt": "b", "word": "2", "checks": [{"contains": "own"}]}
    assert load([{"contains": "x"}], plain, plain, of_own, plain) == [["x"], ["x"], ["own"], ["x"]]
    assert len(read) == 2
    assert load([{"contains": "{{ word }}"}], plain, {**plain, "word": "3"}) == [["1"], ["3"]]
    told = {"prompt": "{{ word }}, really?", "checks": [{"contains": "y"}]}
    load([{"contains": "x"}, told], plain, {**plain, "word": "3"})
    assert len(read) == 2


def test_broken_json_lines_are_explained(project: Project) -> None:
    project.write("evals.yaml", {"cases": "rows.jsonl", "defaults": OUTCOME})
    lines = [
        '{"prompt": "ü",}',
        '{"prompt": "a"',
        '{"prompt": "a", "x": {"b": 1, "b": 2}}',
        r'{"prompt": "\"a\": \"b\":", "y": [{"b": 1}, {"b": 2}]}',
    ]
    project.write("rows.jsonl", "\n".join(lines))
    report = project.validate("evals.yaml")["files"][1]["errors"]
    assert [(one["code"], one["line"], one["column"]) for one in report] == [
        ("json-syntax", 1, 16),
        ("json-syntax", 2, 14),
        ("duplicate-key", 3, 1),
    ]
    assert report[1]["message"].startswith("this line ends before the object is closed")
    assert (report[2]["key"], report[2]["first_line"]) == ("b", 3)
    project.write("rows.jsonl", '[\n  {"prompt": "a"},\n  {"prompt": "b"}\n]\n')
    [(code, line, message)] = files(project)["rows.jsonl"]
    assert (code, line) == ("json-syntax", 1)
    assert "several lines" in message


def test_broken_csv_rows_are_explained(project: Project) -> None:
    project.write("evals.yaml", {"cases": "rows.csv", "defaults": OUTCOME})
    project.write("rows.csv", 'prompt,a\nb\n"c"d,e\nf,g,h\ni,"j\nk\n')
    assert [(line, message.partition(";")[0]) for _, line, message in files(project)["rows.csv"]] == [
        (2, "this row has 1 field and the header has 2"),
        (3, "text follows a closing quote"),
        (4, "this row has 3 fields and the header has 2"),
        (5, "a quote that opens in this row is never closed"),
    ]
    assert '"c"d,e' in project.run("validate", code=2)
    project.write("rows.csv", "prompt;a\nb;c\n")
    [(_, line, message)] = files(project)["rows.csv"]
    assert (line, message) == (1, "the columns are separated by `;`; separate them by commas")


def test_a_data_set_without_rows(project: Project) -> None:
    project.write("rows.csv", "prompt\n")
    [error] = project.errors({"cases": "rows.csv", "defaults": OUTCOME})
    assert (error["code"], error["path"]) == ("missing-field", "cases")


def test_a_missing_data_set(project: Project) -> None:
    [error] = project.errors({"cases": "gone.jsonl"})
    assert (error["code"], error["path"]) == ("file-not-found", "cases")
    project.write("rows.xlsx", "x")
    report = project.validate(str(project.write("evals.yaml", {"cases": "rows.xlsx"}).name))
    assert codes(report["files"][1]["errors"]) == ["unreadable-file"]


def test_defaults_hold_case_keys_and_the_case_wins(project: Project) -> None:
    message = {"role": "user", "content": "m"}
    suite = {
        "defaults": {
            "prompt": "d",
            "tags": ["t"],
            "vars": {"a": 1, "b": 2},
            "checks": [{"match": "*"}],
            "max_turns": 3,
        },
        "evals": [
            {"id": "x"},
            {"prompt": "own {{ a }}{{ b }}", "vars": {"b": 3}},
            {"input_messages": [message], "max_turns": 1},
        ],
    }
    assert [one["question"] for one in project.prompts(suite)] == ["d", "own 13", "m"]
    assert [case.max_turns for case in rejoinder.load("evals.yaml").cases] == [3, 3, 1]


# Targets

SCRIPTED = scripted("s", "a")


def target_of(project: Project, **suite: Any) -> str | None:
    project.write("evals.yaml", {"evals": [{"prompt": "q", **OUTCOME}], **suite})
    [case] = rejoinder.load("evals.yaml").cases
    return next(iter(case.targets), None)


@spec("P28")
def test_the_target_of_a_case_is_the_first_that_is_named(project: Project) -> None:
    names = ("m", "t", "e", "c", "p", "default")
    targets = [{**SCRIPTED, "name": name} for name in names]
    suite: dict[str, Any] = {"targets": targets}
    assert target_of(project, **suite) == "default"
    project.write(".rejoinder/config.yaml", {"target": "p"})
    assert target_of(project, **suite) == "p"
    suite["metadata"] = {"model": "m"}
    assert target_of(project, **suite) == "m"
    suite["target"] = "t"
    assert target_of(project, **suite) == "t"
    suite["execution"] = {"target": "e"}
    assert target_of(project, **suite) == "e"
    suite["evals"] = [{"prompt": "q", **OUTCOME, "execution": {"target": "c"}}]
    assert target_of(project, **suite) == "c"
    [case] = rejoinder.load("evals.yaml", target="s2").cases
    assert case.targets == ("s2",)


@spec("P28")
def test_the_only_target_is_taken(project: Project) -> None:
    assert target_of(project, targets=[SCRIPTED]) == "s"
    assert target_of(project) is None


@spec("P28")
def test_targets_merge_by_name_and_later_files_win(project: Project) -> None:
    def targets(reply: str) -> dict[str, Any]:
        return {"targets": [{**SCRIPTED, "replies": [reply]}, {**SCRIPTED, "name": reply, "replies": [reply]}]}

    project.write(".agentv/targets.yaml", {"$schema": "agentv-targets-v2.2", **targets("agentv")})
    project.write(".rejoinder/targets.yaml", targets("project"))
    given = project.write("given.yaml", targets("given"))
    project.write("evals.yaml", {"target": "s", "evals": [{"prompt": "q", **OUTCOME}]})
    assert rejoinder.load("evals.yaml").targets["s"].settings["replies"] == ["project"]
    suite = rejoinder.load("evals.yaml", targets_file=given)
    assert suite.targets["s"].settings["replies"] == ["given"]
    assert set(suite.targets) == {"s", "agentv", "project", "given"}
    project.write("evals.yaml", {"target": "s", "evals": [{"prompt": "q", **OUTCOME}], **targets("own")})
    assert rejoinder.load("evals.yaml", targets_file=given).targets["s"].settings["replies"] == ["own"]


@spec("P28")
def test_values_are_names_first_then_provider_and_model(project: Project) -> None:
    assert target_of(project, target="scripted/x") == "scripted/x"
    assert target_of(project, target="anthropic/claude") == "anthropic/claude"
    named = {**SCRIPTED, "name": "a/b"}
    assert target_of(project, target="a/b", targets=[named]) == "a/b"
    suite = {"evals": [{"prompt": "q", **OUTCOME}], "target": "gpt", "targets": [{**SCRIPTED, "name": "gpt4"}]}
    [error] = project.errors(suite)
    assert (error["code"], error["path"]) == ("unknown-target", "target")
    assert "did you mean `gpt4`" in error["message"]
    [warning] = project.warnings({"evals": [{"prompt": "q", **OUTCOME}], "metadata": {"model": "meta-llama/l3"}})
    assert (warning["code"], warning["path"]) == ("unknown-provider", "metadata.model")


@spec("P28")
def test_a_broken_file_of_targets_is_no_reason_to_call_a_target_unknown(project: Project) -> None:
    suite: dict[str, Any] = {"target": "gpt", "evals": [{"prompt": "q", **OUTCOME}]}
    broken = {"targets": [{"nme": "gpt", "provider": "scripted"}]}
    project.write(".rejoinder/targets.yaml", broken)
    assert project.errors(suite) == []
    (project.folder / ".rejoinder/targets.yaml").unlink()
    assert "unknown-target" not in codes(project.errors({**suite, **broken}))
    assert codes(project.errors(suite)) == ["unknown-target"]


@spec("P28")
def test_the_judge_that_a_target_names_has_to_be_there(project: Project) -> None:
    suite = {"targets": [{**SCRIPTED, "judge_target": "nobody"}], "evals": [{"prompt": "q", **OUTCOME}]}
    [error] = project.errors(suite)
    assert (error["code"], error["path"]) == ("unknown-target", "targets[0].judge_target")


@spec("P28")
def test_unknown_judges_are_found_too(project: Project) -> None:
    suite = {
        "targets": [SCRIPTED],
        "judge_target": "nobody",
        "evals": [{"prompt": "q", "checks": [{"llm_judge": {"criteria": "c", "target": "noone"}}]}],
    }
    assert [one["path"] for one in project.errors(suite)] == ["judge_target", "evals[0].checks[0].llm_judge.target"]


@spec("P28")
def test_system_prompts_command_line_case_metadata_target(project: Project) -> None:
    target = {**SCRIPTED, "system_prompt": "T"}
    suite: dict[str, Any] = {"targets": [target], "evals": [{"prompt": "q", **OUTCOME}]}
    assert project.prompts(suite)[0]["messages"][0]["content"] == "T"
    suite["metadata"] = {"system_prompt": "M"}
    assert project.prompts(suite)[0]["messages"][0]["content"] == "M"
    suite["evals"][0]["system_prompt"] = "C"
    assert project.prompts(suite)[0]["messages"][0]["content"] == "C"
    assert project.prompts(suite, "--system-prompt", "L")[0]["messages"][0]["content"] == "L"


def test_targets_in_both_of_agentvs_forms(project: Project) -> None:
    flat = {"name": "a", "provider": "azure", "endpoint": "x", "deployment": "d", "api_key": "${{ KEY }}"}
    nested = {"name": "b", "provider": "Azure-OpenAI", "settings": {"resource": "x", "model": "d", "maxTokens": 5}}
    project.write(".agentv/targets.yaml", {"$schema": "agentv-targets-v2.1", "targets": [flat, nested]})
    project.write("evals.yaml", {"target": "b", "evals": [{"prompt": "q", **OUTCOME}]})
    targets = rejoinder.load("evals.yaml").targets
    assert targets["a"].provider == targets["b"].provider == "azure"
    assert targets["b"].settings["model"] == "d"


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ({"name": "a"}, ("missing-field", "targets[0].provider")),
        ({"provider": "scripted"}, ("missing-field", "targets[0].name")),
        ({"name": "a", "provider": "openai"}, ("missing-field", "targets[0].model")),
        ({"name": "a", "provider": "cli"}, ("missing-field", "targets[0].command_template")),
        ({"name": "a", "provider": "python", "call": "nope"}, ("out-of-range", "targets[0].call")),
        ({"name": "a", "provider": "scripted"}, ("missing-field", "targets[0].replies")),
        ({"name": "a", "provider": "openai", "model": "m", "temprature": 1}, ("unknown-key", "targets[0].temprature")),
        ({**OPENAI, "max_tokens": 1, "maxOutputTokens": 2}, ("conflicting-keys", "targets[0].maxOutputTokens")),
        ({**OPENAI, "baseUrl": "http://a", "base_url": "http://b"}, ("conflicting-keys", "targets[0].base_url")),
        ({**OPENAI, "settings": {"apiKey": "a", "api_key": "b"}}, ("conflicting-keys", "targets[0].settings.api_key")),
        ({**OPENAI, "provider": "gemini", "variant": "n"}, ("conflicting-keys", "targets[0].variant")),
        ({**SCRIPTED, "judgeTarget": "s", "judge_target": "s"}, ("conflicting-keys", "targets[0].judge_target")),
        ({**SCRIPTED, "workers": 0}, ("out-of-range", "targets[0].workers")),
        ({**SCRIPTED, "replies": [4]}, ("wrong-type", "targets[0].replies[0]")),
        ({**SCRIPTED, "replies": {"a": "x"}}, ("wrong-type", "targets[0].replies.a")),
        ({**SCRIPTED, "replies": [{"txt": "x"}]}, ("unknown-key", "targets[0].replies[0].txt")),
    ],
)
def test_faults_of_targets(project: Project, target: dict[str, Any], wanted: tuple[str, str]) -> None:
    for name, content in (
        ("evals.yaml", {"evals": [{"prompt": "q", **OUTCOME}], "targets": [target]}),
        (".rejoinder/targets.yaml", {"targets": [target]}),
    ):
        [error] = project.errors(content, name)
        assert (error["code"], error["path"]) == wanted


def test_targets_named_twice_and_unknown_providers(project: Project) -> None:
    [error] = project.errors({"targets": [SCRIPTED, SCRIPTED]}, ".rejoinder/targets.yaml")
    assert (error["code"], error["path"]) == ("duplicate-id", "targets[1].name")
    own = {"targets": [{"name": "a", "provider": "mine", "anything": 1}]}
    assert codes(project.warnings(own, ".rejoinder/targets.yaml")) == ["unknown-provider"]


@spec("P15")
def test_only_targets_that_are_used_need_their_variables(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    other = {"name": "o", "provider": "openai", "model": "m", "api_key": "Bearer ${{ NO_KEY }}"}
    suite: dict[str, Any] = {"targets": [SCRIPTED, other], "target": "s", "evals": [{"prompt": "q", **OUTCOME}]}
    assert project.errors(suite) == []
    suite["target"] = "o"
    assert project.errors(suite) == []
    [warning] = project.warnings(suite)
    assert (warning["code"], warning["path"]) == ("missing-environment", "targets[1].api_key")
    project.write(".env", "NO_KEY=abc")
    assert project.errors(suite) == project.warnings(suite) == []


def test_problems_of_the_projects_files_are_reported_with_the_suite(project: Project) -> None:
    project.write(".rejoinder/targets.yaml", "targets:\n  - nme: x\n")
    project.write(".rejoinder/config.yaml", "guidline_patterns: []\n")
    project.write("evals.yaml", {"evals": [{"prompt": "q", **OUTCOME}]})
    report = {file["path"]: codes(file["errors"]) for file in project.validate("evals.yaml")["files"]}
    assert report == {
        "evals.yaml": [],
        ".rejoinder/config.yaml": ["unknown-key"],
        ".rejoinder/targets.yaml": ["missing-field", "missing-field"],
    }


# The environment


def test_env_files() -> None:
    text = "A=1\nexport B = 'x # y'\r\nC=\"a\\nb\" # note\n# D=1\nE=\nF=plain # note\nG=a=b\nbad line\n"
    assert parse_env(text).values == {"A": "1", "B": "x # y", "C": "a\nb", "E": "", "F": "plain", "G": "a=b"}


def test_env_is_found_upward_and_the_environment_wins(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "environment")
    project.write(".env", "OUTER=file\nMIDDLE=top\nINNER=top\n")
    project.write("a/.env", "INNER=near\n")
    prompt = "{{ env('OUTER') }} {{ env('MIDDLE') }} {{ env('INNER') }}"
    project.write("a/b/evals.yaml", {"evals": [{"prompt": prompt, **OUTCOME}]})
    [shown] = project.run_json("prompt", "a/b/evals.yaml")
    assert shown["question"] == "environment top near"


@spec("P28")
def test_the_projects_root_is_the_nearest_marked_folder(project: Project) -> None:
    project.write("a/.git/HEAD", "x")
    project.write("a/b/evals.yaml", {"evals": [{"prompt": "q", **OUTCOME}]})
    assert rejoinder.load("a/b/evals.yaml").loaded.root == str(project.folder / "a")
    project.write("c/evals.yaml", {"evals": [{"prompt": "q", **OUTCOME}]})
    assert rejoinder.load("c/evals.yaml").loaded.root == str(project.folder)


# AgentV's files


@spec("R55")
def test_an_agentv_file_loads_as_it_is(project: Project) -> None:
    project.write("snippets/a.js", "let x = 1")
    project.write("x/check.js", "")
    project.write("judge.md", "{{ candidate_answer }}")
    project.write(".agentv/config.yaml", {"$schema": "agentv-config-v2", "guideline_patterns": ["**/*.rules.md"]})
    project.write("js.rules.md", "No var.")
    suite = {
        "$schema": "agentv-eval-v2",
        "description": "d",
        "dataset": "js",
        "target": "scripted/x",
        "evaluator": "llm_judge",
        "execution": {"evaluators": [{"name": "q", "type": "llm_judge", "prompt": "judge.md", "model": "m"}]},
        "evalcases": [
            {
                "id": "one",
                "outcome": "o",
                "note": "n",
                "conversation_id": "c-1",
                "input_messages": [
                    {"role": "system", "content": [{"type": "file", "value": "/js.rules.md"}]},
                    {"role": "user", "content": [{"type": "file", "value": "snippets/a.js"}]},
                ],
                "expected_messages": [{"role": "assistant", "content": "e"}],
                "execution": {
                    "evaluators": [
                        {"name": "code", "type": "code", "script": "node check.js", "cwd": "x", "timeout": 5}
                    ]
                },
            }
        ],
    }
    assert project.errors(suite) == []
    [shown] = project.prompts(suite)
    assert shown["question"] == '<file path="snippets/a.js">\nlet x = 1\n</file>'
    assert shown["guidelines"] == "=== /js.rules.md ===\nNo var."
    loaded = rejoinder.load("evals.yaml")
    [case] = loaded.cases
    assert (loaded.name, case.conversation_id) == ("js", "c-1")
    assert getattr(case.level.items[0].check, "script", None) == ("node check.js",)


def test_forms_can_be_mixed(project: Project) -> None:
    message = {"role": "user", "content": "hi"}
    suite = {
        "evals": [
            {"input_messages": [message], "checks": [{"match": "*"}, {"prompt": "again", "checks": [{"match": "*"}]}]},
            {"prompt": "q", "execution": {"evaluators": [{"name": "e", "type": "llm_judge"}]}, "outcome": "o"},
        ]
    }
    assert project.errors(suite) == []


# Completion, help


def test_completion_scripts(project: Project) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_REJOINDER_COMPLETE" in project.run("completion", shell)


def test_help_lists_every_command_and_each_explains_itself(project: Project) -> None:
    from rejoinder.cli.app import COMMANDS

    text = project.run("--help")
    for name, line in COMMANDS.items():
        assert line in text
        assert "Usage:" in project.run(name, "--help")
    assert "rejoinder validate   did you mean this?" in project.invoke("validat").stderr


@pytest.mark.parametrize("option", ["--trst", "--trusts", "--rule", "--rules", "--rules=x"])
def test_no_mistake_leads_to_an_option_that_trusts_more(option: str, project: Project) -> None:
    said = project.invoke("run", "--against", "main", option, "x").stderr
    assert "there is no option" in said
    assert "--trust" not in said.splitlines()[-1]
    assert "rejoinder gate --against NAME --rule RULE" in said or "--rule" not in option


# Corners


@spec("P15")
def test_every_string_of_a_suite_is_expanded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REJOINDER_SECRET_KEY", "s3cret-value")
    project.write("rows.jsonl", '{"n": 1}\n')
    project.write(
        "evals.yaml",
        {
            "vars": {"v": "x"},
            "metadata": {"tags": ["{{ var('v') }}"]},
            "guideline_patterns": ["{{ var('v') }}.md"],
            "targets": [
                {
                    "name": "t",
                    "provider": "openai",
                    "model": "{{ var('v') }} {{ v }} ${{ HOME }}",
                    "api_key": "{{ secret('key') }}",
                }
            ],
            "evals": [{"id": "{{ var('v') }}{{ n }}", "prompt": "q", "cases": "rows.jsonl", **OUTCOME}],
        },
    )
    suite = rejoinder.load("evals.yaml").loaded
    [case] = suite.cases
    assert (case.id, case.tags, suite.formatting.guideline_patterns) == ("x1-1", ("x",), ("x.md",))
    assert suite.targets["t"].settings["model"] == "x {{ v }} ${{ HOME }}"
    assert suite.secrets == {"s3cret-value": "{{ secret('key') }}"}
    target = scripted("t", "{{ var('v') }}")
    [error] = project.errors({"targets": [target], "evals": [{"prompt": "q", **OUTCOME}]})
    assert (error["code"], error["path"]) == ("missing-variable", "targets[0].replies[0]")


@spec("P15", "P17")
def test_a_judges_prompt_keeps_what_it_does_not_know(project: Project) -> None:
    evaluator = {"type": "llm_judge", "prompt": "{{ unknown }} {{ topic }}: {{ candidate_answer }}"}
    case = {"prompt": "q", "vars": {"topic": "{{ candidate_answer }}"}, "evaluators": [evaluator]}
    [shown] = project.prompts({"evals": [case]}, "--judge", "--reply", "R")
    assert shown["judge_prompts"][0]["user"] == "{{ unknown }} {{ candidate_answer }}: R"


@spec("P8")
def test_a_judges_prompt_that_is_a_missing_file(project: Project) -> None:
    def errors(prompt: str) -> list[tuple[str, str]]:
        evaluator = {"type": "llm_judge", "prompt": prompt}
        found = project.errors({"evals": [{"prompt": "q", "evaluators": [evaluator]}]})
        return [(one["code"], one["path"]) for one in found]

    for prompt in ("prompts/judge", "judge.md", "judge.TXT", "judge.prompt"):
        assert errors(prompt) == [("file-not-found", "evals[0].evaluators[0].prompt")]
    assert errors("Is it polite/kind?") == errors("Polite?") == []


@spec("P18")
def test_a_case_wins_over_the_other_form_in_defaults(project: Project) -> None:
    judge = {"type": "llm_judge"}
    project.write(
        "evals.yaml",
        {
            "defaults": {"outcome": "d", "evaluators": [{**judge, "name": "d"}]},
            "evals": [{"prompt": "q", "expected_outcome": "c", "execution": {"evaluators": [{**judge, "name": "c"}]}}],
        },
    )
    project.write(
        "other.yaml",
        {
            "defaults": {"expected_outcome": "d", "execution": {"evaluators": [{**judge, "name": "d"}]}},
            "evals": [{"prompt": "q", "outcome": "c", "evaluators": [{**judge, "name": "c"}]}],
        },
    )
    for name in ("evals.yaml", "other.yaml"):
        [case] = rejoinder.load(name).cases
        assert case.outcome == "c"
        assert [item.check and item.check.name for item in case.level.items] == ["c"]


def test_rows_without_variables_are_cases_without_variables(project: Project) -> None:
    project.write("rows.jsonl", '{"id": 7, "prompt": "{{ mustache }}", "outcome": "o"}\n')
    [shown] = project.prompts({"cases": "rows.jsonl"})
    assert (shown["id"], shown["question"]) == ("7", "{{ mustache }}")


def test_only_what_is_no_text_is_read_as_json_from_cells(project: Project) -> None:
    checks = json.dumps([{"match": "a"}]).replace('"', '""')
    project.write("rows.csv", f'prompt,checks,threshold,tags\n"[1, 2]","{checks}",0.5,"a, b"\n')
    project.write("evals.yaml", {"cases": "rows.csv"})
    [case] = rejoinder.load("evals.yaml").cases
    assert (case.messages[0].parts[0].text, case.level.threshold, case.tags) == ("[1, 2]", 0.5, ("a", "b"))  # type: ignore[union-attr]


@spec("P20")
def test_errors_of_rows_name_the_row_and_are_all_found(project: Project) -> None:
    good = '{"prompt": "q", "outcome": "o"}\n'
    project.write("rows.jsonl", good + '{"prompt": "{{ var(\'a\') }}", "checks": [{"regex": "("}, {"mtch": 1}]}\n')
    project.write("evals.yaml", {"cases": "rows.jsonl"})
    [file] = [file for file in project.validate("evals.yaml")["files"] if file["path"] == "rows.jsonl"]
    assert {(one["code"], one["path"], one["line"]) for one in file["errors"]} == {
        ("missing-variable", "cases[1].prompt", 2),
        ("invalid-regex", "cases[1].checks[0].regex", 2),
        ("unknown-check", "cases[1].checks[1].mtch", 2),
    }


def test_a_hash_in_an_env_file_is_a_comment_after_space_only() -> None:
    text = "A=abc#123\nB=abc # c\nC= # c\nD=#x\nE='a' # c\nF=\"b\"#c\nG=\n# c\nH=a b#c d #e"
    assert parse_env(text).values == {
        "A": "abc#123", "B": "abc", "C": "", "D": "#x", "E": "a", "F": "b", "G": "", "H": "a b#c d"
    }  # fmt: skip


@spec("P8")
def test_a_folder_does_not_hide_a_file_further_up(project: Project) -> None:
    project.write("notes", "file")
    project.write("sub/notes/x", "")
    finder = Finder(project.folder / "sub", project.folder, project.folder)
    assert finder.find("notes") == project.folder / "notes"
    assert finder.find("sub") == project.folder / "sub"


def test_a_finder_forgets_what_was_not_used_for_long(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rejoinder.project.files.MOST_CHARACTERS", 10)
    finder = Finder(project.folder, project.folder, project.folder)
    first, second, third = (project.write(name, name * 4) for name in "abc")
    for path in (first, second, first, third):
        assert finder.read(path) == path.name * 4
    second.write_text("new")
    first.write_text("not seen")
    assert (finder.read(first), finder.read(second)) == ("aaaa", "new")
