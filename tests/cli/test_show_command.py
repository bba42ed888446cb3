"""`rejoinder show` of some conversations: which, in which order, how many, and in a pager where a person reads."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Project, refusal, scripted

TIMES = {"refund-1": 3, "refund-2": 1, "hours": 2}


@pytest.fixture
def shop(project: Project) -> Project:
    """refund-1 recovers, refund-2 fails, hours passes at once; `two` breaks on hours."""
    replies = {"refund-1": ["no", "yes"], "refund-2": ["no", "no"], "hours": ["yes"]}
    targets = [
        {"name": "one", "provider": "scripted", "replies": replies},
        {"name": "two", "provider": "scripted", "replies": {**replies, "hours": []}},
    ]
    checks = [{"contains": "yes"}, {"prompt": "Really?", "checks": [{"contains": "yes"}]}]
    cases = [{"id": name, "prompt": f"About {name}?", "checks": checks} for name in TIMES]
    project.write("evals.yaml", {"metadata": {"name": "shop"}, "target": "one", "targets": targets, "evals": cases})
    project.run("run", "--target", "one,two", code=3)
    return project


def chosen(project: Project, *arguments: str) -> list[tuple[str, str]]:
    return [(one["id"], one["target"]) for one in project.run_json("show", *arguments)["results"]]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--case", "hours"], "hours/one hours/two"),
        (["--case", "refund*"], "refund-1/one refund-1/two refund-2/one refund-2/two"),
        (["--case", "hours,refund-2", "--target", "one"], "refund-2/one hours/one"),
        (["--case", "hours", "--case", "refund-?", "--target", "two"], "refund-1/two refund-2/two hours/two"),
        (["--failed"], "refund-2/one refund-2/two"),
        (["--recovered"], "refund-1/one refund-1/two"),
        (["--errors"], "hours/two"),
        (["--errors", "--failed"], "refund-2/one refund-2/two hours/two"),
        (["--failed", "--limit", "1"], "refund-2/one"),
        (["--turn", "2", "--target", "one"], "refund-1/one refund-2/one"),
        (["--trial", "1", "--target", "one"], "refund-1/one refund-2/one hours/one"),
        (["--sort", "score", "--target", "one"], "refund-2/one refund-1/one hours/one"),
        (["--sort", "score", "--limit", "2"], "refund-2/one refund-2/two"),
    ],
)
def test_what_is_chosen(shop: Project, arguments: list[str], wanted: str) -> None:
    assert " ".join(f"{case}/{target}" for case, target in chosen(shop, *arguments)) == wanted


def test_the_slowest_and_the_dearest_come_first(project: Project) -> None:
    cases = [
        {"id": name, "prompt": "Hm?", "execution": {"target": name}, "checks": [{"match": "*"}]}
        for name in ("quick", "slow", "dear")
    ]
    targets = [
        scripted("quick", "a"),
        scripted("slow", "a", delay_ms=80),
        {"name": "dear", "provider": "python", "call": "bot:reply"},
    ]
    project.write("bot.py", "from rejoinder.model import Reply\ndef reply(request):\n    return Reply('a', cost=0.5)\n")
    project.write("evals.yaml", {"targets": targets, "evals": cases})
    project.run("run")
    assert chosen(project, "--sort", "time")[0][0] == "slow"
    assert chosen(project, "--sort", "cost")[0][0] == "dear"


def test_a_document_says_that_it_is_a_part(shop: Project) -> None:
    document = shop.run_json("show", "--failed", "--limit", "1", "--turn", "2")
    assert document["selected"] == {
        "results": 1,
        "of": 2,
        "total": 6,
        "options": {"turn": 2, "failed": True, "limit": 1},
    }
    assert [turn["turn"] for turn in document["results"][0]["turns"]] == [2]
    assert document["summary"]["total"] == 6
    assert "selected" not in shop.run_json("show")
    shop.run("show", "--case", "hours", "--out", "part.json", "--out", "part.jsonl")
    assert json.loads((shop.folder / "part.json").read_text())["selected"]["results"] == 2
    assert len((shop.folder / "part.jsonl").read_text().splitlines()) == 2


def test_forms_that_tell_of_a_whole_run_are_refused(shop: Project) -> None:
    assert "junit describes a whole run" in refusal(shop, "show", "--failed", "--format", "junit")
    assert "markdown describes a whole run" in refusal(shop, "show", "--failed", "--out", "x.md")
    assert not (shop.folder / "x.md").exists()


def test_whole_conversations_under_a_header(shop: Project) -> None:
    shown = shop.run("show", "--failed", "--limit", "1")
    header, _, first, *_ = shown.splitlines()
    assert header.startswith("shop on one, two, run ") and header.endswith(", 1 of 2 failed")
    assert first == "Eval 2 (one): About refund-2? [refund-2]"
    assert shown.endswith("(after 2 turns)\n\n1 more: --limit 2, or a single one: --case ID\n")
    assert "pass rate" not in shown
    assert "2 failed, of 6 conversations\n" in shop.run("show", "--failed")
    assert "4 of 6 conversations\n" in shop.run("show", "--case", "refund*")


def test_one_conversation_has_no_header(shop: Project) -> None:
    shown = shop.run("show", "--case", "refund-1", "--target", "one")
    assert shown.startswith("Eval 1 (one): About refund-1? [refund-1]\n  Turn 1:\n")


def test_one_turn_and_how_the_conversation_ended(shop: Project) -> None:
    shown = shop.run("show", "--case", "refund-2", "--target", "one", "--turn", "2")
    assert "  Turn 2:\n    Prompt: Really?" in shown and "Turn 1:" not in shown
    assert "FAIL (after 2 turns)" in shown


def test_nothing_of_the_kind_is_no_error(project: Project) -> None:
    case = {"id": "a", "prompt": "q", "checks": [{"match": "*"}]}
    project.write("evals.yaml", {"targets": [scripted("s", "a")], "evals": [case]})
    project.run("run")
    assert "0 failed, of 1 conversation" in project.run("show", "--failed")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--case", "refnd-1"], "has no case `refnd-1` Did you mean `refund-1`?"),
        (["--case", "hours,refnd*"], "has no case `refnd*` Did you mean `refund-"),
        (["--case", "hourz", "--failed"], "Did you mean `hours`?"),
        (["--target", "tow"], "has no target `tow` Did you mean `two`?"),
        (["--trial", "2"], "there is no trial 2 there The last trial is 1."),
        (["--turn", "5"], "there is no turn 5 there The last turn is 2."),
    ],
)
def test_names_that_the_run_does_not_have(shop: Project, arguments: list[str], wanted: str) -> None:
    assert wanted in refusal(shop, "show", *arguments)


def test_an_id_with_a_comma_or_a_star_is_that_id(project: Project) -> None:
    cases = [{"id": name, "prompt": "q", "checks": [{"match": "*"}]} for name in ("a,b", "c[1]", "x*y", "xzy")]
    project.write("evals.yaml", {"targets": [scripted("s", "a")], "evals": cases})
    project.run("run")
    assert [case for case, _ in chosen(project, "--case", "a,b")] == ["a,b"]
    assert [case for case, _ in chosen(project, "--case", "c[1]")] == ["c[1]"]
    assert [case for case, _ in chosen(project, "--case", "c[*")] == ["c[1]"]


# The pager


def on_terminal(project: Project, *arguments: str, rows: int, **environment: str) -> tuple[int, str]:
    """Exit code and output of a command whose standard input and output are a terminal of so many rows."""
    lead, follow = pty.openpty()
    command = [sys.executable, "-m", "rejoinder", *arguments]
    settings = {**os.environ, "TERM": "xterm", "LINES": str(rows), **environment}
    process = subprocess.Popen(command, stdin=follow, stdout=follow, stderr=follow, cwd=project.folder, env=settings)
    os.close(follow)
    shown = b""
    while True:
        try:
            piece = os.read(lead, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(lead)
    return process.wait(60), shown.decode()


def pager_into(folder: Path, *lines: str) -> str:
    program = folder / "pager.py"
    program.write_text("\n".join(("import sys", *lines)), encoding="utf-8")
    return f"{sys.executable} {program}"


PAGES: dict[str, Any] = {"PAGED": ["print('PAGED'); print(sys.stdin.read())"], "QUITS": ["print('QUITS')"]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAGES)
def test_a_long_text_is_paged(shop: Project, tmp_path: Path, kind: str) -> None:
    pager = pager_into(tmp_path, *PAGES[kind])
    code, shown = on_terminal(shop, "show", "--recovered", rows=10, PAGER=pager)
    assert code == 0 and kind in shown
    assert ("passed on turn 2" in shown) is (kind == "PAGED")
    assert "Traceback" not in shown


@pytest.mark.slow
def test_what_fits_the_screen_and_data_are_not_paged(shop: Project, tmp_path: Path) -> None:
    pager = pager_into(tmp_path, *PAGES["PAGED"])
    assert "PAGED" not in on_terminal(shop, "show", "--recovered", rows=60, PAGER=pager)[1]
    assert "PAGED" not in on_terminal(shop, "show", "--format", "json", rows=5, PAGER=pager)[1]
    assert "PAGED" not in on_terminal(shop, "show", "--recovered", rows=5, PAGER=pager, TERM="dumb")[1]


@pytest.mark.slow
def test_after_one_conversation_the_way_to_another_course_is_named(shop: Project) -> None:
    one = ("show", "last", "--case", "refund-2", "--target", "one")
    _, shown = on_terminal(shop, *one, rows=60, COLUMNS="120", NO_COLOR="1")
    shown = re.sub(r"\x1b\[\d*m", "", shown)
    command = "rejoinder fork last --case refund-2 --turn 2 --target one --prompt TEXT"
    assert f"\r\nevals.yaml:1, on one, 2 turns\r\n  {command}\r\n      say something else at turn 2\r\n" in shown
    assert "fork" not in shop.run(*one) + on_terminal(shop, "show", "--failed", rows=60)[1]
    assert shop.run_json(*command.split()[1:], code=1)["results"][0]["turns"][1]["prompt"] == "TEXT"


@pytest.mark.slow
@pytest.mark.parametrize("pager", ["/nowhere/less", "", "'open"])
def test_without_a_pager_the_text_is_printed(shop: Project, pager: str) -> None:
    code, shown = on_terminal(shop, "show", "--recovered", rows=5, PAGER=pager)
    assert code == 0 and "passed on turn 2" in shown
