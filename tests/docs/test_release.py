"""What is published: metadata and archives of the package, workflows, container, and install commands that work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rejoinder import installing
from rejoinder._release import PUBLISHED, REPOSITORY
from tests.kit import ROOT, Raw, bounded

sys.path.insert(0, str(ROOT / "scripts"))
import install_words
import package_metadata
import release_check

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = [*install_words.pages(), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
ADDRESS = "https://github.com/someone/rejoinder"
NOT_OURS = ("__pycache__", "node_modules", "build", "dist")


def ours() -> list[Path]:
    """The files of the project."""
    inside = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    places = (path for path in inside if not path.parts[0].startswith((".venv", ".web", ".agents", ".git/")))
    return [ROOT / path for path in places if path.parts[0] != ".git" and not {*path.parts} & {*NOT_OURS}]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


# Install commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_an_install_command_that_works(page: Path) -> None:
    text = text_of(page)
    assert install_words.in_words(text) == text, "run `make docs` and read what changed"
    words = re.findall(r"^.*\b(?:pipx|uvx?|pip3?)\b[^\n`]*\brejoinder\b.*$", text, re.MULTILINE)
    works = ("in a checkout of rejoinder", f"git+{REPOSITORY}", "pip install '.[")
    assert PUBLISHED or all(any(one in line for one in works) for line in words if "install " in line), words


def test_one_setting_changes_them_all() -> None:
    page = "pip install '.[view]'  # in a checkout of rejoinder\n- run: pip install rejoinder\n"
    after = install_words.in_words(f"{page}- uses: OWNER/rejoinder@main\n", published=True, repository=ADDRESS)
    assert after == "pip install 'rejoinder[view]'\n- run: pip install rejoinder\n- uses: someone/rejoinder@main\n"
    before = install_words.in_words("pip install rejoinder", published=False, repository=ADDRESS)
    assert before == f'pip install "rejoinder @ git+{ADDRESS}"'
    both = "pip install . pytest pytest-xdist  # in a checkout of rejoinder\n"
    assert install_words.in_words(both, published=True) == "pip install rejoinder pytest pytest-xdist\n"
    assert install_words.in_words(both, published=False) == both
    assert install_words.in_words("pip install rejoinder pytest\n", published=False) == "pip install . pytest\n"
    for text in map(text_of, PAGES):
        published = install_words.in_words(text, published=True, repository=ADDRESS)
        assert "OWNER/rejoinder" not in published.replace("`OWNER/rejoinder`", "")


def test_messages_get_their_command_from_one_function() -> None:
    source = [path for path in (ROOT / "src").rglob("*.py") if "pip install" in text_of(path)]
    assert {path.name for path in source} == {"installing.py"}


def test_a_hint_names_packages_until_the_project_is_published() -> None:
    start = f"Install it: {sys.executable} -m pip install "
    assert installing.install_hint("mcp", published=False) == f'{start}"mcp<3,>=2.3"'
    assert installing.install_hint("mcp", published=True) == f'{start}"rejoinder[mcp]"'


def test_a_package_without_a_build_is_said_to_have_none() -> None:
    words = "wordllama has no build for Python 3.14 and newer; use an older Python for it."
    assert installing.install_hint("semantic", python=(3, 14)) == words
    assert installing.install_hint("semantic", python=(3, 13)).startswith("Install it: ")


def test_a_python_without_pip_installs_with_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "find_spec", lambda name: None)
    assert installing.pip_install("mcp") == f"uv pip install --python {sys.executable} mcp"


@bounded(200)
@given(st.text(max_size=60))
def test_no_name_of_a_package_is_more_than_a_word(name: str) -> None:
    command = installing.pip_install(name).partition(" install ")[2]
    assert not set(command) & set("$`\\'\n\0|&(){}*?#%^") and command.count('"') in (0, 2)


# Metadata


def test_the_long_description_has_no_dead_links() -> None:
    readme = text_of(ROOT / "README.md")
    without = package_metadata.long_description(readme, "https://github.com/OWNER/rejoinder", "main")
    assert not re.findall(r"\]\((?!https?:|#)", without) and "![" not in without and "/OWNER/" not in without
    made = package_metadata.long_description(readme, ADDRESS, "v1.0")
    links = re.findall(rf"\]\({ADDRESS}/(?:blob|raw)/v1\.0/([^)#]+)", made)
    assert len(links) > 30 and all((ROOT / link).exists() for link in links)
    assert not re.findall(r"\]\((?!https?:|#)", made)
    assert "![A terminal, the end of a run" in made and f"({ADDRESS}/raw/v1.0/docs/screens/run-120-dark.svg)" in made
    assert package_metadata.links(ADDRESS)["Source"] == ADDRESS
    assert package_metadata.links("https://github.com/OWNER/rejoinder") == {}


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both archives, built with the backend that the tests have."""
    folder = tmp_path_factory.mktemp("archives")
    for kind in ("--sdist", "--wheel"):
        build = [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", str(folder), str(ROOT)]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def fields_of(archives: Path) -> Message:
    with zipfile.ZipFile(next(archives.glob("*.whl"))) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith("METADATA")]
        return Parser().parsestr(wheel.read(name).decode())


@pytest.mark.slow
def test_the_metadata_of_the_package(archives: Path) -> None:
    fields = fields_of(archives)
    assert fields["Metadata-Version"] in release_check.METADATA_VERSIONS
    assert fields["Author"] and fields["Keywords"] and fields["License-Expression"] == "Apache-2.0"
    classifiers = fields.get_all("Classifier") or []
    assert [f"Programming Language :: Python :: 3.{minor}" in classifiers for minor in range(11, 15)] == [True] * 4
    required = fields.get_all("Requires-Dist") or []
    assert [
        one for one in required if "wordllama" in one and 'python_version < "3.14"' not in one.replace("'", '"')
    ] == []
    assert [line.partition(", ")[2] for line in fields.get_all("Project-URL") or []] == [
        *package_metadata.links(REPOSITORY).values()
    ]


@pytest.mark.slow
def test_the_source_archive_has_what_its_tests_read(archives: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    with tarfile.open(next(archives.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {path for path in listed if path and (ROOT / path).exists()} <= inside
    wanted = (
        "action.yml",
        ".pre-commit-hooks.yaml",
        ".ci/run",
        ".github/workflows/test.yml",
        "Dockerfile",
        "pyproject.toml",
    )
    assert not [path for path in wanted if path not in inside]


def test_the_build_backend_is_pinned_as_the_tests_have_it() -> None:
    [pin] = re.findall(r"^requires = \[\"(hatchling==[\d.]+)\"\]", text_of(ROOT / "pyproject.toml"), re.MULTILINE)
    assert pin in text_of(ROOT / "constraints.txt").splitlines()
    assert pin in text_of(ROOT / "Makefile")


# Workflows


def steps_of(workflow: Path) -> list[Raw]:
    document: Raw = yaml.safe_load(text_of(workflow))
    assert set(document) == {"name", True, "permissions", "jobs"} | (
        {"concurrency"} & set(document)
    )  # `on` is true in YAML
    assert document["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in document["jobs"].values())
    return [step for job in document["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_of_the_makefile_and_pinned_actions(workflow: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    steps = steps_of(workflow)
    commands = [step["run"] for step in steps if "run" in step]
    assert commands and all(re.fullmatch(r"make [\w-]+", command) for command in commands)
    assert {command.removeprefix("make ") for command in commands} <= targets
    used = re.findall(r"uses: (\S+?)@(\S+)(.*)", text_of(workflow))
    assert len(used) == sum("uses" in step for step in steps)
    assert all(re.fullmatch(r"[0-9a-f]{40}", digest) and re.fullmatch(r" # v[\d.]+", by) for _, digest, by in used)
    assert all(step["with"]["persist-credentials"] is False for step in steps if "checkout" in step.get("uses", ""))


def test_the_workflows_cover_three_systems_and_every_python() -> None:
    jobs: Raw = yaml.safe_load(text_of(ROOT / ".github/workflows/test.yml"))["jobs"]
    assert [job["runs-on"].partition("-")[0] for job in jobs.values()] == ["ubuntu", "macos", "windows"]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]


def test_only_the_job_that_publishes_may_prove_who_it_is() -> None:
    """It runs no code of the repository, and there is no token."""
    text = text_of(ROOT / ".github/workflows/release.yml")
    jobs: Raw = yaml.safe_load(text)["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"} and "permissions" not in jobs["build"]
    assert not [step for step in jobs["publish"]["steps"] if "run" in step or "checkout" in step["uses"]]
    assert "secrets." not in text and "with" not in jobs["publish"]["steps"][-1]


def test_no_file_names_the_host_of_a_registry() -> None:
    hosts = re.compile(
        "|".join(("py" + r"pi\.org", "python" + "hosted", "registry" + r"\.npm", "npm" + r"js\.(?:org|com)"))
    )
    assert not [str(path.relative_to(ROOT)) for path in ours() if hosts.search(text_of(path))]


# Container, editors, the check itself


def test_the_container_copies_what_exists_and_is_not_root() -> None:
    lines = text_of(ROOT / "Dockerfile").splitlines()
    let_through = {line[1:] for line in text_of(ROOT / ".dockerignore").splitlines() if line.startswith("!")}
    copied = {word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]}
    assert copied == let_through and all((ROOT / one).exists() for one in copied)
    assert all("slim" in line for line in lines if line.startswith("FROM"))
    last = {line.split()[0]: line for line in lines if line}
    assert last["USER"] == "USER rejoinder" and last["ENTRYPOINT"] == 'ENTRYPOINT ["rejoinder"]'


def test_the_entry_of_schemastore() -> None:
    assert text_of(install_words.ENTRY) == install_words.schema_entry(), "run `make docs`"
    entry = json.loads(install_words.schema_entry(ADDRESS))
    assert entry["url"].endswith("/someone/rejoinder/main/src/rejoinder/suite/schema.json")
    assert (ROOT / "src/rejoinder/suite/schema.json").exists()
    [hook] = yaml.safe_load(text_of(ROOT / ".pre-commit-hooks.yaml"))
    assert all(re.search(hook["files"], pattern.replace("*", "shop")) for pattern in entry["fileMatch"])


def raises(error: Exception) -> str:
    raise error


def test_the_release_check_says_what_it_skipped_and_why() -> None:
    assert release_check.check("a", lambda: "fine") == ("a", "passed", "fine")
    assert release_check.check("b", lambda: raises(release_check.Skipped("no docker"))) == ("b", "skipped", "no docker")
    assert release_check.check("c", lambda: raises(release_check.Failed("bad"))) == ("c", "failed", "bad")


def test_a_tag_needs_the_settings_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEASE_TAG", "v0.0.1")
    row = release_check.check("settings", release_check.settings)
    assert row.outcome == "failed" and "the tag v0.0.1 is not v" in row.words
    monkeypatch.delenv("RELEASE_TAG")
    assert release_check.check("settings", release_check.settings).outcome == ("passed" if PUBLISHED else "skipped")
