"""Iteration over checks that hold other checks, and cases with one more check at every level."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from rejoinder.model.checks import (
    GROUPS,
    TEXT_CHECKS,
    AnyCheck,
    Counted,
    FollowUp,
    Item,
    JsonSchema,
    Level,
    Not,
    ReplyPart,
)
from rejoinder.model.messages import ImagePart
from rejoinder.model.pictures import Picture
from rejoinder.model.plans import AttachedPicture, Plan, UserAudit
from rejoinder.model.suite import Case, Target


def parts_of(check: AnyCheck) -> Iterator[AnyCheck]:
    """The checks directly inside another one."""
    if isinstance(check, GROUPS):
        for item in check.items:
            if item.check is not None:
                yield item.check
    elif isinstance(check, Not):
        yield check.check


def walk_check(check: AnyCheck) -> Iterator[AnyCheck]:
    """A check and everything in it, except follow-ups."""
    yield check
    for part in parts_of(check):
        yield from walk_check(part)


def follow_ups_of(level: Level) -> Iterator[FollowUp]:
    """The follow-ups of a level and its groups, in document order; those inside a group before its own."""
    for item in level.items:
        if isinstance(item.check, GROUPS):
            yield from follow_ups_of(Level(item.check.items))
        if item.follow_up is not None:
            yield item.follow_up


def without_follow_ups(check: AnyCheck) -> AnyCheck:
    """A check without the follow-ups of its groups."""
    if not isinstance(check, GROUPS):
        return check
    inner = tuple(Item(without_follow_ups(item.check)) for item in check.items if item.check is not None)
    return structs.replace(check, items=inner)


def walk_level(level: Level) -> Iterator[AnyCheck]:
    """Every check of a level and of all follow-ups in it, with everything inside them."""
    for item in level.items:
        if item.check is not None:
            yield from walk_check(item.check)
    for follow_up in follow_ups_of(level):
        yield from walk_level(follow_up.level)


def answers_in(level: Level) -> Iterator[AnyCheck]:
    """The checks of a level and its follow-ups that a text with the answer passes, except for what must not be said."""
    for item in level.items:
        if item.check is not None:
            yield from answers_of(item.check)
    for follow_up in follow_ups_of(level):
        yield from answers_in(follow_up.level)


def answers_of(check: AnyCheck) -> Iterator[AnyCheck]:
    """Like `answers_in`, for one check and the checks inside it."""
    if isinstance(check, TEXT_CHECKS):
        if not isinstance(check, Counted) or check.count is None or check.count.least:
            yield check
    elif not isinstance(check, Not):
        for part in parts_of(check):
            yield from answers_of(part)


def levels_of(case: Case) -> tuple[Level, ...]:
    """The levels of a case's planned turns; a case without a plan has one."""
    return (case.level,) if case.plan is None else tuple(step.level for step in case.plan.steps)


def replies_of(case: Case) -> Iterator[ReplyPart]:
    """The parts of replies that a case and its planned turns name."""
    steps = case.plan.steps if case.plan is not None else ()
    yield from (part for part in (case.reply, *(step.reply for step in steps)) if part is not None)


def walk_case(case: Case) -> Iterator[AnyCheck]:
    """Every check of a case: of its turns and follow-ups, the conversation checks, the checks that end it, and the
    functions that find parts of replies."""
    for level in levels_of(case):
        yield from walk_level(level)
    yield from (part.function for part in replies_of(case) if part.function is not None)
    for over in case.conversation_checks:
        for check in over.checks:
            yield from walk_check(check)
    if case.user is not None:
        if case.user.reached is not None:
            yield from walk_check(case.user.reached)
        if case.user.audit is not None:
            yield UserAudit(user=case.user, target=case.user.audit, at=case.user.at)


def pictures_of(case: Case) -> Iterator[tuple[Picture, str | None]]:
    """The pictures of a case's messages and planned turns, in document order, each with its absolute path if it is a
    file."""
    for message in case.messages:
        for part in message.parts:
            if isinstance(part, ImagePart) and part.picture is not None:
                yield part.picture, part.resolved
    for step in case.plan.steps if case.plan is not None else ():
        for piece in (piece for words in step.says for piece in words.pieces):
            if isinstance(piece, AttachedPicture):
                yield piece.picture, piece.resolved


# Output schemas


def output_check(document: str, at: str, *, of_target: bool = False) -> JsonSchema:
    """The check of every reply to requests that are sent with this schema."""
    check = JsonSchema(document=document, at=at, name="output_schema", every_turn=True)
    return structs.replace(check, is_sent=True, of_target=of_target)


def for_target(case: Case, target: Target | None) -> Case:
    """The case for a target: the target's system prompt and output schema are used if there are no others."""
    if target is None:
        return case
    if target.system_prompt and not case.system_prompt.strip():
        case = structs.replace(case, system_prompt=target.system_prompt)
    if target.output_schema is None or case.output_schema is not None:
        return case
    check = output_check(target.output_schema, "output_schema", of_target=True)
    level, plan = with_output_check(case.level, check), plan_with_output_check(case.plan, check)
    return structs.replace(case, level=level, plan=plan, output_schema=check)


def plan_with_output_check(plan: Plan | None, check: JsonSchema) -> Plan | None:
    if plan is None:
        return None
    steps = tuple(structs.replace(step, level=with_output_check(step.level, check)) for step in plan.steps)
    return structs.replace(plan, steps=steps)


def with_output_check(level: Level, check: JsonSchema) -> Level:
    """The level with one more check, which its follow-ups inherit."""
    return structs.replace(level, items=(Item(check), *level.items))
