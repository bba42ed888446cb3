"""What GitHub shows of a run: the job's summary, annotations at lines of YAML, a comment that is kept up to date.

All of it is text that a workflow hands over; nothing is sent from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from msgspec import Struct

from rejoinder.model import CaseChanges
from rejoinder.model.figures import GateResult, RuleResult
from rejoinder.report.gate import alarm_words, word_of
from rejoinder.report.inert import visible
from rejoinder.report.markdown import SUMMARY_LIMIT, code, write_within
from rejoinder.report.runs import Run, Tried, name_of, tried_cases
from rejoinder.report.transcript import reasons_of
from rejoinder.report.words import count

COMMENT_LIMIT = 65_536
"""Characters of a comment. A character has at least one byte, so a text of as many bytes fits."""
MOST_ANNOTATIONS = 10
"""GitHub shows this number of each kind for a step."""
MOST_RULES = 50


class Against(Struct, frozen=True):
    """How a run stands against a baseline."""

    name: str
    changes: CaseChanges
    gate: GateResult


def write_step_summary(run: Run, path: Path, against: Against | None = None) -> None:
    """Append the run to the file that `GITHUB_STEP_SUMMARY` names, as far as there is room in it. Raises OSError."""
    head = _against(against)
    with path.open("a", encoding="utf-8", newline="\n") as stream:
        room = SUMMARY_LIMIT - path.stat().st_size - len(head.encode())
        if room > 0:
            stream.write(head)
        stream.writelines(write_within(run, room))


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
    figures = {"total": summary.total, "passed": summary.passed, "failed": summary.failed, "errors": summary.errors}
    named = {**figures, "pass_rate": rate, "exit_code": summary.exit_code, "run": _name(run.run.id)}
    return "".join(f"{key}={value}\n" for key, value in named.items())


def compared(found: CaseChanges) -> str:
    """A line such as `2 worse, 31 same, 1 cannot tell`."""
    always = {"worse": found.worse, "better": found.better, "same": found.same, "cannot tell": found.cannot_tell}
    numbers = {**always, "new": found.new, "missing": found.missing}
    return ", ".join(
        f"{number:,} {word}" for word, number in numbers.items() if number or word in ("worse", "same", "cannot tell")
    )


def gate_words(found: GateResult) -> str:
    """`gate: FAIL` and why."""
    reasons = "; ".join(_reason(rule) for rule in found.rules if rule.verdict == found.verdict)
    return f"gate: {word_of(found.verdict)}{f' ({reasons})' if reasons else ''}"


def _against(found: Against | None) -> str:
    if found is None:
        return ""
    rules = "".join(_rule(rule) for rule in found.gate.rules[:MOST_RULES])
    return (
        f"**{compared(found.changes)}** against {code(found.name)}; gate: **{word_of(found.gate.verdict)}**\n\n"
        f"{rules}\n{_alarms(found.gate)}A case that changed once may be chance. `no-regression` looks at all cases"
        " together, `no-new-failures` at each case and its further trials.\n\n"
    )


def _alarms(found: GateResult) -> str:
    return f"{alarm_words(found)} " if found.false_alarms else ""


def _rule(rule: RuleResult) -> str:
    reason = f": {code(_reason(rule))}" if rule.reason else ""
    return f"- {code(rule.rule)} {word_of(rule.verdict)}{reason}\n"


def _reason(rule: RuleResult) -> str:
    """The verdict stands before it already."""
    return rule.reason.removeprefix("cannot tell: ")


def sticky_text(run: Run, key: str = "results", against: Against | None = None) -> str:
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
