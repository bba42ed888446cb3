"""Targets that a program gives beside its suites: a mapping, or a Python object that replies."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct, structs

GIVE_AGAIN = "Give the target again: `target=...` of rejoinder.resume, rejoinder.fork or rejoinder.grade."


class CodeOfTarget(Struct, frozen=True):
    """The Python object that a program gave as a target."""

    kind: str
    """`function`, `async function`, `class` or `object`."""
    call: str
    """Its module and qualified name: `tests.test_bot:answer`."""
    digest: str | None = None
    """The SHA-256 of its source; None if Python does not know the source."""


class GivenTarget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The target that a program gave. A run stores it, so that `resume` asks the same target."""

    name: str
    settings: dict[str, Any] = {}
    """The keys of an entry of `targets` in a suite. Empty for a Python object."""
    code: CodeOfTarget | None = None
    """The description of a Python object, which itself is never stored."""
    replaces: bool = False
    """Whether it replaces a target of the suite that has its name."""
    is_foreign: bool = False
    """Whether a folder from elsewhere names it. Then it is not called."""


class Supplied(NamedTuple):
    """A given target, and the Python object if it is one."""

    target: GivenTarget
    value: Any = None

    def named(self, name: str) -> Supplied:
        return self._replace(target=structs.replace(self.target, name=name))

    @property
    def callables(self) -> dict[str, Any]:
        """The Python object, as suites have it."""
        return {} if self.target.code is None else {self.target.name: self.value}
