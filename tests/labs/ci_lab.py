"""Build servers without a network: their variables and files, and commands that write down what they are told."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.kit import ROOT, Raw

ACTION: Raw = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
REPOSITORY = "us/project"
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)

REJOINDER = f"""#!/bin/bash
exec "{sys.executable}" -m rejoinder "$@"
"""
PYTHON = f"""#!/bin/bash
exec "{sys.executable}" "$@"
"""
# Instead of the modules of Python: a new environment is a folder with the command, and the words for pip are kept.
VENV = f"""
import sys
from pathlib import Path

folder = Path(sys.argv[1]) / "bin"
folder.mkdir(parents=True, exist_ok=True)
for name, command in (("python", ""), ("rejoinder", " -m rejoinder")):
    (folder / name).write_text('#!/bin/bash\\nexec "{sys.executable}"' + command + ' "$@"\\n')
    (folder / name).chmod(0o755)
"""
PIP_MODULE = """
import os, sys

with open(os.environ["FAKES"] + "/installed", "a") as stream:
    print(*sys.argv[1:], file=stream)
"""
GH = """#!/bin/bash
# Writes down what is asked of GitHub, and answers with the comments that a test has put down.
printf '%s\\n' "$*" >> "$FAKES/asked-of-github"
case "$*" in
  *--jq*) python3 "$FAKES/bin/jq.py" "${@: -1}" "$FAKES/comments.json" ;;
  *body=@*) last="${@: -1}" && cat "${last#body=@}" > "$FAKES/comment" ;;
esac
"""
JQ = r"""
# The real filter is tried where there is a jq; elsewhere its outcome is computed.
import json, re, shutil, subprocess, sys

if shutil.which("jq"):
    sys.exit(subprocess.call(["jq", "-r", *sys.argv[1:]]))
mark = re.search(r'startswith\("(.*?)"\)', sys.argv[1])[1]
for one in json.load(open(sys.argv[2])):
    if one["user"]["type"] == "Bot" and one["body"].startswith(mark):
        print(one["id"])
"""
PIP = '#!/bin/bash\nprintf "%s\\n" "$*" >> "$FAKES/installed"\n'


class Step(NamedTuple):
    code: int
    log: str
    outputs: dict[str, str]


class Server:
    """A machine of a build server, with a checkout of a project."""

    def __init__(self, folder: Path, checkout: Path, **variables: str) -> None:
        """`folder`: what the server keeps beside the checkout."""
        self.checkout = checkout
        self._groups: list[int] = []
        self.fakes = folder / "fakes"
        self.temporary = folder / "temporary"
        (self.fakes / "bin").mkdir(parents=True)
        self.temporary.mkdir()
        for name, script in {"python3": PYTHON, "gh": GH, "jq.py": JQ, "pip": PIP}.items():
            self._put(name, script)
        (self.fakes / "modules").mkdir()
        (self.fakes / "modules" / "venv.py").write_text(VENV)
        (self.fakes / "modules" / "pip.py").write_text(PIP_MODULE)
        (self.fakes / "comments.json").write_text("[]")
        kept = {name: os.environ[name] for name in ("XDG_CONFIG_HOME", "TMPDIR") if name in os.environ}
        self.environment = {
            **kept,
            "PATH": f"{self.fakes / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "PYTHONPATH": f"{self.fakes / 'modules'}{os.pathsep}{ROOT / 'src'}",
            "HOME": str(folder),
            "CI": "true",
            "FAKES": str(self.fakes),
            **variables,
        }

    def _put(self, name: str, script: str) -> None:
        path = self.fakes / "bin" / name
        path.write_text(script)
        path.chmod(0o755)

    def installed_before(self) -> None:
        """The command is there without being installed."""
        self._put("rejoinder", REJOINDER)

    def bash(self, script: str, folder: str = ".", **variables: str) -> Step:
        """A script as the servers run it: it ends with its first failure."""
        process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.checkout / folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._groups.append(process.pid)
        try:
            said, _ = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self.end_processes()
            raise
        return Step(process.returncode, said.decode(errors="replace"), {})

    def end_processes(self) -> None:
        """What scripts left running in the background."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._groups.clear()

    def add_python(self) -> None:
        """`python` is there, as in images and after a step that sets it up."""
        self._put("python", (self.fakes / "bin" / "python3").read_text())

    def installs_for_real(self, wheels: Path) -> None:
        """From here on there are a Python without packages and pip, which takes packages from this folder alone."""
        bare = Path(sys.base_prefix) / "bin" / "python3"
        self._put("python3", f'#!/bin/bash\nexec "{bare}" "$@"\n')
        (self.fakes / "bin" / "pip").unlink()
        del self.environment["PYTHONPATH"]
        self.environment |= {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
            "PIP_NO_COMPILE": "1",
        }

    def read(self, name: str) -> str:
        """What was put down for or by one of the commands."""
        path = self.fakes / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


class Github(Server):
    """A runner of GitHub: jobs of a workflow whose steps are scripts and our action."""

    def __init__(self, folder: Path, checkout: Path, event: Raw | None = None, **secrets: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.files = {name: folder / name.lower() for name in ("STEP_SUMMARY", "OUTPUT", "PATH")}
        for path in self.files.values():
            path.write_text("")
        (folder / "event.json").write_text(json.dumps(event or {}))
        name = "pull_request" if event and "pull_request" in event else "push"
        super().__init__(
            folder,
            checkout,
            GITHUB_ACTIONS="true",
            GITHUB_EVENT_NAME=name,
            GITHUB_EVENT_PATH=str(folder / "event.json"),
            GITHUB_REPOSITORY=REPOSITORY,
            GITHUB_WORKSPACE=str(checkout),
            RUNNER_TEMP=str(folder / "temporary"),
            **{f"GITHUB_{name}": str(path) for name, path in self.files.items()},
        )
        github = {
            "event": event or {},
            "event_name": name,
            "repository": REPOSITORY,
            "token": "a-token",
            "action_path": str(ROOT),
            "run_id": "1",
            "run_attempt": "1",
        }
        self.contexts: Raw = {"github": github, "secrets": secrets}
        self.artifacts = folder.parent / "artifacts"

    def job(self, job: Raw, **matrix: Any) -> Step:
        """The steps of a job; what others wrote is imitated by what it does to files. No process outlives the job."""
        self.contexts["matrix"] = matrix
        try:
            return self._steps(job["steps"], self._filled(job.get("env", {})))
        finally:
            self.end_processes()

    def _steps(self, steps: list[Raw], variables: dict[str, str]) -> Step:
        log, code = "", 0
        for step in steps:
            condition = str(step.get("if", ""))
            if (code and not {"always()", "failure()"} & {condition}) or (condition == "failure()" and not code):
                continue
            uses, given = str(step.get("uses", "")), self._filled(step.get("with", {}))
            environment = {**variables, **self._filled(step.get("env", {}))}
            if uses.startswith("OWNER/rejoinder@"):
                done = self.action(environment, **given)
                log, code = log + done.log, code or done.code
            elif "run" in step:
                done = self.bash(step["run"], **environment)
                log, code = log + done.log, code or done.code
            elif uses.startswith("actions/setup-python@"):
                self.add_python()
            elif uses.startswith("actions/upload-artifact@"):
                self._upload(given)
            elif uses.startswith("actions/download-artifact@"):
                shutil.copytree(self.artifacts, self.checkout / given["path"])
            else:
                assert uses.startswith("actions/checkout@"), uses
        return Step(code, log, {})

    def _upload(self, given: Raw) -> None:
        paths = [self.checkout / line for line in given["path"].split()]
        for path in (found for one in paths for found in one.parent.glob(one.name)):
            if len(paths) == 1:
                shutil.copytree(path, self.artifacts / given["name"])
            else:
                (self.artifacts / given["name"]).mkdir(parents=True, exist_ok=True)
                target = self.artifacts / given["name"] / path.name
                shutil.copytree(path, target) if path.is_dir() else shutil.copy(path, target)

    def action(self, environment: dict[str, str] | None = None, **inputs: str) -> Step:
        """Our action: its exit code, its log and its outputs."""
        assert set(inputs) <= set(ACTION["inputs"])
        given = {name: inputs.get(name, known.get("default", "")) for name, known in ACTION["inputs"].items()}
        self.contexts |= {"inputs": self._filled(given), "steps": {}}
        log, code = "", 0
        for step in ACTION["runs"]["steps"]:
            condition = step.get("if", "")
            if (code and "always()" not in condition) or not self._holds(condition):
                continue
            if "uses" in step:
                assert step["uses"].startswith("actions/cache@")
                continue
            variables = {**(environment or {}), **self._filled(step["env"])}
            folder = self._filled({"folder": step.get("working-directory", ".")})["folder"]
            self.files["OUTPUT"].write_text("")
            done = self.bash(step["run"], folder, **variables)
            log, code = log + done.log, code or done.code
            lines = self.files["OUTPUT"].read_text(encoding="utf-8").splitlines()
            self.contexts["steps"][step.get("id", "")] = {"outputs": dict(line.split("=", 1) for line in lines)}
            added = self.files["PATH"].read_text().split()
            self.environment["PATH"] = os.pathsep.join([*reversed(added), self.environment["PATH"]])
            self.files["PATH"].write_text("")
        outputs = {name: self._fill(known["value"]) for name, known in ACTION["outputs"].items()}
        return Step(code, log, outputs)

    def _filled(self, values: Raw) -> dict[str, str]:
        return {name: self._fill(str(value)) for name, value in values.items()}

    def _fill(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: str(self._value(found[1])), text)

    def _holds(self, condition: str) -> bool:
        terms = _EXPRESSION.sub(r"\1", condition).split("&&")
        return all(self._term(term.strip()) for term in terms if term.strip())

    def _term(self, term: str) -> bool:
        if term == "always()":
            return True
        left, operator, right = re.split(r"\s*(==|!=)\s*", term)
        return (self._value(left) == self._value(right)) is (operator == "==")

    def _value(self, expression: str) -> Any:
        """A value of a context, or the first of several that is not empty. A missing one is an empty text, as there."""
        if "||" in expression:
            values = [self._value(one.strip()) for one in expression.strip("()").split("||")]
            return next(filter(None, values), "")
        if expression.startswith("'"):
            return expression.strip("'")
        value: Any = self.contexts
        for key in expression.split("."):
            value = value.get(key, "") if isinstance(value, dict) else ""
        return "" if value is None else value


def pull_request(head: str | None = REPOSITORY) -> Raw:
    """The event of a pull request that comes from a repository; None where that was deleted."""
    return {"pull_request": {"number": 7, "head": {"repo": None if head is None else {"full_name": head}}}}
