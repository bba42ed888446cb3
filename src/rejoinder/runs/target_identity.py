"""What a recorded answer depends on in a target, and the model that it asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from rejoinder.errors import UsageError
from rejoinder.model import Suite, Target
from rejoinder.providers.settings import model_of

_NO_MATTER = re.compile(
    r"api_?key|headers|timeout_?seconds|max_?retries|retry_?\w+|workers|healthcheck|cache|start|auth|most_?tokens",
    re.IGNORECASE,
)
"""Settings that change how a target is asked, and not what it answers."""


def identity_of(target: Target) -> bytes:
    """What a recorded answer depends on in a target."""
    return msgspec.json.encode((target.name, target.provider, identity_settings(target)), order="deterministic")


def identity_settings(target: Target) -> dict[str, Any]:
    return {name: value for name, value in target.settings.items() if not _NO_MATTER.fullmatch(name)}


def asked_model(suite: Suite, target: Target) -> str:
    """The model that a target asks for, as it goes out; empty where that depends on a variable that is not set."""
    model = model_of(target) or ""
    if "${{" not in model:
        return model
    from rejoinder.project.dotenv import read_environment
    from rejoinder.suite.targets import settings_with_environment

    environment = read_environment(Path(suite.path).parent, Path(suite.root), Path.cwd())
    try:
        filled, _ = settings_with_environment(structs.replace(target, settings={"model": model}), environment)
    except UsageError:
        return ""
    return str(filled.get("model", ""))
