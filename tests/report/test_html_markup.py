"""Whatever others wrote stays text: no element and no attribute of a page is theirs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rejoinder.model.comparisons import RunComparison
from rejoinder.report.html import write, write_damaged, write_pair
from rejoinder.report.page.markup import address, element, joined, sentence, text, verbatim
from tests.kit import bounded
from tests.report.exports import HOSTILE, MadeRun, hostile, hostile_texts, made_run
from tests.report.html_files import HtmlFile, Tag


def shape_of(tag: Tag) -> tuple[str, frozenset[str], str | None]:
    return tag.name, frozenset(tag.attributes), tag.attributes.get("class")


def shapes(page: HtmlFile) -> set[tuple[str, frozenset[str], str | None]]:
    return {shape_of(tag) for tag in page.tags}


def two_targets(words: str) -> MadeRun:
    """The hostile run with each of its conversations on two targets, twice."""
    found = hostile(words)
    others = [structs.replace(one, target=f"{one.target} b") for one in found.results]
    again = [structs.replace(one, trial=2) for one in (*found.results, *others)]
    return made_run([*found.results, *others, *again], suites=found.run.suites, targets=found.run.targets)


OURS = {
    shape
    for words in ("harmless", "", " ")
    for make in (hostile, two_targets)
    for shape in shapes(HtmlFile(write(make(words))))
}
"""Every element that pages of harmless runs have, with the names of its attributes."""


@bounded(25)
@given(hostile_texts)
def test_no_text_of_others_becomes_an_element_or_an_attribute(words: str) -> None:
    for make in (hostile, two_targets):
        page = HtmlFile(write(make(words)))
        assert shapes(page) <= OURS
        assert page.odd == ["doctype html"]
        assert all(link.startswith("#") for link in page.links())


@pytest.mark.parametrize("words", HOSTILE)
def test_a_damaged_run_is_told_without_obeying_it(words: str) -> None:
    page = HtmlFile(write_damaged(words, [words, words], 3))
    assert page.odd == ["doctype html"]
    assert {tag.name for tag in page.tags} <= {shape[0] for shape in OURS} | {"code"}
    assert len([tag for tag in page.tags if tag.name == "li" and not {"class", "id"} & tag.attributes.keys()]) == 3


@bounded(200)
@given(st.text(max_size=60) | hostile_texts)
def test_a_text_is_read_back_as_it_was_but_for_what_would_be_obeyed(words: str) -> None:
    page = HtmlFile(element("p", {"title": words}, words, [words, None]).html)
    [tag], [(_, shown)] = page.tags, page.texts
    assert tag.attributes.keys() == {"title"}
    assert shown == 2 * str(tag.attributes["title"])
    if words.isprintable():
        assert tag.attributes["title"] == words
    assert not any(character < " " and character not in "\t\n" for character in shown)
    shown.encode()  # no half of a character is left


@bounded(200)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_names_are_parts_of_an_address_whatever_is_in_them(names: list[str]) -> None:
    from urllib.parse import unquote

    path = address(*names)
    assert path.isascii() and path.isprintable()
    assert [unquote(part) for part in path.split("/")] == [name.encode("utf-8", "replace").decode() for name in names]


@pytest.mark.parametrize("name", ["onclick", "style", "srcdoc", "ONLOAD", "a b", 'x"', "formaction", ""])
def test_an_attribute_that_could_run_something_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not an attribute of our pages"):
        element("p", {name: "x"})


@pytest.mark.parametrize(
    "link",
    ["javascript:alert(1)", " javascript:x", "//evil.example/", "http://evil.example", "data:text/html,x", "\tx:y"],
)
def test_a_link_that_leads_away_is_refused(link: str) -> None:
    with pytest.raises(ValueError, match="leads away"):
        element("a", {"href": link})


@pytest.mark.parametrize("link", ["#/c/a/b", "/runs/x?show=failed", "?show=all", "style.css", "%2e%2e/x", "", "a/b:c"])
def test_a_link_within_the_pages_is_written(link: str) -> None:
    [tag] = HtmlFile(element("a", {"href": link}).html).tags
    assert tag.attributes["href"] == link


@pytest.mark.parametrize("content", ["a</script>b", "</STYLE >", "<!-- <script>", "<ScRiPt"])
def test_nothing_in_a_script_can_end_it(content: str) -> None:
    for tag in ("script", "style"):
        with pytest.raises(ValueError, match="would end it"):
            verbatim(tag, None, content)


def test_scripts_are_not_written_as_elements_with_text() -> None:
    with pytest.raises(ValueError, match="verbatim"):
        element("script", None, "alert(1)")
    with pytest.raises(ValueError, match="not the name of an element"):
        element("p><script", None)


def test_attributes_say_true_without_a_value_and_false_by_being_away() -> None:
    assert (
        element("p", {"hidden": True, "title": None, "id": False, "tabindex": 0}).html == '<p hidden tabindex="0"></p>'
    )
    assert joined([text("a<"), 1, None, ["b"]]).html == "a&lt;1b"


@pytest.mark.parametrize("words", HOSTILE[::3])
def test_a_comparison_of_hostile_runs_is_inert(words: str) -> None:
    run = two_targets(words)
    page = HtmlFile(write_pair(run, run, compared(run)))
    assert page.odd == ["doctype html"]
    assert all(link.startswith("#") for link in page.links())
    plain = two_targets("harmless")
    assert {shape[:2] for shape in shapes(page)} <= {
        shape[:2] for shape in shapes(HtmlFile(write_pair(plain, plain, compared(plain))))
    }


def compared(run: MadeRun) -> RunComparison:
    from rejoinder.comparison.sides import Side
    from tests.comparison.sides import compare_sides

    return compare_sides(Side("a", run.results), Side("b", run.results))


@pytest.mark.parametrize(
    ("words", "html"),
    [
        ("use `a <b>` now", "use <code>a &lt;b&gt;</code> now"),
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("none", "none"),
        ("it`s one", "it`s one"),
    ],
)
def test_what_stands_in_backticks_is_code(words: str, html: str) -> None:
    assert sentence(words).html == html
