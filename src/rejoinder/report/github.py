"""What GitHub shows of a run: the job's summary, annotations at lines of YAML, a comment that is kept up to date.

All of it is text that a workflow hands over; nothing is sent from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from rejoinder.report.inert import visible
from rejoinder.report.markdown import SUMMARY_LIMIT, code, write_within
from rejoinder.report.runs import Run, Tried, name_of, tried_cases
from rejoinder.report.transcript import reasons_of

COMMENT_LIMIT = 65_536
"""Characters of a comment. A character has at least one byte, so a text of as many bytes fits."""
MOST_ANNOTATIONS = 10
"""GitHub shows this number of each kind for a step."""
MOST_RULES = 50


class Rule(Struct, frozen=True):
    rule: str
    verdict: str = ""
    reason: str = ""


class Gate(Struct, frozen=True):
    """What `rejoinder gate --format json` says."""

    verdict: str
    rules: tuple[Rule, ...] = ()


class Flip(Struct, frozen=True, rename={"before": "from", "now": "to"}):
    """A case that ended otherwise than before."""

    before: str
    now: str


class Comparison(Struct, frozen=True):
    """What `rejoinder compare --format json` says."""

    matched: int | tuple[Any, ...]
    flips: tuple[Flip, ...] = ()
    only_in_a: int | tuple[Any, ...] = 0
    only_in_b: int | tuple[Any, ...] = 0


class Against(Struct, frozen=True):
    """How a run stands against its baseline, as far as it is known."""

    gate: Gate | None = None
    comparison: Comparison | None = None


_UNKNOWN = Against()


def write_step_summary(run: Run, path: Path, against: Against = _UNKNOWN) -> None:
    """Append the run to the file that `GITHUB_STEP_SUMMARY` names, as far as there is room in it. Raises OSError."""
    head = _against(against)
    with path.open("a", encoding="utf-8", newline="\n") as stream:
        room = SUMMARY_LIMIT - path.stat().st_size - len(head.encode())
        if room > 0:
            stream.write(head)
        stream.writelines(write_within(run, room))


def write_annotations(run: Run, most: int = MOST_ANNOTATIONS, folder: str = "") -> Iterator[str]:
    """Lines for standard output, one for each case that did not pass. `folder`: where the project lies in the
    repository."""
    shown = left_out = 0
    for test in tried_cases(run):
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


def compared(found: Comparison) -> str:
    """A line such as `2 worse, 31 same, 1 cannot tell`."""
    known = [flip for flip in found.flips if {flip.before, flip.now} <= _DECIDED]
    worse = sum(flip.now not in _PASSED for flip in known)
    numbers = {
        "worse": worse,
        "better": len(known) - worse,
        "same": max(0, _number(found.matched) - len(found.flips)),
        "cannot tell": len(found.flips) - len(known),
        "new": _number(found.only_in_b),
        "gone": _number(found.only_in_a),
    }
    return ", ".join(f"{number:,} {word}" for word, number in numbers.items() if number or word in ("worse", "same"))


_PASSED = frozenset(("passed", "recovered"))
_DECIDED = _PASSED | {"failed"}
"""An error or a skipped case says nothing about the model."""


def _number(found: int | tuple[Any, ...]) -> int:
    return found if isinstance(found, int) else len(found)


def _against(found: Against) -> str:
    text = "" if found.comparison is None else f"**{compared(found.comparison)}** against the baseline\n\n"
    if found.gate is None:
        return text
    rules = "".join(_rule(rule) for rule in found.gate.rules[:MOST_RULES])
    return f"{text}gate: {code(found.gate.verdict)}\n\n{rules}\n"


def _rule(rule: Rule) -> str:
    reason = f": {code(rule.reason)}" if rule.reason else ""
    return f"- {code(rule.rule)} {code(rule.verdict)}{reason}\n"


def sticky_text(run: Run, key: str = "results", against: Against = _UNKNOWN) -> str:
    """The text of a comment on a pull request. Its first line, which is not shown, tells it from all others."""
    head = f"{sticky_mark(key)}\n{_against(against)}"
    return head + "".join(write_within(run, COMMENT_LIMIT - len(head.encode())))


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


def commands_off(token: str) -> tuple[str, str]:
    """Lines to print before and after text of others: what begins like a command is not obeyed between them. The
    token has to be a random one, or the text could end it."""
    return f"::stop-commands::{token}", f"::{token}::"
