"""Python objects that keep the conversation themselves: made, asked and left, one for each conversation."""

from __future__ import annotations

from textwrap import dedent
from typing import Any
from uuid import UUID

import pytest

from tests.kit import Project, Raw, case, codes, follow, only_run, run, run_refusal, spec

pytestmark = spec("P44")

CLASS = """\
class Bot:
    def __init__(self):
        self.said = []

    def ask(self, prompt):
        self.said.append(prompt)
        return f"{len(self.said)}: {prompt}"
"""


def planned(*prompts: str) -> Raw:
    words = prompts or ("Hello", "And then?", "Bye")
    turns = [{"prompt": text, "checks": [{"match": f"{number}: *"}]} for number, text in enumerate(words, 1)]
    return {"id": "one", "turns": turns}


def suite(*cases: Raw, call: str = "bot:Bot", **more: Any) -> Raw:
    target = {"name": "bot", "provider": "python", "call": call, **more}
    return {"targets": [target], "evals": list(cases) or [planned()]}


def notes(project: Project) -> list[str]:
    """What the code of a test has noted."""
    path = project.folder / "notes.txt"
    return path.read_text().splitlines() if path.exists() else []


def write(project: Project, code: str) -> None:
    """A module `bot`, with a function `note`."""
    note = 'def note(*words):\n    with open("notes.txt", "a") as file:\n        print(*words, file=file)\n\n\n'
    project.write("bot.py", note + dedent(code))


def replies(document: Raw) -> list[str]:
    [result] = document["results"]
    return [turn["response"] for turn in result["turns"]]


# What is asked

ASYNC = CLASS.replace("def ask", "async def ask")
ASYNC_MANAGED = (
    ASYNC
    + """
    async def __aenter__(self):
        note("enter")
        return self

    async def __aexit__(self, *raised):
        note("exit", raised[0])
"""
)
MANAGED = ASYNC_MANAGED.replace("async def", "def").replace("__aenter__", "__enter__").replace("__aexit__", "__exit__")
INNER = CLASS.replace("class Bot", "class Inner")
GENERATOR = """

from contextlib import {0}contextmanager

@{0}contextmanager
{1}def Bot():
    note("enter")
    yield Inner()
    note("exit", None)
"""
KINDS = {
    "class": CLASS,
    "async class": ASYNC,
    "manager": MANAGED,
    "async manager": ASYNC_MANAGED,
    "blocking ask in an async manager": ASYNC_MANAGED.replace("async def ask", "def ask"),
    "generator": INNER + GENERATOR.format("", ""),
    "async generator": INNER + GENERATOR.format("async", "async "),
    "manager of another": INNER
    + "\n\nclass Bot:\n    def __enter__(self):\n        note('enter')\n        return Inner()\n"
    + "    def __exit__(self, *raised):\n        note('exit', None)\n",
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_for_each_conversation(kind: str, project: Project) -> None:
    write(project, KINDS[kind])
    document = run(project, suite(), "-n", "3", code=0)
    for result in document["results"]:
        assert [turn["response"] for turn in result["turns"]] == ["1: Hello", "2: And then?", "3: Bye"]
    managed = "manager" in kind or "generator" in kind
    assert sorted(notes(project)) == (["enter"] * 3 + ["exit None"] * 3 if managed else [])


def test_what_objects_are_asked(project: Project) -> None:
    write(
        project,
        """\
        class Messages:
            def ask(self, messages):
                return repr([(one["role"], one["content"]) for one in messages])

        class Requests:
            def __init__(self, request):
                note(request.conversation_id)
                self.id = request.conversation_id

            def ask(self, request):
                assert request.conversation_id == self.id
                return f"{request.turn} {request.new} {[one.content for one in request.new_messages]}"

        class Others:
            def ask(self, whatever, /):
                return type(whatever).__name__

        class Words:
            def ask(self, text, *, more=1):
                return text
        """,
    )
    two = [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}]
    steps = [{"prompt": "Hello", "checks": [{"match": "*"}]}, {"messages": two, "checks": [{"match": "*"}]}]
    asked = {"id": "one", "turns": steps}

    def said(name: str) -> list[str]:
        return replies(run(project, suite(asked, call=f"bot:{name}", system_prompt="Short."), code=0))

    assert said("Messages") == ["[('system', 'Short.'), ('user', 'Hello')]", "[('user', 'One'), ('user', 'Two')]"]
    assert said("Requests") == ["1 0 ['Short.', 'Hello']", "2 2 ['One', 'Two']"]
    assert said("Others") == ["Request", "Request"]
    assert said("Words") == ["Hello", "One\n\nTwo"]
    assert str(UUID(notes(project)[0])) == notes(project)[0]


def test_a_first_turn_with_replies_in_it_is_put_as_a_transcript(project: Project) -> None:
    write(project, CLASS)
    before = [("user", "Hi"), ("assistant", "Hello!"), ("user", "How are you?")]
    messages = [{"role": role, "content": text} for role, text in before]
    asked = {"id": "one", "input_messages": messages, "checks": [{"match": "*"}]}
    [said] = replies(run(project, suite(asked), code=0))
    assert said.startswith("1: @[User]:\nHi")
    assert "Hello!" in said and "How are you?" in said


def test_follow_ups_controls_and_trials_are_asked_of_their_own_objects(project: Project) -> None:
    write(project, CLASS.replace("    def ask", "        note('made')\n\n    def ask"))
    asked = case("one", {"match": "2: *"}, follow("Sure?", {"match": "2: *"}), control="afresh")
    document = run(project, suite(asked), "-n", "2", code=0)
    assert [turn["response"] for result in document["results"] for turn in result["turns"]] == [
        "1: Question one",
        "2: Sure?",
    ] * 2
    assert len(notes(project)) == 4


@pytest.mark.parametrize("history", ["ours", "theirs"])
def test_a_function_knows_conversations_by_their_id(history: str, project: Project) -> None:
    write(
        project,
        """\
        known = {}

        def ask(request):
            said = known.setdefault(request.conversation_id, [])
            said.append(len(request.messages))
            return f"{len(said)}: {said}"
        """,
    )
    document = run(project, suite(call="bot:ask", history=history), "-n", "2", code=0)
    counts = "[1, 1, 1]" if history == "theirs" else "[1, 3, 5]"
    assert {result["turns"][2]["response"] for result in document["results"]} == {f"3: {counts}"}


def test_one_task_and_one_thread_for_each_conversation(project: Project) -> None:
    """Scopes must be left by the task that entered them, and databases used by the thread that opened them."""
    write(
        project,
        """\
        import sqlite3
        from contextlib import AsyncExitStack

        import anyio

        class Async:
            async def __aenter__(self):
                self.scope = anyio.CancelScope()
                self.scope.__enter__()
                self.group = None
                return self

            async def ask(self, prompt):
                if self.group is None:
                    self.stack = AsyncExitStack()
                    self.group = await self.stack.enter_async_context(anyio.create_task_group())
                    self.group.start_soon(anyio.sleep_forever)
                with anyio.move_on_after(0.01):
                    await anyio.sleep(10)
                return "fine"

            async def __aexit__(self, *raised):
                self.group.cancel_scope.cancel()
                await self.stack.aclose()
                self.scope.__exit__(None, None, None)
                note("left")

        class Blocking:
            def __init__(self):
                self.database = sqlite3.connect(":memory:")

            def __enter__(self):
                self.database.execute("create table said (text)")
                return self

            def ask(self, prompt):
                self.database.execute("insert into said values (?)", (prompt,))
                return str(self.database.execute("select count(*) from said").fetchone()[0])

            def __exit__(self, *raised):
                self.database.close()
                note("left")
        """,
    )
    steps = [{"prompt": text, "checks": [{"match": "*"}]} for text in "abc"]
    asked = {"id": "one", "turns": steps}
    assert replies(run(project, suite(asked, call="bot:Async"), code=0)) == ["fine"] * 3
    assert replies(run(project, suite(asked, call="bot:Blocking"), code=0)) == ["1", "2", "3"]
    assert notes(project) == ["left", "left"]
    assert not [log for log in project.folder.rglob("run.log") if "the end of a conversation" in log.read_text()]


# What goes wrong


def failing(place: str, how: str) -> str:
    methods = dict.fromkeys(("__init__", "__enter__", "ask", "__exit__"), "pass")
    if how == "async":
        methods = {name.replace("__e", "__ae"): body for name, body in methods.items()}
    methods["ask"] = "note('asked'); return 'fine'"
    code = "class Bot:\n"
    for name, body in methods.items():
        word = "async def" if how == "async" and name != "__init__" else "def"
        what = f"raise ValueError('no {place}')" if name == place else body
        code += f"    {word} {name}(self, *{'messages' if name != 'ask' else '_'}):\n        note('{name}'); {what}\n"
    return code


@pytest.mark.parametrize("how", ["blocking", "async"])
@pytest.mark.parametrize("place", ["__init__", "__enter__", "ask", "__exit__"])
def test_errors_of_objects(place: str, how: str, project: Project) -> None:
    place = place.replace("__e", "__ae") if how == "async" else place
    write(project, failing(place, how))
    document = run(project, suite(case()), code=0 if "exit" in place else 3)
    [result] = document["results"]
    words = f"`bot:Bot` raised ValueError: no {place} (bot.py:"
    if "exit" in place:
        assert result["status"] == "passed"
    else:
        assert result["error"]["type"] == "python"
        assert words in result["error"]["message"] and f"in {place})" in result["error"]["message"]
    assert words in (only_run(project.folder) / "run.log").read_text()
    left = [note for note in notes(project) if "exit" in note]
    assert len(left) == (place not in ("__init__", "__enter__", "__aenter__"))


@pytest.mark.parametrize("how", ["blocking", "async", "in the making"])
def test_an_object_that_takes_too_long_is_left(how: str, project: Project) -> None:
    code = """\
        import asyncio, threading

        class Bot:
            {0}def {1}(self):
                note("enter")
                {2}
                return self

            {0}def ask(self, prompt):
                note("ask")
                {3}

            {0}def {4}(self, *raised):
                note("exit")
        """
    names = ("", "__enter__", "pass", "threading.Event().wait(60)", "__exit__")
    if how != "blocking":
        hang = "await asyncio.sleep(60)"
        names = ("async ", "__aenter__", *(("pass", hang) if how == "async" else (hang, "pass")), "__aexit__")
    write(project, code.format(*names))
    document = run(project, suite(case(), timeout_seconds=0.3), code=3)
    assert document["results"][0]["error"]["type"] == "timeout"
    assert document["summary"]["duration_s"] < 30
    assert notes(project) == (["enter"] if how == "in the making" else ["enter", "ask", "exit"])


def test_a_turn_that_failed_is_not_put_again(project: Project) -> None:
    code = "class Busy(Exception):\n    retryable = True\n\n\n" + CLASS.replace(
        "        return f", "        if prompt == 'And then?':\n            note('asked'); raise Busy\n        return f"
    )
    write(project, code)
    document = run(project, suite(), code=3)
    assert document["results"][0]["error"]["turn"] == 2
    assert notes(project) == ["asked"]


def test_cancellation_from_within_ends_no_run(project: Project) -> None:
    write(
        project,
        """\
        import asyncio

        class Raises:
            async def ask(self, prompt):
                raise asyncio.CancelledError

        class Cancels:
            async def ask(self, prompt):
                asyncio.current_task().cancel()
                await asyncio.sleep(1)

        class Exits:
            async def ask(self, prompt):
                raise SystemExit("enough")
        """,
    )
    said = {}
    for name in ("Raises", "Cancels", "Exits"):
        document = run(project, suite(case("a"), case("b"), call=f"bot:{name}"), code=3)
        assert document["run"]["status"] == "completed"
        said[name] = document["results"][1]["error"]["message"]
    assert "`bot:Raises` was cancelled from within" in said["Raises"]
    assert "`bot:Cancels` ended the conversation" in said["Cancels"]
    assert "`bot:Exits` raised SystemExit: enough" in said["Exits"]


def test_objects_that_cannot_be_asked(project: Project) -> None:
    write(
        project,
        """\
        from contextlib import contextmanager

        class Nothing:
            pass

        @contextmanager
        def made():
            yield Nothing()

        class Needs:
            def __init__(self, model):
                pass

            def ask(self, prompt):
                return prompt
        """,
    )
    refused = run_refusal(project, suite(case(), call="bot:Nothing"))
    assert "the class `Nothing` has no method `ask`" in refused
    document = run(project, suite(case(), call="bot:made"), code=3)
    assert "`bot:made` made Nothing, which has no `ask`" in document["results"][0]["error"]["message"]
    document = run(project, suite(case(), call="bot:Needs"), code=3)
    assert "missing 1 required positional argument: 'model'" in document["results"][0]["error"]["message"]
    assert codes(project.errors(suite(case(), history="mine"))) == ["out-of-range"]


def test_trying_an_object_leaves_it(project: Project) -> None:
    write(project, ASYNC_MANAGED)
    project.write(".rejoinder/targets.yaml", {"targets": [{"name": "bot", "provider": "python", "call": "bot:Bot"}]})
    project.run("targets", "check", code=0)
    assert notes(project) == ["enter", "exit None"]


def test_texts_of_a_class_of_their_own_are_texts(project: Project) -> None:
    write(project, "class Text(str):\n    pass\n\ndef ask(request):\n    return {'text': Text('fine')}\n")
    assert replies(run(project, suite(case(), call="bot:ask"), code=0)) == ["fine"]
