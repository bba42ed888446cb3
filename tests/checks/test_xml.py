"""XML in replies: what is well-formed, which elements it has, and what hostile XML cannot do."""

from __future__ import annotations

import socket
import time
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.checks.xml_checks import parse_xml
from tests.kit import Project, Raw, bounded, codes
from tests.labs.check_lab import run_one, verdicts

ORDER = "<order id='7'>\n <item><name>skate</name></item>\n <item/>\n</order>"
PROSE = f"Use <b>this</b>, if 1 < 2:\n{ORDER} Anything else?"
LAUGHS = """<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><r>&b;</r>"""
DEFAULTS = f"""<!DOCTYPE r [<!ATTLIST i x CDATA "{"x" * 1000}">]><r>{"<i/>" * 1000}</r>"""


@pytest.mark.parametrize(
    ("value", "reply", "reason"),
    [
        (True, ORDER, ""),
        (True, f" \n{ORDER}\n", ""),
        (True, f'<?xml version="1.0" encoding="UTF-16"?>{ORDER}', ""),
        (True, "<!DOCTYPE html><html/>", ""),
        (True, "<a>Straße 😀 &amp; &#65;</a>", ""),
        (True, "plain words", "it is not XML: syntax error at line 1, column 1"),
        (True, "<a><b></a></b>", "it is not XML: mismatched tag at line 1, column 9"),
        (True, "<a/><b/>", "it is not XML: junk after document element at line 1, column 5"),
        (True, f"```xml\n{ORDER}\n```", "it is not XML: not well-formed (invalid token) at line 1, column 1"),
        (True, "<a>&unknown;</a>", "it is not XML: undefined entity at line 1, column 4"),
        (True, "", "it is not XML: no element found at line 1, column 1"),
        (False, "plain words", ""),
        (False, ORDER, "it is XML"),
        ({}, ORDER, ""),
        ({"elements": ["order", "order/item/name"]}, ORDER, ""),
        ({"elements": ["order/name", "order/price"]}, ORDER, "the XML lacks `order/name` and `order/price`"),
        ({"elements": ["item"]}, ORDER, "the XML lacks `item`"),
        ({"elements": ["feed/entry"]}, "<a:feed xmlns:a='u'><a:entry/></a:feed>", ""),
        ({"anywhere": True}, f"Here:\n```xml\n{ORDER}\n```\nGood?", ""),
        ({"anywhere": True}, PROSE, ""),
        ({"anywhere": True, "elements": ["order/item"]}, PROSE, ""),
        ({"anywhere": True, "elements": ["b"]}, PROSE, ""),
        ({"anywhere": True, "elements": ["order/x"]}, PROSE, "the XML lacks `order/x`"),
        ({"anywhere": True}, "if a <b and c> d: <e>", "there is no XML in it"),
        ({"anywhere": True}, "See <br /> here", ""),
        ({"wanted": False, "anywhere": True}, PROSE, "there is XML in it"),
    ],
)
def test_xml_is_found_and_its_elements_are_known(project: Project, value: object, reply: str, reason: str) -> None:
    [verdict] = verdicts(project, ({"is_xml": value}, reply))
    assert verdict["passed"] is not bool(reason)
    assert not reason or verdict["reason"] == reason


def test_place_of_the_xml_is_in_the_verdict(project: Project) -> None:
    reply = f"Ünder <b: {ORDER}. Fine?"
    [verdict] = verdicts(project, ({"is_xml": {"anywhere": True}}, reply))
    [[start, end]] = verdict["spans"]
    assert reply[start:end] == ORDER


NAMES = st.sampled_from(["a", "b", "ä"])
TREES = st.recursive(
    st.tuples(NAMES, st.just(())), lambda inner: st.tuples(NAMES, st.lists(inner, max_size=3)), max_leaves=8
)


def element_of(tree: tuple[str, tuple[object, ...]]) -> ElementTree.Element:
    element = ElementTree.Element(tree[0])
    element.text = "x > 1 & y\n"
    element.extend([element_of(inner) for inner in tree[1]])  # type: ignore[arg-type] - a tree of trees
    return element


@given(tree=TREES, words=st.text("a <>&/😀", max_size=8))
@bounded(150)
def test_elements_agree_with_pythons_own_reader(tree: tuple[str, tuple[object, ...]], words: str) -> None:
    element = element_of(tree)
    text = ElementTree.tostring(element, encoding="unicode")
    paths = {f"{element.tag}/{inner.tag}" for inner in element}
    wanted = (*(f"{element.tag}/{name}" for name in "abä"), element.tag)
    assert parse_xml(text, wanted).elements == {element.tag, *paths}
    found = parse_xml(f"{text} {words}", wanted, 5, partly=True)
    assert found.span == (5, 5 + len(text)) and found.elements == {element.tag, *paths}


@given(st.text("<>&;!?[]ab=\"'/ -\n\x00\ud800", max_size=30))
@bounded(300)
def test_any_text_has_a_verdict(text: str) -> None:
    found = parse_xml(text)
    assert (found.span is None) is bool(found.fault)


@pytest.mark.parametrize("reply", [LAUGHS, DEFAULTS])
@pytest.mark.parametrize("wanted", [True, False, {"anywhere": True}])
def test_declarations_are_not_carried_out(project: Project, reply: str, wanted: object) -> None:
    result = run_one(project, [{"is_xml": wanted}], reply)
    assert result["status"] == "error"
    assert "has declarations" in result["error"]["message"]


def test_nothing_outside_the_reply_is_read(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x.dtd"
        outside = f'<!DOCTYPE r SYSTEM "{address}"><r>&made;</r>'
        inside = '<!DOCTYPE r [<!ENTITY made SYSTEM "file:///etc/passwd">]><r>&made;</r>'
        first, second = verdicts(project, ({"is_xml": True}, outside), ({"is_xml": True}, inside))
        with pytest.raises(TimeoutError):
            server.accept()
    assert first["passed"] and second["error"]


@pytest.mark.parametrize(
    ("value", "reply"),
    [
        (True, "<a>" * 300_000),
        ({"elements": ["a/a"]}, "<a>" * 200_000 + "</a>" * 200_000),
        ({"anywhere": True}, "<a>" * 20_000),
        ({"anywhere": True, "elements": ["x"]}, "<a/>!" * 20_000),
    ],
)
def test_long_replies_end_soon(project: Project, value: object, reply: str) -> None:
    started = time.monotonic()
    [verdict] = verdicts(project, ({"is_xml": value}, reply))
    assert time.monotonic() - started < 20
    assert verdict["passed"] == (reply.endswith("</a>")), verdict["reason"]


@pytest.mark.parametrize(
    ("check", "code", "words"),
    [
        ({"is_xml": "true"}, "wrong-type", "write `true`"),
        ({"is_xml": ["a"]}, "wrong-type", "true or false or a mapping"),
        ({"is_xml": {"elements": []}}, "out-of-range", "`elements` must not be empty"),
        ({"is_xml": {"elements": "a"}}, "wrong-type", "a list"),
        ({"is_xml": {"element": ["a"]}}, "unknown-key", "did you mean `elements`"),
        ({"contains_xml": True}, "unknown-check", "`is_xml: {anywhere: true}`"),
    ],
)
def test_mistakes_are_named(project: Project, check: Raw, code: str, words: str) -> None:
    errors = project.errors({"target": "scripted/x", "evals": [{"prompt": "Q", "checks": [check]}]})
    assert codes(errors) == [code]
    assert words in errors[0]["message"]
