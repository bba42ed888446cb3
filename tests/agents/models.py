"""A model on loopback for real agents: it streams, calls the tools that agents offer, and does what prompts say in
brackets (`standins/acting.py`): `[write]`, `[run]`, `[call]`, `[say]`, `[error STATUS]` and `[silence]`.

`rejoinder.testing.FakeServer` refuses what its APIs do not document and does not stream; agents do both.
"""

from __future__ import annotations

import gzip
import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from .standins.acting import Act, Script

HUMAN = "Please: "
"""How every prompt begins, so that it is told apart from what agents add to it."""
Raw = dict[str, Any]
_WRITES = {"Write": ("file_path", "content"), "write_file": ("file_path", "content"), "create": ("path", "file_text")}
"""Tools that write a file, with the names of its path and its content."""
_RUNS = ("Bash", "bash", "exec_command", "shell", "run_shell_command")


class Said(NamedTuple):
    """A part of a request: a text, or the result of a tool."""

    text: str
    is_result: bool = False


class Call(NamedTuple):
    name: str
    arguments: Raw


class ModelServer:
    """Use it as a context manager. `asked` is set whenever a model falls silent on request."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._over = threading.Event()
        self._count = 0
        models = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                models.answer(self)

            def do_GET(self) -> None:
                _send(self, 404, b"{}")

            do_HEAD = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = _read_body(handler)
        path = handler.path.partition("?")[0]
        if path == "/mcp":
            told = self._ask_tools(body)
            _send(handler, 200 if told else 202, told)
            return
        api = next((api for end, api in _APIS.items() if path.endswith(end)), None)
        if api is None:
            _send(handler, 404, b"{}")
            return
        parts, tools, stream = api
        decided = self._decide(list(parts(body)), list(tools(body)))
        if isinstance(decided, int):
            said = {"type": "invalid_request_error", "message": "made on request", "code": decided}
            error = {"type": "error", "error": said}
            _send(handler, decided, json.dumps(error).encode())
            return
        self._count += 1
        events = stream(decided, self._count, str(body.get("model")))
        lines = "".join(_event_lines(event) for event in events)
        end = "data: [DONE]\n\n" if stream is _chat_events else ""
        _send(handler, 200, f"{lines}{end}".encode(), "text/event-stream")

    def _ask_tools(self, message: Raw) -> bytes:
        """The server of tools that speaks over its pipes, over HTTP."""
        words = [sys.executable, str(Path(__file__).parent / "standins" / "mcp_server")]
        return subprocess.run(words, input=json.dumps(message).encode() + b"\n", capture_output=True, check=True).stdout

    def _decide(self, said: list[Said], tools: list[str]) -> str | Call | int:
        """What it says, a tool that it calls, or the status with which it fails."""
        turn = sum(part.text.count(HUMAN) for part in said if not part.is_result)
        last = max((index for index, part in enumerate(said) if HUMAN in part.text), default=-1)
        script = Script(said[last].text.rpartition(HUMAN)[2] if said else "")
        results = [part.text for part in said[last + 1 :] if part.is_result]
        acts = [act for act, _ in script.tools()]
        if len(results) < len(acts):
            return _call_of(acts[len(results)], tools)
        if script.has("silence"):
            self.asked.set()
            self._over.wait(60)
        return script.error() or str(script.answer(turn, []))


def _call_of(act: Act, tools: list[str]) -> str | Call:
    """A call of one of the tools that the agent offers."""
    if act.word == "call":
        tool = act.name.split()[-1]
        name = next((name for name in tools if name.endswith(tool)), None)
        return Call(name, json.loads(act.text)) if name else "the tool is not offered"
    writer = next((name for name in _WRITES if name in tools), None)
    if act.word == "write" and writer:
        path, content = _WRITES[writer]
        return Call(writer, {path: act.name, content: act.text})
    if act.word == "write" and "write" in tools:  # pi and opencode
        return Call("write", {"path": act.name, "filePath": act.name, "content": act.text})
    command = f"printf %s {shlex.quote(act.text)} > {act.name}" if act.word == "write" else act.text
    runner = next(name for name in _RUNS if name in tools)
    if runner == "exec_command":
        return Call(runner, {"cmd": command})
    return Call(runner, {"command": command, "description": "on request"})


def _blocks(content: Any) -> list[Raw]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


# Anthropic's messages.


def _messages_said(body: Raw) -> Iterable[Said]:
    for message in body.get("messages", ()):
        for block in _blocks(message.get("content")):
            if block["type"] == "tool_result":
                yield Said(json.dumps(block.get("content")), is_result=True)
            elif block["type"] == "text" and message["role"] == "user":
                yield Said(block["text"])


def _messages_events(decided: str | Call, number: int, model: str) -> list[Raw]:
    usage = {"input_tokens": 100, "output_tokens": 1, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": []}
    block: Raw = {"type": "text", "text": ""}
    delta: Raw = {"type": "text_delta", "text": decided}
    if isinstance(decided, Call):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": decided.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(decided.arguments)}
    stop = "tool_use" if isinstance(decided, Call) else "end_turn"
    return [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


# OpenAI's chat completions.


def _chat_said(body: Raw) -> Iterable[Said]:
    for message in body.get("messages", ()):
        text = "\n".join(str(block.get("text", "")) for block in _blocks(message.get("content")))
        if message["role"] in ("user", "tool"):
            yield Said(text, is_result=message["role"] == "tool")


def _chat_events(decided: str | Call, number: int, model: str) -> list[Raw]:
    base = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": model}
    delta: Raw = {"role": "assistant", "content": decided}
    if isinstance(decided, Call):
        function = {"name": decided.name, "arguments": json.dumps(decided.arguments)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]}
    finish = "tool_calls" if isinstance(decided, Call) else "stop"
    usage = {"prompt_tokens": 150, "completion_tokens": 7, "total_tokens": 157}
    return [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {**base, "choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 30}}},
    ]


# OpenAI's responses.


def _responses_said(body: Raw) -> Iterable[Said]:
    for item in _blocks(body.get("input")):
        if item.get("type") == "message" and item.get("role") == "user":
            yield Said("\n".join(str(block.get("text", "")) for block in _blocks(item.get("content"))))
        elif str(item.get("type")).endswith("_output"):
            yield Said(str(item.get("output")), is_result=True)


def _responses_tools(body: Raw) -> Iterable[str]:
    """Tools of a server are offered as a namespace."""
    for tool in body.get("tools", ()):
        if tool.get("type") == "namespace":
            yield from (f"{tool['name']}::{inner['name']}" for inner in tool["tools"])
        else:
            yield str(tool.get("name"))


def _responses_events(decided: str | Call, number: int, model: str) -> list[Raw]:
    usage = {"input_tokens": 150, "output_tokens": 7, "total_tokens": 157}
    usage |= {"input_tokens_details": {"cached_tokens": 30}, "output_tokens_details": {"reasoning_tokens": 2}}
    content = [{"type": "output_text", "text": decided, "annotations": []}]
    item: Raw = {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    if isinstance(decided, Call):
        namespace, _, name = decided.name.rpartition("::")
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
        item |= {"arguments": json.dumps(decided.arguments), "status": "completed"}
        item |= {"namespace": namespace} if namespace else {}
    response = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": model, "error": None}
    events: list[Raw] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": {**response, "status": "completed", "output": [item], "usage": usage},
        },
    ]
    return [{**event, "sequence_number": index} for index, event in enumerate(events)]


# Gemini.


def _gemini_said(body: Raw) -> Iterable[Said]:
    for message in body.get("contents", ()):
        for part in message.get("parts", ()):
            if "functionResponse" in part:
                yield Said(json.dumps(part["functionResponse"]), is_result=True)
            elif message.get("role") == "user":
                yield Said(str(part.get("text", "")))


def _gemini_tools(body: Raw) -> Iterable[str]:
    for tool in body.get("tools", ()):
        yield from (declared["name"] for declared in tool.get("functionDeclarations", ()))


def _gemini_events(decided: str | Call, number: int, model: str) -> list[Raw]:
    part: Raw = {"text": decided}
    if isinstance(decided, Call):
        part = {"functionCall": {"id": f"call_{number}", "name": decided.name, "args": decided.arguments}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 150, "candidatesTokenCount": 7, "totalTokenCount": 157, "cachedContentTokenCount": 30}
    return [{"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}]


_Parts = Callable[[Raw], Iterable[Said]]
_Tools = Callable[[Raw], Iterable[str]]
_Stream = Callable[[str | Call, int, str], list[Raw]]
_APIS: dict[str, tuple[_Parts, _Tools, _Stream]] = {
    "/messages": (_messages_said, lambda body: (tool["name"] for tool in body.get("tools", ())), _messages_events),
    "/chat/completions": (
        _chat_said,
        lambda body: (tool["function"]["name"] for tool in body.get("tools", ())),
        _chat_events,
    ),
    "/responses": (_responses_said, _responses_tools, _responses_events),
    ":streamGenerateContent": (_gemini_said, _gemini_tools, _gemini_events),
}


def _event_lines(event: Raw) -> str:
    named = f"event: {event['type']}\n" if "type" in event else ""
    return f"{named}data: {json.dumps(event)}\n\n"


def _read_body(handler: BaseHTTPRequestHandler) -> Raw:
    if "chunked" in (handler.headers.get("transfer-encoding") or ""):
        data = b"".join(_read_chunks(handler))
    else:
        data = handler.rfile.read(int(handler.headers.get("content-length") or 0))
    if handler.headers.get("content-encoding") == "gzip":
        data = gzip.decompress(data)
    return json.loads(data or b"{}")


def _read_chunks(handler: BaseHTTPRequestHandler) -> Iterable[bytes]:
    while size := int(handler.rfile.readline().strip() or b"0", 16):
        yield handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()


def _send(handler: BaseHTTPRequestHandler, status: int, data: bytes, kind: str = "application/json") -> None:
    try:
        handler.send_response(status)
        handler.send_header("content-type", kind)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
    except OSError:  # the agent was ended
        handler.close_connection = True
