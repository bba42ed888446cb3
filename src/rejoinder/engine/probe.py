"""Trying a target: can it be opened, and does it answer?"""

from __future__ import annotations

import time

from msgspec import Struct, structs

from rejoinder.engine.asking import ask_within
from rejoinder.engine.desk import TargetDesk
from rejoinder.engine.masking import Mask
from rejoinder.engine.plan import RunOptions
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model import ChatMessage, Reply, Request, Suite, Target
from rejoinder.providers import is_available

QUESTION = "Reply with the single word OK."


class Probe(Struct, frozen=True):
    """What came of one tiny call."""

    target: Target
    reply: Reply | None = None
    seconds: float = 0.0
    error: str | None = None
    left: dict[str, tuple[float, float]] = {}
    """What the provider says is left of its limits, and in how many seconds it is renewed."""


def find_lack(target: Target, project: Suite) -> RejoinderError | None:
    """What keeps a target from being asked; None when it can be. Nothing is sent."""
    if not is_available(target.provider):
        return UsageError(f"the provider `{target.provider}` cannot be run by this version")
    try:
        TargetDesk(RunOptions()).open_all([(project, target)])
    except RejoinderError as error:
        return error
    return None


async def try_target(target: Target, project: Suite) -> Probe:
    """Ask a target one tiny question, once."""
    desk = TargetDesk(RunOptions())
    started = time.perf_counter()
    try:
        desk.open_all([(project, target)])
        terms = desk.terms(target)
        request = Request(
            target=target.name,
            case_id="check",
            trial=1,
            turn=1,
            call=0,
            messages=(ChatMessage("user", QUESTION),),
            question=QUESTION,
            key="targets-check",
        )
        reply = await ask_within(terms.timeout_s, terms.provider, request)
    except Exception as error:
        if isinstance(error, RejoinderError):
            message = error.message + (f" ({error.hint})" if error.hint else "")
        else:  # a bug must not touch other targets, nor show what it knows
            message = f"internal error: {type(error).__name__}: {error}"
        return Probe(target, seconds=time.perf_counter() - started, error=Mask(desk.secrets).hide_text(message))
    finally:
        await desk.close()
    seconds = time.perf_counter() - started
    mask = Mask(desk.secrets)
    model = reply.model and mask.hide_text(reply.model)
    priced = structs.replace(reply, text=mask.hide_text(reply.text), model=model, **desk.price(terms, reply))
    left = terms.provider.limiter.left() if terms.provider.limiter is not None else {}
    return Probe(target, priced, seconds, left=left)
