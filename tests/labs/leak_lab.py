"""What tests may leave behind on the machine, as Linux shows it; elsewhere nothing is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_LISTENING = "0A"


def leaks(user_folder: Path, temporary: Path) -> list[str]:
    return [*_processes(user_folder), *_ports(), *(f"folder {path}" for path in temporary.glob("rejoinder-*"))]


def _processes(user_folder: Path) -> Iterator[str]:
    """Processes that inherited the configuration folder of these tests, orphans among them."""
    mark = f"XDG_CONFIG_HOME={user_folder.parent}".encode()
    for path in _PROC.glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes().split(b"\0"):
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                yield f"process {path.name} ({words})"
        except OSError:  # it has ended, or is not ours
            continue


def _ports() -> Iterator[str]:
    """Ports that this process listens at."""
    sockets = {link for path in (_PROC / "self" / "fd").glob("*") if (link := _target(path)).startswith("socket:")}
    for table in ("tcp", "tcp6"):
        path = _PROC / "self" / "net" / table
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == _LISTENING and f"socket:[{fields[9]}]" in sockets:
                yield f"port {int(fields[1].rpartition(':')[2], 16)}"


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
