"""Runs on a rejoinder server, from Python: start them, follow them, wait for them, stop them.

    server = rejoinder.Server("http://127.0.0.1:8417")
    run = server.start("evals.yaml", options=rejoinder.RunChoices(repeat=3))
    run = server.wait(run.id)
    assert run.exit_code == 0

A refused request raises RequestRefused, and a server that does not answer raises ServerUnreachable; both are
ServerErrors. A run that failed its checks is not an error: `exit_code` is the exit code of `rejoinder run`.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Meta, Struct

from rejoinder.errors import RejoinderError
from rejoinder.model.runs import RunStatus, is_part_of_id, is_run_id, too_short
from rejoinder.words.numbers import in_seconds

Status: TypeAlias = RunStatus | Literal["queued", "cancelled", "refused", "damaged"]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Names: TypeAlias = Annotated[tuple[Name, ...], Meta(max_length=200)]
T = TypeVar("T")

LARGEST_ANSWER = 1 << 28
LARGEST_EVENT = 1 << 24
POLL_S = 0.5
MOST_LISTED = 500
"""Maximum runs that are searched for a part of an id."""
_LAST = re.compile(r"last(?:~([0-9]{1,6}))?")


def is_over(status: object) -> bool:
    """Whether a run with this status does nothing more."""
    return status not in ("queued", "running")


class RunChoices(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Options of a run that a request may set: fields of `RunOptions` with the same names, and with upper bounds."""

    targets: Names = ()
    """Names of targets; with several, the run compares them."""
    variants: Names = ()
    cases: Names = ()
    """Ids, and patterns such as `refund*`; `tags` accepts the same."""
    tags: Names = ()
    repeat: Annotated[int, Meta(ge=1, le=1000)] = 1
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    workers: Annotated[int, Meta(ge=1, le=100)] | None = None
    timeout_s: Annotated[float, Meta(gt=0, le=86400)] | None = None
    max_retries: Annotated[int, Meta(ge=0, le=20)] | None = None
    fail_fast: bool = False
    budget_usd: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    budget_tokens: Annotated[int, Meta(ge=1, le=1_000_000_000_000)] | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    system_prompt: Annotated[str, Meta(max_length=100_000)] | None = None
    cache: bool = False
    include_messages: bool = False


class StartRun(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A requested run: of a suite that the server has, by name or by its path in the project, or of one that
    is sent."""

    suite: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    yaml: Annotated[str, Meta(min_length=1)] | None = None
    files: Annotated[dict[str, str], Meta(max_length=1000)] = {}
    """Texts of the files that the suite in `yaml` names, by name."""
    options: RunChoices = RunChoices()


class RunState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a run."""

    id: str
    status: Status
    title: str = ""
    planned: int | None = None
    done: int | None = None
    """Number of ended conversations."""
    exit_code: int | None = None
    """The exit code of `rejoinder run`, once the run has ended."""
    message: str | None = None
    """Why the run was refused, or is damaged."""

    @property
    def is_over(self) -> bool:
        return is_over(self.status)


class QueueAnswer(Struct, frozen=True):
    """The queued and running runs, in order."""

    queue: tuple[RunState, ...]


class StopAnswer(Struct, frozen=True):
    stopped: tuple[RunState, ...]


class Health(Struct, frozen=True):
    status: str
    version: str
    read_only: bool
    project: str
    """A mark of the project's folder and its machine, by which a command recognises its own project."""


def project_mark(root: Path) -> str:
    return sha256(f"{uuid.getnode()}\n{root.resolve()}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


class _ListedRun(Struct, frozen=True):
    id: str
    grade_of: str | None = None


class _RunList(Struct, frozen=True):
    runs: tuple[_ListedRun, ...]
    queue: tuple[RunState, ...]


class Event(Struct, frozen=True):
    """An event of a running run: `status`, `progress`, `conversation` or `end`."""

    kind: str
    data: dict[str, Any]
    id: str = ""


class ServerError(RejoinderError):
    """A server did not carry out a request."""

    exit_code = 2


class ServerUnreachable(ServerError):
    """No server answers at the address."""


class RequestRefused(ServerError):
    """The server refuses a request. `code` is its reason as a word, `status` the HTTP status."""

    def __init__(self, status: int, code: str, message: str, details: Any = None) -> None:
        super().__init__(message, _HINTS.get(code) or _hint_in(details))
        self.status = status
        self.code = code
        self.details = details


_HINTS = {
    "no-token": "Give the server's token: --token, or REJOINDER_TOKEN in the environment.",
    "foreign-user": "Its user can start it with --token; then give that token.",
    "wrong-host": "Use the address that `rejoinder view` printed.",
}


def _hint_in(details: Any) -> str | None:
    """The server's advice."""
    try:
        return msgspec.convert(details, _Advice).hint
    except msgspec.ValidationError:
        return None


class _Advice(Struct, frozen=True):
    hint: Annotated[str, Meta(max_length=1000)]


class ErrorBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: str
    message: str
    details: Any = None


class ErrorAnswer(Struct, frozen=True):
    """The answer to every refused request."""

    error: ErrorBody


class Server:
    """A rejoinder server at an address such as http://127.0.0.1:8417."""

    def __init__(self, url: str, *, token: str | None = None, timeout_s: float = 30.0) -> None:
        place = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port, is_number = place.port, True
        except ValueError:
            port, is_number = None, False
        whole = is_number and bool(place.hostname) and not place.path.strip("/") and not place.query
        if place.scheme not in ("http", "https") or not place.hostname or not whole:
            raise ServerError(
                f"{url} is not the address of a server", "Write http://127.0.0.1:8417, as the server prints it."
            )
        self.url = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"
        self._secure, self._host, self._port = place.scheme == "https", place.hostname, port
        self._token = token
        self._timeout_s = timeout_s

    def start(
        self,
        suite: str | None = None,
        *,
        yaml: str | None = None,
        files: Mapping[str, str] | None = None,
        options: RunChoices = RunChoices(),  # noqa: B008 - frozen
    ) -> RunState:
        """Queue a run of a suite that the server has, or of one that is sent as YAML with the files that it names."""
        return self._ask(
            "POST", "/runs", RunState, StartRun(suite=suite, yaml=yaml, files=dict(files or {}), options=options)
        )

    def status(self, run: str) -> RunState:
        return self._ask("GET", f"/runs/{quote(run, '')}", RunState)

    def document(self, run: str) -> dict[str, Any]:
        """The server's full document about a run, including its receipt and its summary."""
        return self._ask("GET", f"/runs/{quote(run, '')}", dict[str, Any])

    def find(self, name: str) -> str:
        """The id of a run, by the names that commands accept: `last`, `last~1` for the run before it and so on, the
        beginning or end of an id, or the id. The last run is the one queued or started last, whether it has begun or
        not."""
        if is_run_id(name):
            return name
        listed = self._ask("GET", f"/runs?limit={MOST_LISTED}", _RunList)
        runs = {run.id for run in listed.runs if run.grade_of is None}
        ids = sorted(runs | {state.id for state in listed.queue}, reverse=True)
        if (last := _LAST.fullmatch(name)) is not None:
            found = ids[int(last[1] or 0) :][:1]
        else:
            found = [run for run in ids if is_part_of_id(name, run)]
        if len(found) == 1:
            return found[0]
        short = name[:100]
        reason = f"`{short}` is the beginning or end of several ids" if found else f"there is no run `{short}`"
        hint = f"{too_short(name)}Name a run by its id, or the latest by `last`."
        raise ServerError(f"{reason} at {self.url}", hint)

    def queue(self) -> tuple[RunState, ...]:
        """The queued and running runs, in order."""
        return self._ask("GET", "/queue", QueueAnswer).queue

    def stop(self, run: str) -> RunState:
        """Stop a run: a queued one is cancelled, and a running one can be resumed later."""
        return self._ask("POST", f"/runs/{quote(run, '')}/stop", RunState, {})

    def stop_queued(self) -> tuple[RunState, ...]:
        """Cancel all queued runs; return them."""
        return self._ask("POST", "/queue/stop", StopAnswer, {}).stopped

    def has_project(self, root: Path) -> bool:
        """Whether the server's project is a folder on this machine."""
        return self._ask("GET", "/health", Health).project == project_mark(root)

    def wait(self, run: str, *, timeout_s: float | None = None) -> RunState:
        """Wait until the run has ended; return it. Raises TimeoutError."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            state = self.status(run)
            if state.is_over:
                return state
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"run {run} has not ended after {in_seconds(timeout_s or 0)}")
            time.sleep(POLL_S)

    def events(self, run: str, after: str = "") -> Generator[Event]:
        """The events of a run, until it or the connection ends."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": after} if after else {})}
        with self._request("GET", f"/runs/{quote(run, '')}/events", None, headers) as answer:
            if answer.status != 200:
                raise _refusal(answer.status, answer.read(LARGEST_EVENT))
            yield from _read_events(answer)

    def _ask(self, method: str, path: str, kind: type[T], body: Struct | dict[str, Any] | None = None) -> T:
        content = None if body is None else msgspec.json.encode(body)
        with self._request(method, path, content, {"Accept": "application/json"}) as answer:
            given = answer.read(LARGEST_ANSWER)
            if answer.status >= 300:
                raise _refusal(answer.status, given)
        try:
            return msgspec.json.decode(given, type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise ServerError(f"{self.url} is not a rejoinder server: its answer cannot be read") from None

    @contextlib.contextmanager
    def _request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Generator[http.client.HTTPResponse]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout_s)
        if body is not None:
            headers = {**headers, "Content-Type": "application/json"}
        if self._token is not None:
            headers = {**headers, "Authorization": f"Bearer {self._token}"}
        try:
            connection.request(method, f"/api/v1{path}", body, headers)
            yield connection.getresponse()
        except (TimeoutError, OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise ServerUnreachable(
                f"no rejoinder server answers at {self.url}: {reason}", "Start one with `rejoinder view`."
            ) from None
        finally:
            connection.close()


def _refusal(status: int, content: bytes) -> ServerError:
    try:
        error = msgspec.json.decode(content, type=ErrorAnswer).error
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ServerError(f"the server answered with status {status}, which is not an answer of rejoinder's")
    return RequestRefused(status, error.code, error.message, error.details)


def _read_events(answer: http.client.HTTPResponse) -> Iterator[Event]:
    """Events in the standard's form: lines with fields, and an empty line after each event."""
    fields: dict[str, str] = {}
    while line := answer.readline(LARGEST_EVENT):
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if text:
            name, _, value = text.partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
            continue
        if "data" in fields:
            with contextlib.suppress(msgspec.MsgspecError):
                data = msgspec.json.decode(fields["data"], type=dict[str, Any])
                yield Event(fields.get("event", "message"), data, fields.get("id", ""))
        fields = {}
