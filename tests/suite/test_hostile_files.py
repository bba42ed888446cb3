"""Files that are broken, enormous, endless or meant to do harm: each is refused in words, at its place, in time.

What could take the interpreter down or never end runs in a process of its own, where both would be seen.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import rejoinder
from rejoinder.cli.app import cli
from rejoinder.errors import RejoinderError
from rejoinder.formatting.globs import matches_path
from rejoinder.project import files
from rejoinder.project.files import FileFault
from rejoinder.validation.findings import validate
from tests.kit import Ended, Project, codes, run_process, spec

HEAD = "metadata: {model: scripted/x}\n"
GOOD = f"""\
{HEAD}evals:
  - prompt: hi
    checks:
      - match: "*"
"""
PATIENCE = 20
"""Seconds for what should take one. A hang is found, a slow machine is not."""


def attaching(value: str) -> dict[str, Any]:
    """A suite with one attached file."""
    content = [{"type": "text", "value": "See:"}, {"type": "file", "value": value}]
    case = {"input_messages": [{"role": "user", "content": content}], "outcome": "x"}
    return {"metadata": {"model": "scripted/x"}, "evals": [case]}


def outside(project: Project, *arguments: str, **environment: str) -> Ended:
    """The command as a process of its own; neither a crash nor a traceback nor a hang is let pass."""
    done = run_process(project.folder, *arguments, timeout_s=PATIENCE, **{"PYTHONUTF8": "1", **environment})
    assert "Traceback" not in done.err, done.err
    assert done.code in (0, 2), (done.code, done.err)
    return done


def errors_outside(project: Project, name: str = "evals.yaml") -> list[dict[str, Any]]:
    report = outside(project, "validate", "--format", "json", name).document
    return [error for file in report["files"] for error in file["errors"]]


def all_errors(project: Project, name: str = "evals.yaml") -> list[dict[str, Any]]:
    """Those of the suite and of every file that it names."""
    return [error for file in project.validate(name)["files"] for error in file["errors"]]


def refused(project: Project, content: Any, name: str = "evals.yaml") -> dict[str, Any]:
    """The one error of a file, which `prompt` does not go past either."""
    [error] = project.errors(content, name)
    project.run("prompt", name, code=2)
    return error


def place(error: dict[str, Any]) -> tuple[int, int]:
    return error["line"], error["column"]


# Growth: small files that would become large


@spec("P22")
def test_aliases_of_aliases_are_counted_and_not_written_out(project: Project) -> None:
    lines = ["x-a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"x-a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    error = refused(project, "\n".join(lines) + f"\n{GOOD}")
    assert error["code"] == "too-many-aliases"


@spec("P22")
def test_an_alias_inside_what_it_names_is_refused(project: Project) -> None:
    assert refused(project, f"x-a: &a [1, *a]\n{GOOD}")["code"] == "too-many-aliases"
    assert refused(project, f"x-a: &a {{b: {{c: *a}}}}\n{GOOD}")["code"] == "too-many-aliases"
    assert refused(project, f"x-a: &a\n  <<: *a\n{GOOD}")["code"] == "too-many-aliases"


@pytest.mark.slow
@spec("P22")
@pytest.mark.parametrize("merge", ["<<: [*a{n}, *a{n}]", "<<: *a{n}, <<: *a{n}", "<<: [*a{n}], k{n}: [*a{n}]"])
@pytest.mark.parametrize("first", ["{}", "{x-k: 1}"])
def test_merges_of_merges_end(project: Project, merge: str, first: str) -> None:
    lines = ["x-a:", f"  - &a0 {first}"]
    lines += [f"  - &a{n + 1} {{{merge.format(n=n)}}}" for n in range(60)]
    project.write("evals.yaml", "\n".join([*lines, "evals:", "  - *a60", ""]))
    assert errors_outside(project)


# Depth

DEEP = 100_000


@pytest.mark.slow
@spec("P22")
@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "? ", "[{a: ", "- ? ", "--- - "])
def test_deep_nesting_is_refused(project: Project, opening: str) -> None:
    project.write("evals.yaml", opening * DEEP)
    [error] = errors_outside(project)
    assert error["code"] == ("yaml-syntax" if opening == "--- - " else "too-deep")


@pytest.mark.slow
@spec("P22")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("#\r" + "- " * DEEP, id="after-a-carriage-return"),
        pytest.param("#\u2028\n" + "- " * DEEP, id="after-a-line-separator"),
        pytest.param("\ufeff\ufeff" + "- " * DEEP, id="after-two-boms"),
        pytest.param('["]",' * 20_000, id="closing-brackets-in-quotes"),
        pytest.param("[ # ]]]]\n" * DEEP, id="closing-brackets-in-comments"),
    ],
)
def test_depth_cannot_be_hidden(project: Project, text: str) -> None:
    project.write("evals.yaml", text.encode())
    assert codes(errors_outside(project)) == ["too-deep"]


@spec("P22")
@pytest.mark.parametrize("opening", ["[", "- ", "{a: "])
def test_deep_nesting_points_at_the_first_level_too_many(project: Project, opening: str) -> None:
    error = refused(project, opening * 1000)
    assert error["code"] == "too-deep"
    assert place(error) == (1, 100 * len(opening) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", [".rejoinder/targets.yaml", ".rejoinder/config.yaml"])
def test_deep_nesting_in_the_projects_own_files_is_refused(project: Project, name: str) -> None:
    project.write(name, "[" * DEEP)
    project.write("evals.yaml", GOOD)
    assert codes(errors_outside(project, name)) == ["too-deep"]
    assert codes(errors_outside(project)) == ["too-deep"]


DEEP_VALUES = {
    "unclosed": '{{"prompt": "a", "x": {open}',
    "variable": '{{"prompt": "a {{{{ x }}}}", "outcome": "o", "x": {open}{close}}}',
    "metadata": '{{"prompt": "a", "outcome": "o", "metadata": {{"x": {open}{close}}}}}',
    "checks": '{{"prompt": "a", "checks": {checks}}}',
    "not": '{{"prompt": "a", "checks": [{nots}]}}',
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DEEP_VALUES)
@pytest.mark.parametrize("depth", [150, 450, 900, DEEP])
def test_deep_rows_of_data_sets_are_refused(project: Project, kind: str, depth: int) -> None:
    row = DEEP_VALUES[kind].format(
        open="[" * depth,
        close="]" * depth,
        checks='[{"or": ' * depth + '[{"match": "x"}]' + "}]" * depth,
        nots='{"not": ' * depth + '{"match": "x"}' + "}" * depth,
    )
    project.write("data.jsonl", f'{row}\n{{"prompt": "b", "outcome": "o"}}\n')
    project.write("evals.yaml", f"{HEAD}cases: data.jsonl\n")
    errors = all_errors(project)
    assert {(error["code"], error["line"]) for error in errors} <= {("too-deep", 1), ("json-syntax", 1)}
    assert errors or depth < DEEP
    project.run("prompt", "evals.yaml", code=2 if errors else 0)


@pytest.mark.parametrize("depth", [450, DEEP // 2])
def test_deep_cells_of_csv_files_are_refused(project: Project, depth: int) -> None:
    project.write("data.csv", f"prompt,checks\na,{'[' * depth}{']' * depth}\n")
    project.write("evals.yaml", f"{HEAD}cases: data.csv\n")
    assert {error["line"] for error in all_errors(project)} == {2}
    project.run("prompt", "evals.yaml", code=2)


# Size


@pytest.mark.parametrize("name", ["evals.yaml", ".rejoinder/targets.yaml", ".rejoinder/config.yaml"])
def test_a_huge_file_is_refused_unread(project: Project, name: str) -> None:
    project.write("evals.yaml", GOOD)
    with project.write(name, "").open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    [file] = [file for file in project.validate("evals.yaml")["files"] if file["errors"]]
    assert file["path"] == name
    assert codes(file["errors"]) == ["too-large"]
    assert re.search(r"100(\.0)? MB", file["errors"][0]["message"])


@spec("P8")
def test_a_huge_attachment_is_refused_unread(project: Project) -> None:
    with project.write("huge.txt", "").open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    error = refused(project, attaching("huge.txt"))
    assert error["code"] == "too-large"
    assert error["path"] == "evals[0].input_messages[0].content[1]"


@pytest.mark.slow
def test_a_huge_row_of_a_data_set_is_refused(project: Project) -> None:
    for name in ("data.jsonl", "data.csv"):
        with project.write(name, "").open("wb") as stream:
            stream.truncate(100 * 1024 * 1024)
        project.write("evals.yaml", f"{HEAD}cases: {name}\n")
        assert codes(all_errors(project)) == ["too-large"]


@pytest.mark.slow
@spec("P22")
def test_long_lines_are_read_and_shown_in_part(project: Project) -> None:
    long = "x" * 300_000
    assert project.errors(GOOD.replace("hi", f"'{long}'")) == []
    error = refused(project, GOOD.replace("hi", f"{long}: y"))
    assert error["code"] == "yaml-syntax"
    assert place(error) == (3, len("  - prompt: ") + len(long) + 1)
    shown = project.run("validate", "evals.yaml", code=2).splitlines()
    assert all(len(line) <= 120 for line in shown if not line.startswith("  fix |"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["{long}", "? {long}\n: 1", "{long}: 1", "'{long}", "- - - {long}", "*{long}", "&{long}"]
)
def test_long_words_anywhere_are_refused_in_time(project: Project, line: str) -> None:
    project.write("evals.yaml", GOOD + line.format(long="k-" * 200_000) + "\n")
    assert outside(project, "validate", "evals.yaml").code == 2


@pytest.mark.slow
@spec("P22")
@pytest.mark.parametrize(
    "line",
    [
        "name: a{run}b: c",
        "name: {{a: b: {run}x}}",
        "name: [a{run}b: c",
        "name: 'a' b{run}c",
        "name: *{run}x",
        "{run}name: a: b",
        "- {run}name: a: b",
        "name:{run}a: b",
    ],
)
@pytest.mark.parametrize("run", [" ", "- ", ": ", "'"])
def test_long_runs_in_a_wrong_line_are_refused_in_time(project: Project, line: str, run: str) -> None:
    project.write("evals.yaml", line.format(run=run * 50_000) + "\n")
    assert errors_outside(project)


@pytest.mark.slow
@spec("P20", "P22")
def test_many_duplicate_keys_are_refused_in_time(project: Project) -> None:
    twice = [f"k{number}: 1" for number in range(10_000)] * 2
    project.write("evals.yaml", "\n".join(twice) + "\n")
    found = errors_outside(project)
    assert set(codes(found)) == {"duplicate-key"}
    assert (found[0]["path"], found[0]["first_line"], found[0]["line"]) == ("k0", 1, 10_001)


@pytest.mark.slow
@spec("P9")
@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("*a" * 20 + "b", id="stars"),
        pytest.param("a*" * 30 + "/b", id="stars-and-a-segment"),
        pytest.param("**/" * 50 + "b", id="segments"),
        pytest.param("{" * 50_000, id="braces"),
        pytest.param("{a," * 20_000, id="braces-and-commas"),
        pytest.param("{a,b}" * 5_000, id="alternatives"),
        pytest.param("{*a,a*}" * 8 + "b", id="alternatives-of-stars"),
        pytest.param("[" * 200_000, id="open-brackets"),
        pytest.param("*[" + "a-zb-y" * 50_000 + "]b", id="long-class"),
    ],
)
def test_a_pattern_is_answered_in_time(project: Project, pattern: str) -> None:
    path = "a" * 200
    project.write(path, "text")
    project.write("evals.yaml", {**attaching(path), "guideline_patterns": [pattern]})
    assert set(codes(errors_outside(project))) <= {"out-of-range"}


@spec("P9")
def test_stars_match_as_they_should() -> None:
    assert matches_path("aXaYb", ("*a*a*b",))
    assert not matches_path("aXaY", ("*a*a*b",))


# Things in the file system that are no ordinary files


@spec("P8")
def test_links_in_a_circle_are_refused(project: Project) -> None:
    (project.folder / "loop.yaml").symlink_to("loop.yaml")
    (project.folder / "one.txt").symlink_to("two.txt")
    (project.folder / "two.txt").symlink_to("one.txt")
    [file] = project.validate("loop.yaml")["files"]
    assert codes(file["errors"]) == ["unreadable-file"]
    project.run("prompt", "loop.yaml", code=2)
    error = refused(project, attaching("one.txt"))
    assert error["code"] == "unreadable-file"
    assert "loop" in error["message"]


def test_a_link_in_a_circle_as_data_set_is_refused(project: Project) -> None:
    (project.folder / "data.jsonl").symlink_to("data.jsonl")
    project.write("evals.yaml", f"{HEAD}cases: data.jsonl\n")
    assert codes(all_errors(project)) == ["unreadable-file"]


@pytest.mark.slow
def test_links_in_a_circle_among_folders_are_passed_over(project: Project) -> None:
    (project.folder / "inside").symlink_to(project.folder, target_is_directory=True)
    project.write("evals.yaml", GOOD)
    done = outside(project, "validate", ".")
    assert done.code == 0


@spec("P8")
def test_a_folder_is_no_attachment(project: Project) -> None:
    (project.folder / "folder").mkdir()
    error = refused(project, attaching("folder"))
    assert error["code"] == "unreadable-file"
    assert "folder" in error["message"]
    assert place(error)[0] == 1


def test_a_folder_is_no_suite(project: Project) -> None:
    (project.folder / "evals.yaml").mkdir()
    for command in ("prompt", "validate"):
        result = project.invoke(command, "evals.yaml")
        assert isinstance(result.exception, RejoinderError)
        assert "no suite in the folder" in str(result.exception)


def test_a_folder_with_the_name_of_a_data_set_is_no_data_set(project: Project) -> None:
    (project.folder / "data.jsonl").mkdir()
    (project.folder / "data.jsonl" / "rows.csv").mkdir()
    project.write("evals.yaml", f"{HEAD}cases: data.jsonl\n")
    assert codes(all_errors(project)) == ["file-not-found"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.parametrize("command", ["validate", "prompt"])
@pytest.mark.parametrize(
    ("pipe", "suite"),
    [
        ("pipe.txt", json.dumps(attaching("pipe.txt"))),
        ("evals.yaml", None),
        ("pipe.jsonl", f"{HEAD}cases: pipe.jsonl\n"),
        (".rejoinder/targets.yaml", GOOD),
        (".rejoinder/config.yaml", GOOD),
        (".env", GOOD),
        (
            "judge.md",
            json.dumps({**attaching("x"), "execution": {"evaluators": [{"type": "llm_judge", "prompt": "judge.md"}]}}),
        ),
    ],
)
def test_a_pipe_is_never_waited_for(project: Project, pipe: str, suite: str | None, command: str) -> None:
    os.mkfifo(project.folder / pipe)
    if suite is not None:
        project.write("evals.yaml", suite)
    outside(project, command, "evals.yaml")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there are no devices here")
def test_a_device_is_no_attachment(project: Project) -> None:
    project.write("evals.yaml", attaching("/dev/zero"))
    assert codes(errors_outside(project)) == ["unreadable-file"]


def test_a_name_with_a_nul_is_no_file(project: Project) -> None:
    content = attaching("a\0b.txt")
    [error] = project.errors(content)
    assert error["code"] == "file-not-found"
    assert project.prompts(content)[0]["diagnostics"][0]["code"] == "file-not-found"
    assert codes(project.errors(f'{HEAD}cases: "a\\0b.jsonl"\n')) == ["file-not-found"]


def test_a_suite_whose_name_has_a_nul_is_not_found(project: Project) -> None:
    [file] = validate("a\0b.yaml").files
    assert [error.code for error in file.errors] == ["file-not-found"]
    with pytest.raises(RejoinderError):
        rejoinder.load("a\0b.yaml")


@pytest.mark.parametrize("name", ["n" * 5000, "a/" * 3000, "missing/evals.yaml", "evals.yaml/evals.yaml"])
def test_impossible_names_are_not_found(project: Project, name: str) -> None:
    project.write("evals.yaml", GOOD)
    assert codes(project.errors(attaching(name), "other.yaml")) == ["file-not-found"]
    assert codes(all_errors(project, name)) == ["file-not-found"]


# Encodings and line ends


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_only_utf8_is_read(project: Project, encoding: str) -> None:
    error = refused(project, f"# é\n{GOOD}".encode(encoding))
    assert error["code"] == "not-utf8"


@pytest.mark.parametrize(
    "content", [b"evals: \xff\n", b"evals: \xc3\n", b"evals: \xed\xa0\x80\n", b"a: \xf5\x80\x80\x80"]
)
def test_invalid_utf8_is_refused(project: Project, content: bytes) -> None:
    assert refused(project, content)["code"] == "not-utf8"


@spec("P8")
@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", bytes(range(256)), b"\0" * 100, b"caf\xe9"])
def test_a_binary_attachment_is_refused(project: Project, content: bytes) -> None:
    project.write("picture.png", content)
    error = refused(project, attaching("picture.png"))
    assert error["code"] == "not-utf8"
    assert error["path"] == "evals[0].input_messages[0].content[1]"


@pytest.mark.parametrize("name", ["data.jsonl", "data.csv"])
def test_a_data_set_that_is_not_utf8_is_refused(project: Project, name: str) -> None:
    project.write(name, b'prompt,outcome\n{"a": 1},x\n\xff\xfe,y\n')
    project.write("evals.yaml", f"{HEAD}cases: {name}\n")
    assert "not-utf8" in codes(all_errors(project))


@spec("P2")
def test_a_byte_order_mark_is_dropped(project: Project) -> None:
    assert project.errors(f"\ufeff{GOOD}") == []
    project.write("note.md", "\ufeffNote.")
    [shown] = project.prompts(attaching("note.md"))
    assert shown["question"] == 'See:\n\n<file path="note.md">\nNote.\n</file>'
    project.write("data.jsonl", '\ufeff{"prompt": "a", "outcome": "o"}\n')
    project.write("data.csv", "\ufeffprompt,outcome\na,o\n")
    for name in ("data.jsonl", "data.csv"):
        assert project.errors(f"\ufeff{HEAD}cases: {name}\n") == []
    error = refused(project, "\ufeffevals: 3\n")
    assert place(error) == (1, 8)


BLOCK_SCALARS = f"""\
{HEAD}evals:
  - id: block
    prompt: |

      First.
        Indented.

      Last.
    checks:
      - match: "*"
  - id: folded
    prompt: >-
      One
      line.
    checks: [match: "*"]
"""


@spec("P2", "P22")
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_ends_do_not_reach_prompts(project: Project, ending: str) -> None:
    block, folded = project.prompts(BLOCK_SCALARS.replace("\n", ending))
    assert block["question"] == "First.\n  Indented.\n\nLast."
    assert folded["question"] == "One line."


@spec("P20", "P22")
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_ends_do_not_move_errors(project: Project, ending: str) -> None:
    def found(text: str) -> list[tuple[str, str, int, int]]:
        errors = project.errors(text.replace("\n", ending))
        return [(error["code"], error["path"], *place(error)) for error in errors]

    assert found(BLOCK_SCALARS.replace("    checks:\n", "    cheks:\n") + "extra: 1\n") == [
        ("unknown-key", "evals[0].cheks", 10, 5),
        ("unknown-key", "extra", 17, 1),
    ]
    assert found(BLOCK_SCALARS + "name: a: b\ntarget: c: d\n") == [
        ("yaml-syntax", "", 17, 8),
        ("yaml-syntax", "", 18, 10),
    ]
    assert found(BLOCK_SCALARS + "name: a\nname: b\n") == [("duplicate-key", "name", 18, 1)]


@spec("P22")
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_suggested_line_has_no_line_end(project: Project, ending: str) -> None:
    error = refused(project, f"{HEAD}name: a: b\n".replace("\n", ending))
    assert error["suggestion"] == 'name: "a: b"'


@spec("P22")
@pytest.mark.parametrize(("separator", "ends"), [("\x85", 0), ("\u2028", 0), ("\u2029", 0), ("\r", 1)])
def test_errors_after_unusual_line_ends_stand_at_their_lines(project: Project, separator: str, ends: int) -> None:
    errors = project.errors(f"# one{separator}# two\nname: a: b\ntarget: c: d\n")
    assert [(place(error), error["suggestion"]) for error in errors] == [
        ((2 + ends, 8), 'name: "a: b"'),
        ((3 + ends, 10), 'target: "c: d"'),
    ]


@spec("P22")
@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize(
    "written",
    ['"a {} b"', "'a {} b'", "a {} b", "|\n      a {} b", '"\ue000 a {} b \\uE001"', '"a {} b \\ud83d\\ude00"'],
)
def test_characters_that_end_lines_in_older_yaml_are_kept(project: Project, character: str, written: str) -> None:
    text = GOOD.replace("prompt: hi", f"prompt: {written.replace('{}', character)}")
    [shown] = project.prompts(text)
    assert f"a {character} b" in shown["question"]
    assert all(one in shown["question"] for one in "\ue000\ue001" if "ue001" in written.lower())


@spec("P22")
def test_a_file_that_uses_up_every_stand_in_is_told_so(project: Project) -> None:
    letters = "".join(map(chr, range(0xE000, 0xE100)))
    error = refused(project, GOOD.replace("hi", f"'{letters} \u2028 b'"))
    assert (error["code"], place(error)) == ("yaml-syntax", (3, 271))
    assert "`\\u2028`" in error["message"]


@spec("P22")
def test_a_suite_that_json_wrote_is_read(project: Project) -> None:
    smile = "\N{GRINNING FACE}"
    suite = {"metadata": {"model": "scripted/x"}, "evals": [{"prompt": f"{smile} a {smile}{smile}", "outcome": smile}]}
    project.write("evals.yaml", json.dumps(suite))
    assert "ud83d" in (project.folder / "evals.yaml").read_text()
    assert project.prompts(json.dumps(suite))[0]["question"] == f"{smile} a {smile}{smile}"
    # Places behind them are not moved.
    wrong = json.dumps({"x-a": smile, "evals": [{"prompt": smile, "cheks": []}], "x-b": 1})
    [error] = project.errors(wrong)
    assert (error["code"], place(error)) == ("unknown-key", (1, wrong.index('"cheks"') + 1))


@spec("P22")
@pytest.mark.parametrize("written", ["'{}'", "{}", "|\n      {}", '"{}"'])
def test_only_double_quotes_have_escapes(project: Project, written: str) -> None:
    pair = r"\ud83d\ude00"
    inside = pair.replace("\\", "\\\\") if '"' in written else pair
    text = GOOD.replace("prompt: hi", f"prompt: {written.replace('{}', inside)}") + f'x-a: "{pair}"  # {pair}\n'
    assert project.prompts(text)[0]["question"] == pair


@spec("P22")
@pytest.mark.parametrize(
    ("line", "column", "suggestion"),
    [
        (r'name: "\ud83d"', 8, r'name: "\ufffd"'),
        (r'name: "a \ude00 \ud83d b"', 10, r'name: "a \ufffd \ufffd b"'),
        (r'name: "\ud83d\ude00 \ud83d"', 21, r'name: "\ud83d\ude00 \ufffd"'),
        (r'name: "\ud83d\ude00 \\ud83d\ude00"', 28, r'name: "\ud83d\ude00 \\ud83d\ufffd"'),
    ],
)
def test_half_a_character_is_named(project: Project, line: str, column: int, suggestion: str) -> None:
    error = refused(project, f"{line}\n{HEAD}")
    assert (error["code"], place(error), error["suggestion"]) == ("yaml-syntax", (1, column), suggestion)
    assert "half of a character" in error["message"]


@spec("P22")
def test_a_forbidden_character_is_pointed_at(project: Project) -> None:
    error = refused(project, "# é漢字😀\nname: ééé\x01\n")
    assert error["code"] == "yaml-syntax"
    assert "U+0001" in error["message"]
    assert place(error) == (2, 10)


# Names and paths


@spec("P8")
@pytest.mark.parametrize(
    "name", ["mes évals.yaml", "評価.yaml", "a b/c d.yaml", "😀.yaml", "e\u0301.yaml", "-x.yaml", "a'b\".yaml"]
)
def test_any_name_will_do_for_a_suite(project: Project, name: str) -> None:
    project.write(name, GOOD + "extra: 1\n")
    assert name in project.run("validate", "--", name, code=2)
    [file] = json.loads(project.run("validate", "--format", "json", "--", name, code=2))["files"]
    assert file["path"] == name
    assert json.loads(project.run("validate", "--format", "sarif", "--", name, code=2))
    project.write(name, GOOD)
    assert json.loads(project.run("prompt", "--format", "json", "--", name))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_a_name_that_is_no_text_is_shown_all_the_same(project: Project, form: str) -> None:
    name = os.fsdecode(b"evals-\xff.yaml")
    try:
        project.write(name, "evals: 3\n")
    except OSError:
        pytest.skip("the file system has no such names")
    done = outside(project, "validate", "--format", form, name)
    assert done.code == 2
    if form != "text":
        assert json.loads(done.out)


@spec("P3", "P8")
@pytest.mark.parametrize(
    ("written", "where"),
    [
        ("notes.md", "suites/notes.md"),
        ("./notes.md", "suites/notes.md"),
        ("../notes.md", "notes.md"),
        ("../other/../notes.md", "notes.md"),
        ("../../outside.md", "../outside.md"),
        ("/docs/notes.md", "docs/notes.md"),
        ("//docs/notes.md", "docs/notes.md"),
        ("docs\\notes.md", "docs/notes.md"),
        ("..\\docs\\notes.md", "docs/notes.md"),
        ("\\docs\\notes.md", "docs/notes.md"),
        ("with spaces/my notes.md", "with spaces/my notes.md"),
        (" leading.md", " leading.md"),
        ("ünïcode/評価 😀.md", "ünïcode/評価 😀.md"),
        ("a&b <c> \"d\" 'e'.md", "a&b <c> \"d\" 'e'.md"),
        ("$(touch x) `y` ;z.md", "$(touch x) `y` ;z.md"),
        ("*.md", "*.md"),
        ("%s {0} {{0}}.md", "%s {0} {{0}}.md"),
    ],
)
def test_paths_are_found_and_shown_as_written(project: Project, written: str, where: str) -> None:
    (project.folder / "project" / "suites").mkdir(parents=True)
    (project.folder / "project" / "other").mkdir()
    (project.folder / "project" / ".rejoinder").mkdir()
    project.write(f"project/{where}", "Found.")
    project.write("project/suites/evals.yaml", attaching(written))
    [shown] = project.run_json("prompt", "project/suites/evals.yaml")
    assert shown["question"] == f'See:\n\n<file path="{written}">\nFound.\n</file>'
    assert shown["diagnostics"] == []


@spec("P8")
def test_a_leading_slash_is_absolute_only_if_nothing_lies_below(project: Project, tmp_path: Path) -> None:
    absolute = project.write("far/away.md", "Absolute.")
    [shown] = project.prompts(attaching(str(absolute)))
    assert "Absolute." in shown["question"]
    project.write(str(absolute), "Below.")
    [shown] = project.prompts(attaching(str(absolute)))
    assert "Below." in shown["question"]


@pytest.mark.parametrize("case_id", ["é", "評価", "a b", "😀", "a/b", "../x", "e\u0301", "-x", "{{", "[0]"])
def test_any_id_will_do(project: Project, case_id: str) -> None:
    suite = {"evals": [{"id": case_id, "prompt": "hi"}, {"id": "other", "prompt": "ho"}]}
    project.write("evals.yaml", suite)
    [shown] = project.run_json("prompt", "evals.yaml", f"--case={case_id}")
    assert (shown["id"], shown["question"]) == (case_id, "hi")


# Documents that hold something else than a suite


@spec("P20")
@pytest.mark.parametrize("text", ["", "\n\n", "# only\n# comments\n", "---\n", "---\n...\n", "~", "{}", "{x-a: 1}"])
def test_a_file_without_cases_is_refused(project: Project, text: str) -> None:
    error = refused(project, text)
    assert (error["code"], error["path"]) == ("missing-field", "evals")


@spec("P19", "P20")
@pytest.mark.parametrize("text", ["[]", "3", "text", "- a\n- b\n", "'quoted'", "|\n  block\n"])
def test_a_file_that_is_no_mapping_is_refused(project: Project, text: str) -> None:
    assert refused(project, text)["code"] == "wrong-type"


@spec("P19", "P20")
@pytest.mark.parametrize("key", ["evals", "evalcases"])
@pytest.mark.parametrize("item", ["", "3", "true", "text", "[]", "cases", "~"])
def test_a_case_that_is_no_mapping_is_refused(project: Project, key: str, item: str) -> None:
    error = refused(project, f"{HEAD}{key}:\n  - {item}\n")
    assert (error["code"], error["path"]) == ("wrong-type", f"{key}[0]")
    assert error["line"] == 3


@spec("P22")
def test_a_second_document_is_refused(project: Project) -> None:
    error = refused(project, f"{GOOD}---\n{GOOD}")
    assert (error["code"], place(error)) == ("yaml-syntax", (6, 1))
    assert "second document" in error["message"]
    assert project.errors(f"---\n{GOOD}...\n") == []
    assert project.errors(f"%YAML 1.2\n---\n{GOOD}") == []


@spec("P22")
@pytest.mark.parametrize(
    "text", ["[", "{", "a: [", "a: {b: [c", "- [\n\n", '"', "a: 'b", "a: |\n\tb", "&", "*", "%", "? [", "a: !<"]
)
def test_a_file_that_ends_too_early_is_refused(project: Project, text: str) -> None:
    for ending in ("", "\n", "\r\n", "\n\n"):
        errors = project.errors(text + ending)
        assert set(codes(errors)) == {"yaml-syntax"}
        assert all(error["line"] <= text.count("\n") + 3 for error in errors)


@spec("P22")
def test_anchors_aliases_and_merges_are_accepted(project: Project) -> None:
    text = f"""\
{HEAD}x-base: &base
  prompt: base
  checks: &checks [match: "*"]
x-more: &more {{tags: [t], prompt: more}}
evals:
  - *base
  - <<: *base
    prompt: own
  - <<: [*more, *base]
  - id: twice
    prompt: &words "Say it."
    checks: *checks
  - prompt: *words
    checks: *checks
"""
    assert project.errors(text) == []
    shown = project.prompts(text)
    assert [one["question"] for one in shown] == ["base", "own", "more", "Say it.", "Say it."]


@spec("P20", "P22")
def test_an_error_in_what_was_merged_points_at_its_source(project: Project) -> None:
    text = f"{HEAD}x-base: &base\n  cheks: []\nevals:\n  - <<: *base\n    prompt: a\n    outcome: b\n"
    error = refused(project, text)
    assert (error["code"], error["path"], place(error)) == ("unknown-key", "evals[0].cheks", (3, 3))


@spec("P22")
@pytest.mark.parametrize("value", ["3", "[1]", "text", "[{prompt: a}, 3]"])
def test_only_mappings_can_be_merged(project: Project, value: str) -> None:
    error = refused(project, f"x-a: &a {value}\n{HEAD}evals:\n  - <<: *a\n    outcome: x\n")
    assert error["code"] == "yaml-syntax"


@spec("P22")
@pytest.mark.parametrize(
    "text", ["a: !!python/object:os.system x", "a: !x y", "!!set {a, b}", "? [a, b]\n: c", "? {a: b}\n: c"]
)
def test_foreign_tags_and_keys_are_refused(project: Project, text: str) -> None:
    assert set(codes(project.errors(f"{text}\n"))) == {"yaml-syntax"}


@spec("P20", "P22")
@pytest.mark.parametrize(
    ("text", "path", "first", "later"),
    [
        (f"name: a\n{GOOD}name: b\n", "name", 1, (7, 1)),
        (f"{HEAD}evals:\n  - prompt: a\n    prompt: b\n", "evals[0].prompt", 3, (4, 5)),
        (f"{HEAD}evals: [{{prompt: a, id: i, prompt: b}}]\n", "evals[0].prompt", 2, (2, 28)),
        (
            f"{GOOD}        prompt: a\n        checks:\n          - match: x\n            match: y\n",
            "evals[0].checks[0].checks[0].match",
            8,
            (9, 13),
        ),
        (f"x-a:\n  b:\n    - c: 1\n      c: 2\n{GOOD}", "x-a.b[0].c", 3, (4, 7)),
        (f'{GOOD}"evals": []\n', "evals", 2, (6, 1)),
        (f"vars: {{é: 1, x: 2, é: 3}}\n{GOOD}", "vars.é", 1, (1, 20)),
        (f"x-a: &a\n  k: 1\n  k: 2\nx-b: *a\n{GOOD}", "x-a.k", 2, (3, 3)),
        (f"x-a: &a {{k: 1}}\nx-b:\n  '<<': 1\n  <<: *a\n  <<: *a\n{GOOD}", "x-b.<<", 4, (5, 3)),
    ],
)
def test_duplicate_keys_name_both_lines(
    project: Project, text: str, path: str, first: int, later: tuple[int, int]
) -> None:
    error = refused(project, text)
    assert (error["code"], error["path"], error["first_line"], place(error)) == ("duplicate-key", path, first, later)
    assert error["key"] == path.rpartition(".")[2]
    assert f"line {first}" in error["message"]


@spec("P22")
def test_all_duplicate_keys_are_named(project: Project) -> None:
    errors = project.errors(f"name: a\nname: b\nname: c\n{HEAD}evals:\n  - id: x\n    id: y\n")
    assert [(error["path"], error["line"], error["first_line"]) for error in errors] == [
        ("name", 2, 1),
        ("name", 3, 1),
        ("evals[0].id", 7, 6),
    ]


# Values that no one expects


@spec("P19")
@pytest.mark.parametrize("number", [".inf", "-.inf", ".nan", "1e400", "0x" + "f" * 5000, "9" * 4000, "-" + "9" * 250])
@pytest.mark.parametrize("key", ["min_tokens", "latency", "match"])
def test_numbers_beyond_reason_are_refused_as_numbers(project: Project, number: str, key: str) -> None:
    for error in project.errors(
        f'{HEAD}evals:\n  - prompt: a\n    checks:\n      - {key}: "x"\n'.replace('"x"', number)
    ):
        is_text = number.startswith("0x") or len(number) > 1000
        is_text = is_text and key != "latency"  # which may be a text, such as `4s`
        wanted = "wrong-type" if key == "match" or is_text else "out-of-range"
        assert (error["code"], error["path"]) == (wanted, f"evals[0].checks[0].{key}")
        assert "remove the quotes" not in error["message"]
        assert "empty" not in error["message"] and "no value" not in error["message"]


@spec("P15")
@pytest.mark.parametrize("number", [".inf", ".nan", "1e400", "0x" + "f" * 5000, "9" * 4000])
def test_numbers_beyond_reason_can_be_variables(project: Project, number: str) -> None:
    text = f"vars: {{n: {number}}}\n{HEAD}evals:\n  - prompt: 'Is {{{{ n }}}} large?'\n    outcome: x\n"
    assert set(codes(project.errors(text))) <= {"out-of-range", "wrong-type"}
    project.run("prompt", "evals.yaml", code=None)


@spec("P15")
def test_a_turn_beyond_reason_is_no_turn(project: Project) -> None:
    follow_up = f"        prompt: 'You said {{{{ response({'9' * 5000}) }}}}'\n        checks: [match: x]\n"
    assert set(codes(project.errors(GOOD + follow_up))) <= {"out-of-range", "missing-variable"}


@spec("P19")
@pytest.mark.parametrize(
    "pattern", ["(?V0)(?V1)a", "(?a)(?u)a", "(", "[", "a{2,1}", "\\", "(?P<n>a)(?P=m)", "(?z)", "\\p{No}x\\p{Nope}"]
)
def test_a_regular_expression_that_cannot_be_compiled_is_refused(project: Project, pattern: str) -> None:
    for check in ({"regex": pattern}, {"match": f"^{pattern}"}, {"regex": {"pattern": pattern}}):
        suite = {"metadata": {"model": "scripted/x"}, "evals": [{"prompt": "a", "checks": [check]}]}
        assert codes(project.errors(suite)) == ["invalid-regex"]


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\udc00\\ud800"', '"a\\ud83d"'])
def test_lone_surrogates_in_data_sets_are_refused(project: Project, text: str) -> None:
    project.write("data.jsonl", f'{{"prompt": {text}, "outcome": "o"}}\n{{"prompt": "b", "outcome": "o"}}\n')
    project.write("evals.yaml", f"{HEAD}cases: data.jsonl\n")
    [error] = all_errors(project)
    assert (error["code"], error["line"]) == ("json-syntax", 1)
    project.run("prompt", "evals.yaml", code=2)


def test_lone_surrogates_in_suites_are_refused(project: Project) -> None:
    assert refused(project, f'name: "\\ud800"\n{GOOD}')["code"] == "yaml-syntax"


@spec("P15")
@pytest.mark.parametrize("value", ["[1]", '"text"', "3", "true", "null", "{}"])
@pytest.mark.parametrize("name", ["data.jsonl", "data.csv"])
def test_rows_with_odd_variables_do_no_harm(project: Project, value: str, name: str) -> None:
    row = f'{{"word": "a", "vars": {value}}}\n' if name == "data.jsonl" else f"word,vars\na,{value}\n".replace('"', "")
    project.write(name, row)
    case = f"  - prompt: '{{{{ word }}}}'\n    cases: {name}\n    outcome: x\n"
    project.write("evals.yaml", f"{HEAD}evals:\n{case}")
    errors = all_errors(project)
    assert set(codes(errors)) <= {"wrong-type"}
    project.run("prompt", "evals.yaml", code=2 if errors else 0)


# What a terminal is shown


def shown(project: Project, text: str, **environment: str) -> list[str]:
    project.write("evals.yaml", text)
    result = CliRunner().invoke(cli, ["validate", "evals.yaml"], env=environment)
    assert result.exit_code in (0, 2), result.output
    return result.stdout.split("\n")


def columns(text: str) -> int:
    """Independent of the code under test: wide letters take two columns, marks above and below take none."""
    width = 0
    for character in text:
        if unicodedata.category(character) in ("Mn", "Me", "Cf"):
            continue
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return width


def assert_caret_under(lines: list[str], marked: str) -> None:
    """The caret stands in the column where `marked` begins in the line above."""
    [number] = [position for position, line in enumerate(lines) if re.fullmatch(r"\s*\|\s*\^", line)]
    source, caret = lines[number - 1], lines[number]
    assert marked in source, source
    assert len(caret) - 1 == columns(source[: source.index(marked)]), "\n".join((source, caret))


LINES = {
    "plain": ("name: some text: here", ": here"),
    "wide": ("name: 漢字かな交じり文: ここ", ": ここ"),
    "fullwidth": ("name: ＡＢＣ: x", ": x"),
    "hangul": ("name: 한국어: x", ": x"),
    "emoji": ("name: 😀😀: x", ": x"),
    "combining": ("name: e\u0301e\u0301: x", ": x"),
    "thai": ("name: ภาษาไทยที่นี่: x", ": x"),
    "tab": ("name:\ta\tb: x", ": x"),
}


@spec("P22")
@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("width", ["50", "80", "200"])
def test_the_caret_stands_under_the_fault(project: Project, kind: str, width: str) -> None:
    line, marked = LINES[kind]
    assert_caret_under(shown(project, f"{line}\n", COLUMNS=width), marked)


@spec("P22")
@pytest.mark.parametrize("filler", ["x", "漢", "é", "😀", "e\u0301"])
@pytest.mark.parametrize("around", [(0, 200), (200, 0), (200, 200), (60, 60)])
def test_a_narrow_terminal_shows_the_part_around_the_fault(
    project: Project, filler: str, around: tuple[int, int]
) -> None:
    before, after = (filler * count for count in around)
    faults = {
        f"name: {before}a: !{after}\n": ": !",
        f"{HEAD}x-a: {{k: {before}, ? 'k' : {after}}}\n": "'k'",
        f"{GOOD}  - {{prompt: p, outcome: 'o{before}', tagz: 1, name: 'n{after}'}}\n": "tagz",
    }
    for text, marked in faults.items():
        lines = shown(project, text, COLUMNS="50")
        assert_caret_under(lines, marked)
        assert all(columns(line) <= 50 for line in lines if not line.startswith("  fix |")), "\n".join(lines)


def test_no_colour_without_a_terminal(project: Project) -> None:
    assert "\x1b" not in "\n".join(shown(project, "name: a: b\n"))


def test_colour_can_be_forced_and_forbidden(project: Project) -> None:
    plain = shown(project, "name: a: b\n")
    coloured = shown(project, "name: a: b\n", FORCE_COLOR="1")
    assert any("\x1b[" in line for line in coloured)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == plain
    assert shown(project, "name: a: b\n", NO_COLOR="1") == plain
    assert shown(project, "name: a: b\n", FORCE_COLOR="1", NO_COLOR="1") == plain


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "sarif"])
def test_machines_get_no_colour(project: Project, form: str) -> None:
    project.write("evals.yaml", "name: a: b\n")
    done = outside(project, "validate", "--format", form, "evals.yaml", FORCE_COLOR="1", COLUMNS="20")
    assert json.loads(done.out)
    assert "\x1b" not in done.out


@pytest.mark.parametrize("width", ["0", "1", "20", "-5", "wide"])
def test_an_odd_width_does_no_harm(project: Project, width: str) -> None:
    assert_caret_under(shown(project, "name: a: b\n", COLUMNS=width), ": b")


@pytest.mark.parametrize("key", ["\\e[31mred", "\\e]0;title\\a", "a\\rb", "a\\bb", "\\u202Ex", "\\x9b31m"])
def test_a_terminal_is_not_given_orders(project: Project, key: str) -> None:
    """Names from a file are shown, but never as control characters."""
    lines = shown(project, f'{GOOD}"{key}": 1\n"x-{key}": 1\ntarget: "{key}"\n')
    assert lines
    for line in lines:
        assert all(unicodedata.category(character) not in ("Cc", "Cf") for character in line), ascii(line)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_that_knows_few_letters_does_no_harm(project: Project, encoding: str) -> None:
    project.write("evals.yaml", "name: 漢字é: x\n")
    for form in ("text", "json"):
        arguments = ("validate", "--format", form, "evals.yaml")
        done = outside(project, *arguments, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
        assert done.code == 2


def test_a_file_that_grows_after_it_was_measured_is_read_up_to_the_limit(tmp_path: Path) -> None:
    """Files of /proc look empty, and some have no end."""
    path = tmp_path / "endless.txt"
    path.write_text("x" * 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "measure", lambda _path: 0)
        with pytest.raises(FileFault) as error:
            files.read_text(path, 100)
    assert error.value.code == "too-large"
