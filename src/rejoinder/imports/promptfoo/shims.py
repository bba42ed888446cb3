"""Files that are written beside a suite, to run what is code in a configuration. The import itself runs none of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from rejoinder.imports.promptfoo.words import Lost
from rejoinder.imports.sources import Spot
from rejoinder.imports.texts import literal_tree
from rejoinder.imports.workbench import Workbench

SCRIPTS = ("javascript", "python")
_FILE = re.compile(r"(file://)?(.*?\.(?:[cm]?[jt]s|py))(?::(\w+))?")
_LOADS_OTHERS = re.compile(r"""(?m)(?:from|require\(|import)\s*["'(]*\.{1,2}/|^\s*from \.""")


class Shims:
    """The files beside one suite."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self.parses_json = False
        """Whether replies are JSON by the settings of their targets, so that code gets their value."""
        self.transforms = False
        """Whether the replies of the current tests are transformed, so that code gets lists and mappings as such."""

    def check(self, spot: Spot, kind: str, code: str, extra: dict[str, Any]) -> dict[str, Any]:
        """A check that runs code of the configuration. Raises Lost."""
        extra = literal_tree(extra)
        if code.startswith("file://"):
            code = f"file://{self.file(spot, code)}"
        elif kind == "python" and _FILE.fullmatch(code) and "\n" not in code and "(" not in code:
            code = f"file://{self.file(spot, code)}"  # as cells of a CSV file name it
        if kind == "javascript":
            script = self._bench.beside("promptfoo_checks.mjs", _script("promptfoo_checks.mjs"))
            options = {**extra, **self._parsing("json")}
            return {"code": {"script": ["node", script, code, *([_json(options)] if options else [])]}}
        module = self._bench.beside("promptfoo_checks.py", _script("promptfoo_checks.py.txt")).removesuffix(".py")
        options = {**extra, **self._parsing("json_output")}
        return {"python": {"call": f"{module}:check", "with": {"code": code, **options}}}

    def _parsing(self, name: str) -> dict[str, Any]:
        """The option of code whose replies may be JSON: any value, or only lists and mappings."""
        if self.parses_json or self.transforms:
            return {name: True if self.parses_json else "structures"}
        return {}

    def part(self, spots: Sequence[Spot]) -> dict[str, Any]:
        """The part of a reply that is checked, which transforms make one after the other. Raises Lost."""
        steps = [self._step(spot) for spot in spots]
        text = _script("promptfoo_transform.py.txt").replace("<STEPS>", _quoted(steps))
        module = self._bench.beside("promptfoo_transform.py", text).removesuffix(".py")
        return {"python": f"{module}:part"}

    def _step(self, spot: Spot) -> str:
        code = spot.value
        if not isinstance(code, str) or not code.strip():
            raise Lost("transform", "it has no code")
        return f"file://{self.file(spot, code)}" if code.startswith("file://") else code.strip()

    def file(self, spot: Spot, written: str) -> str:
        """The path of a file of code, with the name of its function, as the suite has to write it. Raises Lost."""
        found = _FILE.fullmatch(written)
        if found is None:
            raise Lost(written[:60], "only files of JavaScript and Python can be run")
        path = spot.locate(found[2])
        if not path.is_file():
            raise Lost(written[:60], "there is no such file")
        is_copied = self._bench.out is not None and not path.is_relative_to(self._bench.out)
        if is_copied and _LOADS_OTHERS.search(spot.text_of(path)):
            self._bench.ledger.approximate(spot, written[:60], "the file is copied; what it loads beside it is not")
        return self._bench.reference(spot, path) + (f":{found[3]}" if found[3] else "")

    def echo(self) -> str:
        """The function that answers with the prompt."""
        return f"{self._bench.beside('promptfoo_echo.py', _script('promptfoo_echo.py.txt')).removesuffix('.py')}:reply"

    def provider(self, spot: Spot, written: str, config: Any, name: str) -> str:
        """The function that answers by a provider in a file of Python. Raises Lost."""
        file, _, function = self.file(spot, written).partition(".py:")
        path = file if file.endswith(".py") else f"{file}.py"
        text = (
            _script("promptfoo_provider.py.txt").replace("<FILE>", path).replace("<FUNCTION>", function or "call_api")
        )
        text = text.replace("<CONFIG>", _quoted(config or {}))
        return f"{self._bench.beside(f'promptfoo_{name}.py', text).removesuffix('.py')}:reply"


def _script(name: str) -> str:
    return files("rejoinder.imports.promptfoo").joinpath("scripts", name).read_text(encoding="utf-8")


def _quoted(value: Any) -> str:
    """A value as JSON between three double quotes of Python."""
    return json.dumps(value).replace('"""', '\\"\\"\\"')


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
