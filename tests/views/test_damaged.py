"""A run that is not what it was when it was written: no surface shows its figures as if they were sound."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import Project, bounded, case, only_run, refused, scripted
from tests.server.kit import api, ask, settings


def flip(path: Path, place: int) -> None:
    """Change a digit into another: the file stays of its form."""
    content = path.read_bytes()
    digits = [at for at, byte in enumerate(content) if chr(byte).isdigit() and at > 0]
    at = digits[place % len(digits)]
    path.write_bytes(content[:at] + (b"8" if content[at : at + 1] != b"8" else b"7") + content[at + 1 :])


def cut(path: Path, place: int) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: place % len(content)])


def delete(path: Path, _place: int) -> None:
    path.unlink()


Way = Callable[[Path, int], None]
WAYS: tuple[Way, ...] = (flip, cut, delete)
FILES = ("results.jsonl", "summary.json", "cases.jsonl", "suite.json")
DAMAGES = [(file, way) for file in FILES for way in WAYS if (file, way) != ("results.jsonl", delete)]
"""Without results a run is as if it had been killed: they are derived from its journal again."""


def a_run(project: Project) -> Path:
    replies = {"a": ["yes"], "b": ["no"], "c": ["yes"]}
    suite = {
        "targets": [scripted("demo", replies=replies)],
        "evals": [case(name, {"contains": "yes"}, prompt=name) for name in replies],
    }
    project.write("evals.yaml", suite)
    project.run("run", code=1)
    return only_run(project.folder)


REFUSING = (
    ("show", "--format", "json"),
    ("show", "--format", "junit"),
    ("export", "--to", "markdown"),
    ("export", "--to", "csv"),
    ("gate", "--rule", "rate>=10%"),
)


def check_every_surface(project: Project, run: str) -> None:
    assert "damaged" in told_by(project, "show", run), "it may show figures, and says so first"
    for command, *options in REFUSING:
        error = refused(project, command, run, *options)
        assert error.exit_code == 3, (command, options)
    assert "damaged" in told_by(project, "report", run, "--out", "r.html")
    for page in (Path("r.html").read_text(), ask(settings(project.folder), "GET", f"/runs/{run}").text):
        body = page.partition("<body>")[2].partition("<script")[0]
        assert "This run is damaged" in body
        assert "<table" not in body and not re.search(r"\d%", body)
    answer = api(settings(project.folder), "GET", f"/runs/{run}").json()
    assert (answer["status"], answer["exit_code"], "summary" in answer) == ("damaged", 3, False)
    listed = ask(settings(project.folder), "GET", "/").text
    assert "damaged" in listed
    assert not re.search(r'<td class="rate">[^<]|<td class="outcome"><svg', listed)


def told_by(project: Project, *arguments: str) -> str:
    """The message of a command that ends with exit code 3, however it does so."""
    ended = project.invoke(*arguments)
    code = getattr(ended.exception, "exit_code", ended.exit_code)
    assert code == 3, (arguments, ended.output)
    return f"{ended.exception} {ended.output}"


@pytest.mark.parametrize(("file", "way"), list(zip(FILES, (flip, cut, delete, flip), strict=True)))
def test_no_surface_shows_figures_of_a_damaged_run(project: Project, file: str, way: Way) -> None:
    folder = a_run(project)
    way(folder / file, 40)
    check_every_surface(project, folder.name)


@pytest.mark.slow
@bounded(10)
@given(st.sampled_from(DAMAGES), st.integers(0, 10_000))
def test_wherever_it_is_damaged(tmp_path_factory: pytest.TempPathFactory, damage: tuple[str, Way], place: int) -> None:
    file, way = damage
    root = tmp_path_factory.mktemp("damaged")
    (root / ".rejoinder").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        project = Project(root)
        folder = a_run(project)
        way(folder / file, place)
        check_every_surface(project, folder.name)
