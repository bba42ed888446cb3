"""Files that assertions name: programs, which the suite runs through a file beside it, prompts of judges, and lists of
other assertions. The import itself runs none of them."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from rejoinder.imports.promptfoo.shims import Shims
from rejoinder.imports.promptfoo.words import Lost
from rejoinder.imports.sources import ImportFault, Spot
from rejoinder.imports.texts import literal, literal_tree
from rejoinder.imports.workbench import Workbench
from rejoinder.project.folders import find_root, upward

_SCRIPT = "agentv_checks.py"
_MADE = (".ts", ".js", ".mts", ".mjs")
_FOLDERS = ("assertions", "graders", "judges")
"""The folders of a project's graders, below `.agentv`."""


class Graders:
    """The files around one source."""

    def __init__(self, source: Path, bench: Workbench) -> None:
        self._source = source
        """The file of the eval: paths are relative to its folder, or to one above."""
        self._bench = bench

    def above(self) -> list[Path]:
        """The folder of the eval and those above it, within the imported folder."""
        root = self._bench.folder.root
        return [folder for folder in self._source.parents if folder.is_relative_to(root)]

    def found(self, spot: Spot, written: str) -> Path | None:
        """A file or folder as AgentV looks for it: from the folder of the eval upward. Raises Lost if it is outside of
        the imported folder, or behind a link."""
        shown = written.lstrip("/\\")
        faults: list[str] = []
        for folder in self.above():
            try:
                path = spot.locate(shown, folder / "x")
            except ImportFault as fault:
                faults.append(fault.what)
                continue
            if path.exists():
                return path
        if faults:
            raise Lost(shown[:60], faults[0])
        return None

    def file(self, spot: Spot, written: str) -> Path | None:
        """A file as `found` has it; None if it cannot be read."""
        try:
            path = self.found(spot, written.strip().removeprefix("file://"))
        except Lost:
            return None
        return path if path is not None and path.is_file() else None

    def shown(self, spot: Spot, path: Path, written: str) -> str:
        """The path of a file in a suite: as the source has it, where a suite finds it by that."""
        shown, place = written.lstrip("/\\"), self._bench.place
        folders = upward(place, find_root(place, Path.cwd()))
        found = next((folder / shown for folder in folders if (folder / shown).exists()), None)
        return literal(shown) if found == path else self._bench.link(spot, path)

    # Programs

    def program(self, kind: str, command: Spot, cwd: Spot, config: dict[str, Any]) -> dict[str, Any]:
        """A check that runs a program. Raises Lost."""
        value = command.value
        if isinstance(value, str) and value.strip():
            words = ["sh", "-c", value.strip()]
        elif isinstance(value, list) and value and all(isinstance(one, str) and one for one in value):
            words = list(value)
        else:
            raise Lost(kind, "it has no command")
        folder = self._source.parent
        if isinstance(cwd.value, str) and cwd.value.strip():
            found = self.found(cwd, cwd.value)
            if found is None or not found.is_dir():
                raise Lost(kind, "there is no such folder as its `cwd`")
            folder = found
        return self._check(command, words, folder, config)

    def custom(self, kind: str, spot: Spot, config: dict[str, Any]) -> dict[str, Any] | None:
        """A check of a type that a file of the project defines; None if there is no such file."""
        if not re.fullmatch(r"[\w.-]+", kind):
            return None
        for folder in self.above():
            for inner in _FOLDERS:
                for suffix in _MADE:
                    path = folder / ".agentv" / inner / f"{kind}{suffix}"
                    if path.is_file() and not path.is_symlink():
                        written = self._bench.link(spot, path)
                        return self._check(spot, ["bun", "run", written], self._bench.place, config)
        return None

    def _check(self, spot: Spot, words: list[str], folder: Path, config: dict[str, Any]) -> dict[str, Any]:
        module = self._script()
        given: dict[str, Any] = {"command": [literal(one) for one in words]}
        if (cwd := self._bench.link(spot, folder)) != ".":
            given["cwd"] = cwd
        if config:
            given["config"] = literal_tree(config)
        return {"python": {"call": f"{module}:grade", "with": given}}

    def code(self, kind: str, spot: Spot, extra: dict[str, Any]) -> dict[str, Any]:
        """A check that runs JavaScript or Python of the file. Raises Lost."""
        return Shims(self._bench).check(spot, kind, spot.value, extra)

    def _script(self) -> str:
        text = files("rejoinder.imports.agentv").joinpath("scripts", f"{_SCRIPT}.txt").read_text(encoding="utf-8")
        return self._bench.beside(_SCRIPT, text).removesuffix(".py")

    # Prompts and assertions in files

    def prompt(self, spot: Spot) -> str:
        """The text of a judge's prompt in a file. Raises Lost."""
        written = spot.value.removeprefix("file://")
        path = self.found(spot, written)
        if path is None or not path.is_file():
            raise Lost(written[:60], "there is no such file")
        return spot.text_of(path)

    def rewritten(self, spot: Spot, text: str, ours: str) -> str:
        """The name of a file with a judge's prompt in our form."""
        path = self.found(spot, spot.value.removeprefix("file://"))
        assert path is not None
        if ours == text:
            return self._bench.reference(spot, path)
        return self._bench.beside(f"{path.stem}.judge{path.suffix}", ours)

    def included(self, spot: Spot) -> Path:
        """A file of assertions. Raises Lost."""
        written = spot.value
        if not isinstance(written, str) or not written.strip():
            raise Lost("include", "it names no file")
        is_path = written.startswith(".") or "/" in written or "\\" in written
        names = [written] if is_path else [f".agentv/templates/{written}{suffix}" for suffix in (".yaml", ".yml")]
        for name in names:
            path = self.found(spot, name)
            if path is not None and path.is_file():
                return path
        raise Lost(f"include {written[:60]}", "there is no such file")
