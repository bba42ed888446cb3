"""Paths to values in JSON answers, such as `$.choices[0].message.content`, as settings of targets write them."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from rejoinder.providers.settings import Settings

Step = str | int
_STEP = re.compile(r"""\.?([^.\[\]'"]+)|\[(-?\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]""")
_NOTHING = object()


class JsonPath:
    """A path to a value in JSON. `setting`: the name of the target's setting."""

    def __init__(self, text: str, setting: str, settings: Settings) -> None:
        self.text = text
        self._setting = setting
        self._steps = _steps(text, setting, settings)

    def value_in(self, data: Any) -> Any:
        """Find the value. Raises msgspec.DecodeError that says what is there instead."""
        for step in self._steps:
            found = _follow(data, step)
            if found is _NOTHING:
                raise msgspec.DecodeError(f"`{self._setting}: {self.text}` finds no `{step}` in it; {_there(data)}")
            data = found
        return data

    def text_in(self, data: Any) -> str:
        """The value as a text: a text unchanged, anything else as JSON. Raises msgspec.DecodeError if it is missing."""
        value = self.value_in(data)
        if value is None:
            raise msgspec.DecodeError(f"at `{self.text}` it has only null")
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    def optional_in(self, data: Any) -> Any:
        """The value; None if only the last step leads to nothing. Raises msgspec.DecodeError if an earlier one does."""
        for step in self._steps[:-1]:
            found = _follow(data, step)
            if found is _NOTHING:
                return self.value_in(data)
            data = found
        found = _follow(data, self._steps[-1]) if self._steps else data
        return None if found is _NOTHING else found

    def seen_in(self, data: Any) -> Any:
        """The value; None if there is none, wherever the path ends. For one of many events, which differ."""
        for step in self._steps:
            data = _follow(data, step)
        return None if data is _NOTHING else data


def _steps(path: str, setting: str, settings: Settings) -> tuple[Step, ...]:
    rest = path.removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(rest):
        found = _STEP.match(rest, position)
        if found is None:
            hint = "Write it like choices[0].message.content."
            raise settings.error(f"has the {setting} `{path}`, which cannot be read at `{rest[position:]}`", hint)
        name, index, *quoted = found.groups()
        steps.append(int(index) if index is not None else next(text for text in (name, *quoted) if text is not None))
        position = found.end()
    return tuple(steps)


def _follow(value: Any, step: Step) -> Any:
    try:
        if isinstance(step, str) and isinstance(value, dict):
            return value[step]
        if isinstance(step, int) and isinstance(value, list):
            return value[step]
    except (KeyError, IndexError):
        pass
    return _NOTHING


def _there(value: Any) -> str:
    """The keys or the type of a value in which a step leads to nothing."""
    if isinstance(value, dict):
        return f"there are {', '.join(f'`{key}`' for key in list(value)[:10])}" if value else "it is empty"
    return f"there is {'a list of ' + str(len(value)) if isinstance(value, list) else type(value).__name__}"
