"""The rules of a conversation, and nothing else.

A conversation is a generator: it yields what it needs (`engine/effects.py`: ask the candidate, ask a simulated user,
grade a reply) and is sent what came of it. It cannot sleep, read a file or know what a provider is, so it can be run
again with recorded answers: resuming and replaying are this same code with another source of answers.

It is made of steps (`engine/steps.py`). A step is a turn and the follow-ups that answer back to it. A case without a
plan has one; a plan has several; a simulated user (`engine/simulated.py`) thinks of each next turn. At the end come the
checks of the whole.

Guarantees: a reply enters the history as it came, an empty one too, and a failed call leaves nothing there; request n
is request 1 and what was said since, never formatted again (but for `window_size`, which shows the last turns only);
the first level whose checks all pass ends its step, unless a follow-up doubts right replies, too.
"""

from __future__ import annotations

from msgspec import structs

from rejoinder.engine.effects import Conversation, Grade, Opening
from rejoinder.engine.levels import all_of, check_trouble
from rejoinder.engine.over_time import OVER_TIME, is_unknown, over_verdict
from rejoinder.engine.simulated import with_user
from rejoinder.engine.steps import answer_back, by_plan
from rejoinder.engine.talk import Cause, Ended, Part, Rest, Stopped, Talk, verdicts_of
from rejoinder.model import AnyCheck, ConversationCheck, Outcome, Step, ToolCall, Turn, Verdict, weighted_mean
from rejoinder.model.results import last_of_steps


def converse(opening: Opening) -> Conversation:
    """Have a conversation: send, grade, answer back, until a level passes or nothing is left to say; then the next
    planned turn, or the next words of a simulated user; at the end what is checked over the whole. With a control the
    first turn is asked once more, beside the conversation, where a follow-up is sent because it failed."""
    talk = Talk(opening)
    rest: Rest = {}
    """Fields of the outcome that most conversations lack."""
    try:
        if opening.user is not None:
            ended = yield from with_user(talk, opening.user, rest)
        elif opening.plan is not None:
            ended = yield from by_plan(talk, opening.plan, rest)
        else:
            ended = yield from answer_back(talk, Step(at="", level=opening.level), Cause())
        if opening.conversation_checks and ended.status != "error":
            ended = yield from _check_whole(talk, ended, rest)
    except Stopped:
        ended = Ended("failed")
    if talk.control is not None:
        rest["control"] = talk.control
    turns = tuple(talk.turns)
    if ended.status == "error":
        return Outcome(status="error", turns=turns, error=ended.trouble, **rest)
    on_turn = len(turns) if ended.status == "passed" else None
    return Outcome(status=ended.status, turns=turns, score=ended.score, succeeded_on_turn=on_turn, **rest)


def _check_whole(talk: Talk, ended: Ended, rest: Rest) -> Part[Ended]:
    verdicts: list[Verdict] = []
    for over in talk.opening.conversation_checks:
        verdicts.append((yield from _check_over(talk, over)))
    rest["conversation_checks"] = found = tuple(verdicts)
    state = all_of(found)
    if state == "error" and ended.status != "failed":
        return Ended("error", trouble=check_trouble(found, len(talk.turns)))
    score = ended.score
    if score is None:
        pairs = zip(talk.opening.conversation_checks, found, strict=True)
        score = weighted_mean([(over.weight, one.score) for over, one in pairs if one.score is not None])
    return Ended("failed" if "failed" in (state, ended.status) else "passed", score)


def _check_over(talk: Talk, over: ConversationCheck) -> Part[Verdict]:
    turns = talk.turns
    if over.over in ("last", "transcript"):
        again = _grade_again(talk, turns[-1], over.checks, whole=over.over == "transcript")
        [verdict] = verdicts_of((yield again))
        return verdict
    by_place = dict(enumerate(last_of_steps(turns) if over.final else turns, 1))
    first, last = over.turns or (1, len(turns))
    rule = OVER_TIME[over.over]([place for place in by_place if first <= place <= last], over.turn)
    said: list[tuple[int, Verdict]] = []
    try:
        place, which = next(rule)
        while True:
            [verdict] = verdicts_of((yield _grade_again(talk, by_place[place], (over.checks[which],))))
            said.append((place, verdict))
            if is_unknown(over, which, verdict):
                return over_verdict(over, ("failed", place), said)
            place, which = rule.send(verdict.state)
    except StopIteration as stop:
        return over_verdict(over, stop.value, said)


def _grade_again(talk: Talk, turn: Turn, checks: tuple[AnyCheck, ...], *, whole: bool = False) -> Grade:
    """A turn that was judged, by other checks."""
    assert turn.reply is not None
    checks = talk.with_values(checks) if talk.known else checks
    said = tuple(talk.prompts[: turn.turn - 1]), tuple(talk.replies[: turn.turn])
    reply = structs.replace(turn.reply, tool_calls=_all_calls(talk)) if whole else turn.reply
    part, heard = talk.part_of(turn.step), tuple(talk.heard[: turn.turn])
    context = talk.context_of(turn.step)
    return Grade(turn.turn, checks, reply, turn.messages, *said, None, talk.opened, part, heard, whole, context)


def _all_calls(talk: Talk) -> tuple[ToolCall, ...]:
    """The tools that were called in the whole conversation."""
    return tuple([call for turn in talk.turns if turn.reply is not None for call in turn.reply.tool_calls])
