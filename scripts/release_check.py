"""Check that the package can be published: build it, look at the archives, install them everywhere, run them.

Writes `dist/`. Prints what passed, what failed, and what was skipped and why; the exit code is 1 if something failed.
With RELEASE_TAG (v1.2.3) the settings have to be those of a release, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
# Not by a variable: the environments that are made here must not see it.
sys.path.insert(0, str(ROOT / "src"))

from package_metadata import is_placeholder
from packaging.requirements import Requirement
from test_pythons import found

from rejoinder._release import PUBLISHED, REPOSITORY
from rejoinder._version import __version__

DIST = ROOT / "dist"
SUITE_PYTHON = ROOT / ".venv" / "bin" / "python"
"""It has what the tests need."""
METADATA_VERSIONS = ("2.1", "2.2", "2.3", "2.4")
"""Those that indexes are known to take."""
EXTRAS = ("", "local", "mcp", "semantic", "view")
PLATFORM = ("--only-binary=:all:", "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux2014_x86_64")
SDIST_TESTS = ("tests/docs/test_release.py", "tests/docs/test_action.py", "tests/docs/test_ci.py", "tests/formatting")


class Skipped(Exception):
    """A step cannot be done here; the text says why."""


class Failed(Exception):
    """What is wrong; the text says it."""


class Row(NamedTuple):
    step: str
    outcome: str
    words: str


def call(*command: str | Path, folder: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout.strip()


def last_line(text: str) -> str:
    return text.splitlines()[-1] if text else ""


def python(*words: str | Path, **environment: str) -> str:
    return call(sys.executable, *words, **environment)


def only(pattern: str) -> Path:
    paths = list(DIST.glob(pattern))
    if len(paths) != 1:
        raise Failed(f"dist/ should have one {pattern} and has {len(paths)}")
    return paths[0]


def build() -> str:
    shutil.rmtree(DIST, ignore_errors=True)
    python("-m", "build", "--outdir", DIST, ROOT)
    return ", ".join(f"{path.name} ({path.stat().st_size // 1024:,} kB)" for path in sorted(DIST.iterdir()))


def settings() -> str:
    wrong = [
        *(["REPOSITORY has the placeholder OWNER, so the package has no links"] if is_placeholder(REPOSITORY) else []),
        *([] if PUBLISHED else ["PUBLISHED is false, so messages and pages name a checkout"]),
    ]
    tag = os.environ.get("RELEASE_TAG", "")
    if tag and tag != f"v{__version__}":
        wrong.append(f"the tag {tag} is not v{__version__}")
    if tag and wrong:
        raise Failed("; ".join(wrong))
    if wrong:
        raise Skipped("; ".join(wrong))
    return f"{REPOSITORY}, {__version__}"


def twine() -> str:
    return last_line(python("-m", "twine", "--no-color", "check", "--strict", *sorted(DIST.iterdir())))


def wheel_contents() -> str:
    return last_line(call(Path(sys.executable).with_name("check-wheel-contents"), only("*.whl")))


def fields_of_wheel() -> Message:
    with zipfile.ZipFile(only("*.whl")) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(wheel.read(name).decode())


def metadata() -> str:
    fields = fields_of_wheel()
    version, body = fields["Metadata-Version"], fields.get_payload()
    if version not in METADATA_VERSIONS:
        raise Failed(f"Metadata-Version is {version}; indexes are known to take {', '.join(METADATA_VERSIONS)}")
    dead = re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", str(body))
    if dead:
        raise Failed(f"the long description has relative links, which an index cannot follow: {', '.join(dead[:5])}")
    missing = [name for name in ("Author", "Keywords", "License-Expression", "Requires-Python") if not fields[name]]
    if missing:
        raise Failed(f"missing: {', '.join(missing)}")
    return f"version {version}, {len(fields.get_all('Project-URL') or [])} links, no relative link"


def sdist_tests() -> str:
    """The unpacked archive runs a part of its tests, on its own source."""
    if not SUITE_PYTHON.exists():
        raise Skipped("there is no .venv with what the tests need; `make test` makes it")
    with tempfile.TemporaryDirectory() as name, tarfile.open(only("*.tar.gz")) as archive:
        archive.extractall(name, filter="data")
        [folder] = Path(name).iterdir()
        words = (
            "-q",
            "-p",
            "no:cacheprovider",
            "-n",
            "2",
            "--first",
            "1",
            "-m",
            "not long and not agents and not imports",
        )
        # Tests of the archive do not build archives again.
        said = call(SUITE_PYTHON, "-m", "pytest", *words, *SDIST_TESTS, folder=folder, PYTHONPATH=str(folder / "src"))
    return last_line(said)


def install_on(interpreter: Path) -> Callable[[], str]:
    return lambda: last_line(call(interpreter, ROOT / "scripts" / "smoke.py", only("*.whl")))


def resolve_for(version: str, extra: str) -> Callable[[], str]:
    """Whether all that an extra needs has a build for a Python that need not be here."""

    def resolve() -> str:
        # pip would evaluate our markers for the Python that runs it.
        there = {"python_version": version, "python_full_version": f"{version}.0", "extra": extra}
        needed = [Requirement(row) for row in fields_of_wheel().get_all("Requires-Dist") or []]
        names = [str(one).partition(";")[0].strip() for one in needed if not one.marker or one.marker.evaluate(there)]
        left_out = [one.name for one in needed if extra and f'extra == "{extra}"' in str(one.marker)]
        left_out = [name for name in left_out if not any(re.match(rf"{name}\b", one) for one in names)]
        with tempfile.TemporaryDirectory() as target:
            pip = ("-m", "pip", "install", "--dry-run", "--quiet", "--report", "-", "--target", target)
            python(*pip, "--python-version", version, "--implementation", "cp", *PLATFORM, *names)
        without = f"; left out: {', '.join(left_out)}" if left_out else ""
        return f"{len(names)} requirements have builds for {version}{without}"

    return resolve


def pipx_run() -> str:
    with tempfile.TemporaryDirectory() as home:
        words = ("--spec", only("*.whl"), "rejoinder", "--version")
        said = python("-m", "pipx", "run", *words, PIPX_HOME=home)
    return last_line(said)


def docker() -> str:
    if not shutil.which("docker"):
        raise Skipped("docker is not installed")
    try:
        call("docker", "info")
    except Failed as failed:
        raise Skipped(f"docker does not run here: {last_line(str(failed))}") from None
    call("docker", "build", "--tag", "rejoinder-release-check", ROOT)
    run = ("docker", "run", "--rm", "--network", "none")
    user = call(*run, "--entrypoint", "id", "rejoinder-release-check", "-u")
    if user == "0":
        raise Failed("the container runs as root")
    return f"{call(*run, 'rejoinder-release-check', '--version')}, as user {user}"


def steps() -> list[tuple[str, Callable[[], str]]]:
    pythons = {".".join(map(str, version)): path for version, path in found().items()}
    missing = [version for version in ("3.11", "3.12", "3.13", "3.14") if version not in pythons]
    return [
        ("settings", settings),
        ("build", build),
        ("twine check --strict", twine),
        ("check-wheel-contents", wheel_contents),
        ("metadata", metadata),
        *((f"install on {version}", install_on(path)) for version, path in pythons.items()),
        *((f"install on {version}", _not_found) for version in missing),
        *((f"3.14 resolves {extra or 'core'}", resolve_for("3.14", extra)) for extra in EXTRAS),
        ("pipx run", pipx_run),
        ("docker", docker),
        ("tests of the sdist", sdist_tests),
    ]


def _not_found() -> str:
    raise Skipped("no such Python is found")


def check(step: str, do: Callable[[], str]) -> Row:
    try:
        return Row(step, "passed", do())
    except Skipped as skipped:
        return Row(step, "skipped", str(skipped))
    except Failed as failed:
        return Row(step, "failed", str(failed))


def main() -> int:
    rows: list[Row] = []
    for step, do in steps():
        rows.append(row := check(step, do))
        print(f"{row.outcome:<8} {row.step:<24} {row.words}", flush=True)
    counts = [f"{sum(row.outcome == word for row in rows)} {word}" for word in ("passed", "skipped", "failed")]
    print(", ".join(counts))
    return int(any(row.outcome == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
