"""`python`: a function of the user answers. `call: module:function`, sync or async, gets the `Request`, or, if it has a
parameter `messages`, the conversation as a list of plain dictionaries.

It returns a text, a mapping with `text` and token counts, or a `Reply`. A sync function runs in its own thread, so that
it may block. The module is looked for in the suite's folder and in the project's root.

To keep the conversation itself, the target is a class or a context manager whose object has `ask`: the object is made
when a conversation begins, gets only new messages, and is left when the conversation ends.

Providers of installed packages (entry points of the group `rejoinder.providers`) work alike. The entry point is called
with the target (its `name` and `settings`) when a run needs it, and returns such a function, or an object with such a
method `reply`. Its attribute `traits` describes the provider: a mapping, or a `ProviderInfo`.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import msgspec
from msgspec import structs

from rejoinder.errors import UsageError
from rejoinder.model import NO_USAGE, ChatMessage, Reply, Request, Target, Usage, estimate_usage
from rejoinder.model.providers import ProviderInfo, Traits
from rejoinder.project.plugins import PROVIDERS_GROUP, find_entry_point
from rejoinder.providers.base import ProviderError
from rejoinder.providers.vector_bytes import check_vector, no_embeddings, pack_vector
from rejoinder.user_code.functions import FunctionFault, call_function, in_words, raised_at, recordable


class PythonProvider:
    outside = True
    limiter = None
    sees_conversation = True

    def __init__(
        self, name: str, function: Callable[..., Any], folders: tuple[str, ...] = (), *, embeds: bool = False
    ) -> None:
        self._name = name
        self._function = function
        self._folders = folders
        self._embeds = embeds
        self._parameters = parameters_of(function)

    async def reply(self, request: Request) -> Reply:
        if request.embed is not None and not self._embeds:
            raise no_embeddings(self._name)
        try:
            answer = await self._call(request)
        except FunctionFault as fault:
            if isinstance(fault.error, ProviderError):
                raise fault.error from None
            retryable = bool(getattr(fault.error, "retryable", False))
            raise ProviderError(str(fault), type="python", retryable=retryable) from fault
        try:
            return self._read(answer, request) if request.embed is None else self._read_vector(answer)
        except ProviderError:
            raise
        except (Exception, SystemExit) as error:  # an answer may have code of its own
            raise self._bad(f"returned {type(answer).__name__}, which cannot be read: {in_words(error)}") from None

    async def close(self) -> None:
        pass

    async def _call(self, request: Request) -> Any:
        """Call the function. Raises FunctionFault."""
        if "messages" not in self._parameters:
            return await call_function(self._name, self._folders, self._function, request)
        named = {"messages": plain_messages(request.messages), "request": request}
        named = {name: value for name, value in named.items() if name in self._parameters}
        return await call_function(self._name, self._folders, self._function, **named)

    def _read(self, answer: Any, request: Request) -> Reply:
        if isinstance(answer, Reply):
            reply = answer
        else:
            fields: dict[str, Any] = answer if isinstance(answer, dict) else {"text": answer}
            reply = Reply(fields.get("text", answer), cost=fields.get("cost"))
            if "output_tokens" in fields:
                counts = (fields.get(f"{kind}_tokens", 0) for kind in ("input", "output", "reasoning"))
                reply = structs.replace(reply, usage=Usage(*counts))
        if isinstance(reply.text, str) and type(reply.text) is not str:  # as LangChain's are, which cannot be recorded
            reply = structs.replace(reply, text=str.__str__(reply.text))
        self._refuse_nonsense(reply, answer)
        if reply.usage == NO_USAGE:
            sent = sum(message.length for message in request.messages)
            return structs.replace(reply, usage=estimate_usage(sent, len(reply.text)))
        return reply

    def _read_vector(self, answer: Any) -> Reply:
        try:
            reply = answer if isinstance(answer, Reply) else Reply("", vector=_pack(answer))
            check_vector(reply.vector)
        except msgspec.ValidationError as error:
            raise self._bad(f"returned something that is not a vector: {error}") from None
        self._refuse_nonsense(reply, answer)
        return reply

    def _refuse_nonsense(self, reply: Reply, answer: Any) -> None:
        """Refuse an answer that cannot be recorded, while the function that gave it can still be named."""
        if not isinstance(reply.text, str):
            wanted = "a text, a mapping with `text`, or a Reply is expected"
            raise self._bad(f"returned {type(answer).__name__}; {wanted}")
        usage = reply.usage
        for name in ("input_tokens", "output_tokens", "reasoning_tokens"):
            count = getattr(usage, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise self._bad(f"returned {count!r} as `{name}`; a whole number of at least 0 is expected")
        if reply.cost is not None and (isinstance(reply.cost, bool) or not isinstance(reply.cost, int | float)):
            raise self._bad(f"returned {reply.cost!r} as `cost`; a number is expected")
        try:
            msgspec.convert(msgspec.json.decode(msgspec.json.encode(reply)), Reply)
        except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
            raise self._bad(f"returned a reply that cannot be recorded: {error}") from None

    def _bad(self, what: str) -> ProviderError:
        return ProviderError(recordable(f"`{self._name}` {what}"), type="python")


def _pack(numbers: Any) -> bytes:
    return pack_vector(msgspec.convert(numbers, list[float], strict=False))


def parameters_of(function: Callable[..., Any]) -> frozenset[str]:
    """The parameter names of a function; empty if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some that are written in C
        return frozenset()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(one.name for one in parameters if one.kind in by_name)


def plain_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Messages as OpenAI's clients take them."""
    from rejoinder.providers.openai_chat import write_messages

    return write_messages(messages)


def open_plugin(target: Target, folders: tuple[str, ...]) -> PythonProvider | None:
    """The provider of a target; None if no package provides it. Raises UsageError that names what is broken."""
    entry = find_entry_point(PROVIDERS_GROUP, target.provider)
    if entry is None:
        return None
    info = _read_info(entry, _load(entry, target.name, folders))
    made = _call(lambda: entry.load()(target), entry, target.name, folders)
    function: Callable[..., Any] | None = getattr(made, "reply", made if callable(made) else None)
    if function is None:
        raise UsageError(f"{_describe(entry)} gave {type(made).__name__}, which has no `reply`")
    return PythonProvider(target.provider, function, folders, embeds=info.embeds)


def plugin_info(provider: str) -> ProviderInfo | None:
    """A plug-in's description of itself; None if no package provides it. Raises UsageError if it cannot be loaded."""
    entry = find_entry_point(PROVIDERS_GROUP, provider)
    return None if entry is None else _read_info(entry, _load(entry, None, ()))


def _load(entry: EntryPoint, target: str | None, folders: tuple[str, ...]) -> Any:
    return _call(entry.load, entry, target, folders)


def _call(function: Callable[[], Any], entry: EntryPoint, target: str | None, folders: tuple[str, ...]) -> Any:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # results go to stdout, and nothing else
            return function()
    except (Exception, SystemExit) as error:
        user = f", which target `{target}` needs," if target else ""
        why = f"{in_words(error)}{raised_at(error, folders)}"
        fault = FunctionFault(f"{_describe(entry)}{user} cannot be used: {why}", error)
        raise UsageError(str(fault)) from fault


def _read_info(entry: EntryPoint, loaded: Any) -> ProviderInfo:
    traits = getattr(loaded, "traits", {})
    if isinstance(traits, ProviderInfo):
        return traits
    try:
        return ProviderInfo(**msgspec.structs.asdict(msgspec.convert(traits, Traits)))
    except msgspec.ValidationError as error:
        names = ", ".join(Traits.__struct_fields__)
        raise UsageError(f"{_describe(entry)} has wrong `traits`: {error}", f"They may be {names}.") from None


def _describe(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else "an installed package"
    return f"the provider `{entry.name}` of {package} ({entry.value})"
