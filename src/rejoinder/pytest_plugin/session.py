"""A pytest session with suites: what is collected, how the session ends, and what its last lines say."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from rejoinder.errors import UsageError
from rejoinder.pytest_plugin.ending import Conclusion, conclude
from rejoinder.pytest_plugin.items import CaseItem, CaseVerdict, NoVerdict, SuiteFile
from rejoinder.pytest_plugin.running import SessionRun
from rejoinder.pytest_plugin.settings import SessionSettings, read_settings
from rejoinder.pytest_plugin.shared import Order, SharedFolder
from rejoinder.runs.folder import new_run_id
from rejoinder.suite.discover import kind_of, looks_like_suite

FOLDER = "rejoinder_folder"
"""The name under which pytest-xdist hands the shared folder to its workers."""
SUFFIXES = (".yaml", ".yml")


class SuiteSession:
    """The plugin of a session that collects suites; of each process, with pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.settings: SessionSettings = read_settings(config)
        given: dict[str, Any] = getattr(config, "workerinput", {})
        self._is_worker = bool(given)
        self._folder = Path(given[FOLDER]) if given else Path(mkdtemp(prefix="rejoinder-pytest-"))
        self._runs: dict[str, SessionRun] = {}
        """By the root of their project: a run is kept in one project."""
        self._failed = 0
        self._conclusions: list[Conclusion] = []

    # Collection

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if file_path.suffix.lower() not in SUFFIXES:
            return None
        if not parent.session.isinitpath(file_path):
            if not self.settings.takes(file_path, self.config.rootpath):
                return None
            if kind_of(file_path) != "suite" or not looks_like_suite(file_path):
                return None
        file = SuiteFile.from_parent(parent, path=file_path)
        file.runs = self
        return file

    # The run

    def wait_for(self, item: CaseItem) -> CaseVerdict | NoVerdict:
        """The verdict of a case. The first one that is asked for starts the run of all selected cases."""
        roots = list(dict.fromkeys(one.file.root for one in _cases_of(item.session)))
        root = item.file.root
        if len(roots) > 1 and self.settings.options.limits.has_budget:
            return NoVerdict(
                f"--rejoinder-budget holds for one project, and these are {len(roots)}: name one at a time"
            )
        if root not in self._runs:
            shared = SharedFolder(self._folder / str(roots.index(root)))
            self._runs[root] = SessionRun(shared, lambda: self._order(item.session, root))
        return self._runs[root].wait_for(item.case)

    def _order(self, session: pytest.Session, root: str) -> Order:
        chosen = [item for item in _cases_of(session) if item.file.root == root]
        if not chosen:
            raise UsageError("no case is selected")
        options, every = self.settings.options, {str(item.path): item.file.cases for item in chosen}
        names = tuple(dict.fromkeys(item.case.name for item in chosen))
        if len(names) < sum(every.values()):
            cases = tuple(dict.fromkeys(name.id for name in names))
            options = options.changed(cases=cases, pairs=names)
        search = tuple(place for place in sys.path if place)
        return Order(suites=tuple(every), options=options, root=root, run=new_run_id(), search=search)

    # pytest-xdist

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[FOLDER] = str(self._folder)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Stop the run with the session, as for `--maxfail 3`: a worker does not know that others failed."""
        self._failed += report.failed
        most = self.config.getoption("maxfail")
        if most and self._failed >= most and not self._is_worker:
            for shared in self._shared():
                shared.stop()

    def _shared(self) -> list[SharedFolder]:
        return [SharedFolder(path) for path in sorted(self._folder.glob("*")) if path.is_dir()]

    # The end

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        stops = bool(session.shouldstop or session.shouldfail) or exitstatus in (
            pytest.ExitCode.INTERRUPTED,
            pytest.ExitCode.INTERNAL_ERROR,
        )
        for run in self._runs.values():
            run.finish(stops=stops)
        if self._is_worker:
            return
        self._conclusions = [found for shared in self._shared() if (found := conclude(shared)) is not None]
        for found in self._conclusions:
            self._add_properties(found)
            if found.fails and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _add_properties(self, found: Conclusion) -> None:
        """Properties of the whole in the file of `--junitxml`."""
        for plugin in self.config.pluginmanager.get_plugins():
            if hasattr(plugin, "add_global_property"):
                for name, value in found.properties:
                    plugin.add_global_property(name, value)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._conclusions:
            terminalreporter.section("rejoinder", sep="-")
        for found in self._conclusions:
            for row in found.rows:
                terminalreporter.write_line(row)
            for row in found.warnings:
                terminalreporter.write_line(f"warning: {row}", yellow=True)

    def pytest_unconfigure(self) -> None:
        if not self._is_worker:
            shutil.rmtree(self._folder, ignore_errors=True)


def _cases_of(session: pytest.Session) -> list[CaseItem]:
    """The selected cases."""
    return [item for item in session.items if isinstance(item, CaseItem)]
