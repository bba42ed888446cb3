"""All exports: of a real run by their suffixes, with memory that does not grow with the run, and imported when used."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

import rejoinder
from rejoinder.errors import RejoinderError
from rejoinder.exports.formats import FORMATS, write_results
from rejoinder.model import Receipt, Result, Summary
from rejoinder.report import github
from rejoinder.views.details import result_words
from tests.conftest import Project
from tests.engine.talks import LEAK, doubted, ended, simulated, turns_of
from tests.exports.spans import read_spans
from tests.kit import Raw, case, follow, scripted
from tests.report.exports import HOSTILE, check, failed, hostile, judged_together, made_run, result, turn, written

SUITE: Raw = {
    "targets": [scripted("demo", "nö \x1b[2J", "yes", "never")],
    "target": "demo",
    "evals": [
        case("recovers", {"match": "yes"}, follow("Again.", {"match": "yes"}), prompt="Say yes."),
        case("fails", {"match": "please"}, prompt="Say please.", tags=["manners"]),
    ],
}
SUFFIXES = (
    *(".json", ".jsonl", ".yaml", ".yml", ".xml", ".junit.xml", ".ctrf.json", ".md", ".csv", ".toon", ".html"),
    *(".otlp.json", ".otlp.jsonl", ".inspect.json", ".eval"),
)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_run_is_written_by_the_suffix_of_its_file(project: Project, suffix: str) -> None:
    project.write("evals.yaml", SUITE)
    project.run("run", "evals.yaml", "--repeat", "2", "--out", f"out/results{suffix}", code=1)
    content = (project.folder / f"out/results{suffix}").read_bytes()
    assert b"recovers" in content or suffix in (".md", ".html")
    assert b"\x1b" not in content or suffix == ".eval"
    again = project.folder / f"again{suffix}"
    write_results(rejoinder.show(), again)
    if suffix != ".eval":
        assert again.read_bytes() == content


def test_the_numbers_of_a_run_are_the_same_in_every_export(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    report = rejoinder.run("evals.yaml", repeat=2)
    texts = {name: "".join(form.write(report)) for name, form in FORMATS.items()}
    assert 'tests="2" failures="1"' in texts["junit"]
    assert json.loads(texts["ctrf"])["results"]["summary"]["failed"] == 1
    assert "## rejoinder: 1 of 2 cases passed (2 of 4 trials)" in texts["markdown"]
    rows = list(csv.DictReader(io.StringIO(texts["csv"])))
    assert [row["status"] for row in rows] == ["passed", "passed", "failed", "failed"]
    assert "results[4]" in texts["toon"]
    spans = json.loads(texts["otlp"])["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert len(spans) == 4 + sum(len(result.turns) for result in report.results)
    assert len(texts["otlp-lines"].splitlines()) == 4
    samples = json.loads(texts["inspect"])["samples"]
    assert [sample["epoch"] for sample in samples] == [1, 2, 1, 2]
    assert {sample["metadata"]["line"] for sample in samples} == {result.line for result in report.results}


def test_every_export_judges_a_case_as_the_run_does() -> None:
    """The run ends with exit code 0, so nothing failed: one case passed with four of five, one is in quarantine."""
    run = judged_together()
    texts = {name: "".join(form.write(run)) for name, form in FORMATS.items()}
    assert 'tests="3" failures="0" errors="0" skipped="1"' in texts["junit"]
    words = "in quarantine until 2099-01-01: the new tokenizer; 1 of 2 passed"
    assert f'<skipped message="{words}">' in texts["junit"]
    assert '<property name="rejoinder.needed" value="4 of 5"/>' in texts["junit"]
    assert '<property name="rejoinder.passed" value="4"/>' in texts["junit"]
    ctrf = json.loads(texts["ctrf"])["results"]
    assert (ctrf["summary"]["passed"], ctrf["summary"]["failed"], ctrf["summary"]["skipped"]) == (2, 0, 1)
    _, often, flaky = ctrf["tests"]
    assert (often["status"], often["extra"]["passed"], often["extra"]["needed"]) == ("passed", 4, [4, 5])
    assert "message" not in often
    assert (flaky["status"], flaky["rawStatus"], flaky["message"]) == ("skipped", "in quarantine", words)
    rows = list(csv.DictReader(io.StringIO(texts["csv"])))
    assert [row["quarantine_until"] for row in rows] == [""] * 6 + ["2099-01-01"] * 2


def test_the_numbers_of_markdown_add_up() -> None:
    text = "".join(FORMATS["markdown"].write(judged_together()))
    assert text.startswith("## rejoinder: 2 of 2 cases passed (5 of 6 trials), 2 in quarantine.\n\n> [!TIP]\n")
    line = text.splitlines()[3]
    trials = "5 passed on the first try, 1 failed, 2 in quarantine"
    assert line == f"> 2 of 2 cases passed, 0 failed, 0 had errors (trials: {trials})"
    assert sum(map(int, re.findall(r"\d+", trials))) == 8 == judged_together().summary.total
    assert "### Not passed" not in text
    assert "### Passed together\n\n- ✅ `often`, 4 of 5 passed, 4 of 5 needed\n" in text
    words = "in quarantine until 2099-01-01: the new tokenizer; 1 of 2 passed"
    assert f"### In quarantine\n\n- ⏸️ `flaky` `{words}`\n" in text


@pytest.mark.parametrize("name", ["csv", "junit", "ctrf"])
def test_no_line_of_a_reply_can_be_a_command_of_a_build_server(name: str) -> None:
    for text in HOSTILE:
        lines = written(name, hostile(text)).splitlines()
        assert not [line for line in lines if line.lstrip().startswith(("::", "##["))]


@pytest.mark.parametrize(("name", "most"), [("junit", 20_000), ("ctrf", 20_000), ("otlp", 100_000)])
def test_a_long_reply_is_shortened(name: str, most: int) -> None:
    text = written(name, made_run([result("long", turn("x" * 3_000_000))]))
    assert len(text) < most
    assert "characters left out" in text


@pytest.mark.parametrize("needed", [(0, 5), (5, 4), (1, 0)])
@pytest.mark.parametrize("name", ["junit", "ctrf", "markdown"])
def test_a_damaged_run_may_need_what_cannot_be(name: str, needed: tuple[int, int]) -> None:
    for one in (result(needed=needed), failed(needed=needed)):
        assert written(name, made_run([one]))


HUGE = 1e308


@pytest.mark.parametrize("name", FORMATS)
def test_no_number_of_a_damaged_run_is_too_large(name: str) -> None:
    said = turn(
        duration_s=HUGE, cost=HUGE, waited_s=HUGE, started_at="9999-12-31T23:59:59Z", checks=(check(score=HUGE),)
    )
    huge = result("times", said, said, cost=HUGE, score=-HUGE, line=1 << 53, timestamp="0001-01-01T00:00:00Z")
    run = structs.replace(made_run([result()]), results=(huge,))
    assert "times" in "".join(FORMATS[name].write(run)) or name in ("markdown", "html")
    if name == "otlp":
        assert [span.kind for span in read_spans("".join(FORMATS[name].write(run)))] == [1, 3, 3]


@pytest.mark.parametrize("name", ["json", "jsonl", "yaml"])
def test_data_that_is_nested_too_deeply_is_refused_with_words(name: str) -> None:
    nested: list[object] = []
    for _ in range(5_000):
        nested = [nested]
    run = structs.replace(made_run([result()]), results=(result(metadata={"a": nested}),))
    with pytest.raises(RejoinderError, match="nested too deeply"):
        "".join(FORMATS[name].write(run))


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("json", "jsonl", "yaml")])
def test_data_may_be_nested_as_deeply_as_it_was_read(name: str) -> None:
    """The levels that a document adds around it do not matter."""
    for depth in range(100, 1_000, 5):
        text = msgspec.json.encode(result()).replace(
            b'"metadata":{}', b'"metadata":{"a":%s%s}' % (b"[" * depth, b"]" * depth)
        )
        try:
            deep = msgspec.json.decode(text, type=Result)
        except RecursionError:
            break
        for _ in FORMATS[name].write(made_run([deep])):
            pass


class Many:
    """A run of any length, whose results are made when they are read."""

    def __init__(self, count: int) -> None:
        made = made_run([result(), failed()])
        self.run: Receipt = made.run
        self.summary: Summary = made.summary
        self.results = Repeated(count)


class Repeated:
    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[Result]:
        kinds = (result(), failed())
        return (structs.replace(kinds[number % 2], id=f"case-{number}") for number in range(self._count))


def peak_of(name: str, count: int) -> int:
    """Bytes held at most while a run is written."""
    run = Many(count)
    tracemalloc.start()
    try:
        for _ in FORMATS[name].write(run):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("yaml", "html")])
def test_memory_does_not_grow_with_the_run(name: str) -> None:
    peak_of(name, 2_500)  # what is imported, amounts in words, and memory for the next structs are held as well
    start = 1_500 if name == "toon" else 300  # its library keeps the last thousand texts
    assert peak_of(name, start + 1_000) < peak_of(name, start) + 20_000  # 20 bytes for each conversation


@pytest.mark.slow
def test_an_archive_holds_the_name_of_each_conversation_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "many.eval"

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            write_results(Many(count), path)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)  # what is imported is held as well
    assert peak(2_300) < peak(300) + 2_000 * 600  # `zipfile` lists the files until the end
    with zipfile.ZipFile(path) as files:
        assert len(files.namelist()) == 303


def test_a_format_is_imported_when_it_is_used() -> None:
    script = (
        "import json, sys, rejoinder.exports.formats;"
        "ours = ('rejoinder.exports.', 'rejoinder.report.', 'rejoinder.views.', 'toon', 'xml', 'zipfile');"
        "print(json.dumps([name for name in sys.modules if name.startswith(ours)]))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert sorted(json.loads(shown)) == ["rejoinder.exports.formats", "rejoinder.views.cases"]


@pytest.mark.parametrize("name", ["junit", "ctrf", "markdown"])
def test_a_case_that_was_spoilt_is_told_with_the_evidence_and_is_in_no_quarantine(name: str) -> None:
    talk = ended("talk", turns_of(False), number=2, user=simulated(LEAK))
    text = written(name, made_run([result(), talk]))
    assert "invalid because its simulated user leaked at turn 2: it gives the answer away" in text
    assert "quarantine" not in text


def test_what_was_not_measured_is_annotated() -> None:
    talk = ended("talk", turns_of(False), number=2, user=simulated(LEAK))
    [line] = github.write_annotations(made_run([result(), talk]))
    assert "talk was not measured" in line
    assert "it gives the answer away" in line


def test_what_caved_did_not_pass_on_the_first_try() -> None:
    run = made_run([doubted("a", True, False), doubted("b", True, True, number=2)])
    assert "1 passed on the first try, 1 failed" in written("markdown", run)
    assert "1 passed (1 on the first try, 0 recovered), 1 failed" in result_words(run.summary)
