"""Requests for the results of a run. They are walked through, line by line, and never held as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from rejoinder.model import Status
from rejoinder.model.results import Result
from rejoinder.run_files import open_file
from rejoinder.server.api_routes import Api, Call, Route
from rejoinder.server.errors import ApiError
from rejoinder.server.events import stream_events
from rejoinder.server.found import open_results
from rejoinder.server.result_lines import LONGEST, bounded_lines, read_line

MOST_LISTED = 200
MOST_BYTES = 64 << 20
"""Of one answer; a page ends early where its results are larger."""


class ResultsQuery(Struct, frozen=True, kw_only=True):
    """`q`: words of the conversation, or of the case's id or title, in any letter case."""

    status: tuple[Status, ...] = ()
    target: tuple[str, ...] = ()
    q: Annotated[str, Meta(max_length=1000)] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 50
    offset: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0


class ResultsAnswer(Struct, frozen=True):
    """`results`: objects as `results.jsonl` has them. `total`: how many there are under the filters."""

    results: tuple[Result, ...]
    total: int


class _Said(Struct, frozen=True):
    prompt: str = ""
    response: str | None = None


class _Line(Struct, frozen=True):
    """Of a result, what filters look at."""

    id: str
    status: str
    target: str
    title: str | None = None
    turns: tuple[_Said, ...] = ()


def walk_results(path: Path) -> Iterator[bytes | None]:
    """The whole lines of a file of results; the last one may still be written. None for one that is too long."""
    with contextlib.suppress(FileNotFoundError), open_file(path) as stream:
        for _, line, size in bounded_lines(stream):
            yield None if size > LONGEST else line[:-1]


def _too_long(number: int) -> ApiError:
    message = f"result {number - 1} has more than {LONGEST >> 20} MiB, and is not read here; look at line {number}"
    return ApiError(409, f"{message} of the file itself", code="too-large")


def _find(path: Path, query: ResultsQuery) -> tuple[list[msgspec.Raw], int]:
    words = query.q.casefold()
    filtered = bool(query.status or query.target or words)
    found: list[msgspec.Raw] = []
    total = size = 0
    for number, line in enumerate(walk_results(path), 1):
        if filtered:
            if line is None:
                raise _too_long(number)
            if not _holds(read_line(line, _Line, path, number), query, words):
                continue
        total += 1
        if query.offset < total and len(found) < query.limit and size < MOST_BYTES:
            if line is None:
                raise _too_long(number)
            found.append(_checked(line, path, number))
            size += len(line)
    return found, total


def _checked(line: bytes, path: Path, number: int) -> msgspec.Raw:
    """The line as it stands, if it is a result: it goes into an answer as it is."""
    read_line(line, Result, path, number)
    return msgspec.Raw(line)


def _holds(line: _Line, query: ResultsQuery, words: str) -> bool:
    if query.status and line.status not in query.status:
        return False
    if query.target and line.target not in query.target:
        return False
    if not words:
        return True
    texts = (line.id, line.title or "", *(text for turn in line.turns for text in (turn.prompt, turn.response or "")))
    return any(words in text.casefold() for text in texts)


async def list_results(api: Api, call: Call) -> Any:
    def find() -> tuple[list[msgspec.Raw], int]:
        path = open_results(api, call.path["run"])
        return _find(path, call.query)

    results, total = await asyncio.to_thread(find)
    return {"results": results, "total": total}


async def show_result(api: Api, call: Call) -> Any:
    number = call.path["number"]
    if not re.fullmatch(r"[0-9]{1,9}", number):
        raise ApiError(404, "results are counted from 0", code="no-result")

    def find() -> msgspec.Raw | None:
        path = open_results(api, call.path["run"])
        for place, line in enumerate(walk_results(path)):
            if place == int(number):
                if line is None:
                    raise _too_long(place + 1)
                return _checked(line, path, place + 1)
        return None

    found = await asyncio.to_thread(find)
    if found is None:
        raise ApiError(404, f"run {call.path['run']} has no result {number}", code="no-result")
    return found


ROUTES = (
    Route(
        method="GET",
        path="/runs/{run}/results",
        handler=list_results,
        summary="The results of a run, a page at a time; while it is running, in the order in which they came.",
        query=ResultsQuery,
        answer=ResultsAnswer,
        errors=(404, 409, 422),
    ),
    Route(
        method="GET",
        path="/runs/{run}/results/{number}",
        handler=show_result,
        summary="One result, by its place, counted from 0.",
        answer=Result,
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path="/runs/{run}/events",
        handler=stream_events,
        summary="What happens in a run, as server-sent events: status, progress, conversation, end.",
        answer="text/event-stream",
        errors=(404, 429),
    ),
)
