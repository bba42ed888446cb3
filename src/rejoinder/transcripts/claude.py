"""Sessions of Claude Code: lines that name the line before them, so that one file may hold several branches.

The branch of the last message is read. One message of the model may span several lines, which have its id in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rejoinder.errors import UsageError
from rejoinder.json_values import at, list_at, money_at, text_at
from rejoinder.transcripts.anthropic import reply_of, words_of
from rejoinder.transcripts.draft import Draft, blocks, when
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "claude"
MOST_IN_BRANCHES = 200_000
"""Maximum lines of all sessions of a file. Many sessions may continue one, and each is read with everything
before it."""
_SPOKEN = ("user", "assistant")
_ASIDE = frozenset(
    {
        *("agent-name", "agent-setting", "ai-title", "api-request", "api-request-blob", "api-request-shape"),
        *("atis-latch", "attachment", "cost-state", "custom-title", "file-history-snapshot", "last-prompt", "mode"),
        *("permission-mode", "progress", "queue-operation", "summary", "system", "tag", "tools-used"),
    }
)
"""Known lines that are not messages."""
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}


def looks_like(document: Document) -> bool:
    return document.lines and any(
        text_at(value, "type") in _SPOKEN and text_at(value, "uuid") and isinstance(at(value, "message"), dict)
        for value in document.values
    )


def read(document: Document) -> Iterator[Transcript]:
    lines = document.values
    by_id = {id: line for line in lines if (id := text_at(line, "uuid"))}
    places = {text_at(line, "uuid"): place for place, line in enumerate(lines)}
    sessions: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        sessions.setdefault(text_at(line, "sessionId"), []).append(place)
    common = sessions.pop("", [])
    """Lines that name no session, such as titles, count for the last one."""
    seen: set[str] = set()
    found: list[Transcript] = []
    size = 0
    for leaf in reversed(_leaves(lines)):
        if leaf in seen:
            continue  # an earlier session, which a later one continues
        chain = _chain(leaf, by_id)
        size += len(chain)
        if size > MOST_IN_BRANCHES:
            raise UsageError(
                f"{document.name} has sessions of more than {MOST_IN_BRANCHES:,} lines in all",
                "Cut it into parts.",
            )
        own = {*sessions.get(text_at(by_id[leaf], "sessionId"), []), *(places[id] for id in chain), *common}
        found.append(_conversation(document, [lines[place] for place in sorted(own)], by_id, chain, leaf))
        seen |= chain
        common = []
    return iter(found[::-1])


def _is_spoken(line: Any) -> bool:
    return text_at(line, "type") in _SPOKEN and at(line, "isSidechain") is not True and bool(text_at(line, "uuid"))


def _leaves(lines: Iterable[Any]) -> list[str]:
    """The last message of each session."""
    last = {text_at(line, "sessionId"): text_at(line, "uuid") for line in lines if _is_spoken(line)}
    return list(last.values())


def _chain(leaf: str, by_id: dict[str, Any]) -> set[str]:
    """The ids of a line and of all lines before it. After its history was summarised, a session starts over and names
    the session that it continues in a separate field."""
    chain: dict[str, None] = {}
    id = leaf
    while id in by_id and id not in chain:
        chain[id] = None
        id = text_at(by_id[id], "parentUuid") or text_at(by_id[id], "logicalParentUuid")
    return set(chain)


def _conversation(
    document: Document, lines: list[Any], by_id: dict[str, Any], chain: set[str], leaf: str
) -> Transcript:
    draft = Draft(NAME, document, {key: value for key, value in by_id[leaf].items() if key != "message"})
    draft.id = text_at(by_id[leaf], "sessionId")
    messages = {text_at(by_id[id], "message", "id") for id in chain} - {""}
    branched = sidechain = 0
    spent = 0.0
    """The cost of the session so far, which is reported after each turn."""
    together: list[Any] = []
    """The lines of one message of the model."""
    for line in lines:
        if not _is_spoken(line):
            sidechain += at(line, "isSidechain") is True
            _take_other(draft, line)
            if (total := money_at(line, "totalCostUSD")) is not None:
                _say(draft, together)
                together = []
                draft.change_last(cost=max(0.0, round(total - spent, 12)))
                spent = total
            continue
        # A message with several calls has a line for each, and each result names the line of its own call.
        is_in = text_at(line, "uuid") in chain or text_at(line, "message", "id") in messages
        if together and (not is_in or not _goes_on(together[-1], line)):
            _say(draft, together)
            together = []
        if text_at(line, "type") == "assistant" and is_in:
            together.append(line)
        elif not _take_user(draft, line, is_in=is_in):
            branched += 1
    _say(draft, together)
    if sidechain:
        draft.notes.append(f"{sidechain} messages of sub-agents (sidechains) are left out")
    if branched:
        draft.notes.append(
            f"{branched} messages of other branches are left out; the branch of the last message is read"
        )
    return draft.finish()


def _goes_on(before: Any, line: Any) -> bool:
    id = text_at(line, "message", "id")
    return bool(id) and id == text_at(before, "message", "id")


def _say(draft: Draft, lines: list[Any]) -> None:
    """One message from its lines. Each line repeats the usage so far, so the last one has all of it."""
    if not lines:
        return
    content = [block for line in lines for block in blocks(at(line, "message", "content"))]
    message = {**at(lines[-1], "message"), "content": content} if isinstance(at(lines[-1], "message"), dict) else {}
    said = reply_of(draft, message, when(at(lines[-1], "timestamp")))
    draft.say(said)
    if any(at(line, "isApiErrorMessage") is True for line in lines):
        draft.change_last(finish_reason="error")


def _take_user(draft: Draft, line: Any, *, is_in: bool) -> bool:
    """Take a user line. Results are added to their calls in any branch; words count only in this branch. Returns False
    for words of another branch."""
    if text_at(line, "type") == "assistant":
        return False
    for block in list_at(line, "message", "content"):
        if text_at(block, "type") == "tool_result" and text_at(line, "permissionDecision", "decision") == "reject":
            draft.mark_call(text_at(block, "tool_use_id"), "denied")
    text = words_of(draft, at(line, "message"))
    if at(line, "isMeta") is True or at(line, "isCompactSummary") is True:
        draft.pass_over("user, written by the program")
    elif is_in:
        draft.hear("user", text, when(at(line, "timestamp")))
    return is_in or not text


def _take_other(draft: Draft, line: Any) -> None:
    kind = text_at(line, "type")
    if kind in _TITLES and text_at(line, _TITLES[kind]):
        draft.title = text_at(line, _TITLES[kind])
    if kind in _ASIDE or at(line, "isSidechain") is True:
        draft.pass_over(kind)
    else:
        draft.not_understood(kind, line)
