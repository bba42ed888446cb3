"""The setup of docs/guides/own-bot.md, from the baseline to the comment: with a healthy, a broken and a flaky bot."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from tests.documentation import ROOT
from tests.kit import Project, Raw
from tests.labs.ci_lab import Github, Server, Step, pull_request

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/guides/own-bot.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
ANSWER = '            return f"The {product} costs {price} euros."\n'
BROKEN = f'            if product == "oboe":\n                return "We have no oboes."\n{ANSWER}'
# Every reply about four products is wrong for the first time.
FLAKY = f"""            seen.append(product)
            if product in ("anvil", "drum", "oboe", "rope") and seen.count(product) == 1:
                return "Ask me later."
{ANSWER}"""


@pytest.fixture
def port() -> int:
    """A free port below those that the kernel gives to other tests, so that it stays free until the bot takes it."""
    return next(port for port in range(10_000 + os.getpid() % 20_000, 32_000) if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return True
    return False


@pytest.fixture
def checkout(tmp_path: Path, port: int) -> Path:
    """A repository with the files of the page, whose baseline was saved as the page says."""
    project = Project(tmp_path / "checkout")
    for name, text in BLOCKS.items():
        project.write(name, text.replace("8000", str(port)))
    server = Server(tmp_path / "laptop", project.folder)
    server.installed_before()
    server.add_python()
    (project.folder / ".rejoinder").mkdir()
    begun = server.bash("git init -q && git config user.name us && git config user.email us@example.com && git add .")
    assert begun.code == 0, begun.log
    done = server.bash("git commit -q -m start && sh save-baseline.sh")
    server.end_processes()
    assert done.code == 0, done.log
    assert "main is run " in done.log and "24 of 24" in done.log
    committed = server.bash("git show --stat --format=%s").log
    assert committed.startswith("Save a new baseline") and ".rejoinder/baselines/main.json" in committed
    assert server.bash("git clean -q -d -x -f").code == 0  # what was not committed does not reach the job
    return project.folder


def change(checkout: Path, answer: str) -> None:
    path = checkout / "bot.py"
    text = path.read_text()
    assert ANSWER in text
    path.write_text("seen = []\n" + text.replace(ANSWER, answer))


def on_github(tmp_path: Path, checkout: Path, **inputs: str) -> tuple[Step, Github]:
    github = Github(tmp_path / "github", checkout, pull_request())
    job: Raw = yaml.safe_load((checkout / ".github/workflows/bot.yaml").read_text())["jobs"]["evals"]
    [ours] = [step for step in job["steps"] if str(step.get("uses")).startswith("OWNER/")]
    ours["with"] |= inputs
    return github.job(job), github


def test_a_healthy_bot_is_green(tmp_path: Path, checkout: Path) -> None:
    done, github = on_github(tmp_path, checkout)
    assert done.code == 0, done.log
    assert "::warning" not in done.log
    assert github.read("comment").splitlines()[4].startswith("> **Gate passed: ")


def test_a_broken_bot_is_red_and_the_comment_says_why(tmp_path: Path, checkout: Path) -> None:
    change(checkout, BROKEN)
    done, github = on_github(tmp_path, checkout)
    assert done.code == 1, done.log
    comment = github.read("comment")
    assert comment.splitlines()[4].startswith("> **Gate failed: ")
    [row] = [line for line in comment.splitlines() if line.startswith("| ❌")]
    assert "`eval-15`" in row and "`We have no oboes.`" in row
    assert "1 new failure: eval-15 (0 of 8 now, 5 of 5 before)" in comment
    assert "POST /chat" in done.log  # the bot's own log


@pytest.mark.parametrize(("strict", "code"), [("false", 0), ("true", 5)])
def test_a_flaky_bot_is_a_warning(tmp_path: Path, checkout: Path, strict: str, code: int) -> None:
    change(checkout, FLAKY)
    done, github = on_github(tmp_path, checkout, strict=strict)
    assert done.code == code, done.log
    assert ("::warning title=rejoinder::the gate cannot tell" in done.log) is (strict == "false")
    comment = github.read("comment")
    assert comment.splitlines()[4].startswith("> **Gate cannot tell: ")
    assert "`no-regression` CANNOT TELL: " in comment and "more cases like these" in comment


def test_a_bot_that_does_not_start_is_red_with_its_log(tmp_path: Path, checkout: Path) -> None:
    (checkout / "bot.py").write_text("raise SystemExit('no configuration')\n")
    workflow = checkout / ".github/workflows/bot.yaml"
    workflow.write_text(workflow.read_text().replace("--retry 30", "--retry 1"))
    done, _ = on_github(tmp_path, checkout)
    assert done.code != 0
    assert "no configuration" in done.log


# GitLab


@pytest.fixture
def notes() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The address of an API that takes comments, and those that it got."""
    got: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            got.append((f"{self.path} {self.headers['PRIVATE-TOKEN']}", body))
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(("bot", "code"), [(ANSWER, 0), (BROKEN, 1), (FLAKY, 5)])
def test_the_job_of_gitlab(
    tmp_path: Path, checkout: Path, notes: tuple[str, list[tuple[str, str]]], bot: str, code: int
) -> None:
    change(checkout, bot)
    job: Raw = yaml.safe_load((checkout / ".gitlab-ci.yml").read_text())["bot"]
    address, got = notes
    gitlab = Server(
        tmp_path / "gitlab",
        checkout,
        GITLAB_CI="true",
        CI_API_V4_URL=address,
        CI_PROJECT_ID="3",
        CI_MERGE_REQUEST_IID="9",
        COMMENT_TOKEN="a-token",
        **job["variables"],
    )
    gitlab.installed_before()
    gitlab.add_python()
    done = gitlab.bash("\n".join(job["script"]))
    gitlab.end_processes()
    assert done.code == code, done.log
    assert (code in job["allow_failure"]["exit_codes"]) is (code == 5)
    [(request, comment)] = got
    assert request == "/projects/3/merge_requests/9/notes a-token"
    words = {0: "passed", 1: "failed", 5: "cannot tell"}[code]
    assert f"> **Gate {words}: " in comment
    assert ("We have no oboes." in comment) is (code == 1)
    assert (checkout / "results.xml").stat().st_size > 0
