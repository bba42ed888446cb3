"""The signs of verdicts, and what stands for them where a terminal cannot show them."""

from __future__ import annotations

from typing import TextIO

from msgspec import Struct

from rejoinder.model import Status


class Signs(Struct, frozen=True):
    passed: str
    failed: str
    error: str
    skipped: str

    def of(self, status: Status) -> str:
        return str(getattr(self, status))


UNICODE = Signs("✅ PASS", "❌ FAIL", "⚠️ ERROR", "⏭️ SKIPPED")
ASCII = Signs("[+] PASS", "[x] FAIL", "[!] ERROR", "[-] SKIPPED")


def signs_for(stream: TextIO) -> Signs:
    try:
        "".join((UNICODE.passed, UNICODE.failed, UNICODE.error)).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
