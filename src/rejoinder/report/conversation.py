"""A conversation on a terminal, turn by turn: what was said, what was checked, how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rejoinder.report.money import describe_spending
from rejoinder.report.signs import UNICODE, Signs

MOST_LINES, FIRST_LINES, LAST_LINES = 12, 6, 2
"""A text of more lines is shown by its first and last ones."""
LONGEST_LINE, LINE_START, LINE_END = 1000, 500, 100
"""In characters."""


def write_conversation(
    number: int, result: dict[str, Any], *, label: str = "", signs: Signs = UNICODE, whole: bool = True
) -> Iterator[str]:
    """The block of one result. `label` tells trials and targets apart where there are several; without `whole` long
    texts are shortened."""
    lines = _block(number, result, label, signs, whole)
    return lines if whole else map(shorten_line, lines)


def shorten_line(line: str) -> str:
    """The beginning and the end of a long line, with a note of what is left out."""
    if len(line) <= LONGEST_LINE:
        return line
    left_out = len(line) - LINE_START - LINE_END
    return f"{line[:LINE_START]} [... {left_out:,} characters; --verbose shows all ...] {line[-LINE_END:]}"


def _block(number: int, result: dict[str, Any], label: str, signs: Signs, whole: bool) -> Iterator[str]:
    written = f" [{result['id']}]" if result.get("id_written") else ""
    yield f"Eval {number}{label}: {result.get('title', result['id'])}{written}"
    for turn in result["turns"]:
        yield f"  Turn {turn['turn']}:"
        yield from _said("Prompt", turn["prompt"], whole)
        if turn["response"] is not None:
            yield from _said("Response", turn["response"], whole)
        for check in turn["checks"]:
            yield from _check(check, "    ", signs)
    yield f"  Overall: {_overall(result, signs)}"
    for turn in result["turns"]:
        for check in _scored(turn["checks"]):
            when = f"Turn {turn['turn']} scored" if len(result["turns"]) > 1 else "Scored"
            yield f"  {when} {_one_line(check.get('name') or describe_check(check))}: {_score(check)}"
    if any("model" in turn for turn in result["turns"]):  # what a script would use says nothing
        for turn in result["turns"] if len(result["turns"]) > 1 else ():
            yield f"  Turn {turn['turn']} used {describe_spending(turn)}"
        yield f"  Used: {describe_spending(result)}"


def write_reasons(number: int, result: dict[str, Any], label: str = "") -> Iterator[str]:
    """Why a conversation did not pass, with the id to call it by; the blocks above say what happened."""
    if result["status"] == "error":
        first, *rest = _paragraphs(result["error"])
        yield f"  Eval {number}, {result['id']}{label}: {first}"
        yield from (f"    {line}" for line in rest)
        checks = result["turns"][-1]["checks"] if result["turns"] and result["error"]["type"] == "check" else []
        for check in [one for one in checks if one.get("error")][1:]:
            title = check.get("name") or describe_check(check)
            yield f"  Eval {number}, {result['id']}{label}: {_one_line(title)}: {_one_line(check['reason'])}"
    if result["status"] != "failed":
        return
    for check in result["turns"][-1]["checks"]:
        if not check["passed"]:
            title = check.get("name") or describe_check(check)
            yield f"  Eval {number}, {result['id']}{label}: {_one_line(title)}: {_one_line(check['reason'])}"


def _scored(checks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Checks whose score is more than yes or no; a judge speaks for what is inside it."""
    for check in checks:
        if "threshold" in check and check["score"] is not None:
            yield check
        elif "children" in check:
            yield from _scored(check["children"])


def _score(check: dict[str, Any]) -> str:
    text = f"{check['score']:.3g}, and {check['threshold']:.3g} is needed"
    if "votes" in check:
        text += f" (votes {', '.join(f'{vote:.3g}' for vote in check['votes'])})"
    return f"{text}; judged by {check['judge']}" if "judge" in check else text


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _said(who: str, text: str, whole: bool) -> Iterator[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if not whole and len(lines) > MOST_LINES:
        left_out = len(lines) - FIRST_LINES - LAST_LINES
        note = f"[... {left_out:,} lines; --verbose shows all ...]"
        lines = [*lines[:FIRST_LINES], note, *lines[-LAST_LINES:]]
    first, *rest = lines
    yield f"    {who}: {first}"
    for line in rest:
        yield f"      {line}"


def _check(check: dict[str, Any], indent: str, signs: Signs) -> Iterator[str]:
    sign = signs.error if check.get("error") else signs.passed if check["passed"] else signs.failed
    # Where the kind is all that is shown of a check, its name tells several of them apart.
    name = f" ({check['name']})" if check.get("name") and " " not in check["check"] else ""
    title = (describe_check(check) + name).replace("\r\n", " ").replace("\n", " ")
    yield f"{indent}{sign} {title}"
    for child in check.get("children", ()):
        yield from _check(child, f"{indent}  ", signs)


def describe_check(check: dict[str, Any]) -> str:
    """`match *72*` as `match "*72*"`: texts in quotes, numbers and truth values without."""
    label: str = check["check"]
    start = f"{check.get('kind', label.partition(' ')[0])} "
    return label if "value" in check or not label.startswith(start) else f'{start}"{label.removeprefix(start)}"'


def _overall(result: dict[str, Any], signs: Signs) -> str:
    turns = len(result["turns"])
    if result["status"] == "passed":
        return f"{signs.passed} (succeeded on turn {result['succeeded_on_turn']})"
    if result["status"] == "failed":
        return f"{signs.failed} (after {turns} turn{'' if turns == 1 else 's'})"
    if result["status"] == "skipped":
        return signs.skipped
    error = result["error"]
    return f"{signs.error} (on turn {error['turn']}: {_paragraphs(error)[0]})"


def _paragraphs(error: dict[str, Any]) -> list[str]:
    """What went wrong, in one line, but for a difference, which says nothing without its lines."""
    first, start, difference = error["message"].partition("\n--- recorded\n")
    return [_one_line(first), *(["--- recorded", *difference.split("\n")] if start else ())]
