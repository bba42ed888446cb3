"""JSON-RPC 2.0 with a program, in both directions: our calls, and the program's requests and notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from rejoinder.providers.agents.agent_json import as_mapping, inner_message, text_at, text_of
from rejoinder.providers.agents.driver import Clock
from rejoinder.user_code.line_process import LineFault, LineProcess

AUTHENTICATION_REQUIRED = -32000
_METHOD_NOT_FOUND = -32601
_LONGEST_WORDS = 2_000
_EMPTY_WORDS = "Internal error: "
_DETAILS = ("message", "details", "detail", "error")


class RpcError(Exception):
    """The program answered with an error; the message has its words."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code

    @property
    def status(self) -> int | None:
        """The HTTP status of the model's answer, which some agents send in place of a protocol error code."""
        return self.code if 400 <= self.code < 600 else None


class Listener(Protocol):
    """Receives messages that the program sends unasked."""

    def hear(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification."""
        ...

    def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Answer a request; None if there is no such method."""
        ...


class Wire:
    """A program that speaks JSON-RPC."""

    def __init__(self, process: LineProcess, listener: Listener) -> None:
        self.process = process
        self._listener = listener
        self._calls = 0

    async def call(self, method: str, params: Mapping[str, Any], clock: Clock) -> Mapping[str, Any]:
        """The result of a call. Raises RpcError, and LineFault."""
        self._calls += 1
        self.process.send({"jsonrpc": "2.0", "id": self._calls, "method": method, "params": params})
        return await self.result(clock)

    async def result(self, clock: Clock) -> Mapping[str, Any]:
        """The result of the last call. It can be awaited again after an earlier wait ended without a result."""
        loop = asyncio.get_running_loop()
        while True:
            message = await self._receive(clock)
            if message is None:
                raise self.process.ended()
            if self._take(message):
                if clock.until is not None and loop.time() > clock.until:  # it talks without a pause
                    raise LineFault("the agent did not answer in time", "timeout")
                continue
            error = message.get("error")
            if error is not None and message.get("id") in (self._calls, None):
                raise _read_error(error)
            if message.get("id") == self._calls and "result" in message:
                return as_mapping(message["result"])

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.process.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def catch_up(self, quiet_s: float, until: float) -> None:
        """Read what the program has already sent, and what follows until it is quiet for `quiet_s`."""
        loop = asyncio.get_running_loop()
        try:
            while loop.time() < until and await self._take_next(Clock(until, quiet_s)):
                pass
        except LineFault as fault:
            if fault.kind not in ("silence", "timeout"):
                raise

    async def _take_next(self, clock: Clock) -> bool:
        message = await self._receive(clock)
        if message is not None:
            self._take(message)
        return message is not None

    async def _receive(self, clock: Clock) -> dict[str, Any] | None:
        return await self.process.receive(silence_s=clock.silence_s, until=clock.until)

    def _take(self, message: Mapping[str, Any]) -> bool:
        """Take a message; whether it was something other than the program's answer to our call."""
        method = message.get("method")
        if not isinstance(method, str):
            return False
        params, id = as_mapping(message.get("params")), message.get("id")
        if "id" not in message:
            self._listener.hear(method, params)
        elif isinstance(id, str | int):
            result = self._listener.answer(method, params)
            error = {"code": _METHOD_NOT_FOUND, "message": f"Method not found: {method}"}
            answer = {"error": error} if result is None else {"result": result}
            self.process.send({"jsonrpc": "2.0", "id": id, **answer})
        return True


def _read_error(error: Any) -> RpcError:
    """The error of a response. Agents put their provider's message into `data`, or as JSON into the message."""
    said = as_mapping(error)
    code, data = said.get("code"), said.get("data")
    message = inner_message(text_at(said, "message") or text_of(error))
    details = inner_message(text_of(data) or next(filter(None, (text_at(data, key) for key in _DETAILS)), ""))
    words = ": ".join(dict.fromkeys(part.strip() for part in (message, details) if part.strip()))
    words = words.removeprefix(_EMPTY_WORDS) or words
    return RpcError(code if isinstance(code, int) else 0, (words or "an error without words")[:_LONGEST_WORDS])
