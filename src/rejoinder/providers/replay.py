"""`replay`: answers from the cassettes of a folder, so that a suite runs without a model, a key or a network.

`cassettes` names the folder; `of` the target that was recorded, where this one has another name.
"""

from __future__ import annotations

from pathlib import Path

from rejoinder.errors import UsageError
from rejoinder.model import Reply, Request, Target
from rejoinder.providers.base import ProviderError
from rejoinder.providers.cassettes import Kind, Playback, Recording, read_cassette
from rejoinder.providers.exchange import Exchange


class ReplayProvider:
    outside = False
    limiter = None

    def __init__(self, target: Target, folders: tuple[str, ...], exchange: Exchange) -> None:
        self._of: str = target.settings.get("of", target.name)
        self._folder = _find_folder(target, folders)
        self._exchange = exchange
        self._paths: dict[tuple[str, int], list[Path]] = {}
        for path in sorted(self._folder.rglob("*.yaml")):
            cassette = read_cassette(path)
            self._paths.setdefault((cassette.case, cassette.trial), []).append(path)
        self._playbacks: dict[Path, Playback] = {}

    async def reply(self, request: Request) -> Reply:
        kind: Kind = "embedding" if request.embed is not None else "judge" if request.judging else "candidate"
        wanted = Recording(
            asked=kind, of=self._of, turn=request.turn, messages=request.messages, text=request.embed or ""
        )
        known = [self._playback(path) for path in self._paths.get((request.case_id, request.trial), ())]
        for playback in known:
            found = playback.find(wanted)
            if found is not None and found.reply is not None:
                return found.reply
            if found is not None and found.failure is not None:
                raise ProviderError(found.failure.message, type=found.failure.type, status=found.failure.status)
        if known:
            raise ProviderError(known[0].explain(wanted), type="no-recording")
        message = f"{self._folder} has no cassette of case `{request.case_id}`, trial {request.trial}"
        raise ProviderError(message, type="no-recording")

    async def close(self) -> None:
        pass

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
        "Record one: rejoinder run --record DIR",
    )
