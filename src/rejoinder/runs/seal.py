"""The seal of a run: says that this user's rejoinder wrote its copy of the suites.

A run folder holds a copy of its suites, with commands to run and addresses to ask. The sender of a folder could have
written anything into that copy. So the copy is used only where the seal fits: an HMAC over the run's id, `suite.json`
and `cases.jsonl`, by a key that lies in the user's configuration folder or in REJOINDER_SEAL_KEY. It is written once,
before the first call. A run without a usable key has no seal and works where its suites are.
"""

from __future__ import annotations

import hmac
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from rejoinder.errors import reason_of
from rejoinder.project.environment import own_environment
from rejoinder.project.folders import user_folder
from rejoinder.run_files import RunDamaged, open_file, replace_file

VARIABLE = "REJOINDER_SEAL_KEY"
FILE = "seal"
SHORTEST_KEY = 16
_SEALED = ("suite.json", "cases.jsonl")


def write_seal(folder: Path, run: str) -> str | None:
    """Seal the folder of a run, given by its id. The reason if that is not possible, else None."""
    try:
        key = _own_key(create=True)
    except OSError as error:
        return reason_of(error)
    if key is None:
        return f"{VARIABLE} is shorter than {SHORTEST_KEY} characters, or the user has no home folder"
    with replace_file(folder / FILE, durable=False) as stream:
        stream.write(_seal(folder, run, key).encode() + b"\n")
    return None


def has_seal(folder: Path, run: str) -> bool:
    """Does the folder of a run have the seal of this user?"""
    with suppress(OSError, RunDamaged):
        key = _own_key(create=False)
        with open_file(folder / FILE) as stream:
            found = stream.read(1000).strip()
        return key is not None and hmac.compare_digest(found, _seal(folder, run, key).encode())
    return False


def code_of(content: bytes, *, create: bool = True) -> bytes | None:
    """A code that only this user's rejoinder can make for a content; None without a usable key. `create`: make a key
    where the user has none."""
    key = usable_key(create=create)
    return None if key is None else code_by(key, content)


def usable_key(*, create: bool = True) -> bytes | None:
    """The user's key, for those who make many codes; None if there is none that can be used."""
    with suppress(OSError):
        return _own_key(create=create)
    return None


def code_by(key: bytes, content: bytes) -> bytes:
    return hmac.new(key, content, sha256).hexdigest().encode()


def _seal(folder: Path, run: str, key: bytes) -> str:
    code = hmac.new(key, digestmod=sha256)
    code.update(f"rejoinder run {run}\n".encode())
    for name in _SEALED:
        with open_file(folder / name) as stream:
            content = sha256()
            while block := stream.read(1 << 20):
                content.update(block)
        code.update(f"{name} {content.hexdigest()}\n".encode())
    return code.hexdigest()


def _own_key(*, create: bool) -> bytes | None:
    """The user's key. It is never read from a `.env` file: those come with projects."""
    environment = own_environment()
    if VARIABLE in environment:
        key = environment[VARIABLE].strip().encode("utf-8", "surrogateescape")
        return key if len(key) >= SHORTEST_KEY else None
    place = user_folder()
    if place is None:
        return None
    path = place / "seal.key"
    if create and not path.exists():
        _create_key(path)
    key = path.read_bytes().strip()
    return key if len(key) >= SHORTEST_KEY else None


def _create_key(path: Path) -> None:
    """A new key that only the owner can read; where two processes create one, the first stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(os.urandom(32).hex().encode() + b"\n")
        _name(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _name(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        draft.rename(path)
