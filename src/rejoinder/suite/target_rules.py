"""Settings of a target that contradict each other, which a JSON Schema cannot express."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rejoinder.model.providers import PROVIDER_NAMES, row_of
from rejoinder.placeholders import requested_in
from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.schema import Violation
from rejoinder.suite.schema_files import OUTPUT_SCHEMA, SchemaFault, refuse_unusable

KEEPS_HISTORY = "it keeps the conversation itself: a reply from the cache would leave it behind"
SENT = ("url", "headers", "body")
"""Settings that make up a request of an `http` target."""
NO_STRUCTURED_OUTPUT = "Its API has none, or its requests are your own. Check the replies with `json_schema` instead."
NOT_CACHED = "Remove `cache: true`; the target is asked in every run then."


def find_faults_of_cache(target: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    """`cache: true` on a target whose replies can never come from the cache."""
    for place, settings in settings_in(target, path):
        why = _never_cached(target) if settings.get("cache") is True else ""
        if why:
            message = f"`cache: true` is not possible here: {why}. {NOT_CACHED}"
            yield Violation("conflicting-keys", (*place, "cache"), message, key=True)


def find_faults_of_auth(target: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    """`auth` on a target that sends no requests, or that has a key as well."""
    provider = str(target["provider"]).lower()
    name = PROVIDER_NAMES.get(provider)
    keys = {key for _, settings in settings_in(target, path) for key in settings}
    for place, settings in settings_in(target, path):
        if "auth" not in settings or name is None:
            continue
        if not row_of(name).over_http:
            message = f"`auth` is for targets that are asked over HTTP, and a `{provider}` target is not"
            yield Violation("unknown-key", (*place, "auth"), message, key=True)
        elif key := next(iter(keys & {"api_key", "apiKey"}), None):
            message = f"a target has either `auth` or `{key}`: each request has one token"
            yield Violation("conflicting-keys", (*place, "auth"), message, key=True)


def find_faults_of_output_schema(target: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    """An `output_schema` that is not a JSON Schema, that the provider cannot send, or that is given twice."""
    provider = str(target["provider"]).lower()
    name = PROVIDER_NAMES.get(provider)
    everything = {key: value for _, part in settings_in(target, path) for key, value in part.items()}
    for place, settings in settings_in(target, path):
        for key in OUTPUT_SCHEMA:
            if not isinstance(settings.get(key), dict):
                continue  # the schema of suites has said so, or the file could not be read
            try:
                refuse_unusable(settings[key])
            except SchemaFault as fault:
                yield Violation(fault.code, (*place, key), fault.message)
            if name is not None and not row_of(name).structured:
                message = f"a `{provider}` target cannot be sent an output schema. {NO_STRUCTURED_OUTPUT}"
                yield Violation("no-structured-output", (*place, key), message, key=True)
            other = next((one for one in ("json_schema", "jsonSchema") if one in everything), None)
            if (other := other or find_answer_form(everything)) is not None:
                message = f"`{other}` sets the form of replies too; keep one of them"
                yield Violation("conflicting-keys", (*place, key), message, key=True)


def find_answer_form(settings: Mapping[str, Any]) -> str | None:
    """The field of a target's `extra_body` that sets the form of replies, if there is one."""
    for name in ("extra_body", "extraBody"):
        for form in _ANSWER_FORMS:
            if _has(settings.get(name), form):
                return ".".join((name, *form))
    return None


_ANSWER_FORMS = (
    *(("response_format",), ("text", "format"), ("output_config", "format"), ("output_format",)),
    *(("generationConfig", name) for name in ("responseSchema", "responseJsonSchema", "responseMimeType")),
)
"""The fields of requests that set the form of a reply, in all wire formats."""


def _has(value: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value is not None


def _never_cached(target: dict[str, Any]) -> str:
    """Why replies of a target can never come from the cache; empty if they can."""
    provider = str(target["provider"]).lower()
    info = row_of(PROVIDER_NAMES.get(provider, provider))
    if info.at_once:
        return f"a `{provider}` target costs nothing and replies at once"
    settings = {key: value for _, part in settings_in(target, ()) for key, value in part.items()}
    keeps = settings.get("history") == "theirs" or any(settings.get(key) for key in ("session", "open", "close"))
    if info.workspaces or keeps:
        return KEEPS_HISTORY
    sent = [settings.get(key) for key in SENT]
    if provider == "http" and "conversation_id" in requested_in(sent):
        return "its requests have a `{{ conversation_id }}`, which is another one in every run"
    return ""


def settings_in(target: dict[str, Any], path: DocumentPath) -> Iterator[tuple[DocumentPath, dict[str, Any]]]:
    """The mappings that hold a target's settings, with their places: `settings`, and the target itself."""
    inner = target.get("settings")
    if isinstance(inner, dict):
        yield (*path, "settings"), inner
    yield path, target
