"""Trimming, the one rule for all text that an author wrote."""

from __future__ import annotations


def trim(text: str) -> str:
    """CRLF becomes LF, a BOM goes, leading blank lines and trailing whitespace go, indentation stays."""
    text = text.removeprefix("\ufeff")
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    text = text.rstrip()
    first_visible = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, first_visible) + 1 :] if first_visible else text
