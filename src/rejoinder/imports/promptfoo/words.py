"""Texts of a configuration in our templates. What cannot be said in them is rendered at the import: in the text itself
where it belongs to one case, otherwise in a variable that every case gets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rejoinder.imports.promptfoo.expressions import TemplateFault
from rejoinder.imports.promptfoo.templates import Template, has_marks, read_template
from rejoinder.imports.texts import literal

_LONGEST_NOTE = 80


class Lost(Exception):
    """A construct has no form here: its name, and why."""

    def __init__(self, what: str, how: str) -> None:
        super().__init__(what)
        self.what = what
        self.how = how


class Words:
    """The texts of one configuration."""

    def __init__(self) -> None:
        self.known: set[str] | None = None
        """The variables of all tests; None if they could not be read."""
        self.used: set[str] = set()
        """The variables that are named in the suite's texts."""
        self.rendered: dict[str, Template] = {}
        """Variables that the import computes for each case, by name."""
        self._notes: dict[str, None] = {}

    def fill(self, text: str, variables: Mapping[str, Any] | None, *, in_variables: bool = False) -> str:
        """A text of the suite. `variables`: of its case; None if all cases share it. Raises Lost."""
        template = self._read(text)
        if template.is_plain:
            known = None if self.known is None else {*self.known, *self.rendered, "env"}
            self.used |= template.names - {"env"} if known is None else template.names & known - {"env"}
            return template.ours(known=known, in_variables=in_variables)
        if variables is None:
            return f"{{{{ {self._variable(template)} }}}}"
        self._notes[f"rendered at the import: {_brief(text)}"] = None
        return literal(render(template, variables))

    def fill_all(self, value: Any, variables: Mapping[str, Any] | None) -> Any:
        """A value with every text in it. Raises Lost."""
        if isinstance(value, str):
            return self.fill(value, variables)
        if isinstance(value, list):
            return [self.fill_all(one, variables) for one in value]
        if isinstance(value, dict):
            return {key: self.fill_all(one, variables) for key, one in value.items()}
        return whole(value)

    def take_notes(self) -> list[str]:
        """Notes about texts that were rendered since the last call."""
        notes, self._notes = list(self._notes), {}
        return notes

    @staticmethod
    def _read(text: str) -> Template:
        try:
            return read_template(text)
        except TemplateFault as fault:
            raise Lost("a template", str(fault)) from None

    def _variable(self, template: Template) -> str:
        """The variable that holds a shared text."""
        for name, known in self.rendered.items():
            if known == template:
                return name
        name = f"rendered_{len(self.rendered) + 1}"
        self.rendered[name] = template
        return name


def render(template: Template, variables: Mapping[str, Any]) -> str:
    """A template with the variables of a case. Raises Lost."""
    if "env" in template.names:
        raise Lost("a template", "it needs environment variables, which an import does not read")
    try:
        return template.render(variables)
    except TemplateFault as fault:
        raise Lost("a template", str(fault)) from None


def resolved(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Variables with those filled in that name each other; one that cannot be filled in stays as written."""
    return {name: _resolved(value, variables) for name, value in variables.items()}


def _resolved(value: Any, variables: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or not has_marks(value):
        return value
    try:
        return read_template(value).render(variables)
    except TemplateFault:
        return value


def whole(value: Any) -> Any:
    """A number as JavaScript writes it: 1.0 is 1."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return int(value) if is_whole else value


def slug(text: str, known: set[str], otherwise: str) -> str:
    """A short name of letters, digits and dashes, which no other one has."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", text[:200]).strip("-").lower()[:40].rstrip("-") or otherwise
    number = 1
    while (written := name if number == 1 else f"{name}-{number}") in known:
        number += 1
    known.add(written)
    return written


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_NOTE else f"{line[: _LONGEST_NOTE - 3]}..."
