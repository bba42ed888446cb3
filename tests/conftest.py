"""Fixtures that all tests share; functions and classes are in `tests/kit.py`."""

from __future__ import annotations

import gc
import importlib
import os
import random
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from hypothesis import settings

from tests.kit import MOST_EXAMPLES, Process, Project
from tests.labs.leak_lab import leaks
from tests.labs.wire_lab import Lab

# Properties try the same examples in every run, so that a run does not fail by chance; FUZZ_EXAMPLES=N tries others.
settings.register_profile(
    "project",
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    database=None,
    deadline=None,
    max_examples=min(100, MOST_EXAMPLES),
)
settings.load_profile("project")

_ENDINGS = ("_API_KEY", "_BASE_URL", "_ENDPOINT", "_PROXY", "_CA_BUNDLE", "OLLAMA_HOST", "OPENAI_ORG_ID")
_BEGINNINGS = ("AZURE_OPENAI_", "OPENAI_API_", "SSL_CERT")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first", type=int, metavar="N", help="run only the first N cases of each parametrised test")


@pytest.hookimpl(tryfirst=True)  # before cases that are marked long are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    places: Counter[str] = Counter()
    for item in items:
        if (mark := item.get_closest_marker("every")) is not None:
            name = item.nodeid.partition("[")[0]
            if places[name] % mark.args[0]:
                item.add_marker("long")
            places[name] += 1
    most = config.getoption("--first")
    if most is None:
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    items[:] = [item for parameters in cases.values() for item in parameters[:most]]
    config.hook.pytest_deselected(items=[item for parameters in cases.values() for item in parameters[most:]])


def pytest_collection_finish() -> None:
    """What has been loaded stays: the search for unused objects need not look through it again and again."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(user_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After all tests: no process, no listening port and no temporary folder is left of them."""
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield
    deadline = time.monotonic() + 10
    while (left := leaks(user_folder, folder)) and time.monotonic() < deadline:
        gc.collect()  # what rejoinder keeps in temporary files goes with its objects
        time.sleep(0.1)
    assert not left, "tests left behind: " + "; ".join(left)


@pytest.fixture(scope="session", autouse=True)
def nothing_compiled() -> Iterator[None]:
    """Tests write the same module again within a second, and Python would take the compiled one for the new one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        yield


@pytest.fixture(scope="session", autouse=True)
def user_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's configuration folder during tests: a key to seal runs with, and no real one. The cache is the
    environment's own, so that the weights of the local model are fetched once for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(Path(sys.prefix) / "test-cache"))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        patch.delenv("REJOINDER_SEAL_KEY", raising=False)
        patch.delenv("REJOINDER_TRUST_ENV", raising=False)
        yield Path(os.environ["XDG_CONFIG_HOME"]) / "rejoinder"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's keys, addresses, proxies and certificates reaches a test."""
    for name in list(os.environ):
        if name.upper().endswith(_ENDINGS) or name.startswith(_BEGINNINGS):
            monkeypatch.delenv(name)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CI", "REJOINDER_PLAIN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".rejoinder").mkdir()
    return Project(tmp_path)


@pytest.fixture
def module(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module into the project and gives its name, a new one each time."""
    names: list[str] = []
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(source: str) -> str:
        name = f"answers_{random.getrandbits(64):x}"
        project.write(f"{name}.py", source)
        importlib.invalidate_caches()
        names.append(name)
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def start(project: Project) -> Iterator[Callable[..., Process]]:
    """Starts the command as a process, which does not outlive the test."""
    started: list[Process] = []

    def begin(*arguments: str, **environment: str) -> Process:
        started.append(Process(project.folder, *arguments, **environment))
        return started[-1]

    yield begin
    for process in started:
        if process.process.poll() is None:
            process.kill()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A fake server and the vendors' clients, for the tests of one file."""
    with Lab() as lab:
        yield lab


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """Of a server on this machine whose certificate the authority has issued."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost", "models.test", "::1").configure_cert(context)
    return context
