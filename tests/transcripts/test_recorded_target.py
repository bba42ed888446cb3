"""`provider: transcript`: recorded conversations are graded as they were had, and answer nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rejoinder.errors import UsageError
from rejoinder.transcripts.formats import read_bytes
from rejoinder.transcripts.keys import MOST_KEYS
from rejoinder.transcripts.playing import Recordings, Wanted
from rejoinder.transcripts.values import Transcript
from tests.kit import Project, Raw, by_case, codes, follow, run, run_refusal, statuses
from tests.transcripts.kit import SAMPLES, sample


def recorded(project: Project, name: str, **more: Any) -> Raw:
    shutil.copy(SAMPLES / name, project.folder / name)
    return {"name": "recorded", "provider": "transcript", "file": name, **more}


def suite(target: Raw, *cases: Raw) -> Raw:
    return {"targets": [target], "evals": list(cases)}


def turn(prompt: str, *checks: Raw) -> Raw:
    return {"prompt": prompt, "checks": list(checks)}


def test_a_recorded_conversation_is_graded_turn_by_turn(project: Project) -> None:
    turns = [
        turn("Write it down, please.", {"contains": "done"}, {"tool_calls": ["Bash"]}),
        turn("And 3 * 5?", {"contains": "15"}),
        turn("And 3 * 6?", {"contains": "19"}),
    ]
    [result] = run(project, suite(recorded(project, "claude.jsonl"), {"id": "talk", "turns": turns}), code=1)["results"]
    assert [one["passed"] for one in result["turns"]] == [True, True, False]
    first = result["turns"][0]
    assert first["model"] == "claude-sonnet-4-5"
    assert (first["usage"]["input_tokens"], first["cost"]) == (300, pytest.approx(0.000978))
    assert first["duration_s"] == pytest.approx(0.674)
    [call] = first["tool_calls"]
    assert (call["name"], call["result"], call["status"]) == ("Bash", "done", "completed")


def test_nothing_is_spent(project: Project) -> None:
    case = {"id": "x", "prompt": "Write it down, please.", "checks": [{"contains": "done"}]}
    document = run(project, suite(recorded(project, "claude.jsonl"), case), "--budget-usd", "0.00001", code=0)
    assert document["summary"]["cost"] == pytest.approx(0.000978)
    assert project.run_json("run", "evals.yaml", "--dry-run")["targets"]["recorded"]["most_usd"] == 0


def test_the_case_is_found_by_id_title_file_or_words(project: Project) -> None:
    shutil.copytree(SAMPLES, project.folder / "talks")
    target = {"name": "recorded", "provider": "transcript", "file": "talks"}
    rain = {"prompt": "Will it rain in Oslo?", "checks": [{"contains": "Yes"}]}
    note = {"prompt": "Write it down, please.", "checks": [{"contains": "done"}]}
    sums = {"prompt": '"What is 6 * 7?"', "checks": [{"contains": "42"}]}
    for match, id, case in (
        (None, "rain", rain),
        ("id", "weather-desk-7", rain),
        (None, "Sums", sums),
        ("title", "Sums", sums),
        ("file", "atif", note),
    ):
        settings = {**target, "match": match} if match else target
        assert statuses(run(project, suite(settings, {**case, "id": id}))) == {id: "passed"}
    [result] = run(project, suite({**target, "match": "prompt"}, {**sums, "id": "any"}))["results"]
    assert result["status"] == "passed"
    [result] = run(project, suite({**target, "match": "prompt"}, {**rain, "id": "any"}), code=3)["results"]
    assert "12 conversations of talks have the first words of case `any`" in result["error"]["message"]


def talk(answer: str, **around: Any) -> Raw:
    spoken = [{"role": "user", "content": "Ask."}, {"role": "assistant", "content": answer}]
    return {**around, "messages": spoken}


def in_talks(project: Project, *talks: Raw, match: str) -> Raw:
    project.write("talks.jsonl", "".join(f"{json.dumps(one)}\n" for one in talks))
    return {"name": "recorded", "provider": "transcript", "file": "talks.jsonl", "match": match}


ASK = {"prompt": "Ask.", "checks": [{"match": "*"}]}


@pytest.mark.parametrize("match", ["metadata.case", "conversation_id", "metadata.run.number"])
def test_the_case_is_found_by_any_key_of_the_recording(project: Project, match: str) -> None:
    talks = [
        talk("First.", metadata={"case": "one", "run": {"number": 1}}, conversation_id="a"),
        talk("Second.", metadata={"case": "two", "run": {"number": 2}}, conversation_id="b"),
        talk("Third."),
    ]
    ids = {"metadata.case": ("one", "two"), "conversation_id": ("a", "b"), "metadata.run.number": ("1", "2")}[match]
    cases = [{**ASK, "id": id} for id in ids]
    results = by_case(run(project, suite(in_talks(project, *talks, match=match), *cases), code=0))
    assert [results[id]["turns"][0]["response"] for id in ids] == ["First.", "Second."]


def test_a_case_with_a_conversation_id_is_found_by_that(project: Project) -> None:
    talks = [talk("First.", metadata={"session": "s1"}), talk("Second.", metadata={"session": "s2"})]
    target = in_talks(project, *talks, match="metadata.session")
    content = suite(target, {**ASK, "id": "late", "conversation_id": "s2"})
    assert project.warnings(content) == []
    [result] = run(project, content, code=0)["results"]
    assert result["turns"][0]["response"] == "Second."
    content = suite(target, {**ASK, "id": "late", "conversation_id": "s3"})
    [warning] = project.warnings(content)
    assert "has the `metadata.session` of case `late`, whose conversation is `s3`" in warning["message"]
    assert "there are `s1`, `s2`" in warning["message"]


@pytest.mark.parametrize(
    ("name", "match", "id"),
    [
        ("openinference.json", "session.id", "weather-desk-7"),
        ("openinference.json", "metadata.case", "rain"),
        ("otel_agent.json", "gen_ai.conversation.id", "01a1ec61-843c-7746-9dad-9820175ca9d6"),
        ("agentv.jsonl", "source.metadata.eval_case_id", "rain"),
        ("atif.json", "agent.name", "claude-code"),
        ("claude.jsonl", "sessionId", "11111111-2222-4333-8444-555555555555"),
        ("codex.jsonl", "session_id", "01a1e01f-0cd6-7822-936b-2987b5617f0b"),
        ("copilot.jsonl", "sessionId", "71b350a0-2d04-42b7-8a64-fcd0f8b09709"),
        ("gemini.jsonl", "sessionId", "fe8f4419-9a9d-49af-b561-c152c08b90c6"),
        ("openai_log.jsonl", "response.id", "chatcmpl-00000000000000000000000000001"),
        ("opencode.json", "id", "ses_e1fdf3fd7ffejblDRLsBi9JF2i"),
        ("pi.jsonl", "id", "01a1e02a-9418-7fd5-82cb-89e85956ff89"),
    ],
)
def test_readers_keep_the_keys_of_a_conversation(name: str, match: str, id: str) -> None:
    recordings = Recordings([*sample(name), Transcript(id="other", format="openai")], name, match)
    found = recordings.find(Wanted(id))
    assert found is not None and found.format == sample(name)[0].format


def test_a_key_that_no_conversation_has_is_one_error_that_lists_the_keys(project: Project) -> None:
    talks = [talk("First.", metadata={"case": "one"}, tag="x"), talk("Second.", metadata={"case": "two"})]
    content = suite(in_talks(project, *talks, match="metadata.cas"), {**ASK, "id": "one"}, {**ASK, "id": "two"})
    [warning] = project.warnings(content)
    assert warning["code"] == "unusable-target"
    said = "no conversation of talks.jsonl has the key `metadata.cas`; did you mean `metadata.case`?"
    assert said in warning["message"]
    assert "keys to match are `id`, `title`, `file`, `prompt`, `metadata.case`, `tag`" in warning["message"]
    assert said in run_refusal(project, content)


def test_keys_of_strangers_are_bounded(project: Project) -> None:
    wide = {f"key-{number}": "x" for number in range(5000)}
    deep: Raw = {"end": "x"}
    for _ in range(50):
        deep = {"in": deep}
    [found] = read_bytes(json.dumps(talk("A.", wide=wide, deep=deep, long="x" * 1000)).encode(), "talk.json")
    assert len(found.keys) == MOST_KEYS
    with pytest.raises(UsageError) as caught:
        Recordings([found], "talk.json", "nothing")
    assert len(caught.value.hint or "") < 3000


def test_other_words_are_an_error_that_shows_both(project: Project) -> None:
    case = {"id": "x", "prompt": "Write nothing.", "checks": [{"contains": "done"}]}
    target = recorded(project, "claude.jsonl")
    [result] = run(project, suite(target, case), code=3)["results"]
    assert result["error"]["type"] == "no-recording"
    assert 'now "Write nothing.", then "Write it down, please."' in result["error"]["message"]
    assert statuses(run(project, suite({**target, "prompts": "any"}, case))) == {"x": "passed"}


def test_white_space_around_words_is_no_difference(project: Project) -> None:
    case = {"id": "x", "prompt": "  Write it down, please.\n\n", "checks": [{"contains": "done"}]}
    assert statuses(run(project, suite(recorded(project, "claude.jsonl"), case))) == {"x": "passed"}


def test_follow_ups_go_on_while_the_recording_was_asked_the_same(project: Project) -> None:
    same = follow("And 3 * 5?", {"contains": "15"})
    other = follow("Are you sure?", {"contains": "15"})
    target = recorded(project, "claude.jsonl")
    cases = [
        {"id": id, "prompt": "Write it down, please.", "checks": [{"contains": "nothing"}, one]}
        for id, one in (("same", same), ("other", other))
    ]
    results = by_case(run(project, suite(target, *cases), code=3))
    assert results["same"]["turns"][1]["passed"]
    assert (results["other"]["status"], results["other"]["error"]["turn"]) == ("error", 2)


def test_a_recording_that_is_shorter_than_the_case_is_an_error(project: Project) -> None:
    turns = [turn("Write it down.", {"contains": "done"}), turn("And then?", {"contains": "x"})]
    [result] = run(project, suite(recorded(project, "copilot.jsonl"), {"id": "x", "turns": turns}), code=3)["results"]
    assert "has 1 reply, and this is turn 2: a recording cannot say more" in result["error"]["message"]


def test_validation_finds_what_is_missing(project: Project) -> None:
    case = {"id": "rain", "prompt": "Will it rain in Oslo?", "checks": [{"contains": "Yes"}]}
    target = recorded(project, "agentv.jsonl")
    rows = (SAMPLES / "agentv.jsonl").read_text()
    project.write("agentv.jsonl", rows + rows.replace('"test_id":"rain"', '"test_id":"snow"'))
    assert project.warnings(suite(target, case)) == []
    [warning] = project.warnings(suite(target, {**case, "id": "ran"}))
    assert warning["code"] == "no-recording"
    assert "has the id or title of case `ran`; did you mean `rain`?" in warning["message"]
    assert codes(project.errors(suite({**target, "file": "nothing.jsonl"}, case))) == ["file-not-found"]
    assert codes(project.errors(suite({**target, "format": "cobex"}, case))) == ["out-of-range"]
    assert codes(project.errors(suite({"name": "recorded", "provider": "transcript"}, case))) == ["missing-field"]
    project.write("odd.json", {"a": 1})
    [warning] = project.warnings(suite({**target, "file": "odd.json"}, case))
    assert warning["code"] == "unusable-target"
    assert "not in a known transcript format" in warning["message"]


def test_a_recording_that_can_be_read_passes_the_check_of_targets(project: Project) -> None:
    case = {"id": "rain", "prompt": "Will it rain in Oslo?", "checks": [{"contains": "Yes"}]}
    project.write("evals.yaml", suite(recorded(project, "agentv.jsonl"), case))
    assert "recorded" in project.run("targets", "check")
    assert "ready" in project.run("targets")


def test_what_we_export_as_spans_reads_back(project: Project) -> None:
    replies = [{"text": "Rome.", "output_tokens": 3}, "Paris."]
    checks = [{"contains": "Paris"}, follow("Look again.", {"contains": "Paris"})]
    content = {
        "targets": [{"name": "demo", "provider": "scripted", "replies": replies}],
        "evals": [{"id": "france", "prompt": "The capital of France?", "checks": checks}],
    }
    before = run(project, content, "--include", "messages", code=0)["results"][0]
    project.run("export", "--to", "otlp", "--out", "spans.json")
    target = {"name": "recorded", "provider": "transcript", "file": "spans.json"}
    after = run(project, {**content, "targets": [target]}, code=0)["results"][0]
    for one, other in zip(before["turns"], after["turns"], strict=True):
        assert (one["prompt"], one["response"], one["passed"]) == (other["prompt"], other["response"], other["passed"])
    assert len(sample("otel.json")) == 1
    exported = json.loads(Path("spans.json").read_text())
    assert len(exported["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 3
