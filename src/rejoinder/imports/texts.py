"""Texts of other tools in our suites, and names that a suite accepts."""

from __future__ import annotations

import json
from typing import Any

from rejoinder.imports.sources import Spot


def literal(text: str) -> str:
    """A text in which our suites fill in nothing."""
    return text.replace("{{", "{{ '{{' }}")


def literal_tree(value: Any) -> Any:
    """A value in whose texts our suites fill in nothing."""
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, list):
        return [literal_tree(one) for one in value]
    if isinstance(value, dict):
        return {key: literal_tree(one) for key, one in value.items()}
    return value


def written(value: Any) -> str:
    """A text verbatim, any other value as JSON."""
    return literal(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def text_at(spot: Spot, *keys: str) -> Spot | None:
    """The first of these keys whose value is a text with words."""
    found = (spot[key] for key in keys)
    return next((one for one in found if isinstance(one.value, str) and one.value.strip()), None)


def unpacked(spot: Spot) -> Spot:
    """The value that a text holds as JSON; other texts stay. Raises ImportFault for JSON that cannot be read."""
    text = spot.value.strip() if isinstance(spot.value, str) else ""
    if not text.startswith(("{", "[")):
        return spot
    try:
        return spot.of(_decoded(text))
    except (ValueError, RecursionError) as error:
        raise spot.fault(f"this is no JSON: {str(error).lower()}") from None


def _decoded(text: str) -> Any:
    import msgspec

    from rejoinder.suite.datasets import TOO_DEEP, survey
    from rejoinder.suite.yaml import MOST_DEPTH

    value = msgspec.json.decode(text)
    if survey(value)[1] > MOST_DEPTH:
        raise ValueError(TOO_DEEP)
    return value


class Ids:
    """The ids of the cases of a suite, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, spot: Spot, otherwise: str) -> str:
        """The id of a case, with a number if another case has it; `otherwise` if the source gives none."""
        is_named = isinstance(spot.value, str | int) and not isinstance(spot.value, bool)
        wanted = literal(str(spot.value).strip() if is_named else "") or otherwise
        chosen, number = wanted, 1
        while chosen in self._taken:
            number += 1
            chosen = f"{wanted}-{number}"
        self._taken.add(chosen)
        return chosen
