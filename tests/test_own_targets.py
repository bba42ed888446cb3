"""Targets from Python: functions, objects and mappings that a program gives beside its suites."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rejoinder
from rejoinder import Pace, Selection, UsageError
from rejoinder.model import Reply, Request, Usage
from rejoinder.model.runs import CodeOfTarget
from rejoinder.testing import FakeServer
from tests.kit import (
    Process,
    Project,
    Raw,
    behind,
    bounded,
    case,
    follow,
    journal_of,
    run_folders,
    run_process,
    scripted,
)

EVALS = [case("a", {"match": "yes"}, follow("Again.", {"match": "yes"}))]
SUITE = {"target": "of-production", "evals": EVALS}
"""A suite whose own target exists nowhere."""


def answer(request: Request) -> str:
    return "yes" if request.turn == 2 else "no"


async def answer_later(request: Request) -> str:
    await asyncio.sleep(0)
    return answer(request)


def answer_messages(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"text": "yes" if len(messages) > 1 else "no", "output_tokens": 7}


_anonymous: Callable[[Request], str] = lambda _: "yes"  # noqa: E731


class Bot:
    """A bot as a fixture makes it."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def open(self) -> None:
        self.events.append("open")

    async def reply(self, request: Request) -> Reply:
        self.events.append(f"turn {request.turn}")
        return Reply(answer(request), usage=Usage(1, 1))

    async def close(self) -> None:
        self.events.append("close")


class Session:
    """One object for each conversation."""

    def __init__(self) -> None:
        self.turns = 0

    def ask(self, prompt: str) -> str:
        assert prompt
        self.turns += 1
        return "yes" if self.turns == 2 else "no"


@pytest.fixture
def suite(project: Project) -> str:
    project.write("evals.yaml", SUITE)
    return "evals.yaml"


GIVEN: dict[str, tuple[Callable[[], Any], str, CodeOfTarget]] = {
    "function": (lambda: answer, "answer", CodeOfTarget("function", "tests.test_own_targets:answer")),
    "async": (
        lambda: answer_later,
        "answer_later",
        CodeOfTarget("async function", "tests.test_own_targets:answer_later"),
    ),
    "messages": (
        lambda: answer_messages,
        "answer_messages",
        CodeOfTarget("function", "tests.test_own_targets:answer_messages"),
    ),
    "object": (Bot, "Bot", CodeOfTarget("object", "tests.test_own_targets:Bot")),
    "method": (lambda: Bot().reply, "reply", CodeOfTarget("async function", "tests.test_own_targets:Bot.reply")),
    "class": (lambda: Session, "Session", CodeOfTarget("class", "tests.test_own_targets:Session")),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_python_objects_are_targets(suite: str, kind: str) -> None:
    make, name, code = GIVEN[kind]
    for report in (rejoinder.run(suite, target=make()), asyncio.run(rejoinder.arun(suite, target=make()))):
        assert (report.run.status, report.summary.passed) == ("completed", 1)
        assert report.results[0].target == name
        [target] = report.run.targets
        assert (target.provider, target.code and target.code.kind, target.code and target.code.call) == (
            "callable",
            code.kind,
            code.call,
        )
        assert target.code and re.fullmatch(r"[0-9a-f]{64}", target.code.digest or "")


def test_an_object_is_opened_and_closed_once(suite: str) -> None:
    bot = Bot()
    rejoinder.run(suite, target=bot, repeat=3)
    assert (bot.events[0], bot.events[-1]) == ("open", "close")
    assert (bot.events.count("open"), bot.events.count("close")) == (1, 1)


PRINTING = """
import asyncio, sys
import rejoinder

class Bot:
    async def open(self):
        print("open")

    def reply(self, request):
        print("reply")
        return "yes"

    async def close(self):
        print("close")

print("before")
if sys.argv[1] == "run":
    rejoinder.run("evals.yaml", target=Bot())
else:
    asyncio.run(rejoinder.arun("evals.yaml", target=Bot()))
print("after")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "out"), [("run", []), ("arun", ["open", "reply", "close"])])
def test_all_output_of_an_object_goes_to_one_place(suite: str, verb: str, out: list[str], project: Project) -> None:
    """Standard error under `run`, as the command line has it; under `arun` the output is the program's own."""
    project.write("program.py", PRINTING)
    done = run_process(project.folder, command=[sys.executable, "program.py", verb])
    assert done.out.split() == ["before", *out, "after"], done.err
    assert [word for word in done.err.split() if word in ("open", "reply", "close")] == (
        [] if out else ["open", "reply", "close"]
    )


@pytest.mark.parametrize("targets", [[], [scripted("a", "x"), scripted("b", "y")]])
def test_without_a_target_the_hint_names_the_argument(targets: list[Raw], project: Project) -> None:
    for verb in (rejoinder.run, rejoinder.estimate):
        with pytest.raises(UsageError) as raised:
            verb({"targets": targets, "evals": [case("c")]} if targets else {"evals": [case("c")]})
        assert (raised.value.hint or "").startswith("Give `target=`: a name,")


def test_async_functions_are_called_on_the_loop_of_their_client_and_blocking_ones_in_a_thread(suite: str) -> None:
    async def play() -> None:
        loop, here = asyncio.get_running_loop(), threading.get_ident()
        client: asyncio.Queue[str] = asyncio.Queue()  # as a client of a fixture, it belongs to this loop
        client_loop: list[bool] = []

        async def ask(request: Request) -> str:
            client_loop.append(asyncio.get_running_loop() is loop)
            asyncio.get_running_loop().call_soon(client.put_nowait, answer(request))
            return await client.get()

        def block(request: Request) -> str:
            client_loop.append(threading.get_ident() != here)
            time.sleep(0.2)
            return answer(request)

        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.02)
                ticks += 1

        assert (await rejoinder.arun(suite, target=ask)).summary.passed == 1
        ticking = asyncio.create_task(tick())
        assert (await rejoinder.arun(suite, target=block)).summary.passed == 1
        ticking.cancel()
        assert client_loop == [True] * 4
        assert ticks >= 5

    asyncio.run(play())


def test_close_is_called_after_a_failure_and_after_a_cancellation(project: Project) -> None:
    class Slow(Bot):
        def __init__(self) -> None:
            super().__init__()
            self.is_asked = asyncio.Event()

        async def reply(self, request: Request) -> Reply:
            self.is_asked.set()
            await asyncio.sleep(60)
            return await super().reply(request)

    project.write("evals.yaml", SUITE)

    async def play() -> None:
        bot = Slow()
        task = asyncio.create_task(rejoinder.arun("evals.yaml", target=bot))
        await bot.is_asked.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bot.events == ["open", "close"]

    asyncio.run(play())

    class Failing(Bot):
        async def reply(self, request: Request) -> Reply:
            raise ValueError("no database")

    bot = Failing()
    assert rejoinder.run("evals.yaml", target=bot).summary.errors == 1
    assert bot.events == ["open", "close"]


def test_open_that_fails_ends_the_target_and_close_that_fails_loses_nothing(project: Project) -> None:
    class Closed:
        asked = 0

        def open(self) -> None:
            raise ConnectionError("no database")

        def reply(self, request: Request) -> str:
            self.asked += 1
            return answer(request)

        def close(self) -> None:
            raise AssertionError("it was never open")

    project.write("evals.yaml", {**SUITE, "evals": [case(f"c{number}", {"match": "no"}) for number in range(20)]})
    bot = Closed()
    report = rejoinder.run("evals.yaml", target=bot, pace=Pace(workers=1))
    assert bot.asked == 0
    assert report.run.given_up[0].target == "Closed"
    assert "no database" in next(iter(report.results)).error.message  # pyright: ignore

    class Stuck(Closed):
        def open(self) -> None: ...

    report = rejoinder.run("evals.yaml", target=Stuck())
    assert report.summary.passed == 20
    assert "it was never open" in (report.folder.path / "run.log").read_text()


def test_a_given_target_replaces_those_of_suites_cases_and_loaded_suites(project: Project) -> None:
    own = [scripted("answer", "yes"), scripted("judge", '{"score": 1}')]
    project.write(
        "evals.yaml", {"targets": own, "target": "answer", "evals": [{**EVALS[0], "execution": {"target": "answer"}}]}
    )
    for suite in ("evals.yaml", rejoinder.load("evals.yaml")):
        report = rejoinder.run(suite, target=answer)
        assert report.results[0].target == "answer-2"  # the suite's own keeps its name
        assert report.results[0].turns[0].response == "no"
    mapping = {**scripted("answer", "no", "no")}
    for suite in ("evals.yaml", rejoinder.load("evals.yaml")):
        report = rejoinder.run(suite, target=mapping)
        assert (report.results[0].target, report.summary.failed) == ("answer", 1)
    assert rejoinder.run("evals.yaml", target="answer").summary.passed == 1


def test_names_come_from_the_object(suite: str) -> None:
    class Named:
        name = "my bot / v2"

        def __call__(self, request: Request) -> str:
            return answer(request)

    def name_of(target: Any) -> str:
        return rejoinder.run(suite, target=target).results[0].target

    assert name_of(Named()) == "my-bot-v2"
    assert name_of(_anonymous) == "lambda"
    assert name_of({"provider": "scripted", "replies": ["yes"]}) == "scripted"


def test_the_other_verbs_of_a_run_with_a_python_object(project: Project) -> None:
    evals = [case(f"c{number}", {"match": "yes"}) for number in range(4)]
    project.write("evals.yaml", {**SUITE, "evals": evals})
    failing = {"c2", "c3"}

    def bot(request: Request) -> str:
        if request.case_id in failing:
            raise ConnectionError("not yet")
        return "yes"

    first = rejoinder.run("evals.yaml", target=bot)
    assert (first.summary.passed, first.summary.errors) == (2, 2)
    for needs_none in (rejoinder.show, rejoinder.replay, rejoinder.grade):
        assert needs_none(first).summary.passed == 2
    rejoinder.compare(first, first)
    rejoinder.gate(first, rules=["rate>=10%"])
    assert rejoinder.next_steps(first) == ()  # no command has the object
    with pytest.raises(UsageError, match=r"the Python object .*bot`.*") as raised:
        rejoinder.resume(first, retry_errors=True)
    assert "target=" in (raised.value.hint or "")
    with pytest.raises(UsageError, match="the Python object") as raised:
        rejoinder.fork(first, "c1", 1, prompt="Now?")
    assert "`target=...` of rejoinder.resume, rejoinder.fork" in (raised.value.hint or "")
    assert rejoinder.fork(first, "c1", 1, prompt="Now?", target=bot).summary.passed == 1
    failing.clear()
    done = asyncio.run(rejoinder.aresume(first, retry_errors=True, target=bot))
    assert (done.summary.passed, done.results[0].target) == (4, "bot")
    with pytest.raises(UsageError, match="the Python object"):
        project.run("resume", first.run.id)


def test_a_mapping_is_recorded_so_that_resume_needs_none(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("evals.yaml", SUITE)
    monkeypatch.setenv("THE_REPLY", "yes")
    mapping = {"provider": "scripted", "replies": ["no", "${{ THE_REPLY }}"]}
    first = rejoinder.run("evals.yaml", target=mapping)
    assert first.summary.passed == 1
    for name in ("journal.jsonl", "results.jsonl", "summary.json"):
        (first.folder.path / name).unlink()
    assert rejoinder.resume(first).summary.passed == 1
    assert project.invoke("run", "--failed-from", first.run.id).exit_code == 0
    with pytest.raises(UsageError, match="was a mapping"):
        rejoinder.resume(first, target=answer)


def test_a_literal_secret_of_a_mapping_is_hidden_and_given_again(project: Project) -> None:
    project.write("evals.yaml", {**SUITE, "evals": [case("a")]})
    secret = "sk-a-secret-of-some-length-0123456789"
    with FakeServer(key=secret) as server:
        mapping = behind(server, "it", api_key=secret)
        first = rejoinder.run("evals.yaml", target=mapping)
        assert first.summary.passed == 1
        for path in first.folder.path.iterdir():
            assert secret.encode() not in path.read_bytes(), path
        for name in ("journal.jsonl", "results.jsonl", "summary.json"):
            (first.folder.path / name).unlink()
        with pytest.raises(UsageError, match="given with a secret"):
            rejoinder.resume(first)
        assert rejoinder.resume(first, target=mapping).summary.passed == 1


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (7, "an int is not a target"),
        (object(), "an object is not a target"),
        (Bot, "`Bot` is a class, and its objects reply"),
        (int, "the class `int` has no method `ask`"),
        ({"provider": "scripted", "replies": [object()]}, "of the type object cannot be written"),
        ({"name": 7}, "`name` is an int"),
    ],
)
def test_what_is_no_target_is_refused_in_words(suite: str, target: Any, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        rejoinder.run(suite, target=target)


def test_mistakes_in_a_mapping_are_those_of_a_suite(suite: str, project: Project) -> None:
    project.write("plain.yaml", {"targets": [scripted("it", "yes")], "target": "it", "evals": EVALS})
    for wrong in ({"provider": "scripted"}, {"provider": "openai", "modle": "x"}, {"provider": "nonsense"}):
        with pytest.raises((rejoinder.SuiteError, UsageError)):
            rejoinder.run(suite, target=wrong)
    with pytest.raises(UsageError, match="two targets"):
        rejoinder.run(suite, target=answer, selection=Selection(targets=("x",)))
    first = rejoinder.run(suite, target={"provider": "scripted", "replies": ["yes"]})
    with pytest.raises(UsageError, match="asked targets of its suites"):
        rejoinder.resume(rejoinder.run("plain.yaml"), target=answer)
    assert first.summary.passed == 1


def test_a_folder_from_elsewhere_names_no_target(project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    project.write("evals.yaml", SUITE)
    first = rejoinder.run("evals.yaml", target={"provider": "scripted", "replies": ["no", "yes"]})
    away = tmp_path_factory.mktemp("elsewhere") / first.run.id
    shutil.copytree(first.folder.path, away)
    (away / "seal").unlink()
    for name in ("journal.jsonl", "results.jsonl", "summary.json"):
        (away / name).unlink()
    with pytest.raises(UsageError, match="was started with a target that no suite has"):
        rejoinder.resume(away)


# What a program's function may do


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(float("nan")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.sampled_from(["text", "cost", "output_tokens"]), inner, max_size=3)
    ),
    max_leaves=5,
)


class Hostile(dict[str, Any]):
    def get(self, *_: Any) -> Any:
        raise RuntimeError("no")


def _endless() -> Generator[str]:
    yield "x"


ODD: list[Callable[[], Any]] = [
    lambda: Reply("x", usage=None),  # pyright: ignore
    lambda: Reply(None),  # pyright: ignore
    lambda: Reply("x", cost="much"),  # pyright: ignore
    lambda: Reply("\udcff"),
    Hostile,
    _endless,
    lambda: (_ for _ in ()).throw(SystemExit(3)),
    object,
    type,
    lambda: Usage(1, 1),
    lambda: {"text": "x", "output_tokens": True},
    lambda: asyncio.sleep(0, "x"),
]


@given(value=ANYTHING)
@bounded(200)
def test_anything_that_is_returned_ends_in_a_result_or_one_clear_error(value: Any, quick_project: Project) -> None:
    assert_clear(lambda _: value)


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_values_end_in_a_result_or_one_clear_error(quick_project: Project, number: int) -> None:
    assert_clear(lambda _: ODD[number]())


def assert_clear(bot: Callable[[Request], Any]) -> None:
    report = rejoinder.run("evals.yaml", target=bot)
    [result] = report.results
    assert report.run.status == "completed"
    if result.status == "error":
        assert result.error is not None
        assert "internal error" not in result.error.message
        assert "lambda" in result.error.message


@pytest.fixture(scope="module")
def quick_project(tmp_path_factory: pytest.TempPathFactory) -> Generator[Project]:
    folder = tmp_path_factory.mktemp("quick")
    (folder / ".git").mkdir()
    project = Project(folder)
    project.write("evals.yaml", {"evals": [case("a", {"match": "*"})]})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield project


KILLED = """
import asyncio, os, sys, rejoinder
async def bot(request):
    with open("asked", "a") as file:
        file.write(request.case_id + "\\n")
    if os.environ.get("STOPS") and request.case_id == "c3":
        await asyncio.sleep(60)
    return "yes"
async def main():
    if os.environ.get("STOPS"):
        await rejoinder.arun("evals.yaml", target=bot, pace=rejoinder.Pace(workers=1))
    else:
        report = await rejoinder.aresume(target=bot)
        print(report.run.status, report.summary.passed, report.run.in_doubt)
asyncio.run(main())
"""


@pytest.mark.slow
def test_a_killed_run_is_finished_by_resume_with_its_target(project: Project) -> None:
    project.write("evals.yaml", {**SUITE, "evals": [case(f"c{number}", {"match": "yes"}) for number in range(6)]})
    command = [sys.executable, "-c", KILLED]
    process = Process(project.folder, command=command, STOPS="1")
    asked = project.folder / "asked"
    process.wait_for(lambda: asked.exists() and "c3" in asked.read_text())
    process.kill()
    assert sum(one["type"] == "told" for one in journal_of(run_folders(project.folder)[0])) == 3
    ended = Process(project.folder, command=command).end()
    assert ended.out.split() == ["completed", "6", "1"]
    assert asked.read_text().split() == ["c0", "c1", "c2", "c3", "c3", "c4", "c5"]  # the call in doubt again
