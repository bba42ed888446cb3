"""Texts of AgentV in our templates. AgentV 4 knows only names, and leaves one that no variable has; AgentV 5 has
Nunjucks, in which such a name stands for nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rejoinder.imports.promptfoo.expressions import TemplateFault
from rejoinder.imports.promptfoo.templates import read_template
from rejoinder.imports.promptfoo.words import Lost, render, whole
from rejoinder.imports.texts import literal, literal_tree

_NAME = re.compile(r"\{\{\s*([A-Za-z_][\w.]*)\s*\}\}")
_ENVIRONMENT = re.compile(r"\$\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_OURS = re.compile(r"[A-Za-z_]\w*")
"""Names that a suite's variables may have."""
NO_VARIABLES: Mapping[str, Any] = {}

OF_JUDGES = {
    **dict.fromkeys(("output", "answer", "candidate_answer"), "candidate_answer"),
    **dict.fromkeys(("input", "question"), "question"),
    **dict.fromkeys(("expected_output", "reference_answer"), "reference_answer"),
    **dict.fromkeys(("criteria", "rubric"), "expected_outcome"),
}
"""AgentV's variables of a judge's prompt, by ours."""
_WITHOUT_FORM = frozenset({"metadata", "metadata_json", "rubrics", "rubrics_json", "file_changes", "tool_calls"})


class Words:
    """The texts of one file."""

    def __init__(self, *, modern: bool) -> None:
        self.modern = modern
        """Whether the file is for AgentV 5."""

    def fill(self, text: str, variables: Mapping[str, Any]) -> str:
        """A text of a case in our form. Raises Lost."""
        if self.modern:
            return self._fill_template(text, variables)
        pieces: list[str] = []
        place = 0
        for found in re.finditer(f"{_ENVIRONMENT.pattern}|{_NAME.pattern}", text):
            pieces.append(literal(text[place : found.start()]))
            pieces.append(f"{{{{ env('{found[1]}') }}}}" if found[1] else self._named(found, variables))
            place = found.end()
        return "".join([*pieces, literal(text[place:])])

    def _named(self, found: re.Match[str], variables: Mapping[str, Any]) -> str:
        """The text in place of a name: our variable, or the value."""
        path = found[2]
        value = _looked_up(variables, path)
        if value is None:
            return literal(found[0])
        if is_variable(path, value):
            return f"{{{{ {path} }}}}"
        return literal(value if isinstance(value, str) else _json(value))

    def _fill_template(self, text: str, variables: Mapping[str, Any]) -> str:
        try:
            template = read_template(_ENVIRONMENT.sub(r"{{ env.\1 }}", text))
        except TemplateFault as fault:
            raise Lost("a template", str(fault)) from None
        plain = {name for name, value in variables.items() if is_variable(name, value)}
        names = template.names - {"env"}
        if template.is_plain and not names & (variables.keys() - plain):
            return template.ours(known={*plain, "env"})
        return literal(render(template, variables))

    def rendered(self, text: str, variables: Mapping[str, Any]) -> str:
        """A text with its variables filled in. Raises Lost."""
        try:
            return render(read_template(text), variables)
        except TemplateFault as fault:
            raise Lost("a template", str(fault)) from None

    def open(self, text: str) -> str:
        """A text in which each case fills in its variables. Raises Lost."""
        try:
            template = read_template(_ENVIRONMENT.sub(r"{{ env.\1 }}", text))
        except TemplateFault as fault:
            raise Lost("a template", str(fault)) from None
        if not template.is_plain:
            raise Lost("a template", "only names of variables have a form in a prompt for all cases")
        return template.ours()

    def tree(self, value: Any, variables: Mapping[str, Any]) -> Any:
        """A value with every text in it. Raises Lost."""
        if isinstance(value, str):
            return self.fill(value, variables)
        if isinstance(value, list):
            return [self.tree(one, variables) for one in value]
        if isinstance(value, dict):
            return {self.fill(str(key), NO_VARIABLES): self.tree(one, variables) for key, one in value.items()}
        return whole(value)

    def resolved(self, value: Any, variables: Mapping[str, Any]) -> Any:
        """The value that a text stands for as a whole, such as the messages of `{{ input }}`; any other unchanged."""
        found = _NAME.fullmatch(value.strip()) if isinstance(value, str) else None
        named = None if found is None else _looked_up(variables, found[1])
        return value if named is None or isinstance(named, str) else named

    def judged(self, text: str, variables: Mapping[str, Any]) -> tuple[str, list[str]]:
        """The prompt of a judge with our names, and the names that have no form here. Raises Lost."""
        lost: list[str] = []
        marks: list[str] = []

        def marked(found: re.Match[str]) -> str:
            name = found[1]
            if name in _WITHOUT_FORM:
                lost.append(name)
                return ""
            if name not in OF_JUDGES:
                return found[0]
            marks.append(f"{{{{ {OF_JUDGES[name]} }}}}")
            return f"\0{len(marks) - 1}\0"

        written = self.fill(_NAME.sub(marked, text.replace("\0", "")), variables)
        return re.sub(r"\0(\d+)\0", lambda found: marks[int(found[1])], written), lost


def shows_judge_variables(text: str) -> bool:
    """Whether a prompt is a judge's whole prompt, and not only its criteria."""
    return any(found[1] in OF_JUDGES or found[1] in _WITHOUT_FORM for found in _NAME.finditer(text))


def is_variable(name: str, value: Any) -> bool:
    """Whether a suite can fill in the variable by its name."""
    if isinstance(value, str):
        return bool(_OURS.fullmatch(name)) and "{{" not in value
    return bool(_OURS.fullmatch(name)) and isinstance(value, int | float) and not isinstance(value, bool)


def variables_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that a case keeps."""
    return {name: literal_tree(whole(value)) for name, value in values.items() if _OURS.fullmatch(name)}


def structured(value: Any) -> str:
    """A value in place of a text, as AgentV sends it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _looked_up(variables: Mapping[str, Any], path: str) -> Any:
    value: Any = variables
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _json(value: Any) -> str:
    return json.dumps(whole(value), ensure_ascii=False, separators=(",", ":"))
