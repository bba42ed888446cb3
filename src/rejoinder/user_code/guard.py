"""A process that outlives ours: if we are killed, it ends the programs that we started. It is run as a separate file.

It reads the numbers of process groups from standard input, `+7` for one that began and `-7` for one that ended, until
that ends with us. Then it ends the remaining ones, and on Linux every process with our mark in its environment. It
imports nothing from rejoinder, so that it starts at once.
"""

import os
import signal
import sys
import time
from collections.abc import Set

STARTING = 10
"""Attempts to read a process whose environment is empty."""


def main() -> None:
    mark, groups = sys.argv[1].encode(), set[int]()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        if line.strip() == b"done":
            return
        (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
    for _ in range(3):  # a process that was just being started is seen the next time
        if not end_marked({mark}):
            return
        time.sleep(0.05)


def end_marked(marks: Set[bytes]) -> bool:
    """End the processes with one of these marks in their environment; return whether there were any.

    Only Linux shows the environment of other processes; elsewhere, processes that left their group are not ended.
    """
    found = False
    try:
        names = os.listdir("/proc")
    except OSError:  # not Linux, or too many open files
        return False
    for name in names:
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            if not marks.isdisjoint(_variables(name)):
                os.kill(int(name), signal.SIGKILL)
                found = True
        except OSError:
            pass
    return found


def _variables(process: str) -> list[bytes]:
    """The environment of a process. It is empty for a moment while one program replaces another. Raises OSError."""
    for _ in range(STARTING):
        with open(f"/proc/{process}/environ", "rb") as stream:
            if content := stream.read():
                return content.split(b"\0")
        os.readlink(f"/proc/{process}/exe")  # raises for what has no program: it was ended, or is the system's own
        time.sleep(0.01)
    return []


if __name__ == "__main__":
    main()
