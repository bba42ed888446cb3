"""An agent's folders in one conversation: a workspace and its own home, and the changes in both.

A `Scratch` is in the system's temporary folder, at a path that depends only on the conversation's id. It is outside the
project, so that an agent that searches parent folders does not find the user's instructions, and a resumed run finds it
again.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import IO, cast

import msgspec
from msgspec import Struct, structs

from rejoinder.model import AttachedFile
from rejoinder.providers.agents.driver import agent_error
from rejoinder.providers.agents.folders import (
    LONGEST_TEXT,
    digest_of,
    drop,
    files_in,
    lines_of,
    read_plain,
    shown,
    write_diff,
)
from rejoinder.user_code.programs import end_all_of

MOST_BYTES = 256 << 20
MOST_FILES = 50_000
"""Maximum files of a home and a workspace to copy between turns. With more, a killed conversation restarts."""
OLD_S = 7 * 24 * 3600.0
"""Age after which remains of a killed run are removed even if it was not resumed."""
MOST_REMEMBERED = 64 << 20
"""Maximum bytes of files whose original lines are remembered."""
LONGEST_DIFF = 256 << 10
MOST_NAMED = 500
"""Maximum changed files that are named if a diff is too long for their lines."""
CHAT_FOLDER = ".rejoinder-chat"
"""The folder in the workspace for an editor's prompts and replies."""
_OVERLOOKED = frozenset({".git", CHAT_FOLDER, "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
"""Folders that tools keep for themselves: they do not count as the agent's work."""
_OWNER = "owner"
"""The file that names the owner of the programs in a scratch folder."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNLISTED = frozenset({"node_modules", ".venv"}) | _OVERLOOKED
"""Folders that a diff leaves out, because tools fill them."""


def _root() -> Path:
    return Path(tempfile.gettempdir()) / f"rejoinder-{os.getuid() if hasattr(os, 'getuid') else 'user'}"


def root() -> Path:
    """The folder of all scratch folders of this user. Raises ProviderError if it is another user's."""
    folder = _root()
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_own(folder):
        raise agent_error(f"{folder} belongs to another user, or is not a folder", ends_target=True)
    return folder


def _is_own(folder: Path) -> bool:
    """Whether it is a folder of this user, and not a link to one."""
    with suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and (not hasattr(os, "getuid") or found.st_uid == os.getuid())
    return False


def _mark(run: str) -> str:
    """The ending of a run's folder names. It is part of the name so that it exists exactly as long as the folder: even
    if the run is killed while it makes or removes a folder, the remains can be attributed to it."""
    return f".{blake2b(run.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"


def _end_owner_of(folder: Path, own: str = "") -> None:
    """End the programs of a former owner of a folder. After a kill its guard may not have ended them yet, and they must
    not write while the next conversation works there."""
    owner = (read_plain(folder / _OWNER, 100) or b"").decode(errors="replace")
    if owner != own and _UUID.fullmatch(owner):
        end_all_of(owner)


def remove_scratch_of(run: str) -> None:
    """Remove the remains of a run: conversations that were over when it was killed, and everything old."""
    if not _is_own(_root()):
        return
    for folder in _root().iterdir():
        with suppress(OSError):
            is_old = folder.lstat().st_mtime < time.time() - OLD_S
            if is_old or (run and folder.name.endswith(_mark(run))):
                _end_owner_of(folder)
                drop(folder)
    with suppress(OSError):  # others' are there
        _root().rmdir()


class _Seen(Struct, frozen=True, array_like=True):
    """A file's state when the conversation began. A file that was written later has another time of change."""

    size: int
    changed_ns: int
    digest: str
    """A digest of the content; empty if unknown."""

    def differs(self, now: os.stat_result) -> bool:
        return (self.size, self.changed_ns) != (now.st_size, now.st_ctime_ns)


class _State(Struct, frozen=True):
    """The progress of a conversation that may have to continue after a kill."""

    turn: int
    """The last turn that was answered before the copies."""
    session: str
    changed: tuple[str, ...]
    """The files that had changed by then."""


class Scratch:
    """The folders of one conversation."""

    def __init__(self, run: str, conversation_id: str, owner: str = "") -> None:
        """`owner`: the name that identifies the programs working in it."""
        self._owner = owner
        self.path = root() / f"{conversation_id}{_mark(run)}"
        self.workspace = self.path / "workspace"
        self.home = self.path / "home"
        self.temporary = self.path / "tmp"
        self._before = self.path / "before"
        self._seen_file = self.path / "seen.json"
        self._aside = self.path / "aside"
        self._seen: dict[str, _Seen] | None = None

    def make(self) -> None:
        """Make the folders, empty, whatever existed before."""
        self.remove()
        root()  # another run that has ended may have taken it away
        self.path.mkdir(mode=0o700)
        self._take_over()
        for folder in (self.home, self.temporary, self.workspace):
            folder.mkdir(mode=0o700)

    def place(self, files: Iterable[AttachedFile]) -> dict[str, Path]:
        """Copy the case's files to the paths that the transcript names. A file outside the workspace goes beside the
        others. A file named by a whole path is not copied. Returns the location of each, by transcript path."""
        places: dict[str, Path] = {}
        for file in files:
            if Path(file.path).is_absolute():
                places[file.path] = Path(file.path)
                continue
            inside = PurePosixPath(os.path.normpath(file.path))
            outside = ".." in inside.parts
            place = _free(self.workspace / inside.name) if outside else own_place(self.workspace, inside)
            shutil.copyfile(file.source, place)
            places[file.path] = place
        return places

    def remember(self) -> None:
        """Remember the files of the workspace now, as the start of the diff."""
        self._seen = {}
        left = MOST_REMEMBERED
        for name, found in files_in(self.workspace, _OVERLOOKED):
            place = self.workspace / name
            self._seen[name] = _Seen(found.st_size, found.st_ctime_ns, digest_of(place))
            if _is_listed(name) and found.st_size <= min(LONGEST_TEXT, left):
                left -= found.st_size
                with suppress(OSError):
                    copy = self._before / name
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(place, copy, follow_symlinks=False)
        self._seen_file.write_bytes(msgspec.json.encode(self._seen))

    def changed(self) -> dict[str, str]:
        """The files that changed since `remember`: `added`, `changed` or `deleted`."""
        seen = self._read_seen()
        found = dict(files_in(self.workspace, _OVERLOOKED))
        changes = dict.fromkeys(seen.keys() - found.keys(), "deleted")
        for name, now in found.items():
            before = seen.get(name)
            if before is None:
                changes[name] = "added"
            elif before.differs(now) and (not before.digest or digest_of(self.workspace / name) != before.digest):
                changes[name] = "changed"
        return dict(sorted(changes.items()))

    def diff(self) -> str:
        """The agent's changes as a unified diff; empty if nothing changed."""
        parts: list[str] = []
        left = LONGEST_DIFF
        changes = {name: how for name, how in self.changed().items() if _is_listed(name)}
        named = 0
        for name, how in changes.items():
            text = self._diff_of(name, how)
            if len(text) > left:
                text = f"Lines of {shown(name)} ({how}) are left out\n"
                named += 1
            if named > MOST_NAMED:
                parts.append(f"... and {len(changes) - len(parts)} more files\n")
                break
            left -= len(text)
            parts.append(text)
        return "".join(parts)

    def set_aside(self, turn: int, session: str) -> None:
        """Copy home and workspace before a turn, so that a killed conversation can continue from there."""
        drop(self._aside)
        count, size = 0, 0
        for folder in (self.home, self.workspace):
            for _, found in files_in(folder):
                count, size = count + 1, size + found.st_size
                if count > MOST_FILES or size > MOST_BYTES:
                    return
        draft = self._aside.with_name("aside.draft")
        drop(draft)
        try:
            for folder in (self.home, self.workspace):
                shutil.copytree(folder, draft / folder.name, symlinks=True, ignore=_no_sockets)
            (draft / "state.json").write_bytes(msgspec.json.encode(_State(turn, session, tuple(self.changed()))))
            draft.rename(self._aside)
        except (OSError, RecursionError):  # files that come and go, or are not to be read
            drop(draft)

    def session_after(self, turn: int) -> str | None:
        """The session that can continue after this turn; None if missing."""
        with suppress(OSError, msgspec.MsgspecError):
            state = msgspec.json.decode((self._aside / "state.json").read_bytes(), type=_State)
            return state.session if state.turn == turn else None
        return None

    def put_back(self) -> None:
        """Restore the copied home and workspace. This uses up the copies."""
        _end_owner_of(self.path, self._owner)
        self._take_over()
        state = msgspec.json.decode((self._aside / "state.json").read_bytes(), type=_State)
        for folder in (self.home, self.workspace):
            drop(folder)
            (self._aside / folder.name).rename(folder)
        drop(self._aside)
        self.temporary.mkdir(exist_ok=True)
        now = dict(files_in(self.workspace, _OVERLOOKED))  # every copy has a new time of change
        same = {name: seen for name, seen in self._read_seen().items() if name in now and name not in state.changed}
        times = {name: structs.replace(seen, changed_ns=now[name].st_ctime_ns) for name, seen in same.items()}
        self._seen = {**self._read_seen(), **times}
        self._seen_file.write_bytes(msgspec.json.encode(self._seen))

    def keep(self, place: Path) -> None:
        """Move the workspace to another place, or beside it if a workspace is already kept there."""
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), (place.parent / ".gitignore").open("x", encoding="utf-8") as stream:
            stream.write("# Workspaces are data, not source.\n*\n")
        shutil.move(self.workspace, _free(place))

    def remove(self) -> None:
        _end_owner_of(self.path, self._owner)
        drop(self.path)

    def _take_over(self) -> None:
        (self.path / _OWNER).write_text(self._owner, encoding="utf-8")

    def _read_seen(self) -> dict[str, _Seen]:
        """Held in memory, because the agent can reach the file; the file is for a run that continues after a kill."""
        if self._seen is None:
            self._seen = msgspec.json.decode(self._seen_file.read_bytes(), type=dict[str, _Seen])
        return self._seen

    def _diff_of(self, name: str, how: str) -> str:
        old = None if how == "added" else lines_of(self._before / name)
        new = None if how == "deleted" else lines_of(self.workspace / name)
        if (old is None and how != "added") or (new is None and how != "deleted"):
            return f"Binary file {shown(name)} {how}\n"
        return write_diff(name, old, new) or f"Empty file {shown(name)} {how}\n"


def _is_listed(name: str) -> bool:
    """Whether a file appears in a diff."""
    return _UNLISTED.isdisjoint(name.split("/"))


def own_place(workspace: Path, name: PurePosixPath | str) -> Path:
    """A path in a workspace to write to. Links on the way are removed, because they may lead outside."""
    place = workspace
    for part in PurePosixPath(name).parts:
        place /= part
        if place.is_symlink():
            place.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def copy_folder(template: Path, workspace: Path) -> None:
    """Copy a template folder, except rejoinder's own files in it: earlier runs and kept workspaces."""

    def ours(folder: str, names: list[str]) -> set[str]:
        return {".rejoinder"}.intersection(names) if Path(folder) == template else set()

    shutil.copytree(template, workspace, symlinks=True, dirs_exist_ok=True, ignore=ours)


class Revision(Struct, frozen=True):
    """A branch, tag or commit of a git repository."""

    repository: Path
    name: str


def copy_revision(revision: Revision, workspace: Path) -> None:
    """Copy the files of a revision. Raises ProviderError."""
    if revision.name.startswith("-"):
        raise agent_error(f"`{revision.name}` is not a revision", ends_target=True)
    words = ("git", "-C", str(revision.repository), "archive", "--format=tar", revision.name, "--")
    try:
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            tar = cast(IO[bytes], process.stdout)
            with suppress(tarfile.ReadError), tarfile.open(fileobj=tar, mode="r|") as archive:
                archive.extractall(workspace, filter="data")  # a tar without anything: git has refused
            said = cast(IO[bytes], process.stderr).read().decode(errors="replace").strip()
    except tarfile.FilterError as error:
        raise agent_error(f"the revision `{revision.name}` cannot be copied: {error}") from None
    except OSError as error:
        raise agent_error(f"git cannot be run: {error.strerror}", ends_target=True) from None
    if process.returncode:
        raise agent_error(f"there is no revision `{revision.name}` in {revision.repository}: {said}", ends_target=True)


def _free(place: Path) -> Path:
    """The path, or one beside it if it is taken."""
    other, number = place, 1
    while os.path.lexists(other):
        number += 1
        other = place.with_name(f"{place.stem}-{number}{place.suffix}")
    return other


def _no_sockets(folder: str, names: list[str]) -> set[str]:
    """The names that cannot be copied: sockets, pipes and devices."""
    kept = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
    return {name for name in names if stat.S_IFMT((Path(folder) / name).lstat().st_mode) not in kept}
