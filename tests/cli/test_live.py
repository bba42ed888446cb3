"""What is seen while a run goes on, in a real terminal that a program reads."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable

import click
import pyte
import pytest

from rejoinder.words.numbers import clock
from tests.kit import Project, Raw, case

pytestmark = pytest.mark.slow
COLUMNS, ROWS = 80, 40


def suite(delay_ms: int, cases: int = 6, **more: object) -> Raw:
    checks = [{"match": "no"} if number == 2 else {"match": "yes"} for number in range(cases)]
    return {
        "target": "it",
        "targets": [{"name": "it", "provider": "mock", "response": "yes", "delay_ms": delay_ms, "workers": 2}],
        "evals": [case(f"case-{number}", check, prompt=f"Question {number}") for number, check in enumerate(checks)],
        **more,
    }


class Seen:
    """A command in a terminal, and what stands on its screen."""

    def __init__(self, project: Project, *arguments: str, **environment: str) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(project.folder)
            kept = {name: value for name, value in os.environ.items() if name not in ("CI", "COLUMNS", "NO_COLOR")}
            kept |= {"TERM": "xterm-256color", "LANG": "C.UTF-8", **environment}
            os.execve(sys.executable, [sys.executable, "-m", "rejoinder", *arguments], kept)
        self._set_size(COLUMNS)

    def _set_size(self, columns: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))

    def make_narrower(self, columns: int) -> None:
        """As terminals do it: a row that has no room is broken in several. pyte would cut it."""
        rows = [row.rstrip() for row in self.screen.display[: self.screen.cursor.y]]
        self.screen = pyte.Screen(columns, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self._stream.feed("".join(f"{row}\r\n" for row in rows).encode())
        self._set_size(columns)

    def read(self, until: Callable[[], bool] | None = None) -> int | None:
        """Feed the screen until something holds, or to the end; then the exit code."""
        limit = time.monotonic() + 60
        with contextlib.suppress(OSError):  # the terminal is gone when the command has ended
            while piece := os.read(self._terminal, 4096):
                assert time.monotonic() < limit, self.lines
                self.written += piece
                # pyte does not know the codes of synchronized output.
                self._stream.feed(piece.replace(b"\x1b[?2026h", b"").replace(b"\x1b[?2026l", b""))
                if until is not None and until():
                    return None
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display if line.strip()]

    def shows(self, text: str) -> bool:
        return any(text in line for line in self.lines)


def test_rows_show_how_far_it_is_and_are_gone_at_the_end(project: Project) -> None:
    project.write("evals.yaml", suite(700))
    seen = Seen(project, "run", "evals.yaml")
    seen.read(lambda: seen.shows("in flight:") and seen.shows("first try"))
    assert seen.shows("━") and seen.shows("of 6"), seen.lines
    assert not seen.shows("%"), "no rate while it runs: quick cases end first"
    seen.read(lambda: seen.shows('✗ case-2  turn 1  match "no"  < yes'))
    assert seen.read() == 1
    assert not any("in flight" in line or "━" in line for line in seen.lines), seen.lines
    assert any(line.startswith("✗ 1 failed, 5 passed of 6") for line in seen.lines)
    assert seen.lines[-1].split("   ")[0].strip() == "rejoinder run --failed"


def test_equal_errors_tick_once_and_then_every_tenth_time(project: Project) -> None:
    source = "import time\ndef reply(request):\n    time.sleep(0.2)\n    return {}['a missing key']\n"
    project.write("bad.py", source)
    target = {"name": "bot", "provider": "python", "call": "bad:reply", "workers": 2}
    cases = [case(f"case-{number}", {"match": "x"}) for number in range(21)]
    project.write("evals.yaml", {"targets": [target], "target": "bot", "evals": cases})
    seen = Seen(project, "run", "evals.yaml", "-w", "2")
    assert seen.read() == 3
    ticks = [line for line in seen.lines if line.startswith("! case-")]
    assert len(ticks) == 3, seen.lines
    assert "bad.py:4" in ticks[0] and "times" not in ticks[0]
    assert "10 times: " in ticks[1] and "20 times: " in ticks[2]


def test_a_terminal_that_becomes_narrower_keeps_no_old_rows(project: Project) -> None:
    project.write("evals.yaml", suite(700))
    seen = Seen(project, "run", "evals.yaml")
    seen.read(lambda: seen.shows("in flight:") and seen.shows("0:01"))
    drawn = len(seen.lines)
    seen.make_narrower(30)
    assert len(seen.lines) >= drawn, seen.lines
    seen.read(lambda: seen.shows("0:02"))
    for part in ("━", "of 6", "first try", "in flight:"):
        assert len([line for line in seen.lines if part in line]) == 1, seen.lines
    assert seen.read() == 1
    assert not any("in flight" in line or "━" in line for line in seen.lines), seen.lines


def test_a_short_run_draws_nothing(project: Project) -> None:
    project.write("evals.yaml", suite(0))
    seen = Seen(project, "run", "evals.yaml")
    assert seen.read() == 1
    assert "━".encode() not in seen.written and b"\x1b[J" not in seen.written


def test_no_colour_keeps_weight_alone(project: Project) -> None:
    project.write("evals.yaml", suite(0))
    seen = Seen(project, "run", "evals.yaml", NO_COLOR="1")
    assert seen.read() == 1
    assert b"\x1b[1m" in seen.written and b"91m" not in seen.written and b"32m" not in seen.written


@pytest.mark.parametrize(
    "environment", [{"TERM": "dumb"}, {"CI": "true"}, {"LANG": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}]
)
def test_elsewhere_there_are_words_alone(project: Project, environment: dict[str, str]) -> None:
    project.write("evals.yaml", suite(0))
    seen = Seen(project, "run", "evals.yaml", **environment)
    assert seen.read() == 1
    assert "✗ 1 failed".encode() not in seen.written
    assert "FAIL 1 failed, 5 passed of 6" in click.unstyle(seen.written.decode())


def test_quiet_is_the_result_and_what_to_type_next(project: Project) -> None:
    project.write("evals.yaml", suite(700))
    seen = Seen(project, "run", "evals.yaml", "-q")
    assert seen.read() == 1
    assert "━".encode() not in seen.written
    [latest] = [path.name for path in (project.folder / ".rejoinder/runs").iterdir() if path.is_dir()]
    assert [line.split("   ")[0].strip() for line in seen.lines] == [
        f"run {latest}",
        "✗ 1 failed, 5 passed of 6",
        "rejoinder show --case case-2",
        "rejoinder run --failed",
    ]
    quiet = project.invoke("run", "evals.yaml", "-q")
    assert quiet.stdout == "FAIL 1 failed, 5 passed of 6, 83% (44 to 97)\n", "it alone is on standard output"
    assert quiet.stderr == f"run {project.run_json('show')['run']['id']}\n"


def test_options_win_over_the_environment(project: Project) -> None:
    project.write("evals.yaml", suite(0))
    never = Seen(project, "run", "evals.yaml", "--color", "never", FORCE_COLOR="1")
    assert never.read() == 1 and b"91m" not in never.written
    always = Seen(project, "run", "evals.yaml", "--color", "always", NO_COLOR="1")
    assert always.read() == 1 and b"91m" in always.written
    for plain in (
        Seen(project, "run", "evals.yaml", "--plain"),
        Seen(project, "run", "evals.yaml", REJOINDER_PLAIN="1"),
    ):
        assert plain.read() == 1
        assert "✗ 1 failed".encode() not in plain.written


def test_ctrl_c_leaves_a_clean_screen(project: Project) -> None:
    project.write("evals.yaml", suite(900, 40))
    seen = Seen(project, "run", "evals.yaml")
    seen.read(lambda: seen.shows("in flight:"))
    os.kill(seen.pid, signal.SIGINT)
    assert seen.read() == 130
    assert not any("in flight" in line or "━" in line for line in seen.lines), seen.lines
    assert seen.shows("finishing the conversations in progress")
    assert any(line.startswith("! interrupted: ") and "not finished of 40" in line for line in seen.lines)
    assert any(line.strip().startswith("rejoinder resume ") for line in seen.lines)


def test_clocks() -> None:
    assert [clock(one) for one in (0.4, 72, 3849)] == ["0:00", "1:12", "1:04:09"]
