"""`transcript`: answers from conversations that already happened, so that they can be graded.

`file` names a file or a folder; `format` names its format if it cannot be detected; `match` is the key by which a
conversation names its case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rejoinder.errors import UsageError
from rejoinder.model import NO_RECORDING, Reply, Request, Target
from rejoinder.providers.base import ProviderError
from rejoinder.providers.shared import Exchange
from rejoinder.transcripts.formats import read_transcripts
from rejoinder.transcripts.playing import NotRecorded, Recordings, Wanted
from rejoinder.transcripts.values import not_understood


class TranscriptProvider:
    outside = False
    limiter = None

    def __init__(
        self, target: Target, folders: tuple[str, ...], _environment: Mapping[str, str], exchange: Exchange
    ) -> None:
        self._name = target.name
        self._exchange = exchange
        self._unsaid: list[str] = []
        """Notes about the recordings that the run has not shown yet."""
        self.recordings = open_recordings(target.name, target.settings, folders, self._unsaid.append)

    async def reply(self, request: Request) -> Reply:
        if request.kind not in ("candidate", "rival"):
            raise ProviderError(f"target `{self._name}` is a recording, which answers as the candidate only")
        if not request.suite:  # `targets check`, whose question no recording was asked
            return self.recordings.any_reply()
        while self._unsaid:
            self._exchange.tell(f"target `{self._name}`: {self._unsaid.pop(0)}")
        wanted = Wanted(request.case_id, request.case_conversation_id)
        try:
            return self.recordings.answer(wanted, request.turn, request.messages)
        except NotRecorded as error:
            raise ProviderError(str(error), type=NO_RECORDING) from None

    async def close(self) -> None:
        pass


def open_recordings(
    name: str, settings: Mapping[str, Any], folders: tuple[str, ...], note: Callable[[str], None] = lambda _: None
) -> Recordings:
    """The conversations that a target's settings name. `note` receives skipped files and anything that was not
    understood. Raises UsageError."""
    written: str = settings["file"]
    path = find_recording(written, folders)
    if path is None:
        raise UsageError(
            f"target `{name}` answers from a transcript, and there is no file `{written}`",
            "A path starts from the suite's folder, or from the project's root.",
        )
    found = read_transcripts([path], settings.get("format"), [written], note)
    for line in not_understood(found):
        note(line)
    return Recordings(found, written, settings.get("match"), any_prompt=settings.get("prompts") == "any")


def find_recording(written: str, folders: tuple[str, ...]) -> Path | None:
    """The file or folder that a setting names; None if missing."""
    for path in (*(Path(one, written) for one in folders), Path(written)):
        try:
            if path.exists():
                return path
        except (OSError, ValueError):  # a name that no file can have
            continue
    return None
