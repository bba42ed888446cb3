"""Trimming, the one rule for all text that an author wrote."""

from __future__ import annotations


def trim(text: str) -> str:
    """CRLF becomes LF, a BOM goes, leading blank lines and trailing whitespace go, indentation stays."""
    if not text or ("\r" not in text and text[0] != "\ufeff" and not text[0].isspace()):
        return text.rstrip()  # as nearly all texts are
    return trim_start(text).rstrip()


def trim_start(text: str) -> str:
    """`trim` without the end: for text that goes on after something else."""
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    text = text.removeprefix("\ufeff")
    first_visible = len(text) - len(text.lstrip())
    text = text[text.rfind("\n", 0, first_visible) + 1 :] if first_visible else text
    return trim_start(text) if text.startswith("\ufeff") else text
