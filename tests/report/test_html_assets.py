"""Scripts and styles of pages: small, and joined in order."""

from __future__ import annotations

import re
from pathlib import Path

from rejoinder.report.html import write
from rejoinder.report.page import assets
from rejoinder.server.pages import statics
from tests.kit import ROOT
from tests.report.exports import made_run
from tests.report.html_files import HtmlFile

LARGEST_SCRIPT, LARGEST_STYLE, LARGEST_SHELL = 110_000, 36_000, 146_000
"""Bytes of plain source, comments included; docs/design/viewer.md states the same bounds."""
LARGEST_VIEWER, LARGEST_VIEWER_STYLE = 128_000, 41_000
"""Script and style of the viewer: it watches, forks and labels, beyond what the report does."""
FOLDER = Path(assets.__file__).parent


def test_a_report_stays_small() -> None:
    assert len(assets.script().encode()) <= LARGEST_SCRIPT
    assert len(assets.style().encode()) <= LARGEST_STYLE
    assert len("".join(write(made_run([]))).encode()) <= LARGEST_SHELL


def test_the_viewer_stays_small() -> None:
    assert len(statics.script().content) <= LARGEST_VIEWER
    assert len(statics.style().content) <= LARGEST_VIEWER_STYLE


def test_the_design_page_states_these_bounds() -> None:
    page = (ROOT / "docs/design/viewer.md").read_text(encoding="utf-8")
    stated = re.findall(r"at most (\d+) kB", page)
    bounds = [LARGEST_SCRIPT, LARGEST_STYLE, LARGEST_SHELL, LARGEST_VIEWER, LARGEST_VIEWER_STYLE]
    assert [int(number) * 1_000 for number in stated] == bounds


def test_every_file_of_the_application_is_joined() -> None:
    scripts = {path.name for path in (FOLDER / "script").glob("*.js") if not path.name.startswith("server_")}
    assert scripts == set(assets.APPLICATION)
    assert {path.name for path in (FOLDER / "style").glob("*.css")} >= set(assets.STYLES)


def test_the_policy_allows_the_script_and_the_style_of_the_file_and_nothing_else() -> None:
    page = HtmlFile(write(made_run([])))
    [style], scripts = page.of("style"), page.of("script")
    assert page.policy == (
        f"default-src 'none'; script-src {assets.digest(scripts[-1])}; style-src {assets.digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    runs = [tag for tag in page.tags if tag.name == "script" and "type" not in tag.attributes]
    assert len(runs) == 1
