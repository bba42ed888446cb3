"""What GitHub shows of a run: the job's summary, annotations at lines of YAML, a comment that is kept up to date.

All of it is text that a workflow hands over; nothing is sent from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from rejoinder.model.figures import GateResult
from rejoinder.report.gate import word_of
from rejoinder.report.markdown import SUMMARY_LIMIT, reason_words, write_within
from rejoinder.views.cases import Run, Tried, name_of, tried_cases
from rejoinder.views.flips import SinceBaseline
from rejoinder.views.notes import notes_of
from rejoinder.views.transcript import reasons_of
from rejoinder.words.inert import visible
from rejoinder.words.numbers import count

COMMENT_LIMIT = 65_536
"""Characters of a comment. A character has at least one byte, so a text of as many bytes fits."""
MOST_ANNOTATIONS = 10
"""GitHub shows this number of each kind for a step."""


def write_step_summary(run: Run, path: Path, since: SinceBaseline | None = None) -> None:
    """Append the run to the file that `GITHUB_STEP_SUMMARY` names, as far as there is room in it. Raises OSError."""
    with path.open("a", encoding="utf-8", newline="\n") as stream:
        stream.writelines(write_within(run, SUMMARY_LIMIT - path.stat().st_size, since))


def write_annotations(run: Run, most: int = MOST_ANNOTATIONS, folder: str = "") -> Iterator[str]:
    """Lines for standard output, one for each case that did not pass or was not measured; those in quarantine are
    counted. `folder`: where the project lies in the repository."""
    shown = left_out = apart = 0
    for test in tried_cases(run):
        apart += test.status == "apart" and test.passed < test.finished
        if test.status not in ("failed", "error", "spoilt"):
            continue
        if shown == most:
            left_out += 1
            continue
        shown += 1
        yield _annotation(test, name_of(test.first, run), folder)
    if left_out:
        yield _command(
            "notice", f"{left_out:,} more cases did not pass; the job's summary lists them", title="rejoinder"
        )
    if apart:
        yield _command(
            "notice", f"{count(apart, 'case')} in quarantine did not pass, which decides nothing", title="rejoinder"
        )


def write_warnings(run: Run) -> Iterator[str]:
    """A warning for targets that were replayed: their result is of the day of the recording."""
    for note in notes_of(run.run, run.summary):
        if note.kind == "replayed":
            yield _command("warning", note.text, title="rejoinder")


def _annotation(test: Tried, name: str, folder: str) -> str:
    result = test.deciding
    reasons = test.apart or "\n".join(reasons_of(result)) or f"ended as {result.status}"
    place: dict[str, str] = {}
    if result.file:
        place["file"] = str(PurePosixPath(folder, result.file))
        place |= {"line": str(result.line)} if result.line else {}
    ended = {"failed": "failed", "spoilt": "was not measured"}.get(test.status, "has an error")
    return _command("error", reasons, **place, title=f"{name} {ended}")


def _command(kind: str, message: str, **properties: str) -> str:
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{kind} {given}::{_data(message)}"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def outputs(run: Run) -> str:
    """Lines for the file that `GITHUB_OUTPUT` names."""
    summary = run.summary
    rate = "" if summary.pass_rate is None else f"{summary.pass_rate:.6g}"
    cases = summary.by_case
    named = {
        "total": summary.total,
        "passed": summary.passed,
        "failed": summary.failed,
        "errors": summary.errors,
        "cases": cases.total,
        "cases_passed": cases.passed,
        "cases_failed": cases.failed,
        "cases_with_errors": cases.errors,
        "pass_rate": rate,
        "exit_code": summary.exit_code,
        "run": _name(run.run.id),
    }
    return "".join(f"{key}={value}\n" for key, value in named.items())


def gate_words(found: GateResult) -> str:
    """`gate: FAIL` and why."""
    reasons = "; ".join(reason_words(rule) for rule in found.rules if rule.verdict == found.verdict)
    return f"gate: {word_of(found.verdict)}{f' ({reasons})' if reasons else ''}"


def sticky_text(run: Run, key: str = "results", since: SinceBaseline | None = None) -> str:
    """The text of a comment on a pull request. Its first line, which is not shown, tells it from all others."""
    head = f"{sticky_mark(key)}\n"
    return head + "".join(write_within(run, COMMENT_LIMIT - len(head.encode()), since))


def sticky_mark(key: str = "results") -> str:
    """The first line of the comment to be replaced."""
    return f"<!-- rejoinder-report:{_name(key)} -->"


def _name(text: str) -> str:
    return re.sub("[^A-Za-z0-9_.]+", "-", text)[:100].strip("-")


def defused(line: str) -> str:
    """A line of text of others that no build server takes for a command: GitHub obeys `::` at the beginning, and
    several obey `##name[` anywhere."""
    line = _MARKED.sub(r"## \1[", line)
    return line.replace("::", ": :", 1) if line.lstrip().startswith("::") else line


_MARKED = re.compile(r"##(\w*)\[")
