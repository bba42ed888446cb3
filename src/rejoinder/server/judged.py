"""Replies of a run that one judge was asked about, and what people say of them.

A judge is known by the digest of its instructions; the labels of people lie in a file of that name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

import msgspec
from msgspec import Struct

from rejoinder.model import CheckResult, Result, State
from rejoinder.run_files import RunDamaged
from rejoinder.server.desk import Desk, Look
from rejoinder.server.errors import ApiError
from rejoinder.server.labels import LabelRow, asked_of, is_digest, label_file, label_id, read_rows
from rejoinder.server.result_lines import placed_results
from rejoinder.views.rows import PLAIN, frame_of, suite_of
from rejoinder.words.numbers import score_words

MOST_ITEMS = 2_000
"""Replies of a run that can be labelled."""


class Item(Struct, frozen=True, kw_only=True):
    """A reply that a judge was asked about, without what it said."""

    id: str
    """As the file of labels has it."""
    at: int
    """The line of the conversation in the results, from 0."""
    suite: str
    case: str
    target: str
    variant: str | None
    trial: int
    turn: int | None
    """None for a check of the whole conversation, whose last reply is shown."""
    check: tuple[int, ...]


class Reply(Struct, frozen=True):
    """What a person sees before judging."""

    title: str
    prompt: str
    reply: str
    asked: str
    """What the judge was asked."""


class Said(Struct, frozen=True):
    """What the judge said."""

    state: State
    score: str
    """Empty without one."""
    reason: str
    judge: str | None


class Judged(Struct, frozen=True):
    item: Item
    reply: Reply
    said: Said


def digest_asked(text: str) -> str:
    if not is_digest(text):
        raise ApiError(404, "a judge is named by the digest of its instructions")
    return text


def judged_in(look: Look, digest: str) -> Iterator[Judged]:
    """What the judge was asked about in a run, in the order of the results."""
    needle = msgspec.json.encode(digest)
    frame = PLAIN if look.receipt is None else frame_of(look.receipt)
    items = (
        item
        for one in placed_results(look.folder.results, needle)
        for item in _of_result(look.id, suite_of(one.result, frame), one.at, one.result, digest)
    )
    with suppress(OSError, RunDamaged):
        yield from islice(items, MOST_ITEMS)


def judged_at(look: Look, digest: str, item: str) -> Judged:
    """Raises ApiError where there is no such reply."""
    found = next((one for one in judged_in(look, digest) if one.item.id == item), None)
    if found is None:
        raise ApiError(404, "this run has no such reply")
    return found


def _of_result(run: str, suite: str, at: int, result: Result, digest: str) -> Iterator[Judged]:
    """`suite`: as rows of the run call it."""
    places: list[tuple[int | None, Sequence[CheckResult], str, str | None]] = [
        (turn.turn, turn.checks, turn.prompt, turn.response) for turn in result.turns
    ]
    if result.turns:
        last = result.turns[-1]
        places.append((None, result.conversation_checks, last.prompt, last.response))
    for turn, checks, prompt, response in places:
        for path, check in _walk(checks) if response is not None else ():
            if check.judged_by != digest or check.error:
                continue
            item = Item(
                id=label_id(run, suite, result, turn, path),
                at=at,
                suite=suite,
                case=result.id,
                target=result.target,
                variant=result.variant,
                trial=result.trial,
                turn=turn,
                check=path,
            )
            said = Said(check.state, "" if check.score is None else score_words(check.score), check.reason, check.judge)
            yield Judged(item, Reply(result.title, prompt, response or "", asked_of(check)), said)


def _walk(checks: Sequence[CheckResult], path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], CheckResult]]:
    for place, check in enumerate(checks):
        yield (*path, place), check
        if len(path) < 20:
            yield from _walk(check.children, (*path, place))


def labels_of(desk: Desk, digest: str) -> dict[str, LabelRow]:
    """The labels that people gave for a judge, by their id."""
    try:
        return {row.id: row for row in read_rows(label_file(desk.root, digest))}
    except (RunDamaged, OSError):
        return {}
