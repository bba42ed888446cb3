"""A known secret is hidden in every spelling that docs/guides/security.md lists, and put back byte for byte."""

from __future__ import annotations

import base64
import codecs
import html
import json
import random
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rejoinder.runs.secrets import Mask
from rejoinder.testing import FakeServer, Received
from tests.kit import ROOT, Project, bounded, file_contents

PAGE = ROOT / "docs/guides/security.md"
EXAMPLE = 'sk/51b6A9d2+"7eC0ff'
"""The value of the examples in the docs."""
KEY = "sk-Proj/Abc+51b6A9d2xyz==7eC0ffeeLongTail98"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def b64_url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def url(text: str) -> str:
    return quote(text, safe="")


def codes(text: str, pattern: str) -> str:
    return "".join(pattern.format(ord(one)) for one in text)


def escape(text: str, characters: str, pattern: str) -> str:
    return "".join(pattern.format(ord(one)) if one in characters else one for one in text)


def mixed_case(text: str) -> str:
    return "".join(one.upper() if n % 3 else one.lower() for n, one in enumerate(text))


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "swapped case": str.swapcase,
    "any other mix of upper and lower case": mixed_case,
    "in JSON": lambda value: json.dumps(value)[1:-1],
    "in JSON in JSON": lambda value: json.dumps(json.dumps(value)[1:-1])[1:-1],
    "in JSON of PHP": lambda value: value.replace("/", "\\/"),
    "in JSON of .NET": lambda value: escape(value, "+<>&'\"`", "\\u{:04X}"),
    "as Python shows it": lambda value: repr(value)[1:-1],
    "in HTML": lambda value: escape(value, "&<>\"'/`=", "&#x{:X};"),
    "in HTML, by names": html.escape,
    "URL-encoded": url,
    "URL-encoded, as a path": quote,
    "URL-encoded, as a form": quote_plus,
    "URL-encoded, with small letters": lambda value: re.sub("%..", lambda found: found[0].lower(), url(value)),
    "URL-encoded twice": lambda value: url(url(value)),
    "every byte as %xx": lambda value: codes(value, "%{:02x}"),
    "every byte as %xx, URL-encoded": lambda value: url(codes(value, "%{:02X}")),
    "base64": b64,
    "base64 for addresses": b64_url,
    "base64, among other text": lambda value: b64(f"Bearer {value}!"),
    "base64 twice": lambda value: b64(b64(value)),
    "base64 twice, among other text": lambda value: b64(f"x{b64(f'Bearer {value}!')}"),
    "base64, URL-encoded": lambda value: url(b64(value)),
    "URL-encoded, in base64": lambda value: b64(url(value)),
    "every byte as %xx, in base64": lambda value: b64(codes(value, "%{:02x}")),
    "hexadecimal": lambda value: value.encode().hex(),
    "hexadecimal, in capitals": lambda value: value.encode().hex().upper(),
    "base32": lambda value: base64.b32encode(value.encode()).decode(),
    "base32, among other text": lambda value: base64.b32encode(f"key {value}!".encode()).decode(),
    "\\u00xx": lambda value: codes(value, "\\u{:04x}"),
    "\\u00XX": lambda value: codes(value, "\\u{:04X}"),
    "&#NN;": lambda value: codes(value, "&#{};"),
    "&#xNN;": lambda value: codes(value, "&#x{:x};"),
    "&#XNN;": lambda value: codes(value, "&#X{:X};"),
    "its first 16 characters": lambda value: value[:16],
    "16 characters from its middle": lambda value: value[1:17],
    "its last 16 characters": lambda value: value[-16:],
    "16 characters of it, in capitals": lambda value: value[2:18].upper(),
}
NOT_FOUND: dict[str, Callable[[str], str]] = {
    "backwards": lambda value: value[::-1],
    "rot13": lambda value: codecs.encode(value, "rot13"),
    "with blanks between its characters": " ".join,
    "hexadecimal with separators": lambda value: value.encode().hex(":"),
    "pieces of 15 characters or less": lambda value: value[2:17],
}


def table(heading: str) -> dict[str, str]:
    """The rows of the first table behind a line of the page: spelling and example."""
    rows = PAGE.read_text(encoding="utf-8").partition(heading)[2].lstrip().partition("\n\n")[0].splitlines()[2:]
    cells = [re.fullmatch(r"\| (.+?) +\| `(.+)` +\|", row) for row in rows]
    assert all(cells), rows
    return {cell[1].replace("`", ""): cell[2] for cell in cells if cell}


def test_the_page_lists_the_spellings_that_are_tried_here() -> None:
    assert f"`{EXAMPLE}`" in PAGE.read_text(encoding="utf-8")
    found = table("Hidden:\n")
    assert found == {name: write(EXAMPLE) for name, write in SPELLINGS.items()}


@pytest.mark.every(4)
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("value", [KEY, EXAMPLE, f"eyJhbGciOiJIUzI1NiJ9.{KEY}", "plain-0123456789abcdef"])
@pytest.mark.parametrize("frame", ["{}", "You sent: {}.", "<<{}>>", "{0}{0}", "é {} ☃\n"])
def test_a_secret_in_a_spelling_is_hidden_and_put_back(spelling: str, value: str, frame: str) -> None:
    written = SPELLINGS[spelling](value)
    mask = Mask({value: "env X"})
    text = frame.format(written)
    hidden = mask.hide_text(text)
    assert mask.reveal_text(hidden) == text
    if value.startswith("eyJ") and spelling.startswith(("its first", "16 characters")):
        return  # the first part of a JSON Web Token is no secret
    for start in range(len(written) - 15 * len(written) // len(value)):
        assert written[start : start + 16 * len(written) // len(value)] not in hidden
    assert "<<env X" in hidden


@pytest.mark.parametrize("spelling", NOT_FOUND)
def test_what_the_page_says_is_not_found(spelling: str) -> None:
    """The page is honest: who adds such a spelling has to change the page."""
    assert spelling.split()[0] in PAGE.read_text(encoding="utf-8").partition("Not hidden:")[2].lower()
    text = f"You sent {NOT_FOUND[spelling](KEY)}, and more."
    assert Mask({KEY: "env X"}).hide_text(text) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Correct Horse Battery Staple", "A correct horse battery is a fine thing"),
        ("the quick brown fox jumps over the lazy dog", "The quick brown fox jumps over a fence."),
        ("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.cGF5bG9hZA.c2ln", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.bm90.bWU"),
        ("https://hooks.example.test/services/T01/B02/x7Yz", "see https://hooks.example.test/services/ for more"),
        ("Test", "TEST tESTing"),
        ("I am", "i am here"),
        ("abc", "abc ABC"),
        ("sk-proj-0123456789abcdef", "sk-proj-another-key and 0123456789 and abcdef"),
    ],
)
def test_ordinary_text_is_left_alone(value: str, text: str) -> None:
    assert Mask({value: "env X"}).hide_text(text) == text


@pytest.mark.slow
def test_a_long_value_is_found_by_its_lines() -> None:
    lines = [b64(random.Random(n).randbytes(48).hex())[:64] for n in range(60)]
    pem = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    mask = Mask({pem: "env PEM"})
    for text in (
        pem,
        f"it ends with {lines[-1]}",
        json.dumps(pem),
        b64(pem),
        f"-----BEGIN PRIVATE KEY-----\n{lines[3]}",
    ):
        hidden = mask.hide_text(text)
        assert not any(line[n : n + 16] in hidden for line in lines for n in range(49))
        assert mask.reveal_text(hidden) == text
    ordinary = "It begins with -----BEGIN PRIVATE KEY----- and goes on."
    assert mask.hide_text(ordinary) == ordinary


@pytest.mark.slow
@pytest.mark.parametrize("value", ["a" * 200, "ab" * 100, "x" * 20_000], ids=["a", "ab", "long"])
def test_a_value_that_repeats_itself_takes_no_longer(value: str) -> None:
    mask = Mask({value: "env X"})
    text = f"_{value[:2] * 20_000}"
    hidden = mask.hide_text(text)
    assert value[:16] not in hidden
    assert mask.reveal_text(hidden) == text


@pytest.mark.parametrize("text", ["<<literal " * 5_000, f"<<{'x' * 50_000}", "<<" * 50_000, "<<env X; " * 10_000])
def test_text_that_looks_like_markers_takes_no_longer(text: str) -> None:
    mask = Mask({KEY: "env X"})
    assert mask.reveal_text(mask.hide_text(text)) == text


# Whatever stands in a text

NAMES = ["env X", "env X, in hexadecimal", "literal X", "env <<X>>; 0 to 4", "{{ secret('x') }}"]
MARKERS = ["<<env X>>", "<<literal env X>>", "<<env X; 0 to 9>>", "<<env X; in capitals>>", "<<env X, in base64 (0)>>"]
MARKERS += [
    "<<env X; case ff>>",
    "<<",
    ">>",
    "<",
    ">",
    "<<env X",
    "literal ",
    "<<env X (2); 3 to 12; in small letters>>",
]
VALUES = st.one_of(
    st.text(min_size=1, max_size=60),
    st.text("abAB<>; X", min_size=4, max_size=40),
    st.sampled_from([KEY, KEY[5:], f"{KEY[20:]}{KEY[:20]}", EXAMPLE, "env X", "<<env X>>", "päss\tWÖRD ☃ \U0001f511"]),
)


@st.composite
def masks_and_texts(draw: st.DrawFn) -> tuple[dict[str, str], str]:
    values = draw(st.lists(VALUES, min_size=1, max_size=3, unique=True))
    secrets = {value: draw(st.sampled_from(NAMES)) for value in values}

    def spelled(draw: st.DrawFn) -> str:
        text = draw(st.sampled_from(list(SPELLINGS.values())))(draw(st.sampled_from(values)))
        start = draw(st.integers(0, len(text)))
        return text[start : start + draw(st.integers(0, len(text)))] if draw(st.booleans()) else text

    parts = st.one_of(st.composite(spelled)(), st.sampled_from(MARKERS), st.text(max_size=10))
    return secrets, "".join(draw(st.lists(parts, max_size=6)))


@pytest.mark.slow
@given(masks_and_texts())
@example(({"a" * 16: "env X"}, f"<{'a' * 40}>>"))
@example(({"env X": "env X"}, "<<env X>><<env X; 0 to 3>>"))
@bounded(400)
def test_what_was_hidden_is_put_back(given: tuple[dict[str, str], str]) -> None:
    secrets, text = given
    mask = Mask(secrets)
    hidden = mask.hide_text(text)
    assert mask.reveal_text(hidden) == text
    assert mask.reveal_text(mask.hide_text(hidden)) == hidden, "also where it is hidden twice"


@pytest.mark.slow
@given(masks_and_texts(), st.text(max_size=8))
@bounded(200)
def test_a_record_comes_back_as_it_was(given: tuple[dict[str, str], str], more: str) -> None:
    secrets, text = given
    mask = Mask(secrets)
    record = json.dumps({"type": "told", "reply": {"text": text, "model": more}}, ensure_ascii=False).encode() + b"\n"
    assert json.loads(mask.reveal(mask.hide(record))) == json.loads(record)


@pytest.mark.slow
@given(
    st.text("abcdefghijklmnopqrstuvwxyzABCDEF0123456789-_+/=\"\\'", min_size=18, max_size=80),
    st.sampled_from(list(SPELLINGS)),
    st.text(max_size=12),
    st.text(max_size=12),
)
@bounded(400)
def test_no_value_shows(value: str, spelling: str, before: str, after: str) -> None:
    written = SPELLINGS[spelling](value)
    hidden = Mask({value: "env X"}).hide_text(f"{before}{written}{after}")
    if spelling not in ("base64, among other text", "base64 twice, among other text", "base32, among other text"):
        assert written.rstrip("=")[:-2].lower() not in hidden.lower()


# Through the commands


def suite(server: FakeServer) -> dict[str, Any]:
    target = {"name": "model", "provider": "openai", "model": "m", "base_url": server.openai_url, "cache": True}
    checks = [{"contains": "never"}, {"prompt": "You said {{ response }}", "checks": [{"contains": "never"}]}]
    judged = {"id": "judged", "prompt": "Hello", "checks": [{"llm_judge": {"criteria": "Is it fine?"}}]}
    return {"target": "model", "targets": [target], "evals": [{"id": "a", "prompt": "Hello", "checks": checks}, judged]}


def shown(results: dict[str, Any]) -> list[Any]:
    return [(one["id"], one["status"], [turn["response"] for turn in one["turns"]]) for one in results["results"]]


@pytest.mark.slow
def test_no_spelling_reaches_a_file_or_the_terminal(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run folder, cache, cassettes, dumps, output in every format: no byte of it spells the key."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def reply(_: Received) -> str:
        return "\n".join(f"{name}: {write(KEY)} ." for name, write in SPELLINGS.items())

    said: dict[str, bytes] = {}

    def command(*arguments: str) -> str:
        result = project.invoke(*arguments)
        said[" ".join(arguments)] = f"{result.stdout}{result.stderr}".encode()
        return result.stdout

    with FakeServer(reply) as server:
        project.write("evals.yaml", suite(server))
        options = ("--verbose", "--include", "messages", "--cache", "--record", "tapes", "--dump-prompts", "dumps")
        command("run", *options, "--out", "out.yaml")
        first = json.loads(command("show", "--format", "json"))
        for form in ("text", "jsonl", "yaml"):
            command("show", "--verbose", "--format", form)
        asked = len(server.requests)
        for arguments in (("replay",), ("run", "--replay", "tapes"), ("run", "--cache"), ("grade",)):
            again = json.loads(command(*arguments, "--format", "json"))
            assert shown(again)[0] == shown(first)[0]
        assert [one.body["messages"][-1]["content"] for one in server.requests[asked:]].count("Hello") == 0
        assert server.requests[1].body["messages"][-1]["content"] == f"You said {reply(server.requests[0])}", (
            "as it was"
        )
        command("targets", "check", "model", "--suite", "evals.yaml", "--format", "json")
        command("validate", "evals.yaml", "--format", "sarif")
        command("resume", "last", "--retry-errors")
    everything = {**said, **file_contents(project.folder)}
    assert {"out.yaml", ".rejoinder/cache.sqlite"} < set(everything)
    assert any(name.startswith("tapes") for name in everything)
    for name, content in everything.items():
        for spelling, write in SPELLINGS.items():
            for form in (write(KEY), json.dumps(write(KEY))[1:-1]):
                assert form.encode() not in content, (name, spelling)
    assert b"<<env OPENAI_API_KEY" in said["show --verbose --format text"]
