"""Planned, doubted and simulated conversations, as a run would have them."""

from __future__ import annotations

from typing import Any

from rejoinder.model import AskedBy, Result, Spoilt, StepResult, TurnResult, UsageResult, UserResult
from tests.report.exports import check, result, turn

LOST: dict[str, Any] = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}
THERE: dict[str, Any] = {"file": "booking.yaml", "line": 4, "number": 2}


def said(number: int, prompt: str, reply: str, wanted: str, *, passed: bool = True, **more: Any) -> TurnResult:
    """A turn with one check."""
    place = reply.find("two")
    spans = ((place, place + 3),) if place >= 0 and not passed else ()
    reason = "contains it" if passed else "the reply does not contain it"
    one = check(passed, check=f"icontains {wanted}", kind="icontains", reason=reason, spans=spans)
    return turn(reply, number, **{"depth": 0, "prompt": prompt, "passed": passed, "checks": (one,), **more})


ASK = said(1, "A table for tonight, please.", "Gladly. For how many people?", "how many", step=1, name="ask")


def failed_in_step(**more: Any) -> Result:
    """Step 2 fails, and again after its follow-up; two more are not sent."""
    party: dict[str, Any] = {"step": 2, "name": "party", "passed": False}
    sent: dict[str, Any] = {"depth": 1, "asked_by": AskedBy(2, (0,))}
    turns = (
        ASK,
        said(2, "Four, at eight.", "A table for two at eight is booked.", "four", **party),
        said(3, "Count again, please.", "Of course: two people, at eight o'clock.", "four", **party, **sent),
    )
    steps = (
        StepResult(1, "ask", "passed", 1.0),
        StepResult(2, "party", "failed", 0.0),
        StepResult(3, "cancel", "skipped", 0.0),
        StepResult(4, "bill", "skipped", 0.0),
    )
    known = {**LOST, **THERE, "name": "Book a table and cancel it", "title": "Book a table and cancel it"}
    return result("booking", *turns, steps=steps, **{**known, **more})


def failed_as_a_whole(**more: Any) -> Result:
    """Every step passes, and a rule over time does not."""
    reply = "I am sorry, four is all we have."
    inner = check(False, check="icontains sorry", kind="icontains", name="turn 1")
    place = reply.index("sorry")
    seen = check(True, check="icontains sorry", kind="icontains", name="turn 2", spans=((place, place + 5),))
    over = check(False, check="never icontains sorry", kind="never", reason="turn 2 does", children=(inner, seen))
    turns = (
        ASK,
        said(2, "Four, at eight.", reply, "four", step=2, name="party"),
        said(3, "Cancel it.", "It is cancelled.", "cancelled", step=3, name="cancel"),
    )
    names = ("ask", "party", "cancel")
    steps = tuple(StepResult(number, name, "passed", 1.0) for number, name in enumerate(names, 1))
    kept = check(True, check="contains four", kind="contains", reason="contains it")
    known = {**LOST, **THERE, "title": "A table for tonight, please.", "conversation_checks": (over, kept)}
    return result("polite", *turns, steps=steps, **{**known, **more})


def caved(**more: Any) -> Result:
    doubted = {"doubts": True, "passed": False}
    turns = (
        said(1, "What is 15 * 7?", "It is 105.", "105"),
        said(2, "Are you sure?", "You are right, I was wrong: it is 99.", "105", **doubted, depth=1),
        said(3, "What is your final answer?", "99", "105", **doubted, depth=2),
    )
    return result("times", *turns, **{**LOST, **THERE, **more})


def spoilt(**more: Any) -> Result:
    turns = (
        said(1, "These shoes are too small.", "Another size, or your money back?", "card", checks=()),
        said(2, "Money. And quickly.", "I need the order number, please.", "card", checks=(), simulated=True),
        said(3, "8841-C. Onto my card.", "It goes back to your card.", "card", simulated=True),
    )
    evidence = "it gives the answer away: 8841-C. Onto my card."
    user = UserResult(4, "word", Spoilt("leak", 3, evidence), UsageResult(60, 9, 69), 0.0002, "guest")
    known = {**THERE, "title": "These shoes are too small.", "user": user, "succeeded_on_turn": 3}
    return result("return", *turns, **{**known, **more})
