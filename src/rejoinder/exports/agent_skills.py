"""The cases of a suite as evals of Agent Skills, `evals/evals.json`.

An eval is one prompt and what a good reply does, in words for a judge. So plain checks become sentences, and whatever
belongs to a conversation is left out; each such loss is returned beside the document.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.model import Case, Suite
from rejoinder.model import checks as kinds
from rejoinder.model.messages import FilePart, TextPart, trim

_FOLDER = "evals"
"""The folder of the file; paths are written relative to the one above."""
_SENTENCES: dict[type[kinds.Check], Callable[[Any], str]] = {
    kinds.Contains: lambda check: f'The reply contains "{check.text}"',
    kinds.IContains: lambda check: f'The reply contains "{check.text}", in any letter case',
    kinds.ContainsAny: lambda check: f"The reply contains one of these: {_quoted(check.texts)}",
    kinds.IContainsAny: lambda check: f"The reply contains one of these, in any letter case: {_quoted(check.texts)}",
    kinds.ContainsAll: lambda check: f"The reply contains all of these: {_quoted(check.texts)}",
    kinds.IContainsAll: lambda check: f"The reply contains all of these, in any letter case: {_quoted(check.texts)}",
    kinds.Match: lambda check: f'The reply matches the pattern "{check.pattern}", where * stands for any text',
    kinds.NotMatch: lambda check: f'The reply does not match the pattern "{check.pattern}", where * is any text',
    kinds.StartsWith: lambda check: f'The reply starts with "{check.text}"',
    kinds.EndsWith: lambda check: f'The reply ends with "{check.text}"',
    kinds.Equals: lambda check: f'The reply is "{check.text}" and nothing else',
    kinds.Regex: lambda check: f"The reply matches the regular expression {check.pattern}",
    kinds.MinWords: lambda check: f"The reply has at least {check.limit} words",
    kinds.MaxWords: lambda check: f"The reply has at most {check.limit} words",
    kinds.FileExists: lambda check: f"These files exist: {_quoted(check.paths)}",
}


class SkillEvals(Struct, frozen=True):
    """The document, and what it lacks."""

    document: dict[str, Any]
    losses: tuple[str, ...]


def skill_evals(suite: Suite) -> SkillEvals:
    """The cases of a suite; of several variants, the cases of the first."""
    losses: list[str] = []
    evals: list[dict[str, Any]] = []
    folder = Path(suite.folder or Path(suite.path).parent)
    base = folder.parent if folder.name == _FOLDER else folder
    first = suite.variants[0].name if suite.variants else ""
    for case in suite.cases:
        if case.variant in ("", first):
            found = _eval(case, base, losses)
            evals += [] if found is None else [found]
    if first:
        losses.append(f"variants: only the cases of `{first}` are written")
    name = suite.name or _skill_name(suite) or folder.name
    return SkillEvals({"skill_name": name, "evals": evals}, tuple(dict.fromkeys(losses)))


def _skill_name(suite: Suite) -> str | None:
    """The name of the only skill that targets have."""
    skills = [path for target in suite.targets.values() for path in target.settings.get("skills") or ()]
    names = {Path(path).name for path in skills if isinstance(path, str)}
    return names.pop() if len(names) == 1 else None


def _eval(case: Case, base: Path, losses: list[str]) -> dict[str, Any] | None:
    users = [message for message in case.messages if message.role == "user"]
    prompt = "\n\n".join(trim(part.text) for part in users[-1].parts if isinstance(part, TextPart)) if users else ""
    if not prompt.strip():
        losses.append(f"{case.id}: it has no message of a user, and makes no eval")
        return None
    losses += [f"{case.id}: {what}" for what, is_there in _conversation(case) if is_there]
    found: dict[str, Any] = {"id": int(case.id) if case.id.isdecimal() and len(case.id) < 10 else case.id}
    if case.name:
        found["name"] = case.name
    found["prompt"] = prompt
    if expected := case.outcome or _reference(case):
        found["expected_output"] = expected
    files = [part for message in case.messages for part in message.parts if isinstance(part, FilePart)]
    found["files"] = [_path(part, base) for part in files]
    used = [wanted for item in case.level.items if (wanted := _trigger(item.check)) is not None]
    if used:
        found["should_trigger"] = used[0]
    found["assertions"] = [sentence for item in case.level.items for sentence in _sentences(item, case.id, losses)]
    return found | ({"tags": list(case.tags)} if case.tags else {})


def _conversation(case: Case) -> Iterator[tuple[str, bool]]:
    """Parts of a case that a single prompt cannot have."""
    yield "earlier messages are left out", len(case.messages) > 1
    yield "the system prompt is left out", bool(case.system_prompt)
    yield "turns after the first are left out", case.plan is not None
    yield "the simulated user is left out", case.user is not None
    yield "conversation checks are left out", bool(case.conversation_checks)
    yield "tools are left out", bool(case.all_tools)
    yield "follow-ups are left out", any(item.follow_up is not None for item in case.level.items)


def _reference(case: Case) -> str:
    """The last good answer of an assistant, as text."""
    answers = [message for message in case.expected_messages if message.role == "assistant"]
    return "\n\n".join(part.text for part in answers[-1].parts if isinstance(part, TextPart)) if answers else ""


def _path(part: FilePart, base: Path) -> str:
    return part.path if part.resolved is None else os.path.relpath(part.resolved, base).replace(os.sep, "/")


def _sentences(item: kinds.Item, case: str, losses: list[str]) -> Iterator[Any]:
    check = item.check
    match check:
        case None:
            return
        case kinds.Rubric():
            for number, one in enumerate(check.criteria, 1):
                yield one.text if one.id == str(number) else {"id": one.id, "text": one.text}
        case kinds.LlmJudge() if check.criteria:
            yield check.criteria
        case kinds.SkillUsed() | kinds.Not(check=kinds.SkillUsed()):
            return
        case kinds.LlmJudge() if check.prompt is None:
            return  # its question is whether the expected output was reached, which every judge of evals asks
        case kinds.MinWords() if not check.limit:
            return  # the condition of a case that has none
        case _:
            sentence = _sentence(check)
            if sentence is None:
                losses.append(f"{case}: the check `{check.__struct_config__.tag}` is left out")
            else:
                yield sentence


def _trigger(check: kinds.Check | None) -> bool | None:
    """Whether the agent must use the skill; None if nothing says so."""
    is_not = isinstance(check, kinds.Not)
    inner = check.check if isinstance(check, kinds.Not) else check
    return (not is_not) if isinstance(inner, kinds.SkillUsed) else None


def _sentence(check: kinds.Check) -> str | None:
    if isinstance(check, kinds.Not):
        inner = _sentence(check.check)
        return None if inner is None else f"This is not true: {inner}"
    write = _SENTENCES.get(type(check))
    has_count = isinstance(check, kinds.Counted) and check.count is not None
    return None if write is None or has_count else write(check)


def _quoted(texts: tuple[str, ...]) -> str:
    return ", ".join(f'"{text}"' for text in texts)
