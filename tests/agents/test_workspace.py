"""Scratch folders of agents: what a diff says of random changes, copies set aside, bounds, and hostile folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model import AttachedFile
from rejoinder.providers.agents import workspace
from rejoinder.providers.agents.workspace import LONGEST_DIFF, Scratch, drop, remove_scratch_of
from rejoinder.providers.base import ProviderError
from rejoinder.user_code.programs import Guard
from tests.kit import bounded, wait_until
from tests.labs.agent_lab import processes_with

NAMES = st.sampled_from(["a.txt", "b c.txt", "sub/a.txt", "sub/deep/ü.md", "z"])
CONTENT = st.one_of(st.text(max_size=40), st.binary(max_size=40))
TREES = st.dictionaries(NAMES, CONTENT, max_size=5)


def as_bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content


def fill(folder: Path, tree: dict[str, str | bytes]) -> None:
    drop(folder)
    folder.mkdir(parents=True)
    for name, content in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(as_bytes(content))


@pytest.fixture
def scratch() -> Scratch:
    made = Scratch("a-run", str(uuid4()))
    made.make()
    return made


@pytest.fixture(autouse=True)
def removed() -> Iterator[None]:
    yield
    remove_scratch_of("a-run")


def changes_between(before: dict[str, str | bytes], after: dict[str, str | bytes]) -> dict[str, str]:
    """The same as `Scratch.changed`, by another way."""
    old, new = ({name: as_bytes(content) for name, content in tree.items()} for tree in (before, after))
    return {
        name: "deleted" if name not in new else "added" if name not in old else "changed"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    }


@bounded(60)
@given(before=TREES, after=TREES)
def test_changes_are_told_as_they_are(before: dict[str, str | bytes], after: dict[str, str | bytes]) -> None:
    scratch = Scratch("a-run", str(uuid4()))
    try:
        scratch.make()
        fill(scratch.workspace, before)
        scratch.remember()
        assert scratch.diff() == ""
        scratch.set_aside(1, "session")
        fill(scratch.workspace, after)
        assert scratch.changed() == changes_between(before, after)
        diff = scratch.diff()
        assert all(name in diff for name in scratch.changed())
        scratch.put_back()
        assert scratch.changed() == {} and scratch.diff() == ""
    finally:
        scratch.remove()


def test_a_diff_can_be_applied(scratch: Scratch, tmp_path: Path) -> None:
    before = {"kept.txt": "1\n2\n3\n", "changed.txt": "".join(f"{n}\n" for n in range(50)), "gone.txt": "x\n"}
    fill(scratch.workspace, dict(before))
    scratch.remember()
    (scratch.workspace / "changed.txt").write_text("".join(f"{n * (n % 7)}\n" for n in range(50)))
    (scratch.workspace / "gone.txt").unlink()
    (scratch.workspace / "new.txt").write_text("new\nfile")
    fill(tmp_path / "copy", dict(before))
    done = subprocess.run(
        ["git", "apply", "-"], input=scratch.diff(), text=True, cwd=tmp_path / "copy", capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_text() for path in (tmp_path / "copy").iterdir()} == {
        path.name: path.read_text() for path in scratch.workspace.iterdir()
    }


def test_large_and_strange_files_are_bounded(scratch: Scratch) -> None:
    (scratch.workspace / "big.bin").write_bytes(b"\0" * (3 << 20))
    scratch.remember()
    with (scratch.workspace / "big.bin").open("r+b") as file:
        file.write(b"x")
    (scratch.workspace / "huge.txt").write_text("line\n" * 1_000_000)
    (scratch.workspace / "a-link").symlink_to("/etc/passwd")
    os.mkfifo(scratch.workspace / "pipe")
    for number in range(1200):
        (scratch.workspace / f"f{number}").write_text("x" * 1000)
    (scratch.workspace / ".git").mkdir()
    (scratch.workspace / ".git" / "index").write_text("internal")
    diff = scratch.diff()
    assert len(diff) < LONGEST_DIFF + 100_000
    assert "Binary file big.bin changed" in diff and "+-> /etc/passwd" in diff and "root:" not in diff
    assert "(added) are left out" in diff and "more files" in diff and ".git" not in diff


def test_a_folder_that_may_not_be_written_is_removed(scratch: Scratch, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    locked = scratch.workspace / "locked"
    locked.mkdir()
    (locked / "a.txt").write_text("x")
    (scratch.workspace / "link").symlink_to(outside)
    locked.chmod(0o500)
    scratch.remove()
    assert not scratch.path.exists() and outside.stat().st_mode & 0o777 == 0o755


def test_too_much_is_not_set_aside(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MOST_BYTES", 100)
    scratch.remember()
    scratch.set_aside(1, "s")
    assert scratch.session_after(1) == "s" and scratch.session_after(2) is None
    (scratch.home / "cache").write_bytes(b"x" * 200)
    scratch.set_aside(2, "s")
    assert scratch.session_after(2) is None and scratch.session_after(1) is None


def test_files_of_a_case_stay_inside(scratch: Scratch, tmp_path: Path) -> None:
    source = tmp_path / "notes.md"
    source.write_text("notes")
    paths = ("a/notes.md", "../../notes.md", "./x/../notes2.md", str(source))
    places = scratch.place(AttachedFile(path, str(source)) for path in paths)
    inside = [place for place in places.values() if place != source]
    assert all(place.is_relative_to(scratch.workspace) and place.read_text() == "notes" for place in inside)
    assert places[str(source)] == source


def test_a_root_of_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"rejoinder-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(ProviderError, match="belongs to another user"):
        Scratch("a-run", "x")


OWNING = """
import asyncio, os, sys, time
from pathlib import Path
from rejoinder.user_code.programs import Guard, Program
async def main():
    guard = Guard(sys.argv[1])
    words = ("sh", "-c", "sleep 300 & setsid sleep 301 & echo started; wait")
    say = lambda data: print("started", flush=True)
    program = Program(words, Path("."), dict(os.environ), say, sys.argv[1])
    await asyncio.sleep(100)
asyncio.run(main())
"""


def test_a_guard_ends_what_is_left_when_we_are_killed() -> None:
    owner = str(uuid4())
    process = subprocess.Popen([sys.executable, "-c", OWNING, owner], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    assert len(processes_with(owner, "environ")) >= 2
    process.kill()
    process.wait()
    process.stdout.close()
    wait_until(lambda: not processes_with(owner, "environ"), "what was started goes on")
    wait_until(lambda: not processes_with(owner, "cmdline"), "the guard goes on")


def test_a_guard_ends_with_its_owner() -> None:
    owner = str(uuid4())
    guard = Guard(owner)
    wait_until(lambda: len(processes_with(owner, "cmdline")) == 1)
    guard.close()
    assert not processes_with(owner, "cmdline")


@pytest.mark.parametrize("use", [Scratch.put_back, Scratch.make, Scratch.remove])
def test_what_a_killed_run_has_left_at_work_is_ended_before_its_folders_are_used(
    use: Callable[[Scratch], None],
) -> None:
    former, conversation = str(uuid4()), str(uuid4())
    begun = Scratch("a-run", conversation, former)
    begun.make()
    begun.remember()
    begun.set_aside(1, "session")
    words = ("sh", "-c", f"while :; do mkdir -p '{begun.workspace}'; echo x >> '{begun.workspace}/late'; done")
    left = subprocess.Popen(words, env={**os.environ, "REJOINDER_OWNER": former})
    try:
        wait_until((begun.workspace / "late").exists)
        use(Scratch("a-run", conversation, str(uuid4())))
        assert left.wait(10) == -signal.SIGKILL
        assert not (begun.workspace / "late").exists()
    finally:
        left.kill()
        left.wait()


def test_nothing_is_followed_or_opened_that_is_no_plain_file(scratch: Scratch, tmp_path: Path) -> None:
    for name in ("fifo", "zero", "link"):
        (scratch.workspace / name).write_text("before\n")
    scratch.remember()
    for name in ("fifo", "zero", "link"):
        (scratch.workspace / name).unlink()
    os.mkfifo(scratch.workspace / "fifo")
    (scratch.workspace / "zero").symlink_to("/dev/zero")
    (tmp_path / "same").write_text("before\n")
    (scratch.workspace / "link").symlink_to(tmp_path / "same")
    assert scratch.changed() == dict.fromkeys(("fifo", "link", "zero"), "changed")
    assert "Binary file fifo changed" in scratch.diff()


def test_links_of_others_are_neither_followed_nor_changed(
    scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    (victim / "inner").mkdir(parents=True)
    (victim / "inner").chmod(0o755)
    (scratch.path.parent / "backup").symlink_to(victim)
    os.utime(scratch.path.parent / "backup", (0, 0), follow_symlinks=False)
    remove_scratch_of("another-run")
    assert (victim / "inner").stat().st_mode & 0o777 == 0o755 and not (scratch.path.parent / "backup").is_symlink()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "temporary" / f"rejoinder-{os.getuid()}").symlink_to(victim)
    os.utime(victim / "inner", (0, 0))
    remove_scratch_of("another-run")
    assert (victim / "inner").is_dir()


def test_what_a_kill_has_half_removed_is_still_known_to_be_the_runs(scratch: Scratch) -> None:
    for inner in scratch.path.iterdir():
        drop(inner)
    assert scratch.path.is_dir()
    remove_scratch_of("another-run")
    assert scratch.path.is_dir()
    remove_scratch_of("a-run")
    assert not scratch.path.exists()


def test_a_very_deep_folder_is_removed(scratch: Scratch) -> None:
    here = Path.cwd()
    scratch.remember()
    try:
        os.chdir(scratch.workspace)
        for _ in range(1500):
            Path("deeper").mkdir()
            os.chdir("deeper")
        Path("a.txt").write_text("x")
    finally:
        os.chdir(here)
    assert scratch.changed() == {}  # it is not looked for there
    scratch.set_aside(1, "s")
    scratch.remove()
    assert not scratch.path.exists()


def test_names_cannot_forge_lines(scratch: Scratch) -> None:
    scratch.remember()
    (scratch.workspace / "a\n+++ b").mkdir()
    (scratch.workspace / "a\n+++ b" / "forged").write_text("x\n")
    (scratch.workspace / os.fsdecode(b"\xff.txt")).write_text("x\n")
    diff = scratch.diff()
    assert '+++ b/"a\\n+++ b/forged"' in diff and "\n+++ b/forged\n" not in diff
    diff.encode()


def test_lines_that_repeat_are_compared_quickly(scratch: Scratch) -> None:
    lines = [f"line {number % 200}\n" for number in range(30_000)]
    (scratch.workspace / "a.txt").write_text("".join(lines))
    scratch.remember()
    (scratch.workspace / "a.txt").write_text("".join(lines[:10] + lines[:9:-1]))
    diff = scratch.diff()
    assert diff.startswith("--- a/a.txt\n+++ b/a.txt\n@@ -11,") or "are left out" in diff


def test_what_is_put_into_a_workspace_replaces_links(scratch: Scratch, tmp_path: Path) -> None:
    mine = tmp_path / "mine.md"
    mine.write_text("mine")
    source = tmp_path / "source.md"
    source.write_text("the case's")
    (scratch.workspace / "notes.md").symlink_to(mine)
    scratch.place([AttachedFile("notes.md", str(source))])
    assert mine.read_text() == "mine" and (scratch.workspace / "notes.md").read_text() == "the case's"
