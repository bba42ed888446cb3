"""Runs on a server: `rejoinder run --server`, and how commands tell of them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from rejoinder.cli.output import echo, write_data
from rejoinder.cli.server_options import ADDRESS, Remote
from rejoinder.client import RunChoices, RunState, Server
from rejoinder.errors import SuiteError, UsageError
from rejoinder.project.folders import find_root
from rejoinder.runs.options import RunOptions
from rejoinder.words.numbers import listed

if TYPE_CHECKING:
    from rejoinder.client import Event
    from rejoinder.suite.configuration import Project

TOLD_EVERY_S = 2.0
MOST_NAMED = 20
"""Conversations that did not pass that are named while a run goes on."""
MOST_SENT = 4 << 20
_TOLD = ("failed", "error")


def run_remotely(remote: Remote, paths: tuple[Path, ...], choices: RunChoices, form: str) -> int:
    """Queue a run on a server and watch it; the exit code that it ended with."""
    server = remote.connect()
    run = _start(server, paths, choices)
    if remote.no_wait:
        if form == "json":
            write_data(msgspec.to_builtins(run))
        else:
            echo(run.id)
        at = f" --server {server.url}" if remote.server != ADDRESS else ""
        echo(f"queued; rejoinder status {run.id}{at} tells how it is", err=True)
        return 0
    echo(f"run {run.id} is queued at {server.url}", err=True)
    try:
        return _watch(server, run.id, form)
    except KeyboardInterrupt:
        echo(f"the run continues; rejoinder stop {run.id} --server {server.url} stops it", err=True)
        return 130


_SENT = frozenset(RunChoices.__struct_fields__)
_TYPED = {
    "confirm": "--against",
    "rounds": "--repeat auto",
    "pairs": "--failed",
    "failed_from": "--failed",
    "timeout_s": "--timeout",
    "cache_lifetime_s": "--cache-ttl",
    "include_messages": "--include",
    "targets_file": "--targets",
}
"""The options that users type, of fields with other names."""


def choices_of(options: RunOptions, models: tuple[str, ...]) -> RunChoices:
    """What a server is told. Raises UsageError for options that only a run on this machine has."""
    given, usual = options.flat(), RunOptions().flat()
    other = [name for name, value in given.items() if value != usual[name] and name not in _SENT]
    if other:
        named = listed(list(dict.fromkeys(_TYPED.get(name) or f"--{name.replace('_', '-')}" for name in other)))
        raise UsageError(f"a run on a server cannot have {named}", "Leave it out, or run here without --server.")
    wanted: dict[str, Any] = {name: given[name] for name in _SENT}
    wanted["targets"] = (*options.selection.targets, *models)
    try:
        return msgspec.convert({name: value for name, value in wanted.items() if value is not None}, RunChoices)
    except msgspec.ValidationError as error:
        raise UsageError(f"a run on a server cannot have that: {error}") from None


def _start(server: Server, paths: tuple[Path, ...], choices: RunChoices) -> RunState:
    """A file of this machine is sent, unless the server has the same project; what is no file is a name that the server
    knows."""
    if len(paths) == 1 and len(paths[0].parts) == 1 and not os.path.lexists(paths[0]):
        return server.start(str(paths[0]), options=choices)
    from rejoinder.suite.discover import find_files

    files, _ = find_files(paths)
    if len(files) > 1:
        raise UsageError(f"a run on a server has one suite, and these are {len(files)}", "Name one of them.")
    path = files[0].resolve()
    root = find_root(path.parent, Path.cwd()).resolve()
    if path.is_relative_to(root) and server.has_project(root):
        return server.start(path.relative_to(root).as_posix(), options=choices)
    yaml, attached = gather(path)
    return server.start(yaml=yaml, files=attached, options=choices)


def gather(path: Path) -> tuple[str, dict[str, str]]:
    """A suite as text, and the files that it names, by the names that it has for them. Raises SuiteError for one that
    cannot be read, and UsageError for a file that cannot be sent."""
    from rejoinder.server.references import find_references
    from rejoinder.suite.configuration import open_project
    from rejoinder.suite.source import read_source

    source, problems = read_source(path, path.name)
    if source is None:
        raise SuiteError(problems)
    project = open_project(path.parent)
    sent: dict[str, str] = {}
    waiting = [one for one in find_references(source.document.data) if one.kind in ("file", "file-or-text")]
    while waiting:
        found = waiting.pop()
        if found.name in sent:
            continue
        if found.kind == "file" and (inside := _data_sets_of(found.name, path.parent, project)):
            waiting += [structs.replace(found, name=one) for one in inside]
            continue
        text = _text_of(found.name, path.parent, project, needed=found.kind == "file")
        if text is not None:
            sent[found.name] = text
            waiting += _rows_of(found.name, path.parent, project)
        if sum(map(len, sent.values())) > MOST_SENT:
            raise UsageError("the files of the suite are too large to send", "Run it here, without --server.")
    return source.text, sent


def _text_of(name: str, folder: Path, project: Project, *, needed: bool) -> str | None:
    from rejoinder.project.files import FileFault

    finder = project.finder(folder)
    found = None if "\n" in name else finder.find(name)
    if found is None or found.is_dir():
        if needed:
            raise UsageError(f"there is no file {name!r}, which the suite names", "Run `rejoinder validate`.")
        return None
    if not found.resolve().is_relative_to(folder.resolve()) or Path(name).is_absolute() or ".." in Path(name).parts:
        raise UsageError(
            f"{name!r} is not in the suite's folder, so it cannot be sent", "Move it there, or run without --server."
        )
    try:
        return finder.read(found)
    except FileFault as fault:
        raise UsageError(fault.message) from None


def _data_sets_of(name: str, folder: Path, project: Project) -> list[str]:
    """The data sets of a folder in the suite's own folder, as a suite would name them; none for a file."""
    from rejoinder.project.files import FileFault
    from rejoinder.suite.datasets import data_sets_in

    found = project.finder(folder).find(name)
    if found is None or not found.is_dir() or not found.resolve().is_relative_to(folder.resolve()):
        return []
    try:
        return [f"{name.rstrip('/')}/{one.relative_to(found).as_posix()}" for one in data_sets_in(found)]
    except FileFault as fault:
        raise UsageError(fault.message) from None


def _rows_of(name: str, folder: Path, project: Project) -> list[Any]:
    """What the rows of a data set name."""
    from rejoinder.server.references import find_references
    from rejoinder.suite.datasets import SUFFIXES, Row, read_rows

    path = project.finder(folder).find(name)
    if path is None or path.suffix.lower() not in SUFFIXES:
        return []
    rows = (row for row in read_rows(path, name) if isinstance(row, Row))
    return [one for row in rows for one in find_references(row.values, "case") if one.kind in ("file", "file-or-text")]


def _watch(server: Server, run: str, form: str) -> int:
    """Tell what happens until the end. A connection that breaks is opened again, where the last one ended."""
    told = _Told()
    after = ""
    while True:
        for event in server.events(run, after):
            after = event.id or after
            told.tell(event)
        state = server.status(run)
        if state.is_over:
            break
        time.sleep(0.2)
    document = server.document(run)
    if form == "json":
        write_data(document)
    else:
        echo(*ending_of(document))
        echo(f"its conversations: {server.url}/runs/{run}", err=True)
    return exit_code_of(state)


class _Told:
    """What was told on standard error."""

    def __init__(self) -> None:
        self._status = ""
        self._at = 0.0
        self._named: set[tuple[str, ...]] = set()

    def tell(self, event: Event) -> None:
        data = event.data
        if event.kind == "status" and data.get("status") != self._status:
            self._status = str(data.get("status"))
            if self._status == "running":
                echo("running", err=True)
        elif event.kind == "progress" and time.monotonic() - self._at >= TOLD_EVERY_S and data.get("done"):
            self._at = time.monotonic()
            echo(f"{data['done']} of {data.get('planned') or '?'} done", err=True)
        elif event.kind == "conversation" and data.get("status") in _TOLD and len(self._named) < MOST_NAMED:
            name = tuple(str(data.get(key)) for key in ("suite", "id", "target", "variant", "trial"))
            if name not in self._named:
                self._named.add(name)
                echo(f"{data['status']}: {data.get('id')} on {data.get('target')}", err=True)


def exit_code_of(state: RunState) -> int:
    return 3 if state.exit_code is None else state.exit_code


def ending_of(document: dict[str, Any]) -> list[str]:
    """How a run ended, from what the server says about it."""
    summary = document.get("summary")
    message = document.get("message")
    if not isinstance(summary, dict):
        why = f": {message}" if message else ""
        return [f"run {document.get('id')} is {document.get('status')}{why}"]
    parts = [f"{summary.get('passed')} of {summary.get('total')} passed"]
    parts += [f"{summary.get(key)} {key}" for key in ("failed", "errors") if summary.get(key)]
    return [f"run {document.get('id')} is {document.get('status')}: {', '.join(parts)}"]
