"""Which files a session takes for suites. One that was to collect suites and found none does not pass."""

from __future__ import annotations

import pytest

from rejoinder.pytest_plugin import PATTERNS
from rejoinder.suite.discover import DEFAULT_NAMES
from tests.kit import Project, case
from tests.pytest_plugin.session_kit import GOOD, XDIST, pytest_in, suite

MINE = "def test_mine(): pass\n"
ONE = suite(case("one", GOOD))


def test_the_names_of_rejoinder_run_are_patterns() -> None:
    assert set(DEFAULT_NAMES) < set(PATTERNS)


@pytest.mark.slow
def test_suites_with_either_suffix_are_collected(project: Project) -> None:
    for name in ("evals/b.yml", "shop.eval.yml", "eval.yaml", "rejoinder.yml", "bot.rejoinder.yaml"):
        project.write(name, ONE)
    project.write("other.yml", ONE)
    done = pytest_in(project, "--collect-only", "-qq")
    assert done.code == 0, done.text
    assert {line.partition(":")[0] for line in done.text.splitlines() if ".y" in line} == {
        *("evals/b.yml", "shop.eval.yml", "eval.yaml", "rejoinder.yml", "bot.rejoinder.yaml")
    }


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_session_without_suites_does_not_pass(project: Project, workers: tuple[str, ...]) -> None:
    """Suites beside `testpaths` are not collected, and the other tests pass."""
    project.write("evals/shop.yaml", ONE)
    project.write("tests/test_mine.py", MINE)
    project.write("pytest.ini", "[pytest]\ntestpaths = tests\nrejoinder = true\n")
    done = pytest_in(project, *workers, on=False)
    assert done.code == 5, done.text
    assert "1 passed" in done.text
    assert "error: no suite was collected in " in done.last_lines
    assert "add their folder to `testpaths`" in done.last_lines


@pytest.mark.slow
def test_a_mistyped_pattern_does_not_pass(project: Project) -> None:
    project.write("evals/shop.yaml", ONE)
    project.write("test_mine.py", MINE)
    project.write("pytest.ini", "[pytest]\nrejoinder_files = evalz/*.yaml\n")
    done = pytest_in(project)
    assert done.code == 5, done.text
    assert "rejoinder_files: evalz/*.yaml" in done.last_lines
    assert pytest_in(project, "evals/shop.yaml").code == 0


@pytest.mark.slow
def test_a_named_file_of_tests_needs_no_suite(project: Project) -> None:
    """A developer who runs one file of a project with `rejoinder = true` is not told about suites."""
    project.write("evals.yaml", ONE)
    project.write("tests/test_mine.py", MINE)
    project.write("pytest.ini", "[pytest]\nrejoinder = true\n")
    done = pytest_in(project, "tests/test_mine.py", on=False)
    assert (done.code, done.last_lines) == (0, ""), done.text
    folder = pytest_in(project, "tests", on=False)
    assert folder.code == 0 and "warning: no suite was collected in tests" in folder.last_lines, folder.text
    assert pytest_in(project, "tests").code == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"targets: []\neval:\n  - prompt: Hello\n", "it has neither `evals` nor `cases`; `eval` is not `evals`"),
        (b"", "it is empty"),
        (b"# Cases\n- prompt: Hello\n", "it is a list, and a suite is a mapping with `evals`"),
        ("evals:\n  - prompt: Hello\n".encode("utf-16"), "'evals.yaml' is UTF-16; save it as UTF-8"),
        (b"name: x\n", "it has neither `evals` nor `cases`\n"),
    ],
    ids=["mistyped", "empty", "list", "utf-16", "other"],
)
def test_a_file_that_is_passed_over_is_named(project: Project, content: bytes, why: str) -> None:
    (project.folder / "evals.yaml").write_bytes(content)
    project.write("test_mine.py", MINE)
    project.write("evals/targets.yaml", "targets: []\n")
    done = pytest_in(project)
    assert done.code == 5, done.text
    assert f"warning: evals.yaml is not collected: {why}" in done.last_lines
    assert "targets.yaml" not in done.last_lines
    project.write("shop.eval.yaml", ONE)
    beside = pytest_in(project)
    assert beside.code == 0 and f"warning: evals.yaml is not collected: {why}" in beside.last_lines, beside.text


@pytest.mark.slow
def test_data_sets_and_byte_order_marks_are_no_reason(project: Project) -> None:
    project.write("data/rows.jsonl", '{"id": "row", "prompt": "Q", "checks": [{"contains": "105"}]}\n')
    head = "targets: [{name: demo, provider: scripted, replies: ['105']}]\ntarget: demo\n"
    project.write("evals/folder.yaml", f"{head}cases: ../data\n")
    project.write("evals/several.yaml", f"{head}cases:\n  - ../data/rows.jsonl\n")
    (project.folder / "evals/marked.yaml").write_bytes(
        b"\xef\xbb\xbfevals: [{id: marked, prompt: Q, checks: [{contains: 105}]}]\n" + head.encode()
    )
    done = pytest_in(project, *XDIST)
    assert set(done.outcomes) == {
        "evals/folder.yaml::row",
        "evals/several.yaml::row",
        "evals/marked.yaml::marked",
    }, done.text
    assert "passed over" not in project.run("validate", "evals")
