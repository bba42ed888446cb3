"""`local`: a model on this machine, run by llama.cpp (extra `local`). Any GGUF file by its path, or one by name.

It costs nothing, needs no key, and runs in its own process, which all targets of a run that name the same file share.
Equal replies are promised only with a seed and one worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

from msgspec import structs

from rejoinder.errors import UsageError
from rejoinder.model import Reply, Request, Target, Usage
from rejoinder.providers.base import ProviderError
from rejoinder.providers.local_weights import DEFAULT, find_weights
from rejoinder.providers.settings import Sampling, Settings
from rejoinder.providers.structured import NAME

if TYPE_CHECKING:
    from rejoinder.providers.http_api import ApiProvider
    from rejoinder.providers.local_server import LocalServer
    from rejoinder.providers.shared import Exchange

SLOTS, CONTEXT, MOST_TOKENS = 4, 2048, 256
"""Conversations at the same time, tokens of one, and tokens of a reply if the target does not say."""
LARGEST = (1 << 31) - 1
"""Above it llama.cpp's numbers overflow."""


@lru_cache(maxsize=1)
def is_installed() -> bool:
    """Whether llama.cpp is installed, without importing it."""
    from importlib.util import find_spec

    return find_spec("xllamacpp") is not None


class LocalProvider:
    outside = False
    limiter = None

    def __init__(
        self, target: Target, folders: tuple[str, ...], environment: Mapping[str, str], exchange: Exchange
    ) -> None:
        if not is_installed():
            from rejoinder.installing import install_hint

            message = f"target `{target.name}` needs the package xllamacpp, which is not installed"
            raise UsageError(message, install_hint("local"))
        self._settings = settings = Settings(target, environment)
        self._path = find_weights(settings, folders)
        self._exchange = exchange
        self._sampling = _sampling(settings)
        self._name = settings.text("model") or DEFAULT
        self._providers: dict[bool, ApiProvider] = {}

    async def reply(self, request: Request) -> Reply:
        return await self.reply_within(request, None)

    async def reply_within(self, request: Request, timeout_s: float | None) -> Reply:
        if any(message.tool_calls or message.role == "tool" for message in request.messages):
            message = "the local model does not support tools, and this conversation has some"
            raise ProviderError(message, type="request")
        server = self._server(embeds=request.embed is not None)
        async with server.room:
            provider = self._provider(server, await server.address(), embeds=request.embed is not None)
            try:
                reply = await provider.reply_within(request, timeout_s)
            except ProviderError as error:
                if error.type == "timeout":
                    await server.end_if_stuck()
                if error.status is None and await server.has_ended():
                    what = "the process of the local model ended during a call; it is started again"
                    raise ProviderError(what, type="local-model", retryable=True) from error
                raise
        return structs.replace(reply, cost=0.0)

    def _server(self, *, embeds: bool) -> LocalServer:
        from rejoinder.providers.local_server import Loading, LocalServer

        values, path = self._settings.values, self._path
        loading = Loading(
            path=str(path),
            name=self._name,
            slots=self._settings.target.workers or SLOTS,
            context=int(values.get("context") or CONTEXT),
            threads=int(values.get("threads") or 1),
            embeds=embeds,
            pooling=self._settings.text("pooling") if embeds else None,
        )
        return self._exchange.shared(loading, lambda: LocalServer(loading))

    def _provider(self, server: LocalServer, address: str, *, embeds: bool) -> ApiProvider:
        """A provider for the server's current address, which changes when it restarts. The server speaks OpenAI's
        format."""
        provider = self._providers.get(embeds)
        if provider is None or provider.address != address:
            provider = self._providers[embeds] = self._opened(server, address)
        return provider

    def _opened(self, server: LocalServer, address: str) -> ApiProvider:
        from rejoinder.providers.http_api import ApiProvider, Wires
        from rejoinder.providers.openai_chat import OpenAiChat, OpenAiEmbeddings

        class Seeded(OpenAiChat):
            """Gives each trial and turn its own seed; otherwise all repeats would be equal."""

            def parameters(self, request: Request) -> dict[str, Any]:
                return {**own_form, **super().parameters(request), "seed": _seed(seed, request)}

        seed = self._sampling.seed or 0
        name, own_form = self._name, _answer_form(self._settings)
        wire = Seeded(f"{address}/v1/chat/completions", name, self._sampling, _same_numbers(self._settings))
        embeddings = OpenAiEmbeddings(f"{address}/v1/embeddings", name, {})
        provider = ApiProvider(
            "the local model",
            Wires(wire, embeddings),
            self._exchange.transport({}),  # no proxy in between
            self._exchange.limiter("local", address, None),
            {"content-type": "application/json", "authorization": f"Bearer {server.key}"},
        )
        provider.address = address
        return provider

    def foresee(self, request: Request) -> Usage:
        """The maximum usage: no token is shorter than a byte, and roles and the template's system text need
        some more."""
        sent = sum(len(message.content.encode()) + 16 for message in request.messages) + len(request.embed or "") + 64
        context = int(self._settings.values.get("context") or CONTEXT)
        return Usage(min(sent, context), 0 if request.embed is not None else self._sampling.max_output_tokens or 0)

    async def close(self) -> None:
        pass  # targets share the process


def _sampling(settings: Settings) -> Sampling:
    sampling = settings.sampling("reasoning_effort", "thinking_budget", why="the local model")
    most = sampling.max_output_tokens
    return structs.replace(
        sampling,
        temperature=sampling.temperature or 0.0,
        # A small model repeats itself without end.
        max_output_tokens=MOST_TOKENS if most is None else max(1, min(most, LARGEST)),
    )


def _seed(seed: int, request: Request) -> int:
    """A separate seed for each trial and turn, each vote of a judge, and each control."""
    ordinal = request.key.rpartition("-")[2]
    return crc32(f"{seed} {request.trial} {request.turn} {request.kind} {ordinal}".encode()) & LARGEST


def _same_numbers(settings: Settings) -> dict[str, Any]:
    """If equal replies are required, nothing is reused from earlier calls: a prompt that is processed in other pieces
    gives numbers that differ in their last digits."""
    is_alone = settings.values.get("seed") is not None and settings.target.workers == 1
    return {"cache_prompt": False} if is_alone else {}


def _answer_form(settings: Settings) -> dict[str, Any]:
    """All output constrained by a JSON Schema, unless a request has one of its own."""
    schema = settings.values.get("json_schema")
    if schema is None:
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": NAME, "schema": schema}}}
