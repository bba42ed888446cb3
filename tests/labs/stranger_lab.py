"""Run folders as a stranger could send them, and a watch over what commands do with them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.kit import Project, scripted

MARK = "PWNED"
"""The file that code of a stranger creates."""
FILES = ("run.json", "suite.json", "cases.jsonl", "journal.jsonl", "results.jsonl", "summary.json", "run.log", "lock")
OTHER_NAMES = ("seal", "run.json.draft", "summary.json.draft", "results.draft", "results.unordered", "notes.txt")


class Watch:
    """Processes that were started and addresses that were connected to while it is on."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._on = False
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._on and event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"):
            self.seen.append(f"{event} {arguments!r}")

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        self.seen.clear()
        self._on = True
        try:
            yield
        finally:
            self._on = False


WATCH = Watch()


class ReadOnlyDisk:
    """While it is on, nothing below a folder can be written, as on a disk that is mounted for reading."""

    _WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    _CHANGES = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod"})

    def __init__(self) -> None:
        self._folder: str | None = None
        sys.addaudithook(self._refuse)

    def _refuse(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._folder is None or (event != "open" and event not in self._CHANGES):
            return
        writes = event != "open" or bool(arguments[2] & self._WRITING)
        if writes and isinstance(arguments[0], str | os.PathLike) and os.fspath(arguments[0]).startswith(self._folder):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fspath(arguments[0]))

    @contextlib.contextmanager
    def on(self, folder: Path) -> Iterator[None]:
        self._folder = str(folder)
        try:
            yield
        finally:
            self._folder = None


READ_ONLY = ReadOnlyDisk()


def tree(folder: Path) -> dict[str, str]:
    """Every entry below a folder, with what it is and what it holds."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "other"
    return found


def suite(address: str) -> dict[str, Any]:
    """A suite that would run code, ask a server with the user's key and send a secret of the user's."""
    return {
        "metadata": {"name": "stranger"},
        "targets": [
            scripted("bot", "no", "yes", judge=[1.0]),
            {
                "name": "far",
                "provider": "openai",
                "model": "gpt-5",
                "base_url": address,
                "api_key": "${{ OPENAI_API_KEY }}",
            },
        ],
        "target": "bot",
        "judge_target": "bot",
        "evals": [
            {
                "id": "a",
                "prompt": "Say yes.",
                "checks": [{"contains": "yes"}, {"prompt": "Again.", "checks": [{"contains": "yes"}]}],
            },
            {"id": "b", "prompt": "Say no.", "checks": [{"contains": "no"}]},
        ],
    }


class Stranger:
    """A finished run that was made elsewhere, by another user, and copies of it with something wrong."""

    def __init__(self, home: Path, address: str) -> None:
        self.home = home
        home.mkdir()
        (home / ".rejoinder").mkdir()
        with _elsewhere(home):
            project = Project(home)
            project.write("evals.yaml", suite(address))
            document = project.run_json("run", "evals.yaml")
        self.run = Path(document["run"]["folder"])

    def copy(self, place: Path) -> Path:
        """Its folder at another place; the suite that it was made from is not there."""
        shutil.copytree(self.run, place, symlinks=True)
        return place


@contextlib.contextmanager
def _elsewhere(folder: Path) -> Iterator[None]:
    """The working directory and the key of another user."""
    before, key = Path.cwd(), os.environ.get("REJOINDER_SEAL_KEY")
    os.chdir(folder)
    os.environ["REJOINDER_SEAL_KEY"] = "the key of another user"
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.pop("REJOINDER_SEAL_KEY")
        if key is not None:
            os.environ["REJOINDER_SEAL_KEY"] = key


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def edit_lines(path: Path, change: Callable[[Any], Any]) -> None:
    lines = [json.dumps(change(json.loads(line))) for line in path.read_text().splitlines()]
    path.write_text("".join(f"{line}\n" for line in lines))


Mutation = Callable[[Path, Path], None]
"""Spoils a run folder; the second path is a file of the user's that is aimed at."""


def _link(name: str) -> Mutation:
    def spoil(run: Path, victim: Path) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(victim)

    return spoil


def _dangling_link(name: str) -> Mutation:
    def spoil(run: Path, victim: Path) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(victim.with_name("not-there-yet"))

    return spoil


def _pipe(name: str) -> Mutation:
    def spoil(run: Path, victim: Path) -> None:
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)

    return spoil


def _folder(name: str) -> Mutation:
    def spoil(run: Path, victim: Path) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).mkdir()

    return spoil


def _socket(name: str) -> Mutation:
    def spoil(run: Path, victim: Path) -> None:
        (run / name).unlink(missing_ok=True)
        before = Path.cwd()
        os.chdir(run)  # the path of a socket is short
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(name)
        finally:
            os.chdir(before)

    return spoil


def _killed(run: Path, victim: Path) -> None:
    edit(run / "run.json", lambda data: {**data, "status": "running"})
    (run / "summary.json").unlink(missing_ok=True)
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (run / "journal.jsonl").write_bytes(b"".join(lines[:3]))


def _with_code(run: Path, victim: Path) -> None:
    script = {"type": "code", "script": [f"touch {victim.parent / MARK}"], "name": None}

    def add(line: Any) -> Any:
        line[1]["level"]["items"].append({"check": script})
        return line

    edit_lines(run / "cases.jsonl", add)
    _killed(run, victim)


def _with_function(run: Path, victim: Path) -> None:
    def change(data: Any) -> Any:
        for one in data["suites"]:
            one["targets"]["bot"] |= {"provider": "python", "settings": {"call": "evil:answer"}}
        return data

    edit(run / "suite.json", change)
    _killed(run, victim)


def _with_address(run: Path, victim: Path) -> None:
    def change(data: Any) -> Any:
        for one in data["suites"]:
            one["targets"]["bot"] = {**one["targets"]["far"], "name": "bot"}
        return data

    edit(run / "suite.json", change)
    _killed(run, victim)


def _with_secret(run: Path, victim: Path) -> None:
    def change(data: Any) -> Any:
        for one in data["suites"]:
            one["secrets"] = ["{{ secret('GITHUB_TOKEN') }}"]
        return data

    edit(run / "suite.json", change)
    _with_address(run, victim)


def _option(**options: Any) -> Mutation:
    def spoil(run: Path, victim: Path) -> None:
        values = {name: str(victim.parent) if value == "HOME" else value for name, value in options.items()}
        edit(run / "suite.json", lambda data: {**data, "options": {**data["options"], **values}})
        edit(run / "run.json", lambda data: {**data, "options": {**data["options"], **values}})
        _killed(run, victim)

    return spoil


def _foreign_root(run: Path, victim: Path) -> None:
    def change(data: Any) -> Any:
        home = str(victim.parent)
        suites = [{**one, "root": home, "path": f"{home}/evals.yaml"} for one in data["suites"]]
        return {**data, "root": home, "suites": suites}

    edit(run / "suite.json", change)
    _killed(run, victim)


def _root_of_all(run: Path, victim: Path) -> None:
    def change(data: Any) -> Any:
        suites = [{**one, "root": "/", "path": "/../../etc/../evals.yaml"} for one in data["suites"]]
        return {**data, "root": "/", "suites": suites}

    edit(run / "suite.json", change)
    _killed(run, victim)


def _made_from(key: str) -> Mutation:
    def spoil(run: Path, victim: Path) -> None:
        _killed(run, victim)
        edit(run / "run.json", lambda data: {**data, key: "x", "sources": [str(victim.parent), "../..", "/dev/zero"]})

    return spoil


_VALUES: tuple[Any, ...] = (None, 0, -1, 10**400, 1e300, "x", "\x1b]0;PWN\a", [], {}, [[]], {"a": {}}, True)


def _values(name: str, value: Any) -> Mutation:
    """Every value of a file, in turn at each depth, is another one."""

    def spoil(run: Path, victim: Path) -> None:
        edit(run / name, lambda data: dict.fromkeys(data, value))

    return spoil


def _lines(name: str, value: Any) -> Mutation:
    def spoil(run: Path, victim: Path) -> None:
        edit_lines(run / name, lambda data: dict.fromkeys(data, value) if isinstance(data, dict) else value)

    return spoil


def _text(name: str, content: bytes) -> Mutation:
    def spoil(run: Path, victim: Path) -> None:
        (run / name).write_bytes(content)

    return spoil


def _zero_counts(run: Path, victim: Path) -> None:
    counts = ("passed", "failed", "errors", "total", "first_try")
    edit(run / "summary.json", lambda data: {**data, **dict.fromkeys(counts, 0), "pass_rate": 0.5})


def _empty_histogram(run: Path, victim: Path) -> None:
    def change(data: Any) -> Any:
        return {**data, "score": {**data["score"], "histogram": [], "min": 0, "max": 1}}

    edit(run / "summary.json", change)


def mutations() -> dict[str, Mutation]:
    found: dict[str, Mutation] = {"killed": _killed, "code": _with_code, "function": _with_function}
    found |= {"address": _with_address, "secret": _with_secret, "root": _foreign_root, "root of all": _root_of_all}
    found |= {f"{key} of nothing": _made_from(key) for key in ("replay_of", "grade_of", "merge_of")}
    for name in (*FILES, *OTHER_NAMES):
        found[f"{name} is a link"] = _link(name)
        found[f"{name} is a pipe"] = _pipe(name)
    for name in FILES:
        found[f"{name} is a dangling link"] = _dangling_link(name)
        found[f"{name} is a folder"] = _folder(name)
        found[f"{name} is a socket"] = _socket(name)
        found[f"{name} is empty"] = _text(name, b"")
        found[f"{name} is deep"] = _text(name, b"[" * 100_000 + b"\n")
        found[f"{name} is no text"] = _text(name, bytes(range(256)))
    for number, value in enumerate(_VALUES):
        for name in ("run.json", "summary.json", "suite.json"):
            found[f"{name} with value {number}"] = _values(name, value)
        for name in ("journal.jsonl", "results.jsonl", "cases.jsonl"):
            found[f"{name} with value {number}"] = _lines(name, value)
    found["counts of zero"] = _zero_counts
    found["empty histogram"] = _empty_histogram
    found["records to the user's home"] = _option(record="HOME")
    found["cassettes of the user's home"] = _option(replay="HOME")
    found["targets of elsewhere"] = _option(targets_file="/etc/passwd")
    found["very many trials"] = _option(repeat=10**12)
    found["very many workers"] = _option(workers=10**12)
    found["fork of a path"] = _option(fork={"turn": 1, "run": "../.."})
    return found
