"""What others wrote does no harm: run folders from elsewhere, and `.env` files of cloned repositories."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import click
import pytest

from rejoinder.errors import RejoinderError
from rejoinder.testing import Answer, FakeServer
from tests.kit import Process, Project, run, scripted
from tests.labs.stranger_lab import MARK, READ_ONLY, WATCH, Stranger, edit, mutations, suite, tree

COMMANDS = (
    ("show", "RUN"),
    ("show", "RUN", "--verbose"),
    ("show", "RUN", "--format", "json"),
    ("show", "RUN", "--format", "yaml"),
    ("compare", "RUN", "RUN"),
    ("export", "RUN", "--to", "junit"),
    ("report", "RUN", "--out", "page.html"),
    ("verify", "RUN"),
    ("runs",),
    ("runs", "--format", "json"),
    ("resume", "RUN"),
    ("replay", "RUN"),
    ("grade", "RUN"),
    ("merge", "RUN"),
    ("fork", "RUN", "--turn", "1", "--case", "a"),
    ("run", "--failed-from", "RUN"),
)
ID = "20260101-000000-abcd"


@pytest.fixture(scope="module")
def far() -> Iterator[FakeServer]:
    """The address that a stranger's files name."""
    with FakeServer() as server:
        yield server


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory, far: FakeServer) -> Stranger:
    return Stranger(tmp_path_factory.mktemp("elsewhere") / "stranger", f"{far.url}/v1")


class Desk:
    """A user with a home, a project and keys."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.victim = self.home / ".bashrc"
        self.home.mkdir()
        self.victim.write_text("alias ll='ls -l'\n")
        self.project = Project(folder / "work")
        self.project.write(".rejoinder/config.yaml", "{}\n")

    def invoke(self, *arguments: str) -> int:
        """A command; what it says ends in no traceback. The exit code."""
        result = self.project.invoke(*arguments)
        known = SystemExit | RejoinderError | click.ClickException
        if result.exception is not None and not isinstance(result.exception, known):
            raise result.exception
        return result.exit_code


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk(tmp_path)
    monkeypatch.chdir(desk.project.folder)
    monkeypatch.setenv("HOME", str(desk.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk.home / ".config"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user-0123456789")
    monkeypatch.setenv("GITHUB_TOKEN", "ghp-of-the-user-0123456789")
    for name in [*os.environ]:
        if name.lower().endswith("_proxy") or name.startswith(("SSL_CERT", "REQUESTS_CA", "CURL_CA")):
            monkeypatch.delenv(name)
    return desk


def try_all_commands(desk: Desk, run: str) -> None:
    home = tree(desk.home)
    for command in COMMANDS:
        arguments = [run if one == "RUN" else one for one in command]
        with WATCH.on():
            desk.invoke(*arguments)
        assert WATCH.seen == [], arguments
        assert tree(desk.home) == home, arguments


@pytest.mark.every(3)
@pytest.mark.spec("P40")
@pytest.mark.parametrize("name", mutations())
def test_a_strangers_folder_starts_nothing_sends_nothing_and_changes_nothing(
    name: str, desk: Desk, stranger: Stranger, far: FakeServer
) -> None:
    outside = stranger.copy(desk.project.folder.parent / "mail" / ID)
    mutations()[name](outside, desk.victim)
    before = tree(outside)
    try_all_commands(desk, str(outside))
    assert tree(outside) == before
    assert far.requests == []


@pytest.mark.every(3)
@pytest.mark.spec("P40")
@pytest.mark.parametrize("name", [*mutations()])
def test_a_folder_that_came_with_a_clone_does_no_harm(
    name: str, desk: Desk, stranger: Stranger, far: FakeServer
) -> None:
    inside = stranger.copy(desk.project.folder / ".rejoinder" / "runs" / ID)
    mutations()[name](inside, desk.victim)
    try_all_commands(desk, ID)
    desk.invoke("runs", "prune", "--keep", "0", "--yes")
    assert desk.victim.read_text() == "alias ll='ls -l'\n"
    assert not (desk.home / MARK).exists()
    assert far.requests == []


@pytest.mark.slow
def test_one_bad_folder_does_not_hide_the_others(desk: Desk, stranger: Stranger) -> None:
    for number, spoil in enumerate(mutations().values()):
        spoil(stranger.copy(desk.project.folder / ".rejoinder" / "runs" / f"20260101-000000-{number:04x}"), desk.victim)
    stranger.copy(desk.project.folder / ".rejoinder" / "runs" / "20260201-000000-0000")
    rows = desk.project.run_json("runs", "--limit", "1000")
    assert len(rows) == len(mutations()) + 1
    assert rows[0]["summary"]["passed"] == 2
    assert {row["status"] for row in rows} >= {"completed", "damaged", "killed"}


# The seal.


def killed(run: Path) -> None:
    edit(run / "run.json", lambda data: {**data, "status": "running"})
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (run / "journal.jsonl").write_bytes(b"".join(lines[:3]))


def start(project: Project, content: Any) -> Path:
    return Path(run(project, content)["run"]["folder"])


@pytest.mark.spec("P40")
def test_ones_own_run_goes_on_from_its_copy_when_the_suite_is_gone(desk: Desk, far: FakeServer) -> None:
    run = start(desk.project, suite(far.url))
    killed(run)
    (desk.project.folder / "evals.yaml").unlink()
    assert desk.invoke("show", run.name) == 0
    assert desk.invoke("resume", run.name) == 0
    assert desk.invoke("replay", run.name) == 0


@pytest.mark.spec("P40")
@pytest.mark.parametrize("file", ["suite.json", "cases.jsonl", "seal"])
def test_an_edited_copy_is_a_strangers(file: str, desk: Desk, far: FakeServer) -> None:
    run = start(desk.project, suite(far.url))
    killed(run)
    (desk.project.folder / "evals.yaml").unlink()
    content = (run / file).read_bytes()
    (run / file).write_bytes(
        content.replace(b"stranger", b"somebody").replace(b"Say", b"Sing") if file != "seal" else b"0"
    )
    for command in ("show", "resume", "replay"):
        error = desk.project.invoke(command, run.name).exception
        assert isinstance(error, RejoinderError), command
        assert "--trust" in str(error)


@pytest.mark.spec("P40")
def test_trust_uses_the_copy_of_a_stranger_and_makes_unsealed_runs(desk: Desk, stranger: Stranger) -> None:
    folder = stranger.copy(desk.project.folder.parent / ID)
    document = desk.project.run_json("replay", str(folder), "--trust")
    made = Path(document["run"]["folder"])
    assert made.parent == desk.project.folder / ".rejoinder" / "runs"
    assert not (made / "seal").exists()
    assert "without a seal" in (made / "run.log").read_text()
    killed(made)
    assert "--trust" in str(desk.project.invoke("resume", made.name).exception)


@pytest.mark.spec("P40")
def test_a_run_without_a_usable_key_has_no_seal_and_works_where_its_suite_is(
    desk: Desk, far: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = desk.home / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(blocked / "below"))
    run = start(desk.project, suite(far.url))
    assert not (run / "seal").exists()
    assert "without a seal" in (run / "run.log").read_text()
    killed(run)
    assert desk.invoke("resume", run.name) == 0


@pytest.mark.spec("P40")
def test_a_key_in_the_environment_seals_and_one_in_a_env_file_does_not(
    desk: Desk, far: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.project.write(".env", "REJOINDER_SEAL_KEY=0123456789abcdef0123456789abcdef\n")
    run = start(desk.project, suite(far.url))
    (desk.project.folder / "evals.yaml").unlink()
    killed(run)
    monkeypatch.setenv("REJOINDER_SEAL_KEY", "0123456789abcdef0123456789abcdef")
    assert "--trust" in str(desk.project.invoke("resume", run.name).exception)


@pytest.mark.spec("P40")
def test_a_run_that_was_copied_with_its_project_goes_on_there(
    desk: Desk, far: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(desk.project, suite(far.url))
    killed(run)
    there = tmp_path / "another-machine"
    shutil.copytree(desk.project.folder, there)
    shutil.rmtree(desk.project.folder)
    monkeypatch.setenv("REJOINDER_SEAL_KEY", "the key of another machine")
    monkeypatch.chdir(there)
    assert desk.invoke("resume", run.name) == 0
    (there / "evals.yaml").unlink()
    killed(there / ".rejoinder" / "runs" / run.name)
    assert "--trust" in str(desk.project.invoke("resume", run.name).exception)


@pytest.mark.spec("P40")
def test_answers_come_from_the_folder_and_suites_from_the_project(desk: Desk, stranger: Stranger) -> None:
    """The stranger's copy says `contains: yes`; the project's own suite asks the same and wants `maybe`."""
    mine = suite("http://127.0.0.1:9/v1")
    mine["evals"][1]["checks"] = [{"contains": "maybe"}]
    desk.project.write("evals.yaml", mine)
    folder = stranger.copy(desk.project.folder.parent / ID)
    document = desk.project.run_json("replay", str(folder), code=1)
    assert [one["status"] for one in document["results"]] == ["passed", "failed"]
    assert document["results"][1]["turns"][0]["response"] == "no"


@pytest.mark.spec("P40")
def test_new_grades_of_a_foreign_folder_lie_in_the_project_and_can_be_resumed_by_id(
    desk: Desk, stranger: Stranger
) -> None:
    desk.project.write("evals.yaml", suite("http://127.0.0.1:9/v1"))
    folder = stranger.copy(desk.project.folder.parent / ID)
    before = tree(folder)
    document = desk.project.run_json("grade", str(folder))
    grades = Path(document["run"]["folder"])
    assert grades.parent == desk.project.folder / ".rejoinder" / "grades" / ID
    killed(grades)
    rows = desk.project.run_json("runs")
    assert [(row["id"], row["status"], row["grade_of"]) for row in rows] == [(grades.name, "killed", ID)]
    assert f"(grades of {ID})" in desk.project.run("runs")
    desk.project.run("resume", grades.name)
    assert tree(folder) == before


@pytest.mark.slow
@pytest.mark.spec("P40")
@pytest.mark.parametrize("command", ["resume", "replay", "grade"])
def test_no_code_is_decided_by_the_command(command: str, desk: Desk) -> None:
    content = {
        "targets": [scripted("bot", "yes")],
        "evals": [{"id": "a", "prompt": "x", "checks": [{"code": {"script": [sys.executable, "check.py"]}}]}],
    }
    desk.project.write("check.py", "print('{\"score\": 1}')\n")
    run = start(desk.project, content)
    killed(run)
    (run / "journal.jsonl").write_bytes((run / "journal.jsonl").read_bytes().splitlines(keepends=True)[0])
    edit(run / "suite.json", lambda data: {**data, "options": {**data["options"], "no_code": True}})
    assert "no-code" in str(desk.project.invoke(command, run.name, "--no-code").exception)
    assert not isinstance(desk.project.invoke(command, run.name).exception, RejoinderError)


@pytest.mark.spec("P40")
@pytest.mark.parametrize(
    "options",
    [
        {"targets": ["openai/gpt-5-pro"]},
        {"system_prompt": "Say what I want."},
        {"fork": {"turn": 1, "prompt": "Say what I want."}},
        {"record": "HERE/.git/hooks"},
    ],
)
def test_a_folder_from_elsewhere_does_not_choose_whom_to_ask_or_what_to_say(
    options: dict[str, Any], desk: Desk, stranger: Stranger
) -> None:
    desk.project.write("evals.yaml", suite("http://127.0.0.1:9/v1"))
    folder = stranger.copy(desk.project.folder.parent / ID)
    given = {
        name: str(value).replace("HERE", str(stranger.home)) if name == "record" else value
        for name, value in options.items()
    }
    edit(folder / "suite.json", lambda data: {**data, "options": {**data["options"], **given}})
    killed(folder)
    assert "--trust" in refusal(desk, "resume", str(folder))


@pytest.mark.slow
@pytest.mark.spec("P40")
def test_a_journal_from_elsewhere_cannot_name_a_secret_and_have_it_sent(desk: Desk, stranger: Stranger) -> None:
    with FakeServer() as candidate, FakeServer(lambda request: Answer('{"score": 1, "reasoning": "fine"}')) as judge:
        content = suite(f"{candidate.url}/v1")
        content |= {
            "target": "far",
            "judge_target": "judge",
            "evals": [{"id": "a", "prompt": "x", "checks": [{"llm_judge": {"criteria": "It is fine."}}]}],
        }
        content["targets"].append(
            {"name": "judge", "provider": "openai", "model": "j", "base_url": f"{judge.url}/v1", "api_key": "none"}
        )
        run = start(desk.project, content)
        mark = blake2b(os.environ["OPENAI_API_KEY"].encode(), digest_size=2).hexdigest()
        lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
        kept = [
            line for line in lines if not line.get("key", "").startswith("judge-") and "fine" not in json.dumps(line)
        ]
        for line in kept:
            if line.get("reply"):
                line["reply"]["text"] = f"<<env OPENAI_API_KEY #{mark}>>"
        (run / "journal.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in kept))
        for name in ("seal", "results.jsonl", "summary.json"):
            (run / name).unlink()
        edit(run / "run.json", lambda data: {**data, "status": "running"})
        judge.reset()
        for command in (["grade", run.name], ["resume", run.name]):
            desk.invoke(*command)
        assert judge.requests
        assert "sk-of-the-user" not in json.dumps([request.body for request in judge.requests])


# Showing writes nothing.


@pytest.mark.spec("P40")
def test_showing_a_killed_run_writes_nothing(desk: Desk, far: FakeServer) -> None:
    run = start(desk.project, suite(far.url))
    killed(run)
    before = tree(desk.project.folder)
    for command in (("show",), ("show", "--verbose"), ("runs",), ("show", "--format", "json")):
        desk.project.run(*command)
    (desk.project.folder / ".rejoinder" / "index.sqlite").unlink()  # what `runs` keeps for the next time
    assert tree(desk.project.folder) == before


def test_runs_on_a_disk_that_cannot_be_written_are_shown_and_nothing_else(desk: Desk, far: FakeServer) -> None:
    run = start(desk.project, suite(far.url))
    killed(run)
    with READ_ONLY.on(desk.project.folder):
        assert "killed" in desk.project.run("runs")
        assert "unfinished" in desk.project.run("show", "--verbose")
        for command in (["resume"], ["grade"], ["replay"], ["run", "evals.yaml"]):
            error = desk.project.invoke(*command).exception
            assert isinstance(error, RejoinderError), command
            assert "read-only file system" in str(error)
        assert "kept" in desk.project.invoke("runs", "prune", "--keep", "0", "--yes").stderr
    assert run.is_dir()
    desk.project.run("resume", "last", "--verbose")


# Runs that are open.

SLOW_BOT = """
import pathlib, time

def answer(request):
    pathlib.Path("asked").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    return "yes"

def judge(request):
    answer(request)
    return '{"score": 1, "hits": [], "misses": [], "reasoning": "fine"}'
"""


def waiting(project: Project, *arguments: str) -> Process:
    """A command that has asked the slow bot and waits for it."""
    (project.folder / "asked").unlink(missing_ok=True)
    process = Process(project.folder, *arguments)
    process.wait_for((project.folder / "asked").exists)
    return process


def slow_suite(*checks: dict[str, Any], provider: str = "python") -> dict[str, Any]:
    bot = {"provider": "python", "call": "bot:answer"} if provider == "python" else {"provider": provider}
    return {
        "targets": [
            {"name": "bot", **bot, **({"replies": ["yes"]} if provider == "scripted" else {})},
            {"name": "judge", "provider": "python", "call": "bot:judge"},
        ],
        "target": "bot",
        "judge_target": "judge",
        "evals": [{"id": "a", "prompt": "x", "checks": [{"contains": "yes"}, *checks]}],
    }


@pytest.mark.slow
def test_a_run_that_is_being_graded_is_not_pruned(desk: Desk) -> None:
    desk.project.write("bot.py", SLOW_BOT)
    run = start(desk.project, slow_suite(provider="scripted"))
    desk.project.write("evals.yaml", slow_suite({"llm_judge": {"criteria": "It is fine."}}, provider="scripted"))
    grading = waiting(desk.project, "grade")
    try:
        assert "kept" in desk.project.invoke("runs", "prune", "--keep", "0", "--yes").stderr
    finally:
        desk.project.write("go", "")
        ended = grading.end()
    assert ended.code == 0, ended
    assert run.is_dir()
    assert "deleted 1 run" in desk.project.run("runs", "prune", "--keep", "0", "--yes")
    assert not (desk.project.folder / ".rejoinder" / "grades" / run.name).exists()


def test_a_folder_with_a_part_that_cannot_be_is_refused(desk: Desk, stranger: Stranger) -> None:
    desk.project.write("evals.yaml", suite("http://127.0.0.1:9/v1"))
    folder = stranger.copy(desk.project.folder.parent / ID)
    edit(folder / "suite.json", lambda data: {**data, "options": {**data["options"], "shard": [1, 0]}})
    killed(folder)
    assert "there is no part 1 of 0" in refusal(desk, "resume", str(folder))


@pytest.mark.slow
def test_an_open_run_can_be_shown_but_not_replayed_graded_or_pruned(desk: Desk) -> None:
    desk.project.write("bot.py", SLOW_BOT)
    desk.project.write("evals.yaml", slow_suite())
    running = waiting(desk.project, "run", "evals.yaml")
    try:
        for command in ("replay", "grade", "resume"):
            assert "is open in another process" in str(desk.project.invoke(command).exception), command
        assert "running" in desk.project.run("runs")
        assert desk.project.run_json("show")["run"]["status"] == "running"
        assert "is open in another process" in str(desk.project.invoke("runs", "rm", "last", "--yes").exception)
        assert "is open in another process" in str(desk.project.invoke("runs", "tag", "last", "x").exception)
        assert "kept" in desk.project.invoke("runs", "prune", "--keep", "0", "--yes").stderr
    finally:
        desk.project.write("go", "")
        ended = running.end()
    assert ended.code == 0, ended


# Addresses from a `.env` file.


FAR_ENV = """
OPENAI_BASE_URL=http://llm.example.invalid/v1
"""


def far_suite(**target: Any) -> dict[str, Any]:
    return {
        "targets": [{"name": "far", "provider": "openai", "model": "gpt-5", "max_retries": 0, **target}],
        "evals": [{"id": "a", "prompt": "x", "checks": [{"contains": "yes"}]}],
    }


def refusal(desk: Desk, *arguments: str) -> str:
    with WATCH.on():
        error = desk.project.invoke(*arguments).exception
    assert WATCH.seen == []
    assert isinstance(error, RejoinderError), error
    return str(error)


@pytest.mark.spec("P41")
@pytest.mark.parametrize(
    ("env", "target"),
    [
        ("OPENAI_BASE_URL=https://llm.example.invalid/v1", {}),
        ("HERE=llm.example.invalid", {"base_url": "https://${{ HERE }}/v1"}),
        ("HERE=https://llm.example.invalid/v1", {"base_url": "{{ env('HERE') }}"}),
        ("HTTPS_PROXY=http://proxy.example.invalid:3128", {}),
        ("all_proxy=proxy.example.invalid:3128", {}),
        ("SSL_CERT_FILE=ca.pem", {}),
        ("REQUESTS_CA_BUNDLE=ca.pem", {}),
        ("OPENAI_BASE_URL=https://llm.example.invalid/v1\nX=sk-o", {}),
        ("HTTP_PROXY=http://proxy.example.invalid:3128\nOPENAI_BASE_URL=http://127.0.0.1:9/v1", {}),
        ("OPENAI_BASE_URL=https://llm.example.invalid/v1\nEMPTY=", {"base_url": "${{ EMPTY }}"}),
        ("HERE=llm.example.invalid:8443", {"base_url": "https://{{ env('HERE') }}/v1"}),
        (
            "HERE=llm.example.invalid",
            {
                "provider": "http",
                "url": "https://${{ HERE }}/chat",
                "body": {"q": "{{ messages }}"},
                "headers": {"Authorization": "Bearer ${{ OPENAI_API_KEY }}"},
                "reply_path": "text",
            },
        ),
    ],
)
def test_an_address_of_a_env_file_gets_no_key_from_elsewhere(env: str, target: dict[str, Any], desk: Desk) -> None:
    content = far_suite(**target)
    if target.get("provider") == "http":
        content["targets"][0].pop("model")
    desk.project.write("evals.yaml", content)
    desk.project.write(".env", env + "\n")
    for command in (["run", "evals.yaml"], ["run", "evals.yaml", "--no-code"]):
        said = refusal(desk, *command)
        assert env.partition("=")[0] in said
        assert "rejoinder trust" in said
        assert "sk-of-the-user" not in said


@pytest.mark.spec("P41")
def test_targets_check_and_names_of_models_are_refused_as_well(desk: Desk) -> None:
    desk.project.write(".env", FAR_ENV)
    with WATCH.on():
        assert "OPENAI_BASE_URL" in desk.project.run("targets", "check", "openai/gpt-5-mini", code=3)
    assert WATCH.seen == []
    desk.project.write("evals.yaml", {"evals": far_suite()["evals"]})
    assert "OPENAI_BASE_URL" in refusal(desk, "run", "evals.yaml", "-m", "openai/gpt-5-mini")


@pytest.mark.spec("P41")
@pytest.mark.parametrize("way", ["key beside it", "loopback", "--trust-env", "variable", "trust", "no key"])
def test_an_address_of_a_env_file_is_used_where_the_user_allows_it(
    way: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeServer() as server:
        address = server.url if way == "loopback" else server.url.replace("127.0.0.1", "far.example.invalid")
        env, target, options = f"OPENAI_BASE_URL={address}/v1\n", {}, []
        if way != "loopback":
            env += f"HTTP_PROXY={server.url}\n"  # on this machine, so that a host that is not there can be asked
        if way == "key beside it":
            env += "OPENAI_API_KEY=sk-of-the-project-0123456789\n"
            monkeypatch.delenv("OPENAI_API_KEY")
        if way == "no key":
            monkeypatch.delenv("OPENAI_API_KEY")
        if way == "variable":
            monkeypatch.setenv("REJOINDER_TRUST_ENV", "1")
        if way == "--trust-env":
            options.append("--trust-env")
        desk.project.write(".env", env)
        desk.project.write("evals.yaml", far_suite(**target))
        if way == "trust":
            assert "rejoinder trust" in refusal(desk, "run", "evals.yaml")
            said = desk.project.run("trust", "--yes")
            assert "OPENAI_BASE_URL" in said
            assert ".env" in desk.project.run("trust", "--list")
        desk.project.run("run", "evals.yaml", *options, code=None)
        assert len(server.requests) == 1
        if way == "trust":
            desk.project.write(".env", env + "# changed\n")
            assert "rejoinder trust" in refusal(desk, "run", "evals.yaml")
            desk.project.run("trust", "--yes")
            desk.project.run("trust", "--forget")
            assert "rejoinder trust" in refusal(desk, "run", "evals.yaml")


@pytest.mark.spec("P41")
def test_a_proxy_of_one_project_does_not_carry_the_key_of_another(desk: Desk) -> None:
    with FakeServer() as proxy, FakeServer() as server:
        here = desk.project.folder
        keyless = far_suite(base_url="http://a.example.invalid/v1", api_key="none")
        for name, content in (("a", keyless), ("b", far_suite(base_url=f"{server.url}/v1"))):
            desk.project.write(f"{name}/.rejoinder/config.yaml", "{}")
            desk.project.write(f"{name}/evals.yaml", content)
        desk.project.write("a/.env", f"HTTP_PROXY={proxy.url}\n")
        desk.invoke("run", str(here / "a/evals.yaml"), str(here / "b/evals.yaml"))
        assert len(server.requests) == 1
        assert "sk-of-the-user" not in str([request.headers for request in proxy.requests])


def test_trust_asks_before_it_remembers(desk: Desk) -> None:
    desk.project.write(".env", FAR_ENV)
    assert "--yes" in desk.project.invoke("trust").stderr
    assert desk.project.run("trust", "--list") == ""
    (desk.project.folder / ".env").unlink()
    assert "no .env file" in str(desk.project.invoke("trust").exception)


# Locks.


@pytest.mark.slow
def test_importing_the_package_needs_no_posix_module() -> None:
    script = (
        "import sys, pkgutil, importlib\n"
        "sys.modules |= dict.fromkeys(('fcntl', 'resource', 'pwd', 'grp', 'termios', 'pty', 'tty', 'readline'))\n"
        "import rejoinder\n"
        "for one in pkgutil.walk_packages(rejoinder.__path__, 'rejoinder.'):\n"
        "    if not one.name.endswith('__main__'): importlib.import_module(one.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
