"""The frame of importers: sources are read within their folder and with places, comments stay, reports count."""

from __future__ import annotations

from pathlib import Path

import pytest

from rejoinder.imports.ledger import Ledger
from rejoinder.imports.sources import ImportFault, SourceFolder
from rejoinder.imports.workbench import suite_name
from rejoinder.suite.yaml import parse_yaml
from rejoinder.yaml_text import Comment, Commented, to_document, without_comments

REMARKED = """\
# about all

# about prompts
prompts: # beside
  - "a # is no comment"
  - |
    # neither is this
    text # nor this
# above tests

tests:
  # above the first
  - vars: {x: 1} # beside the first
    # inside
  - assert: [] # beside the second
# the end
"""
BOMB = "b0: &b0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


def folder(tmp_path: Path, **files: str) -> SourceFolder:
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return SourceFolder(tmp_path)


def words(comments: list[Comment]) -> list[str]:
    return [one.text for one in comments]


def test_comments_are_found_at_their_place_and_handed_out_once(tmp_path: Path) -> None:
    spot = folder(tmp_path, a=REMARKED).read(tmp_path / "a.yaml").spot
    prompts, tests = spot["prompts"], spot["tests"]
    assert words(prompts.above()) == ["about all", "about prompts"]
    assert prompts.beside() == "beside"
    assert (words(prompts.above()), prompts.beside()) == ([], None)
    assert words(tests.above()) == ["above tests"]
    first, second = tests.items
    assert words(first.above()) == ["above the first"]
    assert first.beside() == "beside the first"
    assert words(second.above()) == ["inside"]
    assert words(second["assert"].within()) == ["beside the second"]
    assert spot.file.remarks.rest() == ["the end"]


def test_the_places_of_keys_items_and_missing_values(tmp_path: Path) -> None:
    spot = folder(tmp_path, a=REMARKED).read(tmp_path / "a.yaml").spot
    assert [key for key, _ in spot.pairs] == ["prompts", "tests"]
    assert [one.line for one in spot["prompts"].items] == [5, 6]
    assert (spot["tests"].line, spot["tests"][1].line, spot["tests"][7].value) == (11, 15, None)
    assert spot["none"]["of"][3].value is None


@pytest.mark.parametrize("written", ["../x.yaml", "/etc/passwd", "a/../../x.yaml", "link.yaml", "away/x.yaml", "a\0b"])
def test_nothing_is_read_outside_of_the_folder_nor_through_a_link(tmp_path: Path, written: str) -> None:
    (tmp_path / "x.yaml").write_text("secret: 1")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.yaml").symlink_to(tmp_path / "x.yaml")
    (inside / "away").symlink_to(tmp_path)
    spot = folder(inside, a="one: 1\ntwo: 2").read(inside / "a.yaml").spot["two"]
    with pytest.raises(ImportFault, match=r"^a\.yaml:2: "):
        spot.locate(written)


def test_patterns_find_files_by_name(tmp_path: Path) -> None:
    root = folder(tmp_path, a="x: 1")
    for name in ("p/one.txt", "p/two.txt", "p/q/three.txt", "p/.hidden.txt", "p/q/four.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "p" / "linked.txt").symlink_to(tmp_path / "a.yaml")
    spot = root.read(tmp_path / "a.yaml").spot

    def found(pattern: str) -> list[str]:
        return [root.name(path) for path in spot.matching(pattern)]

    assert found("p/*.txt") == ["p/one.txt", "p/two.txt"]
    assert found("p/**/*.txt") == ["p/one.txt", "p/q/three.txt", "p/two.txt"]
    assert found("*/q/f*.md") == ["p/q/four.md"]
    assert found("./p/one.txt") == ["p/one.txt"]
    with pytest.raises(ImportFault, match="outside"):
        spot.matching("../*")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [*a]", "an alias is inside the value that it names"),
        ("a: 1\na: 2", "set a second time"),
        ("a: [", "^a.yaml:"),
        (BOMB, "aliases"),
        ("[" * 200 + "]" * 200, "nested more than 100 levels"),
    ],
)
def test_hostile_yaml_ends_in_one_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImportFault, match=message):
        folder(tmp_path, a=text).read(tmp_path / "a.yaml")


def test_rows_have_their_lines_and_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spot = folder(tmp_path, a="x: 1").read(tmp_path / "a.yaml").spot
    (tmp_path / "r.csv").write_text("a,b\n1,2\n3,4\n")
    rows = list(spot.rows_of(tmp_path / "r.csv"))
    assert [(row.line, row.value, row["a"].line) for row in rows] == [
        (2, {"a": "1", "b": "2"}, 2),
        (3, {"a": "3", "b": "4"}, 3),
    ]
    monkeypatch.setattr("rejoinder.imports.sources.MOST_ROWS", 1)
    with pytest.raises(ImportFault, match="more than 1 rows"):
        list(spot.rows_of(tmp_path / "r.csv"))


def test_a_loss_counts_once_and_those_of_a_refused_source_not_at_all(tmp_path: Path) -> None:
    spot = folder(tmp_path, a="x: 1\ny: 2").read(tmp_path / "a.yaml").spot
    ledger = Ledger()
    ledger.begin("a.yaml")
    for _ in range(2):
        comment = ledger.leave_out(spot["y"], "y", "it has no form here")
        ledger.map(spot["x"])
    ledger.begin("b.yaml")
    ledger.approximate(spot["y"], "y", "no")
    ledger.refuse(ImportFault("b.yaml", 3, "broken", "mend it"))
    report = ledger.report()
    assert comment.text == "not imported: y (it has no form here)"
    assert (report.sources, report.complete, report.mapped, report.approximated) == (2, 0, 1, ())
    assert [(loss.line, loss.what) for loss in report.left_out] == [(2, "y")]
    assert [(loss.file, loss.line) for loss in report.unreadable] == [("b.yaml", 3)]


def test_comments_are_written_where_they_belong() -> None:
    document = {
        Comment("about all"): None,
        "name": Commented("x", "beside"),
        Comment("above checks"): None,
        "checks": [Comment("above the first"), {"contains": "a"}, Comment("not imported: b"), Commented("c", "see c")],
        "evals": [
            {
                Comment("above the case"): None,
                "prompt": Commented("one\ntwo", "text"),
                "tags": Commented(["a", "b"], "short"),
            },
            Comment(""),
            {"prompt": "p", Comment("inside"): None, "vars": {Comment("nothing else"): None}},
        ],
    }
    text = to_document(document)
    assert (
        text
        == """\
# about all
name: x # beside

# above checks
checks:
  # above the first
  - contains: a
  # not imported: b
  - c # see c

evals:
  # above the case
  - prompt: |- # text
      one
      two
    tags: [a, b] # short

  - prompt: p
    # inside
    vars: {}
      # nothing else
"""
    )
    assert parse_yaml(text).data == without_comments(document)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("promptfooconfig.yaml", "evals.yaml"),
        ("promptfooconfig.shop.yaml", "shop.evals.yaml"),
        ("shop_promptfooconfig.yml", "shop.evals.yaml"),
        ("goldens.json", "goldens.evals.yaml"),
    ],
)
def test_the_names_of_suites(name: str, written: str) -> None:
    assert suite_name(Path(name)) == written
