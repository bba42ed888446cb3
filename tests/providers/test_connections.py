"""The way to a server, through the command: dead addresses, proxies, certificates, and calls that take too long."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import tracemalloc
from asyncio import sslproto
from pathlib import Path
from typing import Any

import pytest
import trustme
import truststore

from rejoinder.testing import FakeServer
from tests.kit import PATIENCE_S, Project, Raw, deaf, run, spec, wait_until

REJOINDER = Path(sys.executable).with_name("rejoinder")


def suite_of(base_url: str, count: int = 1, **settings: Any) -> Raw:
    target = {"name": "model", "provider": "openai", "model": "m", "base_url": base_url, **settings}
    cases = [{"id": f"case-{n}", "prompt": f"Question {n}", "checks": [{"match": "*OK*"}]} for n in range(count)]
    return {"targets": [target], "target": "model", "evals": cases}


# Addresses


def test_a_dead_first_address_is_not_waited_for(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is tried a quarter of a second later; six seconds are enough for any machine."""
    look_up = socket.getaddrinfo

    def two_addresses(host: str, port: int, *arguments: Any, **more: Any) -> list[Any]:
        hosts = ["127.0.0.2", "127.0.0.1"] if host == "models.test" else [host]
        return [found for one in hosts for found in look_up(one, port, *arguments, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    with FakeServer("OK") as server:
        port = int(server.url.rpartition(":")[2])
        with deaf(port, "127.0.0.2"):
            suite = suite_of(f"http://models.test:{port}/v1", 3)
            document = run(project, suite, "--timeout", "6", "--max-retries", "0", code=0)
    assert document["summary"]["passed"] == 3


@spec("B11")
def test_a_call_that_found_no_connection_is_not_paid_for(project: Project) -> None:
    """Nothing was sent, so nothing is in doubt and the budget is whole."""
    project.write(".rejoinder/config.yaml", {"prices": {"model": {"input": 1, "output": 1}}})
    with deaf() as port:
        suite = suite_of(f"http://127.0.0.1:{port}/v1", max_tokens=100, retry_initial_delay_ms=1)
        document = run(project, suite, "--timeout", "0.5", "--max-retries", "1", "--budget-usd", "1", code=3)
        [result] = document["results"]
        message = f"no connection to 127.0.0.1:{port} within 0.5 s (tried 2 times)"
        assert (result["error"]["type"], result["error"]["message"]) == ("connection", message)
    assert (document["run"]["budget"]["spent_usd"], document["run"]["budget"]["spent_tokens"]) == (0, 0)
    assert document["run"]["in_doubt"] == 0


# Proxies


@pytest.mark.parametrize("networks", ["127.0.0.0/8", "10.0.0.0/8, 127.0.0.1/32", "fd00::/8,127.0.0.1", "127.0.0.0/30"])
def test_networks_without_a_proxy(networks: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", networks)
    with FakeServer("OK") as server:
        assert run(project, suite_of(server.openai_url), "--max-retries", "0", code=0)["summary"]["passed"] == 1


@pytest.mark.parametrize("order", [1, -1])
def test_a_variable_in_lower_case_counts(order: int, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whichever order the two stand in the environment; also where it is empty."""
    with FakeServer("OK") as server:
        place = server.url
        for name, wrong in (("http_proxy", "http://127.0.0.1:1"), ("no_proxy", "models.test")):
            right = {"http_proxy": place, "no_proxy": ""}[name]
            for spelling, value in [(name, right), (name.upper(), wrong)][::order]:
                monkeypatch.setenv(spelling, value)
        [result] = run(project, suite_of("http://models.test/v1"), "--max-retries", "0", code=3)["results"]
    # The server that stands for a proxy was asked for the whole address.
    assert "has the path http://models.test/v1/chat/completions" in result["error"]["message"]


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "all_proxy"])
@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks4", "SOCKS5"])
def test_a_socks_proxy_is_refused_in_words(
    scheme: str, variable: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, f"{scheme}://user:pa55word@127.0.0.1:1080")
    [result] = run(project, suite_of("http://models.test/v1"), code=3)["results"]
    assert result["error"]["type"] == "proxy"
    assert result["error"]["message"].startswith(f"{variable} names a SOCKS proxy, which is not supported; ")
    assert "pa55word" not in result["error"]["message"]


# TLS


@pytest.mark.slow
def test_the_system_is_asked_which_certificates_it_trusts(
    project: Project, authority: trustme.CA, server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS and Windows, where OpenSSL has no certificates of its own."""
    opened: list[int] = []

    class Store(truststore.SSLContext):
        def __init__(self, protocol: int) -> None:
            opened.append(protocol)
            super().__init__(protocol)
            authority.configure_trust(self)

    monkeypatch.setattr(truststore, "SSLContext", Store)
    monkeypatch.setattr(sys, "platform", "darwin")
    with FakeServer("OK", tls=server_tls) as server:
        assert run(project, suite_of(server.openai_url, 2), code=0)["summary"]["passed"] == 2
    assert opened == [ssl.PROTOCOL_TLS_CLIENT]


def test_a_certificate_that_the_system_does_not_trust(
    project: Project, server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with FakeServer("OK", tls=server_tls) as server:
        [result] = run(project, suite_of(server.openai_url), code=3)["results"]
        assert server.requests == []
    assert result["error"]["type"] == "tls"
    assert "is not trusted" in result["error"]["message"]


@pytest.mark.slow
def test_the_buffers_of_tls_connections_are_bounded(
    project: Project, authority: trustme.CA, server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 20
    authority.cert_pem.write_to_path(str(project.folder / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(project.folder / "authority.pem"))
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", 256 * 1024)
    taken: list[int] = []

    def reply(_: Any) -> str:
        only = [tracemalloc.Filter(True, sslproto.__file__)]
        found = tracemalloc.take_snapshot().filter_traces(only).statistics("filename")
        taken.append(sum(one.size for one in found))
        return "OK"

    with FakeServer(reply, tls=server_tls, latency_s=1.0) as server:
        gc.collect()
        tracemalloc.start()
        try:
            run(project, suite_of(server.openai_url, count), "-w", str(count), code=0)
        finally:
            tracemalloc.stop()
        assert server.connections == count
    # Both ends of a connection are in this process.
    assert max(taken) <= 2 * count * 64 * 1024


# Time


class Stopped:
    """`rejoinder run` in a process that is stopped while it waits for answers, until their time is up."""

    def __init__(self, project: Project, server: FakeServer, timeout_s: float) -> None:
        project.write("evals.yaml", suite_of(server.openai_url, 2, timeout_seconds=timeout_s))
        command = [str(REJOINDER), "run", "evals.yaml", "--format", "json", "--max-retries", "3"]
        self.process = subprocess.Popen(command, cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        wait_until(lambda: len(server.requests) == 2)
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)
        self.stopped_after = time.monotonic() - min(request.at for request in server.requests)

    def wake(self) -> Raw:
        os.kill(self.process.pid, signal.SIGCONT)
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return json.loads(out)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 3_000_000], ids=["short", "long"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_answers_that_came_while_the_process_was_stopped_are_read(
    tls: bool,
    size: int,
    project: Project,
    authority: trustme.CA,
    server_tls: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are paid for: the time of a call is up only when its answer has not come."""
    authority.cert_pem.write_to_path(str(project.folder / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(project.folder / "authority.pem"))
    for latency_s in (1.0, 10.0):  # a slow machine gets more time to stop the process
        timeout_s = latency_s + 1.0
        with FakeServer("OK" * size, tls=server_tls if tls else None, latency_s=latency_s) as server:
            stopped = Stopped(project, server, timeout_s)
            try:
                if stopped.stopped_after >= latency_s - 0.2:
                    continue
                time.sleep(timeout_s + 0.5)
                document = stopped.wake()
            finally:
                stopped.end()
            assert len(server.requests) == 2
            break
    else:
        pytest.fail("the process could not be stopped in time")
    assert [result["status"] for result in document["results"]] == ["passed"] * 2
    assert document["run"]["in_doubt"] == 0


@pytest.mark.slow
def test_a_call_without_an_answer_ends_although_the_process_was_stopped(project: Project) -> None:
    with FakeServer("OK", latency_s=PATIENCE_S) as server:
        stopped = Stopped(project, server, 1.0)
        try:
            time.sleep(1.5)
            os.kill(stopped.process.pid, signal.SIGCONT)
            wait_until(lambda: len(server.requests) >= 4)  # both are asked again
        finally:
            stopped.end()
