"""`run --watch` in a process of its own."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.kit import PATIENCE_S, command_line, wait_until


class Watching:
    """A command that watches, and all that it says to both streams in its order."""

    def __init__(self, folder: Path, *paths: str) -> None:
        self.said = folder / "said.txt"
        with self.said.open("wb") as stream:
            self.process = subprocess.Popen(
                command_line("run", "--watch", *paths), cwd=folder, stdout=stream, stderr=stream
            )

    def wait_for(self, words: str, times: int) -> str:
        def text() -> str:
            return self.said.read_text(encoding="utf-8")

        wait_until(lambda: text().count(words) >= times or self.process.poll() is not None, words)
        assert self.process.poll() is None, text()
        return text()

    def end(self) -> None:
        """A killed one would leave its temporary file."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE_S)
