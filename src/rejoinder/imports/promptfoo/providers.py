"""Providers of promptfoo as targets: a table of their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from rejoinder.imports.promptfoo.shims import Shims
from rejoinder.imports.promptfoo.words import Lost, slug, whole
from rejoinder.imports.sources import Spot
from rejoinder.imports.texts import literal
from rejoinder.imports.workbench import Workbench
from rejoinder.yaml_text import Comment, Commented

Target = dict[Any, Any]


class Vendor(Struct, frozen=True):
    """A provider of rejoinder, in place of a provider of promptfoo."""

    provider: str
    kinds: tuple[str, ...] = ("",)
    """The words between the provider and the model; the first one that is written is left out."""
    settings: Target = {}
    base_url: str | None = None


_CHAT = ("chat", "completion", "")
_VENDORS: dict[str, Vendor] = {
    "openai": Vendor("openai", ("chat", "responses", "embedding", "embeddings", "")),
    "anthropic": Vendor("anthropic", ("messages", "completion", "")),
    "google": Vendor("gemini"),
    "azure": Vendor("azure", ("chat", "embedding", "embeddings", "")),
    "azureopenai": Vendor("azure", ("chat", "embedding", "embeddings", "")),
    "mistral": Vendor("mistral", ("embedding", "")),
    "groq": Vendor("groq", _CHAT),
    "xai": Vendor("xai", _CHAT),
    "ollama": Vendor("ollama", ("chat", "completion", "embeddings", "")),
    "openrouter": Vendor("openrouter", _CHAT),
    "deepseek": Vendor("deepseek", _CHAT),
    "togetherai": Vendor("together", _CHAT),
    "perplexity": Vendor("openai", base_url="https://api.perplexity.ai"),
    "cerebras": Vendor("openai", base_url="https://api.cerebras.ai/v1"),
    "fireworks": Vendor("openai", base_url="https://api.fireworks.ai/inference/v1"),
    "hyperbolic": Vendor("openai", base_url="https://api.hyperbolic.xyz/v1"),
    "nscale": Vendor("openai", base_url="https://inference.api.nscale.com/v1"),
    "nvidia": Vendor("openai", base_url="https://integrate.api.nvidia.com/v1"),
    "github": Vendor("openai", base_url="https://models.github.ai/inference"),
    "moonshot": Vendor("openai", base_url="https://api.moonshot.ai/v1"),
    "llamaapi": Vendor("openai", base_url="https://api.llama.com/compat/v1"),
}
_KEYS_OF = {
    "perplexity": "PERPLEXITY_API_KEY",
    "cerebras": "CEREBRAS_API_KEY",
    "fireworks": "FIREWORKS_API_KEY",
    "hyperbolic": "HYPERBOLIC_API_KEY",
    "nscale": "NSCALE_SERVICE_TOKEN",
    "nvidia": "NVIDIA_API_KEY",
    "github": "GITHUB_TOKEN",
    "moonshot": "MOONSHOT_API_KEY",
    "llamaapi": "LLAMA_API_KEY",
}
_OTHER_WORKS = (
    "image",
    "video",
    "audio",
    "realtime",
    "moderation",
    "assistant",
    "tts",
    "speech",
    "transcription",
    "live",
    "agents",
    "chatkit",
)
"""Kinds of models that do not answer messages with a text."""
_AGENTS = {"claude-agent-sdk": "claude", "claude-code": "claude", "codex-sdk": "codex", "codex-app-server": "codex"}
"""Coding agents, by the target that is one here."""
_SETTINGS = {
    "temperature": "temperature",
    **dict.fromkeys(
        ("max_tokens", "maxTokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"),
        "max_output_tokens",
    ),
    **dict.fromkeys(("top_p", "topP"), "top_p"),
    "seed": "seed",
    "stop": "stop",
    "headers": "headers",
    "apiBaseUrl": "base_url",
    "apiKey": "api_key",
    "systemInstruction": "system_prompt",
    "maxRetries": "max_retries",
}
_BODY = frozenset(
    (
        *("tools", "tool_choice", "toolChoice", "functions", "function_call", "parallel_tool_calls", "response_format"),
        *("presence_penalty", "frequency_penalty", "reasoning_effort", "reasoning", "verbosity", "text", "thinking"),
        *(
            "instructions",
            "metadata",
            "store",
            "service_tier",
            "top_k",
            "modalities",
            "generationConfig",
            "safetySettings",
        ),
        *("search_parameters", "web_search_options", "include", "background", "truncation", "user", "effort", "betas"),
        *("toolConfig", "min_p", "repetition_penalty", "logit_bias", "logprobs", "top_logprobs", "output_config"),
    )
)
"""Settings that are parts of the request, and sent unchanged."""
_OF_THE_PROGRAM = frozenset({"showThinking", "cost", "inputCost", "outputCost", "basePath", "cache", "debug", "stream"})
"""Settings that change nothing in the request."""
_MARKS = re.compile(r"(?<!\$)\{\{-?\s*(?:(\w+)\s*((?:\|[^{}]*)?)|[^{}]*)-?\}\}|\{%.*?%\}", re.DOTALL)
"""A variable of a request with its filters, or any other expression or tag."""
_SCRIPT = re.compile(r"(?!/)(?!.*\.\.)[\w./-]+\.(?:[cm]?[jt]s|py|rb|sh)")
_VARIABLE = re.compile(r"\{\{\s*env\.(\w+)\s*\}\}|\{\{\s*env\[['\"](\w+)['\"]\]\s*\}\}")


class Targets:
    """The targets of one configuration."""

    def __init__(self, bench: Workbench, shims: Shims, constants: Mapping[str, str]) -> None:
        """`constants`: variables that all cases have with the same text."""
        self._bench = bench
        self.constants = constants
        self._shims = shims
        self._names: set[str] = set()
        self.written: list[Any] = []
        """Definitions and comments, as `targets` of the suite has them."""
        self.answering: list[str] = []
        """The targets that answer, in order."""
        self.called: dict[str, list[str]] = {}
        """Targets by the ids and labels that tests use."""
        self._transforms: list[Spot] = []
        """The `transform` of each that answers."""
        self.prompts: dict[str, Spot] = {}
        """The prompts that a target is limited to."""

    def add_all(self, spot: Spot) -> None:
        """Add the providers that answer."""
        for item in _flat(spot):
            self.written += item.above()
            beside = item.beside()
            name = self.add(item, beside)
            if name is not None:
                self.answering.append(name)
                self._transforms.append(_parts(item)[1]["transform"])

    def shared_transform(self) -> list[Spot]:
        """The code that changes the replies of all that answer. What only some of them have is a loss."""
        codes = [spot.value for spot in self._transforms]
        if all(code == codes[0] for code in codes):
            return [spot for spot in self._transforms[:1] if spot.value]
        for spot in self._transforms:
            if spot.value:
                how = "only a `transform` that all providers have in common has a form here"
                self.written.append(self._bench.ledger.leave_out(spot, "provider option transform", how))
        return []

    def add(self, spot: Spot, beside: str | None = None) -> str | None:
        """The name of a target for a provider; its definition is added if it needs one."""
        written, options = _parts(spot)
        if not isinstance(written, str) or not written.strip():
            self.written.append(self._bench.ledger.leave_out(spot, "a provider", "it has no id"))
            return None
        label = options["label"].value
        comments: list[Any] = []
        try:
            target = self._target(options, written, comments)
            self._bench.ledger.map(spot)
        except Lost as lost:
            comments.append(self._bench.ledger.leave_out(spot, f"provider {lost.what}", lost.how))
            # An error and no reply: checks that forbid something would pass on any words.
            target = {"provider": "scripted", "replies": [{"error": "the import left this target out"}]}
        comments += spot.within()
        name = self._name(label if isinstance(label, str) and label.strip() else None, written, target)
        for called in (written, label):
            if isinstance(called, str):
                self.called.setdefault(called, []).append(name)
        if options["prompts"].value is not None:
            self.prompts[name] = options["prompts"]
        if set(target) == {"provider", "model"} and not comments and name == f"{target['provider']}/{target['model']}":
            if beside:
                self.written.append(Comment(f"{name}: {beside}"))
            return name
        entry = {"name": name, **target}
        self.written += [*comments, Commented(entry, beside) if beside else entry]
        return name

    def _name(self, label: str | None, written: str, target: Target) -> str:
        if label is None and set(target) == {"provider", "model"} and re.fullmatch(r"[\w./@-]+", target["model"]):
            name = f"{target['provider']}/{target['model']}"
            if name not in self._names:
                self._names.add(name)
                return name
        if label is not None and label not in self._names and "{{" not in label and "," not in label:
            self._names.add(label)
            return label
        return slug(label or re.sub(r"^file://", "", written), self._names, "target")

    def _target(self, options: Spot, written: str, comments: list[Any]) -> Target:
        if options["delay"].value:
            comments.append(
                self._bench.ledger.leave_out(options["delay"], "provider option delay", "use `rate`, or --workers")
            )
        for start, convert in _OWN:
            if re.match(start, written):
                return convert(self, options, written, comments)
        return self._of_vendor(options, written, comments)

    def _of_vendor(self, options: Spot, written: str, comments: list[Any]) -> Target:
        first, _, rest = written.partition(":")
        vendor = _VENDORS.get(first)
        if vendor is None or not rest:
            raise Lost(written[:60], "no provider of this name; name another target")
        kind, _, model = rest.partition(":")
        if kind in _AGENTS:
            raise Lost(written[:60], f"a coding agent; name the target `{_AGENTS[kind]}`")
        if kind in _OTHER_WORKS or (kind not in vendor.kinds and kind in ("assistant", "rerank")):
            raise Lost(written[:60], "only models that answer with a text, and embeddings, are supported")
        if kind not in vendor.kinds or not kind or not model:
            kind, model = ("", rest) if kind not in vendor.kinds else (kind, model)
        model = model or _text(options["config"]["model"].value)
        if not model:
            raise Lost(written[:60], "it names no model")
        target: Target = {"provider": vendor.provider, "deployment" if vendor.provider == "azure" else "model": model}
        if kind == "responses":
            target["api"] = "responses"
        if vendor.base_url is not None:
            target |= {"base_url": vendor.base_url, "api_key": f"${{{{ {_KEYS_OF[first]} }}}}"}
        return target | self._settings(options["config"], target, comments)

    def _settings(self, config: Spot, target: Target, comments: list[Any]) -> Target:
        settings: Target = {}
        body: Target = {}
        for key, spot in config.pairs:
            comments += spot.above()
            value = _environment(whole(spot.value))
            if key in _SETTINGS and isinstance(value, str | int | float | list | dict):
                settings[_SETTINGS[key]] = value
            elif key == "apiKeyEnvar":
                settings["api_key"] = f"${{{{ {value} }}}}"
            elif key in ("apiHost", "apiVersion") and target["provider"] == "azure":
                settings["endpoint" if key == "apiHost" else "api_version"] = _address(key, str(value))
            elif key == "apiHost" and isinstance(value, str):
                settings["base_url"] = _address(key, value)
            elif key == "passthrough" and isinstance(value, dict):
                body |= value
            elif key in _BODY:
                body[key] = self._loaded(spot, value, comments)
            elif key not in _OF_THE_PROGRAM and key != "model":
                comments.append(self._bench.ledger.leave_out(spot, f"provider setting {key}", "it has no form here"))
        if target.get("api") == "responses" and isinstance(body.get("response_format"), dict):
            body["text"] = {"format": body.pop("response_format")}
        if body:
            settings["extra_body"] = body
            self._note_body(config, body, comments)
        return settings

    def _note_body(self, config: Spot, body: Target, comments: list[Any]) -> None:
        form = body.get("response_format", body.get("text"))
        if isinstance(form, dict) and "json" in str(form):
            self._shims.parses_json = True
        for key in ("tools", "functions"):
            if body.get(key):
                how = "calls are checked by `tool_calls`; the text of such a reply is empty"
                comments.append(self._bench.ledger.approximate(config[key], f"provider setting {key}", how))

    def _loaded(self, spot: Spot, value: Any, comments: list[Any]) -> Any:
        """The value of a setting, read from its file if it names one."""
        written = value[0] if isinstance(value, list) and len(value) == 1 else value
        if not isinstance(written, str) or not written.startswith("file://"):
            return value
        path = spot.locate(written.removeprefix("file://"))
        if path.suffix.lower() in (".json", ".yaml", ".yml") and path.is_file():
            return spot.file.folder.read(path).spot.value
        how = "only files of JSON and YAML are read"
        comments.append(self._bench.ledger.leave_out(spot, f"provider setting {written[:60]}", how))
        return []

    def of_http(self, options: Spot, written: str, comments: list[Any]) -> Target:
        config = options["config"]
        url = written if written.startswith(("http:/", "https:/")) else config["url"].value
        if not isinstance(url, str) or config["request"].value is not None:
            raise Lost("http", "a request that is written as one text has no form here")
        place = config["url"] if config["url"].value == url else options
        target: Target = {"provider": "http", "url": self._of_request(place, url, comments)}
        known = {"url", "method", "headers", "body", "transformResponse", "responseParser", "timeoutMs"}
        for key, spot in config.pairs:
            if key not in known:
                comments.append(self._bench.ledger.leave_out(spot, f"provider setting {key}", "it has no form here"))
        if isinstance(config["method"].value, str):
            target["method"] = config["method"].value
        for key in ("headers", "body"):
            if config[key].value is not None:
                target[key] = self._of_request(config[key], config[key].value, comments)
        parser = config["transformResponse"].value or config["responseParser"].value
        if parser is not None:
            found = re.fullmatch(r"\(?\s*(?:\(?json\)?\s*=>\s*)?json((?:\.\w+|\[\d+\])+)\s*\)?;?", str(parser).strip())
            if found is None:
                how = "only a path such as `json.choices[0].text` has a form here"
                comments.append(self._bench.ledger.leave_out(config, "provider setting transformResponse", how))
            else:
                target["reply_path"] = found[1].removeprefix(".")
        return target

    def _of_request(self, spot: Spot, value: Any, comments: list[Any]) -> Any:
        """A value of a request, with the variables that requests know; variables of cases are filled in, if all cases
        have the same."""
        if isinstance(value, list):
            return [self._of_request(spot[place], one, comments) for place, one in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._of_request(spot[key], one, comments) for key, one in value.items()}
        if not isinstance(value, str):
            return whole(value)
        foreign: dict[str, None] = {}

        def named(found: re.Match[str]) -> str:
            name, filters = found[1] or "", (found[2] or "").strip("| ")
            if name == "prompt" and filters in ("", "urlencode", "dump", "safe"):
                return "{{ prompt }}"
            if name in self.constants and not filters:
                return literal(self.constants[name])
            if name == "sessionId" and not filters:
                how = "the conversation's own id is sent"
                comments.append(self._bench.ledger.approximate(spot, "variable sessionId of a request", how))
                return "{{ conversation_id }}"
            foreign[found[0]] = None
            return "TODO"

        text = _MARKS.sub(named, str(_environment(value)))
        for written in foreign:
            how = "a request knows no variables of cases and no logic; write its value"
            comments.append(self._bench.ledger.leave_out(spot, f"provider placeholder {written[:60]}", how))
        return text

    def of_python(self, options: Spot, written: str, _: list[Any]) -> Target:
        path = re.sub(r"^(?:python:|file://)", "", written)
        name = slug(re.sub(r"\.py.*$", "", path.rpartition("/")[2]), set(), "provider").replace("-", "_")
        call = self._shims.provider(options, f"file://{path}", options["config"].value, name)
        return {"provider": "python", "call": call}

    def of_echo(self, _options: Spot, _written: str, _: list[Any]) -> Target:
        return {"provider": "python", "call": self._shims.echo()}

    def of_exec(self, options: Spot, written: str, comments: list[Any]) -> Target:
        line = written.removeprefix("exec:").strip()
        if not line or re.search(r"[{}'\"$`\\]", line):
            raise Lost("exec", "the command line has signs that have a meaning here")
        how = "the command gets only the prompt"
        comments.append(self._bench.ledger.approximate(options, "provider exec", how))
        return {"provider": "cli", "command": [*(self._word(options, one) for one in line.split()), "{PROMPT}"]}

    def _word(self, options: Spot, word: str) -> str:
        """A word of a command: a script of the folder as the suite has to write it."""
        if _SCRIPT.fullmatch(word) is None or not (path := options.locate(word)).is_file():
            return word
        return self._bench.reference(options, path)


_OWN: tuple[tuple[str, Callable[[Targets, Spot, str, list[Any]], Target]], ...] = (
    (r"https?(?:$|:)", Targets.of_http),
    (r"(?:python:|file://).*\.py(?::\w+)?$", Targets.of_python),
    (r"echo$", Targets.of_echo),
    (r"exec:", Targets.of_exec),
)
"""Providers that are not vendors, by the start of their ids."""


def _flat(spot: Spot) -> list[Spot]:
    """The providers, including providers in a file."""
    found: list[Spot] = []
    for item in spot.items:
        value = item.value
        if isinstance(value, str) and re.fullmatch(r"file://.*\.(?:ya?ml|json)", value):
            path = item.locate(value.removeprefix("file://"))
            if path.is_file():
                found += item.file.folder.read(path).spot.items
                continue
        found.append(item)
    return found


def _parts(spot: Spot) -> tuple[Any, Spot]:
    """The id of a provider, and the place of its options: they are beside its `id`, or below the id itself."""
    value = spot.value
    if isinstance(value, str):
        return value, spot["options"]
    if isinstance(value, dict) and "id" not in value and len(value) == 1:
        [name] = value
        inner = spot[name]
        return inner["id"].value or name, inner
    return (value.get("id"), spot) if isinstance(value, dict) else (None, spot)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _environment(value: Any) -> Any:
    """A setting whose variables of the environment are written in our form."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: f"${{{{ {found[1] or found[2]} }}}}", value)
    if isinstance(value, list):
        return [_environment(one) for one in value]
    if isinstance(value, dict):
        return {key: _environment(one) for key, one in value.items()}
    return whole(value)


def _address(key: str, value: str) -> str:
    return value if key == "apiVersion" or "://" in value or value.startswith("$") else f"https://{value}"
