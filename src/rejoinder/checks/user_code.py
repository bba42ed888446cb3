"""The user's own checks: `code` (a script), `python` (a function), `check` (from the project or a package) and
`webhook` (an address). Each gets the same evidence, and its verdict is recorded like a judge's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from rejoinder.checks.base import CheckFault, Context, Post, Work, asked_value, error_verdict
from rejoinder.checks.plugins import load_check, source_of_check
from rejoinder.checks.registry import grades
from rejoinder.checks.scripts import opinion_of, run_script
from rejoinder.checks.user_verdicts import opinion_verdict, read_opinion
from rejoinder.model import (
    Check,
    Code,
    Custom,
    Evidence,
    Failure,
    Opinion,
    PythonCheck,
    Reply,
    Verdict,
    Webhook,
    Workspace,
)
from rejoinder.project.dotenv import environment_of
from rejoinder.user_code.functions import FunctionFault, call_function, in_words, load_function, recordable, source_of
from rejoinder.user_code.lookup import folder_for, is_source, script_words
from rejoinder.words.numbers import beginning, in_seconds

DEFAULT_TIMEOUT_S = 60.0


@grades(Code)
async def grade_code(check: Code, context: Context) -> Verdict:
    words = check.script
    folder = folder_for(check.cwd, context.port.folders)
    evidence = context.port.evidence()
    given = msgspec.json.encode(evidence)
    timeout_s = check.timeout_s or DEFAULT_TIMEOUT_S

    async def perform(workspace: Workspace | None) -> str:
        if not folder.is_dir():
            raise CheckFault(f"there is no folder {folder} to run it in")
        environment = environment_of(context.port.folders)
        if workspace is not None:
            environment = {**environment, "REJOINDER_WORKSPACE": str(workspace.workspace)}
        ended = await run_script(words, folder, given, timeout_s, environment)
        return _recorded(opinion_of(ended))

    content = msgspec.json.encode((words, check.cwd, [_script_file(word, folder) for word in script_words(words)]))
    return await _carried_out(check, context, Work("code", content + _lasting(evidence), perform))


@grades(PythonCheck)
async def grade_python(check: PythonCheck, context: Context) -> Verdict:
    name, folders = check.call, context.port.folders
    function = _Function(name, source_of(name, folders), lambda: load_function(name, folders), check.arguments)
    return await _called(check, context, function, check.timeout_s or DEFAULT_TIMEOUT_S)


@grades(Custom)
async def grade_custom(check: Custom, context: Context) -> Verdict:
    name, root = check.kind, context.port.folders[-1]
    function = _Function(name, source_of_check(name, root), lambda: load_check(name, root), check.arguments)
    return await _called(check, context, function, DEFAULT_TIMEOUT_S)


@grades(Webhook)
async def grade_webhook(check: Webhook, context: Context) -> Verdict:
    evidence = context.port.evidence()
    body, timeout_s = msgspec.json.encode(evidence), check.timeout_s or DEFAULT_TIMEOUT_S
    headers = {"content-type": "application/json"} | {name.lower(): value for name, value in check.headers.items()}
    call = context.port.post(Post(check.url, headers, body, timeout_s, _lasting(evidence)))
    return await _read(check, call, lambda text: read_opinion(_json(text)))


class _Function(Struct, frozen=True):
    """The user's function, which is loaded only when called: recorded verdicts are shown without it."""

    name: str
    source: bytes
    load: Callable[[], Callable[..., Any]]
    """Load it. Raises FunctionFault."""
    arguments: dict[str, Any]


async def _called(check: Check, context: Context, function: _Function, timeout_s: float) -> Verdict:
    """The verdict of the user's function."""
    evidence = context.port.evidence()

    async def perform(_: Workspace | None) -> str:
        return _recorded(await _opinion_of(function, context.port.folders, evidence, timeout_s))

    content = msgspec.json.encode((function.name, function.arguments), order="sorted", enc_hook=repr)
    content += function.source + _lasting(evidence)
    return await _carried_out(check, context, Work("python", content, perform))


async def call_for_text(check: PythonCheck, context: Context) -> str | Failure:
    """The text that a function makes of the reply; empty if it returns None."""
    name, folders = check.call, context.port.folders
    function = _Function(name, source_of(name, folders), lambda: load_function(name, folders), {})
    evidence = structs.replace(context.port.evidence(), candidate_answer=context.reply.text)

    async def perform(_: Workspace | None) -> str:
        try:
            answer = await _returned(function, folders, evidence, DEFAULT_TIMEOUT_S)
        except FunctionFault as fault:
            raise CheckFault(str(fault)) from fault
        if answer is not None and not isinstance(answer, str):
            raise CheckFault(f"`{name}` returned a {type(answer).__name__}; a text is expected, or None for no part")
        return recordable(answer or "")

    content = b"part " + msgspec.json.encode(name) + function.source + _lasting(evidence)
    answer = await context.port.carry_out(Work("python", content, perform))
    return answer if isinstance(answer, Failure) else answer.text


async def _opinion_of(function: _Function, folders: tuple[str, ...], evidence: Evidence, timeout_s: float) -> Opinion:
    try:
        answer = await _returned(function, folders, evidence, timeout_s)
    except FunctionFault as fault:
        if isinstance(fault.error, AssertionError):  # as tests say it
            message = in_words(fault.error).partition(": ")[2]
            return Opinion(passed=False, reason=recordable(message) or "an assertion failed")
        raise CheckFault(str(fault)) from fault
    try:
        return read_opinion(answer)
    except CheckFault as fault:
        raise CheckFault(recordable(f"`{function.name}` {fault}")) from None


async def _returned(function: _Function, folders: tuple[str, ...], evidence: Evidence, timeout_s: float) -> Any:
    """The return value of the user's function. Raises CheckFault if it takes too long, and FunctionFault."""
    name = function.name
    # Copies: a function may change them, and the next one must not see that.
    copies = {"vars": deepcopy(evidence.vars), "metadata": deepcopy(evidence.metadata)}
    own, arguments = structs.replace(evidence, **copies), deepcopy(function.arguments)
    try:
        async with asyncio.timeout(timeout_s):
            # In its thread: importing may take long.
            return await call_function(name, folders, lambda: function.load()(own, **arguments))
    except TimeoutError:
        raise CheckFault(f"`{name}` did not return within {in_seconds(timeout_s)}") from None


async def _carried_out(check: Check, context: Context, work: Work) -> Verdict:
    return await _read(check, context.port.carry_out(work), _restored)


async def _read(check: Check, call: Awaitable[Reply | Failure], read: Callable[[str], Opinion]) -> Verdict:
    answer, shown = await call, asked_value(check)
    if isinstance(answer, Failure):
        return error_verdict(check, shown, answer.message)
    try:
        return opinion_verdict(check, shown, read(answer.text))
    except CheckFault as fault:
        return error_verdict(check, shown, str(fault))


def _lasting(evidence: Evidence) -> bytes:
    """The evidence without values that differ between machines and times: a verdict does not depend on these."""
    segments = tuple(structs.replace(segment, resolved_path="") for segment in evidence.input_segments)
    fixed = {"guideline_paths": (), "input_files": (), "input_segments": segments, "latency_s": 0.0, "cost": None}
    return msgspec.json.encode(structs.replace(evidence, **fixed))


def _recorded(opinion: Opinion) -> str:
    """An opinion in the form of the journal."""
    try:
        text = msgspec.json.encode(opinion).decode()
        _restored(text)  # a function may put anything into an opinion
        return text
    except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
        raise CheckFault(f"gave a verdict that cannot be recorded: {error}") from None


def _restored(text: str) -> Opinion:
    return msgspec.json.decode(text, type=Opinion)


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise CheckFault(f"it answered {beginning(text, 200)!r}, which is not JSON") from None


def _script_file(word: str, folder: Path) -> str:
    """The current content of a program or its source: when it changes, its earlier verdicts are no longer valid."""
    path = folder / word
    if not is_source(path):
        return ""
    try:
        state = path.stat()
        return f"{word}:{_digest(path, state.st_mtime_ns, state.st_size)}"
    except OSError:
        return ""


@lru_cache(maxsize=256)
def _digest(path: Path, changed: int, size: int) -> str:  # noqa: ARG001 - part of the key
    from hashlib import blake2b

    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
