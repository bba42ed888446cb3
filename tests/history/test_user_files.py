"""Saved suites, variables and secrets: owner-only files, used after the project's own, and secrets nowhere else."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rejoinder.cli.app import cli
from rejoinder.errors import RejoinderError
from rejoinder.project import user_files
from rejoinder.project.user_files import user_values
from rejoinder.testing import Answer, FakeServer
from tests.kit import Process, Project, Raw, behind, case, command_line, refusal, refused, scripted

SECRET = "correct-horse-battery-staple-4711"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of this test's own."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder / "rejoinder"


def set_secret(name: str, value: str | bytes = SECRET) -> Result:
    return CliRunner().invoke(cli, ["secret", "set", name], input=value)


def suite(prompt: str, **more: object) -> Raw:
    return {"targets": [scripted("bot", "yes")], "target": "bot", "evals": [case("a", prompt=prompt)], **more}


def prompted(project: Project, content: Raw) -> str:
    project.write("evals.yaml", content)
    [shown] = project.run_json("prompt", "evals.yaml")
    return shown["raw_request"]["question"] if "raw_request" in shown else json.dumps(shown)


# The files


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes of files")
def test_only_the_owner_can_read_the_files(project: Project, home: Path) -> None:
    before = os.umask(0)
    try:
        set_secret("token")
        project.run("var", "set", "city", "Oslo")
        project.write("evals.yaml", suite("Hi"))
        project.run("suites", "save", "mine", "evals.yaml")
    finally:
        os.umask(before)
    assert sorted(path.name for path in home.iterdir()) == [
        ".lock",
        "secrets.json",
        "suites.json",
        "vars.json",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()} == {0o600}
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_read_is_refused(project: Project, home: Path, mode: int) -> None:
    set_secret("token")
    (home / "secrets.json").chmod(mode)
    error = refused(project, "secret", "list")
    assert f"others can read or change {home / 'secrets.json'}" in str(error)
    assert SECRET not in str(error)
    project.write("evals.yaml", suite("{{ secret('token') }}"))
    assert "chmod 600" in str(refused(project, "run", "evals.yaml"))


@pytest.mark.slow
def test_values_that_are_saved_at_once_are_all_kept(project: Project, home: Path) -> None:
    project.write("evals.yaml", suite("Hi"))
    names = [f"n{number}" for number in range(8)]
    commands = [("var", "set", name, name) for name in names]
    commands += [("suites", "save", name, "evals.yaml") for name in names]
    ended = [process.end() for process in [Process(project.folder, *command) for command in commands]]
    assert [one.code for one in ended] == [0] * 16, ended
    asked = [
        subprocess.Popen(command_line("secret", "set", name), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for name in names
    ]
    for process, name in zip(asked, names, strict=True):
        process.communicate(name.encode())
    for kind in ("vars", "suites", "secrets"):
        assert sorted(json.loads((home / f"{kind}.json").read_text())) == names, kind


def test_a_folder_that_another_process_holds_is_waited_for(
    project: Project, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_files, "LOCK_WAIT_S", 0.05)
    with user_files.user_folder_held():
        assert "another process changes the files" in str(refused(project, "var", "set", "a", "b"))
    project.run("var", "set", "a", "b")


DAMAGED = {
    "no JSON": f'{{"token": "{SECRET}'.encode(),
    "another type": f'{{"token": ["{SECRET}"]}}'.encode(),
    "no text": SECRET.encode() + b"\xff\xfe",
    "too large": b'{"a": "' + b"x" * (1 << 21) + b'"}',
    "too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_without_its_words(project: Project, home: Path, name: str) -> None:
    home.mkdir()
    (home / "secrets.json").write_bytes(DAMAGED[name])
    (home / "secrets.json").chmod(0o600)
    error = refused(project, "secret", "list")
    assert SECRET not in str(error)
    assert "secrets.json" in str(error)


def test_a_pipe_is_not_waited_for(project: Project, home: Path) -> None:
    home.mkdir()
    os.mkfifo(home / "vars.json", 0o600)
    assert "pipe" in str(refused(project, "var", "list"))


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 65, "a\nb"])
def test_names_are_words(project: Project, name: str) -> None:
    assert "a name has letters" in str(refused(project, "var", "set", name, "x"))


def test_a_user_without_a_folder_that_can_be_written_is_told(project: Project, home: Path) -> None:
    home.write_text("a file")
    assert "cannot be written" in str(refused(project, "var", "set", "a", "b"))


# Variables


@pytest.mark.spec("P15")
def test_variables_of_the_user_come_after_the_projects_and_the_suites(project: Project) -> None:
    for name in ("a", "b", "c"):
        project.run("var", "set", name, "mine")
    project.write(".rejoinder/config.yaml", "vars: {b: the project's, c: the project's}\n")
    text = "{{ var('a') }}, {{ var('b') }}, {{ var('c') }}"
    assert "mine, the project's, the suite's" in prompted(project, suite(text, vars={"c": "the suite's"}))


def test_variables_are_listed_shown_and_forgotten(project: Project) -> None:
    project.run("var", "set", "city", "Oslo")
    project.run("var", "set", "city", "Bergen")
    project.run("var", "set", "empty-like", " ")
    assert project.run("var", "list") == "city=Bergen\nempty-like= \n"
    assert project.run("var", "get", "city") == "Bergen\n"
    assert project.run_json("var", "list") == {"city": "Bergen", "empty-like": " "}
    project.run("var", "rm", "city")
    assert "there is no saved variable `city`" in str(refused(project, "var", "get", "city"))
    assert "there is no saved variable `city`" in str(refused(project, "var", "rm", "city"))


# Secrets


def test_secrets_are_write_only(project: Project, home: Path) -> None:
    assert set_secret("token").output == "saved token\n"
    assert project.run("secret", "list") == "token\n"
    assert project.run_json("secret", "list") == ["token"]
    assert SECRET in (home / "secrets.json").read_text()
    assert "there is no saved secret `other`" in str(refused(project, "secret", "rm", "other"))
    project.run("secret", "rm", "token")
    assert project.run("secret", "list") == ""
    assert SECRET not in (home / "secrets.json").read_text()


@pytest.mark.parametrize("value", [SECRET, f"--{SECRET}"])
def test_a_value_on_the_command_line_is_refused_and_not_printed(project: Project, home: Path, value: str) -> None:
    words = refusal(project, "secret", "set", "token", value)
    assert "a secret is not given as an argument" in words
    assert SECRET not in words
    assert not home.exists()


@pytest.mark.parametrize("value", ["", "\n", b"\xff\xfe", "a\0b", "x" * 70_000])
def test_values_that_cannot_be_saved_are_refused(value: str | bytes, home: Path) -> None:
    result = set_secret("token", value)
    assert isinstance(result.exception, RejoinderError), result.output
    assert not home.exists()


def test_a_line_end_is_no_part_of_a_secret(project: Project) -> None:
    set_secret("one", f"{SECRET}\r\n")
    set_secret("lines", "first\nsecond\n")
    assert user_values("secrets") == {"one": SECRET, "lines": "first\nsecond"}


def test_the_environment_wins_over_saved_secrets(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    set_secret("token")
    with FakeServer(Answer("fine")) as server:
        asked = case("a", prompt="The code is {{ secret('token') }}.")
        project.write("evals.yaml", {"targets": [behind(server, "model")], "target": "model", "evals": [asked]})
        project.run("run", "evals.yaml")
        monkeypatch.setenv("REJOINDER_SECRET_TOKEN", "another-value-0815")
        project.run("run", "evals.yaml")
        sent = [json.dumps(request.body) for request in server.requests]
    assert SECRET in sent[0]
    assert "another-value-0815" in sent[1]
    assert SECRET not in sent[1]


@pytest.mark.slow
def test_a_saved_secret_is_sent_and_stands_nowhere(project: Project) -> None:
    """Neither in a file below the project nor in what commands print, though the model repeats it."""
    set_secret("door.code")
    project.run("var", "set", "shown", "a-variable-may-be-seen")
    code = "{{ secret('door.code') }}"
    with FakeServer(Answer(f"The code is {SECRET}.")) as server:
        project.write(
            "evals.yaml",
            {
                "metadata": {"name": "doors"},
                "targets": [behind(server, "model")],
                "target": "model",
                "evals": [case("a", {"contains": code}, prompt=f"{code} {{{{ var('shown') }}}}")],
            },
        )
        said = [
            CliRunner().invoke(cli, list(arguments)).output
            for arguments in (
                ("run", "evals.yaml", "--verbose", "--include", "messages", "--out", "out.json"),
                ("prompt", "evals.yaml"),
                ("validate", "evals.yaml"),
                ("show", "last", "--verbose"),
                ("show", "doors", "--format", "json"),
                ("runs", "tag", "last", "x"),
                ("runs",),
                ("runs", "--format", "csv"),
                ("replay", "last"),
                ("grade", "last"),
                ("secret", "list"),
                ("run", "evals.yaml", "--dry-run"),
            )
        ]
        assert SECRET in json.dumps([request.body for request in server.requests])
    files = [path for path in project.folder.rglob("*") if path.is_file()]
    assert any(path.name == "index.sqlite" for path in files)
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert [text for text in said if SECRET in text] == []
    assert "1 passed" in said[0]
    assert "a-variable-may-be-seen" in said[0]
    assert code in said[0]


def test_a_run_can_be_resumed_with_the_saved_secret_and_not_without(project: Project) -> None:
    set_secret("token")
    project.write("evals.yaml", suite("{{ secret('token') }}"))
    project.run("run", "evals.yaml")
    (project.folder / "evals.yaml").unlink()
    project.run("replay", "last")
    project.run("secret", "rm", "token")
    error = refused(project, "replay", "last")
    assert "there is no secret `token`; `rejoinder secret set token` saves one" in str(error)


@pytest.mark.slow
def test_a_prompt_asks_for_the_value_without_showing_it(project: Project, home: Path) -> None:
    """On a terminal the value is typed, and the terminal shows nothing of it."""
    pty = pytest.importorskip("pty")
    main, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from rejoinder.cli import main; main()", "secret", "set", "token"],
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
    )
    os.close(end)
    said = b""
    while b"Value" not in said:
        said += os.read(main, 1000)
    os.write(main, f"{SECRET}\n".encode())
    assert process.wait(30) == 0
    said += os.read(main, 1000)
    os.close(main)
    assert SECRET.encode() not in said
    assert user_values("secrets") == {"token": SECRET}


# Suites


def test_a_saved_suite_is_run_by_name_from_anywhere(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("evals.yaml", suite("Hi"))
    project.run("suites", "save", "mine", "evals.yaml")
    elsewhere = project.folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert project.run_json("run", "mine")["summary"]["passed"] == 1
    assert project.run_json("validate", "mine")["files"][0]["errors"] == []
    assert f"mine  {project.folder / 'evals.yaml'}" in project.run("suites")
    assert project.run_json("suites") == {"mine": str(project.folder / "evals.yaml")}
    assert "provider" in project.run("suites", "show", "mine")
    project.write("elsewhere/mine", suite("A file of this name wins."))
    assert "A file of this name wins." in project.run("run", "mine", "--verbose")
    (elsewhere / "mine").unlink()
    project.run("suites", "rm", "mine")
    assert "no saved suites" in project.run("suites")
    assert project.invoke("run", "mine").exit_code != 0
    assert "there is no saved suite `mine`" in str(refused(project, "suites", "rm", "mine"))


def test_a_saved_suite_that_is_gone_is_said_to_be(project: Project) -> None:
    project.write("evals.yaml", suite("Hi"))
    project.run("suites", "save", "mine", "evals.yaml")
    (project.folder / "evals.yaml").unlink()
    assert "(is gone)" in project.run("suites")
    assert "evals.yaml" in project.invoke("run", "mine").output
    assert "there is no file" in str(refused(project, "suites", "show", "mine"))
    assert "nothing.yaml" in refusal(project, "suites", "save", "x", "nothing.yaml")
