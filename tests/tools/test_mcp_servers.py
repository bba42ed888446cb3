"""MCP servers, over their pipes and over HTTP: what they offer and answer, and that one which misbehaves is one clear
fault, never a hang and never a process that is left."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import pytest

from rejoinder.model.messages import ToolAnswer
from rejoinder.model.tools import McpTools
from rejoinder.tools import mcp_server
from rejoinder.tools.base import ToolFault, Use
from rejoinder.tools.mcp_server import McpServer
from tests.kit import Project, Raw, assert_gone, case, run_process, scripted, wait_until
from tests.tools import servers

T = TypeVar("T")
SCRIPT = Path(servers.__file__)


def ours(tmp_path: Path, behaviour: str, **more: Any) -> McpTools:
    notes = tmp_path / "pids"
    return McpTools(name="ours", command=sys.executable, args=("-I", "-S", str(SCRIPT), behaviour, str(notes)), **more)


def talk(tmp_path: Path, tools: McpTools, does: Callable[[McpServer], Awaitable[T]]) -> T:
    """Do something with a server, close it, and see that nothing is left of it."""

    async def all_of_it() -> T:
        server = McpServer(tools, (str(tmp_path), str(tmp_path)))
        try:
            return await does(server)
        finally:
            await server.close()

    try:
        return asyncio.run(all_of_it())
    finally:
        notes = tmp_path / "pids"
        assert_gone(*map(int, notes.read_text().split() if notes.exists() else ()))


def call(tools: McpTools, name: str = "look", **arguments: Any) -> Callable[[McpServer], Awaitable[ToolAnswer]]:
    return lambda server: server.call(Use(tools, name, json.dumps(arguments)))


def fault_of(tmp_path: Path, behaviour: str, does: str = "call", **more: Any) -> str:
    tools = ours(tmp_path, behaviour, **more)
    with pytest.raises(ToolFault) as caught:
        talk(tmp_path, tools, call(tools, word="a") if does == "call" else lambda server: server.list())
    return str(caught.value)


@pytest.fixture
def official(tmp_path: Path) -> Path:
    path = tmp_path / "weather.py"
    path.write_text(servers.OFFICIAL)
    return path


@pytest.fixture
def address(official: Path, free_port: int) -> Iterator[str]:
    process = subprocess.Popen([sys.executable, str(official), str(free_port)])
    try:
        wait_until(lambda: _answers(free_port), "the server did not start")
        yield f"http://127.0.0.1:{free_port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def _answers(port: int) -> bool:
    import socket

    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


async def _look_around(server: McpServer, tools: McpTools) -> tuple[Any, ...]:
    listed = await server.list()
    answers = await asyncio.gather(
        server.call(Use(tools, "forecast", '{"city": "Bern", "days": 2}')),
        server.call(Use(tools, "forecast", '{"city": "Atlantis"}')),
        server.call(Use(tools, "forecast", '{"days": "many"}')),
    )
    return listed, *answers


def _check_official(found: tuple[Any, ...]) -> None:
    listed, rain, no_city, no_number = found
    assert [one.name for one in listed] == ["forecast", "variables"]
    assert listed[0].description == "The weather of a city."
    assert json.loads(listed[0].parameters)["required"] == ["city"]
    assert rain == ToolAnswer("Bern: rain for 2 days")
    assert no_city.failed and no_number.failed


def test_a_real_server_over_its_pipes(tmp_path: Path, official: Path) -> None:
    tools = McpTools(name="weather", command=sys.executable, args=(str(official),))
    _check_official(talk(tmp_path, tools, lambda server: _look_around(server, tools)))


def test_a_real_server_over_http(tmp_path: Path, address: str) -> None:
    tools = McpTools(name="weather", url=address)
    _check_official(talk(tmp_path, tools, lambda server: _look_around(server, tools)))


def test_only_tools_that_are_allowed_are_listed(tmp_path: Path) -> None:
    listed = talk(tmp_path, ours(tmp_path, "fine", allow=("lo*",)), lambda server: server.list())
    assert [one.name for one in listed] == ["look"]
    assert "no tool that is allowed" in fault_of(tmp_path, "fine", "list", allow=("x",))


def test_what_a_tool_gives_back(tmp_path: Path) -> None:
    def answered(behaviour: str, word: str = "mint") -> ToolAnswer:
        tools = ours(tmp_path, behaviour)
        return talk(tmp_path, tools, call(tools, word=word))

    assert answered("fine") == ToolAnswer("mint means 4")
    assert answered("fine", "bad") == ToolAnswer("bad means 3", failed=True)
    picture = answered("image")
    assert (picture.text, [one.mime_type for one in picture.pictures]) == ("a dot", ["image/png"])
    assert answered("broken-images") == ToolAnswer("(image that cannot be shown)\n(image that cannot be shown)")
    assert answered("structured").text == '{"found":[1,2]}'
    large = answered("large").text
    assert len(large) < 1_100_000 and large.endswith("of 3,000,000 characters)")


@pytest.mark.parametrize(
    ("behaviour", "does", "words"),
    [
        ("refuse", "list", "ended with exit code 3: no licence found"),
        ("endless-line-at-start", "list", "prints more than can be read"),
        ("many", "list", "more than 512 tools; name those that are needed as `allow`"),
        ("very-many", "list", "prints more than can be read"),
        ("none", "list", "offers no tool"),
        ("long", "list", "describes its tool `look` by more than 65,536 characters"),
        ("crash", "call", "called for `look`, ended with exit code 7: out of cheese"),
        ("endless-line", "call", "called for `look`, prints more than can be read"),
        ("rename", "call", "no longer offers the tool `look`, which it did when the run began"),
    ],
)
def test_a_server_that_misbehaves_is_one_clear_fault(tmp_path: Path, behaviour: str, does: str, words: str) -> None:
    said = fault_of(tmp_path, behaviour, does)
    assert words in said
    assert said.startswith("MCP server `ours` (") and "Traceback" not in said


MEASURED = """
import re, runpy, sys
try:
    runpy.run_module("rejoinder", run_name="__main__", alter_sys=True)
finally:
    print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="tells how much memory a process used")
@pytest.mark.parametrize(
    "behaviour", ["endless-line", "endless-lines", "long-line", "many-values", "very-many", "picture"]
)
def test_a_flood_costs_little_memory(project: Project, behaviour: str) -> None:
    program = project.write("measured.py", MEASURED)
    server: Raw = {"name": "ours", "command": sys.executable, "args": ["-I", "-S", str(SCRIPT), behaviour]}
    server["timeout_seconds"] = 4
    reply = {"tool_calls": [{"name": "look", "arguments": {"word": "a"}}]}
    suite = {"targets": [scripted("bot", reply, "OK")], "target": "bot", "tools": [{"mcp": server}]}
    project.write("evals.yaml", {**suite, "evals": [case("one", {"match": "*"})]})
    ended = run_process(project.folder, command=[sys.executable, str(program), "run", "evals.yaml"])
    assert ended.code in (0, 3), ended.err
    assert int(ended.err.splitlines()[-1]) < 150_000, ended.out


def test_a_server_that_never_says_hello_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "START_S", 1.0)
    assert fault_of(tmp_path, "silent", "list").endswith("did not start to speak MCP within 1 s")
    assert fault_of(tmp_path, "chatty", "list").endswith("did not start to speak MCP within 1 s: Welcome!")


def test_a_server_whose_pages_of_tools_come_slowly_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "START_S", 1.5)
    assert "did not list its tools within 1.5 s" in fault_of(tmp_path, "pages", "list")
    monkeypatch.setattr(mcp_server, "MOST_PAGES", 2)
    assert "the list has more than 2 pages" in fault_of(tmp_path, "pages", "list")


@pytest.mark.slow
def test_nothing_that_a_server_says_is_logged_on_the_terminal(project: Project) -> None:
    mcp = {"name": "ours", "command": sys.executable, "args": ["-I", "-S", str(SCRIPT), "odd-note"]}
    replies = {"tool_calls": [{"name": "ours__look", "arguments": {"word": "a"}}]}, "done"
    suite = {
        "targets": [scripted("demo", *replies)],
        "tools": [{"mcp": mcp}],
        "evals": [case("one", {"match": "done"})],
    }
    project.write("evals.yaml", suite)
    done = run_process(project.folder, "run", "evals.yaml")
    assert "1 passed" in done.out and "notifications" not in done.err and "Traceback" not in done.err


def test_a_program_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    tools = McpTools(name="ours", command="no-such-program-anywhere")
    with pytest.raises(ToolFault, match=r"MCP server `ours` .* cannot be started"):
        talk(tmp_path, tools, lambda server: server.list())


def test_arguments_in_the_command_are_pointed_out(tmp_path: Path) -> None:
    tools = McpTools(name="ours", command="python server.py")
    with pytest.raises(ToolFault, match=r"no program `python server\.py`; `command` is only the program"):
        talk(tmp_path, tools, lambda server: server.list())


def test_nobody_at_the_address_is_a_fault(tmp_path: Path, free_port: int) -> None:
    tools = McpTools(name="ours", url=f"http://127.0.0.1:{free_port}/mcp")
    with pytest.raises(ToolFault, match="cannot be talked with: ConnectError"):
        talk(tmp_path, tools, lambda server: server.list())


@pytest.mark.parametrize("behaviour", ["hang", "endless-lines", "late"])
def test_a_call_that_takes_too_long_is_a_failed_answer(tmp_path: Path, behaviour: str) -> None:
    tools = ours(tmp_path, behaviour, timeout_s=0.5)
    started = time.perf_counter()
    answer = talk(tmp_path, tools, call(tools, word="a"))
    assert answer == ToolAnswer("the tool did not answer within 0.5 s", failed=True)
    assert time.perf_counter() - started < 40


def test_an_answer_after_the_end_is_not_taken_for_the_next_one(tmp_path: Path) -> None:
    tools = ours(tmp_path, "late", timeout_s=1.0)

    async def twice(server: McpServer) -> tuple[ToolAnswer, ToolAnswer]:
        first = await server.call(Use(tools, "look", '{"word": "first"}'))
        await asyncio.sleep(1)
        patient = McpTools(name="ours", timeout_s=20.0)
        server._tools = patient  # pyright: ignore[reportPrivateUsage] - the next call may take its time
        return first, await server.call(Use(tools, "look", '{"word": "another"}'))

    first, second = talk(tmp_path, tools, twice)
    assert first.failed
    assert second == ToolAnswer("another means 7")


def test_a_result_that_breaks_the_protocol_is_a_failed_answer(tmp_path: Path) -> None:
    tools = ours(tmp_path, "garbage")
    answer = talk(tmp_path, tools, call(tools, word="a"))
    assert answer.failed and answer.text.startswith("the tool's answer breaks the protocol: ")


def test_a_server_that_lists_rubbish_is_a_fault(tmp_path: Path) -> None:
    assert "does not list its tools: " in fault_of(tmp_path, "rubbish", "list")


class _Endless(BaseHTTPRequestHandler):
    """Answers as ours do, but for calls of tools: their answer has no end."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in asked:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if asked["method"] != "tools/call":
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **servers.answer("fine", asked, 0)}).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        if self.path == "/packed":
            self._pack(asked["id"])
            return
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b" " * 65536)

    def _pack(self, id: int) -> None:
        """An answer that is small on the wire alone."""
        content = [{"type": "text", "text": "x" * 3_000_000}]
        body = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"content": content}}).encode())
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.parametrize("path", ["mcp", "packed"])
def test_an_answer_over_http_without_an_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(mcp_server, "LARGEST_BODY", 1 << 20)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Endless) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        tools = McpTools(name="ours", url=f"http://127.0.0.1:{http.server_address[1]}/{path}", timeout_s=30.0)
        started = time.perf_counter()
        try:
            assert talk(tmp_path, tools, call(tools, word="a")).failed
        except ToolFault as fault:
            assert "MCP server `ours`" in str(fault)
        finally:
            http.shutdown()
            thread.join()
        assert time.perf_counter() - started < 25  # it is not the patience that ends it
