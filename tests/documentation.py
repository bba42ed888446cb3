"""Runs the examples of Markdown files, and writes their real output into them.

Blocks with a file name after the language are written to that file (```yaml evals.yaml). Blocks of the language
`console` hold commands after `$ ` and their output; the output is compared, or written anew. In a command the name that
pages show for every run stands for the newest one. Blocks of the language `python` are executed.
`<!-- new folder -->` starts again in an empty folder; `<!-- env NAME=value -->` sets a variable;
`<!-- fake models: TEXT -->` has all LLM APIs answer TEXT from a server on loopback, with keys that it accepts;
`<!-- vendors: TEXT -->` has the vendors' own addresses do so, through a proxy on loopback;
`<!-- webhook: JSON -->` has a server there answer JSON to every request, at the address in GRADER_URL;
`<!-- issue tracker -->` has an MCP server there, at the address in TRACKER_URL, for callers with a certain token;
`<!-- install -->` makes the folder's package known to Python as an installer would;
`<!-- terminal -->` shows the commands after it as a terminal of 100 columns does, without colours;
`<!-- differs: WORD, WORD -->` is for a console block whose output depends on the machine, as replies of a model do:
its commands are run, and their output has to contaNew message for turn. The page keeps the output it has.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import tomllib
from dataclasses import dataclass, field
from fcntl import ioctl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rejoinder.testing import Answer, FakeServer
from tests.kit import ROOT
from tests.labs.tracker_lab import TOKEN, tracker
from tests.labs.vendor_lab import vendors

RUN = "20261115-093000-a1b25eed"
"""What every run is called on a page."""
_BLOCK = re.compile(
    r"^<!-- (?P<comment>new folder|env \w+=.*?|fake models: .*?|vendors: .*?|webhook: .*?|issue tracker|install"
    r"|terminal|differs: .*?) -->$"
    r"|^```(?P<language>\w+)(?: (?P<name>\S+))?\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Webhook:
    """A grader that says the same of every reply."""

    def __init__(self, verdict: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Length", str(len(verdict.encode())))
                self.end_headers()
                self.wfile.write(verdict.encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/grade"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Session:
    """One reader following a page: a folder, which goes with its reader, and what happened there."""

    environment: dict[str, str] = field(default_factory=dict)
    made: TemporaryDirectory[str] = field(default_factory=TemporaryDirectory)
    configuration: TemporaryDirectory[str] = field(default_factory=TemporaryDirectory)
    """Where the reader's own settings lie, outside of the project."""
    server: FakeServer | None = None
    webhook: Webhook | None = None
    on_terminal: bool = False
    others: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Further servers, which end with the session."""

    @property
    def folder(self) -> Path:
        return Path(self.made.name).resolve()

    def close(self) -> None:
        self.made.cleanup()
        self.configuration.cleanup()
        if self.server is not None:
            self.server.stop()
        if self.webhook is not None:
            self.webhook.stop()
        self.others.close()

    def fake_models(self, text: str) -> None:
        """From here on the APIs of all vendors are on this machine."""
        self.server = server = FakeServer(Answer(text, input_tokens=14, output_tokens=8)).start()
        self.environment |= {
            "OPENAI_BASE_URL": server.openai_url,
            "ANTHROPIC_BASE_URL": server.anthropic_url,
            "GEMINI_BASE_URL": server.gemini_url,
            "SERVICE_URL": server.openai_url,
            **{f"{vendor}_API_KEY": "a-fake-key" for vendor in ("OPENAI", "ANTHROPIC", "GEMINI")},
        }

    def lead_vendors_here(self, text: str) -> None:
        """From here on the addresses of vendors lead to this machine."""
        folder, reply = Path(self.configuration.name), Answer(text, input_tokens=14, output_tokens=8)
        self.environment |= self.others.enter_context(vendors(folder, reply))[1]

    def answer_posts(self, verdict: str) -> None:
        self.webhook = Webhook(verdict)
        self.environment["GRADER_URL"] = self.webhook.url

    def track_issues(self) -> None:
        url = self.others.enter_context(tracker()).url
        self.environment |= {"TRACKER_URL": url, "REJOINDER_SECRET_LINEAR_APIKEY": TOKEN}

    def install(self) -> None:
        """Without pip, which would need a network or a build backend: what it leaves behind is a path and metadata."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        lines = [f"[{group}]\n{_entries(found)}" for group, found in project["entry-points"].items()]
        self.write("site.dist-info/METADATA", f"Name: {project['name']}\nVersion: {project['version']}\n")
        self.write("site.dist-info/entry_points.txt", "\n".join(lines))
        self.environment["PYTHONPATH"] = str(self.folder)

    def write(self, name: str, body: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8", newline="")

    def run(self, command: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG", "SYSTEMROOT")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {
            **kept,
            "PATH": path,
            "PYTHONUTF8": "1",
            "XDG_CONFIG_HOME": self.configuration.name,
            **self.environment,
        }
        shown = (_on_terminal if self.on_terminal else _in_pipe)(self._meant(command), self.folder, environment)
        shown = shown.replace(str(self.folder), "/home/me/project")
        return _steady(shown.replace(f"{kept.get('HOME')}/.cache", "/home/me/.cache"))

    def _meant(self, command: str) -> str:
        """The command with the name of the newest run, where it has the name that pages show for every run."""
        runs = sorted((self.folder / ".rejoinder" / "runs").glob("2*"))
        return command.replace(RUN, runs[-1].name) if runs else command

    def console(self, body: str) -> str:
        """The block with the output that its commands really give."""
        commands = re.findall(r"^\$ (.*)$", body, re.MULTILINE)
        shown: list[str] = []
        for command in commands:
            output = self.run(command).rstrip()
            shown.append(f"$ {command}\n{output}\n" if output else f"$ {command}\n")
        return "".join(shown)

    def python(self, body: str, name: str) -> None:
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            exec(compile(body, name, "exec"), {"__name__": "__main__"})
        finally:
            os.chdir(here)


def _in_pipe(command: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=180,
        check=False,
    )
    return done.stdout.decode()


def _on_terminal(command: str, folder: Path, environment: dict[str, str]) -> str:
    """What is said on standard error comes first: it is not on the terminal, so that nothing there moves."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    look = {"TERM": "xterm-256color", "NO_COLOR": "1", "PAGER": ""}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env=environment | look,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=said,
        )
        os.close(theirs)
        screen = b""
        with contextlib.suppress(OSError):  # the terminal is gone when the command has ended
            while piece := os.read(ours, 4096):
                screen += piece
        os.close(ours)
        process.wait(60)
        said.seek(0)
        return said.read().decode() + re.sub(r"\x1b\[[\d;]*m|\r", "", screen.decode())


def _entries(found: dict[str, str]) -> str:
    return "".join(f"{name} = {place}\n" for name, place in found.items())


def _steady(output: str) -> str:
    """Output without what differs from run to run: names of runs, times, and progress that only slow runs print."""
    output = re.sub(r"^\d+:\d\d  [\d,]+ of [\d,]+ done, .*\n", "", output, flags=re.MULTILINE)
    output = re.sub(r"\b\d{8}-\d{6}-[0-9a-f]{8}\b", RUN, output)
    output = re.sub(r"\b\d\.\d\d s\b", "0.01 s", output)
    output = re.sub(r" {2,}(?:\d+ ms|[\d.]+ s)$", "   10 ms", output, flags=re.MULTILINE)  # a column of times
    output = re.sub(r" {2,}reply$", "   reply", output, flags=re.MULTILINE)
    output = re.sub(r"\b\d{1,3} ms\b( *)", lambda found: "10 ms".ljust(len(found[0])) if found[1] else "10 ms", output)
    output = re.sub(r"\blatency_s: \d[\d.e-]*", "latency_s: 0.01", output)
    output = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "2026-11-15 09:30", output)
    output = re.sub(r"\brun [0-9a-f]{4}\b", f"run {RUN[-4:]}", output)
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8000", output)


def _choose(page: str, real: str, words: list[str], *, refresh: bool) -> str:
    """Of two outputs that may differ, the one that the page is to have."""
    if refresh:
        return page if _without_times(page) == _without_times(real) else real
    missing = [word for word in words if word not in page or word not in real]
    return page if not missing else f"{real}(without {', '.join(missing)})\n"


def _without_gaps(output: str) -> str:
    """The width of a column may depend on a time that a command left out."""
    return re.sub(r" {2,}", "  ", output)


def _without_times(output: str) -> str:
    return re.sub(r"\b[\d.]+ (?:ms|s|min)\b|[+-]\d+%", "", output)


def follow(page: Path, *, refresh: bool = False) -> str:
    """The page with the real output of all its commands; where that may differ, with its own unless it is refreshed."""
    session = Session()
    text = page.read_text(encoding="utf-8")
    differing: list[str] = []

    def replace(found: re.Match[str]) -> str:
        nonlocal session, differing
        comment, language, name, body = found["comment"], found["language"], found["name"], found["body"]
        if comment == "new folder":
            session.close()
            session = Session()
        elif comment and comment.startswith("fake models: "):
            session.fake_models(comment.removeprefix("fake models: "))
        elif comment and comment.startswith("vendors: "):
            session.lead_vendors_here(comment.removeprefix("vendors: "))
        elif comment and comment.startswith("webhook: "):
            session.answer_posts(comment.removeprefix("webhook: "))
        elif comment == "issue tracker":
            session.track_issues()
        elif comment == "install":
            session.install()
        elif comment == "terminal":
            session.on_terminal = True
        elif comment and comment.startswith("differs: "):
            differing = comment.removeprefix("differs: ").split(", ")
        elif comment:
            key, _, value = comment.removeprefix("env ").partition("=")
            session.environment[key] = value
        elif language == "console":
            real, words, differing = session.console(body), differing, []
            shown = _choose(body, real, words, refresh=refresh) if words else real
            return f"```console\n{body if _without_gaps(body) == _without_gaps(shown) else shown}```"
        elif name:
            session.write(name, body)
        elif language == "python":
            session.python(body, page.name)
        return found[0]

    try:
        return _BLOCK.sub(replace, text)
    finally:
        session.close()


def consoles(page: Path) -> list[str]:
    """The blocks of a page whose commands are executed."""
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [block["body"] for block in found if block["language"] == "console"]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


NOTEBOOK = ROOT / "docs/guides/notebook.ipynb"
_EXECUTE = """
import json, sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": sys.argv[2]}}).execute()
print(json.dumps(notebook.cells))
"""


def executed_notebook(folder: Path) -> list[dict[str, Any]]:
    """The cells of the guide's notebook with their outputs, executed in a folder by a kernel of Jupyter."""
    (folder / ".rejoinder").mkdir()
    command = [sys.executable, "-W", "ignore", "-c", _EXECUTE, str(NOTEBOOK), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
