"""An MCP server, over its pipes or over HTTP, by the official package.

The package's client must be opened and closed by one task, so each server has its own task for its whole life; calls
are made from others. We start the program instead of the package: its output is limited, and it ends with us, even if
we are killed (`Guard`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from binascii import a2b_base64
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rejoinder._version import __version__
from rejoinder.errors import UsageError
from rejoinder.model.messages import ToolAnswer
from rejoinder.model.pictures import Picture
from rejoinder.model.tools import Listed, McpTools, allows
from rejoinder.project.dotenv import environment_of
from rejoinder.tools.base import (
    LARGEST_DESCRIPTION,
    LARGEST_PICTURE,
    MOST_PICTURES,
    MOST_TOOLS,
    ToolFault,
    Use,
    cut,
    too_slow,
)
from rejoinder.user_code.line_process import Bounds, LineFault, LineProcess
from rejoinder.user_code.processes import ProcessFault
from rejoinder.user_code.variables import given_to_command
from rejoinder.words.numbers import in_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from mcp import Client

START_S = 30.0
"""Seconds for a server to start and initialise."""
END_S = 2.0
"""Seconds for a server to exit by itself."""
CLOSE_S = 10.0
"""Total seconds to wait for its end."""
LARGEST_BODY = 12 << 20
"""Maximum bytes of one answer: an image of the largest size, in base64."""
MOST_VALUES = 100_000
"""Maximum values in one answer, which take more memory than their text."""
_BOUNDS = Bounds(longest_line=LARGEST_BODY, most_waiting=2 * LARGEST_BODY, most_values=MOST_VALUES)
LONGEST_COMPLAINT = 300
"""Maximum characters shown of an error of the package."""
MOST_PAGES = 50
"""Maximum pages of a listing."""
_TIMED_OUT = -32001
_LOGS = ("mcp", "client")
"""Loggers of the package, which quote servers verbatim. Without a handler their records would be printed."""
_SILENT = logging.NullHandler()
_TOKEN = "; is the token right that `headers` or `authorization_token` has?"
_ADVICE = {401: _TOKEN, 403: _TOKEN, 404: "; is the path of its address right? Many servers have `/mcp`"}


class McpServer:
    """A server that starts when it is first needed."""

    def __init__(self, tools: McpTools, folders: tuple[str, ...], owner: str = "") -> None:
        """`owner`: the owner whose guard watches the program."""
        self._tools = tools
        self._owner = owner
        self._folders = folders
        self._client: asyncio.Future[Client] | None = None
        self._task: asyncio.Task[None] | None = None
        self._done = asyncio.Event()
        self._process: LineProcess | None = None
        self._broken = asyncio.Event()
        self._why: LineFault | None = None
        """The fault that broke it, if it did not simply exit."""
        self._status = 0
        """The HTTP status of the server's last answer."""

    async def list(self) -> tuple[Listed, ...]:
        found = await self._listing(await self._open())
        if not found:
            raise self._fault("offers no tool that is allowed" if self._tools.allow else "offers no tool")
        return tuple(map(self._listed, found))

    async def _listing(self, client: Client, *, every: bool = False) -> list[Any]:
        """The current tools that are allowed. `every`: others, too."""
        try:
            found = await self._within(START_S, _all_pages(client, None if every else self._tools))
        except TimeoutError:
            raise self._fault(f"did not list its tools within {in_seconds(START_S)}") from None
        except ToolFault:
            raise
        except Exception as error:
            if self._broken.is_set():
                raise await self._ended() from None
            raise self._fault(f"does not list its tools: {_in_a_line(error)}") from None
        if len(found) > MOST_TOOLS:
            raise self._fault(f"offers more than {MOST_TOOLS} tools; name those that are needed as `allow`")
        return found

    async def call(self, use: Use) -> ToolAnswer:
        from mcp import MCPError

        client, patience = await self._open(), self._tools.timeout_s
        arguments = msgspec.json.decode(use.arguments)
        try:
            result = await self._within(patience + 1, client.call_tool(use.name, arguments, patience), use.name)
        except TimeoutError:
            return too_slow(patience)
        except MCPError as error:
            if error.code == _TIMED_OUT:
                return too_slow(patience)
            if self._broken.is_set():
                raise await self._ended(use.name) from None
            answer = ToolAnswer(cut(error.message), failed=True)
        except ToolFault:
            raise
        except Exception as error:  # the package refuses an invalid result, or one that the tool did not promise
            answer = ToolAnswer(f"the tool's answer breaks the protocol: {_in_a_line(error)}", failed=True)
        else:
            answer = _answer(result)
        if answer.failed and all(one.name != use.name for one in await self._listing(client, every=True)):
            if not allows(self._tools, use.name):  # only a check asked for it
                raise self._fault(f"has no tool `{use.name}`")
            raise self._fault(f"no longer offers the tool `{use.name}`, which it did when the run began")
        return answer

    async def close(self) -> None:
        self._done.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_S)
            self._task.cancel()

    async def _open(self) -> Client:
        if self._client is None:
            self._client = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._live(self._client))
        return await asyncio.shield(self._client)

    async def _live(self, opened: asyncio.Future[Client]) -> None:
        """Open the client, wait for the end, and close it."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(START_S):
                    client = await stack.enter_async_context(await self._connected(stack))
                opened.set_result(client)
                await self._done.wait()
        except BaseException as error:
            self._broken.set()
            if not opened.done():
                opened.set_exception(await self._explained(error))
                opened.exception()
            elif isinstance(error, asyncio.CancelledError):
                raise

    async def _connected(self, stack: AsyncExitStack) -> Client:
        try:
            from mcp import Client
            from mcp.client.streamable_http import streamable_http_client
            from mcp.types import Implementation
        except ImportError:
            from rejoinder.installing import install_hint

            message = f"the tools of MCP server `{self._tools.name}` need the package `mcp`"
            raise UsageError(message, install_hint("mcp")) from None
        for name in _LOGS:
            logging.getLogger(name).addHandler(_SILENT)
        us = Implementation(name="rejoinder", version=__version__)
        if not self._tools.url:
            return Client(self._pipes(), client_info=us)
        http = await stack.enter_async_context(_http_client(self._tools, self._note_status))
        transport = streamable_http_client(self._tools.url, http_client=http, max_sse_event_size=LARGEST_BODY)
        return Client(transport, client_info=us)

    def _note_status(self, status: int) -> None:
        self._status = status

    @asynccontextmanager
    async def _pipes(self) -> AsyncGenerator[Any]:
        """The program's pipes in the form that the package's client requires."""
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp.types import JSONRPCMessage
        from pydantic import TypeAdapter, ValidationError

        reader = TypeAdapter[Any](JSONRPCMessage)
        process = self._process = self._started()
        to_client, heard = anyio.create_memory_object_stream[Any](0)
        said, from_client = anyio.create_memory_object_stream[Any](0)

        async def listen() -> None:
            async with to_client:
                while (value := await process.receive(silence_s=None, until=None)) is not None:
                    if "method" in value and "id" not in value:
                        continue  # a notification: none changes what we do, and a server may send any number
                    try:
                        await to_client.send(SessionMessage(reader.validate_python(value)))
                    except ValidationError:
                        continue  # it is not a message of the protocol
                self._broken.set()

        async def speak() -> None:
            async with from_client:
                async for message in from_client:
                    process.send(message.message.model_dump(by_alias=True, exclude_unset=True, mode="json"))

        async def listen_well() -> None:
            try:
                await listen()
            except (LineFault, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                self._why = error if isinstance(error, LineFault) else None
                self._broken.set()
                await to_client.aclose()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(listen_well)
                group.start_soon(speak)
                try:
                    yield heard, said
                finally:
                    group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await process.close(grace_s=END_S)
                for stream in (heard, to_client, from_client, said):
                    await stream.aclose()

    def _started(self) -> LineProcess:
        tools, folder = self._tools, Path(self._folders[0])
        given = given_to_command(environment_of(self._folders), tools.env)
        return LineProcess(
            (tools.command, *tools.args), folder, given.variables, called="it", owner=self._owner, bounds=_BOUNDS
        )

    async def _within(self, seconds: float, answer: Any, tool: str = "") -> Any:
        """An answer within the time limit, unless the server ends before. `tool`: the called tool, if any. Raises
        ToolFault, TimeoutError and MCPError."""
        task, broken = asyncio.ensure_future(answer), asyncio.ensure_future(self._broken.wait())
        try:
            await asyncio.wait([task, broken], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if broken.done():
                raise await self._ended(tool)
            raise TimeoutError
        finally:
            task.cancel()
            broken.cancel()

    async def _ended(self, tool: str = "") -> ToolFault:
        """Why it ended. `tool`: the called tool."""
        process = self._process
        if process is None:
            return self._fault("has closed the connection", tool)
        if self._why is not None:
            return self._fault(str(self._why).removeprefix("it "), tool)
        for _ in range(20):  # its last words and its exit code may be on their way
            if process.exit_code is not None:
                break
            await asyncio.sleep(0.05)
        return self._fault(str(process.ended()).removeprefix("it "), tool)

    async def _explained(self, error: BaseException) -> Exception:
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, UsageError | ToolFault):
            return error
        if isinstance(error, ProcessFault):
            words = "; `command` is only the program; put its arguments into `args`"
            return self._fault(f"cannot be started: {error}{words if ' ' in self._tools.command else ''}")
        if isinstance(error, TimeoutError):
            said = "" if self._process is None else self._process.complaint or self._process.passed_over
            return self._fault(f"did not start to speak MCP within {in_seconds(START_S)}{f': {said}' if said else ''}")
        if self._process is not None and (self._broken.is_set() or self._process.exit_code is not None):
            return await self._ended()
        if (status := self._status) >= 400:
            return self._fault(f"refuses us: HTTP {status}{_ADVICE.get(status, '')}")
        return self._fault(f"cannot be talked with: {_in_a_line(error)}")

    def _listed(self, tool: Any) -> Listed:
        schema = msgspec.json.encode(tool.input_schema or {"type": "object"}).decode()
        description = tool.description or tool.title or ""
        if len(schema) > LARGEST_DESCRIPTION or len(description) > LARGEST_DESCRIPTION:
            what = f"describes its tool `{tool.name[:100]}` by more than {LARGEST_DESCRIPTION:,} characters"
            raise self._fault(what)
        return Listed(tool.name, description, schema)

    def _fault(self, what: str, tool: str = "") -> ToolFault:
        where = self._tools.url or " ".join((self._tools.command, *self._tools.args))
        called = f", called for `{tool[:100]}`," if tool else ""
        return ToolFault(f"MCP server `{self._tools.name}` ({where}){called} {what}")


async def _all_pages(client: Client, tools: McpTools | None) -> list[Any]:
    """The tools that these declared ones allow, up to a maximum. Raises ValueError for endless pages."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        found += [one for one in page.tools if tools is None or allows(tools, one.name)]
        cursor = page.next_cursor
        if not cursor or len(found) > MOST_TOOLS:
            return found
    raise ValueError(f"the list has more than {MOST_PAGES} pages")


def _http_client(tools: McpTools, note_status: Callable[[int], None]) -> Any:
    """An HTTP client that limits the size of answers."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            size = containers = 0
            async for data in self._stream:
                size += len(data)
                containers += data.count(b"{") + data.count(b"[")
                if size > LARGEST_BODY or containers > MOST_VALUES:
                    raise httpx2.ReadError(
                        f"the answer is larger than {LARGEST_BODY:,} bytes or {MOST_VALUES:,} values"
                    )
                yield data

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: httpx2.Response) -> None:
        note_status(response.status_code)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.ReadError("the answer is compressed, which was not asked for")
        response.stream = Bounded(response.stream)

    # What is not compressed is not larger than what was counted.
    headers = {**tools.headers, "Accept-Encoding": "identity"}
    patience = httpx2.Timeout(START_S, read=max(START_S, tools.timeout_s))
    return httpx2.AsyncClient(headers=headers, timeout=patience, event_hooks={"response": [bound]})


def _in_a_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_COMPLAINT].removesuffix(":")


def _is_picture(image: Any) -> bool:
    """Whether an image is valid: an API refuses the whole request for an invalid one."""
    try:
        return bool(
            len(image.data) <= LARGEST_PICTURE
            and re.fullmatch(r"image/[\w.+-]{1,40}", image.mime_type)
            and a2b_base64(image.data, strict_mode=True)
        )
    except ValueError:
        return False


def _answer(result: Any) -> ToolAnswer:
    """A tool's answer: texts and images; other content by name. Structured content replaces a missing text."""
    texts: list[str] = []
    pictures: list[Picture] = []
    for one in result.content:
        if one.type == "text":
            texts.append(one.text)
        elif one.type == "image" and len(pictures) < MOST_PICTURES and _is_picture(one):
            pictures.append(Picture(one.mime_type, one.data))
        elif one.type == "resource" and getattr(one.resource, "text", None) is not None:
            texts.append(one.resource.text)
        elif one.type == "resource_link":
            texts.append(f"{one.name}: {one.uri}")
        else:
            texts.append(f"({one.type} that cannot be shown)")
    if not texts and result.structured_content is not None:
        texts.append(msgspec.json.encode(result.structured_content).decode())
    return ToolAnswer(cut("\n".join(texts)), bool(result.is_error), tuple(pictures))
