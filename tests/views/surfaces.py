"""What each surface says of one run: the same facts, read back from its own markup."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree as ET

import msgspec
from msgspec import Struct

from rejoinder.exports.formats import FORMATS
from rejoinder.model import Summary
from rejoinder.report import github, html
from rejoinder.report.card import write_card
from rejoinder.report.ending import Extras, write_ending
from rejoinder.report.styled import PLAIN, Form, plain_text
from rejoinder.runs.folder import RunFolder
from rejoinder.views import clusters
from rejoinder.views.board import Board, BoardRow, board_of
from rejoinder.views.clusters import clusters_of
from rejoinder.views.flips import SinceBaseline
from tests.report.exports import MadeRun
from tests.server.kit import ask, settings

WIDE = Form(width=260, symbols=True)
Said: TypeAlias = tuple[int, str]
"""A cluster: how many conversations, and its words; with `NEW` behind them if the baseline had none."""
NEW = ", new"
_SVG = "{http://www.w3.org/2000/svg}"


class Shown(Struct, frozen=True):
    headline: str
    """Empty if the surface says it in another way."""
    rows: list[str]
    """The text of each row of the board."""
    clusters: list[Said] | None
    """None if the surface has no room for them."""
    whole: str
    """All of its text."""


def words_of(markup: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", markup)).split())


# The terminal


def terminal(run: MadeRun, form: Form, since: SinceBaseline | None = None) -> Shown:
    lines = [plain_text(row) for row in write_ending(run, (), form, Extras(since=since))]
    board = board_of(run.run, run.summary)
    rows: list[str] = []
    if len(board.rows) > 1:
        begin = next(place for place, line in enumerate(lines) if line.startswith(board.what))
        rows = lines[begin + 1 : begin + 1 + len(board.rows)]
    else:
        rows = [" ".join(" ".join(lines).split())]
    said = board.headline.text if board.headline.text in " ".join(" ".join(lines).split()) else ""
    return Shown(said, rows, list(_listed(lines)), "\n".join(lines))


def _listed(lines: list[str]) -> Iterator[Said]:
    begin = next((place for place, line in enumerate(lines) if line.startswith("why ")), len(lines))
    for line in lines[begin + 1 :]:
        if not line.strip():
            return
        number, words = line.strip().split("  ", 1)
        yield int(number.replace(",", "")), words.replace(f", {clusters.NEW}", NEW)


# Pages


def page(text: str) -> Shown:
    """A report, or a page of the viewer."""
    [title] = re.findall(r'<h1 id="h-run"[^>]*>(.*?)</h1>', text)
    rows = re.findall(r'<li class="brow">(.*?</p>)</li>', text)
    return Shown(_plain(title), list(map(words_of, rows)), reasons(text), words_of(text))


def reasons(text: str) -> list[Said]:
    return [_reason(one) for one in re.findall(r'<a class="reason"[^>]*>(.*?)</a>', text)]


def _plain(title: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", title))


def _reason(markup: str) -> Said:
    before, is_new, _ = markup.partition('<span class="new"')
    number, words = words_of(before).split(" ", 1)
    return int(number.replace(",", "")), words + (NEW if is_new else "")


def stored(run: MadeRun, project: Path) -> RunFolder:
    """The run as a folder of the project."""
    folder = RunFolder(project / ".rejoinder/runs" / run.run.id)
    folder.path.mkdir(parents=True)
    folder.results.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in run.results))
    folder.write_summary(run.summary)
    folder.close(run.run)
    return folder


def viewer(run: MadeRun, project: Path) -> Shown:
    stored(run, project)
    return page(asked(run, project))


def asked(run: MadeRun, project: Path) -> str:
    """Its page in the viewer, without the list."""
    answer = ask(settings(project), "GET", f"/runs/{run.run.id}")
    assert answer.status_code == 200, answer.text
    return answer.text.partition('<section id="work"')[0]


# Documents


def comment(run: MadeRun, since: SinceBaseline | None = None) -> Shown:
    text = github.sticky_text(run, "results", since)
    lines = text.splitlines()
    [title] = [line for line in lines if line.startswith("## rejoinder: ")]
    begin = next((place for place, line in enumerate(lines) if line.startswith("**Why ")), len(lines))
    found = (re.fullmatch(r"- ([\d,]+) (`+) ?(.*?) ?\2(, new since the baseline)?", line) for line in lines[begin:])
    listed = [(int(one[1].replace(",", "")), one[3] + (NEW if one[4] else "")) for one in found if one is not None]
    rows = [line for line in lines if line.startswith("| `")]
    head = title.removeprefix("## rejoinder: ").replace("`", "")
    return Shown(head, _board_table(lines) or rows, listed, text)


def _board_table(lines: list[str]) -> list[str]:
    """Each row as `title: cell` pairs."""
    begin = next(place for place, line in enumerate(lines) if line.startswith("|"))
    titles = [cell.strip() for cell in lines[begin].strip("|").split("|")]
    rows: list[str] = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows.append("; ".join(f"{title}: {cell}" for title, cell in zip(titles, cells, strict=True)))
    return rows


def document(run: MadeRun) -> Shown:
    """JSON has figures, not words: by them a reader makes the same board."""
    found = json.loads("".join(FORMATS["json"].write(run)))
    summary = msgspec.convert(found["summary"], Summary)
    assert [(one["kind"], one["number"]) for one in found["summary"]["clusters"]] == [
        (one.kind, one.number) for one in summary.clusters
    ]
    board = board_of(run.run, summary)
    every = [(row.number, row.words) for row in clusters_of(summary)]
    return Shown(board.headline.text, [_everything(row) for row in board.rows], every, json.dumps(found))


def _everything(row: BoardRow) -> str:
    return "; ".join([*facts_of(row), row.passed, *counts_of(row, str.lower)])


def card(run: MadeRun) -> Shown:
    texts = ["".join(one.itertext()) for one in ET.fromstring(write_card(run)).iter(f"{_SVG}text")]
    return Shown("", [" ".join(texts)], None, " ".join(texts))


# Facts


def facts_of(row: BoardRow) -> Iterator[str]:
    """What each surface has to say of a row, in these words."""
    yield row.name
    yield row.share.text or "no rate"
    if row.share.text:
        yield row.share.bounds
    if (found := row.listening) is not None:
        yield from filter(None, (found.word, found.fixed, found.afresh, found.net, found.bounds))


def counts_of(row: BoardRow, spelled: Callable[[str], str] = str) -> Iterator[str]:
    """`First try 10`: each outcome that there is."""
    numbers = row.outcomes
    known = {"First try": numbers.first, "Recovered": numbers.recovered, "Failed": numbers.failed}
    for name, number in {**known, "Errors": numbers.errors}.items():
        if number:
            yield f"{spelled(name)} {number:,}"


def boards_of(board: Board) -> list[list[str]]:
    return [list(facts_of(row)) for row in board.rows]


def report(run: MadeRun) -> Shown:
    return page("".join(html.write(run)).partition('<section id="work"')[0])


def plain(run: MadeRun) -> Shown:
    return terminal(run, PLAIN)


def wide(run: MadeRun) -> Shown:
    return terminal(run, WIDE)
