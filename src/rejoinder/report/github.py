"""What GitHub shows of a run: the job's summary, annotations at lines of YAML, a comment that is kept up to date.

All of it is text that a workflow hands over; nothing is sent from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from rejoinder.report.inert import visible
from rejoinder.report.markdown import SUMMARY_LIMIT, write_within
from rejoinder.report.runs import Run, Tried, name_of, tried_cases
from rejoinder.report.transcript import reasons_of

COMMENT_LIMIT = 65_536
"""Characters of a comment. A character has at least one byte, so a text of as many bytes fits."""
MOST_ANNOTATIONS = 10
"""GitHub shows this number of each kind for a step."""


def write_step_summary(run: Run, path: Path) -> None:
    """Append the run to the file that `GITHUB_STEP_SUMMARY` names, as far as there is room in it. Raises OSError."""
    with path.open("a", encoding="utf-8", newline="\n") as stream:
        stream.writelines(write_within(run, SUMMARY_LIMIT - path.stat().st_size))


def write_annotations(run: Run, most: int = MOST_ANNOTATIONS, folder: str = "") -> Iterator[str]:
    """Lines for standard output, one for each case that did not pass. `folder`: where the project lies in the
    repository."""
    shown = left_out = 0
    for test in tried_cases(run.results):
        if test.status not in ("failed", "error"):
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


def _annotation(test: Tried, name: str, folder: str) -> str:
    result = test.deciding
    reasons = "\n".join(reasons_of(result)) or f"ended as {result.status}"
    place: dict[str, str] = {}
    if result.file:
        place["file"] = str(PurePosixPath(folder, result.file))
        place |= {"line": str(result.line)} if result.line else {}
    return _command(
        "error", reasons, **place, title=f"{name} {'failed' if test.status == 'failed' else 'has an error'}"
    )


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
    figures = {"total": summary.total, "passed": summary.passed, "failed": summary.failed, "errors": summary.errors}
    named = {**figures, "pass_rate": rate, "exit_code": summary.exit_code, "run": _name(run.run.id)}
    return "".join(f"{key}={value}\n" for key, value in named.items())


def sticky_text(run: Run, key: str = "results") -> str:
    """The text of a comment on a pull request. Its first line, which is not shown, tells it from all others."""
    mark = f"{sticky_mark(key)}\n"
    return mark + "".join(write_within(run, COMMENT_LIMIT - len(mark)))


def sticky_mark(key: str = "results") -> str:
    """The first line of the comment to be replaced."""
    return f"<!-- rejoinder-report:{_name(key)} -->"


def _name(text: str) -> str:
    return re.sub("[^A-Za-z0-9_.]+", "-", text)[:100].strip("-")


def commands_off(token: str) -> tuple[str, str]:
    """Lines to print before and after text of others: what begins like a command is not obeyed between them. The
    token has to be a random one, or the text could end it."""
    return f"::stop-commands::{token}", f"::{token}::"
