"""`replay`: answers from the cassettes of a folder, so that a suite runs without a model, a key or a network.

`cassettes` names the folder; `of` names the recorded target, if this one has another name. A suite uses the cassettes
that were recorded for it, as with `run --replay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rejoinder.cassettes.folder import FolderPlayback
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
        of: str = target.settings.get("of", target.name)

        def reveal(text: str) -> str:
            return exchange.reveal(text)  # which knows all secrets only when every target is open

        self.recordings = FolderPlayback(_find_folder(target, folders), of, folders[-1], reveal)

    async def reply(self, request: Request) -> Reply:
        found = self.recordings.find(request)
        if found is not None and found.reply is not None:
            return found.reply
        if found is not None and found.failure is not None:
            raise ProviderError(found.failure.message, type=found.failure.type, status=found.failure.status)
        raise ProviderError(self.recordings.explain(request), type=NO_RECORDING)

    async def close(self) -> None:
        pass


def _find_folder(target: Target, folders: tuple[str, ...]) -> Path:
    written: str = target.settings["cassettes"]
    for folder in (*(Path(one, written) for one in folders), Path(written)):
        if folder.is_dir():
            return folder
    raise UsageError(
        f"target `{target.name}` replays cassettes, and there is no folder `{written}`",
        "Record one: `rejoinder run --record DIR`",
    )
