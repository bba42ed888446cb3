"""Inspect logs: the same samples in both forms, names that stay inside their folder, and Inspect's own reader.

Inspect brings eighty packages and 300 MB, so it lies in an environment of its own: `make test-long` makes it and runs
what is marked `long` here.
"""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import urllib.request
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from msgspec import structs

from rejoinder.exports.formats import write_results
from rejoinder.exports.inspect_log import write_archive
from rejoinder.model import ChatMessage, RawRequest
from rejoinder.model.messages import ToolCall
from tests.kit import ROOT, Raw, bounded, wait_until
from tests.report.exports import (
    HOSTILE,
    OBEYED,
    MadeRun,
    failed,
    hostile,
    hostile_texts,
    made_run,
    mixed,
    result,
    tool_calls,
    turn,
    written,
)

INSPECT = ROOT / ".venv-inspect/bin"


def document(run: MadeRun) -> Raw:
    return json.loads(written("inspect", run))


def archived(run: MadeRun) -> bytes:
    stream = io.BytesIO()
    write_archive(run, stream)
    return stream.getvalue()


def archive(run: MadeRun) -> dict[str, Any]:
    """The files of the archive, as `zipfile` reads them."""
    with zipfile.ZipFile(io.BytesIO(archived(run))) as files:
        assert files.testzip() is None
        return {name: json.loads(files.read(name)) for name in files.namelist()}


def test_a_case_is_a_sample_and_a_trial_is_an_epoch() -> None:
    log = document(mixed())
    often = [sample for sample in log["samples"] if " often " in sample["id"]]
    assert [(sample["epoch"], sample["scores"]["rejoinder"]["value"]) for sample in often] == [
        *((1, "C"), (2, "C"), (3, "I"))
    ]
    assert log["status"] == "success"
    assert log["eval"]["model"] == "openai/gpt-5, anthropic/claude-5"
    broken = log["samples"][3]
    assert (broken["error"]["message"], broken["scores"]) == ("server: HTTP 500", None)


def test_a_run_of_two_targets_has_a_rate_of_each() -> None:
    run = mixed()
    results = document(structs.replace(run, summary=structs.replace(run.summary, total=11, unfinished=2)))["results"]
    metrics = {name: one["value"] for name, one in results["scores"][0]["metrics"].items()}
    rates = {name: value for name, value in metrics.items() if name != "score"}
    assert rates == {"pass_rate other": 0.0, "first_try other": 0.0}, "`demo` has a case that was not started"
    assert (results["total_samples"], results["completed_samples"]) == (11, 8)  # the total holds what is unfinished
    [single] = document(made_run([result()]))["results"]["scores"]
    assert single["metrics"]["pass_rate"] == {"name": "pass_rate", "value": 1.0}


def test_both_forms_hold_the_same() -> None:
    log, files = document(mixed()), archive(mixed())
    samples = log.pop("samples")
    assert files.pop("header.json") == log
    assert files.pop("_journal/start.json") == {key: log[key] for key in ("version", "eval", "plan")}
    briefs = files.pop("summaries.json")
    assert [(brief["id"], brief["epoch"]) for brief in briefs] == [(one["id"], one["epoch"]) for one in samples]
    assert files == {f"samples/{sample['id']}_epoch_{sample['epoch']}.json": sample for sample in samples}


def test_a_conversation_is_a_list_of_messages() -> None:
    opening = (ChatMessage("system", "Be brief."), ChatMessage("user", "What is 15 * 7?"))
    turns = (turn("100"), turn("105", 2, prompt="Again.", thinking="Hm."))
    [sample] = document(made_run([result("times", *turns, raw_request=RawRequest("?", "", opening))]))["samples"]
    assert [(message["role"], message["content"]) for message in sample["messages"]] == [
        ("system", "Be brief."),
        ("user", "What is 15 * 7?"),
        ("assistant", "100"),
        ("user", "Again."),
        ("assistant", [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "105"}]),
    ]


def test_arguments_that_are_no_object_are_kept_as_text() -> None:
    calls = (ToolCall("add", '{"a": 1}', "one"), ToolCall("add", "[1]"), ToolCall("add", "{"))
    [sample] = document(made_run([result("times", turn("", tool_calls=calls))]))["samples"]
    shown = sample["messages"][-1]["tool_calls"]
    assert [call["arguments"] for call in shown] == [{"a": 1}, {"text": "[1]"}, {"text": "{"}]
    assert [call["id"] for call in shown] == ["one", "call-1-2", "call-1-3"]
    assert ["parse_error" in call for call in shown] == [False, True, True]


def test_a_result_that_stands_there_twice_is_one_sample() -> None:
    assert [name for name in archive(made_run([result(), result()])) if name.startswith("samples/")] == [
        "samples/times_epoch_1.json"
    ]


def test_the_same_run_gives_the_same_archive() -> None:
    first = archived(mixed())
    assert archived(mixed()) == first
    with zipfile.ZipFile(io.BytesIO(first)) as files:
        assert {file.date_time for file in files.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize("name", ["../../up", "/etc/passwd", "..\\up", "a\x00b", "x" * 70_000, "..", "a\nb\tc"])
def test_no_id_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    names = list(archive(made_run([result(name), result("b"), result("b", target="other")])))
    for path in map(PurePosixPath, names):
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert "\\" not in str(path)
        assert len(path.name.encode()) < 1_000
    assert len([one for one in names if one.startswith("samples/")]) == 3


@bounded(100)
@given(hostile_texts)
def test_no_text_breaks_the_log(text: str) -> None:
    run = hostile(text)
    assert not OBEYED.search(written("inspect", run))
    exact = re.sub("[\ud800-\udfff]", "\ufffd", text)
    samples = document(run)["samples"]
    assert samples[0]["messages"][-1]["content"] == exact
    assert {one["id"] for one in archive(run)["summaries.json"]} == {sample["id"] for sample in samples}


# What follows is read by Inspect itself.

READER = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
shown = []
for path in sys.argv[1:]:
    log = read_eval_log(path)
    briefs = read_eval_log_sample_summaries(path)
    one = [read_eval_log_sample(path, id=brief.id, epoch=brief.epoch) for brief in briefs]
    shown.append({
        "status": log.status,
        "header": read_eval_log(path, header_only=True).eval.run_id,
        "metrics": {name: metric.value for name, metric in log.results.scores[0].metrics.items()},
        "samples": {f"{s.id} {s.epoch}": [m.text for m in s.messages] for s in log.samples or []},
        "single": sorted(f"{s.id} {s.epoch}" for s in one),
        "scores": [s.scores["rejoinder"].value if s.scores else None for s in one],
        "tools": [[m.function, m.text, m.error and m.error.type, m.metadata]
                  for s in one for m in s.messages if m.role == "tool"],
        "errors": [s.error.message if s.error else None for s in one],
    })
print(json.dumps(shown))
"""


def read_by_inspect(*paths: Path) -> list[Raw]:
    assert INSPECT.exists(), "`make test-long` makes the environment with Inspect"
    command = [str(INSPECT / "python"), "-c", READER, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def saved(run: MadeRun, folder: Path, name: str) -> list[Path]:
    paths = [folder / f"{name}.eval", folder / f"{name}.inspect.json"]
    for path in paths:
        write_results(run, path)
    return paths


@pytest.mark.long
def test_inspect_reads_both_forms(tmp_path: Path) -> None:
    in_archive, in_document = read_by_inspect(*saved(mixed(), tmp_path, "mixed"))
    assert in_archive["status"] == in_document["status"] == "success"
    assert in_archive["header"] == "20261116-120000-abcd"
    assert in_archive["samples"] == in_document["samples"]
    assert in_archive["single"] == in_document["single"] == sorted(in_archive["samples"])
    assert in_archive["samples"]["suites∕evals.yaml recovers demo 1"] == ["What is 15 * 7?", "100", "Again.", "105"]
    assert in_archive["metrics"]["pass_rate other"] == 0.0
    assert in_archive["scores"] == ["C", "C", "I", None, None, "C", "C", "I", "I"]
    assert in_archive["errors"][3] == "server: HTTP 500"


@pytest.mark.long
def test_inspect_reads_a_log_whatever_the_replies_say(tmp_path: Path) -> None:
    runs = [*map(hostile, HOSTILE), made_run([result("long", turn("x" * 3_000_000))]), made_run([])]
    paths = [path for number, run in enumerate(runs) for path in saved(run, tmp_path, f"run-{number}")]
    for number, shown in enumerate(read_by_inspect(*paths)):
        assert len(shown["samples"]) == len(runs[number // 2].results)


@pytest.mark.long
def test_inspect_reads_calls_of_tools(tmp_path: Path) -> None:
    calls = tool_calls("walnut")
    for shown in read_by_inspect(*saved(made_run([result("a", turn("b", tool_calls=calls))]), tmp_path, "tools")):
        assert shown["tools"] == [
            ["walnut", "walnut", None, {"server": "walnut"}],
            ["look", "walnut", "unknown", None],
            ["look", "too late", "timeout", {"fault": "timeout"}],
        ]


@pytest.mark.long
def test_inspect_view_serves_a_log(tmp_path: Path) -> None:
    path = tmp_path / "2026-11-16T12-00-00_arithmetic_abc.eval"
    write_results(made_run([result(), failed()]), path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(INSPECT / "inspect"), "view", "start", "--log-dir", str(tmp_path), "--port", str(port)]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as server:
        try:
            address = f"http://127.0.0.1:{port}/api/logs/{quote(str(path), safe='')}"
            log = wait_until(lambda: fetch(address), "inspect view does not answer")
        finally:
            server.terminate()
    assert [sample["id"] for sample in log["samples"]] == ["square", "times"]


def fetch(address: str) -> Raw | None:
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return json.load(response)
    except OSError:
        return None
