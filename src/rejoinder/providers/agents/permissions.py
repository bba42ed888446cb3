"""Permissions of an agent: the target's `permissions`, by the tool kinds of the Agent Client Protocol."""

from __future__ import annotations

from msgspec import Struct

from rejoinder.providers.settings import Settings

TOOL_KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
_HARMLESS = frozenset({"read", "search", "think"})
_ANSWERS = ("allow", "reject")


class Permissions(Struct, frozen=True):
    """`allowed`: the kinds of tools that the agent may use."""

    allowed: frozenset[str] = _HARMLESS

    def allows(self, kind: str) -> bool:
        """Whether a kind is allowed. An unknown kind counts as `other`."""
        return (kind if kind in TOOL_KINDS else "other") in self.allowed

    @property
    def all_allowed(self) -> bool:
        return len(self.allowed) == len(TOOL_KINDS)


def read_permissions(settings: Settings) -> Permissions:
    """The target's `permissions`: `allow`, `reject`, or a mapping from kinds to either. Kinds that are not mentioned
    keep the default: reading, searching and thinking are allowed. Raises UsageError."""
    said = settings.values.get("permissions")
    if said is None:
        return Permissions()
    if said in _ANSWERS:
        return Permissions(frozenset(TOOL_KINDS if said == "allow" else ()))
    if not isinstance(said, dict):
        raise settings.error(
            f"has `permissions: {said}`, which is not valid",
            "Write `allow`, `reject`, or a mapping such as `edit: allow`.",
        )
    allowed = set(_HARMLESS)
    for kind, answer in said.items():
        if kind not in TOOL_KINDS:
            raise settings.error(f"has permissions for `{kind}`", f"The kinds are {', '.join(TOOL_KINDS)}.")
        if answer not in _ANSWERS:
            raise settings.error(f"has permissions with `{kind}: {answer}`", "Write `allow` or `reject`.")
        (allowed.add if answer == "allow" else allowed.discard)(kind)
    return Permissions(frozenset(allowed))
