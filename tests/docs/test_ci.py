"""The action, the hook and the scripts of docs/guides/ci.md, executed with the files and variables of build servers."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from rejoinder._release import REPOSITORY
from tests.documentation import ROOT
from tests.kit import Project, Raw, case, run_folders
from tests.labs.ci_lab import ACTION, Github, Server, pull_request

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/guides/ci.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
BOT = """
import json, pathlib
def reply(request):
    lost = json.loads(pathlib.Path("lost.json").read_text())
    return "no" if f"{request.case_id}-{request.trial}" in lost else "yes"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The project of the page."""
    folder = tmp_path / "checkout"
    for name in ("evals.yaml", "ci.sh"):
        Project(folder).write(name, BLOCKS[name])
    (folder / ".rejoinder").mkdir()
    return folder


@pytest.fixture
def github(tmp_path: Path, checkout: Path) -> Github:
    return Github(tmp_path / "server", checkout)


def break_case(checkout: Path) -> None:
    path = checkout / "evals.yaml"
    path.write_text(path.read_text().replace('square: ["144"]', 'square: ["no\\n::error::forged ##[error]forged"]'))


def record(server: Server) -> None:
    server.installed_before()
    assert server.bash("rejoinder run --record cassettes && rm -r .rejoinder").code == 0


def summary(github: Github) -> str:
    return github.files["STEP_SUMMARY"].read_text(encoding="utf-8")


# The action


def test_the_action_installs_runs_and_reports(github: Github) -> None:
    done = github.action(out="results.xml\nresults.ctrf.json\n")
    assert done.code == 0, done.log
    assert (
        github.read("installed")
        .strip()
        .endswith(f"install --quiet --disable-pip-version-check -- rejoinder @ {ROOT.as_uri()}")
    )
    assert "3 of 3 passed" in summary(github)
    figures = {name: value for name, value in done.outputs.items() if name not in ("run", "comment")}
    trials = {"total": "3", "passed": "3", "failed": "0", "errors": "0", "pass_rate": "1"}
    cases = {"cases": "3", "cases_passed": "3", "cases_failed": "0", "cases_with_errors": "0"}
    assert figures == {**trials, **cases, "exit_code": "0"}
    assert done.outputs["run"] == run_folders(github.checkout)[0].name
    assert len(list(ElementTree.parse(github.checkout / "results.xml").iter("testcase"))) == 3
    assert json.loads((github.checkout / "results.ctrf.json").read_text())["reportFormat"] == "CTRF"
    assert github.read("asked-of-github") == ""  # it is no pull request


def test_a_failure_is_annotated_at_its_line_and_ends_the_job(github: Github, checkout: Path) -> None:
    moved = checkout / "deep" / "project"
    shutil.copytree(checkout, moved)
    break_case(moved)
    done = github.action(folder="deep/project", package="rejoinder==9")
    assert done.code == 1
    assert github.read("installed").strip().endswith("rejoinder==9")
    commands = [line for line in done.log.splitlines() if line.lstrip().startswith("::")]
    [annotation] = commands  # what the model said is no command
    assert annotation.startswith("::error file=deep/project/evals.yaml,line=10,title=square failed::")
    assert "##[" not in done.log.replace(annotation, "")
    assert ": :error::forged ## [error]forged" in done.log
    assert "### Not passed" in summary(github)


def test_a_suite_with_a_mistake_ends_the_job_and_is_reported(tmp_path: Path, checkout: Path) -> None:
    """The comment on an earlier commit is replaced, so that no pass stays on the pull request."""
    github = Github(tmp_path / "server", checkout, pull_request())
    (checkout / "evals.yaml").write_text("evals: 1 # ```\n")
    done = github.action()
    assert done.code == 2
    assert (done.outputs["run"], done.outputs["exit_code"], done.outputs["total"]) == ("", "2", "")
    assert "## rejoinder: the run did not start" in summary(github)
    assert "````text\n" in summary(github) and "evals: 1 # ```" in summary(github)  # nothing leaves the block
    assert github.read("comment") == f"{MARK}\n{summary(github)}"


@pytest.mark.parametrize("head", ["a-stranger/project", None])
def test_pull_requests_of_forks_replay_without_keys(tmp_path: Path, checkout: Path, head: str | None) -> None:
    github = Github(tmp_path / "server", checkout, pull_request(head))
    record(github)
    done = github.action()
    assert done.code == 0, done.log
    assert "answering from the cassettes in cassettes" in done.log
    receipt = json.loads((run_folders(checkout)[0] / "run.json").read_text())
    assert receipt["options"]["replay"] == str(checkout / "cassettes")
    assert "cannot comment" in done.log
    assert github.read("asked-of-github") == ""


def test_a_fork_without_cassettes_is_told_how_to_record_them(tmp_path: Path, checkout: Path) -> None:
    done = Github(tmp_path / "server", checkout, pull_request("a-stranger/project")).action()
    assert done.code == 2
    assert "`run --record cassettes` writes one" in done.log


@pytest.mark.parametrize("mode", ["live", "replay"])
def test_a_mode_that_is_named_counts_everywhere(tmp_path: Path, checkout: Path, mode: str) -> None:
    github = Github(
        tmp_path / "server", checkout, pull_request("a-stranger/project" if mode == "live" else "us/project")
    )
    record(github)
    assert github.action(mode=mode).code == 0
    options = json.loads((run_folders(checkout)[0] / "run.json").read_text())["options"]
    assert (options["replay"] is None, options["cache"]) == ((True, True) if mode == "live" else (False, False))


@pytest.mark.parametrize(
    ("inputs", "code"),
    [({}, 0), ({"against": "main"}, 0), ({"against": "main", "strict": "true"}, 5)],
    ids=["a run", "a gate", "a strict gate"],
)
def test_a_replayed_bot_is_never_green_without_a_warning(
    tmp_path: Path, checkout: Path, inputs: dict[str, str], code: int
) -> None:
    github = Github(tmp_path / "server", checkout, pull_request("a-stranger/project"))
    with_baseline(github)
    assert github.bash("rejoinder run --record cassettes && rm -r .rejoinder/runs").code == 0
    lose(github, *(f"c{n}-1" for n in range(34)))  # the fork breaks the bot
    done = github.action(**inputs)
    assert done.code == code, done.log
    words = (
        "answered from cassettes, not asked: `bot` (your own code or server); this run cannot tell about changes there"
    )
    assert f"::warning title=rejoinder::{words}" in done.log
    assert words.replace("`", "") in summary(github).replace("`", "")
    assert ("cannot tell about bot: the replies were replayed" in done.log) is bool(inputs)


def comments(github: Github, *bodies: tuple[str, str]) -> None:
    found = [{"id": 40 + place, "user": {"type": kind}, "body": body} for place, (kind, body) in enumerate(bodies)]
    (github.fakes / "comments.json").write_text(json.dumps(found))


MARK = "<!-- rejoinder-report:results -->"


def test_a_comment_is_written_once_and_then_kept_up_to_date(tmp_path: Path, checkout: Path) -> None:
    github = Github(tmp_path / "server", checkout, pull_request())
    comments(github, ("User", f"{MARK}\nforged"), ("Bot", "<!-- rejoinder-report:other -->"))
    assert github.action().code == 0
    assert "--method POST repos/us/project/issues/7/comments" in github.read("asked-of-github")
    assert github.read("comment").startswith(f"{MARK}\n## rejoinder: 3 of 3 passed")
    comments(github, ("User", "hello"), ("Bot", github.read("comment")))
    break_case(checkout)
    assert github.action().code == 1  # a job that fails comments, too
    assert "--method PATCH repos/us/project/issues/comments/41" in github.read("asked-of-github")
    assert "2 of 3 passed" in github.read("comment")


def test_no_comment_is_written_where_none_is_wanted(tmp_path: Path, checkout: Path) -> None:
    github = Github(tmp_path / "server", checkout, pull_request())
    assert github.action(comment="false").code == 0
    assert github.read("asked-of-github") == ""


def with_baseline(github: Github) -> None:
    """A suite of 34 cases, the first of them with two trials, and the baseline `main`, in which all passed."""
    target = {"name": "bot", "provider": "python", "call": "bot:reply"}
    cases = [case(f"c{number}", {"equals": "yes"}, repeat=1 if number else 2) for number in range(34)]
    Project(github.checkout).write("evals.yaml", {"targets": [target], "target": "bot", "evals": cases})
    (github.checkout / "bot.py").write_text(BOT)
    lose(github)
    github.installed_before()
    done = github.bash("rejoinder run && rejoinder baseline save last --name main && rm -r .rejoinder/runs")
    assert done.code == 0, done.log


def lose(github: Github, *trials: str) -> None:
    (github.checkout / "lost.json").write_text(json.dumps(trials))


@pytest.mark.parametrize(
    ("lost", "inputs", "wanted", "line", "verdict"),
    [
        ((), {}, 0, "0 broke, 0 fixed, 34 same", "PASS"),
        (("c0-1", "c1-1", "c2-1"), {}, 0, "0 broke, 0 fixed, 31 same, 3 cannot tell", "CANNOT TELL"),
        (("c0-1", "c1-1", "c2-1"), {"strict": "true"}, 5, "0 broke, 0 fixed, 31 same, 3 cannot tell", "CANNOT TELL"),
        (tuple(f"c{n}-1" for n in range(1, 11)), {}, 1, "0 broke, 0 fixed, 24 same, 10 cannot tell", "FAIL"),
    ],
)
def test_a_gate_decides_where_there_is_a_baseline(
    tmp_path: Path,
    checkout: Path,
    lost: tuple[str, ...],
    inputs: dict[str, str],
    wanted: int,
    line: str,
    verdict: str,
) -> None:
    """With the real commands: a baseline that was blessed, a run, the gate, and what is written of both."""
    github = Github(tmp_path / "server", checkout, pull_request())
    with_baseline(github)
    lose(github, *lost)
    done = github.action(against="main", **inputs)
    assert done.code == wanted, done.log
    assert ("::warning title=rejoinder::the gate cannot tell whether this run is worse; the" in done.log) is (
        verdict == "CANNOT TELL" and not inputs
    )
    comment = github.read("comment")
    words = {"PASS": "passed", "FAIL": "failed", "CANNOT TELL": "cannot tell"}[verdict]
    assert comment.splitlines()[1].startswith("## rejoinder: ")
    assert comment.splitlines()[4].startswith(f"> **Gate {words}: ")
    assert all(f"{line}." in told for told in (comment.splitlines()[4], summary(github)))
    assert comment.count("\n| ❌ `c") == len(lost)
    assert f"- `no-regression` {verdict}: `" in summary(github)
    assert f"{line} against main" in done.log.splitlines()
    assert f"\ngate: {verdict} (" in done.log


@pytest.mark.parametrize("strict", ["false", "true"])
def test_a_new_case_that_always_fails_is_named(tmp_path: Path, checkout: Path, strict: str) -> None:
    github = Github(tmp_path / "server", checkout, pull_request())
    with_baseline(github)
    suite = json.loads((checkout / "evals.yaml").read_text())
    suite["evals"].append(case("new 100%", {"equals": "yes"}))
    Project(checkout).write("evals.yaml", suite)
    lose(github, *(f"new 100%-{trial}" for trial in range(1, 9)))
    done = github.action(against="main", strict=strict)
    assert done.code == (5 if strict == "true" else 0), done.log
    warning = "the gate cannot tell whether this run is worse; the summary says why; new and failing: new 100%25"
    assert (f"::warning title=rejoinder::{warning}\n" in done.log) is (strict == "false")
    for text in (github.read("comment"), summary(github)):
        assert "**Gate cannot tell: 1 of 2 rules; new and failing: `new 100%`.**" in text


def test_a_gate_hides_no_error(tmp_path: Path, checkout: Path) -> None:
    github = Github(tmp_path / "server", checkout)
    with_baseline(github)
    (checkout / "bot.py").write_text("def reply(request):\n    raise KeyError('x')\n")
    done = github.action(against="main")
    assert done.code == 3
    assert "0 broke, 0 fixed, 0 same, 34 cannot tell against main" in done.log.splitlines()


def test_a_baseline_that_no_command_knows_is_said_before_anything_is_asked(github: Github) -> None:
    done = github.action(against="main")
    assert done.code == 2
    assert "there is neither a baseline nor a run `main`" in done.log
    assert not (github.checkout / ".rejoinder/runs").exists()


def test_inputs_are_words_and_no_scripts(github: Github, checkout: Path) -> None:
    shutil.copy(checkout / "evals.yaml", checkout / "my evals.yaml")
    done = github.action(
        paths="my evals.yaml",
        arguments="--case\ntimes\n--repeat\n2",
        out="$(touch pwned).xml",
        name='x"; touch pwned; "',
    )
    assert done.code == 0, done.log
    assert done.outputs["total"] == "2"
    assert not list(checkout.glob("**/pwned"))
    assert (checkout / "$(touch pwned).xml").exists()


def test_the_table_of_inputs_is_that_of_the_action() -> None:
    table = PAGE[PAGE.index("| Input |") :].partition("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(ACTION["inputs"])


# The workflows and scripts of the page


def jobs(name: str) -> dict[str, Raw]:
    return yaml.safe_load(BLOCKS[name])["jobs"]


@pytest.mark.parametrize("head", ["us/project", "a-stranger/project"])
def test_the_workflow_of_the_page(tmp_path: Path, checkout: Path, head: str) -> None:
    github = Github(tmp_path / "server", checkout, pull_request(head), OPENAI_API_KEY="a-key")
    record(github)
    done = github.job(jobs(".github/workflows/evals.yaml")["evals"])
    assert done.code == 0, done.log
    kept = {path.name for path in (github.artifacts / "results").iterdir()}
    assert kept == {"results.xml", "results.ctrf.json", "runs"}
    assert ("cassettes" in done.log) is (head != "us/project")


def test_the_workflow_of_several_machines(tmp_path: Path, checkout: Path) -> None:
    break_case(checkout)
    parts = jobs(".github/workflows/parts.yaml")
    for number in parts["part"]["strategy"]["matrix"]["part"]:
        machine = tmp_path / f"machine {number}"
        shutil.copytree(checkout, machine / "checkout")
        server = Github(tmp_path / f"server-{number}", machine / "checkout")
        server.environment["XDG_CONFIG_HOME"] = str(machine)  # each has a key of its own
        done = server.job(parts["part"], part=number)
        assert done.code == 0, done.log
    whole = Github(tmp_path / "whole", checkout)
    done = whole.job(parts["whole"])
    assert done.code == 1
    assert "2 of 3 passed" in summary(whole)
    names = [test.get("name") for test in ElementTree.parse(checkout / "results.xml").iter("testcase")]
    assert names == ["times", "square", "cube"]


@pytest.mark.parametrize("key", ["", "a-key"])
def test_the_jobs_of_gitlab(tmp_path: Path, checkout: Path, key: str) -> None:
    jobs: dict[str, Any] = yaml.safe_load(BLOCKS[".gitlab-ci.yml"])
    gitlab = Server(tmp_path / "server", checkout, GITLAB_CI="true", CI_PROJECT_DIR=str(checkout), OPENAI_API_KEY=key)
    record(gitlab)
    break_case(checkout)
    total = jobs["part"]["parallel"]
    for number in range(1, total + 1):
        script = "\n".join(jobs["part"]["script"])
        done = gitlab.bash(script, CI_NODE_INDEX=str(number), CI_NODE_TOTAL=str(total))
        assert done.code == 0, done.log
    assert gitlab.read("installed").splitlines() == [f"install rejoinder @ git+{REPOSITORY}"] * total
    done = gitlab.bash("\n".join(jobs["whole"]["script"]))
    assert done.code == (1 if key else 0), done.log  # cassettes know the answer from before the break
    assert done.log.count("intact: run") == len(run_folders(checkout)) - 1
    for path in (jobs["whole"]["artifacts"]["reports"]["junit"], *jobs["whole"]["artifacts"]["paths"]):
        assert (checkout / path).stat().st_size > 0


@pytest.mark.parametrize(("key", "wanted"), [("", 0), ("a-key", 1)])
def test_the_script_for_every_server(tmp_path: Path, checkout: Path, key: str, wanted: int) -> None:
    server = Server(tmp_path / "server", checkout, OPENAI_API_KEY=key)
    record(server)
    break_case(checkout)
    done = server.bash("sh ci.sh")
    assert done.code == wanted, done.log
    assert (checkout / "results.xml").exists() and (checkout / "results.md").exists()
    (checkout / "evals.yaml").write_text("evals: 1\n")
    assert server.bash("sh ci.sh").code == 2


# The hook


def test_the_hook_checks_suites(tmp_path: Path, checkout: Path) -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    [repository] = yaml.safe_load(BLOCKS[".pre-commit-config.yaml"])["repos"]
    assert [one["id"] for one in repository["hooks"]] == [hook["id"]]
    names = ("evals.yaml", "deep/eval.yml", "a.evals.yaml", "b.eval.yaml", "c.rejoinder.yml")
    assert all(re.search(hook["files"], name) for name in names)
    assert not any(re.search(hook["files"], name) for name in ("targets.yaml", "docker-compose.yml", "medieval.yaml"))
    server = Server(tmp_path / "server", checkout)
    server.installed_before()
    assert server.bash(f"{hook['entry']} evals.yaml").code == 0
    (checkout / "evals.yaml").write_text("evals: [{prompt: Hi, cheks: []}]\n")
    assert server.bash(f"{hook['entry']} evals.yaml").code == 2
