"""Recorded conversations as answers: finds a case's conversation, and the reply at a turn of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model import ChatMessage, Reply
from rejoinder.spelling import did_you_mean
from rejoinder.transcripts.values import Transcript, Turn, joined
from rejoinder.words.numbers import beginning, count

_LONGEST_SHOWN = 300
_MOST_LISTED = 8
_MOST_KEYS_LISTED = 30


class NotRecorded(RejoinderError):
    """A recording has no answer."""


class Wanted(Struct, frozen=True):
    """A case that needs its conversation."""

    case_id: str
    conversation_id: str = ""
    """The case's own name for it, if it has one."""

    @property
    def name(self) -> str:
        return self.conversation_id or self.case_id

    def __str__(self) -> str:
        if self.conversation_id:
            return f"case `{self.case_id}`, whose conversation is `{self.conversation_id}`"
        return f"case `{self.case_id}`"


class Recordings:
    """The conversations of a target."""

    def __init__(
        self, transcripts: Sequence[Transcript], name: str, match: str | None = None, *, any_prompt: bool = False
    ) -> None:
        """`name`: the recordings' name in messages; `match`: the key of a conversation that names its case, or `prompt`
        to match by the first words; `any_prompt`: accept replies to other prompts. Raises UsageError if no conversation
        has the key."""
        self._transcripts = transcripts
        self._name = name
        self._match = match
        self._any_prompt = any_prompt
        self._by_key: dict[str, dict[str, list[Transcript]]] = {}
        """Filled when needed."""
        if match is not None and match not in _KEYS and not any(match in one.keys for one in transcripts):
            raise _no_such_key(match, name, transcripts)

    def find(self, wanted: Wanted, first: str | None = None) -> Transcript | None:
        """The conversation of a case whose first words are `first`; None if the words are needed to decide and not
        known yet. Raises NotRecorded."""
        if len(self._transcripts) == 1:
            return self._transcripts[0]
        if self._match == "prompt":
            return None if first is None else self._only(self._having("prompt", first.strip()), wanted)
        for key in [self._match] if self._match else ["id", "title"]:
            if found := self._having(key, wanted.name):
                return self._only(found, wanted)
        return self._only([], wanted)

    def any_reply(self) -> Reply:
        """Any recorded reply, without usage and cost: it shows that replies exist."""
        return Reply(next((turn.text for one in self._transcripts for turn in one.turns if turn.has_reply), ""))

    def _having(self, key: str, value: str) -> list[Transcript]:
        """The conversations with this value of a key."""
        if key not in self._by_key:
            index: dict[str, list[Transcript]] = {}
            for one in self._transcripts:
                index.setdefault(_value(one, key), []).append(one)
            self._by_key[key] = index
        return self._by_key[key].get(value, [])

    def answer(self, wanted: Wanted, turn: int, messages: Iterable[ChatMessage]) -> Reply:
        """The recorded reply at a turn of a case's conversation. Raises NotRecorded; if the prompt differs, the error
        quotes both."""
        asked = _asked(messages)
        transcript = self.find(wanted, asked[0] if asked else "")
        assert transcript is not None
        # A case may begin in the middle of the conversation, with what was said before as its first messages.
        number = max(turn, len(asked))
        turns = transcript.turns
        where = f"conversation `{transcript.id}` of {self._name}"
        if number > len(turns) or not turns[number - 1].has_reply:
            answered = sum(one.has_reply for one in turns)
            replies = count(answered, "reply", "replies")
            raise NotRecorded(f"{where} has {replies}, and this is turn {number}: a recording cannot say more")
        if not self._any_prompt:
            for one, words in zip(turns[max(0, number - len(asked)) : number], asked[-number:], strict=False):
                _refuse_other_words(where, one, words)
        return turns[number - 1].reply()

    def _only(self, found: Sequence[Transcript], wanted: Wanted) -> Transcript:
        if len(found) == 1:
            return found[0]
        key = "the first words" if self._match == "prompt" else f"the {_shown_key(self._match)}"
        if found:
            places = ", ".join(f"`{one.id}` in {one.source}" for one in found[:_MOST_LISTED])
            raise NotRecorded(f"{len(found)} conversations of {self._name} have {key} of {wanted}: {places}")
        names = list(filter(None, (_value(one, self._match or "id") for one in self._transcripts)))
        listed = ", ".join(f"`{name[:60]}`" for name in names[:_MOST_LISTED])
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        raise NotRecorded(
            f"no conversation of {self._name} has {key} of {wanted}{did_you_mean(wanted.name, names)}",
            f"There are {listed}{more}. Give the case one of these ids, or set `match: prompt` to match by the prompt.",
        )


def _shown_key(match: str | None) -> str:
    return "id or title" if match is None else match if match in _KEYS else f"`{match}`"


_KEYS: dict[str, Callable[[Transcript], str]] = {
    "id": lambda one: one.id,
    "title": lambda one: one.title,
    "file": lambda one: one.source.replace("\\", "/").rpartition("/")[2].partition(".")[0],
    "prompt": lambda one: one.turns[0].prompt.strip() if one.turns else "",
}
"""Keys that every conversation has."""


def _value(transcript: Transcript, key: str) -> str:
    """The value of a conversation's key; empty if missing."""
    return _KEYS[key](transcript) if key in _KEYS else transcript.keys.get(key, "")


def _no_such_key(match: str, name: str, transcripts: Iterable[Transcript]) -> UsageError:
    own = sorted({key for one in transcripts for key in one.keys} - _KEYS.keys())
    listed = ", ".join(f"`{key[:80]}`" for key in (*_KEYS, *own[:_MOST_KEYS_LISTED]))
    more = f" and {len(own) - _MOST_KEYS_LISTED} more" if len(own) > _MOST_KEYS_LISTED else ""
    return UsageError(
        f"no conversation of {name} has the key `{match}`{did_you_mean(match, [*_KEYS, *own])}",
        f"Keys to match are {listed}{more}.",
    )


def _asked(messages: Iterable[ChatMessage]) -> list[str]:
    """The user's words in a conversation, in order. Consecutive messages count as one."""
    groups: list[list[ChatMessage]] = []
    speaks = False
    for message in messages:
        if message.role == "user":
            if not speaks:
                groups.append([])
            groups[-1].append(message)
        if message.role != "system":
            speaks = message.role == "user"
    return [joined(group) for group in groups]


def _refuse_other_words(where: str, turn: Turn, words: str) -> None:
    if turn.prompt.strip() != words.strip():
        raise NotRecorded(
            f"{where} was asked something else at turn {turn.number}: now {_shown(words)}, then {_shown(turn.prompt)}",
            "A recording answers only its own questions; `prompts: any` uses its answers whatever is asked.",
        )


def _shown(words: str) -> str:
    return json.dumps(beginning(words.strip(), _LONGEST_SHOWN), ensure_ascii=False)
