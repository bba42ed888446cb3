"""The process of a queued run: it does one job under the id that the server has promised, and stops with its server.

Standard input is a pipe that the server holds. The job comes first, as a line of JSON. When the pipe is closed, because
the run is to stop, the server ends or was killed, the run stops as with Ctrl-C: calls in progress are finished, and
`resume` makes the rest. The exit code is that of `rejoinder run`; why a run is refused is written to standard error.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from rejoinder.calibration.labels import read_labels
from rejoinder.calibration.measure import keep_passport, labelled_suite, make_passport, read_findings
from rejoinder.calibration.subjects import find_judge, subject_of
from rejoinder.engine.failed_again import files_again, only_failed
from rejoinder.engine.load_for_run import load_for_run
from rejoinder.engine.run import fork_run, grade_run, resume_run, start_run
from rejoinder.errors import RejoinderError, SuiteError
from rejoinder.gates.against import Confirmer, resume_compared, start_compared
from rejoinder.model import Problem, Suite
from rejoinder.report.problems import printable_line, write_problem
from rejoinder.runs.folder import BUSY_CODE, RunBusy, RunFolder, reserve_run_id, runs_folder
from rejoinder.runs.options import RunOptions, read_options
from rejoinder.runs.recorded import RecordedRun, open_recorded
from rejoinder.runs.report import RunReport
from rejoinder.runs.state import INTERRUPTED
from rejoinder.server.jobs import CommandJob, ForkJob, GradeJob, Job, JudgeJob, RerunJob, ResumeJob, RunJob
from rejoinder.server.labels import label_file
from rejoinder.suite.discover import find_files


def main() -> None:
    """Do the job that the server sends, and end with its exit code. Only a bug ends in a traceback."""
    try:
        code = _do(_take_job(sys.argv[1]), sys.argv[1])
    except KeyboardInterrupt:
        _say(["interrupted"])
        code = INTERRUPTED
    except RunBusy:
        code = BUSY_CODE
    except SuiteError as error:
        _say_problems([problem for problem in error.problems if problem.severity == "error"])
        code = error.exit_code
    except RejoinderError as error:
        _say(f"error: {error}".split("\n"))
        code = error.exit_code
    sys.exit(code)


def _take_job(run: str) -> Job:
    """The job that the server sends. From here on this process stops with the server, and a new run gets the id that
    the server has promised."""
    pipe = _own_input()
    job = _read_job(pipe)
    _stop_with(pipe)
    if not isinstance(job, ResumeJob) and not (isinstance(job, JudgeJob) and _begun(run)):
        reserve_run_id(run)
    return job


def _own_input() -> int:
    """The pipe, kept from the processes that the run starts."""
    pipe = os.dup(0)
    os.set_inheritable(pipe, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return pipe


def _read_job(pipe: int) -> Job:
    """If the pipe ends before the job does, the server was killed, and nothing is begun."""
    line = bytearray()
    while not line.endswith(b"\n"):
        part = os.read(pipe, 1 << 16)
        if not part:
            raise SystemExit(2)
        line += part
    return msgspec.json.decode(line, type=Job)


def _stop_with(pipe: int) -> None:
    def wait() -> None:
        while os.read(pipe, 1):
            pass
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=wait, name="rejoinder-server", daemon=True).start()


def _begun(run: str) -> RunFolder | None:
    """The folder of a test that was cut off: its own job continues it, and makes the passport at its end."""
    folder = RunFolder(runs_folder(Path.cwd()) / run)
    return None if folder.read_receipt() is None else folder


def _do(job: Job, run: str) -> int:
    """The exit code of the run."""
    match job:
        case RunJob():
            options = read_options(job.options)
            report = _start(_load(find_files([Path(job.suite)])[0], options), options)
        case RerunJob():
            return _rerun(open_recorded(job.folder))
        case ResumeJob():
            report = _resume(open_recorded(job.folder), retry_errors=job.retry_errors)
        case ForkJob():
            report, _ = fork_run(open_recorded(job.folder), read_options(job.options))
        case GradeJob():
            recorded = open_recorded(job.folder)
            _, report = grade_run(recorded, recorded.suites(asks=False), recorded.options())
        case JudgeJob():
            report = _test_judge(job, _begun(run))
        case CommandJob():
            _run_command(job)
    return report.summary.exit_code


def _run_command(job: CommandJob) -> NoReturn:
    RunBusy.exit_code = BUSY_CODE
    sys.argv = ["rejoinder", *job.arguments]
    runpy.run_module("rejoinder", run_name="__main__")
    sys.exit()


def _start(suites: list[Suite], options: RunOptions) -> RunReport:
    return start_compared(suites, options, Confirmer()) if options.selection.is_compared else start_run(suites, options)


def _rerun(recorded: RecordedRun) -> int:
    files = files_again(recorded)
    options, said = only_failed(recorded, RunOptions())
    _say([said])
    if not options.selection.cases:
        return 0
    suites = _load(find_files(files)[0], options)
    if options.selection.pairs:
        recorded.refuse_foreign_words(suites, only_targets=True)
    return _start(suites, options).summary.exit_code


def _resume(recorded: RecordedRun, *, retry_errors: bool) -> RunReport:
    options = recorded.options()
    if options.selection.is_compared:
        return resume_compared(recorded, options, Confirmer(), retry_errors=retry_errors)
    return resume_run(recorded, options, retry_errors=retry_errors)


def _test_judge(job: JudgeJob, begun: RunFolder | None) -> RunReport:
    """Its figures become a passport as soon as it was asked about every reply."""
    recorded, file = open_recorded(job.folder), read_labels(label_file(Path.cwd(), job.judge))
    suites = recorded.suites(asks=False)
    recorded.refuse_foreign_words(suites, only_targets=True)
    subject = subject_of(find_judge(suites, job.judge), None, file)
    suite, options = labelled_suite(subject, file), RunOptions()
    if begun is None:
        report = start_run([suite], options)
    else:
        report = resume_run(RecordedRun(begun, Path.cwd()), options, retry_errors=True, suites=[suite])
    if report.run.is_completed:
        keep_passport(subject, make_passport(subject, file, read_findings(report.results), report.run, options.repeat))
    return report


def _load(files: Sequence[Path], options: RunOptions) -> list[Suite]:
    suites, warnings = load_for_run(files, options)
    _say_problems(warnings)
    return suites


def _say_problems(problems: Iterable[Problem]) -> None:
    for problem in problems:
        _say((*write_problem(problem), ""))


def _say(lines: Iterable[str]) -> None:
    """Write to the log of the entry. Names and paths come from files of any origin."""
    for line in lines:
        sys.stderr.write(f"{printable_line(line)}\n")


if __name__ == "__main__":
    main()
