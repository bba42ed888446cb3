"""A `python` target whose function has a parameter `messages` is given plain dictionaries, as APIs take them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit import Project

FORMS = {
    "sync": "def reply(messages):\n    return write(messages)\n",
    "async": "async def reply(messages):\n    return write(messages)\n",
    "keyword": "def reply(*, messages, temperature=0):\n    return write(messages)\n",
    "object": "class Bot:\n    def __call__(self, messages):\n        return write(messages)\nreply = Bot()\n",
    "async object": "class B:\n    async def __call__(self, messages):\n        return write(messages)\nreply = B()\n",
    "both": "def reply(request, messages):\n    assert request.turn in (1, 2)\n    return write(messages)\n",
}
WRITE = "import json\ndef write(messages):\n    assert type(messages) is list\n    return json.dumps(messages)\n"


def replies(project: Project, bot: str, **case: Any) -> list[Any]:
    project.write("bot.py", WRITE + bot)
    checks = [{"equals": "x"}, {"prompt": "Again.", "checks": [{"match": "*"}]}]
    project.write(
        "evals.yaml",
        {
            "targets": [{"name": "bot", "provider": "python", "call": "bot:reply"}],
            "evals": [{"prompt": "Hi", "checks": checks, **case}],
        },
    )
    [result] = project.run_json("run")["results"]
    return [json.loads(turn["response"]) for turn in result["turns"]]


@pytest.mark.parametrize("form", FORMS)
def test_messages_are_plain_dictionaries(project: Project, form: str) -> None:
    first, second = replies(project, FORMS[form], system_prompt="Be short.")
    assert first == [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}]
    assert second == [
        *first,
        {"role": "assistant", "content": json.dumps(first)},
        {"role": "user", "content": "Again."},
    ]


def test_calls_of_tools_are_written_as_openai_takes_them(project: Project) -> None:
    call = {"id": "c1", "name": "search", "arguments": {"q": "x"}}
    messages = [
        {"role": "user", "content": "Look it up."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "found", "tool_call_id": "c1"},
        {"role": "user", "content": "Well?"},
    ]
    project.write("bot.py", WRITE + FORMS["sync"])
    target = {"name": "bot", "provider": "python", "call": "bot:reply"}
    project.write(
        "evals.yaml", {"targets": [target], "evals": [{"input_messages": messages, "checks": [{"match": "*"}]}]}
    )
    [result] = project.run_json("run")["results"]
    _, asked, told, _ = json.loads(result["turns"][0]["response"])
    assert asked["tool_calls"][0]["type"] == "function"
    assert asked["tool_calls"][0]["function"]["name"] == "search"
    assert told == {"role": "tool", "content": "found", "tool_call_id": asked["tool_calls"][0]["id"]}


def test_a_function_of_another_parameter_is_given_the_request(project: Project) -> None:
    bot = "def reply(conversation):\n    return json.dumps([one.content for one in conversation.messages])\n"
    assert replies(project, bot)[0] == ["Hi"]
