"""How long a person waits for the first row of a run of 20,000 conversations, as a multiple of one of 100.

Measured in a real browser, from the request on, each in a context of its own. Both sizes take turns, so that a slow
moment of the machine meets both. The viewer is one server, which was asked for both runs once before.

    .venv/bin/python benchmarks/first_row.py [--runs N]
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.pages.browsing import Chromium, start_chromium, tabs_of
from tests.pages.kit import Sizes, large, write_report
from timing import REJOINDER, Row, alternate, compile_package, read_runs, say_load, show, time_process
from viewer import SUITE, grown, served

SMALL, LARGE = 100, 20_000
REPORT_BOUND, VIEWER_BOUND = 4.0, 1.5
SIZES = {SMALL: Sizes(SMALL), LARGE: Sizes(LARGE // 4, 4)}


def main() -> int:
    runs = read_runs(__doc__, usual=5)
    say_load()
    compile_package()
    with tempfile.TemporaryDirectory() as name, start_chromium() as chromium:
        return show([*reports(chromium, Path(name), runs), *viewers(chromium, Path(name), runs)])


def reports(chromium: Chromium, folder: Path, runs: int) -> Iterator[Row]:
    files = {number: write_report(large(sizes), folder / f"{number}.html") for number, sizes in SIZES.items()}
    measures = {str(number): partial(waited, chromium, file.as_uri()) for number, file in files.items()}
    found = alternate(measures, runs)
    yield Row(f"report of {LARGE:,}, first row", found[str(LARGE)], found[str(SMALL)], REPORT_BOUND)


def viewers(chromium: Chromium, project: Path, runs: int) -> Iterator[Row]:
    (project / ".rejoinder").mkdir()
    (project / "evals.yaml").write_text(json.dumps(SUITE), encoding="utf-8")
    time_process([REJOINDER, "run"], project)
    [made] = (path for path in (project / ".rejoinder" / "runs").iterdir() if path.is_dir())
    folders = {count: grown(made, number, count) for number, count in enumerate(SIZES)}
    with served(project) as (port, _):
        address = f"http://127.0.0.1:{port}/runs"
        measures = {str(number): partial(waited, chromium, f"{address}/{run.name}") for number, run in folders.items()}
        found = alternate(measures, runs)
    yield Row(f"viewer of {LARGE:,}, first row", found[str(LARGE)], found[str(SMALL)], VIEWER_BOUND)


def waited(chromium: Chromium, address: str) -> float:
    """Seconds until the first row is drawn, in a context of its own."""
    with tabs_of(chromium) as tabs:
        page = tabs().page
        begun = perf_counter()
        page.goto(address, wait_until="commit")
        page.wait_for_selector("#r0")
        return perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
