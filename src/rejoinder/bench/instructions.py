"""The instructions of IFEval, each of which a program can verify: what a reply must have, by the instruction's id.

The rules follow Google's evaluation. Two are approximate, because Google's need trained models: sentences are counted
by their marks, and languages are recognised by script and frequent words.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rejoinder.bench.languages import find_language

Values = Mapping[str, Any]
_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_FENCES = ("```json", "```Json", "```JSON", "```")
_SHORT = r"(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\.g|i\.e|Inc|Ltd|Co|No|Fig|a\.m|p\.m|U\.S)"
"""Words whose full stop ends no sentence."""


def follows(instruction: str, reply: str, values: Values, prompt: str = "") -> bool:
    """Whether a reply follows an instruction. An empty reply follows none. Raises KeyError for an unknown one."""
    return bool(reply.strip()) and _RULES[instruction](reply, {"prompt": prompt, **values})


def follows_loosely(instruction: str, reply: str, values: Values, prompt: str = "") -> bool:
    """The same without the first line, the last line, or stars: an introduction does not count against a reply."""
    lines = reply.split("\n")
    parts = [reply, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return any(follows(instruction, form, values, prompt) for part in parts for form in (part, part.replace("*", "")))


def _within(count: int, relation: str, limit: int) -> bool:
    return count < limit if relation == "less than" else count >= limit


def _bullets(reply: str, values: Values) -> bool:
    stars = re.findall(r"^\s*\*[^\*].*$", reply, re.MULTILINE)
    dashes = re.findall(r"^\s*-.*$", reply, re.MULTILINE)
    return len(stars) + len(dashes) == values["num_bullets"]


def _highlights(reply: str, values: Values) -> bool:
    single = [text for text in re.findall(r"\*[^\n\*]*\*", reply) if text.strip("*").strip()]
    double = [text for text in re.findall(r"\*\*[^\n\*]*\*\*", reply) if text[2:-2].strip()]
    return len(single) + len(double) >= values["num_highlights"]


def _sections(reply: str, values: Values) -> bool:
    return len(re.findall(rf"\s?{values['section_spliter']}\s?\d+\s?", reply)) >= values["num_sections"]


def _divided(reply: str, mark: str) -> list[str] | None:
    """The parts between marks; None if one in the middle is empty."""
    parts = re.split(mark, reply)
    middle = parts[1:-1]
    return None if any(not part.strip() for part in middle) else [part for part in parts if part.strip()]


def _paragraphs(reply: str, values: Values) -> bool:
    parts = _divided(reply, r"\s?\*\*\*\s?")
    return parts is not None and len(parts) == values["num_paragraphs"]


def _two_responses(reply: str, _values: Values) -> bool:
    parts = _divided(reply, r"\*{6}")
    return parts is not None and len(parts) == 2 and parts[0].strip() != parts[1].strip()


def _first_word(reply: str, values: Values) -> bool:
    """Whether the n-th paragraph begins with a word, and the number of paragraphs is right."""
    parts = reply.split("\n\n")
    count, wanted = sum(bool(part.strip()) for part in parts), values["nth_paragraph"]
    if wanted > count or not parts[wanted - 1].strip():
        return False
    word = parts[wanted - 1].split()[0].lstrip("'").lstrip('"').lower()
    return count == values["num_paragraphs"] and re.split(r"[.,?!'\"]", word)[0] == values["first_word"].lower()


def _postscript(reply: str, values: Values) -> bool:
    marker = values["postscript_marker"]
    known = {"P.P.S": r"p\.\s?p\.\s?s.*$", "P.S.": r"p\.\s?s\..*$"}
    pattern = known[marker] if marker in known else re.escape(str(marker).lower())
    return bool(re.search(pattern, reply.lower(), re.MULTILINE))


def _is_json(reply: str, _values: Values) -> bool:
    text = reply.strip()
    for fence in _FENCES:
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(reply: str, _values: Values) -> bool:
    return any(text.lstrip("<").rstrip(">").strip() for text in re.findall(r"<<[^\n]+>>", reply))


def _quotation(reply: str, _values: Values) -> bool:
    text = reply.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def _keywords(reply: str, values: Values) -> bool:
    return all(re.search(re.escape(word), reply, re.IGNORECASE) for word in values["keywords"])


def _forbidden(reply: str, values: Values) -> bool:
    return not any(re.search(rf"\b{re.escape(word)}\b", reply, re.IGNORECASE) for word in values["forbidden_words"])


def _keyword_frequency(reply: str, values: Values) -> bool:
    count = len(re.findall(re.escape(values["keyword"]), reply, re.IGNORECASE))
    return _within(count, values["relation"], values["frequency"])


def _letter_frequency(reply: str, values: Values) -> bool:
    count = Counter(reply.lower())[values["letter"].lower()]
    return _within(count, values["let_relation"], values["let_frequency"])


def _capital_words(reply: str, values: Values) -> bool:
    words = re.findall(r"[\w-]*\w", reply)
    count = sum(word.isupper() for word in words)
    return _within(count, values["capital_relation"], values["capital_frequency"])


def _words(reply: str, values: Values) -> bool:
    return _within(len(re.findall(r"\w+", reply)), values["relation"], values["num_words"])


def _sentences(reply: str, values: Values) -> bool:
    return _within(count_sentences(reply), values["relation"], values["num_sentences"])


def count_sentences(text: str) -> int:
    """Sentences by the marks at their ends. Lines do not end them."""
    text = re.sub(rf"\b{_SHORT}\.", lambda found: found[0].replace(".", ""), text.strip())
    text = re.sub(r"(?<=\s)([A-Z])\.(?=\s)|^(\d+)\.(?=\s)", r"\1\2", text, flags=re.MULTILINE)
    parts = re.split(r"[.!?]+[\"'”’)\]*]*(?:\s+|$)", text)
    return sum(bool(re.search(r"\w", part)) for part in parts)


def _language(reply: str, values: Values) -> bool:
    return find_language(reply) in (None, values["language"])


def _end(reply: str, values: Values) -> bool:
    return reply.strip().strip('"').lower().endswith(values["end_phrase"].strip().lower())


def _repeats(reply: str, values: Values) -> bool:
    return reply.strip().lower().startswith(values["prompt_to_repeat"].strip().lower())


_RULES: dict[str, Callable[[str, Values], bool]] = {
    "change_case:capital_word_frequency": _capital_words,
    "change_case:english_capital": lambda reply, _: reply.isupper() and find_language(reply) in (None, "en"),
    "change_case:english_lowercase": lambda reply, _: reply.islower() and find_language(reply) in (None, "en"),
    "combination:repeat_prompt": _repeats,
    "combination:two_responses": _two_responses,
    "detectable_content:number_placeholders": lambda reply, values: (
        len(re.findall(r"\[.*?\]", reply)) >= values["num_placeholders"]
    ),
    "detectable_content:postscript": _postscript,
    "detectable_format:constrained_response": lambda reply, _: any(answer in reply for answer in _ANSWERS),
    "detectable_format:json_format": _is_json,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:title": _title,
    "keywords:existence": _keywords,
    "keywords:forbidden_words": _forbidden,
    "keywords:frequency": _keyword_frequency,
    "keywords:letter_frequency": _letter_frequency,
    "language:response_language": _language,
    "length_constraints:nth_paragraph_first_word": _first_word,
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:number_sentences": _sentences,
    "length_constraints:number_words": _words,
    "punctuation:no_comma": lambda reply, _: "," not in reply,
    "startend:end_checker": _end,
    "startend:quotation": _quotation,
}
INSTRUCTIONS = frozenset(_RULES)
"""The ids of all instructions."""
