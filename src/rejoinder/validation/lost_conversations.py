"""Cases of several turns on services that would hear every turn as a new conversation."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rejoinder.model import Case, Problem, Suite, Target, follow_ups_of, levels_of
from rejoinder.placeholders import CARRY_CONVERSATION
from rejoinder.providers.settings import normalize_keys
from rejoinder.suite.document_paths import write_path
from rejoinder.suite.services import placeholders_of
from rejoinder.suite.target_rules import SENT
from rejoinder.suite.targets import TargetEntry, Targets


def find_lost_conversations(suite: Suite, targets: Targets | None, asked: Collection[str]) -> Iterator[Problem]:
    """One warning for each such service, with the first case that it would break. `asked`: the targets of the command,
    on which every case runs."""
    entries = targets.entries if targets is not None else {}
    losing = {name: entry for name, entry in entries.items() if _loses(entry.target)}
    if not losing:
        return
    for case in suite.cases:
        for name in asked or case.targets:
            if name in losing and _has_several_turns(case):
                yield _warning(losing.pop(name), case)
        if not losing:
            return


def _loses(target: Target) -> bool:
    """Whether a service's requests contain neither earlier messages nor the conversation's id."""
    names = placeholders_sent(target)
    return names is not None and names.isdisjoint(CARRY_CONVERSATION)


def placeholders_sent(target: Target, *more: str) -> set[str] | None:
    """The placeholders in a service's requests, and in `more` settings; None if it is not a service, or its file
    does not show them."""
    return placeholders_of(normalize_keys(target.settings), (*SENT, *more)) if target.provider == "http" else None


def _has_several_turns(case: Case) -> bool:
    planned = case.plan is not None and len(case.plan.steps) > 1
    return planned or case.user is not None or any(any(follow_ups_of(level)) for level in levels_of(case))


def _warning(entry: TargetEntry, case: Case) -> Problem:
    key = next((key for key in ("body", "url") if key in entry.written()), "provider")
    message = (
        f"target `{entry.target.name}` loses the conversation: case `{case.id}` has several turns, and no request says"
        " what was said before, so a follow-up reaches the service as a new conversation. If your client keeps the"
        ' history, send it: `body: { messages: "{{ messages }}" }`. If your service keeps the conversation, add'
        " `history: theirs` and `session: { json_path: session_id }`, and send"
        ' `session_id: "{{ session }}"` in the body, or an id of ours, `"{{ conversation_id }}"`'
    )
    return entry.source.problem("lost-conversation", write_path((*entry.path, key)), message, severity="warning")
