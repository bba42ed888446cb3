"""What tests share: the command in this process or its own, suites and their parts, and what runs leave on disk."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, settings

from rejoinder.cli.app import cli
from rejoinder.errors import RejoinderError
from rejoinder.testing import FakeServer

Raw = dict[str, Any]
"""A suite, a case, a target, a document: what YAML and JSON hold."""
ROOT = Path(__file__).parent.parent
KILLED = -signal.SIGKILL
PATIENCE_S = 60.0
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
spec = pytest.mark.spec
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


MOST_EXAMPLES = int(os.environ.get("MOST_EXAMPLES", "1000000"))
"""`make check` tries few, `make test` more, and `make test-long` as many as each property asks for."""


def bounded(examples: int) -> settings:
    """Settings of a property that tries this number of examples, or FUZZ_EXAMPLES."""
    return settings(
        max_examples=EXAMPLES or min(examples, MOST_EXAMPLES),
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


class Project:
    """A folder with files, and the command run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: str | bytes | Raw | list[Any]) -> Path:
        """Write a file. Data is written as JSON in which YAML reads every character as it is."""
        path = self.folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else _as_json(content), encoding="utf-8", newline="")
        return path

    def invoke(self, *arguments: str) -> Result:
        return CliRunner().invoke(cli, list(arguments))

    def run(self, *arguments: str, code: int | None = 0) -> str:
        result = self.invoke(*arguments)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code is None or result.exit_code == code, (result.exit_code, result.output)
        return result.stdout

    def run_json(self, *arguments: str, code: int | None = 0) -> Any:
        """What a command prints as JSON, which stands alone on standard output."""
        return json.loads(self.run(*arguments, "--format", "json", code=code))

    def validate(self, *arguments: str) -> Raw:
        return self.run_json("validate", *arguments, code=None)

    def errors(self, content: Any, name: str = "evals.yaml") -> list[Raw]:
        return self._problems(content, name)["errors"]

    def warnings(self, content: Any, name: str = "evals.yaml") -> list[Raw]:
        """The warnings about a suite; one that names no target gets one, so that nothing is said about that."""
        if isinstance(content, dict) and not {"target", "targets", "metadata"} & set(content):
            content = {**content, "target": "scripted/x"}
        return self._problems(content, name)["warnings"]

    def _problems(self, content: Any, name: str) -> Raw:
        self.write(name, content)
        [file] = [file for file in self.validate(name)["files"] if file["path"] == name]
        return file

    def prompts(self, suite: Any, *arguments: str) -> list[Raw]:
        self.write("evals.yaml", suite)
        return self.run_json("prompt", "evals.yaml", *arguments)

    def prompt(self, case: Raw, *arguments: str, **suite: Any) -> Raw:
        """The one prompt of a suite with one case."""
        graded = case if {"checks", "outcome"} & set(case) else {**case, "checks": [{"match": "*"}]}
        [shown] = self.prompts({"evals": [graded], **suite}, *arguments)
        return shown


def _as_json(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


# Runs and refusals


def run(project: Project, suite: Raw | str, *arguments: str, code: int | None = None) -> Raw:
    """The document of a run of this suite; any exit code is fine if none is named."""
    project.write("evals.yaml", suite)
    return project.run_json("run", "evals.yaml", *arguments, code=code)


def refused(project: Project, *arguments: str) -> RejoinderError:
    """The error that a command ends in."""
    result = project.invoke(*arguments)
    assert isinstance(result.exception, RejoinderError), result.output
    return result.exception


def refusal(project: Project, *arguments: str) -> str:
    """What a command says in all when it refuses with exit code 2, as one line."""
    result = project.invoke(*arguments)
    error = result.exception
    assert isinstance(error, RejoinderError | SystemExit), error
    assert (error.exit_code if isinstance(error, RejoinderError) else error.code) == 2, result.output
    return " ".join(f"{result.output} {error}".split())


def run_refusal(project: Project, suite: Raw | str, *arguments: str) -> str:
    """What `run` says when it refuses a suite with exit code 2 and has left no run."""
    project.write("evals.yaml", suite)
    words = refusal(project, "run", "evals.yaml", *arguments)
    assert run_folders(project.folder) == []
    return words


# Suites and their parts


def scripted(name: str, *replies: Any, **more: Any) -> Raw:
    return {"name": name, "provider": "scripted", "replies": list(replies), **more}


def behind(server: FakeServer, name: str, **more: Any) -> Raw:
    """A target that a fake server answers for, whose model has the target's name."""
    address = {"base_url": server.openai_url, "api_key": "a-key", "retry_initial_delay_ms": 1}
    return {"name": name, "provider": "openai", "model": name, **address, **more}


def case(case_id: str = "one", /, *checks: Raw, **more: Any) -> Raw:
    return {"id": case_id, "prompt": f"Question {case_id}", "checks": list(checks) or [{"match": "*"}], **more}


def cases_of(count: int, *checks: Raw) -> list[Raw]:
    return [{"id": f"c{n}", "prompt": f"Hi {n}!", "checks": list(checks)} for n in range(count)]


def follow(prompt: str, *checks: Raw, **more: Any) -> Raw:
    return {"prompt": prompt, "checks": list(checks), **more}


# Documents


def by_case(document: Raw) -> dict[str, Raw]:
    return {result["id"]: result for result in document["results"]}


def statuses(document: Raw) -> dict[str, str]:
    return {result["id"]: result["status"] for result in document["results"]}


def verdict_of(result: Raw) -> Raw:
    """The verdict of the only check of a result's last turn."""
    [check] = result["turns"][-1]["checks"]
    return check


def state_of(verdict: Raw) -> str:
    return "error" if verdict.get("error") else "passed" if verdict["passed"] else "failed"


def codes(problems: list[Raw]) -> list[str]:
    return [problem["code"] for problem in problems]


def without(value: Any, is_left_out: Callable[[str], bool]) -> Any:
    """A value without some keys, at any depth."""
    if isinstance(value, list | tuple):
        return [without(item, is_left_out) for item in value]
    if isinstance(value, dict):
        return {key: without(item, is_left_out) for key, item in value.items() if not is_left_out(key)}
    return value


def is_time(key: str) -> bool:
    """What may differ between equal runs: times, durations, retries and waits."""
    return (
        key.endswith("_at")
        or key.startswith(("duration", "latency", "first_token"))
        or key in ("timestamp", "waited_s", "retries")
    )


def essence(document: Raw) -> Raw:
    """A document without the name of the run, its times, its calls, and the run that it replays. How long replies took
    is recorded."""
    apart = ("id", "folder", "started_at", "finished_at", "replay_of", "asked_again", "calls")
    run = {name: value for name, value in document["run"].items() if name not in apart}
    summary = {name: value for name, value in document["summary"].items() if name != "duration_s"}
    return {**document, "run": run, "summary": summary}


def comparable(document: Raw) -> Raw:
    """A run's document without what may differ between two equal runs: the run's name, times and calls in doubt."""
    plain = without(document, lambda key: is_time(key) or key in ("line", "calls"))
    for name in ("id", "folder", "in_doubt"):
        del plain["run"][name]
    return plain


def same(document: Raw) -> Raw:
    """A comparable document without names of calls, limits and places too."""
    return without(comparable(document), lambda key: key in ("request_id", "limits", "suites"))


# What runs leave on disk, read without rejoinder's own code


def run_folders(folder: Path) -> list[Path]:
    runs = folder / ".rejoinder" / "runs"
    return sorted(path for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []


def only_run(folder: Path) -> Path:
    [run] = run_folders(folder)
    return run


def journal_of(run: Path) -> list[Raw]:
    """The records of a journal; a last line that was torn by a kill is none."""
    path = run / "journal.jsonl"
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []


def told_in(run: Path) -> set[str]:
    """The keys of the calls whose answers are recorded."""
    return {record["key"] for record in journal_of(run) if record["type"] == "told"}


def prices_in(run: Path) -> dict[str, float]:
    """The recorded price of each answer, by its call's key."""
    priced = [record for record in journal_of(run) if record["type"] == "priced"]
    return {record["key"]: sum(record["price"].values()) for record in priced}


def file_contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


# Networks and processes


@contextmanager
def deaf(port: int = 0, host: str = "127.0.0.1") -> Iterator[int]:
    """A port where no connection comes about: its queue of connections that wait to be accepted is full."""
    with socket.socket() as listener, ExitStack() as stack:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rejoinder", *arguments]


def run_process(
    folder: Path, *arguments: str, command: list[str] | None = None, timeout_s: float = 120, **environment: str
) -> Ended:
    """The end of the command in a process of its own."""
    done = subprocess.run(
        command or command_line(*arguments),
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Raw:
        assert self.out.startswith("{"), (self.code, self.err[-2000:])
        return json.loads(self.out)


class Stream:
    """Everything that a process writes to a pipe, read as it comes."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._data = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while data := os.read(self._pipe.fileno(), 65536):
                self._data += data

    @property
    def text(self) -> str:
        return self._data.decode()

    def end(self) -> str:
        self._thread.join()
        return self.text


class Process:
    """The command in a process of its own, which may be interrupted and killed."""

    def __init__(self, folder: Path, *arguments: str, command: list[str] | None = None, **environment: str) -> None:
        self.process = subprocess.Popen(
            command or command_line(*arguments),
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out, self.err = Stream(self.process.stdout), Stream(self.process.stderr)

    def end(self, patience_s: float = PATIENCE_S) -> Ended:
        """Wait for the end of the process."""
        try:
            code = self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return Ended(code, self.out.end(), self.err.end())

    def document(self, code: int | None = None) -> Raw:
        """What it prints as JSON until its end."""
        ended = self.end()
        assert code is None or ended.code == code, (ended.code, ended.err[-2000:])
        return ended.document

    def kill(self) -> Ended:
        self.process.kill()
        return self.end()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait_for(self, condition: Callable[[], Any], what: str = "it never came about") -> None:
        """Wait while the process lives."""

        def holds() -> bool:
            if condition():
                return True
            assert self.process.poll() is None, self.end()
            return False

        wait_until(holds, what)

    def wait_until_it_says(self, text: str) -> None:
        self.wait_for(lambda: text in self.err.text, f"it never said {text!r}")


def wait_until(condition: Callable[[], Any], what: str = "it never came about") -> Any:
    """What the condition gives once it holds."""
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.005)
    return value


def is_alive(pid: int) -> bool:
    """Does a process run? A killed orphan that waits for its new parent to notice does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


def assert_gone(*pids: int) -> None:
    for pid in pids:
        wait_until(lambda pid=pid: not is_alive(pid), f"{pid} is still alive")
