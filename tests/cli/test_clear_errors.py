"""Mistakes of a first day: each is answered with what is wrong, where, and what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rejoinder.testing import FakeServer, Fault
from tests.kit import Project

OPENAI = {"name": "gpt", "provider": "openai", "model": "gpt-5-mini"}


def suite(*targets: dict[str, Any], checks: list[Any] | None = None) -> dict[str, Any]:
    return {"targets": list(targets), "evals": [{"id": "a", "prompt": "Hi", "checks": checks or [{"match": "*"}]}]}


def scripted(*replies: str) -> dict[str, Any]:
    return {"name": "bot", "provider": "scripted", "replies": list(replies)}


def error_of(project: Project, *arguments: str) -> str:
    error = project.invoke(*arguments).exception
    assert error is not None
    return str(error)


@pytest.mark.parametrize("name", ["results.docx", "results.pdf", "results.tsv", "results.JSN", "results"])
@pytest.mark.parametrize("command", ["run", "show", "replay", "resume"])
def test_out_refuses_a_suffix_that_names_no_form(project: Project, name: str, command: str) -> None:
    project.write("evals.yaml", suite(scripted("x")))
    if command != "run":
        project.run("run")
    runs = list(project.folder.glob(".rejoinder/runs/*/run.json"))
    error = error_of(project, command, *(["last"] if command == "resume" else []), "--out", name)
    assert f"the suffix of {name} names no format of results" in error
    assert ".json, .jsonl, .yaml, .yml" in error
    assert not (project.folder / name).exists()
    assert list(project.folder.glob(".rejoinder/runs/*/run.json")) == runs  # nothing was sent


def test_out_takes_any_name_where_the_form_is_named(project: Project) -> None:
    project.write("evals.yaml", suite(scripted("x")))
    project.run("run", "--format", "jsonl", "--out", "results.log")
    assert json.loads((project.folder / "results.log").read_text())["id"] == "a"


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with FakeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield server


def test_a_404_names_the_whole_address_and_v1(
    project: Project, openai: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", openai.url)
    project.write("evals.yaml", suite(OPENAI))
    printed = project.run("run", code=3)
    assert f"(POST {openai.url}/chat/completions; base URLs usually end in /v1)" in printed


def test_an_unknown_model_names_the_nearest(project: Project) -> None:
    with FakeServer(faults=[Fault("status", status=404)]) as server:
        target = {
            **OPENAI,
            "model": "gpt-5-mimi",
            "base_url": f"{server.url}/v1",
            "api_key": "sk-test-0123456789abcdef",
        }
        project.write("evals.yaml", suite(target))
        printed = project.run("run", "--verbose", code=3)
    line = next(line for line in printed.splitlines() if line.startswith("error:"))
    assert "known models are `gpt-5-mini`" in line
    assert "base URLs" not in line
    assert printed.index("error:") < printed.index("pass rate")


def test_a_404_shows_neither_password_nor_query(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer() as server:
        address = server.url.replace("://", "://me:hunter2hunter2@")
        target = {"name": "web", "provider": "http", "url": f"{address}/nowhere?api_key=abcdefgh12345678"}
        project.write("evals.yaml", suite({**target, "body": {"q": "{{ prompt }}"}, "response": "x"}))
        printed = project.invoke("run").output
    assert "hunter2hunter2" not in printed
    assert "abcdefgh12345678" not in printed


def test_a_name_of_several_runs_lists_them(project: Project) -> None:
    project.write("evals.yaml", suite(scripted("x")))
    ids = [project.run_json("run")["run"]["id"] for _ in range(2)]
    error = error_of(project, "show", ids[0][:4])
    assert "matches the beginning or end of 2 run ids" in error
    assert f"They are {ids[1]}, {ids[0]}." in error


@pytest.mark.parametrize("place", [".rejoinder/runs", ".rejoinder"])
def test_a_file_in_the_place_of_the_runs_is_named(project: Project, place: str) -> None:
    if place == ".rejoinder":
        project.folder.joinpath(place).rmdir()
    project.write(place, "")
    project.write("evals.yaml", suite(scripted("x")))
    error = error_of(project, "run")
    assert str(project.folder / place) in error
    assert "it is a file, and a folder is needed" in error


LONG = "\n".join(f"line {number}" for number in range(300))


def test_a_long_reply_is_shortened(project: Project) -> None:
    project.write("evals.yaml", suite(scripted(LONG), checks=[{"contains": "absent"}]))
    printed = project.run("run", code=1)
    assert "... 296 more lines" in printed
    assert "line 2\n" in printed
    assert "line 3\n" not in printed
    assert "line 299" in printed
    for arguments in (["run", "--verbose"], ["show", "--verbose"]):
        whole = project.run(*arguments, code=None)
        assert "line 150\n" in whole
        assert "shows all" not in whole


@pytest.mark.slow
@pytest.mark.parametrize("check", [{"contains": "absent"}, {"equals": "x" * 100_000}, {"match": "*\u202e*"}])
def test_a_reply_of_one_long_line_is_shortened(project: Project, check: dict[str, str]) -> None:
    reply = "a" * 3_000_000 + "z"
    project.write("evals.yaml", suite(scripted(reply), checks=[check]))
    printed = project.run("run", code=1)
    assert len(printed) < 10_000
    assert "more lines\n" in printed
    assert project.run_json("show")["results"][0]["turns"][0]["response"] == reply
    assert reply in project.run("show", "--verbose")
