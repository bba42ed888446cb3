"""Prompts that stand in files of their own."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder.cli.watch import Watched
from rejoinder.runs.options import RunOptions
from tests.kit import Project, Raw, by_case, case, codes, only_run, refusal, run, scripted


def answered(**suite: Any) -> Raw:
    return {"targets": [scripted("demo", "Yes", "Yes")], "target": "demo", **suite}


def system_of(shown: Raw) -> str:
    return shown["messages"][0]["content"]


def test_prompts_and_system_prompts_may_stand_in_files(project: Project) -> None:
    project.write("prompts/ask.md", "Where is {{ town }}?\n")
    project.write("prompts/system.md", "\ufeffBe {{ var('tone') }}.\n")
    suite: Raw = {
        "metadata": {"system_prompt": {"file": "prompts/system.md"}},
        "vars": {"tone": "brief"},
        "evals": [
            case(vars={"town": "Oslo"}, prompt={"file": "prompts/ask.md"}),
            case("two", system_prompt={"file": "prompts/{{ which }}.md"}, vars={"which": "ask", "town": "Rome"}),
        ],
    }
    one, two = project.prompts(suite)
    assert (one["question"], system_of(one)) == ("Where is Oslo?", "Be brief.")
    assert (two["question"], system_of(two)) == ("Question two", "Where is Rome?")


def test_follow_ups_may_stand_in_files(project: Project) -> None:
    project.write("prompts/again.md", "\n{{ word }}: not {{ response }}.\n")
    asked = {"prompt": {"file": "prompts/again.md"}, "checks": [{"match": "*"}]}
    suite = answered(evals=[case("a", {"equals": "never", **asked}, vars={"word": "No"})])
    result = by_case(run(project, suite))["a"]
    assert [turn["prompt"] for turn in result["turns"]][1:] == ["No: not Yes."]


@pytest.mark.parametrize("where", ["evals.yaml", ".rejoinder/targets.yaml", ".rejoinder/config.yaml"])
def test_a_target_has_its_system_prompt_in_a_file(project: Project, where: str) -> None:
    project.write("prompts/target.md", "You are {{ var('who') }}.")
    target = scripted("t", "ok", system_prompt={"file": "prompts/target.md"})
    suite: Raw = {"target": "t", "vars": {"who": "Ada"}, "evals": [case()]}
    if where == "evals.yaml":
        suite["targets"] = [target]
    else:
        project.write(where, {"targets": [target]})
    [shown] = project.prompts(suite)
    # As with texts that stand there themselves: variables belong to suites.
    assert system_of(shown) == ("You are Ada." if where == "evals.yaml" else "You are {{ var('who') }}.")


def test_rows_of_a_data_set_name_files(project: Project) -> None:
    project.write("prompts/a.md", "Text A")
    project.write("prompts/b.md", "Text B")
    project.write("rows.jsonl", '{"id": "a", "prompt": {"file": "prompts/a.md"}}\n')
    project.write("more.csv", "id,prompt\nb,{plain text}\n")
    checks = {"defaults": {"checks": [{"match": "*"}]}}
    assert [one["question"] for one in project.prompts({"cases": "rows.jsonl", **checks})] == ["Text A"]
    assert [one["question"] for one in project.prompts({"cases": "more.csv", **checks})] == ["{plain text}"]


def problem_at(project: Project, value: Any) -> Raw:
    project.write("prompts/question.md", "What?")
    [problem] = project.errors(answered(evals=[case(prompt=value)]))
    return problem


def test_a_file_that_is_missing_is_named_with_the_nearest(project: Project) -> None:
    text = "target: scripted/x\nevals:\n  - prompt: {file: prompts/questoin.md}\n    checks: [match: '*']\n"
    project.write("prompts/question.md", "What?")
    [problem] = project.errors(text)
    assert problem["code"] == "file-not-found"
    assert (problem["line"], problem["column"]) == (3, 20)
    assert "did you mean `prompts/question.md`?" in problem["message"]


def test_files_that_cannot_be_used_are_refused(project: Project) -> None:
    project.write("bad.md", b"\xff\xfe\x00")
    project.write("latin.md", "caf\xe9".encode("latin-1"))
    project.write("empty.md", " \n")
    with (project.folder / "huge.md").open("wb") as stream:
        stream.truncate(11 * 1024 * 1024)
    found = {
        name: problem_at(project, {"file": name})["code"]
        for name in ("prompts", "bad.md", "latin.md", "empty.md", "huge.md", " ")
    }
    assert found == {
        "prompts": "unreadable-file",
        "bad.md": "not-utf8",
        "latin.md": "not-utf8",
        "empty.md": "empty-prompt",
        "huge.md": "too-large",
        " ": "file-not-found",
    }


def test_files_that_system_prompts_lack_are_errors(project: Project) -> None:
    missing = {"file": "missing.md"}
    assert codes(project.errors({"metadata": {"system_prompt": missing}, "evals": [case()]})) == ["file-not-found"]
    suite = {"targets": [scripted("t", "ok", system_prompt=missing)], "target": "t", "evals": [case()]}
    assert codes(project.errors(suite)) == ["file-not-found"]
    project.write(".rejoinder/targets.yaml", {"targets": [scripted("t", "ok", system_prompt=missing)]})
    [problem] = project.validate()["files"][0]["errors"]
    assert (problem["code"], problem["path"]) == ("file-not-found", "targets[0].system_prompt.file")


def test_what_is_wrong_inside_a_file_names_it(project: Project) -> None:
    project.write("ask.md", "Where is {{ twon }}?")
    [problem] = project.errors(answered(evals=[case(vars={"town": "Oslo"}, prompt={"file": "ask.md"})]))
    assert problem["code"] == "missing-variable"
    assert problem["message"] == "there is no variable `twon`; did you mean `town`? (in 'ask.md')"


@pytest.mark.parametrize("place", ["case", "metadata"])
def test_a_name_that_is_not_filled_in_is_one_mistake(project: Project, place: str) -> None:
    value = {"file": "prompts/{{ var('nothing') }}.md"}
    suite = answered(evals=[case(prompt=value)]) if place == "case" else answered(evals=[case()])
    suite |= {"metadata": {"system_prompt": value}} if place == "metadata" else {}
    assert codes(project.errors(suite)) == ["missing-variable"]


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        ({"flie": "a.md"}, "unknown-key", "did you mean `file`"),
        ({}, "missing-field", "`prompt` needs `file`"),
        ({"file": ""}, "out-of-range", "`file` must not be empty"),
        ({"file": 3}, "wrong-type", "`file` must be text"),
        (["a.md"], "wrong-type", "`prompt` must be text or a mapping"),
    ],
)
def test_other_forms_are_explained(project: Project, value: Any, code: str, words: str) -> None:
    problems = project.errors(answered(evals=[case(prompt=value)]))
    assert code in codes(problems)
    assert words in problems[0]["message"] or words in problems[-1]["message"]


def test_a_run_says_which_files_it_was_made_from_and_needs_them_no_more(project: Project) -> None:
    text = "Where is Oslo?\n"
    file = project.write("prompts/ask.md", text)
    suite = answered(evals=[case(prompt={"file": "prompts/ask.md"})])
    document = run(project, suite, code=0)
    files = {"prompts/ask.md": sha256(text.encode()).hexdigest()}
    assert [one["files"] for one in document["run"]["suites"]] == [files]
    stored = json.loads((only_run(project.folder) / "suite.json").read_text())
    assert stored["suites"][0]["files"] == files
    file.unlink()
    (project.folder / "evals.yaml").unlink()
    replayed = project.run_json("replay", "last")
    assert replayed["results"][0]["turns"][0]["prompt"] == "Where is Oslo?"
    assert [one["files"] for one in replayed["run"]["suites"]] == [files]


def test_a_changed_file_is_another_question(project: Project) -> None:
    project.write("ask.md", "Where is Oslo?")
    first = run(project, answered(evals=[case(prompt={"file": "ask.md"})]))
    project.write("ask.md", "Where is Rome?")
    [result] = project.run_json("replay", "last", code=None)["results"]
    assert first["results"][0]["status"] == "passed"
    assert result["error"]["type"] == "no-recording"


def test_files_of_texts_are_watched(project: Project) -> None:
    project.write("prompts/ask.md", "Where?")
    path = project.write("evals.yaml", answered(evals=[case(prompt={"file": "prompts/ask.md"})]))
    watched = Watched(rejoinder.load(path).loaded, RunOptions())
    watched.load()
    assert Path("prompts/ask.md").resolve() in {one.resolve() for one in watched.look()}


def test_a_prompt_without_its_file_is_not_shown(project: Project) -> None:
    project.write("evals.yaml", answered(evals=[case(prompt={"file": "missing.md"})]))
    assert "missing.md" in refusal(project, "prompt")


def test_an_address_in_place_of_a_text_is_a_warning(project: Project) -> None:
    """It is sent as it stands."""
    address = "file://prompts/ask.md"
    suite = answered(
        metadata={"system_prompt": address},
        targets=[scripted("demo", "Yes", system_prompt=address)],
        variants=[{"name": "a", "prompt_prefix": address}, {"name": "b"}],
        defaults={"system_prompt": "file:///etc/prompt.txt"},
        evals=[case("one", {"match": "*", "prompt": address, "checks": [{"match": "*"}]}, prompt=f"{address}\n")],
    )
    found = [one for one in project.warnings(suite) if one["code"] == "file-as-text"]
    assert {one["path"] for one in found} == {
        *("metadata.system_prompt", "targets[0].system_prompt", "variants[0].prompt_prefix", "defaults.system_prompt"),
        *("evals[0].prompt", "evals[0].checks[0].prompt"),
    }
    [one] = [one for one in found if one["path"] == "defaults.system_prompt"]
    assert one["message"].endswith("`system_prompt: {file: /etc/prompt.txt}`")
    project.write(
        ".rejoinder/targets.yaml", {"targets": [{"name": "x", "provider": "openai", "system_prompt": address}]}
    )
    [file] = [one for one in project.validate("evals.yaml")["files"] if "targets" in one["path"]]
    assert "file-as-text" in codes(file["warnings"])


@pytest.mark.parametrize(
    "text", ["What is file://x?", "file://{{ var('x') }}", "file://", "Look at file:x", "files/x.md"]
)
def test_a_text_that_only_speaks_of_a_file_is_a_text(project: Project, text: str) -> None:
    assert "file-as-text" not in codes(project.warnings(answered(evals=[case(prompt=text)], vars={"x": "y"})))


def test_the_mended_line_can_be_pasted(project: Project) -> None:
    project.write("ask.md", "Where is Oslo?")
    text = "target: scripted/x\nevals:\n  - id: a\n    checks: [{match: '*'}]\n    prompt: 'file://ask.md'\n"
    [warning] = project.warnings(text)
    assert warning["suggestion"] == "    prompt: {file: ask.md}"
    project.write("evals.yaml", text.replace("    prompt: 'file://ask.md'", warning["suggestion"]))
    assert project.run_json("prompt")[0]["messages"][0]["content"] == "Where is Oslo?"
