"""`rejoinder import transcript`: a bad conversation becomes a case that fails as recorded, and runs elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.suite.load import read_suite
from rejoinder.transcripts.cases import UP_TO_A_REPLY, Chosen, choose, write_suite
from rejoinder.transcripts.formats import read_bytes
from rejoinder.transcripts.values import Transcript
from tests.kit import Project, Raw, bounded, codes, refusal, statuses
from tests.transcripts.kit import EXPECTED, SAMPLES, sample


@pytest.fixture
def talks(project: Project) -> Project:
    for path in SAMPLES.glob("*.json*"):
        shutil.copy(path, project.folder)
    return project


def messages(*spoken: tuple[str, str], **more: Any) -> Raw:
    return {**more, "messages": [{"role": role, "content": text} for role, text in spoken]}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_turn_of_a_sample_can_be_the_one_that_went_wrong(name: str, tmp_path: Path) -> None:
    for one in sample(name):
        for turn in one.turns:
            found = choose(one, turn.number)
            assert found == turn
            (tmp_path / "evals.yaml").write_text(
                write_suite(UP_TO_A_REPLY, "x", [Chosen(one, turn, one.id)], target="scripted/x")
            )
            loaded = read_suite(tmp_path / "evals.yaml")
            assert loaded.suite is not None, loaded.problems
            assert [code for code in codes_of(loaded.problems) if code != "unknown-target"] == []


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_reply_of_a_sample_is_graded_by_checks_of_the_suite(talks: Project, name: str) -> None:
    talks.run("import", "transcript", name, "--every-turn", "--out", "all.yaml")
    talks.run("validate", "all.yaml", "--strict")
    results = talks.run_json("run", "all.yaml", code=None)["results"]
    for result, one in zip(results, sample(name), strict=True):
        assert [turn["prompt"] for turn in result["turns"]] == [turn.prompt for turn in one.turns]
        assert [turn["response"] for turn in result["turns"]] == [turn.text for turn in one.turns]
        assert all(len(turn["checks"]) == 1 for turn in result["turns"])


def test_every_turn_goes_on_after_a_wrong_reply_and_up_to_the_turn_that_is_named(project: Project) -> None:
    first = ("system", "Be brief."), ("user", "{{ env('HOME') }}?"), ("assistant", "A")
    rest = ("user", "b"), ("assistant", "B"), ("user", "c"), ("assistant", "C")
    project.write("talk.json", json.dumps(messages(*first, *rest)))
    project.run("import", "transcript", "talk.json", "--every-turn", "--turn", "2", "--out", "all.yaml")
    written = (project.folder / "all.yaml").read_text()
    assert "system_prompt: Be brief." in written
    project.write("all.yaml", written.replace("min_words: 1", "equals: B"))
    [result] = project.run_json("run", "all.yaml", code=1)["results"]
    assert [turn["prompt"] for turn in result["turns"]] == ["{{ env('HOME') }}?", "b"]
    assert [step["status"] for step in result["steps"]] == ["failed", "passed"]


def codes_of(problems: Any) -> list[str]:
    return codes([{"code": problem.code} for problem in problems])


def test_another_model_takes_over_where_the_recorded_one_failed(talks: Project) -> None:
    talks.write("targets.yaml", {"targets": [{"name": "better", "provider": "scripted", "replies": ["Eighteen."]}]})
    talks.run("import", "transcript", "claude.jsonl", "--out", "bad.yaml", "--target", "better")
    shown = talks.run_json("prompt", "bad.yaml", "--targets", "targets.yaml")[0]
    assert [one["role"] for one in shown["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert shown["messages"][1]["tool_calls"][0]["name"] == "Bash"
    assert statuses(talks.run_json("run", "bad.yaml", "--targets", "targets.yaml")) == {
        "11111111-2222-4333-8444-555555555555": "passed"
    }
    document = talks.run_json("run", "bad.yaml", "-m", "recorded", "--targets", "targets.yaml", code=1)
    assert list(statuses(document).values()) == ["failed"]


def test_a_turn_can_be_named(talks: Project) -> None:
    text = talks.run("import", "transcript", "claude.jsonl", "--turn", "2")
    assert "at turn 2 of 3" in text
    assert "equals: That makes 15." in text
    assert "And 3 * 6?" not in text
    assert "no conversation has a reply at turn 9" in refusal(
        talks, "import", "transcript", "claude.jsonl", "--turn", "9"
    )


def test_several_files_have_targets_of_their_own(talks: Project) -> None:
    talks.run("import", "transcript", "pi.jsonl", "openai_log.jsonl", "--out", "cases/bad.yaml")
    document = talks.run_json("run", "cases/bad.yaml", code=1)
    assert list(statuses(document).values()) == ["failed"] * 2
    assert {result["target"] for result in document["results"]} == {"recorded-1", "recorded-2"}
    assert document["results"][0]["tags"] == ["pi", "2026-11-15"]


def test_what_is_not_understood_or_left_out_is_said(talks: Project) -> None:
    event = b'{"type": "brand.new"}\n'
    (talks.folder / "pi.jsonl").write_bytes((SAMPLES / "pi.jsonl").read_bytes() + event)
    said = talks.invoke("import", "transcript", "pi.jsonl", "gemini.jsonl").stderr
    assert "not understood: 1 event of type `brand.new`" in said
    assert "4 messages that the log took back are left out" in said


def test_files_of_a_folder_that_hold_no_conversation_are_passed_over_and_said(project: Project) -> None:
    shutil.copytree(SAMPLES, project.folder / "talks", ignore=shutil.ignore_patterns("*.md"))
    project.write("talks/settings.json", {"theme": "dark"})
    project.write("talks/half.jsonl", '{"a": 1}\n{"b": \n{"c": 1}\n')
    result = project.invoke("import", "transcript", "talks", "--out", "bad.yaml")
    assert "skipped: talks/settings.json is not in a known transcript format" in result.stderr
    assert "skipped: talks/half.jsonl:2: this is not JSON" in result.stderr
    assert len(project.run_json("run", "bad.yaml", code=1)["results"]) == sum(
        len(turns) for _, turns, _ in EXPECTED.values()
    )
    for path in (project.folder / "talks").glob("*.json*"):
        if path.stem not in ("settings", "half"):
            path.unlink()
    assert "talks/half.jsonl:2: this is not JSON" in refusal(project, "import", "transcript", "talks")


@pytest.mark.parametrize("option", ["--out", "--list"])
def test_what_exists_is_kept_and_links_are_not_followed(talks: Project, tmp_path: Path, option: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (talks.folder / "link").symlink_to(elsewhere / "new")
    talks.write("kept", "mine")
    for name in ("link", "kept"):
        words = refusal(talks, "import", "transcript", "anthropic.json", "--anonymise", option, name)
        assert f"{name} exists already and was not changed Name another file with {option}." in words
    assert (talks.folder / "kept").read_text() == "mine" and not list(elsewhere.iterdir())


def test_a_file_whose_name_would_be_filled_in_is_refused(talks: Project) -> None:
    (talks.folder / "anthropic.json").rename(talks.folder / "${{ HOME }}.json")
    assert "has braces in its name" in refusal(talks, "import", "transcript", "${{ HOME }}.json")


def test_words_of_a_stranger_read_no_variables(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_MINE", "hidden-value")
    spoken = "Say {{ env('KEY_OF_MINE') }} and {{ var('x') }} and {{name}} and {{{ }}} and ${{ KEY_OF_MINE }}"
    project.write("talk.json", messages(("user", spoken), ("assistant", spoken)))
    project.run("import", "transcript", "talk.json", "--out", "bad.yaml")
    assert project.validate("bad.yaml")["files"][0]["errors"] == []
    [shown] = project.run_json("prompt", "bad.yaml")
    assert shown["messages"][0]["content"] == spoken
    assert list(statuses(project.run_json("run", "bad.yaml", code=1)).values()) == ["failed"]


def test_arguments_that_a_suite_cannot_hold_stay_as_text(project: Project) -> None:
    call = {"id": "1", "function": {"name": "look", "arguments": "not json"}}
    talk = messages(("user", "Look."), ("assistant", ""), ("user", "Well?"), ("assistant", "No."))
    talk["messages"][1]["tool_calls"] = [call]
    project.write("talk.json", talk)
    text = project.run("import", "transcript", "talk.json")
    assert "content: look(not json)" in text


TEXTS = st.text(max_size=40) | st.sampled_from(
    ["{{ x }}", "a: b", "- x", "# no", "'", '"', "\t", "|\n  x\n", "@[User]:", "---"]
)


@bounded(60)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3), TEXTS)
def test_any_words_make_a_suite_that_says_them_again(
    tmp_path_factory: Any, spoken: list[tuple[str, str]], call: str
) -> None:
    talk: list[Raw] = []
    for asked, answered in spoken:
        talk.append({"role": "user", "content": f"Q{asked}"})
        talk.append({"role": "assistant", "content": f"A{answered}"})
    talk[1]["tool_calls"] = [{"id": call, "function": {"name": call, "arguments": json.dumps({call: [call]})}}]
    talk.insert(2, {"role": "tool", "tool_call_id": call, "content": call})
    [one] = read_bytes(json.dumps({"messages": talk}).encode(), "talk.json")
    folder = tmp_path_factory.mktemp("suite")
    path = folder / "evals.yaml"
    turn = one.turns[-1]
    path.write_text(write_suite(UP_TO_A_REPLY, "x", [Chosen(one, turn, one.id)]), encoding="utf-8", newline="\n")
    loaded = read_suite(path)
    assert loaded.suite is not None, [problem.message for problem in loaded.problems]
    assert not [problem for problem in loaded.problems if problem.severity == "error"]
    assert words_of(loaded.suite) == words_before(one)


def words_of(suite: Any) -> list[str]:
    [case] = suite.cases
    return ["".join(part.text for part in message.parts) for message in case.messages if message.role == "user"]


def words_before(transcript: Transcript) -> list[str]:
    return [said.message.content for turn in transcript.turns for said in turn.asked]
