"""Variants of a suite: every case on every one of them, counted, selected and compared like targets."""

from __future__ import annotations

from typing import Any

import pytest

import rejoinder
from rejoinder.engine.plan import JobFinder, plan, reference_of
from rejoinder.runs.options import RunOptions, Selection
from rejoinder.testing import Answer, FakeServer
from tests.engine.variants import YES, two
from tests.kit import (
    Project,
    Raw,
    behind,
    case,
    codes,
    essence,
    follow,
    refusal,
    refused,
    run,
    run_folders,
    scripted,
)


def places(document: Raw) -> list[tuple[str, str, str]]:
    return [(one["id"], one["variant"], one["status"]) for one in document["results"]]


def shown(project: Project, variants: list[Raw], asked: Raw, **suite: Any) -> dict[str, list[tuple[str, str]]]:
    """The messages of each variant of one case."""
    found = project.prompts({"variants": variants, "evals": [asked], **suite})
    return {one["variant"]: [(message["role"], message["content"]) for message in one["messages"]] for one in found}


# What a variant changes


def test_every_case_is_run_on_every_variant(project: Project) -> None:
    document = run(project, two(), code=1)
    assert places(document) == [
        ("a", "plain", "passed"),
        ("a", "terse", "failed"),
        ("b", "plain", "passed"),
        ("b", "terse", "passed"),
    ]
    assert [one["number"] for one in document["results"]] == [1, 1, 2, 2]
    assert document["run"]["planned"] == 4


def test_a_suite_without_variants_has_results_without_one(project: Project) -> None:
    document = run(project, two(variants=[{"name": "only"}]))
    assert {one["variant"] for one in document["results"]} == {"only"}
    suite = two()
    del suite["variants"]
    document = run(project, suite, code=0)
    assert {one.get("variant") for one in document["results"]} == {None}
    assert document["summary"]["by_variant"] == {}


def test_a_variant_has_a_system_prompt_and_a_prefix(project: Project) -> None:
    project.write("prompts/terse.md", "Be terse, {{ who }}.")
    project.write("prompts/prefix.md", "Breathe, {{ who }}.\n")
    variants = [
        {"name": "plain"},
        {"name": "terse", "system_prompt": {"file": "prompts/terse.md"}},
        {"name": "calm", "prompt_prefix": {"file": "prompts/prefix.md"}},
    ]
    asked = case("a", prompt="Where?", vars={"who": "Ada"}, system_prompt="Own.")
    assert shown(project, variants, asked, metadata={"system_prompt": "Suite."}) == {
        "plain": [("system", "Own."), ("user", "Where?")],
        "terse": [("system", "Be terse, Ada."), ("user", "Where?")],
        "calm": [("system", "Own."), ("user", "Breathe, Ada.\n\nWhere?")],
    }


def test_the_command_s_system_prompt_wins_over_the_variant_s(project: Project) -> None:
    suite = {"variants": [{"name": "v", "system_prompt": "Variant."}], "evals": [case()]}
    [one] = project.prompts(suite, "--system-prompt", "Command.")
    assert one["messages"][0]["content"] == "Command."


def test_a_prefix_goes_before_the_first_message_of_the_user_only(project: Project) -> None:
    said = [("system", "S"), ("user", "One"), ("assistant", "A"), ("user", "Two")]
    asked = {"id": "a", "input_messages": [{"role": role, "content": text} for role, text in said], "outcome": "o"}
    [found] = shown(project, [{"name": "v", "prompt_prefix": "Hi."}], asked).values()
    assert found == [("system", "S"), ("user", "Hi.\n\nOne"), ("assistant", "A"), ("user", "Two")]


def test_a_prefix_is_no_title(project: Project) -> None:
    suite = two(case(prompt="Where is Oslo?"), variants=[{"name": "v", "prompt_prefix": "Take a breath."}])
    [result] = run(project, suite)["results"]
    assert result["title"] == "Where is Oslo?"
    assert result["turns"][0]["prompt"] == "Take a breath.\n\nWhere is Oslo?"


def test_variables_of_a_variant_win_wherever_they_are_used(project: Project) -> None:
    variants = [{"name": "one"}, {"name": "two", "vars": {"tone": "briefly", "who": "Bob", "n": 2}}]
    suite = {
        "vars": {"tone": "kindly", "style": "Speak {{ var('tone') }}."},
        "metadata": {"system_prompt": "{{ var('style') }}"},
    }
    own = {"who": "Ada", "greeting": "Hi {{ var('tone') }}", "n": 1}
    asked = case("a", prompt="{{ greeting }}, {{ who }} {{ n }}", vars=own)
    assert shown(project, variants, asked, **suite) == {
        "one": [("system", "Speak kindly."), ("user", "Hi kindly, Ada 1")],
        "two": [("system", "Speak briefly."), ("user", "Hi briefly, Bob 2")],
    }


def test_variables_of_a_variant_fill_cases_and_rows_that_have_none(project: Project) -> None:
    variants = [{"name": "one", "vars": {"t": "1"}}, {"name": "two", "vars": {"t": "2"}}]
    found = shown(project, variants, case("a", prompt="{{ t }} {{ var('t') }}"))
    assert [messages[0][1] for messages in found.values()] == ["1 1", "2 2"]
    project.write("rows.csv", "id,t,u\nx,row,X\ny,row,Y\n")
    suite = {"variants": variants, "cases": "rows.csv", "defaults": {"prompt": "{{ t }} {{ u }}", "outcome": "o"}}
    rows = [(one["id"], one["variant"], one["question"]) for one in project.prompts(suite)]
    assert rows == [("x", "one", "1 X"), ("x", "two", "2 X"), ("y", "one", "1 Y"), ("y", "two", "2 Y")]


def test_settings_of_a_variant_are_sent_however_the_target_spells_them(project: Project) -> None:
    variants = [{"name": "own"}, {"name": "cool", "settings": {"temperature": 0, "max_tokens": 20}}]
    with FakeServer(Answer("yes")) as server:
        target = behind(server, "it", maxTokens=10, temperature=1)
        suite = {"targets": [target], "target": "it", "variants": variants, "evals": [case("a", YES)]}
        document = run(project, suite, "--workers", "1")
        sent = [one.body for one in server.requests]
    assert [one["temperature"] for one in sent] == [1, 0]
    assert [one.get("max_tokens", one.get("max_completion_tokens")) for one in sent] == [10, 20]
    assert [one["target"] for one in document["results"]] == ["it", "it"]
    assert [one["name"] for one in document["run"]["targets"]] == ["it"]


def test_a_judge_has_no_settings_of_the_variant(project: Project) -> None:
    judge = {"llm_judge": {"criteria": "Is it good?"}}
    target = scripted("demo", "Yes", judge=[True, True])
    settings = {"judge": [False], "replies": ["No"]}
    suite = two(case("a", judge), targets=[target], variants=[{"name": "v", "settings": settings}])
    document = run(project, suite, code=0)
    assert document["results"][0]["turns"][0]["response"] == "No"
    assert document["run"]["judges_itself"]


# Mistakes


@pytest.mark.parametrize(
    ("variants", "code", "path", "words"),
    [
        ([], "out-of-range", "", "must not be empty"),
        ([{}], "missing-field", "[0].name", "a variant needs `name`"),
        ([{"name": "a,b"}], "out-of-range", "[0].name", "letters, digits"),
        ([{"name": "a"}, {"name": "a"}], "duplicate-id", "[1].name", "a variant `a` already"),
        ([{"name": "a", "system_promt": "x"}], "unknown-key", "[0].system_promt", "did you mean `system_prompt`"),
        ([{"name": "a", "settings": {"temprature": 1}}], "unknown-key", "[0].settings.temprature", "`temperature`"),
        ([{"name": "a", "settings": {"model": "m"}}], "unknown-key", "[0].settings.model", "another target"),
        ([{"name": "a", "prompt_prefix": {"file": "no.md"}}], "file-not-found", "[0].prompt_prefix.file", "no.md"),
    ],
)
def test_mistakes_in_variants_are_explained(project: Project, variants: Any, code: str, path: str, words: str) -> None:
    [problem] = project.errors(two(variants=variants))
    assert (problem["code"], problem["path"]) == (code, f"variants{path}")
    assert words in problem["message"]


def test_what_one_variant_lacks_names_it(project: Project) -> None:
    variants = [{"name": "one", "vars": {"t": "1"}}, {"name": "two", "vars": {"x": "1"}}]
    [problem] = project.errors(two(case("a", prompt="{{ t }}"), variants=variants))
    assert problem["message"].endswith("(with the variant `two`)")
    assert problem["code"] == "missing-variable"


def test_a_variable_of_variants_alone_fills_what_the_suite_says(project: Project) -> None:
    variants = [{"name": "one", "vars": {"tone": "kindly"}}, {"name": "two", "vars": {"tone": "curtly"}}]
    suite: Raw = {"vars": {"style": "Speak {{ var('tone') }}."}, "metadata": {"system_prompt": "{{ var('style') }}"}}
    found = shown(project, variants, case(), **suite)
    assert [messages[0][1] for messages in found.values()] == ["Speak kindly.", "Speak curtly."]
    [problem] = project.errors({**suite, "variants": [*variants, {"name": "none"}], "evals": [case()]})
    assert (problem["path"], problem["code"]) == ("vars.style", "missing-variable")
    assert problem["message"].endswith("(with the variant `none`)")


def test_what_every_variant_lacks_is_said_once(project: Project) -> None:
    assert codes(project.errors(two(case("a", prompt="{{ var('t') }}")))) == ["missing-variable"]


# Selection


def test_variants_are_selected_by_name(project: Project) -> None:
    assert places(run(project, two(), "--variant", "terse")) == [("a", "terse", "failed"), ("b", "terse", "passed")]
    assert len(run(project, two(), "--variant", "terse,plain")["results"]) == 4


def test_a_variant_that_is_not_there_is_refused_with_the_nearest(project: Project) -> None:
    error = refused_run(project, "--variant", "tersse")
    assert (error.message, error.hint) == ("there is no variant `tersse`", "did you mean `terse`?")


def refused_run(project: Project, *arguments: str) -> Any:
    project.write("evals.yaml", two())
    return refused(project, "run", "evals.yaml", *arguments)


def test_a_limit_counts_cases_and_not_variants(project: Project) -> None:
    document = run(project, two(), "--limit", "1")
    assert [place[:2] for place in places(document)] == [("a", "plain"), ("a", "terse")]
    assert (document["run"]["chosen"]["cases"], document["run"]["chosen"]["of"]) == (1, 2)


def test_python_selects_variants(project: Project) -> None:
    path = project.write("evals.yaml", two())
    report = rejoinder.run(path, selection=Selection(variants=("plain",)))
    assert {result.variant for result in report.results} == {"plain"}


def test_a_dry_run_counts_variants(project: Project) -> None:
    project.write("evals.yaml", two())
    assert "4 conversations" in project.run("run", "evals.yaml", "--dry-run")
    assert "2 conversations" in project.run("run", "evals.yaml", "--dry-run", "--variant", "plain")


# Figures


def test_several_variants_have_no_common_rate(project: Project) -> None:
    summary = run(project, two())["summary"]
    assert (summary["pass_rate"], summary["rates"], summary["repeats"]) == (None, None, None)
    assert {name: one["pass_rate"] for name, one in summary["by_variant"].items()} == {"plain": 1.0, "terse": 0.5}
    assert [one["pass_rate"] for one in summary["by_target"].values()] == [None]
    lone = run(project, two(), "--variant", "terse")["summary"]
    assert lone["pass_rate"] == lone["by_variant"]["terse"]["pass_rate"] == 0.5


def test_with_several_targets_too_variants_have_counts_alone(project: Project) -> None:
    targets = [scripted("x", "Yes"), scripted("y", "Never")]
    summary = run(project, two(targets=targets), "--target", "x,y")["summary"]
    assert {name: (one["total"], one["pass_rate"]) for name, one in summary["by_variant"].items()} == {
        "plain": (4, None),
        "terse": (4, None),
    }


def test_the_terminal_shows_variants_like_targets(project: Project) -> None:
    project.write("evals.yaml", two())
    text = project.run("run", "evals.yaml", code=1)
    rows = [line.split() for line in text.splitlines()]
    assert ["case", "plain", "terse"] in rows
    assert any(row[:3] == ["FAIL", "a", "on"] for row in rows)
    assert any(row[:2] == ["variant", "passed"] for row in rows)
    assert "terse against plain: " in text
    exported = project.run("export", "last", "--to", "markdown")
    assert "| Variant | Passed |" in exported


# Runs that are taken up again


def test_runs_are_replayed_resumed_and_verified_with_their_variants(project: Project) -> None:
    first = run(project, two(), "--repeat", "2")
    assert essence(project.run_json("replay", "last", code=1))["results"] == essence(first)["results"]
    project.run("verify", "last")
    (project.folder / "evals.yaml").unlink()
    assert essence(project.run_json("replay", "last~1", code=1))["summary"] == essence(first)["summary"]


def test_parts_of_a_run_are_merged(project: Project) -> None:
    suite = two(*(case(f"c{n}", YES) for n in range(6)))
    whole = run(project, suite)
    for part in ("1/2", "2/2"):
        run(project, suite, "--shard", part)
    _, one, other = run_folders(project.folder)
    merged = project.run_json("merge", str(one), str(other), code=1)
    assert places(merged) == places(whole)


def test_variants_with_the_same_words_have_answers_of_their_own(project: Project) -> None:
    variants = [{"name": "one"}, {"name": "two"}]
    path = project.write("evals.yaml", two(case("a"), variants=variants))
    first, second = plan([rejoinder.load(path).loaded], RunOptions())
    assert first.prepared.content != second.prepared.content
    run(project, two(case("a"), variants=variants))
    assert len(project.run_json("replay", "last")["results"]) == 2


def test_another_process_finds_the_variant(project: Project) -> None:
    suites = [rejoinder.load(project.write("evals.yaml", two())).loaded]
    for job in plan(suites, RunOptions()):
        found = JobFinder(suites, RunOptions()).find(reference_of(job))
        assert (found.prepared.variant, reference_of(found)) == (job.prepared.variant, reference_of(job))


def test_conversations_are_recorded_by_variant(project: Project) -> None:
    first = run(project, two(), "--record", "tapes")
    again = run(project, two(), "--replay", "tapes")
    assert places(first) == places(again)


def test_a_fork_takes_up_one_variant(project: Project) -> None:
    suite = two(case("a", YES, follow("Again?", {"icontains": "yes"})))
    run(project, suite)
    fork = ("fork", "last", "--case", "a", "--turn", "1", "--prompt", "Sure?")
    assert "Name one with --variant: plain, terse" in refusal(project, *fork)
    document = project.run_json(*fork, "--variant", "terse", code=None)
    assert [(one["variant"], one["turns"][0]["prompt"]) for one in document["results"]] == [("terse", "Sure?")]


def test_parts_of_other_variants_are_refused(project: Project) -> None:
    suite = two(*(case(f"c{n}") for n in range(6)))
    for variant, part in (("plain", "1/2"), ("terse", "2/2")):
        run(project, suite, "--variant", variant, "--shard", part)
    one, other = run_folders(project.folder)
    assert "different --variant" in refusal(project, "merge", str(one), str(other))


def test_a_run_that_reached_its_budget_goes_on_with_the_other_variants(project: Project) -> None:
    suite = two(*(case(f"c{n}", YES) for n in range(4)))
    suite["targets"] = [{"name": "demo", "provider": "scripted", "replies": [{"text": "Yes", "output_tokens": 10}]}]
    suite["variants"] = [{"name": "plain"}, {"name": "terse", "system_prompt": "Be brief."}]
    whole = run(project, suite)
    project.write("evals.yaml", suite)
    stopped = project.run_json("run", "--budget-tokens", "45", "--workers", "1", "--max-tokens", "10", code=4)
    assert 0 < stopped["summary"]["passed"] < 8
    ended = project.run_json("resume", "last", "--budget-tokens", "1000")
    assert places(ended) == places(whole)
    assert ended["summary"]["usage"]["output_tokens"] == 80, "nothing was asked twice"
    assert {name: one["passed"] for name, one in ended["summary"]["by_variant"].items()} == {"plain": 4, "terse": 4}


def test_python_compares_variants(project: Project) -> None:
    report = rejoinder.run(project.write("evals.yaml", two()))
    [found] = rejoinder.compare_variants(report)
    assert (found.a.variants, found.b.variants, found.matched) == (("plain",), ("terse",), 2)


def test_conversations_of_one_variant_are_shown(project: Project) -> None:
    run(project, two())
    document = project.run_json("show", "--variant", "terse")
    assert {one["variant"] for one in document["results"]} == {"terse"}
    assert "has no variant `ters` Did you mean `terse`?" in refusal(project, "show", "--variant", "ters")
