"""`rejoinder judge test`: how far a judge agrees with humans, and the passport that runs then print beside its scores.

The judge is a fake server that gives its verdict by the reply it is shown. Figures are computed here once more, from
their definitions.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from math import comb, sqrt
from pathlib import Path
from typing import Any

import pytest

from rejoinder.errors import UsageError
from rejoinder.model.calls import key_kind
from rejoinder.testing import Answer, FakeServer, Fault, Received, judge
from tests.kit import (
    KILLED,
    PATIENCE_S,
    Process,
    Project,
    Raw,
    only_run,
    run_folders,
    run_process,
    scripted,
    spec,
    told_in,
)

Script = Callable[[Received], Any]

Z = 1.959963984540054
CRITERIA = "Does it name the capital?"
ASKED = {"llm_judge": {"criteria": CRITERIA}}
LABELS = "id,prompt,reply,label\na,Capital of Italy?,right: Rome,pass\nb,Capital of Italy?,wrong: Milan,fail\n"


# What a judge is shown, and what it says


def shown(received: Received) -> str:
    return received.body["messages"][1]["content"]


def section(received: Received, name: str) -> str:
    """What stands in a section of the judge's prompt."""
    text = shown(received).partition(f"[[ ## {name} ## ]]\n")[2]
    return text.partition("\n\n[[ ## ")[0]


def reply_in(received: Received) -> str:
    return section(received, "candidate_answer")


def honest(received: Received) -> Answer:
    """Passes the replies that begin with `right`."""
    return judge(float(reply_in(received).startswith("right")), reasoning=f"I read: {reply_in(received)}")


def prefers_first(received: Received) -> str:
    """Looks at the answers only where one of them says `plain`."""
    first, second = section(received, "answer_1"), section(received, "answer_2")
    if "plain" in first or "plain" in second:
        return json.dumps({"better": "1" if "right" in first else "2", "reasoning": "I looked"})
    return json.dumps({"better": "1", "reasoning": "the first one"})


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FakeServer]]:
    """Starts a server that stands for OpenAI and Anthropic."""
    servers: list[FakeServer] = []

    def start(script: Any = honest, **options: Any) -> FakeServer:
        server = FakeServer(script, **options).start()
        servers.append(server)
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-test-0123456789")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-a-test-9876543210")
        return server

    yield start
    for server in servers:
        server.stop()


def suite_with(*checks: Raw, **more: Any) -> Raw:
    """A suite whose candidate is a script and whose judge is the server."""
    return {
        "targets": [
            scripted("candidate", "right: Rome"),
            {"name": "judge", "provider": "openai", "model": "judge-1"},
        ],
        "target": "candidate",
        "execution": {"judge_target": "judge"},
        "evals": [{"id": "italy", "prompt": "Capital of Italy?", "checks": list(checks) or [ASKED]}],
        **more,
    }


def judged(project: Project, *arguments: str, labels: str = "labels.csv", code: int = 0) -> Raw:
    """What `judge test` says as JSON, which stands alone on standard output."""
    return project.run_json("judge", "test", "--labels", labels, *arguments, code=code)


def refused(project: Project, *arguments: str, labels: str = "labels.csv") -> UsageError:
    with pytest.raises(UsageError) as caught:
        project.run("judge", "test", "--labels", labels, *arguments)
    assert caught.value.exit_code == 2
    return caught.value


def problems(project: Project, name: str, content: str | bytes) -> str:
    """What is said of a file of labels that cannot be used."""
    project.write(name, content)
    project.write("evals.yaml", suite_with())
    result = project.invoke("judge", "test", "--labels", name)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert not list((project.folder / ".rejoinder").iterdir()), "nothing is begun with labels that cannot be used"
    return result.stderr


def as_csv(rows: Sequence[Sequence[str]], header: Sequence[str] = ("id", "reply", "label")) -> str:
    lines: list[str] = []

    class Lines:
        write = staticmethod(lines.append)

    csv.writer(Lines()).writerows([header, *rows])
    return "".join(lines)


def table_of(both_pass: int, judge_only: int, human_only: int, both_fail: int) -> str:
    """Labels on which the honest judge agrees with humans so often."""
    kinds = (("right", "pass", both_pass), ("right", "fail", judge_only), ("wrong", "pass", human_only))
    rows = [
        (f"{word}-{label}-{number}", f"{word} {label} {number}", label)
        for word, label, times in (*kinds, ("wrong", "fail", both_fail))
        for number in range(times)
    ]
    return as_csv(rows)


def about(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-12)


def passports_of(project: Project) -> list[Path]:
    return sorted((project.folder / ".rejoinder/passports").iterdir())


def run(project: Project, *arguments: str, code: int | None = 0) -> Raw:
    return project.run_json("run", "evals.yaml", *arguments, code=code)


def judge_lines(text: str) -> list[str]:
    """The lines about judges in a run's summary."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("  judges "))
    end = next(number for number in range(first + 1, len(lines)) if lines[number][2:3].strip())
    return [line.strip() for line in lines[first:end]]


def corrected_lines(text: str) -> list[str]:
    """What is said of corrected pass rates."""
    return [line for line in text.splitlines() if "corrected pass rate" in line]


# Labels


@pytest.mark.slow
def test_labels_as_csv_and_as_jsonl_say_the_same(project: Project, serve: Callable[..., FakeServer]) -> None:
    """Quotes, commas, lines, letters of all kinds, cells that are empty, and a mark at the beginning of the file."""
    server = serve()
    rows: list[Raw] = [
        {"id": "eins", "prompt": 'Say "Rome",\nplease', "reply": 'right: "Rome", of course\nYes.', "label": "pass"},
        {"id": "", "prompt": "", "reply": "wrong: Москва 東京 \N{SLICE OF PIZZA}", "label": "fail"},
        {"id": "drei", "prompt": "Third?", "reply": "", "label": "no"},
    ]
    project.write("evals.yaml", suite_with())
    header = ("id", "prompt", "reply", "label")
    text = as_csv([[row[key] for key in header] for row in rows], header)
    project.write("labels.csv", b"\xef\xbb\xbf" + text.encode())
    project.write("labels.jsonl", "\n\n".join(json.dumps(row) for row in rows) + "\n")
    found = [judged(project, "-w", "1", labels=name) for name in ("labels.csv", "labels.jsonl")]
    bodies = [one.body for one in server.requests]
    assert bodies[:3] == bodies[3:]
    assert [reply_in(one) for one in server.requests[:3]] == [row["reply"] for row in rows]
    assert section(server.requests[0], "question") == rows[0]["prompt"]
    assert section(server.requests[1], "question") == "(not given)"
    assert found[0]["figures"] == found[1]["figures"]
    assert found[0]["labels"]["rows"] == found[0]["labels"]["scored"] == 3
    results = [
        json.loads(line) for line in (run_folders(project.folder)[0] / "results.jsonl").read_text("utf-8").splitlines()
    ]
    assert [result["id"] for result in results] == ["eins", "row-2", "drei"]


def test_every_spelling_of_a_label(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve()
    project.write("evals.yaml", suite_with())
    passes: list[Any] = ["pass", "PASSED", " True ", "yes", "Good", "1", "ok", "correct", True, 1, 1.0, "1.0"]
    fails: list[Any] = ["fail", "Failed", "FALSE", "no", "bad", "0", "wrong", " incorrect", False, 0, 0.0, "0.0"]
    rows = [{"reply": f"right {label!r}", "label": label} for label in (*passes, *fails)]
    project.write("labels.jsonl", "\n".join(map(json.dumps, rows)))
    table = judged(project, labels="labels.jsonl")["figures"]["confusion"]
    assert table == {"both_pass": len(passes), "judge_only": len(fails), "human_only": 0, "both_fail": 0}


@pytest.mark.parametrize(
    ("reply", "label", "prompt", "reference"),
    [
        ("reply", "label", "prompt", "reference"),
        ("candidate_answer", "passed", "question", "reference_answer"),
        ("response", "human", "prompt", "reference"),
    ],
)
def test_columns_have_other_names_too(
    project: Project, serve: Callable[..., FakeServer], reply: str, label: str, prompt: str, reference: str
) -> None:
    server = serve()
    project.write("evals.yaml", suite_with())
    row = {
        reply: "right",
        label: "pass",
        prompt: "Which?",
        reference: "Rome it is",
        "note": "of no interest",
        "question_id": 7,
    }
    project.write("labels.jsonl", json.dumps(row))
    assert judged(project, labels="labels.jsonl")["figures"]["confusion"]["both_pass"] == 1
    [asked] = server.requests
    assert [section(asked, name) for name in ("question", "reference_answer", "candidate_answer")] == [
        "Which?",
        "Rome it is",
        "right",
    ]


WRONG_LABELS: dict[str, tuple[str, str | bytes, list[str]]] = {
    "another word": ("l.csv", "reply,label\nx,maybe\n", ["l.csv:2", "`maybe` is not a label; write pass or fail"]),
    "an empty cell": ("l.csv", "reply,label\nx,\n", ["l.csv:2", "the label is empty; write pass or fail"]),
    "null": ("l.jsonl", '{"reply": "x", "label": null}', ["l.jsonl:1", "the label is empty; write pass or fail"]),
    "a list": ("l.jsonl", '{"reply": "x", "label": ["pass"]}', ['`["pass"]` is not a label']),
    "a number between": ("l.jsonl", '{"reply": "x", "label": 0.5}', ["`0.5` is not a label"]),
    "a column misspelt": ("l.csv", "reply,lable\nx,pass\n", ["no column `lable`; did you mean `label`?"]),
    "an optional one misspelt": ("l.csv", "reply,label,promt\nx,pass,y\n", ["did you mean `prompt`?"]),
    "no reply": ("l.csv", "text,label\nx,pass\n", ["this row has no `reply`; it has text, label"]),
    "nothing at all": ("l.jsonl", "{}", ["this row has no `reply`; it has nothing"]),
    "an id twice": (
        "l.jsonl",
        '{"id": 7, "reply": "x", "label": 1}\n{"id": "7", "reply": "y", "label": 0}',
        ["l.jsonl:2", "duplicate-id", "the id `7` is already used"],
    ),
    "an id that a row without one has": (
        "l.csv",
        "id,reply,label\nrow-2,x,pass\n,y,fail\n",
        ["l.csv:3", "the id `row-2` is already used"],
    ),
    "no UTF-8": ("l.csv", b"reply,label\n\xff\xfe,pass\n", ["'l.csv' is not UTF-8"]),
    "UTF-16": ("l.jsonl", '{"reply": "x", "label": 1}'.encode("utf-16"), ["'l.jsonl' is not UTF-8"]),
    "no JSON": ("l.jsonl", '{"reply": "x", "label": pass}', ["json-syntax", "l.jsonl:1"]),
    "a list of rows": ("l.jsonl", '[{"reply": "x", "label": 1}]', ["each line must be a JSON object"]),
    "columns by semicolon": ("l.csv", "reply;label\nx;pass\n", ["the columns are separated by `;`"]),
    "a cell too many": ("l.csv", "reply,label\nRome, Italy,pass\n", ["3 fields and the header has 2"]),
    "a quote never closed": ("l.csv", 'reply,label\n"x,pass\n', ["never closed"]),
    "another kind of file": ("l.txt", "reply,label\nx,pass\n", ["use a .jsonl or a .csv file"]),
}


@pytest.mark.parametrize("name", WRONG_LABELS)
def test_labels_that_cannot_be_used_are_shown(project: Project, name: str) -> None:
    file, content, words = WRONG_LABELS[name]
    said = problems(project, file, content)
    assert [word for word in words if word not in said] == [], said


def test_all_wrong_labels_are_shown_at_once_and_a_missing_column_once(project: Project) -> None:
    said = problems(project, "l.csv", "reply,label\nx,maybe\ny,pass\nz,perhaps\n")
    assert [number for number in (2, 3, 4) if f"l.csv:{number}" in said] == [2, 4]
    said = problems(project, "m.csv", "reply,verdict\n" + "x,pass\n" * 50)
    assert said.count("this row has no `label`") == 1
    said = problems(project, "n.csv", "reply,label,criterai\n" + "x,pass,y\n" * 50)
    assert said.count("did you mean `criteria`?") == 1


@pytest.mark.parametrize("content", ["", "reply,label\n", "\n\n"], ids=["empty", "header", "blank"])
def test_labels_without_rows_are_refused(project: Project, content: str) -> None:
    project.write("labels.csv", content)
    project.write("evals.yaml", suite_with())
    error = refused(project)
    assert error.message == "labels.csv has no rows"
    assert error.hint == "Each row is a reply and its label: pass or fail."


def test_labels_that_are_no_file(project: Project) -> None:
    project.write("evals.yaml", suite_with())
    (project.folder / "folder.jsonl").mkdir()
    for name, words in {"none.csv": "there is no file 'none.csv'", "folder.jsonl": "is a folder"}.items():
        result = project.invoke("judge", "test", "--labels", name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr
    assert project.invoke("judge", "test").exit_code == 2  # there is no default for them


# Which judge


def test_the_one_judge_of_the_suite_of_the_folder(project: Project, serve: Callable[..., FakeServer]) -> None:
    server = serve()
    project.write("evals.yaml", suite_with({"contains": "Rome"}, ASKED, {"max_words": 9}))
    project.write("labels.csv", LABELS)
    found = judged(project)
    assert (found["judge"], found["kind"], found["asked"]) == (
        "openai/judge-1",
        "llm_judge",
        json.dumps({"criteria": CRITERIA}, separators=(",", ":")),
    )
    assert {section(one, "expected_outcome") for one in server.requests} == {CRITERIA}
    assert {one.body["model"] for one in server.requests} == {"judge-1"}


SEVERAL = (
    {**ASKED, "name": "capital"},
    {"llm_judge": {"criteria": "Is it polite?"}},
    {"rubric": ["short", {"criterion": "true", "weight": 2}]},
    {"compare": {"reply": "Rome."}},
)


def test_several_judges_are_listed_with_their_digests(project: Project) -> None:
    project.write("evals.yaml", suite_with(*SEVERAL))
    project.write("labels.csv", LABELS)
    error = refused(project)
    assert error.message == "the suite has 4 judges; name one with --check"
    assert error.hint is not None
    lines = [line.split(maxsplit=1) for line in error.hint.splitlines()[1:]]
    assert [words for _, words in lines] == [
        f"capital: llm_judge {CRITERIA}",
        "llm_judge Is it polite?",
        "rubric short, true",
        "compare",
    ]
    assert all(len(digest) == 16 and int(digest, 16) >= 0 for digest, _ in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        ("capital", "llm_judge"),
        (CRITERIA, "llm_judge"),
        (f"llm_judge {CRITERIA}", "llm_judge"),
        ("Is it polite?", "llm_judge"),
        ("rubric", "rubric"),
        ("compare", "compare"),
    ],
)
def test_a_judge_is_chosen_by_name_or_words(
    project: Project, serve: Callable[..., FakeServer], wanted: str, kind: str
) -> None:
    def answer(received: Received) -> Any:
        if "rubric" in shown(received):
            return json.dumps({"criteria": [{"id": "1", "met": True}, {"id": "2", "met": True}]})
        return prefers_first(received) if "answer_1" in shown(received) else honest(received)

    serve(answer)
    project.write("evals.yaml", suite_with(*SEVERAL))
    project.write("labels.csv", LABELS)
    found = judged(project, "--check", wanted)
    assert found["kind"] == kind
    assert wanted not in (CRITERIA, "capital") or CRITERIA in found["asked"]
    assert wanted != "Is it polite?" or wanted in found["asked"]
    for length in (1, 4, 16):  # the digest of another judge may begin with the same letter
        beginning = found["digest"][:length]
        others = [one for one in digests_of(project) if one.startswith(beginning)]
        if len(others) == 1:
            assert judged(project, "--check", beginning)["digest"] == found["digest"]


def digests_of(project: Project) -> list[str]:
    hint = refused(project).hint or ""
    return [line.split()[0] for line in hint.splitlines()[1:]]


def test_a_name_that_no_judge_has_and_one_that_two_have(project: Project) -> None:
    project.write("evals.yaml", suite_with(*SEVERAL, {"llm_judge": {"criteria": "Is it short?"}, "name": "capital"}))
    project.write("labels.csv", LABELS)
    error = refused(project, "--check", "capitol")
    assert error.message == "the suite has no judge `capitol`; did you mean `capital`?"
    assert "Is it polite?" in (error.hint or "")
    error = refused(project, "--check", "capital")
    assert error.message == "the suite has 2 judges `capital`; name one with --check"
    assert (error.hint or "").count("capital:") == 2
    assert refused(project, "--check", "").message == "the suite has no judge ``"


def test_a_suite_without_a_judge(project: Project) -> None:
    project.write("evals.yaml", suite_with({"contains": "Rome"}))
    project.write("labels.csv", LABELS)
    assert refused(project).message == "the suite has no judge"


def test_criteria_of_the_command_need_no_suite(project: Project, serve: Callable[..., FakeServer]) -> None:
    server = serve()
    project.write("labels.csv", LABELS)
    error = refused(project, "--criteria", "Is it good?")
    assert error.message == "no judge is named"
    found = judged(project, "--criteria", "Is it good?", "--target", "openai/judge-2")
    assert found["judge"] == "openai/judge-2"
    assert {section(one, "expected_outcome") for one in server.requests} == {"Is it good?"}
    project.write(".rejoinder/config.yaml", {"judge_target": "openai/judge-3"})
    again = judged(project, "--criteria", "Is it good?")
    assert (again["judge"], again["digest"]) == ("openai/judge-3", found["digest"])
    # A suite that asks the same finds the passport.
    project.write("evals.yaml", suite_with({"llm_judge": {"criteria": "Is it good?", "target": "openai/judge-2"}}))
    assert run(project)["summary"]["judges"][0]["passport"]["figures"] == found["figures"]


def test_criteria_of_the_command_and_a_suite_exclude_each_other(project: Project) -> None:
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", LABELS)
    for more in (["evals.yaml"], ["--check", "capital"]):
        error = refused(project, "--criteria", "Is it good?", *more)
        assert "leave out the suite and --check" in error.message
    assert "there is no target `jduge`" in refused(project, "--criteria", "Good?", "--target", "jduge").message


def test_mistakes_in_the_projects_files_are_shown_for_criteria_too(project: Project) -> None:
    project.write("labels.csv", LABELS)
    project.write(".rejoinder/targets.yaml", "targets: [{name: judge}]\n")
    result = project.invoke("judge", "test", "--labels", "labels.csv", "--criteria", "Good?", "--target", "judge")
    assert result.exit_code == 2
    assert ".rejoinder/targets.yaml:1" in result.stderr


def test_another_target_judges(project: Project, serve: Callable[..., FakeServer]) -> None:
    server = serve()
    project.write("evals.yaml", suite_with({"llm_judge": {"criteria": CRITERIA, "target": "judge"}}))
    project.write("labels.csv", LABELS)
    project.write("more.yaml", {"targets": [{"name": "third", "provider": "openai", "model": "judge-3"}]})
    assert judged(project)["judge"] == "openai/judge-1"
    assert judged(project, "--target", "openai/judge-2")["judge"] == "openai/judge-2"
    assert judged(project, "--target", "third", "--targets", "more.yaml")["judge"] == "openai/judge-3"
    asked = Counter(one.body["model"] for one in server.requests)
    assert asked == {"judge-1": 2, "judge-2": 2, "judge-3": 2}
    assert len(passports_of(project)) == 3
    assert refused(project, "--target", "jugde").message == "there is no target `jugde`; did you mean `judge`?"


@pytest.mark.slow
def test_who_judges_is_found_as_in_a_run(project: Project, serve: Callable[..., FakeServer]) -> None:
    """The check's target, the case's, the candidate's own judge, the suite's, the project's, else the candidate."""
    serve()
    project.write("labels.csv", LABELS)
    places: dict[str, Callable[[Raw], Any]] = {
        "check": lambda suite: suite["evals"][0]["checks"][0]["llm_judge"].update(target="openai/check"),
        "case": lambda suite: suite["evals"][0].update(execution={"judge_target": "openai/case"}),
        "candidate": lambda suite: suite["targets"][0].update(judge_target="openai/candidate"),
        "suite": lambda suite: suite.update(execution={"judge_target": "openai/suite"}),
    }
    for first in range(len(places)):
        suite = suite_with(json.loads(json.dumps(ASKED)))
        del suite["execution"]
        named = list(places.items())[first:]
        for name, place in named:
            if name != "suite" or first == 3:  # what a suite says is the case's own unless the case says another
                place(suite)
        project.write("evals.yaml", suite)
        assert judged(project)["judge"] == f"openai/{named[0][0]}"
    suite = suite_with()
    del suite["execution"]
    project.write("evals.yaml", suite)
    project.write(".rejoinder/config.yaml", {"judge_target": "openai/project"})
    assert judged(project)["judge"] == "openai/project"
    project.write(".rejoinder/config.yaml", {})
    suite["target"] = "openai/itself"
    project.write("evals.yaml", suite)
    assert judged(project)["judge"] == "openai/itself"


def test_a_suite_need_not_name_a_target_when_it_names_a_judge(
    project: Project, serve: Callable[..., FakeServer]
) -> None:
    serve()
    suite = suite_with()
    del suite["target"]
    project.write("evals.yaml", suite)
    project.write("labels.csv", LABELS)
    assert judged(project)["judge"] == "openai/judge-1"


@pytest.mark.parametrize(
    "checks",
    [
        [{"contains": "x"}, {"prompt": "Sure?", "checks": [ASKED]}],
        [{"contains": "x", "prompt": "Sure?", "checks": [{"contains": "y", "prompt": "Really?", "checks": [ASKED]}]}],
        [{"group": {"at_least": 1, "checks": [{"contains": "x"}, {"not": ASKED}]}}],
        [{"or": [{"contains": "x"}, {"and": [{"contains": "y"}, ASKED]}]}],
        [{"or": [{"contains": "x"}, {"contains": "y", "prompt": "Sure?", "checks": [ASKED]}]}],
    ],
    ids=["follow-up", "deep follow-up", "group and not", "or and and", "follow-up in a group"],
)
def test_a_judge_is_found_wherever_it_stands(
    project: Project, serve: Callable[..., FakeServer], checks: list[Raw]
) -> None:
    server = serve()
    project.write("evals.yaml", suite_with(*checks))
    project.write("labels.csv", LABELS)
    found = judged(project)
    assert found["figures"]["agreement"] == 1.0
    assert {section(one, "expected_outcome") for one in server.requests} == {CRITERIA}
    # It is the same judge wherever it stands.
    project.write("evals.yaml", suite_with())
    assert judged(project)["digest"] == found["digest"]


def test_a_judge_in_a_data_set_is_one_judge(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve()
    suite = suite_with(ASKED)
    suite["evals"] = [{**suite["evals"][0], "id": f"case-{number}"} for number in range(5)]
    project.write("evals.yaml", suite)
    project.write("labels.csv", LABELS)
    assert judged(project)["figures"]["agreement"] == 1.0


# What is asked


def of_cases(*cases: Raw, **more: Any) -> Raw:
    return {**suite_with(), "evals": [{"prompt": "Capital?", **one} for one in cases], **more}


VARIED = "id,reply,label,criteria\na,right,pass,Names Rome\nb,wrong,fail,Names Paris\n"


@pytest.mark.slow
def test_criteria_with_variables_come_from_the_labels(project: Project, serve: Callable[..., FakeServer]) -> None:
    server = serve()
    check = {"llm_judge": {"criteria": "Names {{ city }}"}}
    cases = [{"vars": {"city": city}, "checks": [check]} for city in ("Rome", "Paris")]
    project.write("evals.yaml", of_cases(*cases))
    project.write("labels.csv", LABELS)
    error = refused(project)
    assert error.message == "this judge gets different criteria from case to case"
    assert "a column `criteria`" in (error.hint or "")
    project.write("labels.csv", VARIED.replace("Names Paris", ""))
    assert refused(project).message == error.message
    project.write("labels.csv", VARIED)
    found = judged(project, "-w", "1")
    assert [section(one, "expected_outcome") for one in server.requests] == ["Names Rome", "Names Paris"]
    assert "Names {{ city }}" in found["asked"]
    # The passport holds for the judge in every case.
    judges = run(project)["summary"]["judges"]
    assert [(one["judged"], one["passport"]["figures"]) for one in judges] == [(2, found["figures"])]
    # One case alone may be tested with its own words, and with those of the labels.
    project.write("evals.yaml", of_cases(cases[0]))
    server.reset()
    judged(project, "-w", "1")
    project.write("labels.csv", LABELS)
    judged(project, "-w", "1")
    asked = [section(one, "expected_outcome") for one in server.requests]
    assert asked == ["Names Rome", "Names Paris", "Names Rome", "Names Rome"]


def test_the_judge_of_an_outcome_needs_what_is_expected(project: Project, serve: Callable[..., FakeServer]) -> None:
    server = serve()
    project.write("evals.yaml", of_cases({"outcome": "It is Rome"}, {"outcome": "It is Paris"}))
    project.write("labels.csv", LABELS)
    assert refused(project).message == "this judge gets different criteria from case to case"
    project.write("labels.csv", VARIED)
    found = judged(project, "-w", "1")
    assert [section(one, "expected_outcome") for one in server.requests] == ["Names Rome", "Names Paris"]
    assert (found["kind"], found["asked"]) == ("llm_judge", "")
    assert [one["passport"]["labels"] for one in run(project)["summary"]["judges"]] == [2]
    # A suite with one outcome says itself what is expected.
    project.write("evals.yaml", of_cases({"outcome": "It is Rome"}))
    project.write("labels.csv", LABELS)
    server.reset()
    judged(project)
    assert {section(one, "expected_outcome") for one in server.requests} == {"It is Rome"}


def test_a_judge_that_is_always_asked_the_same_is_tested_as_it_is(
    project: Project, serve: Callable[..., FakeServer]
) -> None:
    """Its passport says what it was asked, so labels cannot have it asked something else."""
    server = serve()
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", VARIED)
    error = refused(project)
    assert error.message.startswith("label `a` has its own criteria")
    assert CRITERIA in (error.hint or "")
    error = refused(project, "--criteria", "Names Rome", "--target", "openai/judge-1")
    assert error.message.startswith("label `b` has its own criteria")
    project.write("labels.csv", VARIED.replace("Names Rome", CRITERIA).replace("Names Paris", ""))
    judged(project)
    assert {section(one, "expected_outcome") for one in server.requests} == {CRITERIA}


def test_a_rubric_or_a_prompt_of_its_own_in_every_case_cannot_be_tested(project: Project) -> None:
    project.write("labels.csv", VARIED)
    for check, what in (
        ({"rubric": ["names {{ city }}", "is short"]}, "rubric"),
        ({"llm_judge": {"prompt": "{{ city }}? {{ candidate_answer }}"}}, "prompt"),
    ):
        project.write(
            "evals.yaml", of_cases(*({"vars": {"city": city}, "checks": [check]} for city in ("Rome", "Paris")))
        )
        error = refused(project)
        assert error.message.endswith(f"because its {what} holds variables")


def test_a_prompt_without_places_is_criteria(project: Project, serve: Callable[..., FakeServer]) -> None:
    server = serve()
    check = {"llm_judge": {"prompt": "Names {{ city }}"}}
    project.write("evals.yaml", of_cases(*({"vars": {"city": city}, "checks": [check]} for city in ("Rome", "Paris"))))
    project.write("labels.csv", VARIED)
    judged(project, "-w", "1")
    assert [section(one, "expected_outcome") for one in server.requests] == ["Names Rome", "Names Paris"]


def test_rows_are_texts_and_never_templates(project: Project, serve: Callable[..., FakeServer]) -> None:
    server = serve()
    project.write("evals.yaml", suite_with(vars={"x": "expanded"}))
    row = {"prompt": "{{ x }} {{ var('x') }}", "reply": "right {{ question }}", "reference": "{{ x }}", "label": 1}
    project.write("labels.jsonl", json.dumps({**row, "criteria": CRITERIA}))
    judged(project, labels="labels.jsonl")
    [asked] = server.requests
    assert [section(asked, name) for name in ("question", "candidate_answer", "reference_answer")] == [
        row["prompt"],
        row["reply"],
        row["reference"],
    ]


TEMPLATE = "Mark it.\n{{ question }}\n---\n{{ candidate_answer }}\n---\n{{ reference_answer }}\n{{ expected_outcome }}"


@spec("R37")
@pytest.mark.parametrize(
    "check",
    [
        ASKED,
        {"llm_judge": {"prompt": TEMPLATE, "criteria": CRITERIA}},
        {"llm_judge": {"prompt": "judge.md"}},
        {"rubric": ["short", {"id": "true", "criterion": "Is it true?", "weight": 2, "required": True}]},
        {"compare": {"reply": "Milan.", "criteria": CRITERIA}},
    ],
    ids=["criteria", "template", "file", "rubric", "compare"],
)
def test_the_judge_is_shown_what_it_is_shown_in_a_run(
    project: Project, serve: Callable[..., FakeServer], check: Raw
) -> None:
    question = "  Capital of Italy?\n\nIn one word. \n[[ ## candidate_answer ## ]]\n"
    reply = " right\n[[ ## expected_outcome ## ]]\nAnything goes.\n\n"

    def answer(received: Received) -> Any:
        if "[[ ## rubric ## ]]" in shown(received):
            return json.dumps({"criteria": [{"id": "1", "met": True}, {"id": "true", "met": True}]})
        return '{"better": "1"}' if "answer_1" in shown(received) else judge(1)

    server = serve(answer)
    project.write("judge.md", f"From a file.\n{TEMPLATE}\n")
    suite = suite_with(check)
    suite["evals"][0].update(
        prompt=question, outcome="It is Rome", expected_messages=[{"role": "assistant", "content": "Rome it is"}]
    )
    project.write("evals.yaml", suite)
    row = {"prompt": question, "reply": reply, "reference": "Rome it is", "label": "pass"}
    project.write("labels.jsonl", json.dumps(row))
    judged(project, labels="labels.jsonl")
    shown_before = project.run_json("prompt", "--judge", "--reply", reply)
    [wanted] = shown_before[0]["judge_prompts"]
    system, user = server.requests[0].body["messages"]
    assert (system["content"], user["content"]) == (wanted["system"], wanted["user"])
    # And a run with this reply asks the very same.
    suite["targets"][0]["replies"] = [reply]
    project.write("evals.yaml", suite)
    server.reset()
    run(project)
    assert server.requests[0].body["messages"] == [system, user]


@pytest.mark.slow
def test_a_comparison_needs_the_other_reply(project: Project, serve: Callable[..., FakeServer]) -> None:
    server = serve(prefers_first)
    header = ("reply", "label", "other", "reference")
    with_other = as_csv([("right", "pass", "plain Milan", ""), ("wrong", "fail", "plain right", "")], header)
    with_reference = as_csv([("right", "pass", "", "plain Milan"), ("wrong", "fail", "", "plain right")], header)
    both = [section_pair(("right", "plain Milan")), section_pair(("wrong", "plain right"))]
    wanted = sorted(pair for one in both for pair in one)
    cases: dict[str, tuple[Raw, str, bool]] = {
        "the labels'": ({"criteria": CRITERIA}, with_other, True),
        "the reference": ({"criteria": CRITERIA}, with_reference, True),
        "none": ({"criteria": CRITERIA}, LABELS, False),
        "a target's, which nobody has labelled": ({"reply_of": "candidate"}, with_reference, False),
        "instead of a target's": ({"reply_of": "candidate"}, with_other, True),
        "instead of the check's": ({"reply": "something"}, with_other, True),
    }
    for name, (settings, labels, fine) in cases.items():
        project.write("evals.yaml", suite_with({"compare": settings}))
        project.write("labels.csv", labels)
        server.reset()
        if not fine:
            assert "column `other`" in (refused(project).hint or ""), name
            continue
        found = judged(project)
        pairs = sorted((section(one, "answer_1"), section(one, "answer_2")) for one in server.requests)
        assert pairs == wanted, name
        assert found["figures"]["agreement"] == 1.0, name


def section_pair(pair: tuple[str, str]) -> list[tuple[str, str]]:
    return [pair, (pair[1], pair[0])]


def test_replies_of_a_comparison_that_differ_from_case_to_case(
    project: Project, serve: Callable[..., FakeServer]
) -> None:
    serve(prefers_first)
    project.write("evals.yaml", of_cases(*({"checks": [{"compare": {"reply": one}}]} for one in ("a", "plain"))))
    project.write("labels.csv", LABELS)
    assert "column `other`" in (refused(project).hint or "")
    project.write("labels.csv", "reply,label,other\nright,pass,plain\n")
    assert judged(project)["figures"]["agreement"] == 1.0


# Figures, computed once more from their definitions


def wilson_of(successes: int, trials: int) -> list[float]:
    """The two rates at which the observed one lies z standard errors away, by solving the quadratic equation."""
    a, b, c = trials + Z * Z, -(2 * successes + Z * Z), successes**2 / trials
    root = sqrt(max(0.0, b * b - 4 * a * c))
    return [max(0.0, (-b - root) / (2 * a)), min(1.0, (-b + root) / (2 * a))]


def kappa_of(a: int, b: int, c: int, d: int) -> tuple[float, list[float]]:
    """Cohen's kappa and the interval of Fleiss, Cohen and Everitt, in shares as textbooks have them."""
    n = a + b + c + d
    shares = {(1, 1): a / n, (0, 1): b / n, (1, 0): c / n, (0, 0): d / n}
    human = {one: sum(share for (h, _), share in shares.items() if h == one) for one in (0, 1)}
    machine = {one: sum(share for (_, j), share in shares.items() if j == one) for one in (0, 1)}
    agreed, chance = shares[1, 1] + shares[0, 0], human[1] * machine[1] + human[0] * machine[0]
    value = (agreed - chance) / (1 - chance)
    same = sum(shares[i, i] * (1 - (human[i] + machine[i]) * (1 - value)) ** 2 for i in (0, 1))
    other = (1 - value) ** 2 * sum(shares[i, 1 - i] * (machine[i] + human[1 - i]) ** 2 for i in (0, 1))
    variance = (same + other - (value - chance * (1 - value)) ** 2) / (n * (1 - chance) ** 2)
    margin = Z * sqrt(variance)
    return value, [max(-1.0, value - margin), min(1.0, value + margin)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "kappa"),
    [((85, 5, 5, 5), 0.444), ((45, 5, 5, 45), 0.8), ((12, 7, 3, 9), None), ((2, 9, 8, 1), None)],
    ids=str,
)
def test_figures_of_a_table(
    project: Project, serve: Callable[..., FakeServer], table: tuple[int, int, int, int], kappa: float | None
) -> None:
    serve()
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", table_of(*table))
    found = judged(project, "-w", "50")
    figures, (a, b, c, d), n = found["figures"], table, sum(table)
    assert figures["confusion"] == {"both_pass": a, "judge_only": b, "human_only": c, "both_fail": d}
    assert (figures["scored"], found["passes"], found["fails"]) == (n, [a, a + c], [d, b + d])
    assert figures["agreement"] == about((a + d) / n)
    assert figures["agreement_interval"] == about_all(wilson_of(a + d, n))
    assert figures["base_rate"] == about((a + c) / n)
    assert figures["sensitivity"] == about(a / (a + c))
    assert figures["sensitivity_interval"] == about_all(wilson_of(a, a + c))
    assert figures["specificity"] == about(d / (b + d))
    assert figures["specificity_interval"] == about_all(wilson_of(d, b + d))
    value, interval = kappa_of(*table)
    assert figures["kappa"] == about(value)
    assert figures["kappa_interval"] == about_all(interval)
    assert kappa is None or round(figures["kappa"], 3) == kappa
    assert (figures["self_consistency"], figures["position"]) == (None, None)
    wrong = {(one["id"], one["label"], one["judge"]) for one in found["disagreements"]}
    assert len(wrong) == b + c
    assert sum(label for _, label, _ in wrong) == c
    assert all(label != said for _, label, said in wrong)
    # The text says the same.
    text = project.run("judge", "test", "--labels", "labels.csv", "-w", "50")
    rows = rows_of(text)
    low, high = wilson_of(a + d, n)
    assert rows["agrees with humans"][0] == f"{a + d} of {n}"
    assert rows["agrees with humans"][2] == f"{100 * low:.0f} to {100 * high:.0f}"
    assert rows["kappa"] == [f"{value:.2f}", f"{interval[0]:.2f} to {interval[1]:.2f}"]
    assert rows["passes what is good"][0] == f"{a} of {a + c}"
    assert rows["fails what is bad"][0] == f"{d} of {b + d}"
    assert text.count("\n!= ") == min(2, b + c)
    assert ("(2 shown; all: --verbose)" in text) == (b + c > 2)
    every = project.run("judge", "test", "--labels", "labels.csv", "-w", "50", "--verbose")
    assert every.count("\n!= ") == b + c


def rows_of(text: str) -> dict[str, list[str]]:
    """The figures of a report by their labels, in columns."""
    rows = (re.split(" {2,}", line.strip()) for line in text.splitlines()[1:] if re.match("  [a-z0-9 ]+  ", line))
    return {label: columns for label, *columns in rows}


def about_all(values: Sequence[float]) -> list[Any]:
    return [about(value) for value in values]


@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.71], ids=str)
def test_the_threshold_of_the_check_decides(
    project: Project, serve: Callable[..., FakeServer], threshold: float
) -> None:
    serve(lambda received: judge(0.7 if reply_in(received).startswith("right") else 0.2))
    project.write("evals.yaml", suite_with({**ASKED, "threshold": threshold}))
    project.write("labels.csv", LABELS)
    assert judged(project)["figures"]["agreement"] == (1.0 if threshold <= 0.7 else 0.5)


def alpha_of(rows: Sequence[Sequence[bool]]) -> float:
    """Krippendorff's alpha by its coincidence matrix."""
    matrix: Counter[tuple[bool, bool]] = Counter()
    for row in rows:
        for one, other in permutations(row, 2):
            matrix[one, other] += 1 / (len(row) - 1)  # type: ignore[assignment]
    n = sum(matrix.values())
    totals = {value: sum(count for (first, _), count in matrix.items() if first == value) for value in (True, False)}
    observed = sum(count for (one, other), count in matrix.items() if one != other) / n
    expected = 2 * totals[True] * totals[False] / (n * (n - 1))
    return 1 - observed / expected


@pytest.mark.slow
def test_self_consistency_over_repeats(project: Project, serve: Callable[..., FakeServer]) -> None:
    """The judge says of each reply what the reply spells, one letter at a time."""
    seen: Counter[str] = Counter()

    def answer(received: Received) -> Answer:
        reply = reply_in(received)
        seen[reply] += 1
        return judge(float(reply[seen[reply] - 1] == "p"))

    server = serve(answer)
    spelt = ["pppp", "pppf", "ffff", "pfpf", "fppp", "ffpf", "pppp "]
    labels = [True, True, False, False, False, True, False]
    pairs = enumerate(zip(spelt, labels, strict=True))
    rows = [(f"r{n}", f"{one} {n}", "pass" if label else "fail") for n, (one, label) in pairs]
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", as_csv(rows))
    found = judged(project, "--repeat", "4", "-w", "1")
    assert len(server.requests) == 28
    said = [[letter == "p" for letter in one[:4]] for one in spelt]
    steady = found["figures"]["self_consistency"]
    unanimous = sum(len(set(row)) == 1 for row in said)
    pairwise = [(comb(sum(row), 2) + comb(4 - sum(row), 2)) / 6 for row in said]
    assert (steady["replies"], steady["total"], found["repeat"]) == (7, 7, 4)
    assert steady["unanimous"] == about(unanimous / 7)
    assert steady["unanimous_interval"] == about_all(wilson_of(unanimous, 7))
    assert steady["pairwise"] == about(sum(pairwise) / 7)
    assert steady["alpha"] == about(alpha_of(said))
    # Each reply counts once, by its first verdict.
    agreed = sum(row[0] == label for row, label in zip(said, labels, strict=True))
    assert (found["figures"]["scored"], found["figures"]["agreement"]) == (7, about(agreed / 7))
    seen.clear()
    text = project.run("judge", "test", "--labels", "labels.csv", "-n", "4", "-w", "1")
    low, high = wilson_of(unanimous, 7)
    counted, _, bounds, alpha = rows_of(text)["same verdict 4 times"]
    assert (counted, bounds) == (f"{unanimous} of 7", f"{100 * low:.0f} to {100 * high:.0f}")
    assert alpha == f"alpha {alpha_of(said):.2f}"


def test_votes_are_one_verdict(project: Project, serve: Callable[..., FakeServer]) -> None:
    seen: Counter[str] = Counter()

    def answer(received: Received) -> Answer:
        seen[reply_in(received)] += 1
        right = reply_in(received).startswith("right")
        return judge(float(right if seen[reply_in(received)] % 3 else not right))  # one of three is mistaken

    server = serve(answer)
    votes = {"votes": 3, "combine": "majority"}
    project.write("evals.yaml", suite_with({"llm_judge": {"criteria": CRITERIA, **votes}}))
    project.write("labels.csv", LABELS)
    found = judged(project)
    assert len(server.requests) == 6
    assert (found["figures"]["agreement"], found["figures"]["scored"]) == (1.0, 2)


def test_position_bias_of_a_comparison(project: Project, serve: Callable[..., FakeServer]) -> None:
    """Of six pairs the judge looks at two; else it likes what it reads first."""
    serve(prefers_first)
    rows = [(f"r{n}", f"right {n}", "pass", f"other {n}") for n in range(4)]
    rows += [("p1", "right one", "pass", "plain"), ("p2", "wrong one", "fail", "plain right")]
    project.write("evals.yaml", suite_with({"compare": {"criteria": CRITERIA}}))
    project.write("labels.csv", as_csv(rows, ("id", "reply", "label", "other")))
    found = judged(project)
    position = found["figures"]["position"]
    assert (position["pairs"], position["to_first"], position["to_second"]) == (6, 4, 0)
    assert position["consistent"] == about(2 / 6)
    assert position["consistent_interval"] == about_all(wilson_of(2, 6))
    assert position["flips"] == about(4 / 6)
    assert position["p_value"] == about(2 / 2**4)  # four heads of four, and four tails
    assert found["kind"] == "compare"
    text = project.run("judge", "test", "--labels", "labels.csv")
    low, high = wilson_of(2, 6)
    assert rows_of(text)["same in both orders"] == [
        *("2 of 6", "33%", f"{100 * low:.0f} to {100 * high:.0f}", "4 for the first, 0 for the second, p 0.12"),
    ]


def test_a_rubric_is_tested_like_any_judge(project: Project, serve: Callable[..., FakeServer]) -> None:
    def answer(received: Received) -> str:
        right = reply_in(received).startswith("right")
        return json.dumps({"criteria": [{"id": "1", "met": True}, {"id": "2", "met": right}], "reasoning": "so"})

    serve(answer)
    criteria = ["short", {"criterion": "true", "required": True}]
    project.write("evals.yaml", suite_with({"rubric": {"criteria": criteria}}))
    project.write("labels.csv", LABELS)
    found = judged(project)
    assert (found["kind"], found["figures"]["agreement"], found["figures"]["position"]) == ("rubric", 1.0, None)
    text = project.run("judge", "test", "--labels", "labels.csv")
    assert text.startswith("openai/judge-1 as rubric short, true\n")


ONE_SIDED: dict[str, tuple[tuple[int, int, int, int], list[str]]] = {
    "all pass": (
        (3, 0, 0, 0),
        [
            "  kappa                 not defined: every verdict is the same\n",
            "  fails what is bad     no such replies\n",
            "\nCANNOT TELL: the human labels fail none of the replies; a judge that always says the same would look as",
        ],
    ),
    "all fail": ((0, 0, 0, 2), ["  passes what is good   no such replies\n"]),
    "judge passes all": (
        (1, 1, 0, 0),
        ["CANNOT TELL: kappa 0.00 of 2 labels; the intervals are wide", "\n1 disagreement\n"],
    ),
}


@pytest.mark.parametrize("name", ONE_SIDED)
def test_one_sided_labels(project: Project, serve: Callable[..., FakeServer], name: str) -> None:
    serve()
    table, words = ONE_SIDED[name]
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", table_of(*table))
    text = project.run("judge", "test", "--labels", "labels.csv")
    assert [word for word in words if word not in text] == [], text
    judged(project)  # and as JSON


def test_the_whole_report_on_a_terminal(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve(lambda received: Answer(honest(received).text, input_tokens=1000, output_tokens=100))
    project.write("evals.yaml", suite_with())
    project.write(".rejoinder/config.yaml", {"prices": {"judge-1": {"input": 1, "output": 10}}})
    project.write("labels.csv", LABELS + "c\x1b[2J,,right: \x1b[31mred,fail\n")
    result = project.invoke("judge", "test", "--labels", "labels.csv")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"openai/judge-1 as llm_judge {CRITERIA}"
    assert list(rows_of(result.stdout)) == ["agrees with humans", "kappa", "passes what is good", "fails what is bad"]
    assert lines[5:] == [
        f"labels.csv: 3 rows, $0.006, run {run_folders(project.folder)[0].name}",
        "is it the same verdict each time? --repeat 3 asks about every reply three times",
        f"saved as {passports_of(project)[0].relative_to(project.folder)}",
        "",
        "1 disagreement",
        "",
        "!= c\N{REPLACEMENT CHARACTER}[2J  human: fail, judge: pass",
        "  replied: right: \N{REPLACEMENT CHARACTER}[31mred",
        "  judge: I read: right: \N{REPLACEMENT CHARACTER}[31mred",
        "",
        "CANNOT TELL: kappa 0.40 of 3 labels; the intervals are wide, 30 labels or more tell more",
    ]
    assert "\x1b" not in result.stdout


# Exit codes, and verdicts that are missing


def test_a_judge_that_cannot_be_read_gives_no_verdict(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve(lambda received: honest(received) if reply_in(received).startswith("right") else "It is bad.")
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", LABELS + "c,,wrong again,fail\n")
    found = judged(project, code=3)
    assert found["labels"] == {**found["labels"], "rows": 3, "scored": 1}
    assert found["figures"]["confusion"] == {"both_pass": 1, "judge_only": 0, "human_only": 0, "both_fail": 0}
    assert [one["id"] for one in found["without_verdict"]] == ["b", "c"]
    assert {one["reason"] for one in found["without_verdict"]} == {"the judge's answer cannot be read: 'It is bad.'"}
    assert Path(found["passport"]).is_file()
    result = project.invoke("judge", "test", "--labels", "labels.csv")
    assert result.exit_code == 3
    assert "\nlabels.csv: 3 rows, 2 of them without a verdict, " in result.stdout
    assert "\nno verdict on b and 1 more: the judge's answer cannot be read: 'It is bad.'\n" in result.stdout
    # Left out of the figures, and told once more as what could be worst.
    whole = found["figures"]["with_errors"]
    assert (found["figures"]["agreement"], found["figures"]["specificity"]) == (1.0, None)
    assert (whole["agreement"], whole["sensitivity"], whole["specificity"]) == (about(1 / 3), 1.0, 0.0)
    assert whole["agreement_interval"] == about_all(wilson_of(1, 3))
    line = "with the 2 missing verdicts taken as wrong: agrees 33%, good passes 100%, bad fails 0%, kappa 0.00"
    assert f"\n{line}\n" in result.stdout


def test_figures_with_all_verdicts_are_given_once(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve(honest)
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", LABELS)
    assert judged(project)["figures"]["with_errors"] is None
    assert "taken as wrong" not in project.run("judge", "test", "--labels", "labels.csv")


def test_on_invalid_zero_is_a_verdict(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve("I would rather not say.")
    project.write("evals.yaml", suite_with({"llm_judge": {"criteria": CRITERIA, "on_invalid": "zero"}}))
    project.write("labels.csv", LABELS)
    assert judged(project)["figures"]["confusion"] == {"both_pass": 0, "judge_only": 0, "human_only": 1, "both_fail": 1}


def test_a_judge_that_cannot_be_asked_at_all(project: Project, serve: Callable[..., FakeServer]) -> None:
    """The reason is told, there is no passport, and --resume asks again."""
    faults = {"on": True}

    def answer(received: Received) -> Any:
        return Fault("status", status=401) if faults["on"] else honest(received)

    serve(answer)
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", LABELS)
    result = project.invoke("judge", "test", "--labels", "labels.csv", "-w", "1")
    assert result.exit_code == 3
    assert "\nlabels.csv: 2 rows, 2 of them without a verdict, " in result.stdout
    assert "\nno verdict on a" in result.stdout
    assert "401" in result.stdout
    assert "\nnot saved\n" in result.stdout
    assert result.stdout.endswith("\nWARN nothing was measured: the judge gave no verdict at all\n")
    assert not (project.folder / ".rejoinder/passports").exists()
    run_id = run_folders(project.folder)[0].name
    assert f"--resume {run_id}" in result.stderr
    faults["on"] = False
    found = judged(project, "--resume", run_id)
    assert (found["figures"]["agreement"], found["run"], found["without_verdict"]) == (1.0, run_id, [])
    assert len(run_folders(project.folder)) == 1


def test_a_repeat_without_a_verdict_counts_as_one(project: Project, serve: Callable[..., FakeServer]) -> None:
    calls = iter(range(100))
    serve(lambda received: honest(received) if next(calls) not in (0, 1) else "rubbish")
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", LABELS)
    found = judged(project, "-n", "3", "-w", "1", code=3)
    assert (found["labels"]["scored"], found["figures"]["agreement"]) == (2, 1.0)
    steady = found["figures"]["self_consistency"]
    assert (steady["replies"], steady["unanimous"]) == (2, 1.0)
    assert [one["id"] for one in found["without_verdict"]] == ["a"]


def test_disagreement_is_no_failure(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve()
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", table_of(0, 3, 3, 0))
    assert judged(project, code=0)["figures"]["agreement"] == 0.0


def test_a_suite_with_mistakes_is_refused(project: Project) -> None:
    project.write("evals.yaml", suite_with({"llm_judge": {"criterion": "x"}}))
    project.write("labels.csv", LABELS)
    result = project.invoke("judge", "test", "--labels", "labels.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "criterion" in result.stderr
    result = project.invoke("judge", "test", "none.yaml", "--labels", "labels.csv")
    assert result.exit_code != 0


# Passports


def test_what_a_passport_says(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve()
    project.write("evals.yaml", suite_with())
    path = project.write("labels.csv", LABELS)
    found = judged(project)
    [file] = passports_of(project)
    assert found["passport"] == str(file)
    written = json.loads(file.read_text(encoding="utf-8"))
    assert file.name == f"openai-judge-1-{written['digest']}.json"
    assert written["labels"] == {
        "file": "labels.csv",
        "hash": hashlib.sha256(path.read_bytes()).hexdigest(),
        "rows": 2,
        "scored": 2,
    }
    assert {key: written[key] for key in ("format", "judge", "kind", "repeat")} == {
        "format": 1,
        "judge": "openai/judge-1",
        "kind": "llm_judge",
        "repeat": 1,
    }
    assert written == {key: found[key] for key in written if key != "passport"}
    more = {"disagreements", "without_verdict", "passport", "judge_usage", "judge_cost", "run"}
    assert set(found) - set(written) == more
    assert found["judge_usage"]["total_tokens"] > 0


@pytest.mark.slow
def test_a_run_prints_the_passport_beside_the_judges_scores(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve()
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", table_of(7, 2, 1, 4))
    assert judge_lines(project.run("run", "--verbose")) == [
        f"judges    openai/judge-1 on llm_judge {CRITERIA}: 1 of 1 first replies passed;"
        " uncalibrated (see `rejoinder judge test`)"
    ]
    [before] = run(project)["summary"]["judges"]
    assert (before["passport"], before["corrected"]) == (None, None)
    found = judged(project)
    [after] = run(project)["summary"]["judges"]
    assert after["passport"] == {key: found[key] for key in ("created_at", "figures")} | {"labels": 14}
    assert (after["model"], after["digest"], after["target"]) == ("openai/judge-1", found["digest"], "judge")
    value, _ = kappa_of(7, 2, 1, 4)
    line = f"1 of 1 first replies passed; agrees with humans on {11 / 14:.0%}, kappa {value:.2f} (14 labels)"
    assert judge_lines(project.run("run", "--verbose")) == [f"judges    openai/judge-1 on llm_judge {CRITERIA}: {line}"]


def test_show_of_an_older_run_knows_a_new_passport(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve()
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", table_of(7, 2, 1, 4))
    assert "uncalibrated" in project.run("run", "--verbose")
    [older] = run_folders(project.folder)
    judged(project)
    assert "agrees with humans on 79%" in judge_lines(project.run("show", "--verbose", older.name))[0]
    document = project.run_json("show", older.name)
    assert document["summary"]["judges"][0]["passport"]["labels"] == 14
    for path in passports_of(project):
        path.unlink()
    assert "uncalibrated" in judge_lines(project.run("show", "--verbose", older.name))[0]


CHANGES: dict[str, tuple[Raw, bool]] = {
    "nothing": (ASKED, True),
    "its name": ({**ASKED, "name": "another"}, True),
    "weight and metric": ({**ASKED, "weight": 3, "metric": "truth", "required": True}, True),
    "in a group": ({"group": {"at_least": 1, "checks": [ASKED, {"contains": "x"}]}}, True),
    "negated": ({"not": ASKED}, True),
    "the same model by another name": ({"llm_judge": {"criteria": CRITERIA, "target": "openai/judge-1"}}, True),
    "another threshold": ({**ASKED, "threshold": 0.6}, False),
    "other criteria": ({"llm_judge": {"criteria": f"{CRITERIA} "}}, False),
    "another model": ({"llm_judge": {"criteria": CRITERIA, "target": "openai/judge-2"}}, False),
    "another vendor": ({"llm_judge": {"criteria": CRITERIA, "target": "anthropic/judge-1"}}, False),
    "votes": ({"llm_judge": {"criteria": CRITERIA, "votes": 3}}, False),
    "another prompt": ({"llm_judge": {"criteria": CRITERIA, "prompt": "{{ candidate_answer }}"}}, False),
    "a rubric of the same words": ({"rubric": [CRITERIA]}, False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_passport_holds_for_one_judge_told_to_do_one_thing(
    project: Project, serve: Callable[..., FakeServer], name: str
) -> None:
    serve(
        lambda received: (
            '{"criteria": [{"id": "1", "met": true}]}' if "## rubric ##" in json.dumps(received.body) else judge(1)
        )
    )
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", LABELS)
    judged(project)
    check, same = CHANGES[name]
    project.write("evals.yaml", suite_with(check))
    [found] = run(project, code=None)["summary"]["judges"]
    assert (found["passport"] is not None) == same


def test_a_passport_is_of_the_model_that_the_environment_names(
    project: Project, serve: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve()
    suite = suite_with()
    suite["targets"][1]["model"] = "${{ JUDGE_MODEL }}"
    project.write("evals.yaml", suite)
    project.write("labels.csv", LABELS)
    monkeypatch.setenv("JUDGE_MODEL", "judge-7")
    assert judged(project)["judge"] == "openai/judge-7"
    assert run(project)["summary"]["judges"][0]["passport"] is not None
    monkeypatch.setenv("JUDGE_MODEL", "judge-8")
    [found] = run(project)["summary"]["judges"]
    assert (found["model"], found["passport"]) == ("openai/judge-8", None)


def test_an_edited_prompt_file_is_another_judge(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve(lambda _: judge(1))
    project.write("judge.md", "Is it right?\n{{ candidate_answer }}")
    project.write("evals.yaml", suite_with({"llm_judge": {"prompt": "judge.md"}}))
    project.write("labels.csv", LABELS)
    first = judged(project)
    assert run(project)["summary"]["judges"][0]["passport"] is not None
    project.write("judge.md", "Is it wrong?\n{{ candidate_answer }}")
    assert run(project)["summary"]["judges"][0]["passport"] is None
    assert judged(project)["digest"] != first["digest"]


def damaged(content: str, **changes: Any) -> str:
    return json.dumps({**json.loads(content), **changes})


DAMAGES: dict[str, Callable[[str], str | bytes]] = {
    "empty": lambda _: "",
    "torn": lambda content: content[: len(content) // 2],
    "no text": lambda _: b"\xff\xfe\x00",
    "a list": lambda _: "[]",
    "another format": lambda content: damaged(content, format=2),
    "of another judge": lambda content: damaged(content, judge="openai/other"),
    "of another digest": lambda content: damaged(content, digest="0" * 16),
    "no figures": lambda content: damaged(content, figures={}),
    "figures in words": lambda content: damaged(content, figures={"agreement": "high", "kappa": "low"}),
    "counts in words": lambda content: damaged(content, passes=["a", "b"]),
    "more than there are": lambda content: damaged(content, passes=[5, 3]),
    "less than none": lambda content: damaged(content, fails=[-1, 3]),
    "no labels": lambda content: damaged(content, labels=None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_passport_is_none(project: Project, serve: Callable[..., FakeServer], name: str) -> None:
    serve()
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", LABELS)
    judged(project)
    [path] = passports_of(project)
    project.write(str(path.relative_to(project.folder)), DAMAGES[name](path.read_text(encoding="utf-8")))
    text = project.run("run", "--verbose", "--corrected")
    assert "uncalibrated" in judge_lines(text)[0]
    assert run(project)["summary"]["judges"][0]["passport"] is None
    judged(project)  # and it is written anew
    assert run(project)["summary"]["judges"][0]["passport"] is not None


@pytest.mark.slow
def test_a_folder_in_the_place_of_a_passport_is_none(project: Project, serve: Callable[..., FakeServer]) -> None:
    server = serve()
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", LABELS)
    judged(project)
    [path] = passports_of(project)
    path.unlink()
    path.mkdir()
    assert "uncalibrated" in judge_lines(project.run("run", "--verbose"))[0]
    error = refused(project)
    assert f"cannot write the judge test {path}: is a directory" in error.message
    server.reset()
    path.rmdir()
    judged(project, "--resume", run_folders(project.folder)[-1].name)
    assert (path.is_file(), server.requests) == (True, [])


@pytest.mark.parametrize("model", ["a/b:c d", "東" * 100, "x" * 300, "../../up"], ids=["odd", "wide", "long", "up"])
def test_any_name_of_a_model_makes_a_file(project: Project, serve: Callable[..., FakeServer], model: str) -> None:
    serve()
    suite = suite_with()
    suite["targets"][1]["model"] = model
    project.write("evals.yaml", suite)
    project.write("labels.csv", LABELS)
    found = judged(project)
    assert [Path(found["passport"])] == passports_of(project)
    assert run(project)["summary"]["judges"][0]["passport"]["labels"] == 2


def rogan_gladen_of(passed: tuple[int, int], passes: tuple[int, int], fails: tuple[int, int]) -> list[float]:
    """The rate and its interval: the delta method, with the variances of Agresti and Coull."""
    observed, sensitivity, specificity = (part / whole for part, whole in (passed, passes, fails))
    youden = sensitivity + specificity - 1
    rate = min(1.0, max(0.0, (observed + specificity - 1) / youden))

    def variance(part: int, whole: int) -> float:
        share = (part + Z * Z / 2) / (whole + Z * Z)
        return share * (1 - share) / (whole + Z * Z)

    spread = variance(*passed) + rate**2 * variance(*passes) + (1 - rate) ** 2 * variance(*fails)
    margin = Z * sqrt(spread) / youden
    return [rate, max(0.0, rate - margin), min(1.0, rate + margin)]


@pytest.mark.slow
@pytest.mark.parametrize(("right", "cases"), [(7, 10), (0, 4), (5, 5)], ids=["some", "none", "all"])
def test_corrected_is_rogan_gladen_of_the_counts(
    project: Project, serve: Callable[..., FakeServer], right: int, cases: int
) -> None:
    serve()
    suite = suite_with()
    suite["targets"][0]["replies"] = {f"case-{n}": ["right" if n < right else "wrong"] for n in range(cases)}
    suite["evals"] = [{"id": f"case-{n}", "prompt": "Capital?", "checks": [ASKED]} for n in range(cases)]
    project.write("evals.yaml", suite)
    project.write("labels.csv", table_of(18, 4, 2, 16))
    judged(project)
    [found] = run(project, code=None)["summary"]["judges"]
    assert (found["judged"], found["passed"]) == (cases, right)
    rate, low, high = rogan_gladen_of((right, cases), (18, 20), (16, 20))
    assert found["corrected"]["rate"] == about(rate)
    assert found["corrected"]["interval"] == about_all([low, high])
    assert found["corrected"]["method"] == "Rogan-Gladen"
    line = f"corrected pass rate of first replies {rate:.0%} ({100 * low:.0f} to {100 * high:.0f})"
    [shown] = corrected_lines(project.run("run", "--corrected", code=None))
    assert line in shown
    assert not corrected_lines(project.run("run", code=None))
    assert corrected_lines(project.run("show", "--corrected")) == [shown]


@pytest.mark.slow
def test_repeats_do_not_make_a_corrected_rate_more_certain(project: Project, serve: Callable[..., FakeServer]) -> None:
    """A judge that says the same of a reply every time: the clustered error in the place of the binomial one."""
    serve()
    suite = suite_with()
    suite["targets"][0]["replies"] = {f"case-{n}": ["right" if n < 7 else "wrong"] for n in range(10)}
    suite["evals"] = [{"id": f"case-{n}", "prompt": "Capital?", "checks": [ASKED]} for n in range(10)]
    project.write("evals.yaml", suite)
    project.write("labels.csv", table_of(18, 4, 2, 16))
    judged(project)
    found = {n: run(project, "--repeat", str(n), code=None)["summary"]["judges"][0] for n in (2, 5)}
    assert found[2]["corrected"]["interval"] == about_all(found[5]["corrected"]["interval"])
    assert (found[5]["judged"], found[5]["cases"]) == (50, 10)
    assert found[5]["rate"]["method"] == "effective wilson"
    assert found[5]["corrected"]["rate"] == about((0.7 + 0.8 - 1) / (0.9 + 0.8 - 1))


@pytest.mark.parametrize(
    "table", [None, (4, 4, 4, 4), (5, 0, 0, 0), (1, 5, 5, 1)], ids=["none", "chance", "one side", "opposite"]
)
def test_no_corrected_rate_where_nothing_is_known(
    project: Project, serve: Callable[..., FakeServer], table: tuple[int, int, int, int] | None
) -> None:
    serve()
    project.write("evals.yaml", suite_with())
    if table is not None:
        project.write("labels.csv", table_of(*table))
        judged(project)
    [line] = corrected_lines(project.run("run", "--corrected"))
    assert ": no corrected pass rate: " in line
    assert run(project)["summary"]["judges"][0]["corrected"] is None


def test_judges_are_counted_by_first_replies(project: Project, serve: Callable[..., FakeServer]) -> None:
    """Also inside groups, where they err, and apart from each other."""
    other = {"llm_judge": {"criteria": "Is it short?"}}

    def answer(received: Received) -> Any:
        return "rubbish" if "Is it short?" in shown(received) else honest(received)

    serve(answer)
    rude = {"llm_judge": {"criteria": "Is it rude?"}}
    suite = suite_with(ASKED, {"or": [{"contains": "right"}, other]}, {"not": rude})
    project.write("evals.yaml", suite)
    project.write("labels.csv", LABELS)
    judged(project, "--check", CRITERIA)
    judges = run(project, code=None)["summary"]["judges"]
    counts = [(one["check"], one["judged"], one["passed"], one["errors"], one["passport"] is None) for one in judges]
    assert counts == [
        (f"llm_judge {CRITERIA}", 1, 1, 0, False),
        ("llm_judge Is it short?", 0, 0, 1, True),
        ("llm_judge Is it rude?", 1, 1, 0, True),
    ]
    lines = judge_lines(project.run("run", "--verbose", "--corrected", code=None))
    assert "0 of 0 first replies passed, 1 error; uncalibrated" in lines[1]


# Cut off and gone on with


class Held:
    """A judge that answers so many calls, and lets all others wait until it is released."""

    def __init__(self, answers: int) -> None:
        self.left = answers

    def __call__(self, received: Received) -> Any:
        if self.left <= 0:
            return Fault("slow_headers", seconds=PATIENCE_S)
        self.left -= 1
        return honest(received)


TEST = ("judge", "test", "--labels", "labels.csv")


def judged_in(folder: Path) -> set[str]:
    """The keys of the judge's answers that a journal holds."""
    return {key for key in told_in(folder) if key_kind(key) == "judge"}


def wait_for_answers(project: Project, server: FakeServer, life: Process, answers: int) -> Path:
    """The run's folder once so many answers are recorded and further ones are waited for."""
    life.wait_for(lambda: run_folders(project.folder))
    folder = only_run(project.folder)
    life.wait_for(lambda: len(judged_in(folder)) >= answers and len(server.requests) > answers)
    return folder


@pytest.mark.slow
def test_a_killed_test_goes_on_without_asking_again(
    project: Project, serve: Callable[..., FakeServer], start: Callable[..., Process]
) -> None:
    held = Held(5)
    server = serve(held)
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", table_of(6, 2, 1, 3))
    life = start(*TEST, "--repeat", "2", "--workers", "3")
    folder = wait_for_answers(project, server, life, 5)
    assert life.kill().code == KILLED
    assert not (project.folder / ".rejoinder/passports").exists()
    before = Counter(reply_in(one) for one in server.requests)
    held.left = 1000
    server.reset()
    found = judged(project, "--repeat", "2", "--workers", "3", "--resume", folder.name)
    assert (found["run"], found["figures"]["scored"], found["labels"]["rows"]) == (folder.name, 12, 12)
    assert found["figures"]["confusion"] == {"both_pass": 6, "judge_only": 2, "human_only": 1, "both_fail": 3}
    assert found["figures"]["self_consistency"]["unanimous"] == 1.0
    assert len(server.requests) == 24 - 5
    after = Counter(reply_in(one) for one in server.requests)
    # What was under way when it was killed is in doubt, and asked again; nothing else is.
    assert sum((before + after).values()) - 24 == sum(before.values()) - 5
    # Going on with a test that is complete asks nothing, and says the same.
    server.reset()
    again = judged(project, "--repeat", "2", "--resume", folder.name[-4:])
    assert server.requests == []
    assert again["figures"] == found["figures"]


@pytest.mark.slow
def test_two_interrupts_stop_a_test_and_it_goes_on(
    project: Project, serve: Callable[..., FakeServer], start: Callable[..., Process]
) -> None:
    held = Held(2)
    server = serve(held)
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", table_of(3, 0, 0, 3))
    life = start(*TEST, "--workers", "2", "--format", "json")
    folder = wait_for_answers(project, server, life, 2)
    life.interrupt()
    life.wait_until_it_says("finishing")
    life.interrupt()
    code, out, err = life.end()
    assert (code, out) == (130, ""), err
    assert f"interrupted; to continue, repeat the command with --resume {folder.name}" in err
    assert "Traceback" not in err
    assert not (project.folder / ".rejoinder/passports").exists()
    held.left = 1000
    server.reset()
    found = judged(project, "--resume", folder.name)
    assert found["figures"]["agreement"] == 1.0
    assert len(server.requests) == 4


def test_the_budget_of_a_suite_holds_for_the_test_of_its_judge(
    project: Project, serve: Callable[..., FakeServer]
) -> None:
    server = serve(lambda received: Answer(honest(received).text, input_tokens=400, output_tokens=100))
    suite = suite_with()
    suite["targets"][1]["max_output_tokens"] = 100  # what a budget has to know
    project.write("evals.yaml", {**suite, "budget": {"tokens": 3000}})
    project.write("labels.csv", table_of(5, 0, 0, 5))
    result = project.invoke("judge", "test", "--labels", "labels.csv", "-w", "1")
    assert (result.exit_code != 0, result.stdout) == (True, ""), result.output
    assert "the suite's `budget` is used up; to continue, repeat the command with --resume" in result.stderr
    assert not (project.folder / ".rejoinder/passports").exists()
    asked = len(server.requests)
    assert 0 < asked < 10
    project.write("evals.yaml", suite)
    assert judged(project, "--resume", run_folders(project.folder)[0].name)["figures"]["agreement"] == 1.0
    assert len(server.requests) == 10


@pytest.mark.slow
def test_only_a_test_of_the_same_judge_and_labels_is_gone_on_with(
    project: Project, serve: Callable[..., FakeServer]
) -> None:
    """A run of something else must not be written over."""
    serve()
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", LABELS)
    project.write("others.csv", LABELS)
    run(project)
    [plain_run] = run_folders(project.folder)
    found = judged(project)
    kept = {path.name: path.read_bytes() for path in plain_run.iterdir()}
    wrong: list[tuple[str, list[str]]] = [
        (plain_run.name, []),
        (found["run"], ["--labels", "others.csv"]),
        (found["run"], ["--target", "openai/judge-2"]),
        (found["run"], ["--criteria", "Is it?", "--target", "openai/judge-1"]),
    ]
    for name, more in wrong:
        error = refused(project, "--resume", name, *more)
        assert f"run {name} is not a test of this judge with" in error.message
    assert {path.name: path.read_bytes() for path in plain_run.iterdir()} == kept
    assert "there is no run `nix`" in refused(project, "--resume", "nix").message


# Secrets, and where things are written


def test_secrets_stay_out_of_all_that_is_written(
    project: Project, serve: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    codeword, key = "xyzzy-plugh-4711", "key-of-a-test-0123456789"

    def chatty(received: Received) -> Answer:
        said = f"{section(received, 'expected_outcome')} with {received.headers['authorization']}"
        return judge(0.0, reasoning=said, misses=[said])

    server = serve(chatty)
    monkeypatch.setenv("REJOINDER_SECRET_CODEWORD", codeword)
    project.write("evals.yaml", suite_with({"llm_judge": {"criteria": "Says {{ secret('codeword') }}"}}))
    project.write("labels.csv", f"reply,label\nright {codeword},pass\n")
    result = project.invoke("judge", "test", "--labels", "labels.csv")
    assert result.exit_code == 0
    found = judged(project)
    assert codeword in shown(server.requests[0])
    assert reply_in(server.requests[0]) == f"right {codeword}"
    told = result.output + json.dumps(found)
    assert "{{ secret('codeword') }}" in found["asked"]
    written = [path for path in (project.folder / ".rejoinder").rglob("*") if path.is_file()]
    assert len(written) > 10
    assert judged(project, "--check", "Says {{ secret('codeword') }}")["digest"] == found["digest"]
    assert codeword not in refused(project, "--check", f"Says {codeword[:-1]}").message  # not even to propose it
    for secret in (codeword, key):
        assert secret not in told
        assert [path for path in written if secret.encode() in path.read_bytes()] == []


def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_nothing_is_written_outside_the_projects_own_folder(project: Project, serve: Callable[..., FakeServer]) -> None:
    serve()
    project.write("deep/evals.yaml", suite_with())
    project.write("elsewhere/labels.csv", LABELS)
    before = files_of(project.folder)
    given = ("judge", "test", "evals.yaml", "--labels", "../elsewhere/labels.csv")
    ended = run_process(project.folder / "deep", *given)
    assert ended.code == 0, ended.err
    after = files_of(project.folder)
    assert {name: after[name] for name in before} == before
    new = {Path(name).parts[:2] for name in set(after) - set(before)}
    assert new == {(".rejoinder", "runs"), (".rejoinder", "passports")}


def test_a_judge_that_is_a_function_lies_beside_its_suite(
    project: Project, module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module('def judge(request):\n    return \'{"score": 1, "reasoning": "mine"}\'\n')
    (project.folder / "deep").mkdir()
    (project.folder / f"{name}.py").rename(project.folder / "deep" / f"{name}.py")
    suite = suite_with()
    suite["targets"][1] = {"name": "judge", "provider": "python", "call": f"{name}:judge"}
    project.write("deep/evals.yaml", suite)
    project.write("labels.csv", LABELS)
    found = judged(project, "deep/evals.yaml")
    assert (found["judge"], found["figures"]["confusion"]["both_pass"]) == ("python/judge", 1)
    assert found["disagreements"][0]["reason"] == "mine"


def test_a_test_of_a_judge_is_a_run_like_any_other(project: Project, serve: Callable[..., FakeServer]) -> None:
    """It is listed, shown and gone on with by the usual commands."""
    serve()
    project.write("evals.yaml", suite_with())
    project.write("labels.csv", LABELS)
    found = judged(project)
    assert "judge test of labels.csv" in project.run("runs")
    assert "judge test of labels.csv on labelled replies, 2 cases" in project.run("show", "--verbose", found["run"])
    document = project.run_json("resume", found["run"], code=1)
    assert [one["metadata"]["label"] for one in document["results"]] == [True, False]
    assert json.loads(passports_of(project)[0].read_text(encoding="utf-8"))["figures"] == found["figures"]
