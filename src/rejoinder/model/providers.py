"""What providers are: one row each. Their code is in `rejoinder/providers/` and is imported when a target needs it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Traits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the rest of the program needs to know of a provider. A plug-in may declare the same."""

    local: bool = False
    """Answers come from this machine and cost nothing: no network, no key."""
    at_once: bool = False
    """Answers take no time, so there is no timeout, nothing to keep in the cache, and nothing to time."""
    billed: bool = False
    """Calls are paid by tokens, at the prices of the price table."""
    counted: bool = True
    """Answers use tokens, which count against a budget."""
    over_http: bool = False
    runs_code: bool = False
    """Runs the project's own code, which `--no-code` refuses."""
    replies: bool = True
    """Answers messages with a text."""
    embeds: bool = False
    """Turns a text into a vector. A server that resembles OpenAI's may still have no model for it."""


class ProviderInfo(Traits, frozen=True, kw_only=True):
    opens: str = ""
    """`module:callable` inside `rejoinder.providers`; empty: known, but this version cannot run it. The callable takes
    the target, the folders that relative paths start from, the environment and what the providers of a run share."""
    also: tuple[str, ...] = ()
    """Its other names in suites."""
    needs: tuple[tuple[str, ...], ...] = ()
    """Settings that it cannot do without; one of each group is enough."""
    addresses: tuple[str, ...] = ()
    """Settings for its address, where it has no usual one."""
    keyless: bool = False
    in_process: bool = False
    """Calls a Python function of the project, which its setting `call` names, in this process."""
    agent: bool = False
    """Reads a text transcript and opens files itself."""
    ready: bool = False
    """Its name is a target, too, which no file needs to define."""
    price_table: str = ""
    """Its name in the table of genai-prices."""


_API = ProviderInfo(opens="vendors:open_api", billed=True, over_http=True, embeds=True, needs=(("model",),))

PROVIDERS = {
    "openai": replace(_API, price_table="openai"),
    "openrouter": replace(_API, price_table="openrouter"),
    "ollama": replace(_API, keyless=True),
    "vllm": replace(_API, keyless=True),
    "lmstudio": replace(_API, keyless=True),
    "groq": replace(_API, price_table="groq"),
    "mistral": replace(_API, price_table="mistral"),
    "deepseek": replace(_API, price_table="deepseek"),
    "xai": replace(_API, price_table="x-ai"),
    "together": replace(_API, price_table="together"),
    "local": ProviderInfo(opens="local:LocalProvider", local=True, embeds=True),
    "scripted": ProviderInfo(opens="scripted:ScriptedProvider", local=True, at_once=True, embeds=True),
    "python": ProviderInfo(opens="python_target:open_function", runs_code=True, in_process=True, needs=(("call",),)),
    "mock": ProviderInfo(opens="scripted:MockProvider", local=True, at_once=True),
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
        opens="replay:ReplayProvider", local=True, at_once=True, counted=False, embeds=True, needs=(("cassettes",),)
    ),
    "azure": replace(
        _API,
        needs=(("deployment", "deploymentName", "model"),),
        price_table="azure",
        also=("azure-openai",),
        addresses=("endpoint", "resource", "resourceName"),
    ),
    "anthropic": replace(_API, needs=(("model", "deployment", "variant"),), embeds=False, price_table="anthropic"),
    "gemini": replace(_API, needs=(), price_table="google", also=("google", "google-gemini")),
    "http": replace(_API, needs=(("url",),), embeds=False, keyless=True),
    "cli": ProviderInfo(
        opens="cli:CliProvider",
        agent=True,
        runs_code=True,
        needs=(("command_template", "commandTemplate", "command"),),
    ),
    "codex": ProviderInfo(agent=True, also=("codex-cli",)),
    "vscode": ProviderInfo(agent=True),
    "vscode-insiders": ProviderInfo(agent=True),
}

PROVIDER_NAMES = {written: name for name, info in PROVIDERS.items() for written in (name, *info.also)}
"""Every name of a provider, and the one we call it by."""


def row_of(provider: str) -> ProviderInfo:
    """What is known of a provider without running code of others: of a plug-in, nothing."""
    return PROVIDERS.get(provider) or ProviderInfo()


def list_providers(*, embeds: bool = False) -> str:
    """The providers that this version runs, for a message; `embeds`: those that give embeddings."""
    return ", ".join(sorted(name for name, info in PROVIDERS.items() if info.opens and (info.embeds or not embeds)))
