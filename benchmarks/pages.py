"""How fast the report opens and answers in a real browser, for 45, 2,000 and 20,000 conversations.

Times of a browser are worth little by themselves: a busy machine doubles them. So the time until a report can be used
is set against that of a page that has as many bytes and shows a word, and that of large reports against the small one.
What a person waits for (a letter that is typed, a conversation that opens, a search through all transcripts) is shown
in milliseconds; the letter has a bound. Each figure is the median of several starts, each in a context of its own.

    .venv/bin/python benchmarks/pages.py [--runs N] [--largest N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.pages.browsing import Chromium, Tab, start_chromium, tabs_of
from tests.pages.kit import Sizes, large, write_report
from timing import Row, say_load, show

SIZES = {45: Sizes(15, 3), 2_000: Sizes(1_000, 2), 20_000: Sizes(5_000, 4)}
WORDS = 120
"""Words of a reply: about that many have real ones."""
READY_BOUND, LARGE_BOUND, KEY_BOUND_MS = 2.0, 4.0, 50.0
BLANK = "<!doctype html><meta charset=utf-8><title>blank</title><p>x</p><script type=text/plain>{}</script>"
READY = "() => performance.getEntriesByName('ready')[0].startTime"
FOUND = "() => !/transcripts|^0|failures first/.test(document.querySelector('.count').textContent)"
FRAME = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"


class Times(NamedTuple):
    """In milliseconds."""

    made: float
    megabytes: float
    blank: float
    waited: float
    ready: float
    key: float
    opened: float
    following: float
    search: float


def clock(tab: Tab, act: Callable[[], None], holds: str | None = None) -> float:
    """From before an act until the page has drawn what comes of it, on the page's own clock."""
    begun = tab.page.evaluate("() => performance.now()")
    act()
    if holds:
        tab.page.wait_for_function(holds, polling="raf")
    tab.page.evaluate(FRAME)
    return tab.page.evaluate("() => performance.now()") - begun


TYPE = """async () => {
  const field = document.querySelector('#q'), spent = [];
  for (const text of ['case-0', 'case-00', 'case-000', 'case-00', 'case-0', '']) {
    const begun = performance.now();
    field.value = text;
    field.dispatchEvent(new InputEvent('input', { bubbles: true }));
    await new Promise(done => setTimeout(done));
    spent.push(performance.now() - begun);
  }
  return spent;
}"""


def typed(tab: Tab) -> float:
    """What a letter takes in the page alone, without the way there from this process."""
    return statistics.median(tab.page.evaluate(TYPE))


def opening(tab: Tab, path: Path, there: str) -> float:
    """From the wish to see a file until it is there and drawn, with all that the browser does before."""
    begun = perf_counter()
    tab.page.goto(path.as_uri(), wait_until="commit")
    tab.page.wait_for_selector(there, state="attached")
    tab.page.evaluate(FRAME)
    return (perf_counter() - begun) * 1000


def start_once(chromium: Chromium, path: Path, blank: Path) -> dict[str, float]:
    with tabs_of(chromium) as tabs:
        tab = tabs()
        times = {"blank": opening(tab, blank, "p")}
        tab = tabs()
        times["waited"] = opening(tab, path, "html[data-ready]")
        times["ready"] = tab.page.evaluate(READY)
        times["key"] = typed(tab)
        tab.press("/", "Escape")
        first = (
            "() => document.querySelector('#detail .turn') && document.querySelector('#rows .row.open')?.id === 'r0'"
        )
        times["opened"] = clock(tab, lambda: tab.press("Enter"), first)
        second = first.replace("'r0'", "'r1'")
        times["following"] = clock(tab, lambda: tab.press("j"), second)
        tab.press("Escape")
        tab.page.evaluate("() => document.querySelector('#list').scrollIntoView()")
        times["search"] = clock(tab, lambda: tab.page.fill("#q", "telephone"), FOUND)
        return times


def measure(chromium: Chromium, folder: Path, conversations: int, runs: int) -> Times:
    sizes = SIZES[conversations]
    run = large(sizes, WORDS)
    begun = perf_counter()
    path = write_report(run, folder / f"{conversations}.html")
    made = (perf_counter() - begun) * 1000
    size = path.stat().st_size
    blank = folder / f"{conversations}-blank.html"
    blank.write_text(BLANK.format("x" * size), encoding="utf-8")
    found = [start_once(chromium, path, blank) for _ in range(runs + 1)][1:]
    medians = {name: statistics.median(times[name] for times in found) for name in found[0]}
    return Times(made=made, megabytes=size / 1e6, **medians)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="how often each report is opened (default: 5)")
    parser.add_argument("--largest", type=int, default=20_000, help="the largest run (default: 20,000)")
    options = parser.parse_args()
    say_load()
    with tempfile.TemporaryDirectory() as name, start_chromium() as chromium:
        wanted = [conversations for conversations in SIZES if conversations <= options.largest]
        found = {number: measure(chromium, Path(name), number, options.runs) for number in wanted}
    print("conversations     MB    made   ready    key   open   next  search  (ms)")
    for number, times in found.items():
        print(
            f"{number:13,}  {times.megabytes:5.1f}  {times.made:6.0f}  {times.ready:6.0f}  {times.key:5.0f}"
            f"  {times.opened:5.0f}  {times.following:5.0f}  {times.search:6.0f}"
        )
    small = found[45]
    rows = [Row("45: opened, against a blank page of its size", small.waited / 1000, small.blank / 1000, READY_BOUND)]
    rows += [
        Row(f"{number:,}: opened, against 45", times.waited / 1000, small.waited / 1000, LARGE_BOUND)
        for number, times in found.items()
        if number > 45
    ]
    rows += [
        Row(f"{number:,}: a letter, against {KEY_BOUND_MS:g} ms", times.key / 1000, KEY_BOUND_MS / 1000, 1.0)
        for number, times in found.items()
    ]
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
