"""Checks of the user's own, in real runs: scripts as processes, functions as modules, webhooks on sockets, plugins as
installed packages. What they are told, what they may say, and what happens when they misbehave."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rejoinder.errors import UsageError
from rejoinder.user_code.functions import load_function
from tests.kit import PATIENCE_S, Process, Project, Raw, assert_gone, codes, spec, state_of, wait_until

REPLY = "The answer is 42."


def make_suite(evals: list[Raw], replies: Any = None, **more: Any) -> Raw:
    target = {"name": "model", "provider": "scripted", "replies": replies or [REPLY, "Second.", "Third."]}
    return {"targets": [target], "metadata": {"model": "model"}, "evals": evals, **more}


def make_cases(checks: dict[str, Any]) -> list[Raw]:
    """A case for each check, by its id."""
    return [{"id": name, "prompt": "What is the answer?", "checks": [check]} for name, check in checks.items()]


def run(project: Project, *arguments: str, code: int | None = None) -> Raw:
    return project.run_json("run", *arguments, code=code)


def run_checks(project: Project, checks: dict[str, Any], *arguments: str) -> dict[str, Raw]:
    """The verdict of each check, as results show it."""
    project.write("evals.yaml", make_suite(make_cases(checks)))
    return verdicts(run(project, *arguments))


def verdicts(document: Raw) -> dict[str, Raw]:
    found: dict[str, Raw] = {}
    for result in document["results"]:
        assert result["status"] in ("passed", "failed", "error")
        found[result["id"]] = one = result["turns"][-1]["checks"][0]
        assert one["passed"] == (result["status"] == "passed")
        assert one.get("error", False) == (result["status"] == "error")
        if one.get("error"):
            # An error is told where people look for it, and is neither a score nor a failed check.
            assert result["error"] == {"type": "check", "message": f"{one['check']}: {one['reason']}", "turn": 1}
            assert one["score"] is None is result["score"]
        else:
            assert result["score"] == one["score"]
    return found


def saying(answer: Any) -> str:
    """A command line that prints a verdict, whatever it is told."""
    return f"cat > /dev/null; printf '%s' '{answer if isinstance(answer, str) else json.dumps(answer)}'"


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(autouse=True)
def forget_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a project brought does not outlive its test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, one in list(sys.modules.items()):
        if str(getattr(one, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


# Scripts: how they are written


@spec("A14", "A16", "P18")
def test_scripts_as_agentv_writes_them(project: Project) -> None:
    project.write("tools/check.sh", f"cat > /dev/null; printf '%s' '{json.dumps({'score': 0.25, 'hits': ['h']})}'")
    evaluators = [
        {"name": "line", "type": "code", "script": saying({"score": 1, "misses": ["m"], "reasoning": "By a line."})},
        {"name": "words", "type": "code", "script": ["sh", "check.sh"], "cwd": "tools", "timeout": 30},
    ]
    case = {"id": "a", "prompt": "What?", "outcome": "An answer.", "execution": {"evaluators": evaluators}}
    project.write("evals.yaml", make_suite([case]))
    [result] = run(project, code=1)["results"]
    one, other = result["turns"][0]["checks"]
    assert (one["name"], one["passed"], one["score"], one["threshold"]) == ("line", True, 1.0, 0.5)
    assert (other["name"], other["passed"], other["score"], other["reason"]) == ("words", False, 0.25, "scored 0.25")
    assert (result["hits"], result["misses"], result["score"]) == (["h"], ["m"], 0.625)
    assert result["reasoning"] == "line: By a line."
    assert result["judge_cost"] is None and result["judge_usage"]["total_tokens"] == 0


def test_scripts_as_checks(project: Project) -> None:
    project.write("tools/verdict.json", '{"passed": true, "score": 0.9}')
    found = run_checks(
        project,
        {
            "line": {"code": saying(True)},
            "pipes are a shell's": {"code": "cat | grep -q 42 && echo true"},
            "words": {"code": {"script": ["cat", "verdict.json"], "cwd": "tools", "timeout": 30.5}},
            "one word": {"code": {"script": ["true"]}},
            "no shell for words": {"code": {"script": ["printf", "%s", "0.5 # $HOME; exit 3"]}},
            "exit code": {"code": "cat > /dev/null; echo 'too long'; exit 1"},
            "threshold": {"code": saying(0.6), "threshold": 0.7, "name": "strict"},
            "both": {"code": saying({"passed": True, "score": 0.6}), "threshold": 0.7},
        },
    )
    assert {name: (state_of(one), one["score"]) for name, one in found.items()} == {
        "line": ("passed", 1.0),
        "pipes are a shell's": ("passed", 1.0),
        "words": ("passed", 0.9),
        "one word": ("passed", 1.0),
        "no shell for words": ("error", None),
        "exit code": ("failed", 0.0),
        "threshold": ("failed", 0.6),
        "both": ("failed", 0.6),
    }
    assert found["exit code"]["reason"] == "too long"
    assert "0.5 # $HOME; exit 3" in found["no shell for words"]["reason"]
    assert found["threshold"]["threshold"] == 0.7 and found["threshold"]["name"] == "strict"
    assert "threshold" not in found["line"]  # there is no score to compare
    assert found["line"]["check"].startswith("code cat > /dev/null; printf")
    assert found["words"]["check"] == "code"


@pytest.mark.slow
def test_a_script_runs_in_the_suites_folder(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    tell = 'cat > /dev/null; printf \'{"passed": true, "reason": "%s"}\' "$(pwd -P)"'
    for folder in ("deep/er/inner", "scripts", "deep/tools", "elsewhere/here", "deep/er/below"):
        project.write(f"{folder}/.keep", "")
    checks: dict[str, Any] = {
        "own": {"code": tell},
        "below": {"code": {"script": tell, "cwd": "inner"}},
        "above": {"code": {"script": tell, "cwd": ".."}},
        "anywhere": {"code": {"script": tell, "cwd": str(project.folder)}},
        "nowhere": {"code": {"script": tell, "cwd": "gone"}},
        "a file": {"code": {"script": tell, "cwd": "evals.yaml"}},
        "by variable": {"code": {"script": tell, "cwd": "{{ var('where') }}"}},
        "of the root": {"code": {"script": tell, "cwd": "scripts"}},
        "between": {"code": {"script": tell, "cwd": "tools"}},
        "of the working folder": {"code": {"script": tell, "cwd": "here"}},
        "with a slash": {"code": {"script": tell, "cwd": "/below"}},
        "of the machine": {"code": {"script": tell, "cwd": "/"}},
    }
    project.write("deep/er/evals.yaml", make_suite(make_cases(checks), vars={"where": "inner"}))
    monkeypatch.chdir(project.folder / "elsewhere")
    found = verdicts(run(project, "../deep/er/evals.yaml"))
    here = project.folder.resolve() / "deep" / "er"
    top = project.folder.resolve()
    wanted = {
        "own": here,
        "below": here / "inner",
        "above": here.parent,
        "anywhere": top,
        "by variable": here / "inner",
        "of the root": top / "scripts",
        "between": here.parent / "tools",
        "of the working folder": top / "elsewhere" / "here",
        "with a slash": here / "below",
        "of the machine": Path("/"),
    }
    assert {name: found[name]["reason"] for name in wanted} == {name: str(path) for name, path in wanted.items()}
    assert f"there is no folder {here / 'gone'} to run it in" in found["nowhere"]["reason"]
    assert state_of(found["a file"]) == "error" and "no folder" in found["a file"]["reason"]


# What checks are told


ANSWERS = """
import json
def reply(request):
    with open("received.jsonl", "a") as stream:
        sent = [[message.role, message.content] for message in request.messages]
        stream.write(json.dumps([request.case_id, request.turn, request.question, sent]) + "\\n")
    return " reply %d\\n" % request.turn
"""

TRANSCRIPT = """@[System]:
Follow the rules.

@[User]:
<Attached: docs/style.instructions.md>
Look at this:
<file path="docs/data.txt">
line 1
line 2
</file>

@[Assistant]:
I did.

@[User]:
And now?"""


def tell_all(project: Project, module: Callable[[str], str], **formatting: Any) -> tuple[dict[str, Raw], list[Any]]:
    """What scripts were told about a flat and a marked case, by file, and what the candidate received."""
    project.write("docs/style.instructions.md", "Be brief.\n")
    project.write("docs/data.txt", "line 1\nline 2\n")
    flat = {
        "id": "flat",
        "name": "The flat one",
        "tags": ["quick"],
        "prompt": "  What is “ö” \U0001f600?\n",
        "outcome": "An answer about {{ x }}.",
        "expected_messages": [
            {"role": "user", "content": "Please."},
            {"role": "assistant", "content": "The reference."},
        ],
        "vars": {"x": "umlauts", "list": [1, 2]},
        "metadata": {"owner": {"name": "{{ x }}"}},
        "checks": [{"code": "cat > flat.json; echo 1"}],
    }
    file = {"type": "file", "value": "docs/data.txt"}
    first = [
        {"type": "file", "value": "docs/style.instructions.md"},
        {"type": "text", "value": "Look at this:"},
        file,
    ]
    marked = {
        "id": "marked",
        "input_messages": [
            {"role": "system", "content": "Follow the rules."},
            {"role": "user", "content": first},
            {"role": "assistant", "content": "I did."},
            {"role": "user", "content": "And now?"},
        ],
        "outcome": "Good.",
        "checks": [
            {"code": "cat > marked-1.json; echo 0"},
            {"prompt": "Not {{ response }}!", "checks": [{"code": "cat > marked-2.json; echo 1"}]},
        ],
    }
    target = {"name": "model", "provider": "python", "call": f"{module(ANSWERS)}:reply"}
    suite = {"targets": [target], "metadata": {"model": "model", "system_prompt": "Sys."}, "evals": [flat, marked]}
    project.write("evals.yaml", {**suite, **({"formatting": formatting} if formatting else {})})
    run(project, code=0)
    files = ("flat", "marked-1", "marked-2")
    told = {name: json.loads((project.folder / f"{name}.json").read_bytes()) for name in files}
    return told, [json.loads(line) for line in lines_of(project.folder / "received.jsonl")]


@spec("A14", "R37", "R40", "P14")
def test_a_script_is_told_what_agentv_tells_and_the_very_question(
    project: Project, module: Callable[[str], str]
) -> None:
    told, received = tell_all(project, module)
    flat, marked = told["flat"], told["marked-1"]
    questions = {(case, turn): question for case, turn, question, _ in received}
    assert flat["question"] == questions["flat", 1] == "  What is “ö” \U0001f600?"
    [sent] = [sent for case, _, _, sent in received if case == "flat"]
    assert sent[-1] == ["user", flat["question"]]
    assert marked["question"] == questions["marked", 1] == TRANSCRIPT
    assert {name: flat[name] for name in ("expected_outcome", "reference_answer", "candidate_answer")} == {
        "expected_outcome": "An answer about umlauts.",
        "reference_answer": "The reference.",
        "candidate_answer": " reply 1\n",
    }
    assert (flat["guideline_paths"], flat["input_files"]) == ([], [])
    here = project.folder.resolve()
    assert marked["guideline_paths"] == [str(here / "docs/style.instructions.md")]
    assert marked["input_files"] == [str(here / "docs/style.instructions.md"), str(here / "docs/data.txt")]
    assert marked["input_segments"] == [
        {"type": "text", "value": "Follow the rules."},
        {"type": "text", "value": "Look at this:"},
        {
            "type": "file",
            "path": "docs/data.txt",
            "text": "line 1\nline 2\n",
            "resolvedPath": str(here / "docs" / "data.txt"),
        },
        {"type": "text", "value": "I did."},
        {"type": "text", "value": "And now?"},
    ]
    assert marked["reference_answer"] == ""
    assert marked["guidelines"] == "=== docs/style.instructions.md ===\nBe brief."
    assert [one["role"] for one in marked["input_messages"]] == ["system", "user", "assistant", "user"]


def test_a_script_is_told_about_the_case(project: Project, module: Callable[[str], str]) -> None:
    flat = tell_all(project, module)[0]["flat"]
    wanted = {
        "case_id": "flat",
        "name": "The flat one",
        "tags": ["quick"],
        "vars": {"x": "umlauts", "list": [1, 2]},
        "metadata": {"owner": {"name": "umlauts"}},
        "target": "model",
        "trial": 1,
        "turn": 1,
        "turns": [{"turn": 1, "prompt": "  What is “ö” \U0001f600?", "response": " reply 1\n"}],
        "expected_messages": [
            {"role": "user", "content": "Please."},
            {"role": "assistant", "content": "The reference."},
        ],
    }
    assert {name: flat[name] for name in wanted} == wanted
    assert flat["usage"]["output_tokens"] > 0 and flat["latency_s"] > 0


@spec("R63", "P14")
def test_a_later_turn_is_told_with_the_conversation(project: Project, module: Callable[[str], str]) -> None:
    told, received = tell_all(project, module)
    later = told["marked-2"]
    follow_up = "Not  reply 1\n!"
    assert received[-1][3][-2:] == [["assistant", " reply 1\n"], ["user", follow_up]]
    assert later["question"] == f"{TRANSCRIPT}\n\n@[Assistant]:\n reply 1\n\n@[User]:\n{follow_up}"
    assert later["candidate_answer"] == " reply 2\n"
    assert later["turn"] == 2
    assert later["turns"] == [
        {"turn": 1, "prompt": TRANSCRIPT, "response": " reply 1\n"},
        {"turn": 2, "prompt": follow_up, "response": " reply 2\n"},
    ]
    assert later["input_segments"] == told["marked-1"]["input_segments"]
    assert [one["content"] for one in later["input_messages"][-2:]] == [" reply 1", follow_up]


@spec("R37", "R47")
def test_the_question_of_other_formats_is_the_one_that_was_sent(project: Project, module: Callable[[str], str]) -> None:
    told, received = tell_all(project, module, profile="legacy")
    [sent] = [sent for case, turn, _, sent in received if (case, turn) == ("marked", 1)]
    assert sent[-1] == ["user", told["marked-1"]["question"]]
    assert told["marked-1"]["question"].startswith("[System]:\nFollow the rules.")


def test_a_reply_is_never_part_of_a_command(project: Project) -> None:
    reply = "$(touch pwned); `touch pwned`; ' touch pwned #"
    project.write("evals.yaml", make_suite(make_cases({"a": {"code": "cat > told.json; echo true"}}), [reply]))
    run(project, code=0)
    assert json.loads((project.folder / "told.json").read_bytes())["candidate_answer"] == reply
    assert not (project.folder / "pwned").exists()


# Scripts that misbehave


FAILING = {
    "crash": ("echo working; echo first >&2; echo 'no such table' >&2; exit 3", ["exit code 3", "no such table"]),
    "rubbish": ("echo 'all good!'; echo 'a hint' >&2", ["all good!", "JSON is expected", "a hint"]),
    "list": (saying("[1]"), ["[1]", "JSON is expected"]),
    "text": (saying('"fine"'), ["fine", "JSON is expected"]),
    "neither": (saying({"verdict": True}), ["neither `score` nor `passed`"]),
    "no truth": (saying({"passed": "yes"}), ["'yes' as `passed`"]),
    "no number": (saying({"score": "0.9"}), ["the score '0.9'"]),
    "contradiction": (f"{saying({'passed': True})}; exit 1", ["exit code 1 although it printed"]),
    "killed": ("echo 'last words' >&2; kill -9 $$", ["killed by SIGKILL", "last words"]),
    "missing": ("./gone.sh", ["exit code 127", "gone.sh"]),
    "flood": ("yes", ["prints more than 1 MiB"]),
    "hang": ("echo 'waiting for the database' >&2; sleep 600", ["did not end within", "waiting for the database"]),
}


@pytest.mark.slow
@spec("P26")
def test_a_script_that_gives_no_verdict_is_an_error_that_says_why(project: Project) -> None:
    limits = {"hang": 0.5}
    checks = {
        name: {"code": {"script": script, "timeout": limits.get(name, 60)}} for name, (script, _) in FAILING.items()
    }
    checks["no program"] = {"code": {"script": ["gone", "now"], "timeout": 60}}
    found = run_checks(project, checks)
    for name, (_, parts) in {**FAILING, "no program": ("", ["no program `gone`"])}.items():
        assert state_of(found[name]) == "error", name
        for part in parts:
            assert part in found[name]["reason"], (name, found[name]["reason"])
    assert "did not end within 0.5 s" in found["hang"]["reason"]


@pytest.mark.parametrize("script", ["   ", [""], {"script": " "}])
def test_a_blank_script_is_refused_before_anything_is_sent(script: Any, project: Project) -> None:
    [problem] = project.errors(make_suite(make_cases({"a": {"code": script if script != [""] else {"script": [""]}}})))
    assert problem["code"] == "empty-prompt"


@pytest.mark.parametrize(
    "check", [{"code": ""}, {"code": []}, {"command": ""}, {"command": []}, {"command": {"run": ""}}]
)
def test_what_is_wrong_with_an_empty_command_is_said_in_its_words(check: Any, project: Project) -> None:
    [problem] = project.errors(make_suite(make_cases({"a": check})))
    assert problem["code"] == "empty-prompt" and problem["message"].endswith("is empty; write the command line to run")


def test_errors_of_scripts_in_a_run_have_their_exit_code_and_send_no_follow_up(project: Project) -> None:
    follow_up = {"code": "cat > /dev/null; echo oops >&2; exit 2", "prompt": "Again.", "checks": [{"contains": "x"}]}
    project.write("evals.yaml", make_suite(make_cases({"a": follow_up, "b": {"code": saying(True)}})))
    document = run(project, code=3)
    first, second = document["results"]
    assert (first["status"], len(first["turns"]), second["status"]) == ("error", 1, "passed")
    assert document["summary"]["errors"] == 1
    shown = project.run("show", code=None)
    assert "the script ended with exit code 2: oops" in shown


def test_a_script_is_ended_with_all_that_it_started(project: Project) -> None:
    leave = "sleep 600 & echo $! >> pids; (sleep 600 & echo $! >> pids; wait) &"
    found = run_checks(
        project,
        {
            "in time": {"code": f"{leave} echo true"},
            "too late": {"code": {"script": f"{leave} echo $$ >> pids; wait", "timeout": 0.5}},
        },
    )
    assert [state_of(one) for one in found.values()] == ["passed", "error"]
    pids = [int(pid) for pid in lines_of(project.folder / "pids")]
    assert len(pids) == 5
    assert_gone(*pids)


# Interrupts


SLOW = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
with open("pids", "a") as stream:
    stream.write(f"{os.getpid()}\\n{child.pid}\\n")
while not pathlib.Path("go").exists():
    time.sleep(0.02)
child.kill()
print("true")
"""


@pytest.mark.slow
@spec("P27")
def test_two_interrupts_end_the_run_and_its_scripts(project: Project, start: Callable[..., Process]) -> None:
    project.write("slow.py", SLOW)
    check = {"code": {"script": [sys.executable, "slow.py"], "timeout": PATIENCE_S}}
    project.write("evals.yaml", make_suite(make_cases({"a": check, "b": check})))
    child = start("run", "--format", "json")
    wait_until(lambda: len(lines_of(project.folder / "pids")) == 4, "the scripts have not begun")
    child.interrupt()
    child.wait_until_it_says("press Ctrl-C again")
    child.interrupt()
    document = child.document(code=130)
    assert_gone(*(int(pid) for pid in lines_of(project.folder / "pids")))
    assert document["run"]["status"] == "interrupted" and document["summary"]["unfinished"] == 2
    # Nothing is recorded of what was cut off, so it is done when the run goes on.
    project.write("go", "")
    document = project.run_json("resume", "last", code=0)
    assert document["summary"]["passed"] == 2
    assert len(lines_of(project.folder / "pids")) == 8


FOREVER = """
import asyncio, pathlib
async def waits(context):
    pathlib.Path("begun").touch()
    await asyncio.Event().wait()
"""


@pytest.mark.slow
def test_two_interrupts_end_a_run_whose_functions_wait(project: Project, start: Callable[..., Process]) -> None:
    """It is the run that is stopped, and not the function that fails."""
    project.write("waiting.py", FOREVER)
    project.write("evals.yaml", make_suite(make_cases({"a": {"python": "waiting:waits"}})))
    child = start("run", "--format", "json")
    wait_until((project.folder / "begun").exists, "the function has not begun")
    child.interrupt()
    child.wait_until_it_says("press Ctrl-C again")
    child.interrupt()
    summary = child.document(code=130)["summary"]
    assert (summary["errors"], summary["unfinished"]) == (0, 1)


@pytest.mark.slow
def test_after_an_interrupt_no_script_begins(project: Project, start: Callable[..., Process]) -> None:
    project.write("slow.py", SLOW)
    check = {"code": {"script": [sys.executable, "slow.py"], "timeout": PATIENCE_S}}
    at_once = max(4, os.cpu_count() or 1)
    names = [f"case {number}" for number in range(at_once + 3)]
    project.write("evals.yaml", make_suite(make_cases(dict.fromkeys(names, check))))
    child = start("run", "--format", "json")
    wait_until(lambda: len(lines_of(project.folder / "pids")) == 2 * at_once, "the scripts have not begun")
    child.interrupt()
    child.wait_until_it_says("press Ctrl-C again")
    project.write("go", "")
    document = child.document(code=130)
    assert (document["summary"]["passed"], document["summary"]["unfinished"]) == (at_once, 3)
    assert len(lines_of(project.folder / "pids")) == 2 * at_once
    assert project.run_json("resume", "last", code=0)["summary"]["passed"] == at_once + 3
    assert len(lines_of(project.folder / "pids")) == 2 * len(names)


# No code, and no code by accident


RUNS_CODE: dict[str, Any] = {
    "code": {"code": "touch ran"},
    "python": {"python": "effects:touch"},
    "check": {"check": "touch"},
    "or": {"or": [{"contains": "x"}, {"code": "touch ran"}]},
    "group": {"group": {"at_least": 1, "checks": [{"contains": "x"}, {"python": "effects:touch"}]}},
    "not": {"not": {"and": [{"code": "touch ran"}]}},
    "follow-up": {"contains": "42", "prompt": "And?", "checks": [{"check": "touch"}]},
    "follow-up in a group": {
        "group": {"checks": [{"contains": "x"}, {"prompt": "And?", "checks": [{"not": {"code": "touch ran"}}]}]}
    },
}


@pytest.fixture
def with_effects(project: Project) -> Project:
    """A project whose code leaves a file behind as soon as it is imported."""
    effects = "open('imported', 'w').close()\n"
    project.write("effects.py", f"{effects}\ndef touch(context):\n    open('ran', 'w').close()\n    return True\n")
    checks = "import rejoinder\n@rejoinder.check\ndef touch(context):\n    open('ran', 'w').close()\n    return True\n"
    project.write(".rejoinder/checks.py", effects + checks)
    return project


@pytest.mark.parametrize("kind", RUNS_CODE)
def test_no_code_refuses_before_anything_is_sent(
    with_effects: Project, module: Callable[[str], str], kind: str
) -> None:
    project = with_effects
    cases = make_cases({"harmless": {"contains": "42"}, kind: RUNS_CODE[kind]})
    project.write("evals.yaml", make_suite(cases))
    with pytest.raises(UsageError) as refused:
        project.run("run", "--no-code")
    assert str(refused.value) == f"case `{kind}` runs code of the project, and --no-code refuses that"
    assert not (project.folder / "ran").exists() and not (project.folder / "imported").exists()
    assert not list(project.folder.glob(".rejoinder/runs/*/*"))
    run(project, "--no-code", "--case", "harmless", code=0)


@pytest.mark.slow
def test_no_code_refuses_evaluators_and_lets_webhooks_be(
    project: Project, hook: Hook, start: Callable[..., Process]
) -> None:
    evaluators = [{"name": "e", "type": "code", "script": "touch ran"}]
    case = {"id": "a", "prompt": "What?", "execution": {"evaluators": evaluators}}
    project.write("evals.yaml", make_suite([case]))
    child = start("run", "--no-code")
    assert child.end().out == "" and child.process.returncode == 2
    assert "error: case `a` runs code of the project" in child.err.text
    assert not (project.folder / "ran").exists()
    project.write("evals.yaml", make_suite(make_cases({"a": {"webhook": hook.url("/true")}})))
    run(project, "--no-code", code=0)


def test_only_a_run_runs_code(with_effects: Project) -> None:
    project = with_effects
    assert project.errors(make_suite(make_cases(RUNS_CODE))) == []
    project.run("prompt", "evals.yaml")
    project.run("prompt", "evals.yaml", "--judge", code=None)
    assert not (project.folder / "ran").exists() and not (project.folder / "imported").exists()
    run(project)
    assert (project.folder / "ran").exists() and (project.folder / "imported").exists()


# What is recorded is not done again


def is_recorded(project: Project, text: str) -> bool:
    return any(text in path.read_text("utf-8") for path in project.folder.glob(".rejoinder/runs/*/journal.jsonl"))


WAITING = """
import json, os, pathlib, sys, time
case = json.load(sys.stdin)["case_id"]
with open("runs", "a") as stream:
    stream.write(case + "\\n")
if case == "slow":
    pathlib.Path("pid").write_text(str(os.getpid()))
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
print(json.dumps({"score": 0.75, "reason": "seen by the script", "hits": ["one"]}))
"""


@pytest.mark.slow
@spec("R65")
def test_a_script_that_ended_is_not_run_again_after_a_kill(project: Project, start: Callable[..., Process]) -> None:
    project.write("waiting.py", WAITING)
    script = f"{sys.executable} waiting.py"
    cases = make_cases({"quick": {"code": script}, "slow": {"code": script}})
    project.write("evals.yaml", make_suite(cases))
    child = start("run", "--format", "json")
    wait_until((project.folder / "pid").exists, "the slow script has not begun")
    wait_until(lambda: is_recorded(project, "seen by the script"), "no verdict is recorded")
    child.kill()
    with contextlib.suppress(ProcessLookupError):  # it may have noticed that its reader is gone
        os.kill(int((project.folder / "pid").read_text()), signal.SIGKILL)
    assert sorted(lines_of(project.folder / "runs")) == ["quick", "slow"]

    shown = project.run_json("show", code=None)
    assert [(one["id"], one["score"], one["hits"]) for one in shown["results"]] == [("quick", 0.75, ["one"])]
    assert shown["summary"]["unfinished"] == 1
    assert len(lines_of(project.folder / "runs")) == 2  # to show is not to run

    project.write("go", "")
    document = project.run_json("resume", "last", code=0)
    assert [(one["id"], one["score"]) for one in document["results"]] == [("quick", 0.75), ("slow", 0.75)]
    assert lines_of(project.folder / "runs")[2:] == ["slow"]

    # Another script may have another opinion.
    project.write("waiting.py", WAITING.replace("0.75", "0.25"))
    document = project.run_json("resume", "last", code=1)
    assert [one["score"] for one in document["results"]] == [0.25, 0.25]
    assert sorted(lines_of(project.folder / "runs")[3:]) == ["quick", "slow"]


def test_an_error_of_a_script_stands_until_it_is_asked_for_again(project: Project) -> None:
    script = "cat > /dev/null; echo x >> runs; test -e mended.log || { echo broken >&2; exit 1; }; echo true"
    project.write("evals.yaml", make_suite(make_cases({"a": {"code": script}})))
    run(project, code=3)
    project.write("mended.log", "")
    assert project.run_json("resume", "last", code=3)["summary"]["errors"] == 1
    assert len(lines_of(project.folder / "runs")) == 1
    project.run("resume", "last", "--retry-errors", code=0)
    assert len(lines_of(project.folder / "runs")) == 2


def test_a_script_may_write_files_that_its_command_names(project: Project) -> None:
    project.write("check.sh", 'cat > /dev/null; echo x >> "$1"; echo true')
    checks = {"line": {"code": "sh check.sh line.log"}, "words": {"code": {"script": ["sh", "check.sh", "words.log"]}}}
    project.write("evals.yaml", make_suite(make_cases(checks)))
    run(project, code=0)
    project.run("resume", "last", code=0)
    assert [lines_of(project.folder / f"{name}.log") for name in checks] == [["x"], ["x"]]
    project.write("check.sh", 'cat > /dev/null; echo y >> "$1"; echo true;')
    project.run("resume", "last", code=0)
    assert [lines_of(project.folder / f"{name}.log") for name in checks] == [["x", "y"], ["x", "y"]]


@pytest.mark.slow
def test_equal_checks_and_repeats_are_each_run(project: Project) -> None:
    check = {"code": "cat > /dev/null; echo x >> runs; echo true"}
    project.write("evals.yaml", make_suite([{"id": "a", "prompt": "What?", "checks": [check, check]}]))
    run(project, "--repeat", "3", code=0)
    assert len(lines_of(project.folder / "runs")) == 6
    project.run("resume", "last", code=0)
    assert len(lines_of(project.folder / "runs")) == 6


FUNCTIONS = """
open("imports", "a").write("x\\n")
def quick(context):
    open("calls", "a").write("quick\\n")
    return {"score": 0.75, "reason": "seen by the function"}
def slow(context):
    import pathlib, time
    pathlib.Path("begun").write_text("")
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    open("calls", "a").write("slow\\n")
    return True
"""


MARKED = "@rejoinder.check\ndef quick"


@pytest.mark.slow
def test_what_functions_said_is_shown_without_them(project: Project, start: Callable[..., Process]) -> None:
    project.write("functions.py", FUNCTIONS)
    project.write(".rejoinder/checks.py", "import rejoinder\n" + FUNCTIONS.replace("def quick", MARKED))
    checks = {"a": {"python": "functions:quick"}, "b": {"check": "quick"}, "c": {"python": "functions:slow"}}
    project.write("evals.yaml", make_suite(make_cases(checks)))
    child = start("run", "--format", "json")
    wait_until((project.folder / "begun").exists, "the slow function was not called")
    recorded = "seen by the function"
    wait_until(
        lambda: sum(path.read_text().count(recorded) for path in journals(project)) == 2, "not both are recorded"
    )
    child.kill()
    before = (lines_of(project.folder / "imports"), lines_of(project.folder / "calls"))
    assert before == (["x", "x"], ["quick", "quick"])

    shown = start("show", "--format", "json").end().document
    assert [(one["id"], one["score"]) for one in shown["results"]] == [("a", 0.75), ("b", 0.75)]
    assert (lines_of(project.folder / "imports"), lines_of(project.folder / "calls")) == before

    project.write("go", "")
    document = start("resume", "last", "--format", "json").document(code=0)
    assert [one["score"] for one in document["results"]] == [0.75, 0.75, 1.0]
    assert lines_of(project.folder / "calls") == ["quick", "quick", "slow"]

    project.write("functions.py", FUNCTIONS.replace("0.75", "0.5"))
    document = start("resume", "last", "--format", "json").document(code=0)
    assert [one["score"] for one in document["results"]] == [0.5, 0.75, 1.0]
    assert sorted(lines_of(project.folder / "calls")[3:]) == ["quick", "slow"]  # they stand in the same file


def journals(project: Project) -> list[Path]:
    return list(project.folder.glob(".rejoinder/runs/*/journal.jsonl"))


# Functions


RETURNING = """
import asyncio, math
import rejoinder

def yes(context): return True
def no(context): return False
def one(context): return 1
def half(context): return 0.5
def less(context): return 0.25
def reason(context): return "it is too long"
def mapping(context): return {"score": 0.75, "reason": "nearly", "hits": ["h"], "misses": ["m"]}
def agentv(context): return {"score": 1, "reasoning": "well done"}
def short(context): return {"pass": True}
def decided(context): return {"passed": False, "score": 0.9}
def opinion(context): return rejoinder.Opinion(score=0.75, reason="nearly", hits=("h",), misses=("m",))
def verdict(context): return rejoinder.Opinion(passed=True)
async def later(context):
    await asyncio.sleep(0)
    return 0.75

class Callable:
    async def __call__(self, context):
        return "an object"
called = Callable()
"""

RETURNED = {
    "yes": ("passed", 1.0, "passed"),
    "no": ("failed", 0.0, "failed"),
    "one": ("passed", 1.0, "passed"),
    "half": ("passed", 0.5, "passed"),
    "less": ("failed", 0.25, "scored 0.25"),
    "reason": ("failed", 0.0, "it is too long"),
    "mapping": ("passed", 0.75, "nearly"),
    "agentv": ("passed", 1.0, "well done"),
    "short": ("passed", 1.0, "passed"),
    "decided": ("failed", 0.9, "scored 0.9"),
    "opinion": ("passed", 0.75, "nearly"),
    "verdict": ("passed", 1.0, "passed"),
    "later": ("passed", 0.75, "passed"),
    "called": ("failed", 0.0, "an object"),
}


def test_what_a_function_may_return(project: Project, module: Callable[[str], str]) -> None:
    name = module(RETURNING)
    found = run_checks(project, {kind: {"python": f"{name}:{kind}"} for kind in RETURNED})
    assert {kind: (state_of(one), one["score"], one["reason"]) for kind, one in found.items()} == RETURNED
    assert found["yes"]["check"] == f"python {name}:yes"


def test_the_words_of_a_function_are_in_the_result(project: Project, module: Callable[[str], str]) -> None:
    name = module(RETURNING)
    checks = [{"python": f"{name}:{kind}", "name": kind} for kind in ("mapping", "opinion", "agentv", "yes")]
    project.write("evals.yaml", make_suite([{"id": "a", "prompt": "What?", "checks": checks}]))
    [result] = run(project, code=0)["results"]
    assert (result["hits"], result["misses"]) == (["h", "h"], ["m", "m"])
    assert result["reasoning"] == "mapping: nearly | opinion: nearly | agentv: well done"


RAISING = """
import asyncio, math, time
import rejoinder

class Mute:
    def __repr__(self): raise RuntimeError("no words")

class MuteError(Exception):
    def __str__(self): raise RuntimeError("no words")

def nothing(context): pass
def nan(context): return math.nan
def infinite(context): return {"score": math.inf}
def two(context): return 2.0
def negative(context): return -0.5
def huge(context): return 10 ** 5000
def thing(context): return object()
def mute(context): return Mute()
def empty_text(context): return " "
def empty_mapping(context): return {}
def generator(context): yield True
def empty_opinion(context): return rejoinder.Opinion()
def wrong_opinion(context): return rejoinder.Opinion(passed="yes")
def wrong_points(context): return rejoinder.Opinion(score=1.0, hits=[1])
def half_character(context): return "\\ud800"
def raises(context): raise ValueError("no such thing")
def raises_mute(context): raise MuteError
def raises_half(context): raise ValueError("\\ud800")
def leaves(context): raise SystemExit(3)
def interrupts(context): raise KeyboardInterrupt
def stops(context): raise StopIteration
def closes(context): raise GeneratorExit
def no_parameters(): return True
async def cancels(context): raise asyncio.CancelledError
async def cancels_itself(context):
    asyncio.current_task().cancel()
    await asyncio.sleep(0)
    return True
async def cancels_itself_at_its_end(context):
    asyncio.current_task().cancel()
    return True
async def interrupts_later(context): raise KeyboardInterrupt
async def raises_later(context): raise ValueError("no such thing")
"""

RAISED = {
    "nothing": "gave None; true or false",
    "nan": "gave the score nan",
    "infinite": "gave the score inf",
    "two": "gave the score 2.0",
    "negative": "gave the score -0.5",
    "huge": "gave the score",
    "thing": "gave <object object",
    "mute": "gave an object of the type Mute",
    "empty_text": "gave an empty text",
    "empty_mapping": "neither `score` nor `passed`",
    "generator": "gave <generator",
    "empty_opinion": "neither a score nor whether it passed",
    "wrong_opinion": "gave a verdict that cannot be recorded",
    "wrong_points": "gave a verdict that cannot be recorded",
    "half_character": "gave a verdict that cannot be recorded",
    "raises": "raised ValueError: no such thing",
    "raises_mute": "raised MuteError",
    "raises_half": "raised ValueError: \\ud800",
    "leaves": "raised SystemExit: 3",
    "interrupts": "raised KeyboardInterrupt",
    "stops": "StopIteration",
    "closes": "GeneratorExit",
    "no_parameters": "takes 0 positional arguments",
    "cancels": "was cancelled from within",
    "cancels_itself": "was cancelled from within",
    "cancels_itself_at_its_end": "was cancelled from within",
    "interrupts_later": "raised KeyboardInterrupt",
    "raises_later": "raised ValueError: no such thing",
}


def test_a_function_that_gives_no_verdict_is_an_error_that_names_it(
    project: Project, module: Callable[[str], str]
) -> None:
    name = module(RAISING)
    found = run_checks(project, {kind: {"python": f"{name}:{kind}"} for kind in RAISED})
    for kind, part in RAISED.items():
        assert state_of(found[kind]) == "error", (kind, found[kind])
        assert part in found[kind]["reason"], (kind, found[kind]["reason"])
        assert f"{name}:{kind}" in found[kind]["check"]


ASSERTING = """
def with_words(context): assert "43" in context.reply, f"43 is not in {context.reply!r}"
def without(context): assert False
def half(context): assert False, "\\ud800"
async def later(context): assert not context.reply, "too late"
"""


def test_an_assertion_that_fails_is_a_check_that_fails(project: Project, module: Callable[[str], str]) -> None:
    name = module(ASSERTING)
    found = run_checks(
        project, {kind: {"python": f"{name}:{kind}"} for kind in ("with_words", "without", "half", "later")}
    )
    assert {kind: (state_of(one), one["score"], one["reason"]) for kind, one in found.items()} == {
        "with_words": ("failed", 0.0, f"43 is not in {REPLY!r}"),
        "without": ("failed", 0.0, "an assertion failed"),
        "half": ("failed", 0.0, "\\ud800"),
        "later": ("failed", 0.0, "too late"),
    }


HANGING = """
import asyncio, time
def blocks(context):
    while True:
        time.sleep(0.01)
async def waits(context):
    await asyncio.Event().wait()
def fine(context): return True
"""


@pytest.mark.slow
def test_a_function_that_never_returns_does_not_block_other_checks(
    project: Project, start: Callable[..., Process]
) -> None:
    """More of them than may run at once, and in a process of their own: it has to end as well."""
    project.write("hanging.py", HANGING)
    checks = {
        f"{kind} {n}": {"python": {"call": f"hanging:{kind}", "timeout": 0.2}}
        for n in range(6)
        for kind in ("blocks", "waits")
    }
    checks["fine"] = {"python": "hanging:fine"}
    project.write("evals.yaml", make_suite(make_cases(checks)))
    found = verdicts(start("run", "--format", "json").document(code=3))
    assert state_of(found.pop("fine")) == "passed"
    assert {one["reason"] for one in found.values()} == {
        "`hanging:blocks` did not return within 0.2 s",
        "`hanging:waits` did not return within 0.2 s",
    }


TELLING = """
import json
def tell(context, **given):
    return {"passed": True, "reason": json.dumps(given, sort_keys=True)}
def named(context, name, function="none"):
    return {"passed": True, "reason": f"{name} {function}"}
def strict(context, *, most): return len(context.reply) <= most
"""


@spec("P15")
def test_arguments_of_a_function(project: Project, module: Callable[[str], str]) -> None:
    name = module(TELLING)
    given = {
        "text": "Hello {{ who }}, {{ var('suite') }}",
        "number": 3,
        "flag": False,
        "nothing": None,
        "nested": {"list": ["{{ who }}", 1.5]},
    }
    checks = {
        "tell": {"python": {"call": f"{name}:tell", "with": given}},
        "none": {"python": {"call": f"{name}:tell"}},
        "named": {"python": {"call": f"{name}:named", "with": {"name": "Ann", "function": "judge"}}},
        "strict": {"python": {"call": f"{name}:strict", "with": {"most": 5}}},
        "unknown": {"python": {"call": f"{name}:strict", "with": {"most": 5, "least": 1}}},
        "missing": {"python": f"{name}:strict"},
        "twice": {"python": {"call": f"{name}:tell", "with": {"context": 1}}},
    }
    cases = [{**case, "vars": {"who": "Ann"}} for case in make_cases(checks)]
    project.write("evals.yaml", make_suite(cases, vars={"suite": "welcome"}))
    found = verdicts(run(project))
    filled = {**given, "text": "Hello Ann, welcome", "nested": {"list": ["Ann", 1.5]}}
    assert json.loads(found["tell"]["reason"]) == filled
    assert json.loads(found["none"]["reason"]) == {}
    assert found["named"]["reason"] == "Ann judge"
    assert state_of(found["strict"]) == "failed"
    for kind, argument in (("unknown", "least"), ("missing", "most"), ("twice", "context")):
        assert state_of(found[kind]) == "error" and f"'{argument}'" in found[kind]["reason"]
        assert f"`{name}:" in found[kind]["reason"]


def test_a_variable_that_is_missing_in_arguments_is_found_before_the_run(project: Project) -> None:
    project.write("m.py", "")
    [error] = project.errors(
        make_suite(make_cases({"a": {"python": {"call": "m:f", "with": {"deep": ["{{ var('gone') }}"]}}}}))
    )
    assert error["path"] == "evals[0].checks[0].python.with" and "gone" in error["message"]


WHERE = "def where(context): return {'passed': True, 'reason': '%s'}\n"


@pytest.mark.slow
def test_modules_of_the_suites_folder_and_of_the_root(project: Project, start: Callable[..., Process]) -> None:
    project.write("judging.py", WHERE % "root")
    project.write("only_root.py", WHERE % "only root")
    project.write("package/__init__.py", "")
    project.write("package/inner.py", WHERE % "package")
    project.write("suites/judging.py", WHERE % "suite")
    checks = {name: {"python": f"{name}:where"} for name in ("judging", "only_root", "package.inner")}
    project.write("suites/evals.yaml", make_suite(make_cases(checks)))
    project.write("evals.yaml", make_suite(make_cases({"judging": {"python": "judging:where"}})))
    document = start("run", "suites/evals.yaml", "evals.yaml", "--format", "json").document(code=0)
    reasons = [one["turns"][0]["checks"][0]["reason"] for one in document["results"]]
    assert reasons == ["suite", "only root", "package", "root"]


OF_ITS_FOLDER = """
import time
time.sleep(0.01)  # others get to import theirs meanwhile
import helping
from bundle import inner
from loose import part
def where(context):
    import later
    names = {{one.NAME for one in (helping, inner, part, later)}} | {{"{name}"}}
    return names == {{context.case_id.partition("-")[0]}} or f"{{context.case_id}} is judged by {{sorted(names)}}"
"""


SIBLINGS = ("helping", "inner", "part")


def write_namesakes(project: Project, *names: str) -> None:
    """In a folder for each name, the same modules."""
    for name in names:
        project.write(f"{name}/grading.py", OF_ITS_FOLDER.format(name=name))
        project.write(f"{name}/bundle/__init__.py", "")
        for inner in ("helping", "bundle/inner", "loose/part", "later"):
            project.write(f"{name}/{inner}.py", f"NAME = {name!r}\n")


@pytest.mark.slow
def test_suites_with_modules_of_the_same_name_are_each_judged_by_their_own(
    project: Project, start: Callable[..., Process]
) -> None:
    names = [f"s{number}" for number in range(8)]
    write_namesakes(project, *names)
    for name in names:
        cases = [
            {"id": f"{name}-{turn}", "prompt": f"{turn}", "checks": [{"python": "grading:where"}]} for turn in "ab"
        ]
        project.write(f"{name}/evals.yaml", make_suite(cases))
    # One at a time: what a function imports only when it is called is found by who was called last.
    suites = [f"{name}/evals.yaml" for name in names]
    document = start("run", *suites, "--workers", "1", "--format", "json").document()
    assert [one["turns"][0]["checks"][0]["reason"] for one in document["results"]] == ["passed"] * 16


class Pretender:
    """What some packages put among the modules: it says that it is one, and has nothing of one."""

    __slots__ = ()
    __class__ = ModuleType  # type: ignore[assignment]


def test_what_is_no_module_among_the_modules_is_left_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lab_pretender", Pretender())
    project.write("lab_beside_a_pretender.py", "def ok(context):\n    return True\n")
    assert run_checks(project, {"one": {"python": "lab_beside_a_pretender:ok"}})["one"]["passed"]


@pytest.mark.slow
def test_functions_of_the_same_name_loaded_at_the_same_time_are_not_mixed_up(project: Project) -> None:
    names = [f"s{number}" for number in range(12)]
    write_namesakes(project, *names)
    folders = {name: (str(project.folder / name), str(project.folder)) for name in names}
    with ThreadPoolExecutor(len(names)) as pool:
        begun = {name: pool.submit(load_function, "grading:where", folders[name]) for name in names}
    loaded = {name: one.result() for name, one in begun.items()}
    homes = {
        name: {Path(loaded[name].__globals__[one].__file__).parts[-2 - (one in ("inner", "part"))] for one in SIBLINGS}
        for name in names
    }
    assert homes == {name: {name} for name in names}
    assert [Path(one.__code__.co_filename).parent.name for one in loaded.values()] == names
    # What a suite has imported stays as it is, whichever suite came between.
    assert all(load_function("grading:where", folders[name]) is loaded[name] for name in names)


def test_a_module_of_a_suite_may_be_named_like_one_of_pythons(project: Project) -> None:
    import colorsys

    project.write("colorsys.py", "def where(context): return 'ours'\n")
    ours = load_function("colorsys:where", (str(project.folder), str(project.folder)))
    assert ours(None) == "ours"
    assert sys.modules.pop("colorsys") is not colorsys


@pytest.mark.slow
def test_the_checks_of_a_project_are_loaded_once_and_may_import_beside_namesakes(
    project: Project, start: Callable[..., Process]
) -> None:
    project.write(
        ".rejoinder/checks.py",
        "import pathlib, time\nwith pathlib.Path('loads').open('a') as file: file.write('x\\n')\ntime.sleep(0.05)\n"
        "import helping\nfrom rejoinder import check\n"
        "@check\ndef ours(context): return helping.NAME == 'root' or helping.NAME\n",
    )
    project.write("helping.py", "NAME = 'root'\n")
    write_namesakes(project, "s1")
    both = [{"python": "grading:where"}, {"check": "ours"}]
    cases = [{"id": f"s1-{number}", "prompt": f"{number}", "checks": both} for number in range(8)]
    project.write("s1/evals.yaml", make_suite(cases))
    document = start("run", "s1/evals.yaml", "--format", "json").document(code=0)
    assert document["summary"]["passed"] == 8
    assert lines_of(project.folder / "loads") == ["x"]


def test_what_is_missing_is_named(project: Project, module: Callable[[str], str]) -> None:
    name = module("answer = 42\n")
    broken = module("import no_such_library\n")
    leaving = module("raise SystemExit('not today')\n")
    checks = {
        "module": {"python": "gone_module:check"},
        "function": {"python": f"{name}:check"},
        "no function": {"python": f"{name}:answer"},
        "import": {"python": f"{broken}:check"},
        "leaving": {"python": f"{leaving}:check"},
        "harmless": {"contains": "42"},
    }
    found = run_checks(project, checks)
    assert [state_of(one) for one in found.values()] == ["error"] * 5 + ["passed"]
    assert "`gone_module:check` is not there: there is no module `gone_module` in" in found["module"]["reason"]
    assert f"the module `{name}` has no function `check`" in found["function"]["reason"]
    assert f"the module `{name}` has no function `answer`" in found["no function"]["reason"]
    assert "no_such_library" in found["import"]["reason"]
    assert "SystemExit: not today" in found["leaving"]["reason"]


@pytest.mark.parametrize("call", ["module", "module.function", "module:", ":function", "a:b:c", "a: b", ""])
def test_a_call_names_a_module_and_a_function(project: Project, call: str) -> None:
    [error] = project.errors(make_suite(make_cases({"a": {"python": call}})))
    assert error["path"] == "evals[0].checks[0].python"


PRINTING = """
import os, subprocess, sys
print("imported")
subprocess.run(["echo", "started at once"])
def talk(context):
    print("I am thinking")
    sys.stdout.write("hard")
    sys.__stdout__.write("very hard")
    subprocess.run(["echo", "with help"])
    os.write(1, b"by number")
    return True
def reply(request):
    return talk(request) and "The answer is 42."
async def talk_later(context):
    print("later")
    return True
"""


OTHER = "@rejoinder.check\ndef other(context): return print('other') or True\ndef"


@pytest.mark.slow
def test_what_functions_print_is_kept_out_of_the_results(project: Project, start: Callable[..., Process]) -> None:
    project.write("printing.py", PRINTING)
    project.write("answering.py", PRINTING.replace("imported", "a target"))
    project.write(
        ".rejoinder/checks.py", PRINTING.replace("import os", "import rejoinder, os").replace("def", OTHER, 1)
    )
    checks = {"a": {"python": "printing:talk"}, "b": {"python": "printing:talk_later"}, "c": {"check": "other"}}
    target = {"name": "model", "provider": "python", "call": "answering:reply"}
    project.write("evals.yaml", {**make_suite(make_cases(checks)), "targets": [target]})
    child = start("run", "--format", "json")
    assert len(child.document(code=0)["results"]) == 3
    said = ("imported", "started at once", "I am thinking", "hard", "very hard", "with help", "by number", "later")
    for words in (*said, "other", "a target"):
        assert words in child.err.text


@pytest.mark.slow
def test_standard_output_is_given_back_whatever_happens() -> None:
    """Also where several runs share it, and in whatever order they end. What is captured is left alone."""
    program = """
import contextlib, io, os
from rejoinder.user_code.output import redirect_user_output
first, second = redirect_user_output(), redirect_user_output()
first.__enter__(), second.__enter__()
os.write(1, b"hidden;")
first.__exit__(None, None, None)
os.write(1, b"still hidden;")
print("hidden too;", end="")
second.__exit__(None, None, None)
with contextlib.suppress(KeyError), redirect_user_output():
    raise KeyError
os.write(1, b"shown;")
print("shown too;", end="", flush=True)
with contextlib.redirect_stdout(io.StringIO()) as captured:
    with redirect_user_output():
        os.write(1, b"not ours;")
    print("captured")
assert captured.getvalue() == "captured\\n"
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "shown;shown too;not ours;"), done.stderr
    assert done.stderr == "hidden;still hidden;hidden too;"


CONTEXT = """
import json, rejoinder
def told(context):
    assert isinstance(context, rejoinder.Evidence)
    last = context.turns[-1]
    facts = [context.reply, context.question, context.case_id, context.vars, context.metadata, context.turn,
             [[one.turn, one.prompt, one.response] for one in context.turns], context.expected_outcome,
             context.target, context.trial, last.response == context.reply]
    return {"score": 0.0 if context.turn == 1 else 1.0, "reason": json.dumps(facts)}
def spoil(context):
    context.reply = "42"
    return True
def spoil_inside(context, words):
    context.metadata["owner"] = "somebody else"
    context.vars.clear()
    given = str(words)
    words.pop().clear()
    return {"passed": True, "reason": given}
"""


@spec("R63")
def test_a_function_is_told_about_the_conversation(project: Project, module: Callable[[str], str]) -> None:
    call = {"python": f"{module(CONTEXT)}:told"}
    case = {
        "id": "a",
        "prompt": "What?",
        "outcome": "42",
        "vars": {"x": 1},
        "metadata": {"owner": "Ann"},
        "checks": [{**call, "prompt": "Sure?", "checks": [call]}],
    }
    project.write("evals.yaml", make_suite([case], ["First.", "Second."]))
    [result] = run(project, "--repeat", "1", code=0)["results"]
    first, second = (json.loads(turn["checks"][0]["reason"]) for turn in result["turns"])
    turns = [[1, "What?", "First."], [2, "Sure?", "Second."]]
    assert first == ["First.", "What?", "a", {"x": 1}, {"owner": "Ann"}, 1, turns[:1], "42", "model", 1, True]
    question = "@[User]:\nWhat?\n\n@[Assistant]:\nFirst.\n\n@[User]:\nSure?"
    assert second == ["Second.", question, "a", {"x": 1}, {"owner": "Ann"}, 2, turns, "42", "model", 1, True]


def test_a_function_cannot_change_what_others_are_told(project: Project, module: Callable[[str], str]) -> None:
    name = module(CONTEXT)
    spoil = {"python": {"call": f"{name}:spoil_inside", "with": {"words": ["a", {"b": 1}]}}}
    told = {"python": f"{name}:told", "threshold": 0.0}
    case = {"id": "a", "prompt": "What?", "vars": {"x": 1}, "metadata": {"owner": "Ann"}, "checks": [spoil, told]}
    project.write("evals.yaml", make_suite([case]))
    results = run(project, "--repeat", "3", code=0)["results"]
    for result in results:
        assert result["metadata"] == {"owner": "Ann"}
        first, second = result["turns"][0]["checks"]
        assert first["reason"] == "['a', {'b': 1}]"
        assert json.loads(second["reason"])[3:5] == [{"x": 1}, {"owner": "Ann"}]
    found = run_checks(project, {"a": {"python": f"{name}:spoil"}})
    assert state_of(found["a"]) == "error" and "AttributeError" in found["a"]["reason"]


# Checks of the project's and of packages


CHECKS = """
from __future__ import annotations
import asyncio, dataclasses
from unittest.mock import call  # an object that has any attribute at all
import rejoinder
from rejoinder import check
import limits

@dataclasses.dataclass
class Limit:
    words: int = limits.WORDS

@check
def short(context, words: int = Limit().words):
    count = len(context.reply.split())
    return count <= words or f"{count} words are more than {words}"

@check("polite-reply")
async def polite(context):
    await asyncio.sleep(0)
    return {"score": 0.25, "reasoning": "curt", "misses": ["please"]}

@rejoinder.check
async def attribute(context): return True

@rejoinder.check("by attribute")
def other(context, *, name): return name == "Ann"

def helper(context): return True
"""


def test_checks_of_the_project(project: Project) -> None:
    project.write("limits.py", "WORDS = 4\n")
    project.write(".rejoinder/checks.py", CHECKS)
    found = run_checks(
        project,
        {
            "own name": {"check": "short"},
            "arguments": {"check": "short", "with": {"words": 3}, "name": "very short"},
            "another name": {"check": "polite-reply"},
            "lenient": {"check": "polite-reply", "threshold": 0.2},
            "attribute": {"check": "attribute"},
            "by attribute": {"check": "by attribute", "with": {"name": "Ann"}},
            "negated": {"not": {"check": "short", "with": {"words": 3}}},
            "unknown argument": {"check": "short", "with": {"letters": 3}},
        },
    )
    assert {name: (state_of(one), one["score"]) for name, one in found.items()} == {
        "own name": ("passed", 1.0),
        "arguments": ("failed", 0.0),
        "another name": ("failed", 0.25),
        "lenient": ("passed", 0.25),
        "attribute": ("passed", 1.0),
        "by attribute": ("passed", 1.0),
        "negated": ("passed", 1.0),
        "unknown argument": ("error", None),
    }
    assert (found["arguments"]["name"], found["arguments"]["check"]) == ("very short", "check short")
    assert found["arguments"]["reason"] == "4 words are more than 3"
    assert found["another name"]["reason"] == "curt"
    assert "`short` raised TypeError" in found["unknown argument"]["reason"]
    assert "'letters'" in found["unknown argument"]["reason"]


def test_arguments_of_a_check_are_filled_in(project: Project) -> None:
    tell = "import json, rejoinder\n@rejoinder.check\ndef tell(context, **given): return json.dumps(given)\n"
    project.write(".rejoinder/checks.py", tell)
    check = {"check": "tell", "with": {"who": "{{ who }}", "list": ["{{ var('x') }}", 2]}}
    case = {"id": "a", "prompt": "What?", "vars": {"who": "Ann"}, "checks": [check]}
    project.write("evals.yaml", make_suite([case], vars={"x": "y"}))
    assert json.loads(verdicts(run(project, code=1))["a"]["reason"]) == {"who": "Ann", "list": ["y", 2]}


def test_an_unknown_check_is_found_without_running_the_file(project: Project) -> None:
    project.write(".rejoinder/checks.py", CHECKS.replace("import limits", "open('imported', 'w')"))
    cases = make_cases(
        {"a": {"check": "shrot"}, "b": {"check": "helper"}, "c": {"check": "polite"}, "d": {"check": "short"}}
    )
    errors = project.errors(make_suite(cases))
    assert codes(errors) == ["unknown-check"] * 3
    assert [error["path"] for error in errors] == [f"evals[{n}].checks[0].check" for n in range(3)]
    assert "did you mean `short`?" in errors[0]["message"]
    assert "there is no check `helper`" in errors[1]["message"]
    assert project.invoke("run").exit_code == 2
    assert not (project.folder / "imported").exists()


def test_a_check_without_any_file_is_told_where_to_write_it(project: Project) -> None:
    [error] = project.errors(make_suite(make_cases({"a": {"check": "short"}})))
    assert error["code"] == "unknown-check" and ".rejoinder/checks.py" in error["message"]


@pytest.mark.parametrize(
    "check",
    [
        {"contains": "x", "with": {"a": 1}},
        {"python": "m:f", "with": {"a": 1}},
        {"group": {"checks": [{"contains": "x"}]}, "with": {}},
        {"not": {"contains": "x", "with": {"a": 1}}},
    ],
)
def test_arguments_beside_another_check_are_refused(project: Project, check: Raw) -> None:
    project.write("m.py", "")
    [error] = project.errors(make_suite(make_cases({"a": check})))
    assert error["code"] == "unknown-key" and error["path"].endswith(".with")


BROKEN = {
    "syntax": ("def (", "SyntaxError"),
    "import": (CHECKS.replace("import limits", "import no_such_library"), "no_such_library"),
    "leaving": (CHECKS.replace("import limits", "raise SystemExit"), "SystemExit"),
    "encoding": (b"text = '\xff'\n", "SyntaxError"),
    "zero": (b"\0", "null bytes"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_of_checks_harms_only_who_uses_it(project: Project, kind: str) -> None:
    content, reason = BROKEN[kind]
    project.write("limits.py", "WORDS = 4\n")
    path = project.write(".rejoinder/checks.py", content)
    found = run_checks(project, {"user": {"check": "short"}, "other": {"contains": "42"}})
    assert (state_of(found["user"]), state_of(found["other"])) == ("error", "passed")
    assert f"{path.resolve()} cannot be imported" in found["user"]["reason"] and reason in found["user"]["reason"]


def install(project: Project, name: str, source: str, **checks: str) -> str:
    """Install a package with checks into a folder; the path that has to be searched."""
    site = project.folder / "site"
    project.write(f"site/{name}.py", source)
    points = "".join(f"{check} = {value}\n" for check, value in checks.items())
    project.write(f"site/{name}-1.5.dist-info/entry_points.txt", f"[rejoinder.checks]\n{points}")
    project.write(f"site/{name}-1.5.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    return str(site)


PACKAGE = """
open("imported", "w").close()
number = 3
def exact(context, text="42"):
    return text in context.reply or f"{text} is missing"
async def async_exact(context): return {"score": 0.75}
"""


@pytest.mark.slow
def test_checks_of_installed_packages(project: Project, start: Callable[..., Process]) -> None:
    points = {
        "exact": "exactness:exact",
        "later": "exactness:async_exact",
        "none": "exactness:gone",
        "no": "exactness:number",
    }
    site = install(project, "exactness", PACKAGE, **points, shadowed="exactness:exact")
    install(project, "wreck", "import no_such_library\n", wrecked="wreck:check")
    project.write(".rejoinder/checks.py", "import rejoinder\n@rejoinder.check\ndef shadowed(context): return 0.25\n")
    checks = {
        "entry point": {"check": "exact"},
        "arguments": {"check": "exact", "with": {"text": "43"}},
        "later": {"check": "later"},
        "wrecked": {"check": "wrecked"},
        "none": {"check": "none"},
        "no": {"check": "no"},
        "shadowed": {"check": "shadowed"},
        "harmless": {"contains": "42"},
    }
    project.write("evals.yaml", make_suite(make_cases(checks)))
    validated = start("validate", "--format", "json", PYTHONPATH=site).end().document
    assert validated["files"][0]["errors"] == []
    assert not (project.folder / "imported").exists()
    found = verdicts(start("run", "--format", "json", PYTHONPATH=site).document(code=3))
    assert {name: (state_of(one), one["score"]) for name, one in found.items()} == {
        "entry point": ("passed", 1.0),
        "arguments": ("failed", 0.0),
        "later": ("passed", 0.75),
        "wrecked": ("error", None),
        "none": ("error", None),
        "no": ("error", None),
        "shadowed": ("failed", 0.25),
        "harmless": ("passed", 1.0),
    }
    assert "the check `wrecked` of wreck (wreck:check) cannot be loaded" in found["wrecked"]["reason"]
    assert "no_such_library" in found["wrecked"]["reason"]
    assert "the check `none` of exactness (exactness:gone) cannot be loaded" in found["none"]["reason"]
    assert "the check `no` of exactness (exactness:number) is not a function" in found["no"]["reason"]
    # Without the package its checks are not known.
    errors = start("validate", "--format", "json").end().document["files"][0]["errors"]
    assert codes(errors) == ["unknown-check"] * 6


@pytest.mark.slow
def test_a_package_does_not_suffer_from_the_projects_file(project: Project, start: Callable[..., Process]) -> None:
    site = install(project, "exactness", PACKAGE, exact="exactness:exact")
    project.write(".rejoinder/checks.py", CHECKS.replace("import limits", "import no_such_library"))
    project.write("evals.yaml", make_suite(make_cases({"theirs": {"check": "exact"}, "ours": {"check": "short"}})))
    found = verdicts(start("run", "--format", "json", PYTHONPATH=site).document(code=3))
    assert (state_of(found["theirs"]), state_of(found["ours"])) == ("passed", "error")


# Webhooks


class Hook:
    """A server that judges: what it says depends on the path, and what it was sent is kept."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.released = threading.Event()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.heard.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
                if self.path == "/slow":
                    hook.released.wait(PATIENCE_S)
                if self.path == "/mirror":
                    spoken = json.dumps({"passed": False, "reason": str(self.headers["authorization"])}).encode()
                    self._say(200, spoken)
                else:
                    self._say(*hook.answers.get(self.path, (404, b"nobody here")))

            def _say(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    hook.answers["/true"] = (200, b"true")
    yield hook
    hook.close()


ANSWERED: dict[str, tuple[int, str, str, float | None, str]] = {
    "true": (200, " true\n", "passed", 1.0, "passed"),
    "false": (200, "false", "failed", 0.0, "failed"),
    "number": (200, "0.75", "passed", 0.75, "passed"),
    "words": (200, '"too long"', "failed", 0.0, "too long"),
    "object": (201, '{"score": 0.25, "reason": "meh", "hits": ["h"]}', "failed", 0.25, "meh"),
    "agentv": (200, '{"score": 1, "reasoning": "good", "more": 1}', "passed", 1.0, "good"),
    "null": (200, "null", "error", None, "gave None"),
    "list": (200, "[true]", "error", None, "gave [True]"),
    "two": (200, "2", "error", None, "gave the score 2;"),
    "yes": (200, '{"passed": "yes"}', "error", None, "'yes' as `passed`"),
    "page": (200, "<html>hello</html>", "error", None, "'<html>hello</html>', which is not JSON"),
    "empty": (200, "", "error", None, "which is not JSON"),
    "half a character": (200, '{"passed": false, "reason": "\\ud800"}', "error", None, "which is not JSON"),
    "deep": (200, "[" * 100_000, "error", None, "which is not JSON"),
    "long": (200, "x" * 5_000, "error", None, f"'{'x' * 200}...', which is not JSON"),
    "huge": (200, "1" + "0" * 400, "error", None, "a number from 0 to 1 is expected"),
    "failure": (500, "database is down", "error", None, "it answered 500: database is down"),
    "moved": (302, "", "error", None, "it answered 302"),
    "forbidden": (403, "", "error", None, "it answered 403"),
}


def test_what_a_webhook_may_answer(project: Project, hook: Hook) -> None:
    for name, (status, body, *_) in ANSWERED.items():
        hook.answers[f"/{name.replace(' ', '-')}"] = (status, body.encode())
    found = run_checks(project, {name: {"webhook": hook.url(f"/{name.replace(' ', '-')}")} for name in ANSWERED})
    for name, (_, _, wanted, score, reason) in ANSWERED.items():
        assert (state_of(found[name]), found[name]["score"]) == (wanted, score), name
        assert reason in found[name]["reason"], (name, found[name]["reason"])
    assert len(hook.heard) == len(ANSWERED)  # a refusal is not asked for again
    assert found["true"]["check"] == f"webhook {hook.url('/true')}"


def test_a_webhook_that_cannot_be_reached_is_an_error(project: Project, hook: Hook) -> None:
    found = run_checks(
        project,
        {
            "slow": {"webhook": {"url": hook.url("/slow"), "timeout": 0.3}},
            "refused": {"webhook": "http://127.0.0.1:1/"},
            "nowhere": {"webhook": "http://"},
            "header": {"webhook": {"url": hook.url("/true"), "headers": {"x-a": "b\r\nx-c: d"}}},
            "fine": {"webhook": hook.url("/true")},
        },
    )
    assert {name: state_of(one) for name, one in found.items()} == {
        "slow": "error",
        "refused": "error",
        "nowhere": "error",
        "header": "error",
        "fine": "passed",
    }
    assert found["slow"]["reason"] == "no answer within 0.3 s"
    assert "connection refused" in found["refused"]["reason"]
    assert "x-a" in found["header"]["reason"]


def test_a_webhook_is_sent_what_a_script_is_told(project: Project, hook: Hook) -> None:
    checks = [
        {"code": "cat > told.json; echo true"},
        {"webhook": {"url": f"{hook.url('/')}{{{{ var('path') }}}}", "headers": {"X-Suite": "{{ var('path') }}"}}},
    ]
    case = {"id": "ä", "prompt": "What?", "outcome": "42", "checks": checks, "metadata": {"owner": "Ann"}}
    project.write("evals.yaml", make_suite([case], vars={"path": "true"}))
    run(project, code=0)
    [(path, headers, body)] = hook.heard
    assert (path, headers["content-type"], headers["x-suite"]) == ("/true", "application/json", "true")
    assert json.loads(body) == json.loads((project.folder / "told.json").read_bytes())


@pytest.mark.slow
def test_a_webhook_may_answer_at_length(project: Project, hook: Hook) -> None:
    words = "so viele Wörter " * 100_000
    hook.answers["/long"] = (200, json.dumps({"passed": True, "reason": words}).encode())
    found = run_checks(project, {"a": {"webhook": hook.url("/long")}})
    assert found["a"]["reason"] == words


SECRET = "sesame-open-9571"


def assert_unknown(project: Project, *outputs: str) -> None:
    """The secret is in no file of the run, and in nothing that was printed."""
    files = [path for path in project.folder.glob(".rejoinder/runs/**/*") if path.is_file()]
    assert len(files) > 4
    for file in files:
        assert SECRET.encode() not in file.read_bytes(), file
    assert not any(SECRET in output for output in outputs)


def test_the_secrets_of_a_webhook_stay_secret(project: Project, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REJOINDER_SECRET_TOKEN", SECRET)
    token = "{{ secret('token') }}"
    headers = {"Authorization": f"Bearer {token}", "key": token, "type": token}
    hook.answers["/failure"] = (500, f"do not send me {SECRET}".encode())
    project.write(
        "evals.yaml",
        make_suite(
            make_cases(
                {
                    "mirror": {"webhook": {"url": hook.url("/mirror"), "headers": headers}},
                    "failure": {"webhook": {"url": f"{hook.url('/failure')}", "headers": headers}},
                    "address": {"webhook": f"{hook.url('/gone')}?key={token}"},
                }
            )
        ),
    )
    result = project.invoke("run", "--verbose")
    assert result.exit_code == 3
    assert [headers.get("authorization") for _, headers, _ in hook.heard].count(f"Bearer {SECRET}") == 2
    assert {path for path, _, _ in hook.heard} >= {f"/gone?key={SECRET}"}
    shown = project.run("show", "--format", "json", code=None)
    reason = verdicts(json.loads(shown))["mirror"]["reason"]
    assert reason.startswith("Bearer ") and "secret('token')" in reason
    resumed = project.invoke("resume", "last", "--format", "json")
    assert_unknown(project, result.output, shown, resumed.output)
    assert len(hook.heard) == 3


def test_secrets_in_arguments_stay_secret(
    project: Project, module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REJOINDER_SECRET_TOKEN", SECRET)
    token = "{{ secret('token') }}"
    name = module("def tell(context, **given): return str(given)\ndef fail(context, type): raise ValueError(type)\n")
    project.write(
        ".rejoinder/checks.py", "import rejoinder\n@rejoinder.check\ndef tell(context, **given): return str(given)\n"
    )
    project.write(
        "evals.yaml",
        make_suite(
            make_cases(
                {
                    "python": {"python": {"call": f"{name}:tell", "with": {"type": token, "list": [token]}}},
                    "raised": {"python": {"call": f"{name}:fail", "with": {"type": token}}},
                    "check": {"check": "tell", "with": {"key": token, "status": {"role": token}}},
                    "code": {"code": f"cat > /dev/null; echo 'called with {token}' >&2; exit 9"},
                    "words": {"code": {"script": ["printf", "%s", f'{{"passed": false, "reason": "{token}"}}']}},
                }
            )
        ),
    )
    result = project.invoke("run", "--verbose")
    assert result.exit_code == 3
    shown = project.run("show", "--format", "json", code=None)
    assert all("secret('token')" in one["reason"] for one in verdicts(json.loads(shown)).values())
    assert_unknown(project, result.output, shown)


@pytest.mark.slow
def test_what_a_webhook_said_is_not_asked_for_again(
    project: Project, hook: Hook, start: Callable[..., Process]
) -> None:
    hook.answers["/quick"] = (200, b'{"score": 0.75, "reason": "seen by the hook"}')
    hook.answers["/slow"] = (200, b"true")
    checks = {"quick": {"webhook": hook.url("/quick")}, "slow": {"webhook": hook.url("/slow")}}
    project.write("evals.yaml", make_suite(make_cases(checks)))
    child = start("run", "--format", "json")
    wait_until(lambda: len(hook.heard) == 2, "the hook was not asked")
    wait_until(lambda: is_recorded(project, "seen by the hook"), "no verdict is recorded")
    child.kill()
    hook.released.set()
    shown = project.run_json("show", code=None)
    assert [one["id"] for one in shown["results"]] == ["quick"] and len(hook.heard) == 2
    document = project.run_json("resume", "last", code=0)
    assert [one["score"] for one in document["results"]] == [0.75, 1.0]
    assert [path for path, _, _ in hook.heard[2:]] == ["/slow"]
