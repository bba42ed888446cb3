"""The linter of prose finds the phrases of its rules, and fails if a file has more of them than it is allowed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.lint_words import (
    DOCS,
    DOCSTRINGS,
    MESSAGES,
    MOST_IN_ALL,
    MOST_IN_MESSAGES,
    RULES,
    Passage,
    Rule,
    findings_in_passage,
    passages_of_python,
)

from tests.kit import ROOT

SCRIPT = ROOT / "scripts" / "lint_words.py"
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)

PAGE = """# A page

Calls go in order. The file lies in
the folder, and this
run goes on. ([Here](elsewhere.md
"so many")).

```text
so many
```

- Say further things.
"""
MODULE = '''"""What a module is."""


class Told:
    """A noun."""

    def say(self, name: str) -> str:
        """Return a sentence.

        The name is sent as it is."""
        return f"{name} is no number"


QUERY = "SELECT spoilt FROM so WHERE a.b OR a.spoilt"
PART = "OR (a.spoilt)"
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project with findings, all of them allowed."""
    for name, text in {
        "README.md": PAGE,
        "src/tool/module.py": MODULE,
        "src/tool/page.js": "let a = 'do it anew'\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    assert lint(tmp_path, "--write").returncode == 0
    return tmp_path


def lint(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(tree), *options]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def rules_found(rule: Rule, text: str) -> set[str]:
    return {finding.rule for kind in rule.kinds for finding in findings_in_passage("a.md", Passage(kind, 1, text))}


@every_rule
def test_a_rule_finds_its_example_and_not_its_counterexample(rule: Rule) -> None:
    assert rule.name in rules_found(rule, rule.found)
    assert rule.name not in rules_found(rule, rule.not_found)


def test_names_of_rules_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_a_finding_has_the_line_on_which_it_is() -> None:
    passage = Passage(DOCS, 5, "One\nline; the  run\ngoes on, and\n\ntells of it.")
    found = [(finding.rule, finding.line) for finding in findings_in_passage("a.md", passage)]
    assert found == [("goes-on", 7), ("is-told", 9)]


def test_rules_for_docstrings_leave_pages_alone() -> None:
    assert list(findings_in_passage("a.md", Passage(DOCS, 1, "What a page is."))) == []
    assert [found.rule for found in findings_in_passage("a.py", Passage(DOCSTRINGS, 1, "What it is."))] == ["doc-what"]


def test_the_docstring_of_a_command_is_a_message() -> None:
    """click shows it as help."""
    decorated = '@click.command("say")\ndef command() -> None:\n    """Go on with a run."""\n'
    assert [passage.kind for passage in passages_of_python(decorated) if "run" in passage.text] == [MESSAGES]
    plain = decorated.replace("@click.command", "@cache")
    assert [passage.kind for passage in passages_of_python(plain) if "run" in passage.text] == [DOCSTRINGS]


def test_findings_are_counted_by_file(tree: Path) -> None:
    """Code, addresses of links and SQL do not count."""
    limits = json.loads((tree / "tests" / "words.json").read_text(encoding="utf-8"))
    assert limits == {"README.md": 3, "src/tool/module.py": 4, "src/tool/page.js": 1}
    counts = lint(tree).stdout
    assert "8 findings in 3 files; most in:\n    4 src/tool/module.py\n" in counts
    assert "anew               0 docs     0 docstrings     1 messages     0 names  write: again; in a new" in counts


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ("lies-in", "README.md:3 [docs] Calls go in order. The file lies in the folder"),
        ("goes-on", "README.md:5 [docs] "),
        ("further", "README.md:12 [docs] - Say further things."),
        ("doc-what", "src/tool/module.py:1 [docstrings] What a module is."),
        ("participle", "src/tool/module.py:4 [names] Told"),
        ("as-it-is", "src/tool/module.py:10 [docstrings] Return a sentence. The name is sent as it is."),
        ("noun-no", "src/tool/module.py:11 [messages] is no number"),
        ("anew", "src/tool/page.js:1 [messages] 'do it anew'"),
        ("so-many", "\n"),
    ],
)
def test_findings_of_a_rule_are_shown(tree: Path, rule: str, shown: str) -> None:
    assert lint(tree, "--show", rule).stdout.startswith(shown)


def test_what_is_allowed_passes(tree: Path) -> None:
    checked = lint(tree, "--check")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("file", "added", "complaints"),
    [
        (
            "README.md",
            "\nSo it came to an end.\n",
            ["README.md: 4 findings, limit 3", "README.md:14 became-of: 'So it came to an end.'; write: the result of"],
        ),
        (
            "docs/new.md",
            "# New\n\nThe file lies in the folder.\n",
            ["docs/new.md: 1 findings, limit 0", "docs/new.md:3 lies-in: 'The file lies in the folder.'; write: is in"],
        ),
        (
            "src/tool/module.py",
            '\nERROR = "the run goes on"\n',
            ["src/tool/module.py: 5 findings, limit 4", "module.py:17 goes-on: 'the run goes on'; write: continue"],
        ),
    ],
)
def test_a_finding_more_than_allowed_fails(tree: Path, file: str, added: str, complaints: list[str]) -> None:
    path = tree / file
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(added)
    checked = lint(tree, "--check")
    assert checked.returncode == 1
    for complaint in complaints:
        assert complaint in checked.stderr


@pytest.mark.parametrize(
    ("file", "line", "most", "complaint"),
    [
        ("src/tool/many.js", "let a = 'the run goes on'\n", MOST_IN_MESSAGES, "messages and help: "),
        ("docs/many.md", "- The run goes on.\n", MOST_IN_ALL, "all texts: "),
    ],
)
def test_limits_of_files_do_not_lift_the_bounds_of_all(
    tree: Path, file: str, line: str, most: int, complaint: str
) -> None:
    (tree / "docs").mkdir()
    (tree / file).write_text(line * (most + 1), encoding="utf-8")
    lint(tree, "--write")
    checked = lint(tree, "--check")
    assert checked.returncode == 1
    assert checked.stderr.startswith(complaint)
    assert f"at most {most}" in checked.stderr
