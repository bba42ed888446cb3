"""`replay`: answers from the cassettes of a folder, so that a suite runs without a model, a key or a network.

`cassettes` names the folder; `of` the target that was recorded, where this one has another name. A suite has the
cassettes that were recorded of it, as with `run --replay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rejoinder.cassettes import Kind, Playback, Recording, Shelf, read_cassette
from rejoinder.errors import UsageError
from rejoinder.model import NO_RECORDING, Reply, Request, Target
from rejoinder.providers.base import ProviderError
from rejoinder.providers.shared import Exchange


class ReplayProvider:
    outside = False
    limiter = None

    def __init__(
        self, target: Target, folders: tuple[str, ...], _environment: Mapping[str, str], exchange: Exchange
    ) -> None:
        self._of: str = target.settings.get("of", target.name)
        self._folder = _find_folder(target, folders)
        self._root = folders[-1]
        self._exchange = exchange
        self._shelf = Shelf(self._folder)
        self._paths: dict[tuple[Path, str, int], list[Path]] = {}
        """The cassettes of a suite's folder, by case and trial."""
        self._own: set[Path] = set()
        """Those of conversations with the target that was recorded."""
        for path in sorted(self._folder.rglob("*.yaml")):
            cassette = read_cassette(path)
            self._paths.setdefault((path.parent, cassette.case, cassette.trial), []).append(path)
            if cassette.target == self._of:
                self._own.add(path)
        self._playbacks: dict[Path, Playback] = {}
        self._places: set[Path] = set()
        """The folders of the suites that have asked."""

    async def reply(self, request: Request) -> Reply:
        found = self.find(request)
        if found is not None and found.reply is not None:
            return found.reply
        if found is not None and found.failure is not None:
            raise ProviderError(found.failure.message, type=found.failure.type, status=found.failure.status)
        raise ProviderError(self._explain(request), type=NO_RECORDING)

    def find(self, request: Request) -> Recording | None:
        """The recording that answers a request. Each answers once."""
        wanted = self._wanted(request)
        return next((found for one in self._known(request) if (found := one.find(wanted)) is not None), None)

    def stale(self, *, whole: bool) -> list[str]:
        """Recordings of the target that were not used; `whole`: cassettes that were not opened, too."""
        left: list[str] = []
        for path, playback in sorted(self._playbacks.items()):
            if words := playback.left_of(self._of):
                left.append(f"{path.relative_to(self._folder).as_posix()}: {words}")
        unplayed = sorted(path for path in self._own - set(self._playbacks) if path.parent in self._places)
        return left + [f"{path.relative_to(self._folder).as_posix()}: no call used it" for path in unplayed if whole]

    async def close(self) -> None:
        pass

    def _wanted(self, request: Request) -> Recording:
        kind: Kind = "embedding" if request.embed is not None else "candidate"
        if request.kind in ("judge", "user"):
            kind = request.kind
        return Recording(
            asked=kind, of=self._of, turn=request.turn, messages=request.messages, text=request.embed or ""
        )

    def _known(self, request: Request) -> list[Playback]:
        place = self._shelf.place(request.suite, self._root)
        self._places.add(place)
        return [self._playback(path) for path in self._paths.get((place, request.case_id, request.trial), ())]

    def _explain(self, request: Request) -> str:
        if known := self._known(request):
            return known[0].explain(self._wanted(request))
        place = self._shelf.place(request.suite, self._root)
        what = f"case `{request.case_id}`, trial {request.trial}"
        return f"{place} has no cassette for {what}; `run --record {self._folder}` writes one"

    def _playback(self, path: Path) -> Playback:
        """The cassette, with the secrets that are known once every target is open."""
        if path not in self._playbacks:
            self._playbacks[path] = Playback(path, self._exchange.reveal)
        return self._playbacks[path]


def _find_folder(target: Target, folders: tuple[str, ...]) -> Path:
    written: str = target.settings["cassettes"]
    for folder in (*(Path(one, written) for one in folders), Path(written)):
        if folder.is_dir():
            return folder
    raise UsageError(
        f"target `{target.name}` replays cassettes, and there is no folder `{written}`",
        "Record one: `rejoinder run --record DIR`",
    )
