"""A pytest session with suites: what is collected, how the session ends, and what its last lines say."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from rejoinder.errors import UsageError
from rejoinder.pytest_plugin.ending import Conclusion, conclude
from rejoinder.pytest_plugin.items import CaseItem, CaseVerdict, NoVerdict, SuiteFile
from rejoinder.pytest_plugin.running import SessionRun
from rejoinder.pytest_plugin.settings import SessionSettings, read_settings
from rejoinder.pytest_plugin.shared import Collected, Order, SharedFolder
from rejoinder.runs.folder import new_run_id
from rejoinder.suite.discover import kind_of, looks_like_suite, why_passed_over
from rejoinder.words.inert import one_line
from rejoinder.words.numbers import listed

FOLDER = "rejoinder_folder"
"""The name under which pytest-xdist hands the shared folder to its workers."""
SUFFIXES = (".yaml", ".yml")
MOST_PASSED_OVER = 10
"""Files that are named because they were passed over."""


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
        self._collected = Collected()
        self._failed = self._passed = 0
        self._conclusions: list[Conclusion] = []

    # Collection

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if file_path.suffix.lower() not in SUFFIXES:
            return None
        if not parent.session.isinitpath(file_path):
            if not self.settings.takes(file_path, self.config.rootpath):
                return None
            if kind_of(file_path) != "suite" or not looks_like_suite(file_path):
                self._pass_over(file_path)
                return None
        file = SuiteFile.from_parent(parent, path=file_path)
        file.runs = self
        return file

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """pytest also makes collectors of files beside the path that is named, and does not use them."""
        self._collected.suites += isinstance(collector, SuiteFile)

    def _places(self) -> list[Path]:
        """The files and folders that are collected."""
        return [self.config.invocation_params.dir / place.partition("::")[0] for place in self.config.args]

    def _pass_over(self, path: Path) -> None:
        why = why_passed_over(path)
        if why is not None and any(path.is_relative_to(place) for place in self._places()):
            shown = path.relative_to(self.config.rootpath) if path.is_relative_to(self.config.rootpath) else path
            self._collected.passed_over[str(shown)] = why

    @pytest.hookimpl(hookwrapper=True)
    def pytest_collection(self) -> Generator[None]:
        yield
        if self._is_worker:
            self._collected.write(self._folder)

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
        self._passed += report.when == "call" and report.passed and not hasattr(report, "wasxfail")
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
        self._collected = Collected.read(self._folder) or self._collected
        self._conclusions = [found for shared in self._shared() if (found := conclude(shared)) is not None]
        for found in self._conclusions:
            self._add_properties(found)
            if found.fails and session.exitstatus in _NOT_FAILED:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            elif not found.counts and not self._passed and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        if self._lacks_suites and session.exitstatus in _NOT_FAILED:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    @property
    def _lacks_suites(self) -> bool:
        return self.settings.must_collect and not self._collected.suites

    def _add_properties(self, found: Conclusion) -> None:
        """Properties of the whole in the file of `--junitxml`."""
        for plugin in self.config.pluginmanager.get_plugins():
            if hasattr(plugin, "add_global_property"):
                for name, value in found.properties:
                    plugin.add_global_property(name, value)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        errors, warnings = list(self._without_suites()), list(self._files_passed_over())
        if self._conclusions or errors or warnings:
            terminalreporter.section("rejoinder", sep="-")
        for row in errors:
            terminalreporter.write_line(row, red=self._lacks_suites, yellow=not self._lacks_suites)
        for row in warnings:
            terminalreporter.write_line(f"warning: {row}", yellow=True)
        for found in self._conclusions:
            for row in found.rows:
                terminalreporter.write_line(row)
            for row in found.warnings:
                terminalreporter.write_line(f"warning: {row}", yellow=True)

    def _without_suites(self) -> Iterator[str]:
        """For a session that was to collect suites, or that may have been."""
        places = self.config.args
        may_have = self.settings.must_collect or any(place.is_dir() for place in self._places())
        if self._collected.suites or not may_have:
            return
        kind = "error" if self.settings.must_collect else "warning"
        patterns = " ".join(one_line(pattern) for pattern in self.settings.patterns)
        yield f"{kind}: no suite was collected in {listed([one_line(place) for place in places])}"
        yield f"rejoinder_files: {patterns}"
        yield "Name the files or folders of the suites, add their folder to `testpaths`, or mend `rejoinder_files`."

    def _files_passed_over(self) -> Iterator[str]:
        passed_over = self._collected.passed_over
        for path, why in list(passed_over.items())[:MOST_PASSED_OVER]:
            yield f"{one_line(path)} is not collected: {one_line(why)}"
        if len(passed_over) > MOST_PASSED_OVER:
            yield f"{len(passed_over) - MOST_PASSED_OVER:,} more files are not collected"

    def pytest_unconfigure(self) -> None:
        if not self._is_worker:
            shutil.rmtree(self._folder, ignore_errors=True)


_NOT_FAILED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def _cases_of(session: pytest.Session) -> list[CaseItem]:
    """The selected cases."""
    return [item for item in session.items if isinstance(item, CaseItem)]
