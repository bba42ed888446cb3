"""The guard: what every path refuses, whatever stands behind it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import structs
from starlette.types import Receive, Scope, Send

from rejoinder.server.app import make_app
from rejoinder.server.errors import ApiError
from rejoinder.server.guard import HEADERS, MOST_ADDRESSES, Bucket, Guard, WrongTokens, known_hosts
from rejoinder.server.settings import Limits, Settings

PATHS = ("/", "/runs/x", "/static/app.js", "/data/runs/x/rows", "/api/v1/health", "/api/v1/runs", "/no/such/page")


def settings(folder: Path, **changes: Any) -> Settings:
    return structs.replace(Settings(root=folder), **changes)


def ask(of: Settings, method: str, path: str, **request: Any) -> httpx.Response:
    """One request, as a browser or a program on this machine sends it."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(make_app(of), raise_app_exceptions=False)
        base = request.pop("base", f"http://127.0.0.1:{of.port}")
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, **request)

    return asyncio.run(send())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:8417", ""])
def test_a_foreign_host_is_refused_on_every_path(tmp_path: Path, path: str, host: str):
    answer = ask(settings(tmp_path), "GET", path, headers={"Host": host})
    assert answer.status_code == 421
    assert answer.json()["error"]["code"] == "wrong-host"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:8417", "https://127.0.0.1:8417"])
def test_a_foreign_origin_is_refused_on_every_path(tmp_path: Path, path: str, origin: str):
    for method in ("GET", "POST"):
        answer = ask(
            settings(tmp_path), method, path, headers={"Origin": origin}, json={} if method == "POST" else None
        )
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "foreign-origin"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_page_loads_is_refused_and_what_a_person_opens_is_not(tmp_path: Path, site: str):
    loaded = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    opened = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    framed = opened | {"Sec-Fetch-Dest": "iframe"}
    assert ask(settings(tmp_path), "GET", "/none", headers=loaded).status_code == 403
    assert ask(settings(tmp_path), "GET", "/none", headers=framed).status_code == 403
    assert ask(settings(tmp_path), "GET", "/none", headers=opened).status_code == 404


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
def test_a_change_that_a_form_could_send_is_refused(tmp_path: Path, kind: str):
    answer = ask(settings(tmp_path), "POST", "/api/v1/runs", headers={"Content-Type": kind}, content=b"{}")
    assert answer.status_code == 415


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_policy(tmp_path: Path, path: str):
    answer = ask(settings(tmp_path), "GET", path)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert answer.headers["cache-control"] == "no-store"
    refused = ask(settings(tmp_path), "GET", path, headers={"Host": "evil.example"})
    assert {name: refused.headers.get(name) for name in HEADERS} == HEADERS


def test_the_length_of_a_body_is_counted_and_not_believed(tmp_path: Path):
    of = settings(tmp_path, limits=Limits(body_bytes=1000))

    async def parts():
        for _ in range(100):
            yield b" " * 100

    json = {"Content-Type": "application/json"}
    answer = ask(of, "POST", "/api/v1/runs", headers=json, content=parts())
    assert answer.status_code == 413
    assert ask(of, "POST", "/api/v1/runs", headers=json, content=b" " * 1001).status_code == 413


@pytest.mark.parametrize(("size", "status"), [(999, 404), (1000, 404), (1001, 413)])
def test_a_body_has_as_many_bytes_as_the_bound_and_no_more(tmp_path: Path, size: int, status: int):
    of = settings(tmp_path, limits=Limits(body_bytes=1000))

    async def parts():
        yield b" " * (size - 1)
        yield b" "

    json = {"Content-Type": "application/json"}
    for content in (b" " * size, parts()):
        assert ask(of, "POST", "/api/v1/none", headers=json, content=content).status_code == status


def test_a_body_that_never_ends_is_given_up(tmp_path: Path):
    of = settings(tmp_path, limits=Limits(body_s=0.05))

    async def parts():
        yield b"{"
        await asyncio.sleep(30)

    answer = ask(of, "POST", "/api/v1/runs", headers={"Content-Type": "application/json"}, content=parts())
    assert answer.status_code == 408


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"Host": "evil.example"}, 421),
        ("POST", {"Origin": "http://evil.example"}, 403),
        ("POST", {"Content-Type": "text/plain"}, 415),
        ("POST", {"Content-Type": "application/json"}, 413),
        ("GET", {}, 404),
    ],
)
def test_a_connection_ends_where_the_request_was_not_read(
    tmp_path: Path, method: str, headers: dict[str, str], status: int
):
    of = settings(tmp_path, limits=Limits(body_bytes=10))

    async def parts():
        yield b" " * 11

    for content in (b" " * 11, parts()):
        answer = ask(of, method, "/none", headers=headers, content=content)
        assert (answer.status_code, answer.headers.get("connection")) == (status, "close")
    json = {"Content-Type": "application/json"}
    assert "connection" not in ask(of, "POST", "/none", headers=json, content=b"{}").headers
    assert "connection" not in ask(of, "GET", "/none").headers


@pytest.mark.parametrize("begun", [False, True])
def test_a_mistake_of_ours_is_one_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture, begun: bool):
    async def broken(_scope: Scope, _receive: Receive, send: Send) -> None:
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("so\x1b[2J\nand so")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/\x1b]0;gone\x07\nsecond",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8417")],
    }
    asyncio.run(Guard(broken, settings(tmp_path))(scope, receive, send))
    assert sent[0]["status"] == (200 if begun else 500)
    [record] = caplog.records
    assert record.exc_info is None
    message = record.getMessage()
    assert message.startswith("GET /\\u001b]0;gone\\u0007 second: ValueError: so\\u001b[2J and so (test_guard.py:")
    assert message.isprintable()


def test_too_many_changes_are_told_when_to_come_again(tmp_path: Path):
    of = settings(tmp_path, limits=Limits(changes=3, changes_per_s=0.001))

    async def send() -> list[httpx.Response]:
        transport = httpx.ASGITransport(make_app(of))
        async with httpx.AsyncClient(transport=transport, base_url=of.address) as client:
            return [await client.post("/api/v1/none", json={}) for _ in range(4)]

    answers = asyncio.run(send())
    assert [answer.status_code for answer in answers][-1] == 429
    assert 429 not in [answer.status_code for answer in answers][:-1]
    assert int(answers[-1].headers["retry-after"]) >= 999


def test_a_bucket_fills_up_again():
    now = [0.0]
    bucket = Bucket(2, 1.0, lambda: now[0])
    assert [bucket.take() for _ in range(3)] == [0, 0, 1.0]
    now[0] = 1.0
    assert bucket.take() == 0
    assert bucket.take() == 1.0


class TestToken:
    @pytest.mark.parametrize("path", PATHS)
    def test_nothing_is_shown_without_it(self, tmp_path: Path, path: str):
        of = settings(tmp_path, token="sesame")
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic sesame"}, {"Cookie": "a=b"}):
            answer = ask(of, "GET", path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"

    def test_a_program_sends_it_with_every_request(self, tmp_path: Path):
        of = settings(tmp_path, token="sesame")
        assert ask(of, "GET", "/none", headers={"Authorization": "Bearer sesame"}).status_code == 404

    def test_a_browser_gives_it_once_and_keeps_a_cookie_that_is_not_the_token(self, tmp_path: Path):
        of = settings(tmp_path, token="sesame")
        first = ask(of, "GET", "/none?token=sesame&show=failed")
        assert (first.status_code, first.headers["location"]) == (303, "/none?show=failed")
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "sesame" not in cookie
        kept = {"Cookie": cookie.partition(";")[0]}
        assert ask(of, "GET", "/none", headers=kept).status_code == 404
        assert ask(settings(tmp_path, token="other"), "GET", "/none", headers=kept).status_code == 401

    def test_too_many_fields_are_refused(self, tmp_path: Path, caplog: pytest.LogCaptureFixture):
        answer = ask(settings(tmp_path, token="sesame"), "GET", "/%1b[2J?" + "&".join("a" * 150))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-request")
        assert not caplog.records

    def test_the_redirect_stays_on_this_server(self, tmp_path: Path):
        answer = ask(settings(tmp_path, token="sesame"), "GET", "http://127.0.0.1:8417//evil.example/?token=sesame")
        assert answer.headers["location"].startswith("/evil.example")

    def test_after_too_many_wrong_tokens_the_right_one_is_not_taken_either(self, tmp_path: Path):
        of = settings(tmp_path, token="sesame", limits=Limits(wrong_tokens=2, wrong_tokens_per_s=0.001))
        assert _tried(of, "a", "b", "c", "sesame") == [401, 401, 429, 429]
        assert _tried(of, "a", "sesame", "sesame", "b", "sesame") == [401, 404, 404, 401, 429]

    def test_an_address_that_tries_tokens_does_not_lock_out_others(self, tmp_path: Path):
        of = settings(tmp_path, token="sesame", limits=Limits(wrong_tokens=1, wrong_tokens_per_s=0.001))
        app = make_app(of)
        assert _tried(of, "a", "sesame", app=app, client="192.0.2.7") == [401, 429]
        assert _tried(of, "sesame", "a", "sesame", app=app, client="192.0.2.8") == [404, 401, 429]
        assert _tried(of, "a", "sesame", app=app, client="2001:db8::1") == [401, 429]
        assert _tried(of, "sesame", app=app, client="2001:db8::ffff:2") == [429], "one machine has a whole network"
        assert _tried(of, "sesame", app=app, client="2001:db8:0:1::1") == [404]

    def test_a_browser_that_was_let_in_stays_in_while_its_address_is_blocked(self, tmp_path: Path):
        of = settings(tmp_path, token="sesame", limits=Limits(wrong_tokens=1, wrong_tokens_per_s=0.001))
        kept = {"Cookie": ask(of, "GET", "/none?token=sesame").headers["set-cookie"].partition(";")[0]}
        app = make_app(of)
        assert _tried(of, "a", "sesame", app=app) == [401, 429]
        assert _answers(of, [kept], app) == [404]

    def test_a_pass_is_not_made_from_a_guessed_token(self, tmp_path: Path):
        of = settings(tmp_path, token="sesame")
        guess = hmac.new(b"sesame", f"rejoinder-{of.port}".encode(), hashlib.sha256).hexdigest()
        assert ask(of, "GET", "/none", headers={"Cookie": f"rejoinder-{of.port}={guess}"}).status_code == 401

    def test_old_passes_of_a_browser_do_not_block_it(self, tmp_path: Path):
        of = settings(tmp_path, token="sesame", limits=Limits(wrong_tokens=1, wrong_tokens_per_s=0.001))
        app = make_app(of)
        assert _answers(of, [{"Cookie": f"rejoinder-{of.port}=old"}] * 5, app) == [401] * 5
        assert _tried(of, "sesame", app=app) == [404]

    def test_the_right_token_counts_again_after_a_while(self):
        now = [0.0]
        wrong = WrongTokens(Limits(wrong_tokens=1, wrong_tokens_per_s=0.5), lambda: now[0])
        with pytest.raises(ApiError, match="is not this server's"):
            wrong.compare("192.0.2.7", "a", "sesame")
        with pytest.raises(ApiError, match="too many wrong tokens"):
            wrong.compare("192.0.2.7", "sesame", "sesame")
        now[0] = 2.0
        wrong.compare("192.0.2.7", "sesame", "sesame")

    def test_only_so_many_addresses_are_remembered(self):
        wrong = WrongTokens(Limits(wrong_tokens=1, wrong_tokens_per_s=0.001), lambda: 0.0)
        for number in range(MOST_ADDRESSES + 1):
            with pytest.raises(ApiError, match="is not this server's"):
                wrong.compare(f"10.0.{number // 256}.{number % 256}", "a", "sesame")
        wrong.compare("10.0.0.0", "sesame", "sesame")
        with pytest.raises(ApiError, match="too many"):
            wrong.compare("10.0.0.1", "sesame", "sesame")


def _tried(of: Settings, *tokens: str, app: Any = None, client: str = "127.0.0.1") -> list[int]:
    """The statuses of requests with these tokens, one after the other at one server."""
    return _answers(of, [{"Authorization": f"Bearer {token}"} for token in tokens], app or make_app(of), client)


def _answers(of: Settings, heads: list[dict[str, str]], app: Any, client: str = "127.0.0.1") -> list[int]:
    async def send() -> list[int]:
        transport = httpx.ASGITransport(app, client=(client, 40000))
        async with httpx.AsyncClient(transport=transport, base_url=of.address) as asking:
            return [(await asking.get("/none", headers=head)).status_code for head in heads]

    return asyncio.run(send())


class TestHosts:
    def test_all_addresses_of_a_machine_are_numbers_or_its_own_name(self, tmp_path: Path):
        known = known_hosts(settings(tmp_path, host="0.0.0.0"))
        assert known("192.168.1.5:8417")
        assert known("[2001:db8::1]:8417")
        assert known("localhost:8417")
        assert not known("rebound.example:8417")
        assert not known("192.168.1.5:80")

    def test_loopback_is_loopback(self, tmp_path: Path):
        known = known_hosts(settings(tmp_path))
        assert known("localhost:8417")
        assert known("[::1]:8417")
        assert not known("192.168.1.5:8417")
