"""Settings of targets, by provider, as suites write them.

A setting is declared here, once: `make docs` writes it into the JSON Schema of suites, as it does for checks. The text
in an annotation is the description in the schema. A class is a definition of the schema, with the same name.

Providers read the values by themselves (`providers/settings.py`): one may be a text that a variable fills in. So rules
for texts are for the schema only (`extra_json_schema`).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

_NUMBER = r"^\s*([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)?\s*$|\$\{\{"
_WHOLE = r"^\s*([+-]?[0-9]+)?\s*$|\$\{\{"
_OWN_KEYS = {"patternProperties": {"^x-": True}}
"""Keys that are the author's own."""


class Also(Struct, frozen=True):
    """Other names of a setting."""

    names: tuple[str, ...]


def _defined(name: str) -> Meta:
    """A definition of the schema that is written by hand."""
    return Meta(extra_json_schema={"$ref": f"#/$defs/{name}"})


def _types(*names: str) -> Meta:
    return Meta(extra_json_schema={"type": list(names)})


Text: TypeAlias = Annotated[str, Meta(extra_json_schema={"minLength": 1})]
"""A text that is not empty."""
Number: TypeAlias = Annotated[float, Meta(extra_json_schema={"type": ["number", "string"], "pattern": _NUMBER})]
"""A number, also as a text."""
Whole: TypeAlias = Annotated[int, Meta(extra_json_schema={"type": ["integer", "string"], "pattern": _WHOLE})]
"""A whole number, also as a text."""
Switch: TypeAlias = Annotated[bool, _types("boolean", "string")]
Texts: TypeAlias = Annotated[tuple[str, ...], _types("array", "string")]
"""Texts, or one text."""
SomeTexts: TypeAlias = Annotated[
    tuple[Text, ...], Meta(extra_json_schema={"type": ["string", "array"], "minLength": 1})
]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Milliseconds: TypeAlias = Annotated[float, Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]

Shown: TypeAlias = Annotated[str | None, "A name to show."]
Model: TypeAlias = Annotated[Text | None, "The model's name."]
ModelOrDeployment: TypeAlias = Annotated[Model, Also(("deployment", "variant"))]
BaseUrl: TypeAlias = Annotated[str | None, "The address of the API."]
Headers: TypeAlias = Annotated[dict[str, str] | None, "Additional headers of each request."]
ClientCert: TypeAlias = Annotated[Any, _defined("clientCert"), Also(("clientCert",))]
Temperature: TypeAlias = Annotated[Number | None, "How much chance there is in the answer."]
TopP: TypeAlias = Annotated[Number | None, "Nucleus sampling."]
MaxOutputTokens: TypeAlias = Annotated[Whole | None, "The most tokens of an answer.", Also(("max_tokens", "maxTokens"))]
Seed: TypeAlias = Annotated[Whole | None, "A seed, where the API takes one."]
Stop: TypeAlias = Annotated[Texts | None, "Texts at which the answer ends."]
WorkingFolder: TypeAlias = Annotated[str | None, "The folder to run in."]


class SettingsGroup(Struct, frozen=True, kw_only=True):
    """Names with what they may hold: an object of the schema."""

    camel: ClassVar[bool] = False
    """True if each name may be written in camelCase, too."""
    rules: ClassVar[dict[str, Any]] = {}
    """Rules of the schema, beside its names."""


class InnerSettings(SettingsGroup, frozen=True, kw_only=True):
    """The value of a setting that is a mapping."""


class ProviderSettings(SettingsGroup, frozen=True, kw_only=True):
    """The settings of some providers. Its docstring is the description in the schema."""

    providers: ClassVar[tuple[str, ...]] = ()
    """The providers, by the names of their rows (`model/providers.py`)."""
    besides: ClassVar[type[ProviderSettings] | None] = None
    """Settings that these providers have, too."""


# What every target has


class CommandSettings(InnerSettings, frozen=True, kw_only=True):
    """A command of the user's that belongs to a target."""

    rules = _OWN_KEYS
    camel = True
    command: Annotated[
        tuple[str, ...],
        "The words of the command, which no shell reads, or a line for the shell.",
        Meta(extra_json_schema={"type": ["string", "array"], "minLength": 1, "minItems": 1}),
    ]
    cwd: WorkingFolder = None
    env: Annotated[
        dict[str, Annotated[Any, _types("string", "number", "boolean")]] | None,
        "Variables for the command, beside the environment without its secrets.",
    ] = None


class TokenCommand(InnerSettings, frozen=True, kw_only=True):
    rules = _OWN_KEYS
    camel = True
    command: Annotated[
        tuple[str, ...],
        "The words of a command that prints the token, or JSON with `token` and `expires_in`.",
        Meta(min_length=1),
    ]
    refresh: Annotated[Seconds | None, "After how many seconds the token is renewed; after a 401 it always is."] = None
    timeout_seconds: Annotated[Seconds | None, "The most seconds that the command may take (default: 60)."] = None
    cwd: WorkingFolder = None
    env: Annotated[
        dict[str, Annotated[Any, _types("string", "number", "boolean")]] | None,
        "Variables for the command, beside the environment without its secrets.",
    ] = None


class ReadyLine(InnerSettings, frozen=True, kw_only=True):
    line: Annotated[Text, "A text that a line of the service's output has when it is ready."]


class StartSettings(CommandSettings, frozen=True, kw_only=True):
    """A service that is started before the first call, and ended with the run."""

    ready: Annotated[
        ReadyLine,
        "When the service is ready: an address that answers with a status below 500, or `line: TEXT` for a text in a"
        " line of its output.",
        Meta(extra_json_schema={"type": ["string", "object"], "pattern": r"^https?://|^line:\s*\S|^\s*\$\{\{"}),
    ]
    timeout_seconds: Annotated[Seconds | None, "The most seconds until it is ready (default: 60)."] = None


Start: TypeAlias = Annotated[
    StartSettings | None, "The service that this target is, started once in a run and ended with it."
]


class PromptFile(InnerSettings, frozen=True, kw_only=True):
    rules = _OWN_KEYS
    file: Annotated[Text, "A file that holds the text, found as an attached file is. Variables in it are filled in."]


class SharedSettings(ProviderSettings, frozen=True, kw_only=True):
    """Settings of every target."""

    camel = True
    rules = _OWN_KEYS
    name: Annotated[Text | None, "The name that suites use."] = None
    provider: Annotated[Text | None, "Who answers: scripted, python, openai, azure, anthropic, gemini, ..."] = None
    description: Annotated[str | None, "What this target is."] = None
    judge_target: Annotated[Text | None, "The target that judges replies of this one."] = None
    workers: Annotated[Count | None, "How many conversations with this target run at the same time."] = None
    system_prompt: Annotated[
        PromptFile | None,
        "The system prompt where neither the case nor the suite has one.",
        _types("string", "object"),
    ] = None
    output_schema: Annotated[
        Any, _defined("outputSchema"), "The JSON Schema of its replies where neither the case nor the suite has one."
    ] = None
    timeout_seconds: Annotated[Seconds | None, "The most seconds that one request may take."] = None
    auth: Annotated[
        TokenCommand | None, "How the bearer token of each request is got and renewed (targets over HTTP)."
    ] = None
    cache: Annotated[
        bool | None,
        "Whether `run --cache` may answer for this target. Default: true for LLM APIs at their vendors' addresses, "
        " false for all others, such as local servers.",
    ] = None
    provider_batching: Annotated[bool | None, "Send several cases in one request where the provider can."] = None
    tools: Annotated[
        tuple[Annotated[Any, _defined("tool")], ...] | None, "Tools that the model may call.", Meta(min_length=1)
    ] = None


class RetrySettings(ProviderSettings, frozen=True, kw_only=True):
    max_retries: Annotated[int | None, "How often a failed request is sent again.", Meta(ge=0)] = None
    retry_initial_delay_ms: Annotated[Milliseconds | None, "Milliseconds before the first retry."] = None
    retry_max_delay_ms: Annotated[Milliseconds | None, "The most milliseconds between two retries."] = None
    retry_backoff_factor: Annotated[float | None, "By how much the delay grows from retry to retry.", Meta(ge=1)] = None
    retry_status_codes: Annotated[
        tuple[Annotated[int, Meta(ge=100, le=599)], ...] | None,
        "HTTP statuses after which a request is sent again.",
    ] = None


# Answers of this machine


class ScriptedSettings(RetrySettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is scripted."""

    providers = ("scripted",)
    replies: Annotated[
        dict[str, tuple[Annotated[Any, _defined("scriptedReply")], ...]] | None,
        'The replies, in order: one list for every case, or a mapping from case id to a list ("*" for the rest).',
        Meta(extra_json_schema={"type": ["array", "object"], "items": {"$ref": "#/$defs/scriptedReply"}}),
    ] = None
    judge: Annotated[
        tuple[Annotated[Any, _defined("scriptedVerdict")], ...] | None,
        "The verdicts of judges that this target answers, in document order.",
    ] = None
    embeddings: Annotated[
        dict[str, Annotated[tuple[float, ...], Meta(min_length=1)]] | None,
        'The embeddings of texts, by text ("*" for the rest).',
    ] = None
    delay_ms: Annotated[Milliseconds | None, "Milliseconds before each reply."] = None
    model: Shown = None


class PythonSettings(RetrySettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is python."""

    providers = ("python",)
    call: Annotated[
        str | None,
        "module:function, sync or async; it is given the request. Or module:Class, whose objects are asked.",
        Meta(extra_json_schema={"pattern": r"^[^:\s]+:[^:\s]+$"}),
    ] = None
    history: Annotated[
        Literal["ours", "theirs"] | None,
        "Who keeps the conversation: `ours` (every request has all of it) or `theirs` (only what is new is given)."
        " A class keeps it always.",
    ] = None
    start: Start = None
    model: Shown = None


class MockSettings(ProviderSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is mock."""

    providers = ("mock",)
    camel = True
    response: Annotated[str | None, "The reply."] = None
    delay_ms: Annotated[Milliseconds | None, "Milliseconds before the reply."] = None
    delay_min_ms: Annotated[Milliseconds | None, "The least milliseconds before the reply."] = None
    delay_max_ms: Annotated[Milliseconds | None, "The most milliseconds before the reply."] = None


class WordllamaSettings(ProviderSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is wordllama."""

    providers = ("wordllama",)
    model: Shown = None


class LocalSettings(ProviderSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is local."""

    providers = ("local",)
    camel = True
    model: Annotated[Text | None, "A model by name, as in `rejoinder models get NAME`, or a GGUF file by its path."] = (
        None
    )
    temperature: Temperature = None
    top_p: TopP = None
    max_output_tokens: MaxOutputTokens = None
    seed: Seed = None
    stop: Stop = None
    json_schema: Annotated[dict[str, Any] | None, "A JSON Schema that every reply is made to fit."] = None
    context: Annotated[int | None, "How many tokens a conversation may have (default: 2048).", Meta(ge=64)] = None
    threads: Annotated[
        Count | None, "How many processor threads are used (default: 1; more help only on an idle machine)."
    ] = None
    pooling: Annotated[
        Literal["mean", "cls", "last"] | None,
        "How an embedding is made of the vectors of a text's tokens, where the file does not say.",
    ] = None


class ReplaySettings(ProviderSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is replay."""

    providers = ("replay",)
    cassettes: Annotated[Text | None, "The folder of cassettes that answer, as `run --record` writes it."] = None
    of: Annotated[Text | None, "The target that was recorded, where this one has another name."] = None
    model: Shown = None


_TranscriptFormat: TypeAlias = Literal[
    "openai",
    "anthropic",
    "claude",
    "codex",
    "copilot",
    "gemini",
    "pi",
    "opencode",
    "agentv",
    "atif",
    "otel",
    "openinference",
]


class TranscriptSettings(ProviderSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is transcript."""

    providers = ("transcript",)
    file: Annotated[Text | None, "The file with conversations that already happened, or a folder of such files."] = None
    format: Annotated[
        _TranscriptFormat | None,
        "How the file is written, where that cannot be seen.",
    ] = None
    match: Annotated[
        Text | None,
        "The key of a recorded conversation whose value is the case's `conversation_id`, or else its id: `id`, `title`,"
        " `file`, or any key of the recording, such as `metadata.case` (default: id, else title); `prompt`: the first"
        " words have to be the case's.",
    ] = None
    prompts: Annotated[
        Literal["same", "any"] | None, "Whether what is asked has to be what was asked (default: same)."
    ] = None
    model: Shown = None


# LLM APIs


class ApiSettings(RetrySettings, frozen=True, kw_only=True):
    camel = True
    model: Model = None
    api_key: Annotated[str | None, "The key, as ${{ VARIABLE }}."] = None
    temperature: Temperature = None
    top_p: TopP = None
    max_output_tokens: MaxOutputTokens = None
    seed: Seed = None
    stop: Stop = None
    reasoning_effort: Annotated[str | None, "How much the model should think, where the API takes it."] = None
    headers: Headers = None
    client_cert: ClientCert = None
    extra_body: Annotated[dict[str, Any] | None, "Additional fields of each request's body."] = None


class OpenaiSettings(ApiSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is openai."""

    providers = ("openai",)
    base_url: BaseUrl = None
    api: Annotated[Literal["chat", "responses"] | None, "Which of the APIs is used."] = None
    organization: Annotated[str | None, "The organization to bill."] = None


class OpenaiCompatibleSettings(ApiSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is openrouter or ollama or vllm or lmstudio or groq or mistral or deepseek or
    xai or together."""

    providers = ("openrouter", "ollama", "vllm", "lmstudio", "groq", "mistral", "deepseek", "xai", "together")
    base_url: BaseUrl = None


class AzureSettings(ApiSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is azure or azure-openai."""

    providers = ("azure",)
    endpoint: Annotated[str | None, "The resource's address or name.", Also(("resource", "resourceName"))] = None
    deployment: Annotated[Text | None, "The deployment's name.", Also(("deploymentName",))] = None
    version: Annotated[str | None, "The API's version.", Also(("api_version",))] = None


class AnthropicSettings(ApiSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is anthropic."""

    providers = ("anthropic",)
    model: ModelOrDeployment = None
    base_url: BaseUrl = None
    thinking_budget: Annotated[Whole | None, "Tokens that the model may spend on thinking.", Meta(ge=0)] = None


class GeminiSettings(ApiSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is gemini or google or google-gemini."""

    providers = ("gemini",)
    model: ModelOrDeployment = None
    base_url: BaseUrl = None
    thinking_budget: Annotated[
        Whole | None, "Tokens that the model may spend on thinking; -1 leaves it to the model.", Meta(ge=-1)
    ] = None


# Services and programs


class SessionPlace(InnerSettings, frozen=True, kw_only=True):
    rules = {"oneOf": [{"required": ["json_path"]}, {"required": ["header"]}]}
    json_path: Annotated[Text | None, "The place in an answer of JSON, like `data.session_id`."] = None
    header: Annotated[Text | None, "The name of a header of the answer."] = None
    changes: Annotated[
        bool | None,
        "True if each answer has a new id, which the next request sends. Otherwise another id than the one sent is an"
        " error: the service has lost the conversation.",
    ] = None


class StreamEnd(InnerSettings, frozen=True, kw_only=True):
    json_path: Annotated[Text, "The place in the last event whose value is neither null nor false."]


class StreamedReply(InnerSettings, frozen=True, kw_only=True):
    rules = _OWN_KEYS
    camel = True
    delta_path: Annotated[
        Text | None, "Where in an event's data a piece of the reply stands; without it the data is the piece."
    ] = None
    done: Annotated[
        StreamEnd | None,
        "What marks the last event: its data or its name, or a place in it. Without it, `[DONE]` or the end of the"
        " response.",
        Meta(extra_json_schema={"type": ["string", "object"], "minLength": 1}),
    ] = None
    format: Annotated[
        Literal["sse", "ndjson"] | None, "Server-sent events or lines of JSON, where the content type does not say."
    ] = None


class HttpSettings(RetrySettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is http."""

    providers = ("http",)
    url: Annotated[Text | None, "The address to send to."] = None
    method: Annotated[Literal["GET", "POST", "PUT", "PATCH"] | None, "The HTTP method."] = None
    headers: Headers = None
    client_cert: ClientCert = None
    body: Annotated[Any, "The request's body, with templates."] = None
    reply_path: Annotated[str | None, "Where in the response the reply stands."] = None
    tool_calls_path: Annotated[
        str | None, "Where in the response its tool calls stand: a list of objects with name and arguments."
    ] = None
    usage_path: Annotated[str | None, "Where in the response its counts of tokens stand."] = None
    most_tokens: Annotated[
        Whole | None, "The most tokens, input and output, that one call can use. A budget needs it.", Meta(ge=1)
    ] = None
    stream: Annotated[StreamedReply | None, "How a reply that comes as a stream is joined."] = None
    history: Annotated[
        Literal["ours", "theirs"] | None,
        "Who keeps the conversation: `ours` (every request has all of it) or `theirs` (only what is new is sent).",
    ] = None
    session: Annotated[
        SessionPlace | None,
        "Where the first answer tells the service's own name for the conversation, which is sent as `{{ session }}`"
        " from then on.",
    ] = None
    start: Start = None
    open: Annotated[Any, "A request that begins a conversation, before its first turn.", _defined("sessionRequest")] = (
        None
    )
    close: Annotated[Any, "A request that ends a conversation.", _defined("sessionRequest")] = None


class Healthcheck(InnerSettings, frozen=True, kw_only=True):
    rules = _OWN_KEYS
    camel = True
    type: Annotated[Literal["http", "command"], "How it is tested."]
    url: Annotated[str | None, "The address that has to answer."] = None
    command_template: Annotated[str | None, "The command that has to succeed."] = None
    cwd: WorkingFolder = None
    timeout_seconds: Annotated[Seconds | None, "The most seconds it may take."] = None


class CliSettings(RetrySettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is cli."""

    providers = ("cli",)
    camel = True
    command_template: Annotated[
        Text | None,
        "The command line for the shell, with {PROMPT}, {PROMPT_FILE}, {GUIDELINES}, {EVAL_ID}, {ATTEMPT}, {FILES},"
        " {OUTPUT_FILE}.",
    ] = None
    command: Annotated[
        tuple[str, ...] | None,
        "The words of the command, which no shell reads, with the same placeholders.",
        Meta(min_length=1),
    ] = None
    files_format: Annotated[
        str | None,
        "How each file is written, with {path} and {basename}.",
        Also(("attachments_format", "attachmentsFormat")),
    ] = None
    cwd: WorkingFolder = None
    env: Annotated[dict[str, str] | None, "Variables for the command."] = None
    healthcheck: Annotated[Healthcheck | None, "A test that the command is ready."] = None


# Coding agents

_Decision: TypeAlias = Literal["allow", "reject"]


class ToolPermissions(InnerSettings, frozen=True, kw_only=True):
    read: Annotated[_Decision | None, "Tools that read files."] = None
    edit: Annotated[_Decision | None, "Tools that change files."] = None
    delete: Annotated[_Decision | None, "Tools that delete files."] = None
    move: Annotated[_Decision | None, "Tools that move files."] = None
    search: Annotated[_Decision | None, "Tools that search."] = None
    execute: Annotated[_Decision | None, "Tools that run commands."] = None
    think: Annotated[_Decision | None, "Tools that plan."] = None
    fetch: Annotated[_Decision | None, "Tools that fetch from the network."] = None
    switch_mode: Annotated[_Decision | None, "Tools that switch the agent's mode."] = None
    other: Annotated[_Decision | None, "Tools that do anything else."] = None


class RepositoryRevision(InnerSettings, frozen=True, kw_only=True):
    repository: Annotated[Text | None, "The folder of the repository; the suite's unless given."] = None
    revision: Annotated[Text | None, "A branch, tag or commit; HEAD unless given."] = None


class WorkspaceSettings(ProviderSettings, frozen=True, kw_only=True):
    args: Annotated[Texts | None, "Additional words of the command."] = None
    env: Annotated[
        dict[str, Annotated[Any, _types("string", "number", "boolean")]] | None,
        "Variables that the agent gets beside its own keys.",
    ] = None
    workspace_template: Annotated[
        RepositoryRevision | None,
        "What the workspace of each conversation is a copy of: a folder, or a revision of a git repository.",
        Meta(extra_json_schema={"type": ["string", "object"], "minLength": 1}),
    ] = None
    setup: Annotated[SomeTexts | None, "Commands that are run in the workspace before the first turn."] = None
    teardown: Annotated[SomeTexts | None, "Commands that are run in the workspace after the last turn."] = None
    skills: Annotated[SomeTexts | None, "Folders of skills that are put where the agent looks for them."] = None
    instructions: Annotated[Text | None, "A file of instructions that is put where the agent looks for them."] = None
    silence_seconds: Annotated[Seconds | None, "The most seconds that the agent may print nothing."] = None


class AgentSettings(WorkspaceSettings, frozen=True, kw_only=True):
    """Settings of a target that is a coding agent."""

    providers = ("acp", "claude", "pi", "gemini-cli", "opencode", "copilot", "claude-acp", "codex-acp")
    executable: Annotated[Text | None, "The agent's program, if it is not the usual one."] = None
    command: Annotated[
        Texts | None, "The words that start the agent; needed with provider acp.", Meta(min_length=1)
    ] = None
    model: Annotated[Text | None, "The model that the agent asks."] = None
    mode: Annotated[Text | None, "The mode of the agent's session (acp), in its own word."] = None
    config: Annotated[dict[str, Any] | None, "Additional settings of the agent, by its own names."] = None
    auth_method: Annotated[Text | None, "How the agent logs in (acp), in its own word."] = None
    permissions: Annotated[
        ToolPermissions | None,
        "What the agent may do: allow, reject, or a mapping of kinds of tools to one of them. Reads and searches are"
        " allowed unless said.",
        Meta(extra_json_schema={"type": ["string", "object"], "pattern": "^(allow|reject)$"}),
    ] = None
    home: Annotated[
        Literal["own", "shared"] | None,
        "own: an empty home for each conversation; shared: yours, with your settings and your login.",
    ] = None
    mcp_servers: Annotated[
        Any, "MCP servers that the agent is given, by name or as a list.", _types("object", "array")
    ] = None
    max_turns: Annotated[Count | None, "The most steps of one turn (claude)."] = None
    max_budget_usd: Annotated[float | None, "The most dollars that a conversation may cost (claude).", Meta(gt=0)] = (
        None
    )


class CodexSettings(ProviderSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is codex or codex-cli."""

    providers = ("codex",)
    besides = AgentSettings
    camel = True
    cwd: WorkingFolder = None
    log_dir: Annotated[str | None, "The folder for logs.", Also(("log_directory", "logDirectory"))] = None
    log_format: Annotated[
        Literal["summary", "json"] | None,
        "How logs are written.",
        Also(("log_output_format", "logOutputFormat")),
    ] = None
    binary: Annotated[str | None, "Another name for `executable`."] = None
    arguments: Annotated[Texts | None, "Another name for `args`."] = None


class VscodeSettings(WorkspaceSettings, frozen=True, kw_only=True):
    """Settings of a target whose provider is vscode or vscode-insiders."""

    providers = ("vscode", "vscode-insiders")
    vscode_cmd: Annotated[str | None, "The code command.", Also(("vscodeCmd", "command"))] = None
    wait: Annotated[Switch | None, "Wait for the reply."] = None
    dry_run: Annotated[Switch | None, "Write the prompt, start nothing.", Also(("dryRun",))] = None
    subagent_root: Annotated[str | None, "The folder of the subagents.", Also(("subagentRoot",))] = None
    workspaceTemplate: Annotated[str | None, "Another name for `workspace_template`."] = None
    executable: Annotated[Text | None, "The editor's command."] = None
    mode: Annotated[Text | None, "The chat's mode: ask, edit, agent or one of your own."] = None


SETTINGS: tuple[type[ProviderSettings], ...] = (
    *(ScriptedSettings, PythonSettings, MockSettings, WordllamaSettings, LocalSettings, ReplaySettings),
    *(TranscriptSettings, OpenaiSettings, OpenaiCompatibleSettings, AzureSettings, AnthropicSettings, GeminiSettings),
    *(HttpSettings, CliSettings, CodexSettings, AgentSettings, VscodeSettings),
)
"""In the order of the schema."""
