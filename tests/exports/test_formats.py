"""Formats of results: streamed as they were dumped whole, and open to another one by a line in the table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

import rejoinder
from rejoinder.cli.output import write_data
from rejoinder.errors import UsageError
from rejoinder.exports import formats
from rejoinder.exports.formats import FORMATS, Archive, Format, find_format, write_json, write_jsonl, write_results
from rejoinder.views.cases import Run
from rejoinder.words.inert import to_json, visible
from tests.conftest import Project
from tests.report.exports import HOSTILE, OBEYED, hostile, written

SUITE = {
    "targets": [{"name": "demo", "provider": "scripted", "replies": ["nö", "yes"]}],
    "target": "demo",
    "evals": [
        {
            "id": name,
            "prompt": "Say yes.",
            "metadata": {"whole": 1, "real": 1.0, "small": 1e-07},
            "checks": [{"match": "yes"}, {"prompt": "Again.", "checks": [{"match": "yes"}]}],
        }
        for name in ("a", "b")
    ],
}


@pytest.fixture
def report(project: Project) -> rejoinder.RunReport:
    project.write("evals.yaml", SUITE)
    return rejoinder.run("evals.yaml", selection=rejoinder.Selection(include_messages=True))


def test_streamed_json_is_the_document_dumped_whole(report: rejoinder.RunReport) -> None:
    document = report.document()
    assert "".join(write_json(report)) == to_json(document, indent=2) + "\n"
    assert json.loads("".join(write_json(report))) == document
    more = "".join(write_json(report, changes=[{"id": "a"}]))
    assert more == to_json({**document, "changes": [{"id": "a"}]}, indent=2) + "\n"
    assert [json.loads(line) for line in write_jsonl(report)] == document["results"]


def test_json_without_results_has_an_empty_list(report: rejoinder.RunReport) -> None:
    class Empty:
        run, summary, results = report.run, report.summary, ()

    wanted = {**report.document(), "results": []}
    assert "".join(write_json(Empty())) == to_json(wanted, indent=2) + "\n"


def test_a_new_format_is_a_writer_and_a_line_in_the_table(
    report: rejoinder.RunReport, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_ids(run: Run) -> Iterator[str]:
        return (f"{result.id} {result.status}\n" for result in run.results)

    monkeypatch.setitem(FORMATS, "ids", Format(write_ids, (".ids",)))
    write_results(report, Path("out/results.ids"))
    assert (project.folder / "out/results.ids").read_text() == "a passed\nb passed\n"


def test_a_suffix_without_a_format_is_refused(report: rejoinder.RunReport) -> None:
    with pytest.raises(UsageError, match=r"names no format of results"):
        formats.write_results(report, Path("results.txt"))


def test_the_longest_suffix_wins(report: rejoinder.RunReport, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_ids(run: Run) -> Iterator[str]:
        return iter(())

    monkeypatch.setitem(FORMATS, "ids", Format(write_ids, (".ids.json",)))
    assert find_format(Path("Results.IDS.JSON")) is FORMATS["ids"]
    assert find_format(Path("ids.json")) is FORMATS["json"]
    assert find_format(Path(".ids.json")) is FORMATS["json"]
    assert find_format(Path("results.ids.json"), "yaml") is FORMATS["yaml"]


def test_a_refusal_lists_the_suffixes() -> None:
    with pytest.raises(UsageError) as refusal:
        find_format(Path("results.docx"))
    assert ".json, .jsonl, .yaml, .yml" in str(refusal.value.hint)


def test_an_archive_is_written_as_bytes(
    report: rejoinder.RunReport, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pack(run: Run, stream: BinaryIO) -> None:
        stream.write(b"\x00\xff" + run.run.id.encode())

    monkeypatch.setitem(FORMATS, "ids", Format(write_jsonl, (".ids",), Archive(pack, (".packed",))))
    write_results(report, Path("results.packed"))
    write_results(report, Path("again.packed"), "ids")
    write_results(report, Path("results.ids"))
    assert (project.folder / "results.packed").read_bytes() == b"\x00\xff" + report.run.id.encode()
    assert (project.folder / "again.packed").read_bytes() == (project.folder / "results.packed").read_bytes()
    assert (project.folder / "results.ids").read_text().startswith('{"suite"')


@pytest.mark.parametrize("text", HOSTILE)
def test_json_of_exports_is_exact_and_moves_no_cursor(text: str) -> None:
    shown = to_json({"text": text, text: [text]})
    assert not OBEYED.search(shown)
    assert json.loads(shown)["text"] == re.sub("[\ud800-\udfff]", "\ufffd", text)  # UTF-8 has no halves of characters
    assert not OBEYED.search(visible(text))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_documents_of_ours_move_no_cursor_either(name: str, text: str) -> None:
    shown = written(name, hostile(text))
    assert not OBEYED.search(shown)
    first = json.loads(shown)["results"][0] if name == "json" else json.loads(shown.splitlines()[0])
    assert first["turns"][0]["response"] == re.sub("[\ud800-\udfff]", "\ufffd", text)


def test_data_of_commands_moves_no_cursor(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_data({"name": "a\u202eb\x9b", "numbers": [1, 0.5]})
    shown = capfdbinary.readouterr().out
    assert shown == b'{\n  "name": "a\\u202eb\\u009b",\n  "numbers": [\n    1,\n    0.5\n  ]\n}\n'
