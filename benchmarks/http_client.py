"""Our HTTP client beside aiohttp: processor time of a call, plain and over TLS, and memory of many TLS connections.

Each measurement is a process of its own; the clients take turns, against one server in another process that answers
after 20 ms. A call is a POST of 954 bytes on a connection that is kept, with a header of its own, and its whole answer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "%s"}]}' % (b"x" * 893)
ANSWER_BODY = b'{"choices": [{"message": {"role": "assistant", "content": "%s"}}]}' % (b"y" * 400)
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(ANSWER_BODY),
    ANSWER_BODY,
)
LATENCY_S = 0.02
IN_FLIGHT = 50
CONNECTIONS = (50, 500)
CLIENTS = ("ours", "aiohttp")
CPU_BOUND, MEMORY_BOUND = 0.75, 2.0
"""Ours to aiohttp; 500 connections to 50."""

Send = Callable[[int], Awaitable[bytes]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--calls", type=int, default=3000, help="calls of a measurement (default: 3000)")
    parser.add_argument("--child", nargs=4, metavar=("CLIENT", "URL", "FOLDER", "WHAT"), help=argparse.SUPPRESS)
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(Path(given.serve)))
        return 0
    if given.child:
        client, url, folder, what = given.child
        asyncio.run(measure(client, url, Path(folder), what, given.calls))
        return 0
    return compare(given.rounds, given.calls)


# The parent


def compare(rounds: int, calls: int) -> int:
    assert len(BODY) == 954
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as urls:
        cpu = {(client, way): [] for way in urls for client in CLIENTS}
        memory = {(client, count): [] for count in CONNECTIONS for client in CLIENTS}
        for _ in range(rounds):
            for (client, way), found in cpu.items():
                found.append(child(client, urls[way], name, "cpu", calls))
            for (client, count), found in memory.items():
                found.append(child(client, urls["TLS"], name, str(count), calls))
    return show({key: statistics.median(found) for key, found in (cpu | memory).items()})


def child(client: str, url: str, folder: str, what: str, calls: int) -> float:
    command = [sys.executable, __file__, "--child", client, url, folder, what, "--calls", str(calls)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[dict[str, str]]:
    """The server's addresses, by the way to it."""
    import trustme

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    command = [sys.executable, __file__, "--serve", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        plain, tls = process.stdout.readline().split()
        yield {"plain": f"http://127.0.0.1:{plain}/v1", "TLS": f"https://127.0.0.1:{tls}/v1"}
    finally:
        process.kill()
        process.communicate()


def show(found: dict[tuple[str, str | int], float]) -> int:
    broken = 0
    print(f"{'':32}  {'ours':>8}  {'aiohttp':>8}  ratio  bound")
    for way in ("plain", "TLS"):
        ours, other = found["ours", way], found["aiohttp", way]
        broken += show_row(f"us of CPU a call, {way}", ours, other, ours / other, CPU_BOUND)
    for count in CONNECTIONS:
        ours, other = found["ours", count], found["aiohttp", count]
        show_row(f"MB with {count} TLS connections", ours, other, ours / other, None)
    few, many = (found["ours", count] for count in CONNECTIONS)
    growth = found["aiohttp", CONNECTIONS[1]] / found["aiohttp", CONNECTIONS[0]]
    broken += show_row("memory, 500 to 50 connections", many / few, growth, many / few, MEMORY_BOUND)
    return int(broken > 0)


def show_row(name: str, ours: float, other: float, ratio: float, bound: float | None) -> int:
    verdict = "" if bound is None else f"  {bound:5g}  {'ok' if ratio <= bound else 'OVER'}"
    print(f"{name:32}  {ours:8.1f}  {other:8.1f}  {ratio:5.2f}{verdict}")
    return int(bound is not None and ratio > bound)


# The server


class Answering(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.received.endswith(BODY[-10:]):
            self.received = b""
            asyncio.get_running_loop().call_later(LATENCY_S, self.transport.write, ANSWER)


async def serve(folder: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Answering, "127.0.0.1", 0, ssl=tls, backlog=1024) for tls in (None, context)]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.sleep(3600)


# A client


@contextlib.asynccontextmanager
async def ours(url: str, folder: Path):
    from rejoinder.providers.http_client import Transport

    transport = Transport({"SSL_CERT_FILE": str(folder / "authority.pem")})

    async def send(number: int) -> bytes:
        own = (("x-client-request-id", str(number)),)
        return (await transport.send("POST", url, {"content-type": "application/json"}, BODY, own, 300.0)).body

    yield send
    await transport.close()


@contextlib.asynccontextmanager
async def aiohttp(url: str, folder: Path):
    from aiohttp import ClientSession, ClientTimeout, TCPConnector

    context = ssl.create_default_context(cafile=folder / "authority.pem")
    headers = {"content-type": "application/json"}
    connector, limit = TCPConnector(ssl=context, limit=0), ClientTimeout(300.0)
    async with ClientSession(headers=headers, connector=connector, timeout=limit) as session:

        async def send(number: int) -> bytes:
            async with session.post(url, data=BODY, headers={"x-client-request-id": str(number)}) as answer:
                return await answer.read()

        yield send


async def measure(client: str, url: str, folder: Path, what: str, calls: int) -> None:
    async with {"ours": ours, "aiohttp": aiohttp}[client](url, folder) as send:
        if what == "cpu":
            await send_all(send, calls // 5, IN_FLIGHT)
            before = time.process_time()
            await send_all(send, calls, IN_FLIGHT)
            print((time.process_time() - before) / calls * 1e6)
        else:
            count = int(what)
            for _ in range(3):
                await send_all(send, count, count)
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


async def send_all(send: Send, calls: int, in_flight: int) -> None:
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            assert await send(number) == ANSWER_BODY

    await asyncio.gather(*(work() for _ in range(in_flight)))


if __name__ == "__main__":
    sys.exit(main())
