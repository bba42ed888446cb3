"""Tools as models are offered them: name, what they do, what they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from rejoinder.model.tools import Offered, Tool
from rejoinder.report.styled import EMPTY, Form, Line, Piece, line, mark, paragraph, safe

MOST_PARAMETERS = 50


class Offer(Protocol):
    """A declared tool with what it offers, or why it offers nothing."""

    @property
    def tool(self) -> Tool: ...
    @property
    def offered(self) -> tuple[Offered, ...]: ...
    @property
    def fault(self) -> str | None: ...


def write_offers(offers: Sequence[Offer], form: Form) -> Iterator[Line]:
    if not offers:
        yield line("no tools; a suite, a case or a target declares them as `tools`")
    for offer in offers:
        if offer.fault is not None:
            yield from paragraph((*mark("✗", form), Piece(safe(offer.fault), "reason")), form)
            yield EMPTY
        for one in offer.offered:
            yield line((safe(one.name), "name"))
            if one.description:
                yield from paragraph(line(f"  {safe(' '.join(one.description.split()))}"), form)
            for name, said in _parameters(one):
                yield from paragraph(line(f"  {safe(name)}  ", (safe(said), "quiet")), form)
            yield EMPTY


def _parameters(offered: Offered) -> Iterator[tuple[str, str]]:
    """Each parameter by its name, with its type, whether it is needed, and what it means."""
    schema: Any = msgspec.json.decode(offered.parameters)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    needed = schema.get("required")
    for name, rule in list(properties.items())[:MOST_PARAMETERS]:
        said = rule if isinstance(rule, dict) else {}
        words = [_type(said), "" if isinstance(needed, list) and name in needed else "optional"]
        meaning = said.get("description")
        yield (
            name,
            ": ".join(filter(None, [", ".join(filter(None, words)), meaning if isinstance(meaning, str) else ""])),
        )


def _type(rule: dict[str, Any]) -> str:
    if "enum" in rule and isinstance(rule["enum"], list):
        return "one of " + ", ".join(map(str, rule["enum"][:10]))
    types = rule.get("type")
    return types if isinstance(types, str) else " or ".join(map(str, types)) if isinstance(types, list) else "any"
