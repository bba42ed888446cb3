"""JUnit XML, as build servers read it: a suite is a file, a test is a case on one target with all its trials.

There is no standard; this is the common ground of what Jenkins, GitLab and others accept. Texts of others are escaped
and never stand in CDATA sections. Characters that XML cannot hold are made visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from tempfile import SpooledTemporaryFile
from typing import IO
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct
from msgspec.structs import astuple

from rejoinder.model import CaseStatus
from rejoinder.model.figures import Rate
from rejoinder.views.board import rates_of
from rejoinder.views.cases import Run, Tried, name_of, tried_cases
from rejoinder.views.conversation import view_conversation
from rejoinder.views.course import course_words
from rejoinder.views.transcript import reasons_of, short_line, write_transcript
from rejoinder.words.inert import one_line

_TAGS: dict[CaseStatus, str] = {
    "failed": "failure",
    "error": "error",
    "skipped": "skipped",
    "apart": "skipped",
    "spoilt": "skipped",
}
"""The element that says how a test ended; one that passed has none."""


MOST_IN_MEMORY = 1 << 18
"""Characters of tests that are kept in memory until the counts before them are known; more go to a file."""
BLOCK = 1 << 16


class _Counts(Struct):
    tests: int = 0
    failures: int = 0
    errors: int = 0
    skipped: int = 0
    time: float = 0.0

    def __add__(self, other: _Counts) -> _Counts:
        return _Counts(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))

    @property
    def attributes(self) -> dict[str, str]:
        counts = {field: str(getattr(self, field)) for field in ("tests", "failures", "errors", "skipped")}
        return {**counts, "time": _seconds(self.time)}


class _Suite(Struct, frozen=True):
    name: str
    file: str
    counts: _Counts
    written: int
    """Characters of its tests."""


def write(run: Run) -> Iterator[str]:
    """Attributes come first and have counts, so the tests are written behind them from a draft."""
    with SpooledTemporaryFile(MOST_IN_MEMORY, "w+", encoding="utf-8", errors="surrogatepass", newline="") as draft:
        suites = [_draft_suite(names, tests, run, draft) for names, tests in _suites(run)]
        draft.seek(0)
        started = {} if run.run.started_at is None else {"timestamp": run.run.started_at}
        total = sum((one.counts for one in suites), _Counts())
        yield '<?xml version="1.0" encoding="UTF-8"?>\n'
        yield f"<testsuites{_attributes(name='rejoinder', **total.attributes, **started)}>\n"
        for one in suites:
            yield f"  <testsuite{_attributes(name=one.name, **one.counts.attributes, **started, file=one.file)}>\n"
            for start in range(0, one.written, BLOCK):
                yield draft.read(min(BLOCK, one.written - start))
            yield "  </testsuite>\n"
        yield "</testsuites>\n"


def _suites(run: Run) -> Iterator[tuple[tuple[str, str], Iterator[Tried]]]:
    """Names and files of suites with their tests; results stand in the order of their suites."""
    return groupby(tried_cases(run), lambda test: (test.first.suite, test.first.file))


def _draft_suite(names: tuple[str, str], tests: Iterable[Tried], run: Run, draft: IO[str]) -> _Suite:
    counts, written = _Counts(), 0
    for test in tests:
        tag = _TAGS.get(test.status)
        counts += _Counts(1, tag == "failure", tag == "error", tag == "skipped", test.duration_s)
        written += sum(map(draft.write, _test(test, name_of(test.first, run))))
    return _Suite(*names, counts, written)


def _test(test: Tried, name: str) -> Iterator[str]:
    first = test.first
    place = {"file": first.file, "line": str(first.line)} if first.file else {}
    yield f"    <testcase{_attributes(name=name, classname=first.suite, time=_seconds(test.duration_s), **place)}>\n"
    yield "      <properties>\n"
    for key, value in properties_of(test):
        yield f"        <property{_attributes(name=key, value=value)}/>\n"
    yield "      </properties>\n"
    tag = _TAGS.get(test.status)
    if tag is not None:
        yield from _ending(tag, test)
    yield "      <system-out>"
    for result in test.kept:
        head = [f"Trial {result.trial}: {result.status}"] if test.trials > 1 else []
        yield from (f"{escape(line)}\n" for line in (*head, *write_transcript(view_conversation(result))))
    yield "</system-out>\n    </testcase>\n"


def _ending(tag: str, test: Tried) -> Iterator[str]:
    result = test.deciding
    reasons = list(reasons_of(result)) or [f"ended as {result.status}"]
    message = reasons[0] if len(reasons) == 1 else f"{reasons[0]} (and {len(reasons) - 1} more)"
    message = test.apart or message
    kind = result.error.type if result.error is not None else "check"
    typed = {} if tag == "skipped" else {"type": kind}
    yield f"      <{tag}{_attributes(message=message, **typed)}>"
    yield from (f"{escape(f'- {reason}')}\n" for reason in reasons)
    yield f"</{tag}>\n"


def properties_of(test: Tried) -> Iterator[tuple[str, str]]:
    """Names and values for build servers."""
    first = test.first
    yield "rejoinder.target", first.target
    if first.variant is not None:
        yield "rejoinder.variant", first.variant
    if first.title != first.id:
        yield "rejoinder.title", first.title
    yield from (("rejoinder.tag", tag) for tag in first.tags)
    yield from ((f"rejoinder.{label}", short_line(text)) for label, text in course_words(test.deciding))
    yield "rejoinder.turns", str(test.turns)
    if test.cost is not None:
        yield "rejoinder.cost_usd", f"{test.cost:.6g}"
    if first.score is not None and test.trials == 1:
        yield "rejoinder.score", f"{first.score:.6g}"
    yield "rejoinder.trials", str(test.trials)
    yield "rejoinder.passed", str(test.passed)
    if first.needed is not None:
        yield "rejoinder.needed", f"{first.needed[0]} of {first.needed[1]}"
    yield from _rate_properties(test.rate if test.trials > 1 else None)


def properties_of_run(run: Run) -> Iterator[tuple[str, str]]:
    """Its id and its pass rate or, if there is no common one, the rate of each target, variant or pair:
    `rejoinder.pass_rate[gpt-5-terse]`, as in the names of tests."""
    yield "rejoinder.run", run.run.id
    for name, found in rates_of(run.run, run.summary):
        yield from _rate_properties(found, f"[{name}]" if name else "")


def _rate_properties(found: Rate | None, behind: str = "") -> Iterator[tuple[str, str]]:
    if found is None or found.rate is None:
        return
    yield f"rejoinder.pass_rate{behind}", f"{found.rate:.6g}"
    if found.interval is not None:
        yield f"rejoinder.ci_low{behind}", f"{found.interval[0]:.6g}"
        yield f"rejoinder.ci_high{behind}", f"{found.interval[1]:.6g}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _attributes(**values: str) -> str:
    return "".join(f" {key}={quoteattr(one_line(value))}" for key, value in values.items())
