"""The variables that programs get, except the user's own commands: all but secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rejoinder.project.environment import is_secret


class Given(Struct, frozen=True):
    """A command's environment, and the variables that are set here but withheld."""

    variables: dict[str, str]
    withheld: frozenset[str]


def given_to_command(environment: Mapping[str, str], own: Mapping[str, Any]) -> Given:
    """All variables but secrets, plus the target's own."""
    variables = {name: value for name, value in environment.items() if not is_secret(name, value)}
    withheld = frozenset(environment.keys() - variables.keys() - own.keys())
    return Given(variables | {name: str(value) for name, value in own.items()}, withheld)
