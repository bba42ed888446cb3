"""Requests of ours beside those of the vendors' own clients."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rejoinder.testing import Answer, FakeServer, Fault, Received
from tests.kit import Raw

KEY = "the-key"


LIMIT = 4096
"""What we ask of Anthropic where a target sets no limit; its API wants one."""


EMPTY = "(empty)"


def fill_blanks(value: Any) -> Any:
    """`(empty)` in the place of texts that are empty."""
    if isinstance(value, list):
        return [fill_blanks(one) for one in value]
    if isinstance(value, dict):
        return {name: fill_blanks(one) for name, one in value.items()}
    return EMPTY if value == "" else value


def join_messages(body: Raw) -> Raw:
    joined: list[Raw] = []
    for message in body["messages"]:
        if joined and joined[-1]["role"] == message["role"]:
            joined[-1] = message | {"content": blocks(joined[-1]["content"]) + blocks(message["content"])}
        else:
            joined.append(message)
    return body | {"messages": joined}


def blocks(content: str | list[Raw]) -> list[Raw]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def join_contents(body: Raw) -> Raw:
    joined: list[Raw] = []
    for content in body["contents"]:
        if joined and joined[-1]["role"] == content["role"]:
            joined[-1] = content | {"parts": joined[-1]["parts"] + content["parts"]}
        else:
            joined.append(content)
    return body | {"contents": joined}


def user_before_messages(body: Raw) -> Raw:
    return body | {"messages": [{"role": "user", "content": EMPTY}, *body["messages"]]}


def user_before_contents(body: Raw) -> Raw:
    return body | {"contents": [{"role": "user", "parts": [{"text": EMPTY}]}, *body["contents"]]}


def camel_thinking(body: Raw) -> Raw:
    thinking = {"thinking_level": "thinkingLevel", "thinking_budget": "thinkingBudget"}
    config = body["generationConfig"]
    spelled = {thinking.get(name, name): value for name, value in config["thinkingConfig"].items()}
    return body | {"generationConfig": config | {"thinkingConfig": spelled}}


def camel_pictures(body: Raw) -> Raw:
    def spelled(part: Raw) -> Raw:
        found = next((part[name] for name in ("inline_data", "inlineData") if name in part), None)
        if found is None:
            return part
        data, kind = found["data"], found.get("mime_type") or found["mimeType"]
        return {"inlineData": {"mimeType": kind, "data": data.replace("-", "+").replace("_", "/")}}

    contents = [content | {"parts": [spelled(part) for part in content["parts"]]} for content in body["contents"]]
    return body | {"contents": contents}


@dataclass(frozen=True)
class Difference:
    why: str
    where: frozenset[str] | None
    """The conversations and parameters in which it shows; None for so many that the client's body has to tell."""
    change: Callable[[Any], Any]
    """From what the client sends to what we send."""
    refused: bool = False
    """Does the API refuse what the client sends?"""


def where(*names: str) -> frozenset[str]:
    return frozenset(names)


DIFFERENCES: dict[str, dict[str, Difference]] = {
    "openai": {},
    "responses": {},
    "azure": {},
    "azure v1": {},
    "groq": {},
    "anthropic": {
        "messages[].content, blank": Difference(
            "the API refuses texts without a word, so `(empty)` says that there was none",
            where("only systems", "nothing", "nothing but blanks", "an empty reply"),
            fill_blanks,
            refused=True,
        ),
        "messages[0]": Difference(
            "the API refuses a conversation that an assistant begins",
            where("assistant first", "assistant alone", "a call comes first"),
            user_before_messages,
            refused=True,
        ),
        "messages[], one role in a row": Difference(
            "the API makes one turn of them; joined, they are what the model will see",
            where("one role in a row", "tools", "tool without id", "a call comes first"),
            join_messages,
        ),
    },
    "gemini": {
        "contents[].parts[].text, blank": Difference(
            "the API refuses empty texts, so `(empty)` says that there was none",
            where("only systems", "nothing", "nothing but blanks", "an empty reply"),
            fill_blanks,
            refused=True,
        ),
        "contents[0]": Difference(
            "the API refuses a call that follows nobody's words",
            where("a call comes first"),
            user_before_contents,
            refused=True,
        ),
        "contents[], one role in a row": Difference(
            "turns alternate; joined, they are what the model will see",
            where("one role in a row", "tool without id", "a call comes first"),
            join_contents,
        ),
        "contents[], results in a row": Difference(
            "responses to calls of one turn have to be parts of one turn", where("tools"), join_contents, refused=True
        ),
        "contents[].parts[].inlineData": Difference(
            "the client writes these names with underscores and base64 for addresses; the API reads both",
            where("pictures"),
            camel_pictures,
        ),
        "generationConfig, empty": Difference(
            "the client sends the object with nothing in it as soon as there is a system instruction",
            None,
            lambda body: {name: value for name, value in body.items() if name != "generationConfig" or value},
        ),
        "generationConfig.thinkingConfig": Difference(
            "the client writes the names of this one object with underscores; the API reads both",
            where("reasoning_effort", "thinking_budget"),
            camel_thinking,
        ),
    },
}
"""For each client the parts of a body that differ, why, and where."""


HEADERS: dict[str, dict[str, str]] = {
    "anthropic": {
        "x-api-key": "the header that this API began with, and that proxies know; the client has changed to Bearer",
        "authorization": "the other side of the same",
        "anthropic-version": "what the adapter is written for; the client of the newer one has no `temperature`",
    },
    "azure v1": {
        "api-key": "Azure's own header, the same for all of its versions; the client is OpenAI's and says Bearer",
        "authorization": "the other side of the same",
    },
}
"""Headers that differ: those of the key and of the API's version are compared."""


PATHS = {"gemini": ("/v1/", "/v1beta/", "what the adapter is written for; the client has moved to v1")}
"""The beginning of a path with the client, with us, and why."""


class Lab:
    """A fake server and the vendors' clients that talk to it."""

    def __init__(self) -> None:
        self.script: list[Answer | Fault | str] = []
        self.server = FakeServer(lambda _: self.script.pop(0) if self.script else "OK")
        self._clients = contextlib.ExitStack()
        self._known: dict[str, Any] = {}

    def __enter__(self) -> Lab:
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._clients.close()
        self.server.stop()

    def client(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = getattr(self, f"_{name}")()
        return self._known[name]

    def _openai(self) -> Any:
        import openai

        client = openai.OpenAI(base_url=self.server.openai_url, api_key=KEY, max_retries=0, timeout=30)
        return self._clients.enter_context(client)

    def _azure(self) -> Any:
        import openai

        options: Raw = {"api_version": "2024-10-21", "max_retries": 0, "timeout": 30}
        client = openai.AzureOpenAI(azure_endpoint=self.server.azure_url, api_key=KEY, **options)
        return self._clients.enter_context(client)

    def _azure_v1(self) -> Any:
        import openai

        url = f"{self.server.azure_url}/openai/v1/"
        return self._clients.enter_context(openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=30))

    def _anthropic(self) -> Any:
        import anthropic

        client = anthropic.Anthropic(base_url=self.server.anthropic_url, api_key=KEY, max_retries=0, timeout=30)
        return self._clients.enter_context(client)

    def _gemini(self) -> Any:
        from google import genai
        from google.genai import types

        options = types.HttpOptions(base_url=self.server.gemini_url, timeout=30_000)
        client = genai.Client(api_key=KEY, http_options=options)
        self._clients.callback(client.close)
        return client

    def ask(self, api: str, messages: Sequence[Raw], **options: Any) -> tuple[Received, bool]:
        """The request that the vendor's client makes, and whether the API refuses it."""
        import anthropic
        import openai
        from google.genai import errors

        self.server.reset()
        refused = False
        try:
            CLIENTS[api](self, messages, options)
        except (openai.BadRequestError, anthropic.BadRequestError, errors.ClientError):
            refused = True
        [received] = self.server.requests
        return received, refused


def split(messages: Sequence[Raw]) -> tuple[str | None, list[Raw]]:
    """The system's words, and the conversation. Without other messages, the user says nothing."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    rest = [message for message in messages if message["role"] != "system"]
    return (system[0] if system else None), rest or [{"role": "user", "content": ""}]


def compact(arguments: Raw) -> str:
    """Arguments as models write them."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def ask_chat(client: Any, model: str, messages: Sequence[Raw], options: Raw) -> None:
    sent: list[Raw] = []
    for message in messages:
        calls = [
            {"id": one["id"], "type": "function", "function": _function(one)} for one in message.get("tool_calls", ())
        ]
        if calls:
            sent.append({"role": "assistant", "content": message["content"] or None, "tool_calls": calls})
        else:
            sent.append(message)
    client.chat.completions.create(model=model, messages=sent, **options)


def _function(call: Raw) -> Raw:
    return {"name": call["name"], "arguments": compact(call.get("arguments", {}))}


def ask_responses(lab: Lab, messages: Sequence[Raw], options: Raw) -> None:
    system, rest = split(messages)
    items: list[Raw] = []
    for message in rest:
        if message["role"] == "tool":
            answer = {"call_id": message["tool_call_id"], "output": message["content"]}
            items.append({"type": "function_call_output", **answer})
            continue
        calls = message.get("tool_calls", ())
        if message["content"] or not calls:
            items.append({"role": message["role"], "content": message["content"]})
        items += [{"type": "function_call", "call_id": call["id"], **_function(call)} for call in calls]
    instructions: Raw = {} if system is None else {"instructions": system}
    lab.client("openai").responses.create(model="gpt-4o", input=items, **instructions, **options)


def ask_anthropic(lab: Lab, messages: Sequence[Raw], options: Raw) -> None:
    system, rest = split(messages)
    sent: list[Raw] = []
    for message in rest:
        if message["role"] == "tool":
            result = {"tool_use_id": message["tool_call_id"], "content": message["content"]}
            sent.append({"role": "user", "content": [{"type": "tool_result", **result}]})
            continue
        calls = [
            {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call.get("arguments", {})}
            for call in message.get("tool_calls", ())
        ]
        said = [{"type": "text", "text": message["content"]}] if message["content"] else []
        sent.append({"role": message["role"], "content": said + calls if calls else message["content"]})
    more: Raw = {"max_tokens": LIMIT} | ({} if system is None else {"system": system}) | options
    lab.client("anthropic").messages.create(model="claude", messages=sent, **more)


def ask_gemini(lab: Lab, messages: Sequence[Raw], options: Raw) -> None:
    from google.genai import types

    system, rest = split(messages)
    names = {call["id"]: call["name"] for message in rest for call in message.get("tool_calls", ())}
    sent: list[types.Content] = []
    for message in rest:
        role = "model" if message["role"] == "assistant" else "user"
        calls = [
            types.Part(function_call=types.FunctionCall(id=one["id"], name=one["name"], args=one.get("arguments", {})))
            for one in message.get("tool_calls", ())
        ]
        if message["role"] == "tool":
            name, answer = message["tool_call_id"], {"result": message["content"]}
            response = types.FunctionResponse(id=name, name=names[name], response=answer)
            parts = [types.Part(function_response=response)]
        elif isinstance(message["content"], list):  # parts of the client's own
            parts = message["content"]
        else:
            said = message["content"] or not calls
            parts = [types.Part.from_text(text=message["content"])] if said else []
        sent.append(types.Content(role=role, parts=parts + calls))
    wanted: Raw = options if system is None else {"system_instruction": system, **options}
    config = types.GenerateContentConfig(**wanted) if wanted else None
    lab.client("gemini").models.generate_content(model="gemini-2.5-flash", contents=sent, config=config)


CLIENTS: dict[str, Callable[[Lab, Sequence[Raw], Raw], None]] = {
    "openai": lambda lab, messages, more: ask_chat(lab.client("openai"), "gpt-4o", messages, more),
    "responses": ask_responses,
    "azure": lambda lab, messages, more: ask_chat(lab.client("azure"), "deployed", messages, more),
    "azure v1": lambda lab, messages, more: ask_chat(lab.client("azure_v1"), "deployed", messages, more),
    "groq": lambda lab, messages, more: ask_chat(lab.client("openai"), "llama-4", messages, more),
    "anthropic": ask_anthropic,
    "gemini": ask_gemini,
}


APIS = tuple(CLIENTS)


FORMATS = ("openai", "responses", "anthropic", "gemini")
"""One API for each of our wire formats."""


TARGETS: dict[str, Callable[[FakeServer], Raw]] = {
    "openai": lambda server: {"provider": "openai", "model": "gpt-4o", "base_url": server.openai_url},
    "responses": lambda server: {
        "provider": "openai",
        "api": "responses",
        "model": "gpt-4o",
        "base_url": server.openai_url,
    },
    "azure": lambda server: {
        "provider": "azure",
        "deployment": "deployed",
        "endpoint": server.azure_url,
        "version": "2024-10-21",
    },
    "azure v1": lambda server: {
        "provider": "azure",
        "deployment": "deployed",
        "endpoint": server.azure_url,
        "version": "v1",
    },
    "groq": lambda server: {"provider": "groq", "model": "llama-4", "base_url": server.openai_url},
    "anthropic": lambda server: {"provider": "anthropic", "model": "claude", "base_url": server.anthropic_url},
    "gemini": lambda server: {"provider": "gemini", "model": "gemini-2.5-flash", "base_url": server.gemini_url},
}


def target(lab: Lab, api: str, **more: Any) -> Raw:
    return {"name": api, "api_key": KEY, **TARGETS[api](lab.server), **more}


def user(content: Any) -> Raw:
    return {"role": "user", "content": content}


def system(content: Any) -> Raw:
    return {"role": "system", "content": content}


def assistant(content: Any, *calls: Raw) -> Raw:
    return {"role": "assistant", "content": content} | ({"tool_calls": list(calls)} if calls else {})


def call(name: str, identity: str, **arguments: Any) -> Raw:
    return {"id": identity, "name": name, "arguments": arguments}


def tool(content: Any, answers: str | None = None) -> Raw:
    return {"role": "tool", "content": content} | ({} if answers is None else {"tool_call_id": answers})


def attached(path: str) -> Raw:
    return {"type": "file", "value": path}


ODD = "🦜👩‍🚀 \u202eעברית العربية\u202c é = e\u0301, line\u2028separator\u2029, \x01\x1b\x7f\x85\xa0, 𝒳, \ufdd0 end"


BIG = "".join(f"{number} bottles of beer on the wall\n" for number in range(32_000)).rstrip()


def assert_same(api: str, name: str, ours: Received, theirs: Received, refused: bool) -> None:
    """Our request is the client's, apart from the differences that are named."""
    body = theirs.body
    found = [one for one in DIFFERENCES[api].values() if one.where is None or name in one.where]
    for difference in found:
        changed = difference.change(body)
        assert difference.where is None or changed != body, f"no longer different: {difference.why}"
        body = changed
    assert ours.body == body
    assert refused == any(one.refused for one in found)
    assert (ours.method, ours.query) == (theirs.method, theirs.query)
    before, after, _ = PATHS.get(api, ("", "", ""))
    assert theirs.path.startswith(before)
    assert ours.path == after + theirs.path.removeprefix(before)
    for header in ("authorization", "api-key", "x-api-key", "x-goog-api-key", "anthropic-version"):
        assert (ours.headers.get(header) != theirs.headers.get(header)) == (header in HEADERS.get(api, {})), header
    assert ours.headers["content-type"] == theirs.headers["content-type"] == "application/json"
    assert KEY in " ".join(ours.headers.values())
