"""Spans over HTTP: taken by a server, tried again when it is busy, refused with words that help."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest

from rejoinder.errors import UsageError
from rejoinder.exports.otlp_http import Endpoint, ExportError, Sent, find_endpoint, send
from tests.exports.spans import read_spans
from tests.kit import deaf
from tests.labs.collector_lab import Collector
from tests.report.exports import MadeRun, made_run, mixed, result, turn


def sent_to(collector: Collector, run: MadeRun | None = None, **more: bool) -> tuple[Sent, list[float]]:
    waits: list[float] = []
    endpoint = Endpoint(collector.url, {"x-key": "k"}, timeout_s=20)
    return send(run or mixed(), endpoint, wait=waits.append, **more), waits


def test_a_collector_takes_all_spans() -> None:
    with Collector().open() as collector:
        sent, waits = sent_to(collector)
    assert (sent, waits) == (Sent(19), [])
    [request] = collector.taken
    assert (request.path, request.headers["X-Key"]) == ("/v1/traces", "k")
    assert request.headers["Content-Type"] == "application/json"
    text = gzip.decompress(request.body).decode()
    assert len(read_spans(text)) == 19
    assert "gen_ai.input.messages" not in text


def test_what_was_said_is_sent_where_it_is_asked_for() -> None:
    with Collector().open() as collector:
        sent_to(collector, content=True)
    assert b"gen_ai.input.messages" in gzip.decompress(collector.taken[0].body)


@pytest.mark.slow
def test_a_large_run_is_sent_in_parts() -> None:
    run = made_run(result(f"case-{number}", turn("x" * 20_000)) for number in range(100))
    with Collector().open() as collector:
        sent, _ = sent_to(collector, run, content=True)
    assert sent.spans == 200
    assert len(collector.taken) > 2


def test_a_busy_collector_is_asked_again_after_the_time_that_it_names() -> None:
    with Collector((503, {}, b""), (429, {"Retry-After": "7"}, b""), (503, {"Retry-After": "999"}, b"")).open() as one:
        sent, waits = sent_to(one)
    assert (sent.spans, waits, len(one.taken)) == (19, [1.0, 7.0, 30.0], 4)
    assert len({request.body for request in one.taken}) == 1


def test_a_collector_that_stays_busy_is_given_up() -> None:
    with (
        Collector(*[(503, {}, b"over\x1b[2Jloaded")] * 9).open() as collector,
        pytest.raises(ExportError, match="HTTP 503") as refusal,
    ):
        sent_to(collector)
    assert len(collector.taken) == 5
    assert "\x1b" not in str(refusal.value)


def test_a_refusal_is_not_repeated() -> None:
    with Collector((401, {}, b"no key")).open() as collector, pytest.raises(ExportError, match="HTTP 401: no key"):
        sent_to(collector)
    assert len(collector.taken) == 1


def test_a_key_does_not_follow_a_redirection() -> None:
    with Collector().open() as other, Collector((307, {"Location": other.url}, b"")).open() as collector:
        with pytest.raises(ExportError, match="HTTP 307"):
            sent_to(collector)
        assert other.taken == []


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (
            b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old\\u001b"}}',
            Sent(19, 3, "too old\\u001b"),
        ),
        (b'{"partialSuccess": {"rejectedSpans": 2}}', Sent(19, 2)),
        (b'{"partialSuccess": null}', Sent(19)),
        (b"<html>", Sent(19)),
        (b"", Sent(19)),
        (b'{"partialSuccess": {"rejectedSpans": "many"}}', Sent(19)),
    ],
)
def test_what_a_collector_rejects_is_told(answer: bytes, wanted: Sent) -> None:
    with Collector((200, {}, answer)).open() as collector:
        assert sent_to(collector)[0] == wanted


def test_no_collector_is_an_error_that_says_where() -> None:
    with deaf() as port:
        endpoint = Endpoint(f"http://127.0.0.1:{port}/v1/traces", timeout_s=0.05)
        with pytest.raises(ExportError, match=f"127.0.0.1:{port}"):
            send(mixed(), endpoint, wait=lambda _: None)


@contextmanager
def dripping(beginning: bytes, drop: bytes) -> Iterator[int]:
    """A port where a request is answered with drops, as long as the client takes them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                connection.sendall(beginning)
                while not ended.wait(0.02):
                    connection.sendall(drop)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    Thread(target=drip, args=(listener.accept()[0],)).start()

        ended = Event()
        thread = Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beginning", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b" "),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 60000\r\n\r\n", b" "),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
    ],
    ids=["body", "body of an error", "100 Continue", "header"],
)
def test_a_collector_that_drips_is_given_up(beginning: bytes, drop: bytes) -> None:
    begun = time.monotonic()
    with dripping(beginning, drop) as port:
        endpoint = Endpoint(f"http://127.0.0.1:{port}/v1/traces", timeout_s=0.3)
        with pytest.raises(ExportError, match=r"did not answer within 0\.3 s"):
            send(mixed(), endpoint, wait=lambda _: None)
    assert time.monotonic() - begun < 10


def test_the_address_comes_from_the_variables_of_opentelemetry() -> None:
    base = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://one:4318/", "OTEL_EXPORTER_OTLP_HEADERS": "a=b%20c, d-e=f=g"}
    assert find_endpoint(base) == Endpoint("http://one:4318/v1/traces", {"a": "b c", "d-e": "f=g"})
    assert find_endpoint({**base, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://two/x"}).url == "http://two/x"
    assert find_endpoint(base, "https://three/y").url == "https://three/y"


@pytest.mark.parametrize(
    ("environment", "url", "words"),
    [
        ({}, None, "no collector is named"),
        ({}, "file:///etc/passwd", "not the address of a collector"),
        ({}, "http://[", "not the address of a collector"),
        ({}, "http://host:99999/", "not the address of a collector"),
        ({}, "http://host/\r\nx", "not the address of a collector"),
        ({}, "http://me:secret@host/", "holds a user name or password"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "nonsense"}, "http://host/", "not a header"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "a=b%0d%0ac"}, "http://host/", "not a header"),
    ],
)
def test_a_wrong_address_is_refused_before_anything_is_sent(
    environment: dict[str, str], url: str | None, words: str
) -> None:
    with pytest.raises(UsageError, match=words) as refusal:
        find_endpoint(environment, url)
    assert "secret" not in str(refusal.value)
