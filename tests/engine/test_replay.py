"""Playing a run again: the same results and not one call, whatever the run was; and a loud miss with the difference to
what is recorded where something else is asked."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from rejoinder.testing import Answer, FakeServer, Fault, Received
from tests.kit import (
    KILLED,
    Project,
    Raw,
    bounded,
    by_case,
    essence,
    is_time,
    journal_of,
    refused,
    run_process,
    scripted,
    without,
)
from tests.labs.crash_lab import CountingServer, Lab
from tests.labs.replay_lab import SIMPLE, play, sockets_blocked, suites

# Looking at runs.


# Any suite at all.


CHANGING = """
import random
calls = []
def either(context):
    calls.append(1)
    return {"score": random.random(), "reason": f"as {context.target} said {context.reply!r} in turn {context.turn}"}
def fails(context):
    calls.append(1)
    raise RuntimeError("no verdict today")
"""
"""Checks that say something else each time they are asked: what is played again has what was said the first time."""


@pytest.mark.slow
def test_the_replay_of_any_run_is_that_run(project: Project, module: Callable[[str], str]) -> None:
    name = module(CHANGING)

    @bounded(120)
    @given(suites(name))
    def check(drawn: tuple[Raw, list[str]]) -> None:
        suite, options = drawn
        project.write("evals.yaml", suite)
        first = play(project, "run", "evals.yaml", *options)
        called = list(getattr(sys.modules.get(name), "calls", ()))
        again = play(project, "replay", first["run"]["id"])
        assert again["run"]["replay_of"] == first["run"]["id"]
        assert essence(again) == essence(first)
        assert list(getattr(sys.modules.get(name), "calls", ())) == called
        last = play(project, "replay", again["run"]["id"])
        assert essence(last) == essence(first)
        shutil.rmtree(project.folder / ".rejoinder" / "runs")

    check()


SLOW_VOTES = """
import asyncio
heard = []
async def reply(request):
    if not request.judging:
        return "Hello."
    again = len(request.messages) > 2
    heard.append(again)
    number = heard.count(again)
    await asyncio.sleep(0.05 * (3 - number))
    return '{"score": 0.%d, "reasoning": "vote %d"}' % (number, number) if again else "Hm."
"""


@pytest.mark.slow
def test_votes_that_were_asked_for_again_keep_their_places_however_long_each_took(
    project: Project, module: Callable[[str], str]
) -> None:
    """All say the same at first, and the last to be asked answers first."""
    target = {"name": "it", "provider": "python", "call": f"{module(SLOW_VOTES)}:reply"}
    check = {"llm_judge": {"criteria": "Polite?", "votes": 3, "combine": "mean"}}
    project.write("evals.yaml", {"targets": [target], "target": "it", "evals": [{"prompt": "Hi!", "checks": [check]}]})
    first = play(project, "run", "evals.yaml", "--record", "cassettes")
    assert first["results"][0]["turns"][0]["checks"][0]["votes"] == [0.1, 0.2, 0.3]
    assert essence(play(project, "replay")) == {**essence(first), "run": {**essence(first)["run"], "options": _any()}}
    played = play(project, "run", "evals.yaml", "--replay", "cassettes")
    assert played["results"][0]["turns"][0]["checks"] == first["results"][0]["turns"][0]["checks"]


class _Anything:
    """Equal to whatever it is compared with."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def _any() -> Any:
    return _Anything()


# Servers, keys and networks that are gone.


def served_suite(server: FakeServer, model: str = "gpt-5-mini") -> Raw:
    address = {"provider": "openai", "base_url": server.openai_url, "api_key": "${{ SHOP_KEY }}"}
    patient = {"retry_initial_delay_ms": 1, "max_retries": 2}
    return {
        "target": "it",
        "judge_target": "judge",
        "embedding_target": "meaning",
        "targets": [
            {"name": "it", "model": model, **address, **patient},
            {"name": "judge", "model": "${{ JUDGE_MODEL }}", **address, **patient},
            {"name": "meaning", "model": "text-embedding-3-small", **address, **patient},
        ],
        "evals": [
            {
                "id": "sky",
                "prompt": "What colour is the sky?",
                "checks": [
                    {"icontains": "blue"},
                    {"llm_judge": {"criteria": "Is it true?", "votes": 2}},
                    {"semantic": {"expected": "It is blue.", "threshold": 0.2}},
                    {"prompt": "Are you sure?", "checks": [{"icontains": "blue"}]},
                ],
            },
            {"id": "grass", "prompt": "What colour is grass?", "checks": [{"icontains": "green"}]},
            {"id": "snow", "prompt": "What colour is snow?", "checks": [{"icontains": "white"}]},
        ],
    }


def colours(received: Received) -> Answer | str | Fault:
    said = json.dumps(received.body)
    if received.body["model"] == "a-judge":
        return Answer('{"score": 0.9, "reasoning": "true"}', input_tokens=40, output_tokens=7)
    if "snow" in said:
        return Fault("status", status=400)
    if "sure" in said:
        return Answer("Then it is blue.", input_tokens=20, output_tokens=5)
    return Answer("It is green.", input_tokens=10, output_tokens=4)


@pytest.fixture
def served(project: Project, monkeypatch: pytest.MonkeyPatch) -> Raw:
    """A run on a server that is gone by now, with a key that is not known any more."""
    monkeypatch.setenv("SHOP_KEY", "sk-7eC0ffee51b6A9d2")
    monkeypatch.setenv("JUDGE_MODEL", "a-judge")
    with FakeServer(colours, key="sk-7eC0ffee51b6A9d2", faults=[Fault("status", status=500)]) as server:
        project.write("evals.yaml", served_suite(server))
        document = play(project, "run", "evals.yaml", "--workers", "1", "--record", "cassettes", code=3)
    monkeypatch.delenv("SHOP_KEY")
    monkeypatch.delenv("JUDGE_MODEL")
    assert [result["status"] for result in document["results"]] == ["passed", "passed", "error"]
    assert document["summary"]["cost"] is not None
    return document


def test_a_run_plays_without_its_server_its_key_or_a_network(project: Project, served: Raw) -> None:
    with sockets_blocked():
        again = play(project, "replay", code=3)
    expected, found = essence(served), essence(again)
    assert expected["run"].pop("options") | {"record": None} == found["run"].pop("options")
    assert found == expected


def test_cassettes_play_without_their_server_its_key_or_a_network(project: Project, served: Raw) -> None:
    with sockets_blocked():
        again = play(project, "run", "evals.yaml", "--replay", "cassettes", code=3)
    assert "stale" not in again["run"]
    for one, other in zip(served["results"], again["results"], strict=True):
        for then, now in zip(one["turns"], other["turns"], strict=True):
            then.pop("request_id", None)
            assert abs(then["duration_s"] - now["duration_s"]) <= 0.001
        assert without(other, is_time) == without(one, is_time)
    for name in ("total_cost", "total_tokens", "judge_cost", "embeddings", "judges", "metrics", "unpriced"):
        # Which model judged depended on a variable that is not set any more.
        then, now = (without(document["summary"][name], lambda key: key == "model") for document in (served, again))
        assert now == then, name


@pytest.mark.slow
@pytest.mark.parametrize("why", ["the target was given up", "the first failure ends the run"])
def test_what_was_skipped_is_skipped_again(project: Project, why: str) -> None:
    """And what was had beside it is had again, whichever conversation comes first this time."""

    def answers(received: Received) -> Answer | Fault:
        number = int(received.body["messages"][-1]["content"].split()[-1])
        if number < 3:
            return Fault("slow_headers", seconds=0.05 * number)
        return Fault("status", 401) if why.startswith("the target") else Answer("no")

    with FakeServer(answers) as server:
        target = {"name": "it", "provider": "openai", "model": "gpt-5-mini", "base_url": f"{server.url}/v1"}
        evals = [{"id": f"c{n}", "prompt": f"Number {n}", "checks": [{"contains": "yes"}]} for n in range(40)]
        content = {"target": "it", "targets": [{**target, "api_key": "k"}], "evals": evals}
        project.write("evals.yaml", content)
        fast = [] if why.startswith("the target") else ["--fail-fast"]
        first = play(project, "run", "evals.yaml", "--workers", "5", *fast)
        asked = len(server.requests)
        again = play(project, "replay", code=first["summary"]["exit_code"])
        assert len(server.requests) == asked
    counts = [document["summary"]["skipped"] for document in (first, again)]
    assert counts[0] == counts[1] > 0
    assert again["results"] == first["results"]
    taken_up = play(project, "resume", again["run"]["id"])
    assert taken_up["results"] == first["results"]


@pytest.mark.slow
def test_in_a_process_of_its_own_too(project: Project, served: Raw) -> None:
    """Nothing that the first run left in this process is needed; and what opens a socket there is seen."""
    code = (
        "import socket, sys\n"
        "def refuse(*_): sys.exit('somebody is called')\n"
        "socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse\n"
        "from rejoinder.cli import main\n"
        "main()\n"
    )
    for arguments in (["replay", served["run"]["id"]], ["run", "evals.yaml", "--replay", "cassettes"]):
        ended = run_process(project.folder, command=[sys.executable, "-c", code, *arguments, "--format", "json"])
        assert ended.code == 3, ended.err
        assert ended.document["summary"]["passed"] == 2


def test_nothing_is_opened_to_play_a_run(project: Project, module: Callable[[str], str]) -> None:
    """Not even the function that answered: it is gone."""
    name = module("def reply(request): return 'yes'")
    target = {"name": "it", "provider": "python", "call": f"{name}:reply"}
    project.write(
        "evals.yaml", {"target": "it", "targets": [target], "evals": [{"prompt": "Hi!", "checks": [{"match": "yes"}]}]}
    )
    first = play(project, "run", "evals.yaml", code=0)
    (project.folder / f"{name}.py").unlink()
    sys.modules.pop(name)
    again = play(project, "replay", code=0)
    assert first["run"]["digests"].pop("code").keys() == {f"{name}.py"}
    assert "code" not in again["run"]["digests"]  # a receipt names no code that was not there
    assert essence(again) == essence(first)


# Runs that were cut off, taken up, replayed.


@pytest.fixture(scope="module")
def lab_server() -> Iterator[CountingServer]:
    server = CountingServer()
    yield server
    server.close()


@pytest.mark.slow
def test_a_killed_run_plays_as_far_as_it_came(tmp_path: Path, lab_server: CountingServer) -> None:
    lab = Lab(tmp_path, lab_server)
    lab.forget()
    assert lab.run("--limit", "4", trials=2, kill_at="conversation.finished:3").code == -signal.SIGKILL
    shown = lab.show().document
    asked = len(lab_server.heard)
    played = lab.command("replay", "--format", "json")
    assert (played.code, len(lab_server.heard)) == (3, asked)
    whole, document = {place(one): one for one in shown["results"]}, played.document
    assert 0 < len(whole) < len(document["results"]) == 8
    for result in document["results"]:
        if place(result) in whole:
            assert result == whole[place(result)]
        else:
            assert result["status"] == "error"
            assert "has no recording for turn" in result["error"]["message"]
    lab.command("resume", shown["run"]["id"])
    asked = len(lab_server.heard)
    complete = lab.command("replay", shown["run"]["id"], "--format", "json")
    assert (complete.code, len(lab_server.heard)) == (complete.document["summary"]["exit_code"], asked)
    assert complete.document["summary"]["errors"] == 0
    assert complete.document["run"]["status"] == "completed"


def place(result: Raw) -> tuple[str, str, int]:
    return result["id"], result["target"], result["trial"]


@pytest.mark.slow
def test_what_resume_asked_plays_as_well(project: Project, module: Callable[[str], str]) -> None:
    name = module(
        "calls = []\n"
        "def reply(request):\n"
        "    calls.append(request.case_id)\n"
        "    if request.case_id == 'b' and calls.count('b') == 1: raise RuntimeError('not now')\n"
        "    return f'yes, {len(calls)}'\n"
    )
    target = {"name": "it", "provider": "python", "call": f"{name}:reply"}
    cases = [{"id": one, "prompt": one, "checks": [{"match": "yes*"}]} for one in "abc"]
    project.write("evals.yaml", {"target": "it", "targets": [target], "evals": cases})
    broken = play(project, "run", "evals.yaml", "--workers", "1", code=3)
    assert essence(play(project, "replay", code=3)) == essence(broken)
    mended = play(project, "resume", broken["run"]["id"], "--retry-errors", code=0)
    again = play(project, "replay", broken["run"]["id"], code=0)
    assert essence(again) == essence(mended)
    assert sys.modules[name].calls == ["a", "b", "c", "b"]


def edited(*path: Any, to: Any) -> Raw:
    """The simple suite with something else at a place."""
    suite = json.loads(json.dumps(SIMPLE))
    inside = suite
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = to
    return suite


@pytest.mark.slow
def test_a_replayed_run_can_be_shown_and_taken_up_like_any_other(project: Project) -> None:
    project.write("evals.yaml", SIMPLE)
    first = play(project, "run", "evals.yaml")
    project.write("evals.yaml", edited("evals", 2, "prompt", to="And I?"))
    again = play(project, "replay", code=3)
    name = again["run"]["id"]
    assert by_case(again)["three"]["error"]["type"] == "no-recording"
    assert play(project, "show", name) == again
    assert name in project.run("runs")
    # Taken up, it still sends nothing: what is missing is missing.
    taken_up = play(project, "resume", name, code=3)
    assert essence(taken_up)["results"] == again["results"]
    assert essence(play(project, "resume", name, "--retry-errors", code=3))["results"] == again["results"]
    project.write("evals.yaml", SIMPLE)
    mended = play(project, "resume", name, code=0)
    assert (mended["results"], mended["run"]["replay_of"]) == (first["results"], first["run"]["id"])
    assert play(project, "show", name) == mended


def test_the_journal_of_a_replay_is_enough_to_derive_it_again(project: Project) -> None:
    project.write("evals.yaml", SIMPLE)
    first = play(project, "run", "evals.yaml")
    again = play(project, "replay")
    folder = project.folder / ".rejoinder" / "runs" / again["run"]["id"]
    for name in ("results.jsonl", "summary.json"):
        (folder / name).unlink()
    shutil.rmtree(project.folder / ".rejoinder" / "runs" / first["run"]["id"])
    assert play(project, "show", again["run"]["id"], code=None)["results"] == first["results"]
    assert {record["key"] for record in journal_of(Path(again["run"]["folder"])) if record["type"] == "told"}


@pytest.mark.slow
def test_a_replay_that_was_cut_off_needs_its_recording_and_a_whole_one_does_not(project: Project) -> None:
    project.write("evals.yaml", SIMPLE)
    first = play(project, "run", "evals.yaml")
    again = play(project, "replay")
    cut = run_process(project.folder, "replay", first["run"]["id"], REJOINDER_KILL_AT="run.created")
    assert cut.code == KILLED
    shutil.rmtree(project.folder / ".rejoinder" / "runs" / first["run"]["id"])
    assert essence(play(project, "resume", again["run"]["id"])) == essence(again)
    error = refused(project, "resume", "last")
    assert error.exit_code == 2
    assert error.message.endswith(f"a run that it takes answers from is gone: {first['run']['folder']}")


def test_a_run_without_a_journal_or_with_a_damaged_one_is_refused_before_anything_is_kept(project: Project) -> None:
    project.write("evals.yaml", SIMPLE)
    first = play(project, "run", "evals.yaml")
    journal = project.folder / ".rejoinder" / "runs" / first["run"]["id"] / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], b'{"type":"told"\n', *lines[2:]]))
    error = refused(project, "replay")
    assert (error.exit_code, error.message.startswith(f"line 3 of {journal} is damaged")) == (3, True)
    journal.unlink()
    error = refused(project, "replay")
    assert (error.exit_code, "has no journal to play from" in error.message) == (2, True)
    assert [path.name for path in (project.folder / ".rejoinder" / "runs").iterdir() if path.is_dir()] == [
        first["run"]["id"]
    ]
    assert refused(project, "replay", "nothing-of-the-kind").exit_code == 2


def test_a_replay_neither_records_nor_keeps_nor_pays(project: Project) -> None:
    project.write("evals.yaml", {**SIMPLE, "budget": {"tokens": 100_000}})
    first = play(project, "run", "evals.yaml", "--record", "cassettes")
    assert first["run"]["budget"]["tokens"] == 100_000
    shutil.rmtree(project.folder / "cassettes")
    again = play(project, "replay")
    assert not (project.folder / "cassettes").exists()
    assert not (project.folder / ".rejoinder" / "cache.sqlite").exists()
    assert "budget" not in again["run"]


# What is not recorded.

MISSES: dict[str, tuple[Raw, str, int, list[str]]] = {
    "prompt": (
        edited("evals", 0, "prompt", to="First line.\nAnother line.\nThird line."),
        "one",
        1,
        [" First line.", "-Second line.", "+Another line.", " Third line."],
    ),
    "follow-up": (
        edited("evals", 0, "checks", 1, "prompt", to="Think twice."),
        "one",
        2,
        [" user:", "-Think again.", "+Think twice."],
    ),
    "criteria": (
        edited("evals", 1, "checks", 0, "llm_judge", "criteria", to="Is it rude?"),
        "two",
        1,
        ["-Is it polite?", "+Is it rude?"],
    ),
    "system prompt": (edited("evals", 2, "system_prompt", to="Be brief."), "three", 1, ["+system:", "+Be brief."]),
}


@pytest.mark.parametrize("edit", MISSES)
@pytest.mark.parametrize("way", ["run", "cassettes"])
def test_what_was_edited_is_missed_with_the_difference(project: Project, edit: str, way: str) -> None:
    suite, case, turn, lines = MISSES[edit]
    project.write("evals.yaml", SIMPLE)
    first = play(project, "run", "evals.yaml", "--record", "cassettes", code=0)
    project.write("evals.yaml", suite)
    arguments = ("replay",) if way == "run" else ("run", "evals.yaml", "--replay", "cassettes")
    document = play(project, *arguments, code=3)
    results, before = by_case(document), by_case(first)
    missed = results.pop(case)
    assert (missed["status"], missed["error"]["turn"]) == ("error", turn)
    message = missed["error"]["message"]
    assert f"has no recording for turn {turn} of `it`" in message
    first_line, *difference = message.split("\n")
    assert difference[:2] == ["--- recorded", "+++ asked now"]
    start = difference.index(lines[0])
    assert difference[start : start + len(lines)] == lines
    assert len([one for one in difference[2:] if one[:1] in "+-"]) == len([one for one in lines if one[:1] in "+-"])
    for name, result in results.items():
        assert without({**result, "turns": 0}, is_time) == without({**before[name], "turns": 0}, is_time)
    text = project.run("show", document["run"]["id"])
    shown = text.splitlines()
    at = next(number for number, line in enumerate(shown) if line.startswith(f"ERROR {case}: "))
    assert first_line in shown[at + 1]
    assert shown[at + 2 : at + 2 + len(difference)] == [f"    {line}".rstrip() for line in difference]


@pytest.mark.slow
def test_a_new_case_is_missed_and_named(project: Project) -> None:
    project.write("evals.yaml", SIMPLE)
    play(project, "run", "evals.yaml", "--record", "cassettes")
    new = {"id": "four", "prompt": "New.", "checks": [{"match": "*"}]}
    project.write("evals.yaml", {**SIMPLE, "evals": [*SIMPLE["evals"], new]})
    for arguments in (("replay",), ("run", "evals.yaml", "--replay", "cassettes")):
        document = play(project, *arguments, code=3)
        assert [result["status"] for result in document["results"]] == ["passed", "passed", "passed", "error"]
        error = by_case(document)["four"]["error"]
        assert (error["type"], error["turn"]) == ("no-recording", 1)
        text = project.run(*arguments, code=3)
        assert "ERROR four: New." in text
        assert "resume" not in text  # there is no target to ask
    assert "has no recording for turn 1 of `it`" in by_case(play(project, "replay", code=3))["four"]["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["model", "temperature"])
def test_another_model_or_setting_is_missed_and_said(
    project: Project, served: Raw, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    suite = json.loads((project.folder / "evals.yaml").read_text(encoding="utf-8"))
    suite["targets"][0][setting] = "gpt-9" if setting == "model" else 0.5
    project.write("evals.yaml", suite)
    document = play(project, "replay", code=3)
    assert {result["error"]["type"] for result in document["results"]} == {"no-recording"}
    message = by_case(document)["sky"]["error"]["message"]
    if setting == "model":
        assert "-model gpt-5-mini\n+model gpt-9" in message
    else:
        assert "-target it, temperature: not set\n+target it, temperature: 0.5" in message
    played = play(project, "run", "evals.yaml", "--replay", "cassettes", code=3)
    if setting == "model":  # cassettes know who was asked, and no more
        assert "-model gpt-5-mini\n+model gpt-9" in by_case(played)["sky"]["error"]["message"]
    else:
        assert by_case(played)["sky"]["status"] == "passed"


def test_another_target_has_no_recordings(project: Project) -> None:
    project.write("evals.yaml", {**SIMPLE, "targets": [*SIMPLE["targets"], scripted("new", "yes", judge=[1])]})
    play(project, "run", "evals.yaml", "--record", "cassettes")
    document = play(project, "run", "evals.yaml", "--replay", "cassettes", "--target", "new", code=3)
    assert all("there is no cassette" in result["error"]["message"] for result in document["results"])
    assert "stale" not in document["run"]  # who asks for less than all says nothing about the rest


def test_a_further_vote_is_missed(project: Project) -> None:
    project.write("evals.yaml", SIMPLE)
    play(project, "run", "evals.yaml", "--record", "cassettes")
    project.write(
        "evals.yaml", edited("evals", 1, "checks", 0, "llm_judge", to={"criteria": "Is it polite?", "votes": 2})
    )
    for arguments in (("replay",), ("run", "evals.yaml", "--replay", "cassettes")):
        message = by_case(play(project, *arguments, code=3))["two"]["error"]["message"]
        assert "has answered turn 1 of `it` (judge) already, and it is asked once more" in message


def test_a_long_difference_is_cut_and_found_quickly(project: Project) -> None:
    """Thousands of equal lines are no hardship, and a change in a line without end is shown with its sentence."""
    lines = [f"line {number % 7}" for number in range(6000)]
    long = "This sentence is long, but not the one that counts. " * 40 + "Here it is."
    suite = {"target": "it", "targets": [scripted("it", "yes")]}
    checks = [{"match": "yes"}]

    def write(middle: list[str], end: str) -> None:
        cases = [
            {"id": "many", "prompt": "\n".join([*lines, *middle, *lines]), "checks": checks},
            {"id": "long", "prompt": f"{long} {end}", "checks": checks},
        ]
        project.write("evals.yaml", {**suite, "evals": cases})

    write(["as it was"], "Really.")
    play(project, "run", "evals.yaml", code=0)
    write([f"changed {number}" for number in range(60)], "Not really.")
    results = by_case(play(project, "replay", code=3))
    message = results["many"]["error"]["message"]
    assert "-as it was\n+changed 0\n+changed 1\n" in message
    assert message.endswith("more lines)")
    assert len(message.split("\n")) < 30
    assert results["long"]["error"]["message"].endswith("\n Here it is.\n-Really.\n+Not really.")


@pytest.mark.slow
def test_scripts_that_changed_run_again_and_others_do_not(project: Project) -> None:
    """What is done on this machine is no call: where it is another script, it has to say what it says now."""
    script = "import json, pathlib, sys\npathlib.Path('ran').open('a').write('x')\nprint(json.dumps({'score': %s}))\n"
    project.write("check.py", script % "1")
    checks = [{"code": f"{sys.executable} check.py"}, {"contains": "yes"}]
    project.write(
        "evals.yaml",
        {"target": "it", "targets": [scripted("it", "yes")], "evals": [{"prompt": "Hi!", "checks": checks}]},
    )
    first = play(project, "run", "evals.yaml", code=0)
    assert essence(play(project, "replay", code=0)) == essence(first)
    ran = project.folder / "ran"
    assert ran.read_text() == "x"
    project.write("check.py", script % "0")
    assert play(project, "replay", first["run"]["id"], code=1)["summary"]["failed"] == 1
    assert ran.read_text() == "xx"


def test_cases_that_were_taken_out_do_not_matter(project: Project) -> None:
    project.write("evals.yaml", SIMPLE)
    first = play(project, "run", "evals.yaml", code=0)
    project.write("evals.yaml", {**SIMPLE, "evals": SIMPLE["evals"][1:]})
    played = play(project, "replay", code=0)["results"]
    assert [one["number"] for one in played] == [one["number"] - 1 for one in first["results"][1:]]
    assert [{**one, "number": 0} for one in played] == [{**one, "number": 0} for one in first["results"][1:]]


def test_a_suite_that_is_gone_plays_from_the_run_itself(project: Project) -> None:
    project.write("evals.yaml", SIMPLE)
    first = play(project, "run", "evals.yaml", code=0)
    (project.folder / "evals.yaml").unlink()
    assert essence(play(project, "replay", code=0)) == essence(first)


@pytest.mark.slow
def test_a_secret_in_a_prompt_plays_and_stays_secret(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded under its name, put back to be compared, and hidden where a difference is shown."""
    monkeypatch.setenv("REJOINDER_SECRET_CODE", "7eC0ffee51b6A9d2")
    target = scripted("it", "The code 7eC0ffee51b6A9d2 is no good.", "yes")
    checks = [{"match": "*yes*"}, {"prompt": "{{ response }} Why?", "checks": [{"match": "*yes*"}]}]
    case = {"id": "one", "prompt": "Try {{ secret('code') }} now.", "checks": checks}
    project.write("evals.yaml", {"target": "it", "targets": [target], "evals": [case]})
    first = play(project, "run", "evals.yaml", "--record", "cassettes", code=0)
    monkeypatch.setenv("REJOINDER_SECRET_CODE", "7eC0ffee51b6A9d2")
    assert play(project, "replay", code=0)["results"] == first["results"]
    assert len(first["results"][0]["turns"]) == 2
    case["prompt"] = "Try {{ secret('code') }} later."
    project.write("evals.yaml", {"target": "it", "targets": [target], "evals": [case]})
    missed = project.run("replay", first["run"]["id"], code=3)
    assert "-Try <<{{ secret('code') }}>> now." in missed
    for path in (project.folder / ".rejoinder" / "runs").rglob("*"):
        assert path.is_dir() or b"7eC0ffee51b6A9d2" not in path.read_bytes(), path
    assert "7eC0ffee51b6A9d2" not in missed


def test_retries_are_counted_as_they_were(project: Project) -> None:
    """A reply that took three attempts stands for three in the script, or the next turn would get another answer."""
    busy = {"error": "busy", "retryable": True}
    target = scripted("it", busy, busy, "no", busy, "yes", retry_initial_delay_ms=0)
    checks = [{"match": "yes"}, {"prompt": "And now?", "checks": [{"match": "yes"}]}]
    project.write(
        "evals.yaml", {"target": "it", "targets": [target], "evals": [{"id": "one", "prompt": "Hi!", "checks": checks}]}
    )
    first = play(project, "run", "evals.yaml", code=0)
    told = [record for record in journal_of(Path(first["run"]["folder"])) if record["type"] == "told"]
    assert [record.get("attempts", 1) for record in told] == [3, 2]
    again = play(project, "replay", code=0)
    assert essence(again) == essence(first)
    retold = [record for record in journal_of(Path(again["run"]["folder"])) if record["type"] == "told"]
    assert retold == told


def test_one_embedding_serves_all_who_asked_for_it(project: Project) -> None:
    vectors = scripted("vectors", embeddings={"*": [1, 0], "far": [0, 1]})
    checks = [{"semantic": {"expected": "near", "threshold": 0.5}}]
    cases = [{"id": f"{number}", "prompt": "Hi!", "checks": checks} for number in range(4)]
    suite = {"target": "it", "embedding_target": "vectors", "targets": [scripted("it", "yes"), vectors], "evals": cases}
    project.write("evals.yaml", suite)
    first = play(project, "run", "evals.yaml", "--record", "cassettes", code=0)
    again = play(project, "replay", code=0)
    assert (again["results"], again["summary"]["embeddings"]) == (first["results"], first["summary"]["embeddings"])
    played = play(project, "run", "evals.yaml", "--replay", "cassettes", code=0)
    assert (played["summary"]["embeddings"]["texts"], "stale" in played["run"]) == (2, False)


def test_the_candidate_may_be_compared_with_itself(project: Project) -> None:
    """Then it is asked twice for the same turn, and neither reply is taken for the other."""
    target = scripted("it", "no", "maybe", "yes", "surely", judge=['{"better": "1"}', '{"better": "2"}'] * 4)
    compare = {"compare": {"reply_of": "it"}, "threshold": 0.9}
    checks = [compare, {"match": "yes"}, {"prompt": "Again.", "checks": [{"compare": {"reply_of": "it"}}]}]
    project.write(
        "evals.yaml", {"target": "it", "targets": [target], "evals": [{"id": "one", "prompt": "Hi!", "checks": checks}]}
    )
    first = play(project, "run", "evals.yaml", "--record", "cassettes")
    assert [turn["response"] for turn in first["results"][0]["turns"]] == ["no", "yes"]
    for arguments in (("replay",), ("run", "evals.yaml", "--replay", "cassettes")):
        again = play(project, *arguments)
        assert without(again["results"], is_time) == without(first["results"], is_time)


def test_many_who_miss_at_the_same_time_are_all_shown_the_nearest(project: Project) -> None:
    """Judges make the earlier run be played in steps, in between which others come to the same question."""
    judge = {"llm_judge": {"criteria": "kind"}}
    suite = {
        "targets": [scripted("it", "yes", judge=[1])],
        "evals": [{"id": f"c{number}", "prompt": f"Old {number}?", "checks": [judge]} for number in range(12)],
    }
    project.write("evals.yaml", suite)
    project.run("run")
    for case in suite["evals"]:
        case["prompt"] = case["prompt"].replace("Old", "New")
    project.write("evals.yaml", suite)
    results = project.run_json("replay", code=3)["results"]
    assert len(results) == 12
    for number, result in enumerate(results):
        assert f"-Old {number}?" in result["error"]["message"]


# A miss is an error of its conversation, whatever else decides.

SCORED = {"llm_judge": {"criteria": "Is it polite?"}}
SAME = {"semantic": {"expected": "yes", "threshold": 0.5}}
BETTER = {"compare": {"reply_of": "other", "criteria": "Which is shorter?"}}
DECIDED: dict[str, Callable[[Raw], Raw]] = {
    "another check failed, and the follow-up passes": lambda check: {
        "checks": [{"contains": "no"}, check, {"prompt": "And now?", "checks": [{"contains": "yes"}]}]
    },
    "another check of an or passes": lambda check: {"checks": [{"or": [{"contains": "yes"}, check]}]},
    "enough of a group pass": lambda check: {
        "checks": [{"group": {"at_least": 1, "checks": [{"contains": "yes"}, check]}}]
    },
    "another check failed for good": lambda check: {"checks": [{"contains": "no"}, check]},
}
CHANGED: dict[str, tuple[Raw, Raw, str]] = {
    "judge": (SCORED, {"llm_judge": {"criteria": "Is it rude?"}}, "-Is it polite?\n+Is it rude?"),
    "embedding": (SAME, {"semantic": {"expected": "yes!", "threshold": 0.5}}, "-yes\n+yes!"),
    "comparison": (BETTER, {"compare": {"reply_of": "other", "criteria": "Which is longer?"}}, "+Which is longer?"),
}


def decided(check: Raw, how: str) -> Raw:
    targets = [
        scripted("it", "yes", "yes"),
        scripted("judge", judge=[1, '{"better": "1"}', '{"better": "2"}']),
        scripted("other", "yes, it is", "yes, it is"),
        scripted("meaning", embeddings={"*": [1, 0]}),
    ]
    names = {"target": "it", "judge_target": "judge", "embedding_target": "meaning"}
    return {**names, "targets": targets, "evals": [{"id": "one", "prompt": "Well?", **DECIDED[how](check)}]}


@pytest.mark.parametrize("how", DECIDED)
@pytest.mark.parametrize("what", CHANGED)
@pytest.mark.parametrize("way", ["run", "cassettes", "target"])
def test_what_a_check_misses_is_an_error_even_where_others_decide(
    project: Project, way: str, what: str, how: str
) -> None:
    """Else a recording that is out of date would pass in silence, for as long as it is not looked at."""
    before, after, difference = CHANGED[what]
    project.write("evals.yaml", decided(before, how))
    play(project, "run", "evals.yaml", "--record", "cassettes")
    suite = decided(after, how)
    if way == "target":
        replayed = [{"name": one["name"], "provider": "replay", "cassettes": "cassettes"} for one in suite["targets"]]
        suite["targets"] = replayed
    project.write("evals.yaml", suite)
    arguments = {"run": ("replay",), "cassettes": ("run", "--replay", "cassettes"), "target": ("run",)}[way]
    [result] = play(project, *arguments, code=3)["results"]
    assert (result["status"], result["error"]["type"], result["error"]["turn"]) == ("error", "no-recording", 1)
    assert difference in result["error"]["message"]
    assert [turn["passed"] for turn in result["turns"]] == [False]  # it does not go on as if nothing were missing


def test_a_webhook_that_was_not_recorded_is_an_error_even_where_others_decide(project: Project) -> None:
    hook = {"webhook": "http://127.0.0.1:9/hook"}
    suite = decided({"contains": "yes"}, "another check of an or passes")
    project.write("evals.yaml", suite)
    play(project, "run", "evals.yaml", "--record", "cassettes", code=0)
    project.write("evals.yaml", decided(hook, "another check of an or passes"))
    for arguments in (("replay",), ("run", "--replay", "cassettes")):
        with sockets_blocked():
            [result] = play(project, *arguments, code=3)["results"]
        assert result["error"]["type"] == "no-recording"


@pytest.mark.parametrize("renamed", ["case", "target"])
def test_what_is_called_otherwise_is_shown_beside_what_it_was(project: Project, renamed: str) -> None:
    project.write("evals.yaml", SIMPLE)
    play(project, "run", "evals.yaml", code=0)
    suite = json.loads(json.dumps(SIMPLE))
    if renamed == "case":
        suite["evals"][2]["id"] = "last"
    else:
        suite["targets"][0]["name"] = suite["target"] = "new"
    project.write("evals.yaml", suite)
    document = play(project, "replay", code=3)
    message = document["results"][2]["error"]["message"]
    case, target = ("last", "it") if renamed == "case" else ("three", "new")
    assert f"has no recording for turn 1 of `{target}`; the nearest differs" in message
    assert "-evals.yaml, case three, target it" in message
    assert f"+evals.yaml, case {case}, target {target}" in message
    assert [one["status"] for one in document["results"][:2]] == ["passed" if renamed == "case" else "error"] * 2


def test_another_model_by_a_variable_is_missed_and_none_will_do(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL", "gpt-5-mini")
    with FakeServer("yes") as server:
        target = {"name": "it", "provider": "openai", "model": "${{ MODEL }}", "base_url": server.openai_url}
        cases = [{"id": "one", "prompt": "Well?", "checks": [{"contains": "yes"}]}]
        project.write("evals.yaml", {"targets": [{**target, "api_key": "k"}], "target": "it", "evals": cases})
        first = play(project, "run", "evals.yaml", code=0)
    monkeypatch.delenv("MODEL")
    assert play(project, "replay", first["run"]["id"], code=0)["results"] == first["results"]
    monkeypatch.setenv("MODEL", "gpt-5")
    [result] = play(project, "replay", first["run"]["id"], code=3)["results"]
    assert "-model gpt-5-mini\n+model gpt-5" in result["error"]["message"]
