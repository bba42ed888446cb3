"""`cli` targets: commands as real processes, with hostile values, failures of all kinds, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from rejoinder.errors import UsageError
from rejoinder.model import AttachedFile, Brief, ChatMessage, Reply, Request, Target
from rejoinder.providers.base import ProviderError
from rejoinder.providers.cli import LONGEST_ARGUMENT, MOST_OUTPUT, CliProvider
from rejoinder.providers.shared import Exchange
from rejoinder.testing import FakeServer, judge
from tests.kit import (
    PATIENCE_S,
    ROOT,
    Process,
    Project,
    Raw,
    assert_gone,
    by_case,
    case,
    codes,
    follow,
    is_alive,
    journal_of,
    only_run,
    refusal,
    run,
    run_refusal,
    scripted,
    spec,
    statuses,
)

HOSTILE = [
    "it's \"quoted\" 'twice' \\ and \\n",
    "two\nlines\r\n\n",
    "$(touch pwned) `touch pwned` ${HOME} $HOME $1 $@",
    "; touch pwned & touch pwned | touch pwned && touch pwned > pwned # no",
    "--help",
    "-n",
    "* ? [a-z] {a,b} ~ !! %s %n",
    "{PROMPT} {FILES} {OUTPUT_FILE} {path}",
    " leading and trailing ",
    "",
    "\t\x1b[31m\x07 é 漢字 🙂",
]
DUMP = "printf '%s\\0' {PROMPT} {GUIDELINES} {EVAL_ID} {ATTEMPT} {FILES}"


def target(**settings: Any) -> Target:
    return Target(name="bot", provider="cli", settings=settings)


def request(prompt: str = "Hello?", *, case_id: str = "one", **brief: Any) -> Request:
    return Request(
        target="bot",
        case_id=case_id,
        trial=1,
        turn=1,
        call=0,
        messages=(ChatMessage("user", prompt),),
        question=prompt,
        key=f"candidate-{case_id}-0",
        brief=Brief(prompt=prompt, **brief),
    )


class Bot:
    """A target in a folder, and what its provider notes."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        exchange = Exchange()
        self.notes: list[str] = []
        exchange.note = self.notes.append
        self.provider = CliProvider(target(**settings), (str(folder), str(folder)), {}, exchange)
        self.exchange = exchange

    async def ask(self, asked: Request | None = None, timeout_s: float = PATIENCE_S) -> Reply:
        return await self.provider.reply_within(asked or request(), timeout_s)

    def says(self, asked: Request | None = None, timeout_s: float = PATIENCE_S) -> str:
        return asyncio.run(self.ask(asked, timeout_s)).text

    def fails(self, asked: Request | None = None, timeout_s: float = PATIENCE_S) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            self.says(asked, timeout_s)
        return caught.value


# What a command is given


@spec("A8")
@pytest.mark.parametrize("form", ["shell", "words"])
def test_hostile_values_arrive_as_they_are(tmp_path: Path, form: str) -> None:
    files = [str(tmp_path / name) for name in ("a b.txt", "it's.txt", "-x;touch pwned", "$(touch pwned)")]
    if form == "shell":
        bot = Bot(tmp_path, command_template=DUMP, files_format="--file={path} {basename}")
    else:
        words = ["printf", r"%s\0", "{PROMPT}", "{GUIDELINES}", "{EVAL_ID}", "{ATTEMPT}", "{FILES}"]
        bot = Bot(tmp_path, command=words, files_format="--file={path} {basename}")
    wanted = [part for path in files for part in (f"--file={path}", Path(path).name)]

    async def ask_all() -> list[Reply]:
        asked = [
            request(
                text,
                case_id=text[::-1],
                guidelines=f"{text}.",
                files=tuple(AttachedFile(file, file) for file in files + files),
            )
            for text in HOSTILE
        ]
        return await asyncio.gather(*map(bot.ask, asked))

    for text, reply in zip(HOSTILE, asyncio.run(ask_all()), strict=True):
        assert reply.text.split("\0")[:-1] == [text, f"{text}.", text[::-1], "0", *wanted]
        assert reply.usage.approximate
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "template",
    [
        'printf %s "$(printf %s "{PROMPT}")"',
        "f() { printf %s {PROMPT}; }; f other",
        "cat <<END\n{PROMPT}\nEND\n",
        "printf %s --p={PROMPT} # {PROMPT}",
        "eval 'printf %s' '\"$1$2\"'; printf %s {PROMPT}",
    ],
)
def test_no_place_of_a_placeholder_runs_its_value(tmp_path: Path, template: str) -> None:
    text = "'\"; $(touch pwned) `touch pwned`"
    said = Bot(tmp_path, command_template=template).says(request(text))
    assert text.split()[-1] in said
    assert not list(tmp_path.iterdir())


def test_a_prompt_without_placeholder_comes_by_standard_input(tmp_path: Path) -> None:
    long = "é" * 2_000_000
    for settings in ({"command": ["cat"]}, {"command_template": "cat"}):
        bot = Bot(tmp_path, **settings)
        assert bot.says(request(long)) == long
        assert bot.says(request("-n\n$(x)\n")) == "-n\n$(x)"  # as the shell's $(...): without the last ends of lines
    assert Bot(tmp_path, command=["sh", "-c", "cat; echo $1", "sh", "{PROMPT}"]).says(request("p")) == "p"


def test_a_prompt_by_file_is_removed_afterwards(tmp_path: Path) -> None:
    text = "x" * 300_000 + "'\n$(y)"
    bot = Bot(
        tmp_path, command_template="cat {PROMPT_FILE}; printf '|%s' {PROMPT_FILE}; ls -ld $(dirname {PROMPT_FILE})"
    )
    said, _, rest = bot.says(request(text)).partition("|")
    assert said == text
    path, _, mode = rest.partition("drwx------")
    assert mode and not Path(path).parent.exists()


@pytest.mark.parametrize("settings", [{"command": ["echo", "-p={PROMPT}"]}, {"command_template": "echo {PROMPT}"}])
def test_a_prompt_too_long_for_an_argument_says_what_to_do(tmp_path: Path, settings: Raw) -> None:
    error = Bot(tmp_path, **settings).fails(request("x" * (LONGEST_ARGUMENT + 1)))
    assert "the prompt has" in error.message and "128 KiB" in error.message
    assert "standard input" in error.message and "{PROMPT_FILE}" in error.message
    assert not error.ends_target and not error.retryable
    assert len(Bot(tmp_path, **settings).says(request("x" * (LONGEST_ARGUMENT - 5)))) > LONGEST_ARGUMENT - 10
    error = Bot(tmp_path, command_template="echo {GUIDELINES}").fails(request("x", guidelines="y" * 200_000))
    assert "the guidelines have" in error.message and "{FILES}" in error.message


def test_what_no_argument_can_hold_fails_the_call_alone(tmp_path: Path) -> None:
    for text in ("nul \0", "half \ud800"):
        error = Bot(tmp_path, command=["echo", "{PROMPT}"]).fails(request(text))
        assert "cannot be run" in error.message and not error.ends_target
    assert Bot(tmp_path, command=["cat"]).says(request("half \ud800")) == "half ?"


def test_guidelines_and_the_system_prompt(tmp_path: Path) -> None:
    asked = request("p", system_prompt="Be brief.", guidelines="G")
    assert Bot(tmp_path, command=["echo", "{GUIDELINES}"]).says(asked) == "Be brief.\n\nG"
    error = Bot(tmp_path, command=["echo", "{PROMPT}"]).fails(asked)
    assert "`{GUIDELINES}`" in error.message and "system prompt" in error.message


def test_one_who_is_asked_beside_the_candidate_gets_one_text(tmp_path: Path) -> None:
    bot = Bot(tmp_path, command=["cat"])
    messages = [ChatMessage("system", "Judge."), ChatMessage("user", "This.")]
    plain = Request(target="bot", case_id="c", trial=1, turn=1, call=0, messages=tuple(messages), question="")
    assert bot.says(plain) == "Judge.\n\nThis."
    more = Request(
        target="bot",
        case_id="c",
        trial=1,
        turn=1,
        call=0,
        messages=(*messages, ChatMessage("assistant", "Hm."), ChatMessage("user", "JSON!")),
        question="",
    )
    assert bot.says(more) == "@[System]:\nJudge.\n\n@[User]:\nThis.\n\n@[Assistant]:\nHm.\n\n@[User]:\nJSON!"


def test_a_command_inherits_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-1")
    monkeypatch.setenv("DB", "postgres://me:hidden@db/x")
    monkeypatch.setenv("PLAIN", "yes")
    (tmp_path / ".env").write_text("FROM_FILE=file\nTOKEN_OF_FILE=t\nPLAIN=no\n")
    bot = Bot(tmp_path, command_template="env; echo {PROMPT}", env={"GIVEN_KEY": "sk-2", "NUMBER": 3, "PLAIN": "own"})
    printed = dict(line.split("=", 1) for line in bot.says(request("a=b")).splitlines())
    assert not {"SOME_API_KEY", "DB", "TOKEN_OF_FILE"} & printed.keys()
    assert not [name for name in printed if name.startswith("_rejoinder")]
    wanted = {"GIVEN_KEY": "sk-2", "NUMBER": "3", "FROM_FILE": "file", "PLAIN": "own", "PATH": os.environ["PATH"]}
    assert printed.items() >= wanted.items()
    error = Bot(tmp_path, command_template="echo 'set SOME_API_KEY!' >&2; exit 1").fails()
    assert error.message.endswith("`env: {SOME_API_KEY: ${{ SOME_API_KEY }}}`")


def test_attempts_are_counted_for_each_call(tmp_path: Path) -> None:
    bot = Bot(tmp_path, command_template="echo {ATTEMPT}; test {ATTEMPT} -ge {PROMPT}", max_retries=2)
    assert [bot.fails(request("2")).retryable for _ in range(2)] == [True, True]
    assert bot.says(request("2")) == "2"
    assert bot.says(request("0", case_id="other")) == "0"
    assert not Bot(tmp_path, command_template="exit 1").fails().retryable


# What comes back


def test_how_a_command_can_fail(tmp_path: Path) -> None:
    wanted = {
        "echo no >&2; exit 3": "the command ended with exit code 3: no",
        "echo from stdout; exit 4": "the command ended with exit code 4: from stdout",
        "exit 5": "the command ended with exit code 5",
        "kill -SEGV $$": "the command was killed by SIGSEGV",
        "true {OUTPUT_FILE}": "the command succeeded but did not write `{OUTPUT_FILE}`",
        "echo why >&2; : > {OUTPUT_FILE}": "the command succeeded but left `{OUTPUT_FILE}` empty; it said: why",
        "mkdir {OUTPUT_FILE}": "the command succeeded but did not write `{OUTPUT_FILE}`",
        f"yes | head -c {MOST_OUTPUT + 1} > {{OUTPUT_FILE}}": "the command writes more than 10 MiB in `{OUTPUT_FILE}`",
        "yes": "the command prints more than 10 MiB",
    }
    for template, message in wanted.items():
        error = Bot(tmp_path, command_template=template).fails()
        assert error.message == message
        assert (error.type, error.retryable, error.ends_target) == ("command", False, False)
    error = Bot(tmp_path, command_template="no-such-program {PROMPT}").fails()
    assert "exit code 127" in error.message and "no-such-program" in error.message
    long = Bot(tmp_path, command_template="yes complaint | head -c 9000000 >&2; exit 1").fails()
    assert len(long.message) < 1000


def test_a_program_that_is_missing_ends_the_target(tmp_path: Path) -> None:
    error = Bot(tmp_path, command=["no-such-program", "{PROMPT}"]).fails()
    assert error.message == "there is no program `no-such-program`" and error.ends_target
    error = Bot(tmp_path, command=["echo"], cwd="nowhere").fails()
    assert error.message == f"there is no folder {tmp_path / 'nowhere'} to run it in" and error.ends_target


def test_replies_are_read_from_the_file_or_from_standard_output(tmp_path: Path) -> None:
    assert Bot(tmp_path, command_template="echo log; echo Rome. > {OUTPUT_FILE}").says() == "Rome."
    assert Bot(tmp_path, command_template="echo log >&2; printf ' Rome. \\n\\n'").says() == " Rome. "
    assert Bot(tmp_path, command_template=":").says() == ""
    (tmp_path / "inside").mkdir()
    assert Bot(tmp_path, command_template="pwd", cwd="inside").says() == str(tmp_path / "inside")
    [path] = [Bot(tmp_path, command_template="echo {OUTPUT_FILE} | tee {OUTPUT_FILE}").says()]
    assert not Path(path).parent.exists()


def test_bytes_that_are_not_utf8_are_replaced_and_said(tmp_path: Path) -> None:
    for template in (r"printf 'a\377b'", r"printf 'a\377b' > {OUTPUT_FILE}"):
        bot = Bot(tmp_path, command_template=template)
        assert bot.says() == "a\ufffdb"
        [note] = bot.notes
        assert "not UTF-8" in note and "`one`" in note
    bot = Bot(tmp_path, command_template="printf '\ufffd'")
    assert bot.says() == "\ufffd" and not bot.notes


# Ends


TREE = """\
trap '' TERM
echo $$ >> pids
(trap '' TERM; exec sleep 600) & echo $! >> pids
setsid sleep 600 & echo $! >> pids
(trap '' TERM; sleep 600 & echo $! >> pids)
echo working >&2
touch begun
wait
"""


def pids_of(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "pids").read_text().split()]


def test_a_timeout_ends_all_that_was_started(tmp_path: Path) -> None:
    error = Bot(tmp_path, command=["sh", "-c", TREE]).fails(timeout_s=1.5)
    assert error.message == "the command did not end within 1.5 s: working"
    assert error.type == "timeout" and not error.retryable
    assert len(pids_of(tmp_path)) == 4
    assert_gone(*pids_of(tmp_path))


def test_cancelling_asks_to_end_and_then_kills(tmp_path: Path) -> None:
    polite = "trap 'echo bye > ended; exit 0' TERM; echo $$ > pids; touch begun; while :; do sleep 0.02; done"

    async def cancel(words: str) -> None:
        task = asyncio.create_task(Bot(tmp_path, command=["sh", "-c", words, "{OUTPUT_FILE}"]).ask())
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel(polite))
    assert (tmp_path / "ended").read_text() == "bye\n"
    (tmp_path / "begun").unlink()
    asyncio.run(cancel(TREE))
    assert_gone(*pids_of(tmp_path))


def test_what_left_its_group_is_ended_with_the_run(tmp_path: Path) -> None:
    leave = "setsid sh -c 'echo $$ > pids; exec sleep 600' > /dev/null 2>&1 &"
    bot = Bot(tmp_path, command_template=f"{leave} until test -s pids; do sleep 0.01; done; echo done")

    async def ask_and_close() -> None:
        assert (await bot.ask()).text == "done"
        assert all(map(is_alive, pids_of(tmp_path)))
        await bot.provider.close()

    asyncio.run(ask_and_close())
    assert_gone(*pids_of(tmp_path))


def test_output_after_the_end_does_not_hold_the_reply_up(tmp_path: Path) -> None:
    template = "(sleep 0.05; echo late) & (sleep 600; echo never) & echo $! > pids; echo soon"
    assert Bot(tmp_path, command_template=template).says() == "soon\nlate"
    assert_gone(*pids_of(tmp_path))


# Health checks


@contextmanager
def serving(status: int) -> Generator[tuple[str, list[str]]]:
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/health", seen
        finally:
            server.shutdown()
            thread.join()


async def ask_twice(bot: Bot) -> list[Reply | BaseException]:
    try:
        return list(await asyncio.gather(bot.ask(), bot.ask(), return_exceptions=True))
    finally:
        await bot.exchange.close()


def test_a_health_check_is_made_once(tmp_path: Path) -> None:
    check = {"type": "command", "commandTemplate": "echo {EVAL_ID} {PROMPT}. >> checked", "timeoutSeconds": 5}
    bot = Bot(tmp_path, command_template="echo hi", healthcheck=check)
    assert [reply.text for reply in asyncio.run(ask_twice(bot)) if isinstance(reply, Reply)] == ["hi", "hi"]
    assert (tmp_path / "checked").read_text() == "healthcheck .\n"
    with serving(204) as (url, seen):
        bot = Bot(tmp_path, command_template="echo hi", healthcheck={"type": "http", "url": url})
        assert [reply.text for reply in asyncio.run(ask_twice(bot)) if isinstance(reply, Reply)] == ["hi", "hi"]
        assert seen == ["/health"]


def test_a_target_that_is_not_healthy_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    with serving(503) as (url, _):
        checks = {
            "the command ended with exit code 2: sick": {
                "type": "command",
                "command_template": "basename $PWD > where; echo sick >&2; exit 2",
                "cwd": "deep",
            },
            "the command did not end within 0.2 s": {
                "type": "command",
                "command_template": "sleep 600",
                "timeout_seconds": 0.2,
            },
            f"{url} answered 503": {"type": "http", "url": url},
        }
        for message, check in checks.items():
            for error in asyncio.run(ask_twice(Bot(tmp_path, command_template="touch asked", healthcheck=check))):
                assert isinstance(error, ProviderError) and error.ends_target
                assert error.message == f"the health check failed: {message}"
    assert not (tmp_path / "asked").exists()
    assert (tmp_path / "deep" / "where").exists()


# In suites


def suite_of(*cases: Raw, **settings: Any) -> Raw:
    return {"targets": [{"name": "bot", "provider": "cli", **settings}], "evals": list(cases) or [case()]}


@spec("A8")
@pytest.mark.parametrize(
    ("settings", "path", "said"),
    [
        ({"command_template": "run-task {UNKNOWN_PLACEHOLDER}"}, "command_template", "the placeholders are `{PROMPT}`"),
        ({"commandTemplate": "x {PROMT}"}, "commandTemplate", "did you mean `{PROMPT}`?"),
        ({"command_template": "x {prompt}"}, "command_template", "did you mean `{PROMPT}`?"),
        ({"command_template": "x ${PROMPT}"}, "command_template", "the placeholder is `{PROMPT}`"),
        ({"command_template": "x -p '{PROMPT}'"}, "command_template", "leave the quotes out"),
        ({"command_template": 'x -p "a \\" {PROMPT}"'}, "command_template", "leave the quotes out"),
        ({"settings": {"command_template": "x {FILE}"}}, "settings.command_template", "did you mean `{FILES}`?"),
        ({"command": ["x", "--f={FILES}"]}, "command[1]", "a word of its own"),
        ({"command": ["/bin/bash", "-lc", "x '{PROMPT}'"]}, "command[2]", "would run what a value holds"),
        ({"command": ["python3", "-c", "print('{EVAL_ID}')"]}, "command[2]", "would run what a value holds"),
        ({"command": ["x", "{OUTPUT}"]}, "command[1]", "did you mean `{OUTPUT_FILE}`?"),
        ({"command_template": "x", "files_format": "-f {PATH}"}, "files_format", "did you mean `{path}`?"),
        ({"command_template": "x", "attachmentsFormat": "'{path}'"}, "attachmentsFormat", "leave the quotes out"),
        (
            {"command_template": "x", "healthcheck": {"type": "command", "command_template": "y {NAME}"}},
            "healthcheck.command_template",
            "there is no placeholder `{NAME}`",
        ),
    ],
)
def test_wrong_placeholders_are_refused(project: Project, settings: Raw, path: str, said: str) -> None:
    suite = suite_of(**settings)
    [error] = project.errors(suite)
    assert (error["code"], error["path"]) == ("unknown-placeholder", f"targets[0].{path}")
    assert said in error["message"]
    assert said in run_refusal(project, suite)
    with pytest.raises(UsageError, match="target `bot`"):
        Bot(project.folder, **settings.get("settings", settings))


def test_other_mistakes_in_commands(project: Project) -> None:
    template = {"command_template": "true"}
    found = project.errors(suite_of(**template, command=["x"]))
    assert [(one["code"], one["path"]) for one in found] == [("conflicting-keys", "targets[0].command")]
    for kind, field in (("http", "url"), ("command", "command_template")):
        found = project.errors(suite_of(**template, healthcheck={"type": kind}))
        assert [(one["code"], one["path"]) for one in found] == [("missing-field", f"targets[0].healthcheck.{field}")]
    assert codes(project.errors(suite_of(command=[]))) == ["out-of-range"]
    assert codes(project.errors(suite_of(command_template="python3 ./bott.py {PROMPT}"))) == ["file-not-found"]
    project.write("bott.py", "")
    shell = "for f in {FILES}; do python3 ./bott.py ${HOME} {a,b} ${{ HOME }} $f; done"
    for settings in ({"command_template": shell}, {"command": ["python3", "bott.py", "--p={PROMPT}"]}):
        assert project.errors(suite_of(**settings)) == []


ECHO = """\
import sys
text = sys.stdin.read()
with open("asked", "a") as file:
    file.write("x")
print("Rome." if "sure" in text else text)
"""


@spec("P14", "R12", "R26", "R32")
def test_an_agent_gets_the_whole_conversation_at_each_turn(project: Project) -> None:
    project.write("bot.py", ECHO)
    project.write("city.md", "Lima\n")
    conversation = {
        "id": "one",
        "input_messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "value": "Where?"}, {"type": "file", "value": "city.md"}]},
        ],
        "checks": [{"contains": "Rome"}, follow("Are you sure?", {"equals": "Rome."})],
    }
    suite = suite_of(conversation, command=[sys.executable, "bot.py"])
    document = run(project, suite, code=0)
    first, second = by_case(document)["one"]["turns"]
    question = '@[System]:\nBe brief.\n\n@[User]:\nWhere?\n<file: path="city.md">'
    assert first["response"] == question
    assert second["response"] == "Rome."
    assert document["summary"]["usage"]["approximate"]

    # Recorded answers need no program, and an edited file is another question.
    (project.folder / "bot.py").unlink()
    asked_otherwise = {"timeout_seconds": 9, "healthcheck": {"type": "command", "command_template": "false"}}
    project.write("evals.yaml", {**suite, "targets": [{**suite["targets"][0], **asked_otherwise}]})
    again = project.run_json("replay", only_run(project.folder).name)
    assert [turn["response"] for turn in by_case(again)["one"]["turns"]] == [question, "Rome."]
    resumed = project.run_json("resume", document["run"]["id"], "--retry-errors")
    assert statuses(resumed) == {"one": "passed"}
    assert (project.folder / "asked").read_text() == "xx"
    project.write("city.md", "Quito\n")
    assert statuses(project.run_json("replay", document["run"]["id"], code=3)) == {"one": "error"}


def test_a_transcript_is_echoed_in_full_on_turn_two(project: Project) -> None:
    turns = [
        {"prompt": "One?", "checks": [{"contains": "One"}]},
        {"prompt": "Two?", "checks": [{"contains": "Two"}]},
        {"prompt": "Three?", "window_size": 1, "checks": [{"contains": "Three"}]},
    ]
    suite = suite_of({"id": "p", "turns": turns}, command_template="printf '<%s|%s>' {PROMPT} {GUIDELINES}")
    suite["metadata"] = {"system_prompt": "Be brief."}
    said = [turn["response"] for turn in by_case(run(project, suite, code=0))["p"]["turns"]]
    second = "@[User]:\nOne?\n\n@[Assistant]:\n<One?|Be brief.>\n\n@[User]:\nTwo?"
    assert said == ["<One?|Be brief.>", f"<{second}|Be brief.>", "<Three?|Be brief.>"]


def test_simulated_users_and_forks_are_in_the_transcript(project: Project) -> None:
    user = {"persona": "p", "goal": "g", "target": "sim", "max_turns": 2}
    spoken = {"id": "user", "user": user, "checks": [{"contains": "Two"}], "execution": {"target": "bot"}}
    asked = case("asked", {"contains": "nope"}, follow("Again?", {"contains": "Again"}))
    suite = suite_of(spoken, asked, command_template="printf '<%s|%s>' {PROMPT} {GUIDELINES}")
    suite["targets"].append(scripted("sim", "One?", "Two?"))
    document = run(project, suite, "--target", "bot")
    said = [turn["response"] for turn in by_case(document)["user"]["turns"]]
    assert said == ["<One?|>", "<@[User]:\nOne?\n\n@[Assistant]:\n<One?|>\n\n@[User]:\nTwo?|>"]
    forked = ("--case", "asked", "--turn", "2", "--prompt", "Really?", "--system", "Doubt.")
    document = project.run_json("fork", document["run"]["id"], *forked, code=None)
    said = [turn["response"] for turn in by_case(document)["asked"]["turns"]]
    earlier = "@[User]:\nQuestion asked\n\n@[Assistant]:\n<Question asked|>"
    assert said == ["<Question asked|>", f"<{earlier}\n\n@[User]:\nReally?|Doubt.>"]


def test_a_sick_target_is_reported_once_and_skips_the_rest(project: Project) -> None:
    check = {"type": "command", "command_template": "echo not installed >&2; exit 1"}
    suite = suite_of(*(case(f"c{n}") for n in range(3)), command_template="touch asked", healthcheck=check)
    document = run(project, suite, "--workers", "1", code=3)
    assert sorted(statuses(document).values()) == ["error", "skipped", "skipped"]
    [told] = [one for one in journal_of(only_run(project.folder)) if one["type"] == "told"]
    assert told["failure"]["message"] == "the health check failed: the command ended with exit code 1: not installed"
    [probe] = project.run_json("targets", "check", code=3)
    assert probe["error"].endswith("not installed") and not (project.folder / "asked").exists()
    assert project.run_json("targets")[0]["ready"]


def test_commands_are_refused_by_no_code_and_by_budgets(project: Project) -> None:
    suite = suite_of(command_template="touch asked")
    assert "--no-code refuses that" in run_refusal(project, suite, "--no-code")
    assert "no budget can include it" in run_refusal(project, suite, "--budget-usd", "1")
    [probe] = project.run_json("targets", "check", "--no-code", code=3)
    assert "--no-code" in probe["error"]
    assert "cli" in refusal(project, "run", "-m", "cli/x")
    assert not (project.folder / "asked").exists()


def test_what_a_command_complains_of_does_not_steer_the_terminal(project: Project) -> None:
    project.write("evals.yaml", suite_of(command_template=r"printf '\033[31mred\007\n\033]0;x\007' >&2; exit 1"))
    shown = project.run("run", code=3)
    assert "red" in shown and not {"\x1b", "\x07"} & set(shown)


def test_notes_and_secrets_in_the_folder_of_a_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_KEY", "sk-hidden-5150-value")
    template = r"printf 'a\377 %s' $GIVEN; test -z {FILES} || exit 1"
    suite = suite_of(command_template=template, env={"GIVEN": "${{ BOT_KEY }}"})
    document = run(project, suite, code=0)
    assert "sk-hidden" not in json.dumps(document)
    folder = only_run(project.folder)
    assert "not UTF-8" in (folder / "run.log").read_text()
    assert not [path for path in folder.rglob("*") if path.is_file() and b"sk-hidden" in path.read_bytes()]


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)], ids=["twice", "term"])
def test_an_interrupt_ends_the_command(
    project: Project, start: Callable[..., Process], signals: tuple[signal.Signals, ...]
) -> None:
    project.write("evals.yaml", suite_of(command=["sh", "-c", TREE, "{OUTPUT_FILE}"]))
    process = start("run")
    process.wait_for((project.folder / "begun").exists, "the command has not begun")
    for number in signals:
        process.process.send_signal(number)
        if number == signal.SIGINT:
            process.wait_until_it_says("finishing")
    assert process.end().code == 130
    assert_gone(*pids_of(project.folder))


# AgentV's own example

MOCK = """\
import argparse, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("--prompt")
parser.add_argument("--file", action="append", default=[])
parser.add_argument("--output")
parser.add_argument("--healthcheck", action="store_true")
given = parser.parse_args()
if given.healthcheck:
    sys.exit(pathlib.Path("healthy").write_text("yes") != 3)
names = [pathlib.Path(path).name for path in given.file]
words = f"Attachments detected ({len(names)}): {', '.join(names)}."
pathlib.Path(given.output).write_text(f"{words}\\n{given.prompt}")
"""


@spec("A8")
def test_files_of_agentvs_form_run_as_they_are(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets, configuration, suite and attachments by its keys; `uv run` is Python here, and a fake server judges."""
    shutil.copytree(ROOT / "tests" / "labs" / "agentv_cli", project.folder, dirs_exist_ok=True)
    project.write("evals/local-cli/mock_cli.py", MOCK)
    project.write("bin/uv", f'#!/bin/sh\nshift\nexec {sys.executable} "$@"\n').chmod(0o755)
    monkeypatch.setenv("PATH", f"{project.folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("CLI_EVALS_DIR", raising=False)
    with FakeServer(lambda _: judge(1.0)) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "a-key-of-azure")
        monkeypatch.setenv("AZURE_DEPLOYMENT_NAME", "deployed")
        document = project.run_json("run", "evals/local-cli/cli-provider-demo.yaml")
    [turn] = by_case(document)["cli-provider-echo"]["turns"]
    words, _, question = turn["response"].partition("\n")
    assert words == "Attachments detected (2): python.instructions.md, example.txt."
    asked = "Repeat this in a sentence, and name the files that you were given."
    assert question == f'{asked}\n\n<file: path="./attachments/example.txt">'
    assert (project.folder / "evals/local-cli/healthy").exists()
