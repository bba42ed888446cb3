"""The results of a run that another process plays, read as they come."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rejoinder.model import Result
from rejoinder.model.results import CaseName
from rejoinder.run_files import open_file
from rejoinder.runs.folder import RunFolder
from rejoinder.server.folders import results_file


class LiveResults:
    """The trials of each case. A line of the file is read once."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._trials: dict[CaseName, dict[int, Result]] = {}
        self._file: Path | None = None
        self._read_to = 0
        self._decode = msgspec.json.Decoder(Result).decode

    def of(self, case: CaseName) -> list[Result]:
        """Its trials so far, in their order."""
        return [trial for _, trial in sorted(self._trials.get(case, {}).items())]

    def read_on(self) -> None:
        """Read what was added. Raises msgspec.MsgspecError for a line that rejoinder did not write."""
        file = results_file(self.folder)
        if file != self._file:  # the run was resumed, or has ended
            self._file, self._read_to = file, 0
        try:
            with open_file(file) as stream:
                stream.seek(self._read_to)
                added = stream.read()
        except OSError:
            return
        whole = added[: added.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.splitlines():
            result = self._decode(line)
            if not result.confirming:
                self._trials.setdefault(result.case, {})[result.trial] = result
