"""System prompts of cases on services whose requests have no place for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rejoinder.model import Case, Problem, Suite, Target, for_target
from rejoinder.placeholders import CARRY_SYSTEM
from rejoinder.suite.document_paths import write_path
from rejoinder.suite.targets import TargetEntry, Targets
from rejoinder.validation.lost_conversations import placeholders_sent
from rejoinder.validation.roles import with_variant


def find_lost_system_prompts(suite: Suite, targets: Targets | None, asked: Collection[str]) -> Iterator[Problem]:
    """One warning for each such target, with the first case whose system prompt it would not get. `asked`: the targets
    of the command, on which every case runs."""
    entries = targets.entries if targets is not None else {}
    services = {name: entry for name, entry in entries.items() if entry.target.provider == "http"}
    for case in suite.cases if services else ():
        for name in asked or case.targets:
            if name in services and _loses(suite, case, services[name].target):
                yield _warning(services.pop(name), case)
        if not services:
            return


def loses_system_prompt(target: Target, *, is_in_question: bool = False) -> bool:
    """Whether a service has no place for a system prompt. `is_in_question`: it is one of the messages of its case, so
    that a transcript has it, too."""
    names = placeholders_sent(target, "open")
    carriers = CARRY_SYSTEM | {"question"} if is_in_question else CARRY_SYSTEM
    return names is not None and names.isdisjoint(carriers)


def _loses(suite: Suite, case: Case, target: Target) -> bool:
    """Whether the system prompt that an author wrote for a case is not sent."""
    is_own = bool(for_target(case, target).system_prompt.strip())
    if not is_own and all(message.role != "system" for message in case.messages):
        return False
    return loses_system_prompt(with_variant(suite, target, case.variant), is_in_question=not is_own)


def _warning(entry: TargetEntry, case: Case) -> Problem:
    key = next((key for key in ("body", "url") if key in entry.written()), "provider")
    message = (
        f"target `{entry.target.name}` does not get the system prompt of case `{case.id}`: no request has a place for"
        ' it. If the target should get it, send it: `system: "{{ system }}"` in the body, or all messages with'
        ' `"{{ messages }}"`; else remove the system prompt'
    )
    return entry.source.problem("lost-system-prompt", write_path((*entry.path, key)), message, severity="warning")
