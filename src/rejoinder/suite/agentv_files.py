"""AgentV's own files in `.agentv` folders. They belong to another program, so a mistake in them never blocks a suite
that does not use the faulty part, and no message asks the user to change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import structs

from rejoinder.model import Problem
from rejoinder.suite.document_paths import read_path

FOLDER = ".agentv"
_UNREAD_CONFIGURATION = frozenset(
    [
        *("eval_patterns", "required_version", "execution", "results", "projects", "results_by_project", "dashboard"),
        *("studio", "repo_resolvers", "refs", "providers", "graders", "tests", "defaults", "hooks", "env_path"),
        *("env_from", "metadata", "name", "description"),
    ]
)
"""Keys of AgentV 4 and 5 in `.agentv/config.yaml` that mean nothing here."""
_UNREAD_SETTINGS = frozenset(
    [
        *("stream_log", "log_dir", "log_directory", "log_format", "log_output_format", "grader_target", "use_target"),
        *("keep_workspaces", "provider_batching", "batch_requests"),
    ]
)
"""Keys of AgentV's targets that do not change replies, or that `suite.targets` reads itself."""


def is_of_agentv(file: str | Path) -> bool:
    return Path(file).parent.name == FOLDER


def as_warnings(problems: Iterable[Problem]) -> list[Problem]:
    """Problems that block nothing."""
    return [structs.replace(problem, severity="warning") for problem in problems]


def as_foreign(problems: Iterable[Problem]) -> list[Problem]:
    """Warnings about another program's file, without proposals to change it."""
    return [structs.replace(problem, suggestion=None) for problem in as_warnings(problems)]


def without_unread_settings(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in _UNREAD_SETTINGS}


def problems_of_target(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The problems of one of AgentV's targets, as errors of the suites that use it."""
    for problem in problems:
        key = read_path(problem.path)[-1]
        if problem.code == "unknown-key" and key in _UNREAD_SETTINGS:
            continue
        message = f"{problem.message}; to use it here, define it in .rejoinder/targets.yaml, which wins"
        if problem.code == "unknown-key":
            message = (
                f"rejoinder does not read the setting `{key}`; to use this target here, define it in"
                " .rejoinder/targets.yaml, which wins"
            )
        yield structs.replace(problem, message=message, suggestion=None)


def problems_of_configuration(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The problems of AgentV's configuration: an unknown key blocks nothing."""
    for problem in problems:
        path = read_path(problem.path)
        if path[:1] == ("targets",):
            continue  # AgentV 5 has other things there
        if not path:
            yield from as_foreign([problem])
        elif problem.code != "unknown-key" or len(path) != 1:
            yield structs.replace(problem, suggestion=None)
        elif str(path[0]) not in _UNREAD_CONFIGURATION:
            yield from as_foreign([structs.replace(problem, message=f"rejoinder does not read the key `{path[0]}`")])
