"""The code of the project that a suite names: scripts, and modules of functions. It is found as files; nothing is
imported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rejoinder.checks.plugins import CHECKS_FILE
from rejoinder.model import Case, Code, Custom, PythonCheck, Suite, Target, walk_case
from rejoinder.model.providers import row_of
from rejoinder.model.suite import COMMANDS_OF_TARGETS
from rejoinder.model.tools import PythonTool, Tool, runs_code
from rejoinder.placeholders import words_without
from rejoinder.providers.settings import normalize_keys
from rejoinder.user_code.imports import module_files
from rejoinder.user_code.lookup import folder_for, is_source, script_words


class CodeOfSuite:
    """The code that the targets of a suite name, and the cases that are added."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._folders = (str(Path(suite.path).parent), suite.root)
        self.is_run = False
        """Whether the suite runs any code of the project."""
        self.functions: dict[str, None] = {}
        """Names as `module:function`, in their order."""
        self.scripts: set[Path] = set()
        for target in suite.targets.values():
            self._add_tools(target.tools)
            if target.runs_code:
                self._add_target(target)

    def add(self, case: Case) -> None:
        self._add_tools(case.all_tools)
        for check in walk_case(case):
            self.is_run = self.is_run or isinstance(check, Code | PythonCheck | Custom)
            if isinstance(check, PythonCheck):
                self.functions[check.call] = None
            elif isinstance(check, Code):
                self._add_scripts(check.script, check.cwd)
            elif isinstance(check, Custom):
                self.scripts.add(Path(self._suite.root, CHECKS_FILE))

    def modules(self) -> Iterator[tuple[Path, ...]]:
        """The files of each function's module: those that may be it, the first that exists is."""
        for place in dict.fromkeys(name.partition(":")[0].replace(".", "/") for name in self.functions):
            yield tuple(file for folder in self._folders for file in module_files(folder, place))

    def _add_target(self, target: Target) -> None:
        self.is_run = True
        if row_of(target.provider).in_process:
            self.functions[str(target.settings.get("call"))] = None
        else:
            settings = normalize_keys(target.settings)
            self._add_scripts(words_without(settings), settings.get("cwd"))
        for command in filter(None, map(target.settings.get, COMMANDS_OF_TARGETS)):
            words = command.get("command") or ""
            self._add_scripts(tuple(words) if isinstance(words, list) else (words,), command.get("cwd"))

    def _add_tools(self, tools: tuple[Tool, ...]) -> None:
        for tool in tools:
            self.is_run = self.is_run or runs_code(tool)
            if isinstance(tool, PythonTool):
                self.functions[tool.call] = None

    def _add_scripts(self, command: tuple[str, ...], cwd: str | None) -> None:
        """The scripts that a command names."""
        inside = folder_for(cwd, self._folders)
        self.scripts |= {path for word in script_words(command) if is_source(path := inside / word)}
