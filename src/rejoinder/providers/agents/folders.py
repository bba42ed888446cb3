"""Reading folders that an agent could change. Links are never followed, only regular files are opened, and every read
has a limit, because the content is untrusted.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from difflib import unified_diff
from hashlib import blake2b
from pathlib import Path

DEEPEST = 100
"""Maximum depth of nested folders that are read."""
LONGEST_TEXT = 512 << 10
"""Maximum size in bytes of a file whose lines are compared."""
LONGEST_DIGESTED = 64 << 20
MOST_COMPARISONS = 300_000
"""Maximum comparisons of equal lines in two files. Beyond it, all lines from the first to the last difference are
given."""


def drop(path: Path) -> None:
    """Delete a folder, even if its owner may not write into it. Of a link, only the link is deleted."""
    if path.is_symlink() or not path.is_dir():
        with suppress(OSError):
            path.unlink()
        return
    with suppress(RecursionError):  # very deep
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        for folder in _folders_in(path):
            with suppress(OSError):
                folder.chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        subprocess.run(("rm", "-rf", "--", str(path)), capture_output=True, check=False)


def files_in(folder: Path, passed_over: frozenset[str] = frozenset()) -> Iterator[tuple[str, os.stat_result]]:
    """Files and links below a folder, by relative path. Bytes of a name that are not UTF-8 become a replacement
    character."""
    for place in _folders_in(folder, passed_over):
        with suppress(OSError), os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if not entry.is_dir(follow_symlinks=False):
                    name = (place / entry.name).relative_to(folder).as_posix()
                    yield os.fsencode(name).decode("utf-8", "replace"), entry.stat(follow_symlinks=False)


def _folders_in(folder: Path, passed_over: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The folder and those below it, in order."""
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        yield place
        with suppress(OSError), os.scandir(place) as entries:
            found = sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
            if depth < DEEPEST:
                waiting += [(place / name, depth + 1) for name in reversed(found) if name not in passed_over]


def read_plain(path: Path, most: int) -> bytes | None:
    """The bytes of a regular file; None if it is not regular, too large or unreadable."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            return file.read(most) if stat.S_ISREG(found.st_mode) and found.st_size <= most else None
    return None


def digest_of(path: Path) -> str:
    """The digest of a regular file or a link; empty if unknown."""
    with suppress(OSError):
        if path.is_symlink():
            return f"-> {os.fsencode(path.readlink()).hex()}"
    data = read_plain(path, LONGEST_DIGESTED)
    return "" if data is None else blake2b(data, digest_size=16).hexdigest()


def lines_of(path: Path) -> list[str] | None:
    """The lines of a text file; None if it is not text. A link has one line: the path that it leads to."""
    with suppress(OSError):
        if path.is_symlink():
            return [f"-> {path.readlink()}\n"]
    data = read_plain(path, LONGEST_TEXT)
    if data is None or b"\0" in data:
        return None
    try:
        *lines, rest = data.decode().split("\n")
    except UnicodeDecodeError:
        return None
    return [f"{line}\n" for line in lines] + ([rest] if rest else [])


def shown(name: str) -> str:
    """A file name on one line, without control characters."""
    return name if name.isprintable() else json.dumps(name)


def write_diff(name: str, old: list[str] | None, new: list[str] | None) -> str:
    """A unified diff. None for `old`: the file is new; None for `new`: it is deleted."""
    before = "/dev/null" if old is None else f"a/{shown(name)}"
    after = "/dev/null" if new is None else f"b/{shown(name)}"
    old, new = old or [], new or []
    lines = unified_diff(old, new, before, after) if _is_quick(old, new) else _in_one_piece(old, new, before, after)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _is_quick(old: list[str], new: list[str]) -> bool:
    counts = Counter(new)
    return sum(counts[line] for line in old) <= MOST_COMPARISONS


def _in_one_piece(old: list[str], new: list[str], before: str, after: str) -> Iterator[str]:
    """All lines from the first difference to the last, as one change."""
    most = min(len(old), len(new))
    start = next((place for place in range(most) if old[place] != new[place]), most)
    end = next((place for place in range(most - start) if old[-1 - place] != new[-1 - place]), most - start)
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    yield f"--- {before}\n"
    yield f"+++ {after}\n"
    yield f"@@ -{start + bool(gone)},{len(gone)} +{start + bool(come)},{len(come)} @@\n"
    yield from (f"-{line}" for line in gone)
    yield from (f"+{line}" for line in come)
