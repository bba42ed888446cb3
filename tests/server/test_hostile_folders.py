"""Run folders of strangers: whatever is in them, the server answers, says what is wrong, and stays small."""

from __future__ import annotations

import json
import os
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rejoinder.runs.folder import RunFolder, runs_folder
from rejoinder.server.desk import Desk
from tests.kit import Project
from tests.server.kit import ask, scripted, settings, shared_project

FILES = ("run.json", "summary.json", "results.jsonl", "journal.jsonl", "cases.jsonl", "suite.json", "checksums", "seal")
ASKED = (
    "/",
    "/runs/RUN",
    "/runs/RUN/c/numbers/c0/s/-/1",
    "/compare/RUN/OTHER",
    "/compare/OTHER/RUN",
    "/cases/numbers/c0",
    "/label?run=RUN&check=abcdef",
    "/data/runs/RUN/rows?q=count",
    "/data/runs/RUN/live",
    "/data/runs/RUN/conversation?suite=numbers&case=c0&target=s",
    "/data/runs/RUN/copy?suite=numbers&case=c0&target=s&as=yaml",
    "/api/v1/runs",
    "/api/v1/runs/RUN",
    "/api/v1/runs/RUN/results",
    "/api/v1/runs/RUN/results/0",
    "/api/v1/runs/RUN/results?q=count",
    "/api/v1/runs/RUN/events",
    "/api/v1/compare/RUN/OTHER",
)
CHANGES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("PUT", "/api/v1/runs/RUN/notes", {"note": "n"}),
    ("POST", "/api/v1/runs/RUN/bless", {}),
    ("POST", "/api/v1/runs/RUN/fork", {"case": "c0"}),
    ("POST", "/api/v1/runs/RUN/grade", {}),
    ("POST", "/api/v1/runs/RUN/resume", {}),
)
ANSWERS = {200, 202, 404, 409, 422}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two runs."""
    folder = tmp_path_factory.mktemp("made")
    with shared_project(folder) as project:
        project.write("evals.yaml", scripted(2))
        project.run("run", "evals.yaml")
        project.run("run", "evals.yaml")
    return folder


def runs_of(place: Project) -> list[Path]:
    return sorted(runs_folder(place.folder).glob("2*"))


def assert_answered(place: Project) -> None:
    """Each request has an answer that is no mistake of ours."""
    run, other = (path.name for path in runs_of(place))
    of = settings(place.folder)
    found = {}
    for path in ASKED:
        found[path] = ask(of, "GET", path.replace("RUN", run).replace("OTHER", other))
    for method, path, body in CHANGES:
        found[path] = ask(of, method, path.replace("RUN", run), json=body)
    assert {path: answer.text[:300] for path, answer in found.items() if answer.status_code not in ANSWERS} == {}


def changed(name: str, pattern: str, words: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        text = (run / name).read_text(encoding="utf-8")
        assert re.search(pattern, text), text
        (run / name).write_text(re.sub(pattern, lambda _: words, text), encoding="utf-8")

    return change


def all_of(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda run: (run / name).write_bytes(content) and None


DEEP = "[" * 100_000 + "]" * 100_000
CONTENTS = {
    **{f"brackets in {name}": all_of(name, b"[" * 1_000_000) for name in FILES},
    **{f"NUL in {name}": all_of(name, bytes(5_000)) for name in FILES},
    **{f"bytes in {name}": all_of(name, b"\xff\xfe\n" * 100) for name in FILES},
    **{f"nothing in {name}": all_of(name, b"") for name in FILES},
    "deep options": changed("run.json", r'"options": \{', f'"options": {{"x": {DEEP},'),
    "a huge plan": changed("run.json", r'"planned": \d+', '"planned": ' + "9" * 400),
    "an endless time": changed("run.json", r'"duration_s": [0-9.e-]+', '"duration_s": 1e999'),
    "half a character": changed("run.json", "numbers", r"\ud800"),
    "huge tokens": changed("results.jsonl", r'"input_tokens":\d+', '"input_tokens":' + "9" * 300),
    "a huge trial": changed("results.jsonl", r'"trial":1', '"trial":9223372036854775808'),
    "half a character in a reply": changed("results.jsonl", "one two", r"\ud800\u0000\udfff"),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", CONTENTS)
def test_whatever_a_file_holds_there_is_an_answer(place: Project, way: str):
    CONTENTS[way](runs_of(place)[0])
    assert_answered(place)


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_folder(path: Path) -> None:
    path.mkdir()


def as_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [as_pipe, as_folder, as_device])
@pytest.mark.parametrize("name", [*FILES, "notes.json", "lock", ".results.jsonl.0123456789abcdef.draft"])
@pytest.mark.every(2)
def test_whatever_stands_in_the_place_of_a_file_there_is_an_answer(
    place: Project, name: str, kind: Callable[[Path], None]
):
    run = runs_of(place)[0]
    if name.endswith(".draft"):
        changed("run.json", '"status": "completed"', '"status": "running"')(run)
        (run / "results.jsonl").unlink()
    (run / name).unlink(missing_ok=True)
    kind(run / name)
    assert_answered(place)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1 << 30, 20 << 30], ids=["1 GiB", "20 GiB"])
@pytest.mark.parametrize("name", [*FILES, "notes.json"])
def test_a_file_of_any_size_takes_no_memory(place: Project, name: str, size: int):
    run = runs_of(place)[0]
    (run / name).touch()
    os.truncate(run / name, size)  # a hole takes no room on the disk
    desk, folder = Desk(settings(place.folder)), RunFolder(run)
    tracemalloc.start()
    try:
        desk.look(run.name)
        desk.damage.find(folder)
        for method, path, body in CHANGES:
            assert ask(settings(place.folder), method, path.replace("RUN", run.name), json=body).status_code in ANSWERS
        assert ask(settings(place.folder), "GET", f"/compare/{run.name}/{run.name}").status_code in ANSWERS
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        desk.close()
    assert most < 100 << 20


@pytest.mark.long
def test_a_hundred_thousand_run_folders_are_listed(place: Project):
    parent = runs_folder(place.folder)
    for number in range(100_000):
        (parent / f"20200101-{number:06}-abcd").mkdir()
    answer = ask(settings(place.folder), "GET", "/api/v1/runs?limit=5")
    assert answer.json()["total"] == 100_002
    assert ask(settings(place.folder), "GET", "/").status_code == 200
    json.loads(ask(settings(place.folder), "GET", f"/api/v1/runs/{runs_of(place)[-1].name}").text)
