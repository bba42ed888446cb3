"""`rejoinder export`, and `run --out` for several files at once."""

from __future__ import annotations

import csv
import gzip
import json
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import rejoinder
from rejoinder.errors import UsageError
from rejoinder.exports.formats import FORMATS
from rejoinder.run_files import RunDamaged
from tests.kit import Project, case, only_run, refusal, refused, run, run_folders, scripted
from tests.labs.collector_lab import Collector

SUITE = {
    "metadata": {"name": "words"},
    "targets": [scripted("bot", "yes")],
    "target": "bot",
    "evals": [case("good", {"equals": "yes"}), case("bad", {"equals": "no"})],
}
SUFFIXES = (".json", ".jsonl", ".yaml", ".xml", ".ctrf.json", ".md", ".csv", ".toon", ".eval", ".otlp.json")


def read(path: Path) -> Any:
    """What another program finds in a file."""
    match path.suffix:
        case ".xml":
            return [test.get("name") for test in ElementTree.parse(path).iter("testcase")]
        case ".eval":
            with zipfile.ZipFile(path) as archive:
                return json.loads(archive.read("header.json"))
        case ".csv":
            return list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
        case ".yaml":
            return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        case ".json":
            return json.loads(path.read_text(encoding="utf-8"))
        case _:
            return path.read_text(encoding="utf-8")


def test_a_run_is_written_to_every_kind_of_file_at_once(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    wanted = [argument for suffix in SUFFIXES for argument in ("--out", f"out/results{suffix}")]
    shown = project.run("run", "evals.yaml", *wanted, code=1)
    assert "1 failed" in shown
    found = {suffix: read(project.folder / f"out/results{suffix}") for suffix in SUFFIXES}
    assert found[".xml"] == ["good", "bad"]
    assert [result["id"] for result in found[".yaml"]] == ["good", "bad"]
    assert found[".json"]["summary"]["failed"] == 1
    assert found[".ctrf.json"]["reportFormat"] == "CTRF"
    assert found[".eval"]["version"] == 2
    assert found[".otlp.json"]["resourceSpans"]
    assert len(found[".csv"]) == 3
    assert "1 of 2 passed" in found[".md"]


def test_the_suffix_decides_beside_another_format_of_standard_output(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    printed = project.run("run", "evals.yaml", "--format", "jsonl", "--out", "a.xml", "--out", "b.txt", code=1)
    assert read(project.folder / "a.xml") == ["good", "bad"]
    assert (project.folder / "b.txt").read_text() == printed


def test_one_unknown_suffix_among_several_is_refused_before_anything_is_sent(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    words = refusal(project, "run", "evals.yaml", "--out", "a.json", "--out", "b.docx")
    assert "the suffix of b.docx names no format of results" in words
    assert all(suffix in words for suffix in SUFFIXES)
    assert run_folders(project.folder) == []
    assert not (project.folder / "a.json").exists()


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_sent(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    project.write("file", "x")
    assert "cannot be written" in refusal(project, "run", "evals.yaml", "--out", "a.json", "--out", "file/b.json")
    assert run_folders(project.folder) == []


def test_the_old_option_decides_for_all_files(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    project.run("run", "evals.yaml", "--out", "a.json", "--out", "b.txt", "--output-format", "jsonl", code=1)
    texts = [(project.folder / name).read_text() for name in ("a.json", "b.txt")]
    assert texts[0] == texts[1]
    assert [json.loads(line)["id"] for line in texts[0].splitlines()] == ["good", "bad"]


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_is_what_show_prints(project: Project, form: str) -> None:
    document = run(project, SUITE)
    printed = project.run("export", "--to", form)
    assert printed == project.run("show", "--format", form)
    project.run("export", document["run"]["id"], "--to", form, "--out", "deep/file.txt")
    assert (project.folder / "deep/file.txt").read_text(encoding="utf-8") == printed.replace("\r\n", "\n")
    rejoinder.export(document["run"]["id"], form, project.folder / "again.txt")
    assert (project.folder / "again.txt").read_bytes() == (project.folder / "deep/file.txt").read_bytes()


def test_the_suffix_names_the_format_of_an_export(project: Project) -> None:
    run(project, SUITE)
    assert project.run("export", "--out", "a.xml") == ""
    assert read(project.folder / "a.xml") == ["good", "bad"]
    project.run("export", "--to", "inspect", "--out", "log.eval")
    assert read(project.folder / "log.eval")["version"] == 2


def test_an_export_is_written_to_several_files(project: Project) -> None:
    run(project, SUITE)
    project.run("export", "--out", "a.md", "--out", "b.csv")
    assert "1 of 2 passed" in read(project.folder / "a.md")
    assert len(read(project.folder / "b.csv")) == 3
    words = refusal(project, "export", "--out", "c.md", "--out", "without")
    assert "--to names the format for any other" in words
    assert not (project.folder / "c.md").exists()


def test_an_export_without_a_format_is_refused(project: Project) -> None:
    run(project, SUITE)
    assert "name the format with --to: json" in refusal_of(project, "export")
    assert "the suffix of a.docx names no format" in refusal(project, "export", "--out", "a.docx")
    assert "is not one of" in refusal_of(project, "export", "--to", "docx")
    with pytest.raises(UsageError, match="there is no format `docx`"):
        rejoinder.export(None, "docx", "a.docx")
    with pytest.raises(UsageError, match="cannot be written"):
        rejoinder.export(None, "json", project.folder)


def refusal_of(project: Project, *arguments: str) -> str:
    """What a mistake in the command line is called."""
    result = project.invoke(*arguments)
    assert result.exit_code == 2
    return result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "json", "--endpoint", "http://localhost"),
        ("--endpoint", "http://localhost", "--out", "a.json"),
        ("--to", "otlp", "--content"),
    ],
)
def test_options_of_a_collector_go_together(project: Project, arguments: tuple[str, ...]) -> None:
    run(project, SUITE)
    assert "--endpoint" in refusal_of(project, "export", *arguments)


@pytest.mark.slow
def test_spans_are_sent_to_a_collector(project: Project) -> None:
    run(project, SUITE)
    with Collector().open() as collector:
        base = collector.url.removesuffix("/v1/traces")
        assert project.run("export", "--to", "otlp", "--endpoint", base) == f"sent 4 spans to {base}\n"
        project.run("export", "--endpoint", f"{base}/other", "--content")
    assert [taken.path for taken in collector.taken] == ["/v1/traces", "/other"]
    told = [b"Question good" in gzip.decompress(taken.body) for taken in collector.taken]
    assert told == [False, True]


def test_a_collector_that_refuses_is_an_error(project: Project) -> None:
    run(project, SUITE)
    with Collector((400, {}, b"no")).open() as collector:
        error = refused(project, "export", "--to", "otlp", "--endpoint", collector.url)
    assert error.exit_code == 3
    assert "did not take the spans" in error.message


def test_what_a_collector_rejects_is_said(project: Project) -> None:
    run(project, SUITE)
    answer = b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}'
    with Collector((200, {}, answer)).open() as collector:
        error = refused(project, "export", "--to", "otlp", "--endpoint", collector.url)
    assert error.exit_code == 3
    assert error.message == "the collector rejected 3 spans: too old"


def test_edited_figures_are_said_and_not_exported(project: Project) -> None:
    run(project, SUITE)
    path = only_run(project.folder) / "summary.json"
    path.write_text(path.read_text().replace('"failed": 1', '"failed": 0'))
    error = refused(project, "export", "--to", "junit")
    assert error.exit_code == 3
    assert "its figures disagree with the results" in error.message
    with pytest.raises(RunDamaged):
        rejoinder.export(None, None, "a.xml")
    shown = project.invoke("show")
    assert shown.exit_code == 3
    assert "its figures disagree with the results" in shown.stderr
    assert "rejoinder verify" in shown.stderr


def test_results_that_cannot_be_read_are_named(project: Project) -> None:
    run(project, SUITE)
    path = only_run(project.folder) / "results.jsonl"
    path.write_text(path.read_text() + "{}\n")
    for command in (("show",), ("export", "--to", "csv"), ("ci",)):
        error = refused(project, *command)
        assert error.exit_code == 3
        assert "results.jsonl is damaged: line 3" in error.message
