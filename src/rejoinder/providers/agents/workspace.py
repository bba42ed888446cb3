"""Where an agent works in one conversation: a workspace, a home of its own, and what can be said of both afterwards.

A `Scratch` lies in the system's folder for temporary files, in a place that follows from the conversation's id alone:
outside of the project, so that no agent that walks up finds the user's instructions, and where a resumed run finds it.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path, PurePosixPath
from typing import IO, cast

import msgspec
from msgspec import Struct, structs

from rejoinder.model import AttachedFile
from rejoinder.providers.agents.driver import agent_error

MOST_BYTES = 256 << 20
MOST_FILES = 50_000
"""Of a home and a workspace that are copied aside between turns; with more, a killed conversation begins anew."""
OLD_S = 7 * 24 * 3600.0
"""After this time what a killed run has left is removed, though it was not resumed."""
LONGEST_TEXT = 512 << 10
"""Bytes of a file whose lines are compared."""
MOST_REMEMBERED = 64 << 20
"""Bytes of files whose lines are remembered from the beginning."""
LONGEST_DIFF = 256 << 10
MOST_NAMED = 500
"""Changed files that are named in a diff that is too long to hold their lines."""
_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_PASSED_OVER = frozenset({".git", "node_modules", ".venv", ".rejoinder-chat"}) | _CACHES
"""Folders that are no part of what an agent has written: tools fill them by themselves."""


def _root() -> Path:
    return Path(tempfile.gettempdir()) / f"rejoinder-{os.getuid() if hasattr(os, 'getuid') else 'user'}"


def root() -> Path:
    """The folder of all scratch folders of this user. Raises ProviderError where it is another user's."""
    folder = _root()
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        raise agent_error(f"{folder} is not a folder of yours", ends_target=True)
    return folder


def remove_scratch_of(run: str) -> None:
    """Remove what a run has left: of conversations that were over when it was killed, and all that is old."""
    for folder in _root().iterdir() if _root().is_dir() else ():
        with suppress(OSError):
            is_old = folder.stat().st_mtime < time.time() - OLD_S
            if is_old or (folder / "run").read_text(encoding="utf-8") == run:
                drop(folder)
    with suppress(OSError):  # others' are there
        _root().rmdir()


class _Seen(Struct, frozen=True, array_like=True):
    """What a file was when the conversation began. One that was written since has another time of change."""

    size: int
    changed_ns: int
    is_remembered: bool

    def differs(self, now: os.stat_result) -> bool:
        return (self.size, self.changed_ns) != (now.st_size, now.st_ctime_ns)


class _State(Struct, frozen=True):
    """How far a conversation has come that may have to go on after a kill."""

    turn: int
    """The last turn that was answered before the copies were made."""
    session: str
    changed: tuple[str, ...]
    """The files that differed by then."""


class Scratch:
    """The folders of one conversation."""

    def __init__(self, conversation_id: str) -> None:
        self.path = root() / conversation_id
        self.workspace = self.path / "workspace"
        self.home = self.path / "home"
        self.temporary = self.path / "tmp"
        self._before = self.path / "before"
        self._seen_file = self.path / "seen.json"
        self._aside = self.path / "aside"

    def make(self, run: str) -> None:
        """Empty folders, whatever was there."""
        self.remove()
        self.path.mkdir(mode=0o700)
        (self.path / "run").write_text(run, encoding="utf-8")
        for folder in (self.home, self.temporary, self.workspace):
            folder.mkdir(mode=0o700)

    def place(self, files: Iterable[AttachedFile]) -> dict[str, Path]:
        """Put copies of the case's files where the transcript says, and where that lies outside, beside the others; one
        that it names by a whole path stays there. Where each lies, by the path of the transcript."""
        places: dict[str, Path] = {}
        for file in files:
            if Path(file.path).is_absolute():
                places[file.path] = Path(file.path)
                continue
            inside = PurePosixPath(os.path.normpath(file.path))
            place = _free(self.workspace / inside.name) if ".." in inside.parts else self.workspace / inside
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.source, place)
            places[file.path] = place
        return places

    def remember(self) -> None:
        """What is there now is what the agent is given; a diff says what became of it."""
        seen: dict[str, _Seen] = {}
        left = MOST_REMEMBERED
        for name, found in _files_in(self.workspace):
            is_text = stat.S_ISREG(found.st_mode) and found.st_size <= min(LONGEST_TEXT, left)
            if is_text:
                left -= found.st_size
                copy = self._before / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.workspace / name, copy)
            seen[name] = _Seen(found.st_size, found.st_ctime_ns, is_text)
        self._seen_file.write_bytes(msgspec.json.encode(seen))

    def changed(self) -> dict[str, str]:
        """The files that differ from what the agent was given: `added`, `changed` or `deleted`."""
        seen = self._read_seen()
        found = dict(_files_in(self.workspace))
        changes = dict.fromkeys(seen.keys() - found.keys(), "deleted")
        for name, now in found.items():
            before = seen.get(name)
            if before is None:
                changes[name] = "added"
            elif before.differs(now) and not self._is_equal(name, before):
                changes[name] = "changed"
        return dict(sorted(changes.items()))

    def diff(self) -> str:
        """What the agent has changed, as a unified diff; empty where that is nothing."""
        parts: list[str] = []
        left = LONGEST_DIFF
        changes = self.changed()
        named = 0
        for name, how in changes.items():
            text = self._diff_of(name, how)
            if len(text) > left:
                text = f"Lines of {name} ({how}) are left out\n"
                named += 1
            if named > MOST_NAMED:
                parts.append(f"... and {len(changes) - len(parts)} more files\n")
                break
            left -= len(text)
            parts.append(text)
        return "".join(parts)

    def set_aside(self, turn: int, session: str) -> None:
        """Copy home and workspace before a turn, so that a killed conversation can go on as it was before."""
        drop(self._aside)
        count, size = 0, 0
        for folder in (self.home, self.workspace):
            for _, found in _files_in(folder, passed_over=frozenset()):
                count, size = count + 1, size + found.st_size
                if count > MOST_FILES or size > MOST_BYTES:
                    return
        draft = self._aside.with_name("aside.draft")
        drop(draft)
        for folder in (self.home, self.workspace):
            shutil.copytree(folder, draft / folder.name, symlinks=True, ignore=_no_sockets)
        (draft / "state.json").write_bytes(msgspec.json.encode(_State(turn, session, tuple(self.changed()))))
        draft.rename(self._aside)

    def session_after(self, turn: int) -> str | None:
        """The session that can go on after this turn; None where there is none."""
        with suppress(OSError, msgspec.MsgspecError):
            state = msgspec.json.decode((self._aside / "state.json").read_bytes(), type=_State)
            return state.session if state.turn == turn else None
        return None

    def put_back(self) -> None:
        """Home and workspace as they were set aside. The copies are used up."""
        state = msgspec.json.decode((self._aside / "state.json").read_bytes(), type=_State)
        for folder in (self.home, self.workspace):
            drop(folder)
            (self._aside / folder.name).rename(folder)
        drop(self._aside)
        self.temporary.mkdir(exist_ok=True)
        now = dict(_files_in(self.workspace))  # every copy has a new time of change
        same = {name: seen for name, seen in self._read_seen().items() if name in now and name not in state.changed}
        times = {name: structs.replace(seen, changed_ns=now[name].st_ctime_ns) for name, seen in same.items()}
        self._seen_file.write_bytes(msgspec.json.encode({**self._read_seen(), **times}))

    def keep(self, place: Path) -> None:
        """Move the workspace to another place, or beside it where a case of the same name was kept."""
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), (place.parent / ".gitignore").open("x", encoding="utf-8") as stream:
            stream.write("# Workspaces are data, not source.\n*\n")
        shutil.move(self.workspace, _free(place))

    def remove(self) -> None:
        drop(self.path)

    def _read_seen(self) -> dict[str, _Seen]:
        return msgspec.json.decode(self._seen_file.read_bytes(), type=dict[str, _Seen])

    def _is_equal(self, name: str, before: _Seen) -> bool:
        """Is a file the same although it was touched?"""
        if not before.is_remembered:
            return False
        try:
            return (self._before / name).read_bytes() == (self.workspace / name).read_bytes()
        except OSError:
            return False

    def _diff_of(self, name: str, how: str) -> str:
        old = None if how == "added" else _lines_of(self._before / name)
        new = None if how == "deleted" else _lines_of(self.workspace / name)
        if (old is None and how != "added") or (new is None and how != "deleted"):
            return f"Binary file {name} {how}\n"
        names = ("/dev/null" if how == "added" else f"a/{name}"), ("/dev/null" if how == "deleted" else f"b/{name}")
        lines = unified_diff(old or [], new or [], *names)
        text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
        return text or f"Empty file {name} {how}\n"


def copy_folder(template: Path, workspace: Path) -> None:
    """All of it but what we keep there ourselves: earlier runs, and the workspaces that were kept of them."""

    def ours(folder: str, names: list[str]) -> set[str]:
        return {".rejoinder"}.intersection(names) if Path(folder) == template else set()

    shutil.copytree(template, workspace, symlinks=True, dirs_exist_ok=True, ignore=ours)


def copy_revision(repository: Path, revision: str, workspace: Path) -> None:
    """The files of a git revision. Raises ProviderError."""
    words = ("git", "-C", str(repository), "archive", "--format=tar", revision, "--")
    try:
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            tar = cast(IO[bytes], process.stdout)
            with suppress(tarfile.ReadError), tarfile.open(fileobj=tar, mode="r|") as archive:
                archive.extractall(workspace, filter="data")  # a tar without anything: git has refused
            said = cast(IO[bytes], process.stderr).read().decode(errors="replace").strip()
    except OSError as error:
        raise agent_error(f"git cannot be run: {error.strerror}", ends_target=True) from None
    if process.returncode:
        raise agent_error(f"there is no revision `{revision}` in {repository}: {said}", ends_target=True)


def drop(folder: Path) -> None:
    """Delete a folder, also one that its owner may not write into."""
    if not folder.exists() and not folder.is_symlink():
        return

    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)
        for place, folders, _names in os.walk(folder):
            for path in (Path(place), *(Path(place) / name for name in folders)):
                with suppress(OSError):
                    if not path.is_symlink():  # which may lead to a folder of the user's
                        path.chmod(0o700)


def _free(place: Path) -> Path:
    """The place, or one beside it where something is already."""
    other, number = place, 1
    while os.path.lexists(other):
        number += 1
        other = place.with_name(f"{place.stem}-{number}{place.suffix}")
    return other


def _no_sockets(folder: str, names: list[str]) -> set[str]:
    """What cannot be copied: sockets, pipes and devices."""
    kept = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
    return {name for name in names if stat.S_IFMT((Path(folder) / name).lstat().st_mode) not in kept}


def _files_in(folder: Path, passed_over: frozenset[str] = _PASSED_OVER) -> Iterator[tuple[str, os.stat_result]]:
    """Files and links below a folder by their path in it, in order."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in passed_over)
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in sorted((*names, *links)):
            path = Path(place) / name
            with suppress(OSError):
                yield path.relative_to(folder).as_posix(), path.lstat()


def _lines_of(path: Path) -> list[str] | None:
    """The lines of a text; None where it is none. A link is the path that it leads to."""
    try:
        if path.is_symlink():
            return [f"-> {path.readlink()}\n"]
        if not path.is_file() or path.stat().st_size > LONGEST_TEXT:
            return None
        data = path.read_bytes()
        return None if b"\0" in data else data.decode().splitlines(keepends=True)
    except (OSError, UnicodeDecodeError):
        return None
