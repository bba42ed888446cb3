"""The instructions of IFEval: each passes and fails, strictly and loosely."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.bench.instructions import INSTRUCTIONS, count_sentences, follows, follows_loosely
from rejoinder.bench.languages import find_language

EXAMPLES: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "at least", "capital_frequency": 2},
        "A BIG dog",
        "A dog",
    ),
    ("change_case:english_capital", {}, "THE DOG IS IN THE HOUSE", "The dog"),
    ("change_case:english_lowercase", {}, "the dog is in the house", "The dog is in the house"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it"}, " say it\nIt.", "It."),
    ("combination:two_responses", {}, "one ****** two", "one ****** one"),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a] and [b]", "[a]"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye.\nP. S. more", "Bye. PS more"),
    ("detectable_format:constrained_response", {}, "So: My answer is no.", "no"),
    ("detectable_format:json_format", {}, '```json\n{"a": [1]}\n```', "{a: 1}"),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "PART", "num_sections": 2},
        "PART 1 x PART 2 y",
        "PART 1",
    ),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b", "* a\n- b\n* c"),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* and *b*", "*a* and * *"),
    ("detectable_format:title", {}, "<<A>>\ntext", "<< >>\ntext"),
    ("keywords:existence", {"keywords": ["c++", "dog"]}, "A Dog in C++", "A dog"),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "concatenate", "The Cat."),
    ("keywords:frequency", {"relation": "less than", "keyword": "go", "frequency": 2}, "go", "go going"),
    ("keywords:letter_frequency", {"let_relation": "at least", "letter": "e", "let_frequency": 3}, "Elevee", "elv e"),
    ("language:response_language", {"language": "de"}, "Der Hund ist nicht im Haus und schläft.", "The dog is here."),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "dog"},
        "one\n\n'Dog, two",
        "one\n\ntwo\n\ndog",
    ),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", "a\n***\n\n***\nb"),
    (
        "length_constraints:number_sentences",
        {"relation": "at least", "num_sentences": 2},
        "One. Two!",
        "One, e.g. this.",
    ),
    ("length_constraints:number_words", {"relation": "less than", "num_words": 3}, "one two", "one two three"),
    ("punctuation:no_comma", {}, "a; b", "a, b"),
    ("startend:end_checker", {"end_phrase": "The end."}, 'So. the end."', "The end. Really."),
    ("startend:quotation", {}, ' "all of it" ', '"a part" of it'),
]


@pytest.mark.parametrize(("instruction", "values", "right", "wrong"), EXAMPLES, ids=[one[0] for one in EXAMPLES])
def test_an_instruction_is_followed_or_not(instruction: str, values: dict[str, Any], right: str, wrong: str) -> None:
    assert follows(instruction, right, values)
    assert not follows(instruction, wrong, values)
    assert not follows(instruction, " \n", values)


def test_every_instruction_has_an_example() -> None:
    assert {one[0] for one in EXAMPLES} == INSTRUCTIONS


@pytest.mark.parametrize("reply", ['Sure:\n"yes"', '"yes"\nI hope this helps', 'Sure:\n"yes"\nBye', '**"yes"**'])
def test_an_introduction_an_ending_and_stars_do_not_count_loosely(reply: str) -> None:
    assert not follows("startend:quotation", reply, {})
    assert follows_loosely("startend:quotation", reply, {})


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two? Three!", 3),
        ("Dr. Ines met Mr. Okafor at 3.5 p.m. today.", 1),
        ("1. First thing.\n2. Second thing.", 2),
        ("No mark at all", 1),
        ('He said "Go." Then he went...', 2),
        ("", 0),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert count_sentences(text) == count


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ar", "الكلب في البيت"),
        ("bg", "Кучето е в къщата и спи на пода"),
        ("bn", "কুকুরটি ঘরে আছে"),
        ("en", "The dog is in the house and it is asleep."),
        ("fa", "سگ در خانه است و گربه بیرون می‌رود"),
        ("fi", "Koira on talossa ja se nukkuu, mutta kissa ei ole."),
        ("gu", "કૂતરો ઘરમાં છે"),
        ("hi", "कुत्ता घर में है और वह सो रहा है"),
        ("it", "Il cane è nella casa e non dorme con il gatto."),
        ("ja", "犬は家にいます"),
        ("kn", "ನಾಯಿ ಮನೆಯಲ್ಲಿದೆ"),
        ("ko", "개는 집에 있다"),
        ("mr", "कुत्रा घरात आहे आणि तो झोपला आहे"),
        ("ne", "कुकुर घरमा छ र यो सुतिरहेको छ"),
        ("pa", "ਕੁੱਤਾ ਘਰ ਵਿੱਚ ਹੈ"),
        ("pt", "O cão está em casa e não dorme com o gato para mais."),
        ("ru", "Собака дома, и она спит, а кошки были вне дома"),
        ("sw", "Mbwa yuko kwa nyumba na paka ni nje ya nyumba hii"),
        ("ta", "நாய் வீட்டில் உள்ளது"),
        ("te", "కుక్క ఇంట్లో ఉంది"),
        ("th", "สุนัขอยู่ในบ้าน"),
        ("ur", "کتا گھر میں ہے اور وہ سو رہا ہے"),
        ("vi", "Con chó ở trong nhà và nó không phải là của người này"),
        ("zh", "狗在房子里"),
        (None, "17 + 4 = 21!"),
    ],
)
def test_languages(language: str | None, text: str) -> None:
    assert find_language(text) == language
