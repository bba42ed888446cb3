"""Run folders and cassettes with anything changed in them: no command ends in a traceback, or never."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.errors import RejoinderError
from tests.kit import Project, bounded
from tests.labs.stranger_lab import suite

pytestmark = pytest.mark.slow

LONGEST_S = 60
FILES = ("run.json", "suite.json", "cases.jsonl", "journal.jsonl", "results.jsonl", "summary.json", "seal", "lock")
COMMANDS = (
    ("show",),
    ("show", "--verbose"),
    ("show", "--format", "json"),
    ("compare", "RUN", "RUN"),
    ("export", "--to", "junit"),
    ("report",),
    ("report", "RUN", "RUN"),
    ("verify",),
    ("runs",),
    ("resume", "last"),
    ("replay",),
    ("grade",),
    ("merge", "RUN"),
    ("fork", "RUN", "--turn", "1", "--case", "a"),
    ("run", "--failed-from", "RUN"),
    ("bless",),
    ("gate", "--against", "RUN", "--rule", "no-regression", "--rule", "cost<=1", "--rule", "latency_p95<=1s"),
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**30), 2**63])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def paths_in(data: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from paths_in(value, (*here, key))


def replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


def without(data: Any, path: tuple[Any, ...]) -> Any:
    if len(path) == 1 and isinstance(data, dict):
        return {key: value for key, value in data.items() if key != path[0]}
    if not path or len(path) == 1:
        return data
    return replaced(data, path[:1], without(data[path[0]], path[1:]))


def change_value(draw: Callable[[Any], Any], content: bytes) -> bytes:
    """Another value, or none, at some place of a JSON file or of a line of one."""
    lines = content.splitlines() if b"\n{" in content or b"\n[" in content else [content]
    number = draw(st.integers(0, len(lines) - 1)) if lines else 0
    try:
        data = json.loads(lines[number])
    except (ValueError, IndexError):
        return content
    path = draw(st.sampled_from(list(paths_in(data))))
    data = without(data, path) if draw(st.booleans()) else replaced(data, path, draw(values))
    lines[number] = json.dumps(data).encode()
    return b"\n".join(lines) + b"\n"


def change_bytes(draw: Callable[[Any], Any], content: bytes) -> bytes:
    """Some bytes cut out, and others put in."""
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, len(content)))
    return content[:start] + draw(st.binary(max_size=20)) + content[end:]


def shuffle_lines(draw: Callable[[Any], Any], content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(draw(st.lists(st.sampled_from(lines), max_size=2 * len(lines)))) if lines else content


WAYS = (change_value, change_value, change_bytes, shuffle_lines)


@st.composite
def changes(draw: Any, files: tuple[str, ...]) -> dict[str, Callable[[bytes], bytes]]:
    """For one or two files, how each is changed."""
    chosen = draw(st.lists(st.sampled_from(files), min_size=1, max_size=2, unique=True))
    ways = draw(st.lists(st.sampled_from(WAYS), min_size=len(chosen), max_size=len(chosen)))
    return {name: partial(way, draw) for name, way in zip(chosen, ways, strict=True)}


@contextlib.contextmanager
def limited() -> Iterator[None]:
    def stop(_signal: int, _frame: Any) -> None:
        raise TimeoutError(f"the command did not end within {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ends_in_words(project: Project, *arguments: str) -> None:
    with limited():
        result = project.invoke(*arguments)
    known = SystemExit | RejoinderError | click.ClickException
    if result.exception is not None and not isinstance(result.exception, known):
        raise result.exception


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a run and cassettes of it."""
    folder = tmp_path_factory.mktemp("original")
    (folder / ".rejoinder").mkdir()
    project = Project(folder)
    project.write("evals.yaml", suite("http://127.0.0.1:9/v1"))
    with contextlib.chdir(folder):
        project.run("run", "evals.yaml", "--record", "cassettes")
    return folder


@bounded(120)
@given(st.data())
def test_no_command_on_a_changed_run_ends_in_a_traceback(original: Path, data: st.DataObject) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place) / "project"
        shutil.copytree(original, folder)
        [run] = (folder / ".rejoinder" / "runs").glob("2*")
        for name, change in data.draw(changes(FILES)).items():
            (run / name).write_bytes(change((run / name).read_bytes()))
        if data.draw(st.booleans()):
            (folder / "evals.yaml").unlink()
        command = data.draw(st.sampled_from(COMMANDS))
        with contextlib.chdir(folder):
            ends_in_words(Project(folder), *(run.name if one == "RUN" else one for one in command))


@bounded(40)
@given(st.data())
def test_no_changed_cassette_ends_in_a_traceback(original: Path, data: st.DataObject) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place) / "project"
        shutil.copytree(original, folder)
        files = [str(path.relative_to(folder)) for path in (folder / "cassettes").rglob("*.yaml")]
        for name, change in data.draw(changes(tuple(files))).items():
            (folder / name).write_bytes(change((folder / name).read_bytes()))
        with contextlib.chdir(folder):
            ends_in_words(Project(folder), "run", "evals.yaml", "--replay", "cassettes")
