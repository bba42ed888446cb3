"""Problems of an `http` target's requests, as far as its file shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rejoinder.model.providers import PROVIDER_NAMES
from rejoinder.placeholders import find_faults_of_request, requested_in, texts_in
from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.schema import Violation
from rejoinder.suite.target_rules import SENT, settings_in
from rejoinder.suite.templates import sole_variable

FILLED_LATER = (*SENT, "open", "close")
"""Settings whose placeholders are filled in with each request."""


def is_service(target: Any) -> bool:
    """True for an `http` target, as it is written."""
    provider = target.get("provider") if isinstance(target, dict) else None
    return PROVIDER_NAMES.get(str(provider).lower()) == "http"


def find_service_faults(target: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    """Placeholders that do not exist, and `{{ session }}` on a target that never learns its session."""
    if not is_service(target):
        return
    parts = list(settings_in(target, path))
    has_session = any(settings.get("session") for _, settings in parts)
    for place, settings in parts:
        for key in FILLED_LATER:
            for spot, text in texts_in(settings.get(key), (*place, key)):
                for fault in find_faults_of_request(text, has_session=has_session):
                    yield Violation("unknown-placeholder", spot, fault)


def placeholders_of(settings: Mapping[str, Any], keys: Iterable[str]) -> set[str] | None:
    """The placeholders in a service's requests; None if they are unknown. The usual body has all messages."""
    body = settings.get("body")
    has_default_body = "body" not in settings and settings.get("method") != "GET"
    if "url" not in settings or (isinstance(body, str) and sole_variable(body)):
        return None
    return {"messages"} if has_default_body else requested_in([settings.get(key) for key in keys])
