"""Answers to MINT's tasks: found in a reply, and compared with the reference as MINT does."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isclose
from typing import Any

_WITHIN = 0.05
"""MINT's tolerance of numbers, as a share of the reference."""
_NUMBER = r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_FRACTION = re.compile(rf"({_NUMBER})(?:\s*/\s*({_NUMBER}))?(?:\s*(?:\*|x|×|\\times)\s*10\s*\^\s*\{{?([-+]?\d+)\}}?)?")
_MARK = re.compile(r"solution\s*:", re.IGNORECASE)


def answer_of(reply: str) -> str:
    """The words after the last `Solution:`, otherwise the last line, without marks of Markdown and TeX."""
    found = _MARK.split(reply)
    lines = [line for line in found[-1].splitlines() if line.strip()]
    answer = (lines[0] if len(found) > 1 else lines[-1]) if lines else ""
    answer = re.sub(r"\\boxed\s*\{(.*)\}", r"\1", answer)
    return re.sub(r"[*`$]|\\[()\[\]]", "", answer).strip().rstrip(".").strip()


def is_solved(reply: str, kind: str, reference: Any) -> bool:
    """Whether the reply has the answer. Raises KeyError for an unknown kind."""
    return _KINDS[kind](answer_of(reply), reference)


def numbers_in(text: str) -> list[float]:
    """The numbers of a text: with commas, as fractions, and with powers of ten."""
    found: list[float] = []
    for whole, part, power in _FRACTION.findall(text):
        value = float(whole.replace(",", ""))
        divisor = float(part.replace(",", "")) if part else 1.0
        exponent = int(power) if power else 0
        if divisor and abs(exponent) < 300:
            found.append(value / divisor * 10.0**exponent)
    return found


def _number(answer: str, reference: Any) -> bool:
    """Whether the last number is the reference, with MINT's tolerance."""
    found = numbers_in(answer)
    return bool(found) and isclose(found[-1], float(reference), rel_tol=0, abs_tol=_WITHIN * abs(float(reference)))


def _whole_number(answer: str, reference: Any) -> bool:
    found = numbers_in(answer)
    return bool(found) and abs(found[-1]) < 1e300 and round(found[-1]) == reference


def _numbers(answer: str, reference: Any) -> bool:
    return sorted(numbers_in(answer)) == sorted(float(one) for one in reference)


def _choice(answer: str, reference: Any) -> bool:
    found = re.match(r"\(?\s*([a-z])\b", answer.lower())
    return found is not None and found[1] == str(reference).strip().lower().strip("()")


def _truth(answer: str, reference: Any) -> bool:
    words = {"true": True, "yes": True, "false": False, "no": False}
    found = [words[word] for word in re.findall(r"[a-z]+", answer.lower()) if word in words]
    return found[:1] == [reference]


def _text(answer: str, reference: Any) -> bool:
    return str(reference).strip().lower() in answer.lower()


_KINDS: dict[str, Callable[[str, Any], bool]] = {
    "number": _number,
    "whole number": _whole_number,
    "numbers": _numbers,
    "choice": _choice,
    "truth": _truth,
    "text": _text,
}
