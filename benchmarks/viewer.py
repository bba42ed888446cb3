"""How long the viewer takes for a run of 50,000 conversations, as a multiple of what it takes for one of 100.

A page is measured twice: of a server that has just started, which has to read the results first, and of one that has
read them. A page does not wait until all of a large run is read: its first rows are there at once, and the rest comes
while it is shown. So `all rows read` says how long that takes, as a multiple of the page of 100 as well. Memory is that
of the server after each, in megabytes.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import quote

from msgspec import structs
from timing import REJOINDER, Row, compile_package, read_runs, show, time_process

from rejoinder.runs.folder import RunFolder
from rejoinder.runs.results import Results
from rejoinder.runs.summary import summarise
from rejoinder.server.pages.data import PATIENCE_S

SMALL, LARGE = 100, 50_000
BOUND = 30
"""Of the page; the budget of the design."""
WHOLE_BOUND = 600
"""Of reading all of it: five hundred times as many conversations."""
MEMORY_BOUND = 2
WORDS = "the parcel was held at the depot because its label had lost the barcode so we opened a trace with the carrier"
REPLIES = [{"text": f"Basel {WORDS * 6}"}, {"text": f"Bern {WORDS * 6}"}]
CHECKS = [{"icontains": "bern", "prompt": f"Are you sure? {WORDS}", "checks": [{"icontains": "bern"}]}]
SUITE = {
    "name": "capitals",
    "targets": [{"name": "demo", "provider": "scripted", "replies": REPLIES}],
    "target": "demo",
    "evals": [{"id": "one", "name": "What is the capital?", "prompt": f"Which is it? {WORDS}", "checks": CHECKS}],
}


def main() -> int:
    runs = read_runs(__doc__, usual=5)
    compile_package()
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        (project / ".rejoinder").mkdir()
        (project / "evals.yaml").write_text(json.dumps(SUITE), encoding="utf-8")
        time_process([REJOINDER, "run"], project)
        [made] = (path for path in (project / ".rejoinder" / "runs").iterdir() if path.is_dir())
        small, large = (grown(made, number, count) for number, count in enumerate((SMALL, LARGE)))
        size = (large / "results.jsonl").stat().st_size
        print(f"{LARGE:,} conversations, {size / 1e6:.0f} MB of results; {runs} servers each, medians")
        one, other = ([measured(project, folder) for _ in range(runs)] for folder in (small, large))
        medians = [{key: median(each[key] for each in found) for key in found[0]} for found in (one, other)]
        return show(list(rows(*medians)))


def rows(small: dict[str, float], large: dict[str, float]) -> Iterator[Row]:
    for name in ("first page", "page again", "50 rows", "conversation"):
        yield Row(name, large[name], small[name], BOUND)
    yield Row("all rows read", large["all rows read"], small["first page"], WHOLE_BOUND)
    yield Row("search", large["search"], small["first page"], WHOLE_BOUND)
    yield Row("memory, MB", large["memory"] / 1e6, small["memory"] / 1e6, MEMORY_BOUND)


def grown(made: Path, number: int, count: int) -> Path:
    """A run of so many conversations, made of the one that was run."""
    folder = RunFolder(made.with_name(f"20260101-00000{number}-abcd"))
    folder.path.mkdir()
    one = json.loads((made / "results.jsonl").read_text(encoding="utf-8"))
    with folder.results.open("w", encoding="utf-8") as stream:
        for place in range(count):
            named = {"id": f"case-{place}", "number": place + 1, "title": f"{one['title']} {place}"}
            stream.write(json.dumps({**one, **named}, separators=(",", ":")) + "\n")
    receipt = RunFolder(made).read_receipt()
    assert receipt is not None
    receipt = structs.replace(receipt, id=folder.id, planned=count, format=1)  # of a time before checksums
    for name in ("suite.json", "cases.jsonl", "journal.jsonl"):
        (folder.path / name).write_bytes((made / name).read_bytes())
    folder.write_summary(summarise(Results(folder.results), receipt))
    folder.write_receipt(receipt)
    return folder.path


def measured(project: Path, run: Path) -> dict[str, float]:
    """Times of one server, and the most memory that it held, all as plain numbers."""
    address, data = f"/runs/{run.name}", f"/data/runs/{run.name}"
    named = "suite=capitals&case=case-99&target=demo&trial=1"
    with served(project) as (port, pid):
        get(port, "/static/none")  # what every server loads at its first answer
        found = {"first page": get(port, address)}
        started = time.perf_counter()
        while get(port, f"{data}/rows") > PATIENCE_S:
            pass  # an answer does not wait longer for the rest
        found["all rows read"] = time.perf_counter() - started + found["first page"]
        found["page again"] = min(get(port, address) for _ in range(3))
        found["50 rows"] = min(get(port, f"{data}/rows?from=50&count=50") for _ in range(3))
        found["conversation"] = min(get(port, f"{data}/conversation?{named}") for _ in range(3))
        found["search"] = get(port, f"{data}/rows?q={quote('opened a trace')}")
        found["memory"] = peak_of(pid)
        return found


@contextmanager
def served(project: Path) -> Generator[tuple[int, int]]:
    command = [REJOINDER, "view", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline().rstrip().rpartition(":")[2])
            yield port, server.pid
        finally:
            server.terminate()


def get(port: int, path: str) -> float:
    """Seconds of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    started = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    took = time.perf_counter() - started
    assert answer.status == 200 or path.startswith("/static"), (path, answer.status)
    connection.close()
    return took


def peak_of(pid: int) -> float:
    """The most memory of a process so far, in kilobytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    sys.exit(main())
