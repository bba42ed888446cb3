"""The providers: one row each. Their code is in `rejoinder/providers/` and is imported when a target needs it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from rejoinder.model.pictures import PICTURE_TYPES, PictureType


class Traits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Properties of a provider that the rest of the program uses. A plug-in may declare the same."""

    local: bool = False
    """Answers come from this machine and cost nothing: no network, no key."""
    at_once: bool = False
    """Answers take no time, so there is no timeout, and nothing to time."""
    billed: bool = False
    """Calls are paid by tokens, at the prices of the price table."""
    counted: bool = True
    """Answers use tokens, which count against a budget."""
    over_http: bool = False
    runs_code: bool = False
    """Runs the project's own code, which `--no-code` refuses."""
    replies: bool = True
    """Answers messages with a text."""
    takes_tools: bool = False
    """Can be offered tools, and calls them."""
    structured: bool = False
    """Can be given a JSON Schema that its replies have to satisfy."""
    embeds: bool = False
    """Turns a text into a vector. An OpenAI-compatible server may still have no model for it."""
    pictures: tuple[PictureType, ...] = ()
    """The types of pictures that it takes in messages. A model may still see none."""


class ProviderInfo(Traits, frozen=True, kw_only=True):
    opens: str = ""
    """`module:callable` inside `rejoinder.providers`; empty: a plug-in's. The callable takes the target, the folders
    that relative paths start from, the environment and what the providers of a run share."""
    also: tuple[str, ...] = ()
    """Its other names in suites."""
    needs: tuple[tuple[str, ...], ...] = ()
    """Required settings; one of each group is enough."""
    addresses: tuple[str, ...] = ()
    """Settings for its address, if it has no usual one."""
    cached: bool = False
    """An LLM API: at its vendor's address an equal request has the same meaning tomorrow, so `--cache` answers it.
    Other providers, and servers at other addresses, are code that changes behind one address or name, and are always
    asked, unless a target has `cache: true`."""
    keyless: bool = False
    names_code: bool = False
    """Whether its settings name code of the project, which is located without running it."""
    in_process: bool = False
    """Calls a Python function of the project, which its setting `call` names, in this process."""
    agent: bool = False
    """Reads a text transcript and opens files itself."""
    workspaces: bool = False
    """Whether each conversation has a folder to work in, which checks can read."""
    workers: int | None = None
    """Maximum simultaneous conversations, if the target cannot set it."""
    recorded: bool = False
    """Answers with conversations that already happened, and so only cases that have one."""
    ready: bool = False
    """Its name is also a target, which does not need a definition."""
    price_table: str = ""
    """Its name in the table of genai-prices."""


_AGENT = ProviderInfo(
    opens="agents.provider:AgentProvider",
    agent=True,
    workspaces=True,
    runs_code=True,
    ready=True,
    pictures=PICTURE_TYPES,
)
_API = ProviderInfo(
    opens="vendors:open_api",
    billed=True,
    over_http=True,
    takes_tools=True,
    structured=True,
    embeds=True,
    cached=True,
    needs=(("model",),),
    pictures=PICTURE_TYPES,
)

PROVIDERS = {
    "openai": replace(_API, price_table="openai"),
    "openrouter": replace(_API, price_table="openrouter"),
    "ollama": replace(_API, keyless=True),
    "vllm": replace(_API, keyless=True),
    "lmstudio": replace(_API, keyless=True),
    "groq": replace(_API, price_table="groq"),
    "mistral": replace(_API, price_table="mistral"),
    "deepseek": replace(_API, structured=False, price_table="deepseek", pictures=()),
    "xai": replace(_API, price_table="x-ai", pictures=("png", "jpeg")),
    "together": replace(_API, price_table="together"),
    "local": ProviderInfo(opens="local:LocalProvider", local=True, structured=True, embeds=True),
    "scripted": ProviderInfo(
        opens="scripted:ScriptedProvider",
        local=True,
        at_once=True,
        takes_tools=True,
        structured=True,
        embeds=True,
        pictures=PICTURE_TYPES,
    ),
    "python": ProviderInfo(
        opens="python_target:open_function",
        structured=True,
        runs_code=True,
        names_code=True,
        in_process=True,
        needs=(("call",),),
        pictures=PICTURE_TYPES,
    ),
    "mock": ProviderInfo(opens="scripted:MockProvider", local=True, at_once=True, pictures=PICTURE_TYPES),
    "wordllama": ProviderInfo(
        opens="wordllama:WordLlamaProvider",
        local=True,
        at_once=True,
        counted=False,
        replies=False,
        embeds=True,
        ready=True,
    ),
    "replay": ProviderInfo(
        opens="replay:ReplayProvider",
        local=True,
        at_once=True,
        counted=False,
        takes_tools=True,
        structured=True,
        embeds=True,
        needs=(("cassettes",),),
        pictures=PICTURE_TYPES,
    ),
    "transcript": ProviderInfo(
        opens="transcript:TranscriptProvider",
        local=True,
        at_once=True,
        counted=False,
        needs=(("file",),),
        recorded=True,
        pictures=PICTURE_TYPES,
    ),
    "azure": replace(
        _API,
        needs=(("deployment", "deploymentName", "model"),),
        price_table="azure",
        also=("azure-openai",),
        addresses=("endpoint", "resource", "resourceName"),
    ),
    "anthropic": replace(_API, needs=(("model", "deployment", "variant"),), embeds=False, price_table="anthropic"),
    "gemini": replace(
        _API,
        needs=(),
        price_table="google",
        also=("google", "google-gemini"),
        pictures=("png", "jpeg", "webp"),
    ),
    "http": replace(
        _API, needs=(("url",),), takes_tools=False, structured=False, embeds=False, cached=False, keyless=True
    ),
    "cli": ProviderInfo(
        opens="cli:CliProvider",
        agent=True,
        runs_code=True,
        names_code=True,
        needs=(("command_template", "commandTemplate", "command"),),
        pictures=PICTURE_TYPES,
    ),
    "acp": replace(_AGENT, needs=(("command",),), ready=False),
    "claude": replace(_AGENT, also=("claude-cli", "claude-code")),
    "codex": replace(_AGENT, also=("codex-cli",)),
    "pi": replace(_AGENT, also=("pi-cli",)),
    "gemini-cli": _AGENT,
    "opencode": _AGENT,
    "copilot": replace(_AGENT, also=("copilot-cli",)),
    "claude-acp": _AGENT,
    "codex-acp": _AGENT,
    "vscode": replace(_AGENT, workers=1),
    "vscode-insiders": replace(_AGENT, workers=1),
}

PROVIDER_NAMES = {written: name for name, info in PROVIDERS.items() for written in (name, *info.also)}
"""Every name of a provider, mapped to ours."""

KEY_VARIABLES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
    "azure": ("AZURE_OPENAI_API_KEY",),
}
"""The environment variables that can hold a vendor's key, in order of precedence."""

READY_NAMES = {"gemini": "gemini-cli"}
"""Targets that need no definition and whose name differs from their provider's: `gemini/MODEL` is Google's API."""


CALLABLE = "callable"
"""The provider of a target that a program gave as a Python object. No file can name it."""


def row_of(provider: str) -> ProviderInfo:
    """The known properties of a provider, without running third-party code: none for a plug-in."""
    return PROVIDERS.get(provider) or ProviderInfo()


def list_providers(*, embeds: bool = False, shows: bool = False) -> str:
    """The providers of this version, for a message; `embeds`: only providers with embeddings; `shows`: only those that
    take pictures."""
    chosen = ((name, info) for name, info in PROVIDERS.items() if (info.embeds or not embeds))
    return ", ".join(sorted(name for name, info in chosen if info.pictures or not shows))
