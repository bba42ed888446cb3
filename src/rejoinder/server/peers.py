"""Which user of this machine has opened a connection.

Everybody who has an account here reaches loopback. Linux lists the sockets of the machine with their owners; a
connection has one there at each end, and the other end's is compared with the server's own.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from pathlib import Path
from typing import Any

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
TRIES = 3
"""Looks at the tables: a socket can be passed over while others are opened and closed."""
_NO_PEER = "0000:0000"


class Peers:
    """Whether connections to a listening socket are of the user who owns it."""

    def __init__(self, listening: socket.socket, tables: tuple[Path, ...] = TABLES) -> None:
        self._tables = tables
        self._uid = os.geteuid() if hasattr(os, "geteuid") else -1
        host, port = listening.getsockname()[:2]
        self.can_tell = self._owner(_forms(host, port), None) == self._uid
        """False where the tables cannot be read, or do not have the server's own socket."""

    def is_own(self, peer: Any, here: Any) -> bool:
        """Whether a connection comes from the server's user. `peer`, `here`: the addresses of its ends. An end that is
        not found is of another user."""
        if not isinstance(peer, tuple) or not isinstance(here, tuple):
            return False
        theirs, ours = _forms(*peer[:2]), _forms(*here[:2])
        return any(self._owner(theirs, ours) == self._uid for _ in range(TRIES))

    def _owner(self, local: tuple[str, ...], remote: tuple[str, ...] | None) -> int | None:
        """The user of the socket between two places, or None; `remote` is None for a socket that listens."""
        for table in self._tables:
            try:
                rows = table.read_text("ascii", "replace").splitlines()[1:]
            except OSError:
                continue
            for row in rows:
                # sl local remote state queues timer retransmits uid ...
                words = row.split(None, 8)
                if len(words) < 8 or words[1] not in local or not words[7].isdecimal():
                    continue
                if words[2] in remote if remote is not None else words[2].endswith(_NO_PEER):
                    return int(words[7])
        return None


def _forms(host: str, port: int) -> tuple[str, ...]:
    """A place as the tables write it. A socket for IPv6 that is connected by IPv4 has a mapped address."""
    number = ipaddress.ip_address(host.partition("%")[0])
    numbers = [number]
    if isinstance(number, ipaddress.IPv4Address):
        numbers.append(ipaddress.IPv6Address(b"\0" * 10 + b"\xff\xff" + number.packed))
    elif number.ipv4_mapped is not None:
        numbers.append(number.ipv4_mapped)
    return tuple(f"{_hex(each.packed)}:{port:04X}" for each in numbers)


def _hex(packed: bytes) -> str:
    """Words of 32 bits, in the order of bytes of this machine."""
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed))
