"""Cassettes: what they hold, that they stay as they are while nothing changes, what they answer, what they refuse."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rejoinder.cassettes.file import Cassette, Recording, cassette_name, read_cassette, suite_folder, write_cassette
from rejoinder.model import ChatMessage, Failure, Reply, ToolCall, Usage
from rejoinder.providers.local_weights import get_weights
from rejoinder.suite.yaml import parse_yaml
from rejoinder.testing import Answer, FakeServer, Received
from tests.kit import (
    KILLED,
    ROOT,
    Project,
    Raw,
    behind,
    bounded,
    by_case,
    essence,
    file_contents,
    is_time,
    refused,
    run_process,
    scripted,
    without,
)
from tests.labs.replay_lab import SIMPLE, play, sockets_blocked, suites

EXAMPLES = ROOT / "examples"
SECRET = "sk-7eC0ffee51b6A9d2"


def record(project: Project, suite: Raw, *arguments: str, code: int | None = None) -> Raw:
    project.write("evals.yaml", suite)
    return play(project, "run", "evals.yaml", "--record", "cassettes", *arguments, code=code)


def replay(project: Project, *arguments: str, code: int | None = None) -> Raw:
    return play(project, "run", "evals.yaml", "--replay", "cassettes", *arguments, code=code)


def one_case(*replies: Any, checks: list[Raw] | None = None, **case: Any) -> Raw:
    given = {"id": "one", "prompt": "Hi!", "checks": checks or [{"match": "*"}], **case}
    return {"target": "it", "targets": [scripted("it", *replies)], "evals": [given]}


def change(path: Path, old: str, new: str) -> None:
    """Edit a file by hand."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (old, text)
    path.write_text(text.replace(old, new), encoding="utf-8")


def plain(document: Raw) -> Any:
    """Results without times and the names of calls: cassettes keep times to the millisecond, and no names."""

    return without(
        (document["results"], document["summary"]), lambda key: is_time(key) or key in ("request_id", "calls")
    )


# What stands in a file.

ANY_TEXT = st.text(
    st.one_of(
        st.sampled_from("\n\n\n \t\r\x85\u2028\u2029\ufeff\x00\x07:-#'\"|>\\é🙂ab<"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=25,
)
RECORDINGS = st.builds(
    lambda asked, turn, said, text, tools, answer: Recording(
        asked=asked,
        of="it",
        turn=turn,
        messages=tuple(ChatMessage("user", one, tool_calls=tools) for one in said),
        text=text,
        **({"reply": Reply(answer, Usage(1, 2), 0.25)} if turn % 2 else {"failure": Failure("busy", answer, 503)}),
    ),
    st.sampled_from(["candidate", "judge", "other", "embedding", "work"]),
    st.integers(1, 4),
    st.lists(ANY_TEXT, max_size=3),
    ANY_TEXT,
    st.just(()) | st.builds(lambda arguments: (ToolCall("look", arguments, "1"),), ANY_TEXT),
    ANY_TEXT,
)


@pytest.mark.slow
@given(calls=st.lists(RECORDINGS, max_size=4), name=ANY_TEXT)
@bounded(300)
@example(calls=[Recording(asked="judge", of="1e5", turn=1, text="0o17", reply=Reply("no"))], name="~")
def test_whatever_is_recorded_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, calls: list[Recording], name: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.yaml"
    path.unlink(missing_ok=True)
    cassette = Cassette(suite=name, case=name, target=name, calls=calls)
    write_cassette(path, cassette)
    assert read_cassette(path) == cassette
    written = path.read_bytes()
    assert yaml.safe_load(written) == parse_yaml(written.decode()).data  # by any reader
    write_cassette(path, cassette)
    assert path.read_bytes() == written


def test_a_cassette_is_made_to_be_read(project: Project) -> None:
    """Text stands in blocks, as it is, with its tabs and spaces; a later turn has only what is new."""
    code = "def add(a, b):\n\treturn a + b  \n\n# Grüße 🙂\n"
    checks = [{"contains": "sub"}, {"prompt": "Now subtract.\nPlease.", "checks": [{"contains": "sub"}]}]
    record(project, one_case(code, "sub = None", checks=checks, prompt="Write add."), code=0)
    written = (project.folder / "cassettes" / "evals" / "one.it.yaml").read_text(encoding="utf-8")
    written = re.sub(r" *latency_s: 0.\d+\n", "", written)  # of a machine that was busy
    assert written == (
        "format: 1\n"
        "suite: evals.yaml\n"
        "case: one\n"
        "target: it\n"
        "trial: 1\n"
        "calls:\n"
        "- asked: candidate\n"
        "  of: it\n"
        "  turn: 1\n"
        "  messages:\n"
        "  - role: user\n"
        "    content: Write add.\n"
        "  reply:\n"
        "    text: |\n"
        "      def add(a, b):\n"
        "      \treturn a + b  \n"
        "\n"
        "      # Grüße 🙂\n"
        "    usage:\n"
        "      output_tokens: 10\n"
        "- asked: candidate\n"
        "  of: it\n"
        "  turn: 2\n"
        "  messages:\n"
        "  - role: user\n"
        "    content: |-\n"
        "      Now subtract.\n"
        "      Please.\n"
        "  reply:\n"
        "    text: sub = None\n"
        "    usage:\n"
        "      output_tokens: 3\n"
    )
    assert yaml.safe_load(written)["calls"][0]["reply"]["text"] == code
    assert replay(project, code=0)["results"][0]["turns"][0]["response"] == code


def test_what_is_said_twice_is_written_twice(project: Project) -> None:
    """No file says `&id001`, and each conversation has a file of its own."""
    judge = {"llm_judge": {"criteria": "Polite?", "votes": 2}}
    suite = one_case("yes", "yes", checks=[judge, {"match": "no"}, {"prompt": "Hi!", "checks": [{"match": "yes"}]}])
    suite["targets"][0]["judge"] = [1, 1]
    record(project, suite, "--repeat", "3", code=0)
    folder = project.folder / "cassettes"
    assert list(file_contents(folder)) == [f"evals/one.it{trial}.yaml" for trial in (".trial-2", ".trial-3", "")]
    for content in file_contents(folder).values():
        assert not re.search(rb"[&*]id\d", content)
        assert [call["asked"] for call in yaml.safe_load(content)["calls"]] == [
            "candidate",
            "judge",
            "judge",
            "candidate",
        ]


def test_recording_the_same_again_changes_nothing(project: Project, module: Callable[[str], str]) -> None:
    """Times and the names of calls differ each time; the files do not. What did change is all that changes."""
    name = module(
        "import pathlib, random, time\n"
        "from rejoinder.model import Reply\n"
        "def reply(request):\n"
        "    time.sleep(0.002 + random.random() / 50)\n"
        "    said = pathlib.Path('reply.txt').read_text() if request.turn > 1 else 'Hello.'\n"
        "    text = '{\"score\": 0.5}' if request.judging else said\n"
        "    return Reply(text, request_id=str(random.random()))\n"
    )
    target = {"name": "it", "provider": "python", "call": f"{name}:reply"}
    checks = [
        *({"llm_judge": {"criteria": criteria, "votes": 2}} for criteria in ("Polite?", "Short?")),
        {"match": "no"},
        {"prompt": "Again.", "checks": [{"contains": "there"}]},
    ]
    suite = {"target": "it", "targets": [target], "evals": [{"id": "one", "prompt": "Hi!", "checks": checks}]}
    project.write("reply.txt", "Hello there.")
    record(project, suite, code=0)
    path = project.folder / "cassettes" / "evals" / "one.it.yaml"
    first = path.read_text(encoding="utf-8")
    assert re.search(r"latency_s: 0\.\d{1,3}\n", first)
    assert "request_id" not in first
    record(project, suite, code=0)
    assert path.read_text(encoding="utf-8") == first
    project.write("reply.txt", "Who is there?")
    record(project, suite, code=0)
    before, after = first.splitlines(), path.read_text(encoding="utf-8").splitlines()
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert changed[0] == ("    text: Hello there.", "    text: Who is there?")
    assert all("latency_s" in old or "tokens" in old for old, _ in changed[1:])


def test_two_recordings_of_the_same_are_the_same_in_two_folders(project: Project) -> None:
    """Which of several calls at the same time came first is an accident, and so stands in no file."""
    vectors = scripted("vectors", embeddings={"*": [1, 0]})
    checks = [
        {"compare": {"reply_of": "it"}},
        *({"llm_judge": {"criteria": criteria, "votes": 3, "combine": "mean"}} for criteria in "ba"),
        {"semantic": {"expected": ["z", "y", "x"], "threshold": 0.5}},
    ]
    verdicts = ["Hm.", *['{"better": "1"}', '{"score": 1}'] * 8]
    suite = one_case("yes", "yes", checks=checks) | {"embedding_target": "vectors"}
    suite["targets"] = [scripted("it", "yes", "yes", judge=verdicts), vectors]
    project.write("evals.yaml", suite)
    for folder in ("one", "two"):
        play(project, "run", "evals.yaml", "--record", folder)
    one, two = (
        {
            name: re.sub(rb"\n *latency_s: .*", b"", content)
            for name, content in file_contents(project.folder / folder).items()
        }
        for folder in ("one", "two")
    )
    assert one == two
    asked = [call["asked"] for call in yaml.safe_load(one["evals/one.it.yaml"])["calls"]]
    assert asked == sorted(asked, key=["candidate", "other", "embedding", "judge"].index)


def test_a_conversation_that_took_another_course_is_recorded_whole(project: Project) -> None:
    """With a fork the messages of a turn do not go on from those of the turn before."""
    last = {"prompt": "And now?", "checks": [{"match": "yes"}]}
    checks = [{"match": "yes"}, {"prompt": "Again.", "checks": [{"match": "yes"}, last]}]
    project.write("evals.yaml", one_case("no", "maybe", "yes", checks=checks))
    first = play(project, "run", "evals.yaml", code=0)["run"]["id"]
    course = ("--case", "one", "--turn", "2", "--prompt", "Why?", "--system", "Be brief.")
    forked = play(project, "fork", first, *course, "--record", "cassettes", "--include", "messages", code=0)
    calls = read_cassette(project.folder / "cassettes" / "evals" / "one.it.yaml").calls
    sent = [[message.content for message in call.messages] for call in calls]
    assert sent[1] == ["Be brief.", "Hi!", "no", "Why?"]
    assert sent == [[message["content"] for message in turn["messages"]] for turn in forked["results"][0]["turns"]]
    assert play(project, "replay", forked["run"]["id"], code=0)["results"] == forked["results"]


def test_an_edited_case_changes_its_own_file_alone(project: Project) -> None:
    record(project, SIMPLE, code=0)
    before = file_contents(project.folder / "cassettes")
    suite = json.loads(json.dumps(SIMPLE))
    suite["evals"][2]["prompt"] = "And who are you?"
    record(project, suite, code=0)
    after = file_contents(project.folder / "cassettes")
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == ["evals/three.it.yaml"]


# Names of files.

NAMES = [
    *("a", "A", "a b", "a-b", "a.b", "a/b", "../a", ".", "..", "...", "-a", "a-", "a\\b", "a:b", "CON"),
    *(
        "é",
        "e\u0301",
        "É",
        "日本語",
        "Straße",
        "strasse",
        "x" * 300,
        "x" * 299 + "y",
        "語" * 200,
        "語" * 199 + "文",
        "🙂",
        "🙁",
    ),
    *("a.b.trial-2", "trial-2", "a*b", "a?b", " a", "a ", "a\nb", "a.yaml", "a.yml"),
]


@pytest.mark.slow
def test_every_conversation_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Names that no file can have, that are too long, or that differ only in what some file systems do not see."""
    paths = {
        suite_folder(tmp_path, suite) / cassette_name(case, target, trial): (suite, case, target, trial)
        for suite in ("a.yaml", "a.yml", "a/a.yaml", "A.yaml", "b/a.yaml")
        for case in NAMES
        for target in NAMES
        for trial in (1, 2, 10)
    }
    assert len(paths) == 5 * len(NAMES) ** 2 * 3
    assert len({str(path).casefold() for path in paths}) == len(paths)
    for path in paths:
        assert path.resolve().is_relative_to(tmp_path)
        assert len(path.name.encode()) <= 255
        assert re.fullmatch(r"[\w.-]+", path.name), path


@pytest.mark.slow
def test_odd_names_are_recorded_and_played(project: Project) -> None:
    names = [name for name in NAMES if name.strip() == name and "\n" not in name]
    targets = [scripted("it", "yes"), scripted("IT", "yes"), scripted("a/b: c", "yes")]
    cases = [{"id": name, "prompt": name, "checks": [{"match": "yes"}]} for name in names]
    given = ("--target", "it", "--target", "IT", "--target", "a/b: c", "--repeat", "2")
    first = record(project, {"targets": targets, "evals": cases}, *given, code=0)
    assert len(first["results"]) == len(file_contents(project.folder / "cassettes")) == len(names) * 6
    assert plain(replay(project, *given, code=0)) == plain(first)


def test_two_suites_of_one_name_do_not_meet(project: Project) -> None:
    for folder, reply in (("here", "yes"), ("there", "no")):
        project.write(f"{folder}/evals.yaml", {"metadata": {"name": "colours"}, **one_case(reply)})
    first = play(project, "run", ".", "--record", "cassettes", code=0)
    assert list(file_contents(project.folder / "cassettes")) == ["here/evals/one.it.yaml", "there/evals/one.it.yaml"]
    again = play(project, "run", ".", "--replay", "cassettes", code=0)
    assert [result["turns"][0]["response"] for result in again["results"]] == ["yes", "no"]
    assert plain(again) == plain(first)
    # Of the suites that do not run, nothing is said.
    assert "stale" not in play(project, "run", "here", "--replay", "cassettes", code=0)["run"]
    # A folder of cassettes is no folder of suites.
    assert len(project.run_json("validate", ".")["files"]) == 2


# Secrets.


@pytest.mark.slow
def test_no_secret_is_in_a_cassette_and_it_plays_all_the_same(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of a target that a server repeats, and a secret of the suite's in prompts, replies and follow-ups."""
    monkeypatch.setenv("SHOP_KEY", SECRET)
    monkeypatch.setenv("REJOINDER_SECRET_CODE", "c0de-7eC0ffee51b6A9d2")

    def answer(received: Received) -> Answer:
        asked = json.dumps(received.body)
        if "Grade the candidate" in asked:
            return Answer(json.dumps({"score": 1, "reasoning": f"It said c0de-7eC0ffee51b6A9d2 to {SECRET}."}))
        return Answer(
            "It is c0de-7eC0ffee51b6A9d2." if "Again" in asked else f"Your key is {SECRET}.\nc0de-7eC0ffee51b6A9d2"
        )

    checks = [
        {"llm_judge": {"criteria": "Does it know {{ secret('code') }}?"}},
        {"match": "It is {{ secret('code') }}."},
        {"prompt": "{{ response }} Again, {{ secret('code') }}.", "checks": [{"match": "It is {{ secret('code') }}."}]},
    ]
    with FakeServer(answer) as server:
        targets = [behind(server, "it") | {"api_key": "${{ SHOP_KEY }}"}]
        case = {"id": "one", "prompt": "What is {{ secret('code') }}?", "checks": checks}
        first = record(project, {"target": "it", "targets": targets, "evals": [case]}, code=0)
    written = file_contents(project.folder / "cassettes")["evals/one.it.yaml"]
    assert b"7eC0ffee51b6A9d2" not in written
    assert b"What is <<{{ secret('code') }}>>?" in written
    assert yaml.safe_load(written)["calls"][0]["asked"] == "candidate"
    with sockets_blocked():
        assert plain(replay(project, code=0)) == plain(first)
        monkeypatch.delenv("SHOP_KEY")  # of no use any more
        assert [result["status"] for result in replay(project, code=0)["results"]] == ["passed"]
        monkeypatch.setenv("REJOINDER_SECRET_CODE", "another-7eC0ffee51b6A9d2")  # another machine's
        assert [result["status"] for result in replay(project, code=0)["results"]] == ["passed"]
        # A target that replays has them put back as well.
        suite = {
            "target": "new",
            "targets": [{"name": "new", "provider": "replay", "cassettes": "cassettes", "of": "it"}],
        }
        project.write("evals.yaml", {**suite, "evals": [case]})
        assert play(project, "run", "evals.yaml", code=0)["results"][0]["succeeded_on_turn"] == 2
    for path in (
        *project.folder.rglob("*.json*"),
        *project.folder.rglob("*.log"),
        *project.folder.rglob("cassettes/*"),
    ):
        assert path.is_dir() or b"7eC0ffee51b6A9d2" not in path.read_bytes(), path


def test_words_of_ours_are_never_taken_for_secrets(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REJOINDER_SECRET_CODE", "candidate")
    first = record(project, one_case("the candidate", prompt="{{ secret('code') }}"), code=0)
    written = yaml.safe_load(file_contents(project.folder / "cassettes")["evals/one.it.yaml"])
    assert (written["calls"][0]["asked"], written["calls"][0]["messages"][0]["role"]) == ("candidate", "user")
    assert "candidate" not in written["calls"][0]["reply"]["text"]
    assert plain(replay(project, code=0)) == plain(first)


# What they answer.


@pytest.mark.slow
def test_what_any_run_records_plays_like_it(project: Project, module: Callable[[str], str]) -> None:
    name = module(
        "def either(context): return {'score': len(context.reply) % 3 / 2, 'reason': context.reply or 'nothing'}\n"
        "def fails(context): raise RuntimeError('no verdict')\n"
    )

    @bounded(60)
    @given(suites(name))
    def check(drawn: tuple[Raw, list[str]]) -> None:
        suite, options = drawn
        first = record(project, suite, *options)
        again = replay(project, *options)
        assert plain(again) == plain(first)
        assert "stale" not in again["run"]
        written = file_contents(project.folder / "cassettes")
        play(project, "run", "evals.yaml", "--record", "cassettes", *options)
        assert file_contents(project.folder / "cassettes") == written
        shutil.rmtree(project.folder / "cassettes")
        shutil.rmtree(project.folder / ".rejoinder" / "runs")

    check()


def test_a_reply_edited_by_hand_is_the_reply(project: Project) -> None:
    """In the first turn, too: what follows goes on from the edited one."""
    checks = [{"match": "yes"}, {"prompt": "Surely?", "checks": [{"match": "yes"}]}]
    record(project, one_case("no", "yes", checks=checks), code=0)
    path = project.folder / "cassettes" / "evals" / "one.it.yaml"
    change(path, "text: 'no'\n", "text: not yet\n")
    [result] = replay(project, "--include", "messages", code=0)["results"]
    assert [turn["response"] for turn in result["turns"]] == ["not yet", "yes"]
    assert result["turns"][1]["messages"][1] == {"role": "assistant", "content": "not yet"}
    change(path, "text: not yet\n", "text: yes\n")  # people forget the quotes
    again = replay(project, code=0)
    assert [turn["response"] for turn in again["results"][0]["turns"]] == ["yes"]
    assert again["run"]["stale"] == ["evals/one.it.yaml: turn 2 of `it`"]
    change(path, "text: yes\n    usage:\n      output_tokens: 1\n- asked", "text: maybe\n- asked")
    change(path, "text: 'yes'", "text: never")
    assert replay(project, code=1)["results"][0]["status"] == "failed"


def test_a_judge_is_not_asked_about_a_reply_that_it_never_saw(project: Project) -> None:
    suite = one_case("Hello.", checks=[{"llm_judge": {"criteria": "Polite?"}}])
    suite["targets"][0]["judge"] = [1]
    record(project, suite, code=0)
    change(project.folder / "cassettes" / "evals" / "one.it.yaml", "text: Hello.", "text: Go away.")
    message = replay(project, code=3)["results"][0]["error"]["message"]
    assert "-Hello.\n+Go away." in message


def test_a_failure_is_recorded_with_its_attempts(project: Project) -> None:
    busy = {"error": "busy", "retryable": True}
    suite = one_case(busy, busy, busy, busy)
    suite["targets"][0] |= {"max_retries": 2, "retry_initial_delay_ms": 0}
    first = record(project, suite, code=3)
    [call] = yaml.safe_load(file_contents(project.folder / "cassettes")["evals/one.it.yaml"])["calls"]
    assert (call["attempts"], call["failure"]["message"]) == (3, "busy (tried 3 times)")
    assert plain(replay(project, code=3)) == plain(first)


@pytest.mark.slow
def test_checks_of_ones_own_run_again(project: Project, module: Callable[[str], str]) -> None:
    """They are part of what is tested, so they say what they say now."""
    name = module("calls = []\ndef either(context):\n    calls.append(1)\n    return len(calls) == 1\n")
    project.write("check.py", "import pathlib\nprint('{\"score\": %d}' % (not pathlib.Path('no').exists()))\n")
    checks = [{"python": f"{name}:either"}, {"code": f"{sys.executable} check.py"}]
    record(project, one_case("yes", checks=checks), code=0)
    assert b"work" not in file_contents(project.folder / "cassettes")["evals/one.it.yaml"]
    project.write("no", "")
    [result] = replay(project, code=1)["results"]
    assert [check["passed"] for check in result["turns"][0]["checks"]] == [False, False]
    assert sys.modules[name].calls == [1, 1]


WEBHOOK = """
import http.server, json, pathlib, sys
class Grader(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        told = json.loads(self.rfile.read(int(self.headers["content-length"])))
        pathlib.Path("graded").open("a").write("x")
        body = json.dumps({"score": 0.75, "reason": f"{told['candidate_answer']} is fine"}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Grader)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.mark.slow
def test_webhooks_are_answered_from_the_cassette(project: Project) -> None:
    """With what they were sent, but for what is another on each machine: so another reply is not graded by them."""
    project.write("files/team.instructions.md", "Be polite.")
    process = subprocess.Popen([sys.executable, "-c", WEBHOOK], stdout=subprocess.PIPE, cwd=project.folder)
    try:
        assert process.stdout is not None
        address = f"http://127.0.0.1:{int(process.stdout.readline())}/grade"
        content = [{"type": "file", "value": "files/team.instructions.md"}, {"type": "text", "value": "Hi!"}]
        case = {"id": "one", "input_messages": [{"role": "user", "content": content}]}
        suite = one_case("Hello.", checks=[{"webhook": {"url": address, "headers": {"Authorization": SECRET}}}])
        suite["evals"][0] = {**case, "checks": suite["evals"][0]["checks"]}
        first = record(project, suite, code=0)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    path = project.folder / "cassettes" / "evals" / "one.it.yaml"
    written = path.read_text(encoding="utf-8")
    assert SECRET not in written
    assert str(project.folder) not in written
    assert '"candidate_answer": "Hello."' in written
    with sockets_blocked():
        assert plain(replay(project, code=0)) == plain(first)
        assert (project.folder / "graded").read_text() == "x"
        change(path, "text: Hello.", "text: Go away.")
        message = replay(project, code=3)["results"][0]["error"]["message"]
    assert '-  "candidate_answer": "Hello.",\n+  "candidate_answer": "Go away.",' in message


# What is not needed any more.


@pytest.mark.slow
def test_stale_recordings_are_named(project: Project) -> None:
    first = record(project, SIMPLE, "--repeat", "2", code=0)
    assert "stale" not in replay(project, "--repeat", "2", code=0)["run"]
    suite = json.loads(json.dumps(SIMPLE))
    suite["evals"] = suite["evals"][:2]
    suite["evals"][0]["checks"] = [{"match": "no"}]  # passes in its first turn
    suite["evals"][1]["checks"] = [{"match": "no"}]  # needs no judge
    project.write("evals.yaml", suite)
    again = replay(project, code=0)
    assert again["run"]["stale"] == [
        "evals/one.it.yaml: turn 2 of `it`",
        "evals/two.it.yaml: turn 1 of `it` (judge)",
        "evals/one.it.trial-2.yaml: no call used it",
        "evals/three.it.trial-2.yaml: no call used it",
        "evals/three.it.yaml: no call used it",
        "evals/two.it.trial-2.yaml: no call used it",
    ]
    text = project.run("run", "--verbose", "evals.yaml", "--replay", "cassettes")
    assert "WARN evals/one.it.yaml: turn 2 of `it`\nWARN evals/two.it.yaml: turn 1" in text
    assert project.run_json("show", again["run"]["id"])["run"]["stale"] == again["run"]["stale"]
    # A run of a part says nothing about the rest.
    for part in (("--case", "two"), ("--limit", "1"), ("--target", "it")):
        assert all("nobody" not in one for one in replay(project, *part, code=0)["run"]["stale"])
    assert "stale" not in first["run"]


def test_many_stale_recordings_do_not_fill_the_screen(project: Project) -> None:
    cases = [{"id": f"c{number:02}", "prompt": "Hi!", "checks": [{"match": "*"}]} for number in range(30)]
    suite = {"target": "it", "targets": [scripted("it", "yes")], "evals": cases}
    record(project, suite, code=0)
    project.write("evals.yaml", {**suite, "evals": cases[:1]})
    text = project.run("run", "--verbose", "evals.yaml", "--replay", "cassettes")
    assert (text.count("no call used it"), "and 19 more recordings that no call used" in text) == (10, True)


def test_what_is_left_of_a_miss_is_stale_until_it_is_mended(project: Project) -> None:
    record(project, SIMPLE, code=0)
    path = project.folder / "cassettes" / "evals" / "one.it.yaml"
    good = path.read_bytes()
    change(path, "content: Think again.", "content: Think twice.")
    broken = replay(project, code=3)
    assert broken["run"]["stale"] == ["evals/one.it.yaml: turn 2 of `it`"]
    path.write_bytes(good)
    mended = play(project, "resume", broken["run"]["id"], code=0)
    assert mended["run"].get("stale", []) == []
    assert mended["summary"]["passed"] == 3


# Files that are not what they should be.

DAMAGED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is not a cassette"),
    "text": (b"Dear diary", "is not a cassette"),
    "another document": (b"evals:\n- prompt: Hi!\n", "is not a cassette: Object"),
    "no YAML": (b"format: 1\n  calls: [\n", "is not a cassette: line 2"),
    "no UTF-8": (b"format: 1\ncalls: \xff\xfe\n", "is not a cassette"),
    "another format": (
        b"format: 2\nsuite: s\ncase: c\ntarget: t\ncalls: []\n",
        "has format 2, and this version reads 1",
    ),
    "an unknown key": (b"format: 1\nsuite: s\ncase: c\ntarget: t\ncalls: []\nreply: x\n", "unknown field `reply`"),
    "a call without an answer": (
        b"format: 1\nsuite: s\ncase: c\ntarget: t\ncalls:\n- {asked: candidate, of: it, turn: 1}\n",
        "either `reply` or `failure` is expected - at `$.calls[0]`",
    ),
    "a number as reply": (
        b"format: 1\nsuite: s\ncase: c\ntarget: t\ncalls:\n- {asked: candidate, of: it, turn: 1, reply: {text: 42}}\n",
        "Expected `str`, got `int` - at `$.calls[0].reply.text`",
    ),
    "deep": (b"format: 1\ncalls: " + b"[" * 5000, "is not a cassette"),
    "aliases": (
        b"a: &a [x]\n" + b"".join(b"%c: &%c [*%c, *%c, *%c]\n" % (n + 1, n + 1, n, n, n) for n in range(97, 120)),
        "is not a cassette",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_file_that_is_no_cassette_is_an_error_of_its_conversation(project: Project, damage: str) -> None:
    content, reason = DAMAGED[damage]
    first = record(project, SIMPLE, code=0)
    path = project.folder / "cassettes" / "evals" / "two.it.yaml"
    path.write_bytes(content)
    document = replay(project, code=3)
    error = by_case(document)["two"]["error"]
    assert (error["type"], str(path) in error["message"], reason in error["message"]) == ("no-recording", True, True), (
        error
    )
    assert "Traceback" not in (project.folder / ".rejoinder" / "runs" / document["run"]["id"] / "run.log").read_text()
    for name in ("one", "three"):
        assert by_case(document)[name]["status"] == by_case(first)[name]["status"]
    # A target that replays needs them all.
    suite = {**SIMPLE, "targets": [{"name": "it", "provider": "replay", "cassettes": "cassettes"}]}
    project.write("evals.yaml", suite)
    refusal = refused(project, "run", "evals.yaml")
    assert (refusal.exit_code, reason in refusal.message) == (2, True)


def test_a_file_that_is_gone_or_cannot_be_read(project: Project) -> None:
    record(project, SIMPLE, code=0)
    folder = project.folder / "cassettes" / "evals"
    (folder / "one.it.yaml").unlink()
    (folder / "two.it.yaml").unlink()
    (folder / "two.it.yaml").mkdir()
    document = replay(project, code=3)
    assert {name: result["status"] for name, result in by_case(document).items()} == {
        "one": "error",
        "two": "error",
        "three": "passed",
    }
    message = by_case(document)["one"]["error"]["message"]
    assert message.startswith(f"there is no cassette {folder / 'one.it.yaml'}; `run --record")


# Folders.


def test_a_folder_that_cannot_be_written_is_found_out_before_anything_is_sent(
    project: Project, module: Callable[[str], str]
) -> None:
    name = module("calls = []\ndef reply(request):\n    calls.append(1)\n    return 'yes'\n")
    target = {"name": "it", "provider": "python", "call": f"{name}:reply"}
    project.write("evals.yaml", one_case() | {"targets": [target]})
    project.write("taken", "a file")
    for folder in ("taken", "taken/below"):
        refusal = refused(project, "run", "evals.yaml", "--record", folder)
        assert (refusal.exit_code, "cannot be written" in refusal.message) == (2, True)
    assert name not in sys.modules or sys.modules[name].calls == []
    runs = project.folder / ".rejoinder" / "runs"
    assert not runs.exists() or [path for path in runs.iterdir() if path.is_dir()] == []


def test_what_was_answered_is_not_lost_where_a_cassette_cannot_be_written(project: Project) -> None:
    """The folder is there, and a place in it is taken: the run stops, and goes on when there is room."""
    project.write("evals.yaml", SIMPLE)
    place = project.folder / "cassettes" / "evals" / "two.it.yaml"
    place.mkdir(parents=True)
    refusal = refused(project, "run", "evals.yaml", "--record", "cassettes", "--workers", "1")
    assert str(place) in refusal.message
    assert "rejoinder resume" in str(refusal.hint)
    place.rmdir()
    done = play(project, "resume", "last", code=0)
    assert done["summary"]["passed"] == 3
    assert list(file_contents(project.folder / "cassettes")) == [
        f"evals/{name}.it.yaml" for name in ("one", "three", "two")
    ]
    assert plain(replay(project, code=0)) == plain(done)


@pytest.mark.slow
def test_a_recording_that_was_cut_off_is_completed_by_resume(project: Project, module: Callable[[str], str]) -> None:
    """Conversations that were had before have their cassettes as well."""
    name = module("def reply(request): return 'yes'")
    target = {"name": "it", "provider": "python", "call": f"{name}:reply"}
    suite = {**SIMPLE, "targets": [target, scripted("judge", judge=[1])], "judge_target": "judge"}
    project.write("evals.yaml", suite)
    given = ("--workers", "1", "--record", "cassettes")
    ended = run_process(project.folder, "run", "evals.yaml", *given, REJOINDER_KILL_AT="conversation.finished:2")
    assert ended.code == KILLED
    shutil.rmtree(project.folder / "cassettes")
    done = play(project, "resume", "last")
    assert len(file_contents(project.folder / "cassettes")) == 3
    assert plain(replay(project)) == plain(done)


def test_options_that_contradict_each_other_are_refused(project: Project) -> None:
    record(project, SIMPLE, code=0)
    for more in (("--cache",), ("--cache-ttl", "1d"), ("--record", "other")):
        error = refused(project, "run", "evals.yaml", "--replay", "cassettes", *more)
        assert (error.exit_code, "a replay answers only from cassettes" in error.message) == (2, True)
    result = project.invoke("run", "evals.yaml", "--replay", "nowhere")
    assert (result.exit_code, "there is no folder nowhere" in result.stderr) == (2, True)


@pytest.mark.slow
def test_a_run_from_cassettes_is_a_run_like_any_other(project: Project) -> None:
    first = record(project, SIMPLE, code=0)
    again = replay(project, code=0)
    name = again["run"]["id"]
    assert play(project, "show", name) == again
    assert essence(play(project, "replay", name, code=0))["results"] == again["results"]
    place = project.folder / "cassettes" / "evals" / "three.it.yaml"
    kept = place.read_bytes()
    place.unlink()
    broken = replay(project, code=3)
    # Taken up, it asks nothing but its cassettes; and what it was told stands, even where they are gone.
    assert play(project, "resume", "last", code=3)["results"] == broken["results"]
    place.write_bytes(kept)
    mended = play(project, "resume", "last", code=0)
    assert plain(mended) == plain(first)
    shutil.rmtree(project.folder / "cassettes")
    assert play(project, "resume", mended["run"]["id"], code=0)["results"] == mended["results"]


def test_a_folder_in_which_nothing_may_be_written_can_be_played_from(project: Project) -> None:
    record(project, SIMPLE, code=0)
    folder = project.folder / "cassettes"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    for path in before:
        path.chmod(stat.S_IREAD | (stat.S_IEXEC if path.is_dir() else 0))
    try:
        replay(project, code=0)
        assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    finally:
        for path in before:
            path.chmod(stat.S_IRWXU)


# Targets that replay.

REPLAYING = {"name": "recorded", "provider": "replay", "cassettes": "cassettes"}


@pytest.mark.slow
def test_a_target_may_answer_from_cassettes(project: Project) -> None:
    """As candidate under another name, with retries and errors as they were; what it does not have is an error."""
    suite = json.loads(json.dumps(SIMPLE))
    suite["targets"][0]["judge"] = [1]
    first = record(project, suite, "--repeat", "2", code=0)
    suite["targets"] = [{**REPLAYING, "of": "it"}, scripted("judge", judge=[1])]
    suite |= {"target": "recorded", "judge_target": "judge"}
    project.write("evals.yaml", suite)
    again = play(project, "run", "evals.yaml", "--repeat", "2", code=0)
    said = [[turn["response"] for turn in result["turns"]] for result in again["results"]]
    assert said == [[turn["response"] for turn in result["turns"]] for result in first["results"]]
    third = play(project, "run", "evals.yaml", "--repeat", "3", code=3)
    assert [result["status"] for result in third["results"]] == ["passed", "passed", "error"] * 3
    assert "has no cassette for case `one`, trial 3" in third["results"][2]["error"]["message"]
    suite["evals"][0]["checks"][1]["prompt"] = "Think twice."
    project.write("evals.yaml", suite)
    error = by_case(play(project, "run", "evals.yaml", code=3))["one"]["error"]
    assert (error["type"], "-Think again.\n+Think twice." in error["message"]) == ("no-recording", True)
    text = project.run("run", "evals.yaml", code=3)
    assert "    -Think again.\n    +Think twice.\n" in text


def test_a_target_that_replays_may_judge_embed_and_be_compared_with(project: Project) -> None:
    checks = [
        {"llm_judge": {"criteria": "Polite?", "votes": 2, "combine": "mean"}},
        {"semantic": {"expected": "hello", "threshold": 0.5}},
        {"compare": {"reply_of": "rival"}},
    ]
    verdicts = [0.75, 1, '{"better": "1"}', '{"better": "2"}']
    suite = one_case("Hello.", checks=checks) | {"judge_target": "judge", "embedding_target": "meaning"}
    suite["targets"] += [
        scripted("judge", judge=verdicts),
        scripted("meaning", embeddings={"*": [1, 0]}),
        scripted("rival", "Go away."),
    ]
    first = record(project, suite, code=0)
    suite["targets"][1:] = [{**REPLAYING, "name": name} for name in ("judge", "meaning", "rival")]
    project.write("evals.yaml", suite)
    again = play(project, "run", "evals.yaml", code=0)
    assert plain(again)[0] == plain(first)[0]


@pytest.mark.parametrize("written", ["beside the suite", "in the project"])
def test_the_folder_is_looked_for_beside_the_suite_and_in_the_project(project: Project, written: str) -> None:
    project.write("suites/evals.yaml", SIMPLE)
    play(project, "run", "suites/evals.yaml", "--record", "cassettes", code=0)
    if written == "beside the suite":
        (project.folder / "cassettes").rename(project.folder / "suites" / "cassettes")
    suite = {**SIMPLE, "target": "recorded", "targets": [{**REPLAYING, "of": "it"}]}
    project.write("suites/evals.yaml", suite)
    document = play(project, "run", "suites/evals.yaml", code=0)
    assert document["summary"]["passed"] == 3


def test_a_folder_that_is_not_there_is_named(project: Project) -> None:
    project.write("evals.yaml", {**SIMPLE, "targets": [{**REPLAYING, "name": "it"}]})
    refusal = refused(project, "run", "evals.yaml")
    assert refusal.message == "target `it` replays cassettes, and there is no folder `cassettes`"
    assert "--record" in str(refusal.hint)
    assert refusal.exit_code == 2
    broken = {**SIMPLE, "targets": [{"name": "it", "provider": "replay"}]}
    assert [one["code"] for one in project.errors(broken)] == ["missing-field"]


# Whose cassettes they are.


def saying(word: str, **more: Any) -> Raw:
    """A suite that asks the same as any other of these, and is told something of its own."""
    targets = [scripted("it", word), {**REPLAYING, "of": "it"}]
    checks = [{"contains": word}]
    return {"target": "it", "targets": targets, "evals": [{"id": "one", "prompt": "Hi!", "checks": checks}], **more}


def test_a_target_that_replays_has_the_cassettes_of_its_own_suite(project: Project) -> None:
    for name in ("alpha", "beta", "gamma"):
        project.write(f"{name}.yaml", saying(name))
    play(project, "run", "alpha.yaml", "beta.yaml", "--record", "cassettes", code=0)
    for names in (["alpha.yaml"], ["beta.yaml"], ["alpha.yaml", "beta.yaml"]):
        document = play(project, "run", *names, "--target", "recorded", code=0)
        assert "stale" not in document["run"]
    [result] = play(project, "run", "gamma.yaml", "--target", "recorded", code=3)["results"]
    assert (result["error"]["type"], "cassettes/gamma has no cassette" in result["error"]["message"]) == (
        "no-recording",
        True,
    )


def test_a_target_that_replays_names_what_is_stale(project: Project) -> None:
    checks = [{"contains": "two"}, {"prompt": "More?", "checks": [{"contains": "two"}]}]
    cases = [{"id": name, "prompt": name, "checks": checks} for name in ("a", "b")]
    suite = {"target": "it", "targets": [scripted("it", "one", "two")], "evals": cases}
    record(project, suite, code=0)
    changed = {**suite, "targets": [{**REPLAYING, "name": "it"}], "evals": [{**cases[0], "checks": checks[:1]}]}
    project.write("evals.yaml", changed)
    document = play(project, "run", "evals.yaml", code=1)
    assert document["run"]["stale"] == ["evals/a.it.yaml: turn 2 of `it`", "evals/b.it.yaml: no call used it"]
    chosen = play(project, "run", "evals.yaml", "--case", "a", code=1)  # who asks for less says nothing of the rest
    assert chosen["run"]["stale"] == ["evals/a.it.yaml: turn 2 of `it`"]


def test_suites_of_two_projects_do_not_share_a_cassette(project: Project) -> None:
    for name in ("one", "two"):
        (project.folder / name / ".rejoinder").mkdir(parents=True)
        project.write(f"{name}/evals.yaml", saying(name))
    both = ("one/evals.yaml", "two/evals.yaml")
    play(project, "run", *both, "--record", "cassettes", code=0)
    assert len(file_contents(project.folder / "cassettes")) == 2
    for names in (both, both[:1], both[1:], both[::-1]):
        assert "stale" not in play(project, "run", *names, "--replay", "cassettes", code=0)["run"]
    # Recorded again alone, it is written where it is found.
    before = file_contents(project.folder / "cassettes")
    play(project, "run", both[1], "--record", "cassettes", code=0)
    assert file_contents(project.folder / "cassettes") == before


def test_one_project_has_its_cassettes_by_the_names_of_its_suites(project: Project) -> None:
    project.write("evals.yaml", saying("one"))
    project.write("sub/evals.yaml", saying("two"))
    play(project, "run", "evals.yaml", "sub/evals.yaml", "--record", "cassettes", code=0)
    assert list(file_contents(project.folder / "cassettes")) == ["evals/one.it.yaml", "sub/evals/one.it.yaml"]


def test_projects_of_the_same_name_are_refused_before_anything_is_asked(project: Project) -> None:
    for name in ("here", "there"):
        (project.folder / name / "shop" / ".rejoinder").mkdir(parents=True)
        project.write(f"{name}/shop/evals.yaml", saying(name))
    both = ("here/shop/evals.yaml", "there/shop/evals.yaml")
    error = refused(project, "run", *both, "--record", "cassettes")
    assert (error.exit_code, "would share their cassettes" in error.message) == (2, True)
    assert file_contents(project.folder / "cassettes") == {}
    play(project, "run", *both, code=0)


# A model that the environment names.


def test_a_cassette_names_the_model_that_was_asked(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "gpt-5-mini")
    with FakeServer("yes") as server:
        suite = one_case(checks=[{"contains": "yes"}])
        suite["targets"] = [behind(server, "it", model="${{ MODEL }}", api_key="k")]
        record(project, suite, code=0)
        path = project.folder / "cassettes" / "evals" / "one.it.yaml"
        assert "  model: gpt-5-mini\n" in path.read_text(encoding="utf-8").partition("reply:")[0]
    replay(project, code=0)
    monkeypatch.setenv("MODEL", "gpt-5")
    [result] = replay(project, code=3)["results"]
    assert "-model gpt-5-mini\n+model gpt-5" in result["error"]["message"]
    monkeypatch.delenv("MODEL")
    replay(project, code=0)  # no name says which one is meant, so it is the one that was asked
    change(path, "  model: gpt-5-mini\n  turn", "  model: ${{ MODEL }}\n  turn")
    monkeypatch.setenv("MODEL", "gpt-5")
    replay(project, code=0)  # as older ones were written


def test_a_run_is_not_taken_up_with_another_model(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "gpt-5-mini")
    with FakeServer("yes") as server:
        suite = one_case(checks=[{"contains": "yes"}])
        suite["targets"] = [behind(server, "it", model="${{ MODEL }}", api_key="k")]
        project.write("evals.yaml", suite)
        first = play(project, "run", "evals.yaml", code=0)
        monkeypatch.setenv("MODEL", "gpt-5")
        error = refused(project, "resume", "last")
        for words in (first["run"]["id"], "`gpt-5-mini`", "`gpt-5`", "target `it`"):
            assert words in error.message
        assert (error.exit_code, "${{ MODEL }}" in str(error.hint)) == (2, True)
        assert len(server.requests) == 1
        # One that the suite itself names is another target, and is asked anew.
        suite["targets"][0]["model"] = "gpt-5"
        project.write("evals.yaml", suite)
        play(project, "resume", "last", code=0)
        assert [one.body["model"] for one in server.requests] == ["gpt-5-mini", "gpt-5"]


def test_targets_of_one_name_in_two_suites_have_models_of_their_own(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeServer("yes") as server:
        for name in ("ONE", "TWO"):
            monkeypatch.setenv(name, f"model-{name}")
            suite = one_case(checks=[{"contains": "yes"}])
            suite["targets"] = [behind(server, "it", model=f"${{{{ {name} }}}}", api_key="k")]
            project.write(f"{name.lower()}.yaml", suite)
        play(project, "run", "one.yaml", "two.yaml", code=0)
        play(project, "resume", "last", code=0)
        assert len(server.requests) == 2


# Taken up after a crash.


def cut_off(document: Raw, answers: int) -> None:
    """Leave a run as it is when its process is killed after so many answers."""
    folder = Path(document["run"]["folder"])
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    told = [number for number, line in enumerate(lines) if b'"type":"told"' in line]
    (folder / "journal.jsonl").write_bytes(b"".join(lines[: told[answers - 1] + 1]))
    for name in ("results.jsonl", "summary.json"):
        (folder / name).unlink()
    run = json.loads((folder / "run.json").read_bytes())
    (folder / "run.json").write_text(json.dumps({**run, "status": "running"}))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["cassettes", "target", "fork"])
def test_votes_that_were_played_before_a_crash_are_not_played_again(project: Project, way: str) -> None:
    checks = [{"llm_judge": {"criteria": "Good?", "votes": 4}}, {"prompt": "More?", "checks": [{"contains": "x"}]}]
    suite = one_case("one", "two", checks=checks) | {"judge_target": "judge"}
    suite["targets"].append(scripted("judge", judge=[0.1, 0.2, 0.3, 0.4]))
    first = record(project, suite, code=1)
    if way == "fork":
        again = ("fork", first["run"]["id"], "--case", "one", "--turn", "2")
    else:
        again = ("run", "evals.yaml", *(("--replay", "cassettes") if way == "cassettes" else ()))
    if way == "target":
        suite["targets"] = [{**REPLAYING, "name": name} for name in ("it", "judge")]
        project.write("evals.yaml", suite)
    for answers in range(1, 6):
        whole = play(project, *again, code=1)
        cut_off(whole, answers)
        resumed = play(project, "resume", whole["run"]["id"], code=1)
        [result] = resumed["results"]
        assert result["turns"][0]["checks"][0]["votes"] == [0.1, 0.2, 0.3, 0.4], answers
        assert resumed["run"].get("stale") == whole["run"].get("stale")


# The examples.


@pytest.mark.parametrize("chosen", ["scripted", pytest.param("local", marks=pytest.mark.long)])
def test_all_examples_run_from_cassettes_without_a_network(
    project: Project, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    shutil.copytree(EXAMPLES, project.folder / "examples", ignore=shutil.ignore_patterns("runs"))
    monkeypatch.chdir(project.folder / "examples")
    if chosen == "local":
        get_weights("smollm2")
        monkeypatch.chdir("local")
    else:
        shutil.rmtree("local")
        shutil.rmtree("agents")  # cassettes do not hold what checks found in a workspace
    first = play(project, "run", ".", "--record", "cassettes")
    assert first["summary"]["errors"] == 0
    assert len(file_contents(Path("cassettes"))) == len(first["results"]) > 5
    with sockets_blocked():
        again = play(project, "run", ".", "--replay", "cassettes")
        assert plain(again) == plain(first)
        assert "stale" not in again["run"]
        assert plain(play(project, "replay")) == plain(first)
