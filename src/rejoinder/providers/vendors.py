"""Vendors: wire format, address and key of each, and the functions that open providers over HTTP.

A setting of the target wins, then the environment (with `.env` files), then the vendor's own address. The module of a
wire format is imported when a target uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct

from rejoinder.errors import MissingKey, UsageError
from rejoinder.model import Target
from rejoinder.model.providers import KEY_VARIABLES, row_of
from rejoinder.project.files import CERTIFICATE_SETTING as SETTING
from rejoinder.project.files import certificate_files, find_certificate
from rejoinder.project.files import explain_missing_certificate as explain_missing
from rejoinder.providers.http_api import EMPTY, ApiProvider, Wire, Wires
from rejoinder.providers.settings import Settings
from rejoinder.providers.shared import Exchange
from rejoinder.providers.tls import ClientCertificate

AZURE_VERSION = "2024-12-01-preview"
GEMINI_MODEL = "gemini-2.5-flash"


class Vendor(Struct, frozen=True, kw_only=True):
    """An address and the variables of the environment that change it or hold its key."""

    address: str
    keys: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    limit_field: str = "max_tokens"
    """The name of the field that limits the tokens of an answer."""
    host_variable: str | None = None
    """A variable with a host, or a host and a port, or an address without the API's path."""
    organizations: tuple[str, ...] = ()
    """Variables that name the organization."""
    empty: str = ""
    """Replaces an assistant's empty text if the API refuses one."""


_CHAT_VENDORS = {
    "openai": Vendor(
        address="https://api.openai.com/v1",
        keys=KEY_VARIABLES["openai"],
        addresses=("OPENAI_BASE_URL",),
        limit_field="max_completion_tokens",
        organizations=("OPENAI_ORG_ID",),
    ),
    "openrouter": Vendor(
        address="https://openrouter.ai/api/v1", keys=KEY_VARIABLES["openrouter"], addresses=("OPENROUTER_BASE_URL",)
    ),
    "groq": Vendor(address="https://api.groq.com/openai/v1", keys=KEY_VARIABLES["groq"], addresses=("GROQ_BASE_URL",)),
    "mistral": Vendor(
        address="https://api.mistral.ai/v1", keys=KEY_VARIABLES["mistral"], addresses=("MISTRAL_BASE_URL",), empty=EMPTY
    ),
    "deepseek": Vendor(
        address="https://api.deepseek.com/v1", keys=KEY_VARIABLES["deepseek"], addresses=("DEEPSEEK_BASE_URL",)
    ),
    "xai": Vendor(address="https://api.x.ai/v1", keys=KEY_VARIABLES["xai"], addresses=("XAI_BASE_URL",)),
    "together": Vendor(
        address="https://api.together.xyz/v1", keys=KEY_VARIABLES["together"], addresses=("TOGETHER_BASE_URL",)
    ),
    # Servers on one's own machine: they need no key.
    "ollama": Vendor(address="http://127.0.0.1:11434/v1", addresses=("OLLAMA_BASE_URL",), host_variable="OLLAMA_HOST"),
    "vllm": Vendor(address="http://127.0.0.1:8000/v1", addresses=("VLLM_BASE_URL",)),
    "lmstudio": Vendor(address="http://127.0.0.1:1234/v1", addresses=("LMSTUDIO_BASE_URL",)),
}
_ANTHROPIC = Vendor(
    address="https://api.anthropic.com", keys=KEY_VARIABLES["anthropic"], addresses=("ANTHROPIC_BASE_URL",)
)
_GEMINI = Vendor(
    address="https://generativelanguage.googleapis.com",
    keys=KEY_VARIABLES["gemini"],
    addresses=("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
)
_AZURE = Vendor(
    address="",
    keys=KEY_VARIABLES["azure"],
    addresses=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_RESOURCE_NAME"),
)
_PUBLIC_HOSTS = (
    *("*.api.openai.com", "api.fireworks.ai", "api.cerebras.ai", "api.deepinfra.com", "api.perplexity.ai"),
    *("api.moonshot.ai", "dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "router.huggingface.co"),
    *("*.openai.azure.com", "*.cognitiveservices.azure.com", "*.services.ai.azure.com", "models.github.ai"),
    "bedrock-runtime.*.amazonaws.com",
)
"""Patterns of hosts of other public LLM APIs, beside the vendors' own."""
_AZURE_VERSIONS = ("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")


def open_api(
    target: Target, folders: tuple[str, ...], environment: Mapping[str, str], exchange: Exchange
) -> ApiProvider:
    """The provider of a target that answers over HTTP. Raises UsageError if something is missing."""
    settings = Settings(target, environment)
    exchange.secret_finder.add_settings(f"target {target.name}", settings.values)
    return _OPENERS[target.provider](_Opening(settings, exchange, folders))


def address_variables(provider: str) -> tuple[str, ...]:
    """The variables that can hold a provider's address; the first one that is set wins."""
    vendor = {**_CHAT_VENDORS, "anthropic": _ANTHROPIC, "gemini": _GEMINI, "azure": _AZURE}.get(provider)
    if vendor is None:
        return ()
    return (*vendor.addresses, *([vendor.host_variable] if vendor.host_variable else []))


def is_public_api(address: str) -> bool:
    """Whether a public LLM API answers at an address: a vendor's own, or another known one. At any other address a
    program of the user's can answer, which changes behind it."""
    vendors = (*_CHAT_VENDORS.values(), _ANTHROPIC, _GEMINI)
    hosts = {urlsplit(vendor.address).hostname for vendor in vendors if vendor.keys}
    try:
        parts = urlsplit(address)
    except ValueError:  # the first call reports it
        return False
    host = parts.hostname or ""
    return parts.scheme == "https" and (host in hosts or any(fnmatchcase(host, known) for known in _PUBLIC_HOSTS))


def is_of_vendor(target: Target, environment: Mapping[str, str]) -> bool:
    """Whether a public LLM API answers for a target, as far as its settings and the environment say."""
    opening = _Opening(Settings(target, environment), Exchange(), ())
    try:
        return row_of(target.provider).cached and is_public_api(opening.address() or "")
    except UsageError:
        return False


def can_be_asked(provider: str, environment: Mapping[str, str]) -> bool:
    """Whether the environment holds everything that the provider needs, above all its key."""
    if not row_of(provider).over_http:
        return False
    try:
        open_api(Target(name=provider, provider=provider, settings={"model": "any"}), (), environment, Exchange())
    except UsageError:
        return False
    return True


class _Opening:
    """A target on its way to a provider."""

    def __init__(self, settings: Settings, exchange: Exchange, folders: tuple[str, ...]) -> None:
        self.settings = settings
        self.exchange = exchange
        self.folders = folders
        self.name = settings.target.provider
        self.key_name: str | None = None

    def chat(self) -> ApiProvider:
        from rejoinder.providers.openai_chat import OpenAiChat, OpenAiEmbeddings

        vendor, settings = _CHAT_VENDORS[self.name], self.settings
        address, key = self._address(vendor), self._key(vendor)
        model, extra = settings.needed("model"), settings.mapping("extra_body")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        organization = settings.text("organization") or settings.from_environment(vendor.organizations)
        if organization:
            headers["OpenAI-Organization"] = organization
        if settings.text("api") == "responses":
            sampling = settings.sampling("seed", "stop", "thinking_budget", why="the responses API")
            from rejoinder.providers.openai_responses import OpenAiResponses

            wire: Wire = OpenAiResponses(f"{address}/responses", model, sampling, extra)
        else:
            sampling = settings.sampling("thinking_budget", why="the chat completions API")
            url = f"{address}/chat/completions"
            wire = OpenAiChat(url, model, sampling, extra, limit_field=vendor.limit_field, empty=vendor.empty)
        embeddings = OpenAiEmbeddings(f"{address}/embeddings", model, extra)
        return self._provider(wire, address, key, headers, embeddings)

    def address(self) -> str | None:
        """The address of the vendor's API, or the one that replaces it; None if the target has no such address."""
        if self.name == "azure":
            return self._endpoint()
        vendor = {**_CHAT_VENDORS, "anthropic": _ANTHROPIC, "gemini": _GEMINI}.get(self.name)
        return None if vendor is None else self._address(vendor)

    def _endpoint(self) -> str | None:
        endpoint = self.settings.text("endpoint") or self.settings.from_environment(_AZURE.addresses)
        if endpoint is None or "://" in endpoint:
            return endpoint
        return f"https://{endpoint}" if "." in endpoint else f"https://{endpoint}.openai.azure.com"

    def azure(self) -> ApiProvider:
        from rejoinder.providers.openai_chat import OpenAiChat, OpenAiEmbeddings

        settings = self.settings
        endpoint = self._endpoint()
        if endpoint is None:
            hint = "Write it in the target, or set AZURE_OPENAI_ENDPOINT."
            raise MissingKey(f"target `{settings.target.name}` needs an `endpoint`", hint, _AZURE.addresses[:1])
        address = endpoint.rstrip("/").removesuffix("/v1").removesuffix("/openai")
        key = None if settings.values.get("auth") else self._needed_key(_AZURE.keys)
        deployment = settings.text("deployment") or settings.needed("model")
        version = settings.text("version") or settings.from_environment(_AZURE_VERSIONS) or AZURE_VERSION
        place, query = f"{address}/openai/deployments/{quote(deployment, safe='')}", f"?api-version={version}"
        if version == "v1":
            place, query = f"{address}/openai/v1", ""
        sampling = settings.sampling("thinking_budget", why="the chat completions API")
        url, extra = f"{place}/chat/completions{query}", settings.mapping("extra_body")
        wire = OpenAiChat(url, deployment, sampling, extra, limit_field="max_completion_tokens")
        embeddings = OpenAiEmbeddings(f"{place}/embeddings{query}", deployment, extra)
        return self._provider(wire, address, key, {"api-key": key} if key else {}, embeddings)

    def anthropic(self) -> ApiProvider:
        from rejoinder.providers.anthropic import VERSION, AnthropicMessages

        settings = self.settings
        address, key = self._address(_ANTHROPIC).removesuffix("/v1"), self._key(_ANTHROPIC)
        model = settings.text("model") or settings.needed("deployment")
        sampling = settings.sampling("seed", why="Anthropic's API")
        budget, most = sampling.thinking_budget, sampling.max_output_tokens
        if budget and most is not None and most <= budget:
            hint = "The budget counts against the limit; leave room for the answer."
            raise settings.error(f"has max_output_tokens {most}, no more than its thinking_budget {budget}", hint)
        wire = AnthropicMessages(f"{address}/v1/messages", model, sampling, settings.mapping("extra_body"))
        headers = {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}
        return self._provider(wire, address, key, headers)

    def gemini(self) -> ApiProvider:
        from rejoinder.providers.gemini import GeminiContent, GeminiEmbeddings

        settings = self.settings
        address, key = self._address(_GEMINI).removesuffix("/v1beta"), self._key(_GEMINI)
        model = settings.text("model") or settings.text("deployment") or GEMINI_MODEL
        name = model if "/" in model else f"models/{model}"  # a model of one's own is `tunedModels/...`
        url, extra = f"{address}/v1beta/{quote(name, safe='/')}", settings.mapping("extra_body")
        wire = GeminiContent(f"{url}:generateContent", settings.sampling(), extra)
        embeddings = GeminiEmbeddings(f"{url}:batchEmbedContents", name, extra)
        return self._provider(wire, address, key, {"x-goog-api-key": key} if key else {}, embeddings)

    def http(self) -> ApiProvider:
        from rejoinder.providers.http import ServiceProvider, TemplatedHttp

        wire = TemplatedHttp(self.settings)
        return self._provider(wire, self.settings.needed("url"), None, {}, kind=ServiceProvider)

    def _provider(
        self,
        wire: Wire,
        address: str,
        key: str | None,
        headers: dict[str, str],
        embeddings: Wire | None = None,
        *,
        kind: type[ApiProvider] = ApiProvider,
    ) -> ApiProvider:
        settings = self.settings
        more: dict[str, Any] = settings.mapping("headers") if kind is ApiProvider else {}
        statuses = settings.values.get("retry_status_codes")
        provider = kind(
            self.name,
            Wires(wire, embeddings),
            self.exchange.transport(settings.environment, self._client_certificate()),
            self.exchange.limiter(self.name, address, key),
            _one_case({"content-type": "application/json", **headers}, more),
            None if statuses is None else frozenset(statuses),
            self.key_name,
        )
        provider.address, provider.is_public = address, is_public_api(address)
        if settings.values.get("auth"):
            from rejoinder.providers.own_token import open_token

            provider.token = open_token(settings.target, self.folders or (".",), self.exchange)
        return provider

    def _client_certificate(self) -> ClientCertificate | None:
        value = self.settings.values.get(SETTING)
        files = certificate_files(value)
        if not files:
            return None
        paths: list[str] = []
        for written in files.values():
            path = find_certificate(written, self.folders)
            if path is None:
                raise self.settings.error(f"lacks a file: {explain_missing(written, self.folders)}")
            paths.append(str(path))
        password = value.get("password") if isinstance(value, dict) else None
        certificate = ClientCertificate(paths[0], paths[1] if len(paths) > 1 else None, password)
        try:
            certificate.check()
        except OSError as error:  # of OpenSSL
            hint = "It has to hold a certificate and its private key in PEM; `key` names another file for the key, and"
            what = f"has a `{SETTING}` that cannot be used ({paths[0]}: {error.strerror or error})"
            raise self.settings.error(what, f"{hint} `password` opens an encrypted one.") from None
        return certificate

    def _address(self, vendor: Vendor) -> str:
        given = self.settings.text("base_url") or self.settings.from_environment(vendor.addresses)
        if given is None and vendor.host_variable is not None:
            given = _from_host(self.settings.from_environment((vendor.host_variable,)), vendor.address)
        if given is None:
            return vendor.address
        if not given.startswith(("http://", "https://")):
            shown = given.rpartition("@")[2].partition("?")[0]  # the text before and after it may be secret
            what = f"has the address `{shown}`, which begins with neither http:// nor https://"
            raise self.settings.error(what, f"Write it out: https://{shown.partition('://')[2] or shown}")
        return given.rstrip("/")

    def _key(self, vendor: Vendor) -> str | None:
        """The key; a server at the user's own address may need none, and a token replaces it."""
        if self.settings.values.get("auth"):
            return None
        if self._address(vendor) == vendor.address and vendor.keys:
            return self._needed_key(vendor.keys)
        return self._find_key(vendor.keys)

    def _needed_key(self, names: tuple[str, ...]) -> str:
        key = self._find_key(names)
        if key is None:
            hint = f"Set {names[0]} in the environment or in a .env file, or write `api_key: ${{{{ VARIABLE }}}}`."
            raise MissingKey(f"target `{self.settings.target.name}` has no key", hint, names[:1])
        return key

    def _find_key(self, names: tuple[str, ...]) -> str | None:
        key = self.settings.text("api_key")
        where = f"api_key of target {self.settings.target.name}"
        if key is None:
            key = self.settings.from_environment(names)
            where = next((f"env {name}" for name in names if self.settings.environment.get(name, "").strip()), where)
        if key is not None:
            if not key.isprintable() or not key.isascii():
                raise self.settings.error("has a key with characters that cannot be sent", f"Look at {where}.")
            self.exchange.secret_finder.add(key, where)
            self.key_name = where.removeprefix("env ") if where.startswith("env ") else where
        return key


def _from_host(host: str | None, usual: str) -> str | None:
    """The address of a server whose host is written as for Ollama: `gpu-box`, `:8080`, `0.0.0.0`, `http://gpu-box`."""
    if host is None:
        return None
    scheme, mark, rest = host.rstrip("/").partition("://")
    scheme, rest = (scheme, rest) if mark else ("http", scheme)
    place, slash, path = rest.partition("/")
    name, colon, port = place.rpartition(":") if ":" in place and not place.endswith("]") else (place, "", "")
    name = "127.0.0.1" if name in ("", "0.0.0.0") else name  # where a server listens on all, we ask on our own
    port = port if colon else str(urlsplit(usual).port)
    return f"{scheme}://{name}:{port}/{path if slash else urlsplit(usual).path.lstrip('/')}"


def _one_case(headers: Mapping[str, str], more: Mapping[str, Any]) -> dict[str, str]:
    """Header names in lower case, so that the target's headers replace ours however they are written."""
    return {name.lower(): str(value) for name, value in (*headers.items(), *more.items())}


_OPENERS: dict[str, Callable[[_Opening], ApiProvider]] = {
    **dict.fromkeys(_CHAT_VENDORS, _Opening.chat),
    "azure": _Opening.azure,
    "anthropic": _Opening.anthropic,
    "gemini": _Opening.gemini,
    "http": _Opening.http,
}
