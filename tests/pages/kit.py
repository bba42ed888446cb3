"""Runs to show in pages: a real one without models, large ones, random ones, and hostile texts for every place."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from hypothesis import strategies
from msgspec import structs

from rejoinder.model import Result
from rejoinder.model.runs import TargetOfRun
from rejoinder.views.cases import Run
from tests.comparison.sides import one
from tests.kit import run_folders, run_process
from tests.report.exports import MadeRun, check, hostile, made_run, result, turn

DATA = Path(__file__).parent / "data"
TARGETS = ("atlas-large", "atlas-mini", "orca-7b")
"""Those of the service desk: one that is mostly right, one that recovers, and one that is mostly wrong."""
OUTCOMES = {"p": "first", "r": "recovered", "f": "failed", "g": "failed", "e": "error", "s": "skipped"}
"""What pages call the endings of `tests.comparison.sides`."""


Serve = Callable[..., str]
"""Starts a viewer of a project, and gives its address."""


def write_report(run: Run, path: Path) -> Path:
    """The report of a run, in this file."""
    from rejoinder.report.html import write

    path.write_bytes("".join(write(run)).encode())
    return path


def store_run(made: MadeRun, project: Path) -> str:
    """A run of a project, as one that has ended leaves it; its id."""
    from rejoinder.runs.folder import RunFolder, runs_folder
    from rejoinder.words.inert import to_bytes

    folder = RunFolder(runs_folder(project) / made.run.id)
    folder.path.mkdir(parents=True)
    folder.results.write_bytes(b"".join(to_bytes(one) + b"\n" for one in made.results))
    folder.write_summary(made.summary)
    folder.write_receipt(structs.replace(made.run, format=1))  # of a time before checksums
    return made.run.id


# Large runs


class Sizes(NamedTuple):
    cases: int
    targets: int = 1
    trials: int = 1

    @property
    def conversations(self) -> int:
        return self.cases * self.targets * self.trials


_WORDS = """the parcel was held at depot because label lost its barcode and customer may wait or have money back today
please tell us which we have opened trace with carrier two people move to telephone on mondays before december"""


def prose(words: int, seed: int) -> str:
    """Words in an order of their own, so that a report of many is not one text that packs to nothing."""
    chosen = random.Random(seed)
    return " ".join(chosen.choices(_WORDS.split(), k=words)).capitalize() + "."


def large(sizes: Sizes, words: int = 60) -> MadeRun:
    """A run of this size: of ten conversations six pass at once, two recover, one fails and one ends in an error."""
    names = [f"target-{number}" for number in range(1, sizes.targets + 1)]
    results = _large(sizes, names, words)
    return made_run(results, targets=tuple(TargetOfRun(name, "scripted", None) for name in names))


def _large(sizes: Sizes, targets: Sequence[str], words: int) -> Iterator[Result]:
    at = 0
    for number in range(1, sizes.cases + 1):
        tags = (f"tag-{number % 7}",)
        for target in targets:
            for trial in range(1, sizes.trials + 1):
                at += 1
                made = one(
                    f"case-{number:05}", "pppprrpfep"[at * 7 % 10], trial, number=number, target=target, tags=tags
                )
                yield _told(made, at, words)


def _told(made: Result, seed: int, words: int) -> Result:
    turns = [
        structs.replace(turn, response=None if turn.response is None else prose(words, seed * 10 + turn.turn))
        for turn in made.turns
    ]
    return structs.replace(made, turns=tuple(turns), title=f"Question {made.number} about parcels")


# Random runs


class Recipe(NamedTuple):
    """A run in few words: how the trials of each case ended on each target, and the tags of the case."""

    endings: list[list[str]]
    tags: list[list[str]]

    def run(self) -> MadeRun:
        results = [
            one(f"case {case}", ending, trial, number=case, target=f"t{target}", tags=tuple(tags), title=f"Case {case}")
            for case, (row, tags) in enumerate(zip(self.endings, self.tags, strict=True), 1)
            for target, trials in enumerate(row, 1)
            for trial, ending in enumerate(trials, 1)
        ] or [one("case 1", "f", target="t1", title="Case 1")]
        names = sorted({made.target for made in results})
        return made_run(results, targets=tuple(TargetOfRun(name, "scripted", None) for name in names))


@strategies.composite
def recipes(draw: strategies.DrawFn) -> Recipe:
    """Cases on some targets, with repeats, tags and every ending; a pair of case and target may be missing."""
    targets, cases = draw(strategies.integers(1, 4)), draw(strategies.integers(1, 6))
    trials = strategies.text(alphabet="prfges", max_size=3)
    rows = strategies.lists(trials, min_size=targets, max_size=targets)
    tags = strategies.lists(strategies.sampled_from(["a", "b", "c"]), unique=True, max_size=2)
    several = {"min_size": cases, "max_size": cases}
    return Recipe(draw(strategies.lists(rows, **several)), draw(strategies.lists(tags, **several)))


def outcome_of(made: Result) -> str:
    """What a page has to call the ending, told without the code of pages."""
    if made.status == "passed":
        return "recovered" if len(made.turns) > 1 else "first"
    return {"failed": "failed", "error": "error", "skipped": "skipped"}[made.status]


# Hostile texts

SIGN = "rejoinder-was-here"
"""What every hostile script would leave: a dialog, a title, or this name in the window."""
_ACT = f"window['{SIGN}']=1;document.title='{SIGN}';alert('{SIGN}')"
HOSTILE = {
    "script": f"<script>{_ACT}</script>",
    "end of script": f"</script><script>{_ACT}</script><!-- <script>",
    "handlers": f'<img src=x onerror="{_ACT}"><svg onload="{_ACT}"><details open ontoggle="{_ACT}">',
    "attribute": f'"\'><a href="javascript:{_ACT}" autofocus onfocus="{_ACT}" tabindex=1>click</a>',
    "address": f"javascript:{_ACT}",
    "template": "{{constructor.constructor('alert(1)')()}} ${alert(1)} <% alert(1) %> [[${7*7}]]",
    "frames": f"<iframe srcdoc=\"<script>parent.{_ACT}</script>\"></iframe><object data='data:text/html,x'></object>",
    "styles": "</style><style>*{display:none}</style><link rel=stylesheet href=http://127.0.0.1:1/x.css>",
    "requests": "<img src=http://127.0.0.1:1/x.png><form action=http://127.0.0.1:1/><meta http-equiv=refresh>",
    "link": f"[click](javascript:{_ACT}) ![pixel](http://127.0.0.1:1/x.png) <javascript:{_ACT}>",
    "markup": f"# <img src=x onerror={_ACT}>\n\n|<script>{_ACT}</script>|b|\n|---|---|\n|**<svg onload={_ACT}>**|`b`|",
    "prototype": "__proto__",
    "constructor": "constructor",
    "directions": "\u202egnp.exe \u2066\u2069\u061c\u200f\ufeff\u2028line\u2029",
    "controls": "\x00\x07\x08\x1b[2J\x1b]0;x\x07\x7f\x9b31m\ufffe\uffff",
    "half": "lone \ud800 half \udfff",
    "hash": "#/c/../../%2e%2e/%00/?show=failed&q=<b>#t9",
    "path": "../../etc/passwd\\..\\..",
    "percent": "%E0%A4%A %ZZ %",
    "empty": "",
    "spaces": "  \t \n ",
}
LONG = {
    "a line of 5 MB": "x" * 5_000_000,
    "a huge table": "| a | b |\n|---|---|\n" + "| **x** | [y](z) |\n" * 20_000,
    "thirty thousand quotes": "> " * 30_000 + "deep",
    "ten thousand lines": "\n".join(f"{number} lines" for number in range(10_000)),
}


def checks_deep(depth: int) -> Any:
    """A check within checks."""
    inner = check(False, check=f"contains {depth}", reason=f"depth {depth}")
    for level in range(depth - 1, 0, -1):
        inner = check(False, check=f"or {level}", kind="or", reason=f"depth {level}", children=(inner, check(True)))
    return inner


def much_checked() -> MadeRun:
    """A reply with 300 checks, and one with checks in checks, five deep."""
    lost: dict[str, Any] = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}
    many = tuple(check(number % 3 > 0, check=f"contains {number}", reason=f"reason {number}") for number in range(300))
    return made_run(
        [
            result("many", turn("reply", passed=False, checks=many), title="Many checks", **lost),
            result("deep", turn("reply", passed=False, checks=(checks_deep(5),)), title="Deep checks", **lost),
        ]
    )


def hostile_run(texts: Sequence[str]) -> MadeRun:
    """A run that has each of these texts in reply, prompt, names, tags, target, reasons and errors."""
    found: list[Result] = []
    for number, text in enumerate(texts):
        first, *others = hostile(text).results
        named = structs.replace(first, variant=text or None)  # a variant has a name
        found += [named, *(structs.replace(other, id=f"{other.id} {number}") for other in others)]
    run = hostile(texts[0]).run
    return made_run(found, suites=run.suites, targets=run.targets, id="20261116-120000-abcd")


# The service desk: a real run of scripted targets


class Desk(NamedTuple):
    """A project with two runs of the same suite; in the second some replies are others."""

    folder: Path
    a: Run
    b: Run

    def report(self) -> Path:
        return self.folder / "report.html"

    def comparison(self) -> Path:
        return self.folder / "comparison.html"


OTHER_REPLIES = (
    ("It is probably still with the carrier", "It is most likely still with the carrier"),
    ("You can send them back and we will see about a full refund.", "After 60 days only store credit is possible."),
    ("Vielen Dank für Ihre Geduld", "Danke"),
)
"""What the second run says instead: other words, a follow-up that helps, and a first try that fails."""


def make_desk(folder: Path) -> Desk:
    """Two runs, their reports, and the report that sets one against the other."""
    (folder / ".rejoinder").mkdir()
    (folder / "grader.py").write_text((DATA / "grader.py").read_text(encoding="utf-8"), encoding="utf-8")
    suite = (DATA / "service-desk.yaml").read_text(encoding="utf-8")
    a = _run_desk(folder, suite)
    for words, others in OTHER_REPLIES:
        assert words in suite, words
        suite = suite.replace(words, others)
    desk = Desk(folder, a, _run_desk(folder, suite))
    write_report(desk.a, desk.report())
    write_comparison(desk.a, desk.b, desk.comparison())
    return desk


def _run_desk(folder: Path, suite: str) -> Run:
    (folder / "service-desk.yaml").write_text(suite, encoding="utf-8")
    before = set(run_folders(folder))
    arguments = ("run", "service-desk.yaml", "-m", ",".join(TARGETS), "--include", "messages")
    ended = run_process(folder, *arguments)
    assert ended.code == 3, ended  # one conversation ends in an error
    [made] = set(run_folders(folder)) - before
    return read_made(made)


def read_made(made: Path) -> Run:
    """A run that has ended, by its folder."""
    from rejoinder.runs.folder import RunFolder
    from rejoinder.runs.recorded import RecordedRun
    from rejoinder.runs.report import read_run

    found = read_run(RecordedRun(RunFolder(made), made.parent.parent.parent))
    assert found is not None
    return found


def write_comparison(a: Run, b: Run, path: Path) -> Path:
    """The report of two runs, in this file."""
    from rejoinder.comparison.sides import Side
    from rejoinder.report.html import write_pair
    from tests.comparison.sides import compare_sides

    comparison = compare_sides(Side(a.run.id, a.results), Side(b.run.id, b.results))
    path.write_bytes("".join(write_pair(a, b, comparison)).encode())
    return path


def address(made: Result, prefix: str = "#/c") -> str:
    """Where a report has a conversation."""
    parts = (made.suite, made.id, made.target, made.variant or "-", str(made.trial))
    return "/".join([prefix, *(quote(part, safe="") for part in parts)])
