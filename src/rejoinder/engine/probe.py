"""Trying a target: can it be opened, and does it answer?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec import Struct, structs

from rejoinder.engine.kept import end_conversation
from rejoinder.engine.live import ask_within
from rejoinder.engine.targets import OpenTargets
from rejoinder.errors import MissingKey, RejoinderError, UsageError
from rejoinder.model import ChatMessage, Reply, Request, Semantic, Suite, Target, walk_case
from rejoinder.model.providers import row_of
from rejoinder.project.dotenv import env_files, read_environment
from rejoinder.providers.base import ProviderError
from rejoinder.runs.options import RunOptions
from rejoinder.runs.secrets import Mask
from rejoinder.suite.targets import is_known_provider, left_out_settings
from rejoinder.user_code.functions import FunctionFault
from rejoinder.user_code.lookup import find_function

QUESTION = "Reply with the single word OK."


class Probe(Struct, frozen=True):
    """What came of one tiny call."""

    target: Target
    reply: Reply | None = None
    seconds: float = 0.0
    error: str | None = None
    trouble: str = ""
    """Why there was no answer, in a word or two."""
    variables: tuple[str, ...] = ()
    """Those of the environment whose lack it was."""
    left: dict[str, tuple[float, float]] = {}
    """What the provider says is left of its limits, and in how many seconds it is renewed."""


def find_lack(target: Target, project: Suite) -> RejoinderError | None:
    """What keeps a target from being asked; None when it can be. Nothing is sent, and no code of the project is run."""
    if not is_known_provider(target.provider):
        return UsageError(f"the provider `{target.provider}` cannot be run by this version")
    if row_of(target.provider).in_process:
        fault = find_function(str(target.settings["call"]), (str(Path(project.path).parent), project.root))
        return UsageError(fault) if fault is not None else None
    try:
        OpenTargets(RunOptions()).open(project, target)
    except RejoinderError as error:
        return error
    return None


def find_left_out(target: Target, project: Suite) -> dict[str, str]:
    """The settings that count as absent because their environment variable is not set."""
    if "${{" not in repr(target.settings):
        return {}
    return left_out_settings(target, read_environment(Path(project.path).parent, Path(project.root), Path.cwd()))


def find_embedders(project: Suite) -> frozenset[str]:
    """The targets that a project or a suite has for vectors, by name. No model gives both vectors and answers."""
    compared = (check for case in project.cases for check in walk_case(case) if isinstance(check, Semantic))
    return frozenset(name for name in (project.embedding_target, *(check.target for check in compared)) if name)


async def try_target(
    target: Target, project: Suite, options: RunOptions, embedders: frozenset[str] = frozenset()
) -> Probe:
    """Ask a target one tiny question, once; those that are for vectors for the vector of the question."""
    targets = OpenTargets(options)
    started = time.perf_counter()
    try:
        if target.runs_code and options.trust.no_code:
            raise UsageError("it runs code of the project, and --no-code refuses that")
        if row_of(target.provider).in_process:
            targets.lend_environment([project])
        opened = targets.open(project, target)
        request = _question(target, opened.model, embeds=target.name in embedders)
        started = time.perf_counter()
        if opened.sees_conversation:
            request = structs.replace(request, conversation_id=str(uuid4()))
        if opened.service is not None:
            await opened.service.ensure()
        try:
            reply = await ask_within(opened.timeout_s, opened.provider, request)
            request = structs.replace(request, session=reply.session)
        finally:
            if opened.keeper is not None:  # the question was a conversation of its own
                await end_conversation(opened.keeper, request, failed=False)
    except Exception as error:
        if isinstance(error, RejoinderError):
            message = error.message + (f" ({error.hint})" if error.hint else "")
        else:  # a bug must not touch other targets, nor show what it knows
            message = f"internal error: {type(error).__name__}: {error}"
        return Probe(
            target,
            seconds=time.perf_counter() - started,
            error=Mask(targets.secrets).hide_text(message),
            trouble=_trouble(error),
            variables=error.variables if isinstance(error, MissingKey) else (),
        )
    finally:
        await targets.close()
    seconds = time.perf_counter() - started
    mask = Mask(targets.secrets)
    model = reply.model and mask.hide_text(reply.model)
    priced = structs.replace(opened.priced(reply), text=mask.hide_text(reply.text), model=model)
    left = opened.provider.limiter.left() if opened.provider.limiter is not None else {}
    return Probe(target, priced, seconds, left=left)


_TROUBLES = {
    "timeout": "too slow",
    "dns": "no such host",
    "connection": "no connection",
    "broken": "broke off",
    "tls": "not secure",
    "bad-response": "no answer",
}
"""By the type of an error."""


def _trouble(error: Exception) -> str:
    """Why there was no answer: `no key`, `401`, `KeyError`."""
    fault = error.__cause__
    if isinstance(fault, FunctionFault) and fault.error is not None:
        return type(fault.error).__name__
    if isinstance(error, MissingKey):
        return "no key" if len(error.variables) == 1 and "KEY" in error.variables[0] else "not set"
    if isinstance(error, ProviderError):
        return f"{error.status}" if error.status else _TROUBLES.get(error.type, "error")
    return "not ready" if isinstance(error, RejoinderError) else "error"


def files_looked_in(project: Suite) -> list[Path]:
    """The `.env` files in which variables are looked for, beside the environment."""
    return [path for path, _ in env_files(Path(project.path).parent, Path(project.root), Path.cwd())]


def _question(target: Target, model: str | None, *, embeds: bool) -> Request:
    """Something that the target can answer, as far as can be told."""
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
    if target.provider == "scripted":
        return structs.replace(request, **_within_script(target.settings, embeds=embeds))
    info = row_of(target.provider)
    if embeds or not info.replies or (info.embeds and _is_embedding_model(model)):
        return structs.replace(request, messages=(), embed=QUESTION)
    return request


def _within_script(settings: dict[str, Any], *, embeds: bool) -> dict[str, Any]:
    """What a script has an answer to."""
    replies, vectors = settings.get("replies"), settings.get("embeddings") or {}
    if vectors and (embeds or not (replies or settings.get("judge"))):
        known = QUESTION if QUESTION in vectors or "*" in vectors else next(iter(vectors))
        return {"messages": (), "embed": known}
    if not replies and settings.get("judge"):
        return {"kind": "judge"}
    if isinstance(replies, dict) and "*" not in replies and replies:
        return {"case_id": next(iter(replies))}
    return {}


def _is_embedding_model(model: str | None) -> bool:
    from rejoinder.prices.model_list import is_embedding_model

    return model is not None and is_embedding_model(model)
