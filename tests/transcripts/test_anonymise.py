"""`--anonymise`: what tells who people are is replaced, everywhere in the same way, and never written."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.errors import UsageError
from rejoinder.transcripts.anonymise import anonymise
from rejoinder.transcripts.cases import UP_TO_A_REPLY, Chosen, choose, write_suite
from rejoinder.transcripts.formats import read_bytes
from rejoinder.transcripts.stand_ins import Anonymiser
from tests.kit import Project, Raw, bounded, codes
from tests.transcripts.kit import EXPECTED, SAMPLES, sample

FOUND = {
    "email": ["ann.lindqvist@northwind.se", "O'Brien+x@mail.corp.co.uk", "jörg@bücher.de"],
    "host": ["db.northwind.se"],
    "ip": ["10.20.30.40", "2001:db8::ff00:42:8329"],
    "phone": ["+46 (0)8 123 456 78", "030-1234-5678", "01.42.68.53.00"],
    "card": ["4111 1111 1111 1111", "5500-0000-0000-0004"],
    "iban": ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "DE89370400440532013000"],
    "key": ["sk-abcdefghijklmnop123456", "ghp_0123456789abcdefghij", "AKIAIOSFODNN7EXAMPLE", "hunter2hunter2"],
    "number": ["123456789"],
    "uuid": ["0b7e3f5c-1b1a-4c8e-9d5e-2f6f7a8b9c0d", "bdb9a081e3320281372e0825903aa377"],
    "user": ["alindqvist"],
    "name": ["Lindqvist", "Zoë", "Weiß"],
}
AROUND = {
    "host": "see https://{}/x",
    "key": "the password: {} ",
    "user": "in /home/{}/notes",
    "name": "my name is {}.",
}
CASES = [(kind, text) for kind, texts in FOUND.items() for text in texts]


def talk(*texts: str, arguments: Any = None) -> bytes:
    spoken: list[Raw] = []
    for text in texts:
        spoken += [{"role": "user", "content": text}, {"role": "assistant", "content": f"You said: {text}"}]
    if arguments is not None:
        call = {"id": "c1", "function": {"name": "look", "arguments": json.dumps(arguments)}}
        spoken[1:1] = [{"role": "assistant", "content": "", "tool_calls": [call]}]
        spoken[2:2] = [{"role": "tool", "tool_call_id": "c1", "content": json.dumps({"again": arguments})}]
    return json.dumps({"messages": spoken}).encode()


def suite_of(data: bytes) -> str:
    found, _ = anonymise(read_bytes(data, "talk.json"))
    chosen = [Chosen(one, turn, one.id) for one in found if (turn := choose(one, None)) is not None]
    return write_suite(UP_TO_A_REPLY, "x", chosen)


def is_in(original: str, text: str, kind: str) -> bool:
    """Is it there in any letters, or as JSON writes it? A name counts as a word of its own."""
    forms = {original, json.dumps(original)[1:-1], original.upper(), original.casefold()}
    if kind in ("name", "user"):
        return any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text, re.IGNORECASE) for form in forms)
    return any(form.lower() in text.lower() for form in forms)


@pytest.mark.parametrize(("kind", "text"), CASES)
def test_each_kind_is_found_and_replaced(kind: str, text: str) -> None:
    anonymiser = Anonymiser()
    said = AROUND.get(kind, "It is {} here.").format(text)
    anonymiser.look(said)
    changed = anonymiser.replace(said)
    assert not is_in(text, changed, kind)
    assert kind in {row.kind for row in anonymiser.replaced_in(changed)}


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-128-CBC,0A\n\nOriginal1234\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nabcdefgh12345678\nOriginal1234",
        r"-----BEGIN PRIVATE KEY-----\nabcdefgh12345678\nOriginal1234",
        "sk_live_Original12345678",
        "npm_Original12345678",
        "whsec_Original12345678",
        "ya29.Original12345678",
    ],
)
def test_keys_are_found_without_words_before_them(text: str) -> None:
    anonymiser = Anonymiser()
    anonymiser.look(text)
    assert "Original" not in anonymiser.replace(text)


@pytest.mark.parametrize(
    "text",
    [
        "The annual report is due on 2026-11-15 10:30:00.",
        "See http://localhost:8000/x, 127.0.0.1 and https://example.org.",
        "Version 1.2.3 of 2026 has 42 tests; error 404.",
        "Dear team, this is fine. Hello there, call me later.",
        "Add 12 apples and 1234 pears to a cart of 3 items.",
        "print(range(10)); a::b; std::vector",
        "A key starts with -----BEGIN PRIVATE KEY----- and then, in a few lines, it goes on.",
        "Version 10.20.300 of 24.12.2026",
    ],
)
def test_other_words_stay(text: str) -> None:
    anonymiser = Anonymiser()
    anonymiser.look(text)
    assert anonymiser.replace(text) == text


def test_the_same_text_has_the_same_stand_in_in_all_conversations() -> None:
    first = read_bytes(talk("My name is Lindqvist, mail me at ann@northwind.se."), "a.json")
    second = read_bytes(talk("LINDQVIST wrote from ANN@northwind.se, says Dr. Okafor."), "b.json")
    found, anonymiser = anonymise([*first, *second])
    texts = [one.turns[0].prompt for one in found]
    assert texts == [
        "My name is Person-2, mail me at person-1@example.org.",
        "Person-2 wrote from person-1@example.org, says Dr. Person-3.",
    ]
    rows = [(row.kind, row.stand_in, row.count) for row in anonymiser.replaced_in(" ".join(texts))]
    assert rows == [("email", "person-1@example.org", 2), ("name", "Person-2", 2), ("name", "Person-3", 1)]


def test_people_who_write_their_name_once_are_replaced_everywhere() -> None:
    text = suite_of(
        talk("Hello, my name is Lindqvist.", "Is the order of lindqvist late?", arguments={"who": "LINDQVIST"})
    )
    assert not is_in("Lindqvist", text, "name")


def test_the_list_and_the_file_hold_no_original(project: Project) -> None:
    secrets = [text for kind, text in CASES if kind not in ("name", "user")]
    said = "\n".join(["my name is Lindqvist", *(AROUND.get(kind, "{}").format(text) for kind, text in CASES)])
    project.write("talk.json", talk(said, arguments={"text": said, "deep": [{"x": said}]}))
    result = project.invoke(
        "import", "transcript", "talk.json", "--anonymise", "--out", "bad.yaml", "--list", "list.txt"
    )
    assert result.exit_code == 0, result.output
    for name in ("bad.yaml", "list.txt"):
        text = Path(name).read_text()
        assert [one for one in secrets if is_in(one, text, "")] == []
        assert not is_in("Lindqvist", text, "name")
    assert "read the suite before you share it" in result.stderr
    assert re.search(r"^email +\d+ x  person-1@example.org$", Path("list.txt").read_text(), re.MULTILINE)
    assert project.validate("bad.yaml")["files"][0]["errors"] == []
    assert "transcript" not in Path("bad.yaml").read_text().partition("evals:")[0]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_turn_of_every_sample_is_a_suite_with_a_list_of_its_stand_ins(project: Project, name: str) -> None:
    shutil.copy(SAMPLES / name, project.folder)
    for turn in range(1, max(len(one.turns) for one in sample(name)) + 1):
        out, listed = f"turn-{turn}.yaml", f"turn-{turn}.txt"
        options = ("--anonymise", "--target", "scripted/x", "--out", out, "--list", listed)
        project.run("import", "transcript", name, "--turn", str(turn), *options)
        [report] = project.validate(out)["files"]
        assert codes(report["errors"]) == []
        text = Path(out).read_text()
        rows = [line.split() for line in Path(listed).read_text().splitlines()]
        assert {stand_in: len(re.findall(rf"{re.escape(stand_in)}(?!\d)", text)) for *_, stand_in in rows} == {
            stand_in: int(count) for _, count, _, stand_in in rows
        }
        assert [one for one in re.findall(_UUID, text) if not one.startswith("00000000-")] == []


_UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}"


def test_the_list_tells_what_is_in_the_suite_and_nothing_of_later_turns(project: Project) -> None:
    project.write("talk.json", talk(*(f"Order {8000000 + number}, please." for number in range(12))))
    result = project.invoke("import", "transcript", "talk.json", "--turn", "2", "--anonymise")
    assert [line.split()[:2] for line in result.stderr.splitlines()[:-1]] == [["number", "3"], ["number", "3"]]
    assert "replaced 2 texts" in result.stderr
    result = project.invoke("import", "transcript", "talk.json", "--anonymise")
    counts = [line.split() for line in result.stderr.splitlines()[:-1]]
    assert [stand_in for *_, stand_in in counts] == [f"number-{number}" for number in range(1, 13)]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("hello, my name is ines", "hello, my name is Person-1"),
        ("my name is not on the list", "my name is not on the list"),
        ("This is Ines speaking.", "This is Person-1 speaking."),
        ("This is Python code.", "This is Python code."),
        ("Hi, I'm Ines. Sorry, Ines here.", "Hi, I'm Person-1. Sorry, Person-1 here."),
        ("I’m Ines Okafor, order 12", "I’m Person-1 Person-2, order 12"),
        ("Hello there! i am Zoë and I", "Hello there! i am Person-1 and I"),
        ("Hi, I am late. I'm German.", "Hi, I am late. I'm German."),
        (
            "name: Build\nfrom: Ines Okafor\nTook 0.12345678 s",
            "name: Build\nfrom: Person-1 Person-2\nTook 0.12345678 s",
        ),
        ("Many thanks,\nInes", "Many thanks,\nPerson-1"),
        ("Ines Okafor <io@corp.se> wrote", "Person-1 Person-2 <person-1@example.org> wrote"),
    ],
)
def test_names_are_found_by_the_words_around_them(text: str, left: str) -> None:
    anonymiser = Anonymiser()
    anonymiser.look(text)
    assert anonymiser.replace(text) == left


def test_events_that_are_not_known_are_said_with_stand_ins_too(project: Project) -> None:
    event = b'{"type": "brand.new", "who": "ines@corp.se"}\n'
    project.write("pi.jsonl", (SAMPLES / "pi.jsonl").read_bytes() + event)
    result = project.invoke("import", "transcript", "pi.jsonl", "--anonymise")
    assert "not understood: 1 event of type `brand.new`" in result.stderr
    assert "ines" not in result.output


def test_a_stand_in_never_holds_what_it_replaces() -> None:
    anonymiser = Anonymiser()
    text = "my name is Ann. Mail 0000000@example.se or person-1@corp.se. Call me Key."
    anonymiser.look(text)
    changed = anonymiser.replace(text)
    for original in ("Ann", "0000000@example.se", "person-1@corp.se", "Key"):
        assert not is_in(original, changed, "name")


def test_long_texts_are_looked_through_in_bounded_time() -> None:
    for text in ("A" * 50_000, "a@" * 20_000, "eyJ-" * 5_000, "1 " * 20_000, "Best,\n" * 5_000, "A-" * 20_000):
        anonymiser = Anonymiser()
        anonymiser.look(text)
        anonymiser.replace(text)


@pytest.mark.slow
def test_many_stand_ins_are_counted_in_bounded_time() -> None:
    anonymiser = Anonymiser()
    text = "\n".join(f"{n}@corp.se" for n in range(8000))
    anonymiser.look(text)
    changed = anonymiser.replace(text)
    started = time.process_time()
    assert len(anonymiser.replaced_in(changed * 30)) == 8000
    assert time.process_time() - started < 10  # it was half a minute


def test_what_is_to_be_replaced_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rejoinder.transcripts.stand_ins.MOST_LETTERS", 1000)
    anonymiser = Anonymiser()
    anonymiser.look(f"sk-{'a' * 900}")
    anonymiser.look(f"sk-{'a' * 900}")
    with pytest.raises(UsageError, match="more than 1,000 letters have to be replaced"):
        anonymiser.look(f"sk-{'b' * 900}")


NAMES = st.sampled_from(["Lindqvist", "Okafor", "Zoë", "Weiß", "Ng-Baker", "İlker", "Ōtsuka"])
LETTERS = st.sampled_from([str, str.upper, str.lower, str.title, str.swapcase])
HOSTS = st.from_regex(r"\A[a-z]{3,8}\.(se|corp|io)\Z")
LOCALS = st.from_regex(r"\A[a-z]{3,8}([._-][a-z]{3,8})?\d{0,2}\Z")
FILLING = st.text(alphabet='abc \n\t"\\{}:,é', max_size=12)


@bounded(80)
@given(NAMES, LOCALS, HOSTS, st.integers(10**7, 10**15), LETTERS, st.lists(FILLING, min_size=6, max_size=6))
def test_no_original_is_written_in_any_letters_or_inside_arguments(
    name: str, local: str, host: str, number: int, letters: Any, filling: list[str]
) -> None:
    email = f"{local}@{host}"
    told = f"My name is {name}. Write to {email} at https://{host}/x about {number}."
    later = " ".join([filling[0], letters(name), filling[1], letters(email), filling[2], f"<{number}>", filling[3]])
    data = talk(told, later, arguments={"q": later, filling[4]: [later, {"n": number, "d": json.dumps({"in": later})}]})
    text = suite_of(data)
    assert email.lower() not in text.lower()
    assert host.lower() not in text.lower()
    assert str(number) not in text
    assert not is_in(name, text, "name")
