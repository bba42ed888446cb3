"""Agents as targets, from the suite to the report: workspaces, what is left in them, and what happens after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Process, Project, Raw, run, run_refusal, wait_until
from tests.labs.agent_lab import STANDINS, agent, follow_ups, processes_with, suite, turns_of

pytestmark = pytest.mark.slow
AGENTS = ("claude", "codex", "pi", "acp")
every_agent = pytest.mark.parametrize("name", AGENTS)


@every_agent
def test_three_turns_in_one_workspace(project: Project, name: str) -> None:
    document = run(project, suite(agent(name), "[write a.txt: one]", follow_ups("[write b.txt: two]", "hello")), code=0)
    turns = turns_of(document)
    assert [turn["response"].partition(":")[0] for turn in turns] == ["turn 1", "turn 2", "turn 3"]
    assert len({turn["session"] for turn in turns}) == 1
    assert ["a.txt" in turn["workspace_diff"] for turn in turns] == [True, True, True]
    assert ["b.txt" in turn["workspace_diff"] for turn in turns] == [False, True, True]
    [call] = turns[0]["tool_calls"]
    assert call["status"] == "completed" and "a.txt" in call["arguments"]
    assert not list(project.folder.glob("*.txt"))


def test_each_trial_has_a_fresh_copy_and_the_template_stays(project: Project) -> None:
    project.write("template/count.txt", "0\n")
    target = agent(workspace_template="template", setup=["echo ready > ready.txt"], teardown="cp count.txt $OUT/$$")
    out = project.folder / "out"
    out.mkdir()
    target["env"] = {"OUT": str(out)}
    checks = [{"file_exists": ["ready.txt", "count.txt"]}, {"file_contains": {"path": "count.txt", "text": "0\nx"}}]
    document = run(project, suite(target, "[run: echo x >> count.txt]", *checks), "--repeat", "3", code=0)
    assert {result["turns"][0]["workspace_diff"].count("+x") for result in document["results"]} == {1}
    assert (project.folder / "template/count.txt").read_text() == "0\n"
    assert [file.read_text() for file in out.iterdir()] == ["0\nx\n"] * 3


def test_a_workspace_may_be_a_git_revision(project: Project) -> None:
    repository = project.folder / "repository"
    repository.mkdir()
    identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"]

    def git(*words: str) -> None:
        subprocess.run(["git", *identity, *words], cwd=repository, check=True, capture_output=True)

    git("init", "-q")
    for text in ("old", "new"):
        (repository / "a.txt").write_text(text)
        git("add", "a.txt")
        git("commit", "-qm", text)
    template = {"repository": "repository", "revision": "HEAD~1"}
    target = agent(workspace_template=template)
    check = {"file_contains": {"path": "a.txt", "text": "old"}}
    run(project, suite(target, "hello", check), code=0)
    template["revision"] = "nowhere"
    document = run(project, suite(target, "hello", check), code=3)
    assert "no revision `nowhere`" in document["results"][0]["error"]["message"]


def test_what_the_target_lacks_is_said_before_anything_runs(project: Project) -> None:
    for settings, said in (
        ({"workspace_template": "nowhere"}, "nowhere"),
        ({"skills": ["no-skill"]}, "no-skill"),
        ({"instructions": "no.md"}, "no.md"),
        ({"executable": "./no-program"}, "no-program"),
    ):
        assert said in run_refusal(project, suite(agent(**settings), "hello"))


def test_a_setup_that_fails_is_an_error_with_its_words(project: Project) -> None:
    document = run(project, suite(agent(setup="echo broken >&2; exit 3"), "hello"), code=3)
    error = document["results"][0]["error"]
    assert error["type"] == "setup" and "exit code 3: broken" in error["message"]


def test_workspaces_are_kept_on_demand(project: Project) -> None:
    cases = [
        {"id": "good", "prompt": "[write a.txt: good]", "checks": [{"contains": "turn 1"}]},
        {"id": "bad", "prompt": "[write a.txt: bad]", "checks": [{"contains": "turn 2"}]},
    ]
    whole = {"target": "agent", "targets": [agent()], "evals": cases}

    def kept(*arguments: str) -> list[str]:
        document = run(project, whole, *arguments, code=1)
        folder = project.folder / ".rejoinder" / "workspaces" / document["run"]["id"]
        return sorted(path.read_text() for path in folder.glob("*/a.txt"))

    assert kept() == []
    assert kept("--keep-workspaces", "failed") == ["bad"]
    assert kept("--keep-workspaces", "all") == ["bad", "good"]


def test_an_agent_gets_its_key_a_home_and_no_other_secret(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-agent-1234")
    monkeypatch.setenv("OTHER_API_KEY", "key-of-another-1234")
    monkeypatch.setenv("CLAUDECODE", "1")
    target = agent(env={"GIVEN": "yes"})
    document = run(project, suite(target, "[run: env > seen.txt]", {"file_exists": "seen.txt"}), code=0)
    text = turns_of(document)[0]["workspace_diff"]
    assert "+GIVEN=yes" in text and "OTHER_API_KEY" not in text and "CLAUDECODE" not in text
    assert "+ANTHROPIC_API_KEY=" in text and "key-of-the-agent-1234" not in text
    home = next(line for line in text.splitlines() if line.startswith("+HOME="))
    assert home.removeprefix("+HOME=") != os.environ["HOME"]


def test_files_lie_where_the_transcript_says(project: Project) -> None:
    project.write("data/notes.md", "the notes\n")
    project.write("rules.instructions.md", "be kind\n")
    content = [
        {"type": "file", "value": "rules.instructions.md"},
        {"type": "text", "value": "[say: done] Sum up."},
        {"type": "file", "value": "data/notes.md"},
    ]
    eval_case = {
        "id": "one",
        "input_messages": [{"role": "user", "content": content}],
        "checks": [
            {"file_contains": {"path": "data/notes.md", "text": "the notes"}},
            {"workspace_diff": {"max_lines": 0}},
        ],
    }
    whole = {"target": "agent", "targets": [agent()], "evals": [eval_case]}
    document = run(project, whole, code=0)
    assert document["results"][0]["turns"][0]["workspace_diff"] == ""


def test_skills_and_instructions_are_variants(project: Project) -> None:
    project.write("skills/tidy/SKILL.md", "---\nname: tidy\n---\nBe tidy.\n")
    project.write("house.md", "House rules.\n")
    whole = suite(agent(), "hello", {"file_exists": ".claude/skills/tidy/SKILL.md"}, {"file_exists": "CLAUDE.md"})
    skilled = {"skills": ["skills/tidy"], "instructions": "house.md"}
    whole["variants"] = [{"name": "plain"}, {"name": "skilled", "settings": skilled}]
    document = run(project, whole, code=1)
    assert {result["variant"]: result["passed"] for result in document["results"]} == {"plain": False, "skilled": True}
    assert {result["turns"][0]["workspace_diff"] for result in document["results"]} == {""}


CHECKS: list[tuple[Raw, str, str]] = [
    ({"file_exists": "made.txt"}, "passed", "it is there"),
    ({"file_exists": ["made.txt", "*.md"]}, "failed", "no *.md"),
    ({"file_exists": "**/*.txt"}, "passed", ""),
    ({"file_exists": "../out.txt"}, "failed", ""),
    ({"file_exists": "link/passwd"}, "failed", ""),
    ({"file_contains": {"path": "made.txt", "text": "hello"}}, "passed", ""),
    ({"file_contains": {"path": "made.txt", "text": "Hello"}}, "failed", "does not contain"),
    ({"file_contains": {"path": "made.txt", "pattern": "^h.*o"}}, "passed", ""),
    ({"file_contains": {"path": "link/passwd", "text": "root"}}, "failed", "no text"),
    ({"file_contains": {"path": "none.txt", "text": "x"}}, "failed", "no text none.txt"),
    ({"file_unchanged": "kept.txt"}, "passed", "nothing was changed"),
    ({"file_unchanged": ["kept.txt", "old.txt"]}, "failed", "old.txt was changed"),
    ({"file_unchanged": "sub"}, "failed", "sub/gone.txt was deleted"),
    ({"file_unchanged": "**"}, "failed", "link was added, made.txt was added"),
    ({"workspace_diff": "+hello"}, "passed", ""),
    ({"workspace_diff": {"not_contains": "+hello"}}, "failed", "contains"),
    ({"workspace_diff": {"max_lines": 2}}, "failed", "lines were changed"),
    ({"workspace_diff": {"min_lines": 1, "max_lines": 100}}, "passed", ""),
    ({"command": "test -e made.txt"}, "passed", "exit code 0"),
    ({"command": ["test", "-e", "none.txt"]}, "failed", "exit code 1"),
    ({"command": "pwd; echo seen; exit 4"}, "failed", "exit code 4: seen"),
    ({"command": {"run": "exit 4", "exit_code": 4}}, "passed", ""),
    ({"command": {"run": "sleep 9", "timeout": 0.2}}, "error", "did not end within 0.2 s"),
    ({"command": "kill -9 $$"}, "failed", "exit code -9"),
]


def test_checks_on_what_was_left_behind(project: Project) -> None:
    for name in ("kept.txt", "old.txt", "sub/gone.txt"):
        project.write(f"template/{name}", "before\n")
    done = "[write made.txt: hello][run: echo after > old.txt; touch kept.txt; rm sub/gone.txt; ln -s /etc link]"
    whole = suite(agent("acp", workspace_template="template"), done, *(check for check, _, _ in CHECKS))
    document = run(project, whole, code=1)
    verdicts = turns_of(document)[0]["checks"]
    for (check, state, reason), found in zip(CHECKS, verdicts, strict=True):
        assert ("error" if found.get("error") else "passed" if found["passed"] else "failed") == state, (check, found)
        assert reason in found["reason"], (check, found)
    replayed = project.run_json("replay", code=None)
    assert turns_of(replayed)[0]["checks"] == verdicts


@pytest.mark.parametrize("kind", ["file_exists", "file_unchanged", "command", "workspace_diff"])
def test_checks_of_workspaces_need_one(project: Project, kind: str) -> None:
    target = {"name": "t", "provider": "scripted", "replies": ["hello"]}
    whole = {"target": "t", "targets": [target], "evals": [{"id": "a", "prompt": "p", "checks": [{kind: "true"}]}]}
    assert "looks into the workspace of an agent" in run_refusal(project, whole)
    [warning] = project.warnings(whole)
    assert (warning["code"], warning["path"]) == ("no-workspace", f"evals[0].checks[0].{kind}")


def test_the_output_of_a_command_is_quoted_and_decides(project: Project) -> None:
    project.write("template/check.sh", "grep -q fixed state.txt || { echo 'state is not fixed'; exit 1; }\n")
    follow = {"prompt": "It says: {{ failed }} [write state.txt: fixed]", "checks": [{"command": "sh check.sh"}]}
    check = {"command": "sh check.sh 2>/dev/null", **follow}
    document = run(project, suite(agent(workspace_template="template"), "Repair it.", check), code=0)
    second = turns_of(document)[1]
    assert "exit code 1:\nstate is not fixed" in second["prompt"]
    assert document["summary"]["recovered"] == 1


@every_agent
def test_a_killed_turn_is_not_asked_twice(
    project: Project, start: Callable[..., Process], name: str, tmp_path: Path
) -> None:
    flag = tmp_path / "begun"
    slow = f"[run: echo again >> log.txt; test -e {flag} || {{ touch {flag}; exec sleep 77; }}]"
    project.write("evals.yaml", suite(agent(name), "[write a.txt: one]", follow_ups(slow, "hello")))
    process = start("run", "evals.yaml")
    process.wait_for(flag.exists)
    process.kill()
    wait_until(lambda: not processes_with(str(flag), "cmdline"), "what the agent had started goes on")
    document = project.run_json("resume", "last", code=0)
    [result] = document["results"]
    said = [turn["response"].partition(":")[0] for turn in result["turns"]]
    assert said == ["turn 1", "turn 2", "turn 3"]
    assert result["turns"][1]["workspace_diff"].count("+again") == 1
    if name == "acp":
        assert [attempt["turn"] for attempt in result["cut_off"]] == [2]
    else:
        assert "cut_off" not in result and [turn.get("continued", False) for turn in result["turns"]] == [
            False,
            True,
            False,
        ]
    shown = project.run_json("show", code=None)
    assert shown["results"] == document["results"]


def test_what_an_agent_did_is_shown(project: Project) -> None:
    target = agent(permissions={"edit": "allow"})
    run(project, suite(target, "[write a.txt: one][run: rm a.txt]", {"contains": "turn 2"}), code=1)
    whole = project.run("show", "--case", "one", code=None)
    assert "    Tools: Write, Bash (denied)\n    Write({" in whole and '    Bash({"command' in whole
    assert "    Workspace: 1 file changed (a.txt), 1 line added, 0 removed\n" in whole and "+one" not in whole
    assert "    +one\n" in project.run("show", "--case", "one", "--turn", "1", code=None)


def test_absolute_paths_name_the_files_where_they_are(project: Project) -> None:
    notes = project.write("notes.md", "the notes\n")
    content = [{"type": "text", "value": "[read notes.md] Sum up."}, {"type": "file", "value": "notes.md"}]
    case = {
        "id": "one",
        "input_messages": [{"role": "user", "content": content}],
        "checks": [{"not": {"file_exists": "notes.md"}}],
    }
    editor = {"name": "agent", "provider": "vscode", "executable": str(STANDINS / "code"), "dry_run": True}
    whole = {"target": "agent", "targets": [editor], "evals": [case], "formatting": {"agent_paths": "absolute"}}
    text = turns_of(run(project, whole, code=0))[0]["response"]
    assert f"* [{notes}]({notes.as_uri()})" in text and f'<file: path="{notes}">' in text


def test_interrupting_twice_ends_the_agent(project: Project, start: Callable[..., Process], tmp_path: Path) -> None:
    flag = tmp_path / "begun"
    project.write("evals.yaml", suite(agent(), f"[run: touch {flag}; setsid sleep 78 & exec sleep 79]"))
    process = start("run", "evals.yaml")
    process.wait_for(flag.exists)
    process.interrupt()
    process.wait_until_it_says("Ctrl-C")
    process.interrupt()
    assert process.end().code == 130
    wait_until(lambda: not processes_with(str(flag), "cmdline"), "what the agent had started goes on")
    assert not list(Path(tempfile.gettempdir()).glob("rejoinder-*/*"))


def test_a_kill_in_a_check_of_the_workspace_begins_the_conversation_anew(
    project: Project, start: Callable[..., Process], tmp_path: Path
) -> None:
    flag = tmp_path / "begun"
    check = {"command": f"test -e {flag} || {{ touch {flag}; exec sleep 80; }}; cat a.txt"}
    project.write("evals.yaml", suite(agent(), "[write a.txt: one]", check))
    process = start("run", "evals.yaml")
    process.wait_for(flag.exists)
    [sleeper] = wait_until(lambda: [one for one in Path("/proc").glob("[0-9]*") if _runs(one, "sleep", "80")])
    process.kill()
    os.kill(int(sleeper.name), signal.SIGKILL)
    document = project.run_json("resume", "last", code=0)
    [result] = document["results"]
    assert [attempt["turn"] for attempt in result["cut_off"]] == [1] and result["status"] == "passed"
    assert project.run_json("show", code=None)["results"] == document["results"]


def _runs(process: Path, *words: str) -> bool:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")[:-1] == [word.encode() for word in words]
    except OSError:
        return False


def test_an_agent_without_a_key_is_told_what_it_lacks(project: Project) -> None:
    document = run(project, suite(agent(), "[error 401]"), code=3)
    message = document["results"][0]["error"]["message"]
    assert "it has no key: set ANTHROPIC_API_KEY, or write `home: shared`" in message
    keyed = agent(env={"ANTHROPIC_API_KEY": "a-key-of-some-length"})
    assert "no key" not in run(project, suite(keyed, "[error 401]"), code=3)["results"][0]["error"]["message"]


def test_a_turn_that_takes_too_long_names_its_limit(project: Project) -> None:
    document = run(project, suite(agent(timeout_seconds=0.5), "[hang]"), code=3)
    assert "(0.5 s; `timeout_seconds` says how long it may take)" in document["results"][0]["error"]["message"]


def test_a_failure_says_what_was_not_allowed(project: Project) -> None:
    project.write("evals.yaml", suite(agent(permissions="reject"), "[write a.txt: one]", {"file_exists": "a.txt"}))
    assert "not allowed: Write (see `permissions` of the target)" in project.run("run", "evals.yaml", code=1)


def test_codex_cannot_be_kept_from_running_commands(project: Project) -> None:
    target = agent("codex", permissions={"edit": "allow", "execute": "reject"})
    assert "but Codex always runs commands" in run_refusal(project, suite(target, "hello"))
