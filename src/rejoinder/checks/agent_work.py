"""How much work an answer took, and which skills an agent used for it: `effort` and `skill_used`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from rejoinder.checks.base import Context, error_verdict, scored_verdict, verdict
from rejoinder.checks.registry import grades
from rejoinder.model import Effort, SkillUsed, ToolCall, Verdict
from rejoinder.words.numbers import count, listed, plural, shortened

LONGEST_NAME = 60
MOST_NAMED = 6
"""Maximum skills that are named in a reason."""
_SKILL_TOOLS = frozenset({"skill", "use_skill", "activate_skill", "load_skill"})
"""Names of tools by which agents load a skill, without upper case."""
_SKILL_KEYS = ("skill", "skill_name", "skillName", "name", "command")
"""Their arguments that name it."""
_IN_TITLE = re.compile(r"(?:using|use|activate|load|loading)? ?skill[: ]+[`\"']?([\w:.-]+)", re.IGNORECASE)
_SKILL_FILE = re.compile(r"([\w.-]+)[/\\]+SKILL\.md\b")
"""The file that an agent without such a tool reads."""


@grades(Effort)
def grade_effort(check: Effort, context: Context) -> Verdict:
    """Grade the whole conversation up to this reply."""
    replies = context.port.heard()
    usage = [reply.usage for reply in replies]
    spent = {
        "tool_calls": sum(len(reply.tool_calls) for reply in replies),
        "turns": len(replies),
        "tokens": sum(one.input_tokens + one.output_tokens for one in usage),
    }
    if (check.max_tokens is not None or check.min_tokens is not None) and not spent["tokens"]:
        return error_verdict(check, None, "the tokens of the conversation are not known")
    words = {"tool_calls": "tool call", "turns": "turn", "tokens": "token"}
    broken: list[str] = []
    for name, number in spent.items():
        least, most = getattr(check, f"min_{name}"), getattr(check, f"max_{name}")
        if least is not None and number < least:
            broken.append(f"{count(number, words[name])}, and at least {least:,} are needed")
        if most is not None and number > most:
            broken.append(f"{count(number, words[name])}, and at most {most:,} are allowed")
    named = [name for name in spent if (getattr(check, f"min_{name}"), getattr(check, f"max_{name}")) != (None, None)]
    kept = ", ".join(count(spent[name], words[name]) for name in named)
    return verdict(check, None, not broken, "; ".join(broken) or kept)


@grades(SkillUsed)
def grade_skill_used(check: SkillUsed, context: Context) -> Verdict:
    used = list(dict.fromkeys(name for call in context.reply.tool_calls for name in _skills_of(call)))
    missing = [name for name in check.names if not any(_is_skill(one, name) for one in used)]
    shown = ", ".join(shortened(name, LONGEST_NAME) for name in used[:MOST_NAMED])
    told = f"the reply uses {shown}" if used else "the reply uses no skill"
    reason = f"{listed(missing)} {plural(len(missing), 'was', 'were')} not used; {told}" if missing else told
    value = ", ".join(check.names)
    score = 1 - len(missing) / len(check.names)
    return scored_verdict(check, value, not missing, reason, score=score)


def _is_skill(used: str, name: str) -> bool:
    """Whether a skill has this name. A skill of a plugin may have the plugin's name before it."""
    return used == name or used.rpartition(":")[2] == name


def _skills_of(call: ToolCall) -> Iterator[str]:
    """The skills that a call loads: by a tool for them, or as a file. A call that failed loads none."""
    if call.status in ("failed", "denied"):
        return
    arguments = _decoded(call.arguments)
    if call.name.casefold() in _SKILL_TOOLS and isinstance(arguments, dict):
        named = (arguments.get(key) for key in _SKILL_KEYS)
        yield from (name.strip().lstrip("/") for name in named if isinstance(name, str) and name.strip())
    elif (title := _IN_TITLE.fullmatch(call.name.strip())) is not None:
        yield title[1]
    for text in _texts_in(arguments):
        yield from (found[1] for found in _SKILL_FILE.finditer(text))


def _decoded(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments


def _texts_in(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
