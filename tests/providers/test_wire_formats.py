"""What goes over the wire: our requests are those of the vendors' own clients, and answers are read as they are meant.

Every conversation is had twice with a fake server: by `rejoinder run`, and with the vendor's client by somebody who
knows that API and writes down what it wants. The JSON of both is compared. What may differ stands in `DIFFERENCES`,
`HEADERS` and `PATHS`, with the reason, and a difference that is no longer there is a failure too.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.errors import RejoinderError
from rejoinder.model import trim
from rejoinder.testing import Answer, Fault, Received, ToolCall
from tests.kit import Project, Raw, bounded, spec
from tests.labs.wire_lab import (
    APIS,
    BIG,
    EMPTY,
    FORMATS,
    LIMIT,
    ODD,
    Lab,
    assert_same,
    assistant,
    attached,
    blocks,
    call,
    system,
    target,
    tool,
    user,
)

pytestmark = pytest.mark.slow

Turns = list[tuple[str, str]]


# What may differ.


# Both sides.


@pytest.fixture(autouse=True)
def _nothing_left(lab: Lab) -> Iterator[None]:
    lab.script.clear()
    lab.server.reset()
    yield
    assert not lab.script


def run(project: Project, suite: Raw, *arguments: str, code: int = 0) -> list[Raw]:
    """The results of a suite, every one of which had its answer."""
    project.write("evals.yaml", suite)
    document = project.run_json("run", "--max-retries", "0", *arguments, code=code)
    for result in document["results"]:
        assert result["error"] is None or code == 3, result["error"]
    return document["results"]


# Conversations.


@dataclass(frozen=True)
class Conversation:
    messages: list[Raw]
    """As a suite has them."""
    sent: list[Raw] = field(default_factory=list)
    """As an expert on the suite's meaning writes them; the same, if there is nothing to say."""
    suite: Raw = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


WEATHER = call("get_weather", "call_1", city="Zürich", days=[1, 2.5, None, True], deep={"a": {"b": "☂"}})
TIME = call("get_time", "call_2")

CONVERSATIONS: dict[str, Conversation] = {
    "plain": Conversation([user("What is the capital of France?")]),
    "system and user": Conversation([system("Be brief."), user("What is the capital of France?")]),
    "system in the middle": Conversation(
        [user("Hello"), system("Be brief."), assistant("Hello!"), system("Speak French."), user("Capital of Italy?")],
        [system("Be brief.\n\nSpeak French."), user("Hello"), assistant("Hello!"), user("Capital of Italy?")],
    ),
    "turns": Conversation(
        [system("Count."), user("1"), assistant("2"), user("3"), assistant("4"), user("5"), assistant("6"), user("7")]
    ),
    "one role in a row": Conversation(
        [user("One."), user("Two."), assistant("Three."), assistant("Four."), user("Five."), user("Six.")]
    ),
    "tools": Conversation(
        [
            system("You have tools."),
            user("How is the weather, and what time is it?"),
            assistant("I look both up.", WEATHER, TIME),
            tool('{"degrees": 22}', "call_1"),
            tool("12:00", "call_2"),
            assistant("It is noon and 22 degrees."),
            user("Thank you."),
        ]
    ),
    "a call without words": Conversation(
        [user("What time is it?"), assistant("", TIME), tool("12:00", "call_2"), assistant("Noon."), user("Thanks.")]
    ),
    "a result without words": Conversation(
        [user("Delete it."), assistant("", TIME), tool(" \n", "call_2")],
        [user("Delete it."), assistant("", TIME), tool("", "call_2")],
    ),
    "a call comes first": Conversation([assistant("", TIME), tool("12:00", "call_2"), user("So?")]),
    "tool without id": Conversation(
        [user("What time is it?"), assistant("I look."), tool("It is 12:00."), user("So?")],
        [user("What time is it?"), assistant("I look."), user("It is 12:00."), user("So?")],
    ),
    "unicode": Conversation([system(f"S {ODD}"), user(f"U {ODD}"), assistant(f"A {ODD}"), user(f"V {ODD}")]),
    "trimmed": Conversation(
        [system("\r\n\r\n  Two spaces stay.\r\nSo does this line. \t\n"), user("\ufeff\n\n Hello\n\n"), user(" \n ")],
        [system("  Two spaces stay.\nSo does this line."), user(" Hello")],
    ),
    "long conversation": Conversation(
        [system("Count."), *(assistant(f"{n}.") if n % 2 else user(f"{n}?") for n in range(199))]
    ),
    "long text": Conversation(
        [user(["Sum it up:", attached("big.txt")])],
        [user(f'Sum it up:\n\n<file path="big.txt">\n{BIG}\n</file>')],
        files={"big.txt": BIG},
    ),
    "files and guidelines": Conversation(
        [
            system([attached("style.instructions.md"), "Keep to the style."]),
            user(["Compare:", attached("a.txt"), attached("a.txt"), attached("more/law.instructions.md")]),
            assistant(["They are equal.", attached("empty.txt")]),
            user(["And now?", attached("b.txt")]),
        ],
        [
            system(
                "You are careful.\n\n[[ ## Guidelines ## ]]\n\n=== style.instructions.md ===\nNo jokes.\n\n"
                "=== more/law.instructions.md ===\nNo law.\n\n<Attached: style.instructions.md>\nKeep to the style."
            ),
            user(
                "Compare:\n=== a.txt ===\nAlpha\n  indented\n=== a.txt ===\nAlpha\n  indented\n"
                "<Attached: more/law.instructions.md>"
            ),
            assistant("They are equal."),
            user("And now?\n=== b.txt ===\nBeta"),
        ],
        suite={"metadata": {"system_prompt": "You are careful.\n"}},
        files={
            "style.instructions.md": "No jokes.\n",
            "more/law.instructions.md": "\nNo law.",
            "a.txt": "Alpha\r\n  indented\r\n",
            "b.txt": "Beta",
            "empty.txt": " \n",
        },
    ),
    "guideline beside one message": Conversation(
        [system([attached("style.instructions.md")]), user("Hello")],
        [system("[[ ## Guidelines ## ]]\n\n=== style.instructions.md ===\nNo jokes."), user("Hello")],
        files={"style.instructions.md": "No jokes.\n"},
    ),
    "assistant first": Conversation([assistant("How can I help?"), user("Not at all.")]),
    "assistant alone": Conversation([assistant("The capital of France is")]),
    "assistant last": Conversation([user("Capital of France?"), assistant("It is")]),
    "only a system": Conversation([system("Say hello.")], [user("Say hello.")]),
    "only systems": Conversation([system("Say hello."), system("In French.")], [system("Say hello.\n\nIn French.")]),
    "nothing": Conversation([user("")]),
    "nothing but blanks": Conversation([user(" \n"), assistant("")], [user("")]),
}


@pytest.mark.slow
@spec("R21", "R22", "R24", "R25", "R27", "R28", "R29", "R30", "R31", "R33", "R34")
@spec("C6", "C8", "C9", "C10", "C11", "C12", "C13", "C14", "P2", "P11", "P12", "P13")
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_sent_as_the_vendors_client_sends_it(lab: Lab, project: Project, api: str, name: str) -> None:
    conversation = CONVERSATIONS[name]
    for path, text in conversation.files.items():
        project.write(path, text)
    case = {"input_messages": conversation.messages, "checks": [{"match": "OK"}]}
    run(project, {"targets": [target(lab, api)], "evals": [case], **conversation.suite})
    [ours] = lab.server.requests
    theirs, refused = lab.ask(api, conversation.sent or conversation.messages)
    assert_same(api, name, ours, theirs, refused)


@spec("R34", "P12", "P13")
@pytest.mark.parametrize("api", APIS)
def test_a_prompt_is_one_message_of_the_user(lab: Lab, project: Project, api: str) -> None:
    case = {"prompt": "Capital of France?\n", "checks": [{"match": "OK"}]}
    [result] = run(project, {"targets": [target(lab, api)], "evals": [case]})
    [ours] = lab.server.requests
    assert_same(api, "a prompt", ours, *lab.ask(api, [user("Capital of France?")]))
    assert result["raw_request"]["chat_prompt"] is None


@pytest.mark.slow
@spec("R64", "P14", "R58")
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("name", "reply"),
    [("an empty reply", ""), ("a reply with blanks", "  Rome?\r\n\n"), ("an odd reply", ODD)],
    ids=["empty", "blanks", "odd"],
)
def test_a_follow_up_is_sent_with_all_that_was_said(
    lab: Lab, project: Project, api: str, name: str, reply: str
) -> None:
    lab.script[:] = [reply, "No.", "Paris"]
    inner = [{"match": "Paris"}, {"prompt": "Really?", "checks": [{"match": "Paris"}]}]
    checks = [{"match": "Paris"}, {"prompt": "Are you sure?", "checks": inner}]
    case = {"input_messages": [system("Be brief."), user("Capital of France?")], "checks": checks}
    given, options = PARAMETERS[api]["sampling"]
    [result] = run(project, {"targets": [target(lab, api, **given)], "evals": [case]})
    assert result["succeeded_on_turn"] == 3
    first, second, third = lab.server.requests

    sent = [system("Be brief."), user("Capital of France?")]
    assert_same(api, "no reply yet", first, *lab.ask(api, sent, **options))
    sent += [assistant(reply), user("Are you sure?")]
    assert_same(api, name, second, *lab.ask(api, sent, **options))
    sent += [assistant("No."), user("Really?")]
    assert_same(api, name, third, *lab.ask(api, sent, **options))


# Parameters.

SAMPLING = {"temperature": 0.2, "top_p": 0.9}
CHAT_EXTRA = {"metadata": {"suite": "weather"}, "logprobs": True}
PARAMETERS: dict[str, dict[str, tuple[Raw, Raw]]] = {
    "openai": {
        "sampling": (SAMPLING, SAMPLING),
        "zeros": ({"temperature": 0, "top_p": 0, "seed": 0}, {"temperature": 0, "top_p": 0, "seed": 0}),
        "texts of the environment": ({"temperature": "0.2", "max_output_tokens": "300"}, {"temperature": 0.2}),
        "limit": ({"max_output_tokens": 300}, {"max_completion_tokens": 300}),
        "seed and stop": ({"seed": 7, "stop": ["END", "\n"]}, {"seed": 7, "stop": ["END", "\n"]}),
        "reasoning_effort": ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        "extra_body": ({"extra_body": CHAT_EXTRA}, {"extra_body": CHAT_EXTRA}),
        "extra_body replaces": ({"seed": 7, "extra_body": {"seed": 8}}, {"seed": 7, "extra_body": {"seed": 8}}),
    },
    "responses": {
        "sampling": (SAMPLING, SAMPLING),
        "limit": ({"max_output_tokens": 300}, {"max_output_tokens": 300}),
        "reasoning_effort": ({"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
        "extra_body": ({"extra_body": {"store": False}}, {"extra_body": {"store": False}}),
        "extra_body merged": (
            {"reasoning_effort": "low", "extra_body": {"reasoning": {"summary": "auto"}}},
            {"reasoning": {"effort": "low", "summary": "auto"}},
        ),
    },
    "groq": {
        "sampling": (SAMPLING, SAMPLING),
        "limit": ({"max_output_tokens": 300}, {"max_tokens": 300}),
        "stop": ({"stop": "END"}, {"stop": ["END"]}),
    },
    "anthropic": {
        "sampling": (SAMPLING, {"extra_body": SAMPLING}),
        "limit": ({"max_output_tokens": 300}, {"max_tokens": 300}),
        "stop": ({"stop": ["END"]}, {"stop_sequences": ["END"]}),
        "thinking_budget": (
            {"thinking_budget": 2000},
            {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": LIMIT + 2000},
        ),
        "thinking_budget and limit": (
            {"thinking_budget": 2000, "max_output_tokens": 2001},
            {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 2001},
        ),
        "reasoning_effort": ({"reasoning_effort": "low"}, {"output_config": {"effort": "low"}}),
        "extra_body": ({"extra_body": {"top_k": 5}}, {"extra_body": {"top_k": 5}}),
    },
    "gemini": {
        "sampling": (SAMPLING, SAMPLING),
        "limit": ({"max_output_tokens": 300}, {"max_output_tokens": 300}),
        "seed and stop": ({"seed": 7, "stop": ["END"]}, {"seed": 7, "stop_sequences": ["END"]}),
        "thinking_budget": ({"thinking_budget": -1}, {"thinking_config": {"thinking_budget": -1}}),
        "reasoning_effort": ({"reasoning_effort": "low"}, {"thinking_config": {"thinking_level": "low"}}),
        "extra_body": (
            {"temperature": 0.2, "extra_body": {"generationConfig": {"topK": 5}, "store": False}},
            {
                "temperature": 0.2,
                "http_options": {"extra_body": {"generationConfig": {"topK": 5}, "store": False}},
            },
        ),
    },
}
PARAMETERS["openai"]["texts of the environment"][1]["max_completion_tokens"] = 300
PARAMETERS["azure"] = PARAMETERS["azure v1"] = PARAMETERS["openai"]


@pytest.mark.slow
@spec("P11")
@pytest.mark.parametrize(("api", "name"), [(api, name) for api in APIS for name in PARAMETERS[api]])
def test_parameters_are_sent_as_the_vendors_client_sends_them(lab: Lab, project: Project, api: str, name: str) -> None:
    given, options = PARAMETERS[api][name]
    messages = [system("Be brief."), user("Capital of France?")]
    case = {"input_messages": messages, "checks": [{"match": "OK"}]}
    run(project, {"targets": [target(lab, api, **given)], "evals": [case]})
    [ours] = lab.server.requests
    assert_same(api, name, ours, *lab.ask(api, messages, **options))


@pytest.mark.parametrize(
    ("api", "settings"),
    [
        ("anthropic", {"seed": 1}),
        ("responses", {"seed": 1}),
        ("responses", {"stop": ["END"]}),
        ("openai", {"thinking_budget": 100}),
        ("groq", {"thinking_budget": 100}),
        ("azure", {"thinking_budget": 100}),
        ("anthropic", {"thinking_budget": 2000, "max_output_tokens": 2000}),
        ("openai", {"temperature": "warm"}),
        ("gemini", {"seed": "1.5"}),
    ],
)
def test_a_parameter_that_cannot_be_sent_is_refused_before_anything_is(
    lab: Lab, project: Project, api: str, settings: Raw
) -> None:
    suite = {"targets": [target(lab, api, **settings)], "evals": [{"prompt": "Hello", "checks": [{"match": "OK"}]}]}
    project.write("evals.yaml", suite)
    told = project.invoke("run", "evals.yaml")
    assert told.exit_code == 2 or isinstance(told.exception, RejoinderError)
    assert any(name in f"{told.output} {told.exception}" for name in settings)
    assert lab.server.requests == []


@pytest.mark.parametrize("api", APIS)
def test_headers_of_a_target_go_along_and_replace_ours(lab: Lab, project: Project, api: str) -> None:
    more = {"headers": {"X-Team": "evals", "Content-Type": "application/json; charset=utf-8"}}
    run(project, {"targets": [target(lab, api, **more)], "evals": [{"prompt": "Hello", "checks": [{"match": "OK"}]}]})
    [ours] = lab.server.requests
    assert ours.headers["x-team"] == "evals"
    assert ours.headers["content-type"] == "application/json; charset=utf-8"


# The words that are sent are the author's.


@spec("P11", "R36", "C10")
@pytest.mark.parametrize("api", FORMATS)
def test_a_default_system_prompt_is_sent_only_where_one_is_configured(lab: Lab, project: Project, api: str) -> None:
    silent = {"id": "silent", "prompt": "Hello", "checks": [{"match": "OK"}]}
    spoken = {"id": "spoken", "input_messages": [system("Own words."), user("Hello")], "checks": [{"match": "OK"}]}
    suite = {"targets": [target(lab, api)], "evals": [silent, spoken]}
    run(project, suite, "--workers", "1")
    run(project, suite | {"formatting": {"default_system_prompt": "You are a help."}}, "--workers", "1")
    assert [said(api, received)[0] for received in lab.server.requests] == [
        [],
        ["Own words."],
        ["You are a help."],
        ["Own words."],
    ]


@spec("R23", "R47", "P16")
@pytest.mark.parametrize("api", FORMATS)
def test_markers_reach_an_api_in_the_legacy_profile_alone(lab: Lab, project: Project, api: str) -> None:
    case = {"input_messages": [user("One"), assistant("Two"), user("Three")], "checks": [{"match": "OK"}]}
    suite = {"targets": [target(lab, api)], "evals": [case]}
    run(project, suite)
    run(project, suite | {"formatting": {"profile": "legacy"}})
    modern, legacy = lab.server.requests
    assert said(api, modern) == ([], [("user", "One"), ("assistant", "Two"), ("user", "Three")])
    assert said(api, legacy) == ([], [("user", "[User]:\nOne\n\n[Assistant]:\nTwo\n\n[User]:\nThree")])


@spec("C15", "C16", "R37", "R41")
@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("name", ["plain", "system in the middle", "one role in a row"])
def test_a_judge_is_shown_the_question_of_the_record(lab: Lab, project: Project, api: str, name: str) -> None:
    lab.script[:] = ["Rome.", '{"score": 1, "hits": [], "misses": [], "reasoning": "good"}']
    case = {"input_messages": CONVERSATIONS[name].messages, "checks": [{"llm_judge": {"criteria": "Good?"}}]}
    [result] = run(project, {"targets": [target(lab, api)], "evals": [case]})
    _, judging = lab.server.requests
    systems, [(role, text)] = said(api, judging)
    assert (len(systems), role) == (1, "user")
    question = result["raw_request"]["question"]
    assert f"[[ ## question ## ]]\n{question}\n\n[[ ## reference_answer ## ]]" in text
    assert text.endswith("[[ ## candidate_answer ## ]]\nRome.")
    assert ("@[User]:" in question) == (name != "plain")


# Calls and results without a counterpart.

LOOK = call("look", "c1", at="it")
GO = call("go", "c2")
WORDS_OF_LOOK = 'look({"at":"it"})'
APART: dict[str, tuple[list[Raw], dict[str, list[tuple[str, str]]]]] = {
    "a result of no call": (
        [user("u"), tool("r", "zz"), user("v")],
        {"": [("user", "u"), ("user", "r"), ("user", "v")]},
    ),
    "a call without a result": (
        [user("u"), assistant("x", LOOK), user("v")],
        {"": [("user", "u"), ("assistant", f"x\n\n{WORDS_OF_LOOK}"), ("user", "v")]},
    ),
    "a call at the end": (
        [user("u"), assistant("", LOOK)],
        {"": [("user", "u"), ("assistant", WORDS_OF_LOOK)]},
    ),
    "somebody speaks between": (
        [user("u"), assistant("", LOOK), user("hurry"), tool("r", "c1")],
        {
            "": [("user", "u"), ("assistant", WORDS_OF_LOOK), ("user", "hurry"), ("user", "r")],
            "responses gemini": [("user", "u"), ("call", "c1 look {'at': 'it'}"), ("user", "hurry"), ("tool", "r")],
        },
    ),
    "a result without an id comes first": (
        [user("u"), assistant("", LOOK), tool("loose"), tool("r", "c1")],
        {
            "": [("user", "u"), ("assistant", WORDS_OF_LOOK), ("user", "loose"), ("user", "r")],
            "responses gemini": [("user", "u"), ("call", "c1 look {'at': 'it'}"), ("user", "loose"), ("tool", "r")],
        },
    ),
    "the assistant goes on": (
        [user("u"), assistant("", LOOK), assistant("y"), tool("r", "c1")],
        {
            "openai": [("user", "u"), ("assistant", WORDS_OF_LOOK), ("assistant", "y"), ("user", "r")],
            "": [("user", "u"), ("call", "c1 look {'at': 'it'}"), ("assistant", "y"), ("tool", "r")],
        },
    ),
    "an answer in between": (
        [user("u"), assistant("", LOOK), user("v"), assistant("w"), tool("r", "c1")],
        {
            "": [("user", "u"), ("assistant", WORDS_OF_LOOK), ("user", "v"), ("assistant", "w"), ("user", "r")],
            "responses": [
                ("user", "u"),
                ("call", "c1 look {'at': 'it'}"),
                ("user", "v"),
                ("assistant", "w"),
                ("tool", "r"),
            ],
        },
    ),
    "one of two": (
        [user("u"), assistant("x", LOOK, GO), tool("r2", "c2"), user("mid")],
        {
            "": [
                *(("user", "u"), ("assistant", f"x\n\n{WORDS_OF_LOOK}"), ("call", "c2 go {}")),
                *(("tool", "r2"), ("user", "mid")),
            ]
        },
    ),
    "one id for two calls": (
        [user("u"), assistant("", LOOK, call("go", "c1")), tool("r1", "c1"), tool("r2", "c1")],
        {
            "": [
                *(("user", "u"), ("assistant", "go({})"), ("call", "c1 look {'at': 'it'}")),
                *(("tool", "r1"), ("user", "r2")),
            ]
        },
    ),
    "two results for one call": (
        [user("u"), assistant("", LOOK), tool("r1", "c1"), tool("r2", "c1")],
        {"": [("user", "u"), ("call", "c1 look {'at': 'it'}"), ("tool", "r1"), ("user", "r2")]},
    ),
}
"""Conversations, and what is said by them: to the APIs that are named, and to the others."""


@pytest.mark.slow
@spec("C9", "C14")
@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("name", APART)
def test_what_has_no_counterpart_is_said_in_words(lab: Lab, project: Project, api: str, name: str) -> None:
    """The API would refuse it otherwise; the fake servers do."""
    messages, expected = APART[name]
    run(project, {"targets": [target(lab, api)], "evals": [{"input_messages": messages, "checks": [{"match": "OK"}]}]})
    [ours] = lab.server.requests
    wanted = next((turns for apis, turns in expected.items() if api in apis.split()), expected.get("", []))
    assert said(api, ours) == ([], wanted)


# Any conversation at all.


def said(api: str, received: Received) -> tuple[list[str], Turns]:
    """The texts of a request in their order, each with its speaker: those of the system, and the others'."""
    body = received.body
    if api == "openai":
        turns = [one for message in body["messages"] for one in _chat_turns(message)]
        return [text for role, text in turns if role == "system"], [one for one in turns if one[0] != "system"]
    if api == "responses":
        return [body["instructions"]] if "instructions" in body else [], [_item_turn(item) for item in body["input"]]
    if api == "anthropic":
        turns = [(message["role"], block) for message in body["messages"] for block in blocks(message["content"])]
        return [body["system"]] if "system" in body else [], [_block_turn(role, block) for role, block in turns]
    parts = [(content["role"], part) for content in body["contents"] for part in content["parts"]]
    systems = [part["text"] for part in body.get("systemInstruction", {}).get("parts", [])]
    return systems, [_part_turn(role, part) for role, part in parts]


def _chat_turns(message: Raw) -> Iterator[tuple[str, str]]:
    if message["content"] is not None:
        yield message["role"], message["content"]
    for one in message.get("tool_calls", ()):
        yield "call", f"{one['id']} {one['function']['name']} {json.loads(one['function']['arguments'])}"


def _item_turn(item: Raw) -> tuple[str, str]:
    if item.get("type") == "function_call":
        return "call", f"{item['call_id']} {item['name']} {json.loads(item['arguments'])}"
    if item.get("type") == "function_call_output":
        return "tool", item["output"]
    return item["role"], item["content"]


def _block_turn(role: str, block: Raw) -> tuple[str, str]:
    if block["type"] == "tool_use":
        return "call", f"{block['id']} {block['name']} {block['input']}"
    return ("tool", block["content"]) if block["type"] == "tool_result" else (role, block["text"])


def _part_turn(role: str, part: Raw) -> tuple[str, str]:
    if "functionCall" in part:
        wanted = part["functionCall"]
        return "call", f"{wanted['id']} {wanted['name']} {wanted['args']}"
    if "functionResponse" in part:
        return "tool", part["functionResponse"]["response"]["result"]
    return ("assistant" if role == "model" else role), part["text"]


def meant(messages: list[Raw]) -> tuple[list[str], Turns]:
    """What a suite's messages are meant to say to any API: the same form, told from the rules and no code."""
    texts = [(message, trim(message["content"])) for message in messages]
    visible = [text for _, text in texts if text]
    if len(visible) < 2 and not any(message["role"] in ("assistant", "tool") for message in messages):
        return [], [("user", text) for text in visible]
    systems = [text for message, text in texts if message["role"] == "system" and text]
    turns: Turns = []
    for message, text in texts:
        role = "user" if message["role"] == "tool" and "tool_call_id" not in message else message["role"]
        if role != "system" and (text or role == "tool"):
            turns.append((role, text))
        turns += [("call", f"{one['id']} {one['name']} {one['arguments']}") for one in message.get("tool_calls", ())]
    return ["\n\n".join(systems)] if systems else [], turns


def without_placeholders(turns: Turns) -> Turns:
    return [(role, text) for role, text in turns if role == "tool" or text.strip() not in ("", EMPTY)]


WORDS = (
    "@[User]:",
    "@[Assistant]: no",
    "\n@[System]:\nyes",
    "[Tool]:",
    "=== a ===",
    "<Attached: x>",
    " ",
    "\r\n",
    "\n",
)
IDS = st.sampled_from(["c1", "c2"])
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00{}")
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(CHARACTERS, max_size=12), max_size=4).map("".join)
ARGUMENTS = st.dictionaries(st.text(CHARACTERS, max_size=5), st.integers(-9, 9) | st.text(CHARACTERS, max_size=5))
MESSAGES = st.builds(lambda role, text: [{"role": role, "content": text}], st.sampled_from(["system", "user"]), TEXTS)
REPLIES = st.builds(lambda role, text: [{"role": role, "content": text}], st.sampled_from(["assistant", "tool"]), TEXTS)


@st.composite
def rounds(draw: st.DrawFn) -> list[Raw]:
    """Calls of an assistant with their results, in any order, and messages that may stand between them."""
    count = draw(st.integers(1, 3))
    calls = [call(draw(st.sampled_from(["look", "go"])), f"call_{number}") for number in range(count)]
    for one in calls:
        one["arguments"] = draw(ARGUMENTS)
    results = [tool(draw(TEXTS), one["id"]) for one in draw(st.permutations(calls))]
    between = [system(draw(TEXTS))] if draw(st.booleans()) else []
    return [assistant(draw(TEXTS), *calls), *results[:1], *between, *results[1:]]


ANY_MESSAGE = st.one_of(
    st.builds(user, TEXTS),
    st.builds(lambda text, ids: assistant(text, *(call("look", one) for one in ids)), TEXTS, st.lists(IDS, max_size=3)),
    st.builds(tool, TEXTS, IDS | st.none()),
)


@pytest.mark.slow
@bounded(60)
@given(messages=st.lists(ANY_MESSAGE, min_size=1, max_size=7))
def test_calls_and_results_in_any_order_are_accepted(lab: Lab, project: Project, messages: list[Raw]) -> None:
    checks = [{"match": "OK"}]
    suite = {
        "targets": [target(lab, api) for api in FORMATS],
        "evals": [{"input_messages": messages, "checks": checks}],
    }
    lab.server.reset()
    run(project, suite, *(word for api in FORMATS for word in ("--target", api)))
    texts = [trim(message["content"]) for message in messages]
    for received in lab.server.requests:
        sent = list(strings(received.body))
        assert all(any(text in one for one in sent) for text in texts)


@st.composite
def conversations(draw: st.DrawFn) -> list[Raw]:
    pieces = draw(st.lists(MESSAGES | REPLIES | rounds(), min_size=1, max_size=6))
    numbers = itertools.count(1)
    messages = [dict(message) for piece in pieces for message in piece]
    renamed: dict[str, str] = {}
    for message in messages:  # every call of a conversation has a name of its own
        if "tool_calls" in message:
            renamed = {one["id"]: f"call_{next(numbers)}" for one in message["tool_calls"]}
            message["tool_calls"] = [one | {"id": renamed[one["id"]]} for one in message["tool_calls"]]
        elif "tool_call_id" in message:
            message["tool_call_id"] = renamed[message["tool_call_id"]]
    return messages


ANSWERS = st.builds(
    Answer, TEXTS, tool_calls=st.lists(st.builds(ToolCall, st.just("look"), ARGUMENTS), max_size=2).map(tuple)
)


@pytest.mark.slow
@spec("R9", "R21", "R23", "R25", "R27", "R30", "R31", "R64", "P1", "P2", "P12", "P13", "P14", "C8", "C9", "C14")
@bounded(80)
@given(messages=conversations(), answer=ANSWERS)
def test_any_conversation_is_accepted_with_every_word_and_no_other(
    lab: Lab, project: Project, messages: list[Raw], answer: Answer
) -> None:
    never = {"match": "never said, by nobody"}
    checks = [never, {"prompt": "Go on.", "checks": [never]}]
    suite = {
        "targets": [target(lab, api) for api in FORMATS],
        "evals": [{"input_messages": messages, "checks": checks}],
    }
    lab.server.reset()
    lab.script[:] = [answer] * 2 * len(FORMATS)
    results = run(project, suite, *(word for api in FORMATS for word in ("--target", api)), code=1)
    assert [len(result["turns"]) for result in results] == [2] * len(FORMATS)

    systems, turns = meant(messages)
    markers = sum(text.count("@[") for message in messages for text in [message["content"]])
    for api in FORMATS:
        first, second = [received for received in lab.server.requests if received.path == path_of(api)]
        assert said(api, first)[0] == systems
        assert without_placeholders(said(api, first)[1]) == without_placeholders(turns)
        assert sum(text.count("@[") for text in strings(first.body)) <= markers
        spoken = [*turns, ("assistant", answer.text), ("user", "Go on.")]
        assert said(api, second)[0] == systems
        assert without_placeholders(said(api, second)[1]) == without_placeholders(spoken)
        refused = {"anthropic": not answer.text.strip(), "gemini": not answer.text}.get(api, False)
        reply = EMPTY if refused else answer.text
        assert said(api, second)[1][-2:] == [("assistant", reply), ("user", "Go on.")]


def path_of(api: str) -> str:
    return {
        "openai": "/v1/chat/completions",
        "responses": "/v1/responses",
        "anthropic": "/v1/messages",
        "gemini": "/v1beta/models/gemini-2.5-flash:generateContent",
    }[api]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from strings(one)


@pytest.mark.parametrize(
    ("message", "key"),
    [
        (user("Hi") | {"tool_calls": [TIME]}, "tool_calls"),
        (system("Hi") | {"tool_calls": [TIME]}, "tool_calls"),
        (tool("Hi", "call_2") | {"tool_calls": [TIME]}, "tool_calls"),
        (user("Hi") | {"tool_call_id": "call_2"}, "tool_call_id"),
        (assistant("Hi") | {"tool_call_id": "call_2"}, "tool_call_id"),
    ],
)
def test_tools_in_the_message_of_another_are_refused_by_us_and_not_by_the_api(
    project: Project, message: Raw, key: str
) -> None:
    case = {"input_messages": [user("Hello"), message], "checks": [{"match": "*"}]}
    [error] = project.errors({"evals": [case]})
    assert (error["code"], error["path"]) == ("unknown-key", f"evals[0].input_messages[1].{key}")


# What is read.

FULL = Answer(
    "It is noon.",
    thinking="Which time zone?",
    tool_calls=(ToolCall("get_time", {"zone": "Zürich"}, "call_7"), ToolCall("ring", {}, "call_8")),
    input_tokens=1000,
    output_tokens=90,
    cached_tokens=600,
    cache_write_tokens=100,
    reasoning_tokens=40,
    model="the-model-that-answered",
)
USED = {
    "input_tokens": 1000,
    "output_tokens": 90,
    "total_tokens": 1090,
    "reasoning_tokens": 40,
    "cached_tokens": 600,
    "cache_write_tokens": 100,
}


def ask_once(lab: Lab, project: Project, api: str, answer: Answer | Fault, *checks: Raw, code: int = 0) -> Raw:
    """The only turn of the only result."""
    lab.script[:] = [answer]
    case = {"prompt": "What time is it?", "checks": list(checks) or [{"not_match": "never said"}]}
    [result] = run(project, {"targets": [target(lab, api)], "evals": [case]}, code=code)
    assert result["usage"] == result["turns"][0]["usage"]
    return result["turns"][0]


@spec("R65", "R66")
@pytest.mark.parametrize("api", APIS)
def test_all_that_an_answer_tells_is_in_the_results(lab: Lab, project: Project, api: str) -> None:
    turn = ask_once(lab, project, api, FULL)
    assert turn["response"] == "It is noon."
    assert turn["thinking"] == "Which time zone?"
    assert turn["finish_reason"] == "tool_calls"
    assert turn["model"] == "the-model-that-answered"
    assert "refusal" not in turn
    [first, second] = turn["tool_calls"]
    assert (first["name"], json.loads(first["arguments"]), first["id"]) == ("get_time", {"zone": "Zürich"}, "call_7")
    assert (second["name"], second["id"]) == ("ring", "call_8")
    # Gemini tells neither what it wrote to its cache nor, in a header, the name of a request.
    expected = {name: count for name, count in USED.items() if api != "gemini" or name != "cache_write_tokens"}
    assert turn["usage"] == expected
    assert bool(turn.get("request_id")) == (api != "gemini")


@pytest.mark.parametrize("api", APIS)
def test_a_short_answer_tells_no_more_than_there_is(lab: Lab, project: Project, api: str) -> None:
    turn = ask_once(lab, project, api, Answer("Noon.", input_tokens=12, output_tokens=3))
    assert turn["usage"] == {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}
    assert (turn["response"], turn["finish_reason"]) == ("Noon.", "stop")
    assert not {"thinking", "tool_calls", "refusal"} & set(turn)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("finish", ["stop", "length", "tool_calls", "content_filter"])
def test_reasons_to_end_have_the_same_names_everywhere(lab: Lab, project: Project, api: str, finish: Any) -> None:
    calls = (ToolCall("get_time"),) if finish == "tool_calls" else ()
    turn = ask_once(lab, project, api, Answer("It is", finish=finish, tool_calls=calls))
    # To Anthropic both are refusals, and a refusal marks the reply.
    refused = api == "anthropic" and finish == "content_filter"
    assert turn["finish_reason"] == ("refusal" if refused else finish)
    assert turn.get("refusal", False) == refused
    assert turn["response"] == "It is"


@pytest.mark.parametrize("api", APIS)
def test_a_refusal_is_marked(lab: Lab, project: Project, api: str) -> None:
    turn = ask_once(lab, project, api, Answer("", refusal="I will not say."))
    if api == "gemini":  # which has filters and no refusals
        assert (turn["finish_reason"], turn["response"]) == ("content_filter", "")
        return
    assert (turn["finish_reason"], turn["refusal"]) == ("refusal", True)
    assert turn["response"] == ("" if api == "anthropic" else "I will not say.")


@pytest.mark.slow
@spec("P23")
@pytest.mark.parametrize("api", APIS)
def test_checks_of_length_leave_out_what_was_thought(lab: Lab, project: Project, api: str) -> None:
    turn = ask_once(lab, project, api, FULL, {"max_tokens": 50}, {"min_tokens": 50})
    assert [check["reason"] for check in turn["checks"]] == ["50 tokens", "50 tokens"]
    ask_once(lab, project, api, FULL, {"max_tokens": 49}, code=1)
    ask_once(lab, project, api, FULL, {"min_tokens": 51}, code=1)


@spec("R66")
@pytest.mark.parametrize("api", APIS)
def test_usage_is_summed_over_the_turns(lab: Lab, project: Project, api: str) -> None:
    lab.script[:] = [FULL, FULL]
    checks = [{"match": "never said"}, {"prompt": "Again.", "checks": [{"match": "*noon*"}]}]
    [result] = run(project, {"targets": [target(lab, api)], "evals": [{"prompt": "Time?", "checks": checks}]})
    one = result["turns"][0]["usage"]
    assert result["usage"] == {name: 2 * count for name, count in one.items()}


@spec("R64", "P14")
@pytest.mark.parametrize("api", FORMATS)
def test_tool_calls_without_results_are_not_sent_back(lab: Lab, project: Project, api: str) -> None:
    """An API refuses a call without its result, so a follow-up quotes the words of the reply alone."""
    lab.script[:] = [FULL, "Noon."]
    checks = [{"match": "Noon."}, {"prompt": "In one word.", "checks": [{"match": "Noon."}]}]
    run(project, {"targets": [target(lab, api)], "evals": [{"prompt": "Time?", "checks": checks}]})
    _, second = lab.server.requests
    assert said(api, second)[1] == [("user", "Time?"), ("assistant", "It is noon."), ("user", "In one word.")]


def completion(message: Raw, usage: Raw | None = None) -> Fault:
    choices = [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]
    return Fault("status", status=200, body={"choices": choices, "model": "m", "usage": usage})


CHUNKS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm, "}, {"type": "text", "text": "noon?"}]},
    {"type": "text", "text": "It is "},
    {"type": "reference", "reference_ids": [1]},
    {"type": "text", "text": "noon."},
]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "It is noon.", "reasoning_content": "Hm, noon?"},
        {"content": "It is noon.", "reasoning": "Hm, noon?", "refusal": ""},
        {"content": CHUNKS},
    ],
    ids=["deepseek", "openrouter", "mistral"],
)
def test_servers_that_resemble_openai_say_what_they_thought_in_their_own_ways(
    lab: Lab, project: Project, message: Raw
) -> None:
    turn = ask_once(lab, project, "groq", completion(message, {"prompt_tokens": 5, "completion_tokens": 9}))
    assert (turn["response"], turn["thinking"]) == ("It is noon.", "Hm, noon?")
    assert turn["finish_reason"] == "stop"
    assert "refusal" not in turn


@spec("P23")
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {"prompt_tokens": 32, "completion_tokens": 103, "total_tokens": 135},
            {"input_tokens": 32, "output_tokens": 103, "total_tokens": 135, "reasoning_tokens": 94},
        ),
        (  # xAI counts thoughts beside the completion
            {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135},
            {"input_tokens": 32, "output_tokens": 103, "total_tokens": 135, "reasoning_tokens": 94},
        ),
    ],
    ids=["openai", "xai"],
)
def test_thoughts_are_counted_once(lab: Lab, project: Project, usage: Raw, expected: Raw) -> None:
    counted = usage | {"completion_tokens_details": {"reasoning_tokens": 94}}
    turn = ask_once(lab, project, "groq", completion({"content": "Noon."}, counted), {"max_tokens": 9})
    assert turn["usage"] == expected
    assert turn["checks"][0]["reason"] == "9 tokens"


@spec("P23")
def test_uncounted_tokens_are_estimated_and_called_so(lab: Lab, project: Project) -> None:
    turn = ask_once(lab, project, "groq", completion({"content": "It is noon."}), {"max_tokens": 3})
    assert turn["usage"] == {"input_tokens": 4, "output_tokens": 3, "total_tokens": 7, "approximate": True}
    assert turn["checks"][0]["reason"] == "approximate: 3 tokens"


@spec("P26")
@pytest.mark.parametrize(
    ("api", "fault"),
    [
        ("openai", Fault("status", status=400, code="content_filter")),
        ("azure", Fault("status", status=400, code="content_filter")),
        ("gemini", Fault("status", status=200, body={"promptFeedback": {"blockReason": "SAFETY"}})),
    ],
)
def test_a_prompt_that_is_filtered_is_an_error_with_that_name(
    lab: Lab, project: Project, api: str, fault: Fault
) -> None:
    lab.script[:] = [fault]
    suite = {"targets": [target(lab, api)], "evals": [{"prompt": "Hello", "checks": [{"match": "OK"}]}]}
    [result] = run(project, suite, code=3)
    assert result["error"]["type"] == "content_filter"
    assert result["status"] == "error"


@spec("P26")
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b'{"choices": "\xff"}', "bad-response"),
        (200, b"{}", "bad-response"),
        (200, b"[]", "bad-response"),
        (400, b'{"error": {"message": "\xff"}}', "status"),
        (418, b"I am a teapot", "status"),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_that_says_so(
    lab: Lab, project: Project, api: str, status: int, body: bytes, kind: str
) -> None:
    lab.script[:] = [Fault("status", status=status, body=body)]
    suite = {"targets": [target(lab, api)], "evals": [{"prompt": "Hello", "checks": [{"match": "OK"}]}]}
    [result] = run(project, suite, code=3)
    assert (result["error"]["type"], result["error"]["status"]) == (kind, status)
    assert result["turns"][0]["response"] is None
