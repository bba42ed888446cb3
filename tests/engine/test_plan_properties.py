"""What holds for every suite with plans, doubts and simulated users: no traceback, a replay that is the run, totals
that are those of the journal, and bounds of `--dry-run` that hold.

`FUZZ_EXAMPLES=2000 pytest tests/engine/test_plan_properties.py` draws new suites.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rejoinder
from rejoinder.engine.estimate import Estimate, estimate
from rejoinder.runs.options import RunOptions
from tests.engine.plan_readings import Drawn, DrawnUser
from tests.engine.readings import listed
from tests.kit import Project, Raw, bounded, essence, journal_of
from tests.labs.replay_lab import play

pytestmark = pytest.mark.slow

MOST = 60
"""Turns, words and verdicts that a script has; no conversation of these tests needs so many."""


def random_suite(seed: int, *, errors: bool) -> Raw:
    """Three cases with scripts for model, user and judge."""
    chance = Random(seed)
    drawn = [chance.choice((Drawn, Drawn, DrawnUser))(seed + number) for number in range(3)]
    cases: list[Raw] = []
    replies: Raw = {}
    words: Raw = {}
    for number, one in enumerate(drawn):
        name = f"case-{number}"
        case = {"id": name, **one.case}
        if one.everywhere:
            case["checks"] = one.everywhere + listed(case.get("checks", []))
        if isinstance(one, Drawn) and case.get("pass_steps") != "aggregate":
            case.pop("threshold", None)
        if isinstance(one, DrawnUser) and chance.random() < 0.5:
            case["user"] = {**case["user"], "audit": "judge"}
        if "turns" not in case and chance.random() < 0.3:
            case["control"] = "afresh"
        if chance.random() < 0.2:
            case["ready_followups"] = chance.choice(("ladder", "doubt"))
        if not errors:
            one.script.down_at = None
        cases.append(case)
        said = [one.reply(turn) for turn in range(1, MOST)]
        replies[name] = [{"error": "down"} if text is None else text for text in said]
        spoken = [
            f"words {turn}" if chance.random() < 0.8 else chance.choice(("DONE", "<k0>", "<k1>"))
            for turn in range(MOST)
        ]
        words[name] = [" " if errors and chance.random() < 0.05 else text for text in spoken]
    scores = [chance.choice((0, 1, 1, 0.5)) for _ in range(MOST * 9)]
    verdicts: list[Any] = [json.dumps({"score": one, "fault": "role" if one == 0 else "none"}) for one in scores]
    if errors:
        verdicts = [chance.choice((one, one, one, {"error": "down"}, "Hm.")) for one in verdicts]
    targets = [
        {"name": "it", "provider": "scripted", "replies": replies},
        {"name": "guest", "provider": "scripted", "replies": words},
        {"name": "judge", "provider": "scripted", "judge": verdicts},
    ]
    return {"target": "it", "judge_target": "judge", "targets": targets, "evals": cases}


def told_in(document: Raw) -> list[Raw]:
    return [one for one in journal_of(Path(document["run"]["folder"])) if one["type"] == "told"]


def kind_of(record: Raw) -> str:
    found = re.match("[a-z]+", record["key"])
    assert found
    return found[0]


def tokens(record: Raw) -> int:
    usage = (record.get("reply") or {}).get("usage") or {}
    return usage.get("input_tokens", 0) + usage.get("output_tokens", 0)


def test_any_suite_runs_and_is_played_again_and_adds_up(project: Project) -> None:
    @bounded(15)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        project.write("evals.yaml", random_suite(seed, errors=True))
        first = play(project, "run", "evals.yaml", "--repeat", "2")
        spent: Counter[str] = Counter()
        for record in told_in(first):
            spent[kind_of(record)] += tokens(record)
        results = first["results"]
        for result in results:
            error = result["error"]
            assert error is None or error["type"] in ("scripted", "check", "user"), error
            assert result["usage"]["total_tokens"] == sum(
                turn["usage"]["total_tokens"] for turn in (*result["turns"], *filter(None, [result.get("control")]))
            )
        assert sum(one["usage"]["total_tokens"] for one in results) == spent["candidate"]
        assert sum(one["user"]["usage"]["total_tokens"] for one in results if one.get("user")) == spent["user"]
        assert sum(one["judge_usage"]["total_tokens"] for one in results) == spent["judge"]
        assert essence(play(project, "replay", first["run"]["id"])) == essence(first)
        shutil.rmtree(project.folder / ".rejoinder" / "runs")

    check()


def test_the_bounds_of_a_dry_run_hold(project: Project) -> None:
    @bounded(15)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        path = project.write("evals.yaml", random_suite(seed, errors=False))
        expected = estimate([rejoinder.load(path).loaded], RunOptions())
        document = play(project, "run", "evals.yaml")
        made = Counter(kind_of(record) for record in told_in(document))
        assert_between(expected, made, document)
        shutil.rmtree(project.folder / ".rejoinder" / "runs")

    check()


def assert_between(expected: Estimate, made: Counter[str], document: Raw) -> None:
    broken = any(result["status"] == "error" for result in document["results"])
    candidate = expected.targets["it"]
    assert made["candidate"] <= candidate.most_calls
    assert broken or candidate.least_calls <= made["candidate"]
    assert broken or expected.judge_calls[0] <= made["judge"]
    judge, user = expected.judges.get("judge"), expected.users.get("guest")
    most = judge.most_calls if judge is not None else 0
    assert made["judge"] <= expected.judge_calls[1] <= most
    assert judge is None or broken or judge.least_calls <= made["judge"]
    assert made["user"] <= (user.most_calls if user is not None else 0)
    assert user is None or broken or user.least_calls <= made["user"]
