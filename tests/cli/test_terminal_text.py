"""Text that comes from files cannot steer the terminal: names, ids, tags, prompts, paths and what errors quote.

Each command is run on a pseudo-terminal and through a pipe, on a suite that tries it in every text it has.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rejoinder.report.styled import PLAIN, Piece, line, mark, unmistakable
from tests.kit import Project, command_line, scripted, spec

pytestmark = pytest.mark.slow

PATIENCE = 60
ATTACKS = {
    "title": "\x1b]0;PWN\x07",
    "colour": "\x1b[35;41;8mPWN",
    "cursor": "\x1b[2J\x1b[1;1HPWN",
    "C1": "\x9b2JPWN\x90PWN\x9c\x85",
    "bidi": "\u202ePWN\u2066\u200f\u061c",
    "line": "\r\x0b\x0cPWN\x08\x00\x7f",
    "separators": "PWN\u2028\u2029",
}
ALL = "".join(ATTACKS.values()).replace("\x00", "")
OURS = re.compile(
    r"\x1b\[(?:0|1|2|4|7|22|31|32|33|34|36|91|1;33|1;91|4;91|1;7;91)m|\r?(?:\x1b\[\d+A)?\x1b\[[KJ]|\x1b\[\?2026[hl]"
)
"""Our colours, and how the rows of progress are found again and cleared."""
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def named(word: str) -> str:
    return f"{word}{ALL}{word}"


def hostile_suite(text: Callable[[str], str] = named) -> dict[str, Any]:
    """A suite with the text in every place that takes one."""
    return {
        "metadata": {"name": text("suite")},
        "target": text("bot"),
        "judge_target": text("judge"),
        "targets": [
            scripted(text("bot"), text("reply"), text("reply"), text("reply")),
            {"name": text("judge"), "provider": "scripted", "judge": [0.2, text("words"), text("words")]},
        ],
        "evals": [
            {
                "id": text("case"),
                "name": text("name"),
                "tags": [text("tag")],
                "prompt": text("prompt"),
                "checks": [
                    {"contains": text("absent")},
                    {"prompt": text("again"), "checks": [{"llm_judge": {"criteria": text("criteria")}}]},
                ],
            },
            *(
                {"id": text(f"other {number}"), "prompt": text("prompt"), "checks": [{"contains": "reply"}]}
                for number in range(8)  # so that no part of them is empty
            ),
        ],
    }


def wrong_suite() -> dict[str, Any]:
    """A suite whose mistakes are quoted."""
    suite = hostile_suite()
    return {**suite, named("key"): 1, "evals": [*suite["evals"], suite["evals"][0], {"prompt": 5, named("x"): 1}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose files are hostile, with a run of each kind."""
    root = tmp_path_factory.mktemp("hostile")
    (root / ".rejoinder").mkdir()
    (root / ".rejoinder" / "targets.yaml").write_text(json.dumps({"targets": hostile_suite()["targets"]}))
    (root / "evals.yaml").write_text(json.dumps(hostile_suite()))
    (root / "wrong.yaml").write_text(json.dumps(wrong_suite()))
    (root / "broken.yaml").write_text(f'evals: "{named("text").encode("unicode_escape").decode()}\nx: [')
    (root / named("path").replace("\x85", "").replace("/", "")).with_suffix(".yaml").write_text("evals: 5\n")
    label = {"id": named("row"), "prompt": "x", "reply": named("reply"), "label": "fail"}
    (root / "labels.jsonl").write_text(json.dumps(label) + "\n")
    for part in ("1/2", "2/2"):
        through_pipe(root, "run", "evals.yaml", "--cache", "--shard", part)
    through_pipe(root, "run", "evals.yaml", "--cache", "--limit", "1")
    return root


def through_pipe(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        command_line(*arguments), cwd=root, env=environment(), capture_output=True, timeout=PATIENCE, check=False
    )
    return (done.stdout + done.stderr).decode()


def on_terminal(root: Path, *arguments: str, until: str | None = None) -> str:
    """What a terminal is sent. `until`: the words after which the command is interrupted."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command_line(*arguments), cwd=root, env=environment(), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    printed, deadline = b"", time.monotonic() + PATIENCE
    try:
        while select.select([ours], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # as Linux says that the other end is closed
                break
            printed += piece
            if until is not None and until.encode() in printed:
                process.send_signal(signal.SIGINT)
                until = None
            if not piece:
                break
        process.wait(timeout=max(1, deadline - time.monotonic()))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
    return printed.replace(b"\r\n", b"\n").decode()


def environment() -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**plain, "PYTHONUTF8": "1", "TERM": "xterm-256color", "PAGER": "cat"}


def assert_harmless(printed: str) -> None:
    assert "Traceback" not in printed
    found = FORBIDDEN.search(OURS.sub("", printed))
    assert found is None, printed[max(0, found.start() - 200) : found.end() + 20] if found else ""


COMMANDS = [
    ("run", "evals.yaml"),
    ("run", "evals.yaml", "--verbose", "--repeat", "2"),
    ("run", "evals.yaml", "--dry-run"),
    ("run", "evals.yaml", "--case", named("zz")),
    ("run", "evals.yaml", "--tag", "zz"),
    ("run", "evals.yaml", "--target", named("zz")),
    ("run", "evals.yaml", "--target", named("bot"), "--target", named("judge")),
    ("run", "evals.yaml", "--limit", "1", "--out", named("missing") + "/x.json"),
    ("run", "wrong.yaml"),
    ("run", "broken.yaml"),
    ("run", named("file")),
    ("run", "--failed-from", named("run")),
    ("validate",),
    ("validate", "."),
    ("validate", "wrong.yaml", "broken.yaml"),
    ("prompt", "evals.yaml"),
    ("prompt", "evals.yaml", "--mode", "agent"),
    ("prompt", "evals.yaml", "--judge", "--reply", named("reply")),
    ("prompt", "evals.yaml", "--case", named("zz")),
    ("targets",),
    ("targets", "--suite", "evals.yaml"),
    ("targets", "check"),
    ("targets", "check", named("zz")),
    ("show",),
    ("show", "--verbose"),
    ("show", "--failed"),
    ("show", "--case", named("zz")),
    ("show", named("zz")),
    ("compare",),
    ("compare", "--all"),
    ("compare", named("zz")),
    ("compare", "--targets"),
    ("runs",),
    ("replay",),
    ("resume", "last"),
    ("grade", "evals.yaml"),
    ("merge", "{first}", "{second}"),
    ("cache",),
    ("judge", "test", "evals.yaml", "--labels", "labels.jsonl"),
    ("judge", "test", "evals.yaml", "--labels", named("labels")),
    ("init", named("folder"), "--yes"),
    (named("command"),),
    ("run", "--" + named("option")),
]


def filled(root: Path, arguments: tuple[str, ...]) -> list[str]:
    first, second, *_ = sorted(path.name for path in (root / ".rejoinder" / "runs").iterdir() if path.is_dir())
    return [one.format(first=first, second=second) if one.startswith("{") else one for one in arguments]


def both_ways() -> Iterator[Any]:
    """Each command through a pipe and on a terminal. `make test` runs each command one way, and every way often."""
    for place, (command, way) in enumerate(product(COMMANDS, (through_pipe, on_terminal))):
        is_long = (place // 2 + place) % 2
        name = re.sub(r"[^ -~]", "", " ".join(command))[:40]
        yield pytest.param(command, way, id=f"{name}-{way.__name__}", marks=[pytest.mark.long] if is_long else [])


@spec("P42")
@pytest.mark.parametrize(("arguments", "through"), list(both_ways()))
def test_text_of_files_does_not_steer_the_terminal(
    arguments: tuple[str, ...], through: Callable[..., str], folder: Path
) -> None:
    printed = through(folder, *filled(folder, arguments))
    assert printed
    assert_harmless(printed)


@spec("P42")
def test_watching_a_hostile_suite_does_not_steer_the_terminal(folder: Path) -> None:
    printed = on_terminal(folder, "run", "evals.yaml", "--watch", until="waiting for a change")
    assert "waiting for a change" in printed
    assert_harmless(printed)


@spec("P42")
def test_a_line_break_in_a_name_begins_no_line(project: Project) -> None:
    fake = "x\n  result    9 passed\nNext: rm -rf ."
    suite = hostile_suite(lambda word: f"{word} {fake}")
    project.write("evals.yaml", json.dumps(suite))
    printed = project.run("run", code=1)
    lines = [line for line in printed.splitlines() if line.startswith("  result    9 passed") or "rm -rf" in line[:13]]
    assert lines == []


@pytest.mark.parametrize("name", ["PASS 9 passed of 9", "ERROR", "✓ 9 passed of 9"])
def test_a_name_does_not_imitate_a_verdict(project: Project, name: str) -> None:
    """Of a suite, of targets, of cases and of variants."""
    cases = [{"id": name, "prompt": "q", "checks": [{"contains": "yes"}]}]
    targets = [scripted(name, "no"), scripted("other", "yes")]
    suite = {"metadata": {"name": name}, "targets": targets, "target": name, "evals": cases}
    project.write("evals.yaml", suite)
    project.write("two.yaml", {**suite, "variants": [{"name": "PASS"}, {"name": "b", "system_prompt": "b"}]})
    verdict = re.compile("(PASS|FAIL|ERROR|WARN|CANNOT TELL|RECOVERED|SKIP|[✓✗?!]) ")
    for arguments in (["evals.yaml"], ["evals.yaml", "-m", f"{name},other"], ["two.yaml"]):
        text = project.run("run", *arguments, code=1)
        lines = [line for line in text.splitlines() if verdict.match(line)]
        assert lines and all(line.startswith("FAIL ") for line in lines), text
        assert f'\n"{name}"' in text and re.match("FAIL [12] failed", text.splitlines()[-1])
    assert project.run("run", "evals.yaml", "--dry-run").splitlines()[1].startswith(f'"{name}"')


def test_names_like_others_stay_as_they_are() -> None:
    for name in ("PASSWORD", "pass", "a PASS", "!x", "FAILURES"):
        assert unmistakable(line((name, "name"), " on demo")) == line((name, "name"), " on demo")
    for own in (*mark("✓", PLAIN), *mark("?", PLAIN)):
        assert unmistakable((own, Piece("3 passed"))) == (own, Piece("3 passed"))


@spec("P42")
def test_json_keeps_every_character(project: Project) -> None:
    project.write("evals.yaml", json.dumps(hostile_suite()))
    printed = project.run_json("run", code=None)
    assert printed["results"][0]["id"] == named("case")
    assert project.run_json("prompt")[0]["id"] == named("case")


@spec("P42")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_any_text_of_a_suite_is_printed_harmlessly(project: Project, text: str) -> None:
    project.write("evals.yaml", json.dumps(hostile_suite(lambda word: f"{word}{text}")))
    for arguments in (["run", "--verbose"], ["run", "--dry-run"], ["prompt"], ["targets", "--suite", "evals.yaml"]):
        assert_harmless(project.run(*arguments, code=None))
