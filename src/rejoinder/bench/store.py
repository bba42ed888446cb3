"""The files of benchmarks in a project, in `.rejoinder/bench`: fetched or copied, compared with their checksums, and
made into a suite."""

from __future__ import annotations

import hashlib
import os
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from msgspec import Struct

from rejoinder.bench.checks import MODULE, TEXT
from rejoinder.bench.table import Benchmark, DataFile
from rejoinder.errors import UsageError, reason_of
from rejoinder.project.files import FileFault, read_bytes
from rejoinder.run_files import make_folder, write_whole
from rejoinder.words.inert import one_line
from rejoinder.words.numbers import both_ends
from rejoinder.yaml_text import Comment, to_document

_TIMEOUT_S = 60.0
_MOST_BYTES = 16 * 1024 * 1024
"""Maximum size of a file that differs from the published one."""
_SUITE = "evals.yaml"
_LICENCE = "LICENCE.txt"


class Got(Struct, frozen=True):
    """The files of a benchmark in the project."""

    folder: Path
    differing: tuple[str, ...] = ()
    """The names of files that are not the published ones."""


def bench_folder(root: Path, benchmark: Benchmark) -> Path:
    return root / ".rejoinder" / "bench" / benchmark.name


def get(benchmark: Benchmark, root: Path, origin: str | None = None, *, any_version: bool = False) -> Got:
    """Fetch all files, or copy them from a file, a folder or an address; they are stored once all are right. Raises
    UsageError. `any_version` also accepts files that differ from the published ones."""
    contents = {file.name: _content(benchmark, file, origin) for file in benchmark.files}
    for file in benchmark.files:
        if not any_version:
            _compare(file, contents[file.name])
    benchmark.suite(_texts(contents))  # a file of another form is not stored
    folder = bench_folder(root, benchmark)
    try:
        make_folder(folder)
        for name, content in contents.items():
            _store(folder / name, content)
        _store(folder / _LICENCE, _terms(benchmark).encode())
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {reason_of(error)}") from error
    return Got(folder, _differing(benchmark, contents))


def got(benchmark: Benchmark, root: Path) -> Got | None:
    """The files that are in the project; None if one is missing."""
    folder = bench_folder(root, benchmark)
    if not all((folder / file.name).is_file() for file in benchmark.files):
        return None
    return Got(folder, _differing(benchmark, _stored(benchmark, folder)))


def write_suite(benchmark: Benchmark, found: Got, judge: str | None) -> Path:
    """Write the benchmark's suite beside its files. Raises UsageError."""
    data = benchmark.suite(_texts(_stored(benchmark, found.folder)))
    document: dict[Any, Any] = {Comment(line): None for line in _terms(benchmark).splitlines()}
    document["name"] = benchmark.title
    if judge is not None:
        document["judge_target"] = judge
    if prompt := data.pop("system_prompt", None):
        document["metadata"] = {"system_prompt": prompt}
    path = found.folder / _SUITE
    try:
        _store(path, to_document(document | data).encode())
        _store(found.folder / f"{MODULE}.py", TEXT.encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from error
    return path


def licence_of(benchmark: Benchmark) -> str:
    """The line that is shown before the first use."""
    return f"{benchmark.title}: {benchmark.licence}, {benchmark.source}"


def _terms(benchmark: Benchmark) -> str:
    return f"{licence_of(benchmark)}\nThe data belong to their authors; rejoinder does not ship them.\n"


def _store(path: Path, content: bytes) -> None:
    if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
        return
    with write_whole(path) as stream:
        stream.write(content)


def _stored(benchmark: Benchmark, folder: Path) -> dict[str, bytes]:
    return {file.name: _read(folder / file.name, _MOST_BYTES) for file in benchmark.files}


def _differing(benchmark: Benchmark, contents: dict[str, bytes]) -> tuple[str, ...]:
    return tuple(file.name for file in benchmark.files if _digest(contents[file.name]) != file.sha256)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _compare(file: DataFile, content: bytes) -> None:
    """Raises UsageError for a file that is not the published one."""
    found = _digest(content)
    if found != file.sha256:
        raise UsageError(
            f"{file.name} is not the published file: its SHA-256 is {found}, not {file.sha256}",
            "With --any-version it is accepted; the figures are then not comparable with others.",
        )


def _texts(contents: dict[str, bytes]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, content in contents.items():
        try:
            texts[name] = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"{name} is not UTF-8 (at byte {error.start})") from None
    return texts


def _content(benchmark: Benchmark, file: DataFile, origin: str | None) -> bytes:
    if origin is None:
        return _fetch(benchmark.address(file), file)
    if origin.startswith(("http://", "https://")):
        is_whole = len(benchmark.files) == 1 and origin.endswith(file.name)
        return _fetch(origin if is_whole else f"{origin.rstrip('/')}/{file.path}", file)
    return _read(_named(Path(origin), benchmark, file), _MOST_BYTES)


def _named(origin: Path, benchmark: Benchmark, file: DataFile) -> Path:
    """The file at a place that the user names: the file itself, a folder with it, or a copy of the repository."""
    if not os.path.isdir(origin):  # noqa: PTH112 - an impossible name is just no folder
        if len(benchmark.files) == 1:
            return origin
        names = ", ".join(one.name for one in benchmark.files)
        raise UsageError(f"{benchmark.title} has {len(benchmark.files)} files", f"Name a folder that has {names}.")
    places = [origin / file.name, origin / file.path]
    return next((place for place in places if place.is_file()), places[0])


def _read(path: Path, most: int) -> bytes:
    try:
        return read_bytes(path, most)
    except FileFault as fault:
        raise UsageError(fault.message) from None


def _fetch(address: str, file: DataFile) -> bytes:
    """The content at an address, not more than the published file can have. Raises UsageError."""
    from urllib.request import HTTPSHandler, build_opener

    from rejoinder.providers.base import ProviderError
    from rejoinder.providers.routes import read_network
    from rejoinder.providers.tls import make_context

    shown = one_line(both_ends(address, 200))
    try:
        parts = urlsplit(address)
        if parts.username is not None or not parts.hostname:
            raise UsageError(f"{shown} is not an address that can be fetched")
        opener = build_opener(HTTPSHandler(context=make_context(read_network(os.environ))))
        with opener.open(address, timeout=_TIMEOUT_S) as answer:
            content = answer.read(file.size + _MOST_BYTES // 16)
    except (URLError, HTTPException, OSError, ValueError, ProviderError) as error:
        if isinstance(error, HTTPError):
            error.close()
        reason = error.reason if isinstance(error, URLError) else error
        words = one_line(both_ends(str(reason) or type(reason).__name__, 200))
        raise UsageError(
            f"{shown} cannot be fetched: {words}", "Without a network, fetch it elsewhere and name it with --from."
        ) from None
    return content
