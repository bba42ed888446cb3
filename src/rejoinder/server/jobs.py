"""Jobs of queued runs: an entry of the queue holds a job, and the server sends it to the process of the run."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

Flat: TypeAlias = dict[str, Any]
"""Options of a run without groups, as `RunOptions.flat` writes them and `read_options` reads them. Run folders have
the same form: an option keeps its place when it moves to another group."""


class RunJob(Struct, frozen=True, tag="run"):
    suite: str
    """The path of its file."""
    options: Flat


class RerunJob(Struct, frozen=True, tag="rerun"):
    """Run again what did not pass in a run."""

    folder: str


class ResumeJob(Struct, frozen=True, tag="resume"):
    folder: str
    retry_errors: bool = False
    """Make calls again that ended in an error."""


class ForkJob(Struct, frozen=True, tag="fork"):
    folder: str
    options: Flat
    """They have the case and the fork."""


class GradeJob(Struct, frozen=True, tag="grade"):
    folder: str


class JudgeJob(Struct, frozen=True, tag="judge"):
    """Ask a judge of a run about the replies that have human labels for it."""

    folder: str
    judge: str
    """The digest of its instructions."""


class CommandJob(Struct, frozen=True, tag="command"):
    """A command that an earlier version queued. It goes after one release, with `job_of`."""

    arguments: tuple[str, ...]
    """The words after `rejoinder`."""


Job: TypeAlias = RunJob | RerunJob | ResumeJob | ForkJob | GradeJob | JudgeJob | CommandJob


def job_of(arguments: tuple[str, ...]) -> Job:
    """The job of an entry that an earlier version wrote."""
    match arguments:
        case ("resume", folder, *again):
            return ResumeJob(folder, retry_errors=bool(again))
        case ("grade", folder):
            return GradeJob(folder)
        case _:
            return CommandJob(arguments)
