"""What happens in a run, as server-sent events.

    status          {"status"}                              when it changes
    progress        {"done", "planned"}                     when it changes
    conversation    {"suite", "id", "target", "variant", "trial", "status"}    each one that has ended
    end             the same as GET /runs/ID                the last event

The id of an event says how many conversations were told. A client that comes back with `Last-Event-ID` is told the
rest; when the run has ended meanwhile, its results are in another order, and all of them are told again. A result that
is too long to be read here is passed over, and counted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from starlette.responses import StreamingResponse

from rejoinder.run_files import RunDamaged, open_file
from rejoinder.server.api_routes import Api, Call
from rejoinder.server.errors import ApiError
from rejoinder.server.folders import results_file
from rejoinder.server.found import Looked, locate, look
from rejoinder.server.result_lines import bounded_lines, read_line
from rejoinder.server.streams import event

LOOK_S = 0.3
MOST_READ = 4 << 20
"""Bytes of results that are read at a time."""
_MARK = re.compile(r"([df])([0-9]{1,9})")


class _Ended(Struct, frozen=True):
    """Of a result, what an event tells."""

    suite: str | None
    id: str
    target: str
    trial: int
    status: str
    variant: str | None = None
    title: str | None = None


class _Tail:
    """The results that were not told yet."""

    def __init__(self, after: str) -> None:
        mark = _MARK.fullmatch(after)
        self._kind, self._skip = (mark[1], int(mark[2])) if mark else ("d", 0)
        self._path: Path | None = None
        self._place = 0
        self._told = 0

    def read(self, path: Path, *, final: bool) -> tuple[list[tuple[str, _Ended]], bool]:
        """Each new one with its mark, and whether there may be more of them. Raises RunDamaged."""
        kind = "f" if final else "d"
        if path != self._path:
            skipped = self._skip if kind == self._kind and self._path is None else 0
            self._path, self._place, self._told, self._skip = path, 0, 0, skipped
        found: list[tuple[str, _Ended]] = []
        before = self._place
        for line in self._lines(path):
            self._told += 1
            if line and self._told > self._skip:
                found.append((f"{kind}{self._told}", read_line(line, _Ended, path, self._told)))
        return found, self._place > before

    def _lines(self, path: Path) -> Iterator[bytes]:
        """The next ones, up to so many bytes; one that is too long is empty."""
        end = self._place + MOST_READ
        with suppress(OSError, RunDamaged), open_file(path) as stream:
            stream.seek(self._place)
            for offset, line, size in bounded_lines(stream, self._place):
                self._place = offset + size
                yield line
                if self._place >= end:
                    return


async def stream_events(api: Api, call: Call) -> StreamingResponse:
    run = call.path["run"]
    await asyncio.to_thread(look, api, run)
    return api.streams.answer(_events(api, run, call.headers.get("last-event-id", "")), LOOK_S)


async def _events(api: Api, run: str, after: str) -> AsyncGenerator[bytes | None]:
    tail, told = _Tail(after), dict[str, Any]()
    try:
        while True:
            found, ended, more = await asyncio.to_thread(_look, api, run, tail)
            state = found.state
            for kind, data in (
                ("status", {"status": state.status}),
                ("progress", {"done": state.done or 0, "planned": state.planned}),
            ):
                if told.get(kind) != data:
                    told[kind] = data
                    yield event(kind, data)
            for mark, one in ended:
                yield event("conversation", one, mark)
            if more:
                continue
            if state.is_over:
                yield event("end", state)
                return
            yield None
    except (RunDamaged, ApiError):
        yield event("end", {"id": run, "status": "damaged"})


def _look(api: Api, run: str, tail: _Tail) -> tuple[Looked, list[tuple[str, _Ended]], bool]:
    """How the run is, the conversations that ended since, and whether there may be more of them."""
    found = look(api, run)
    folder = locate(api, run)
    if folder is None:
        return found, [], False
    path = results_file(folder)
    return found, *tail.read(path, final=path == folder.results)
