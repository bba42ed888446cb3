"""Small real pictures, made here, and parts of suites that show them."""

from __future__ import annotations

import base64
import struct
import zlib
from hashlib import sha256

from tests.kit import Raw

RED, BLUE = (255, 0, 0), (0, 0, 255)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(colour: tuple[int, int, int] = RED, width: int = 8, height: int = 6, *, more: bytes = b"") -> bytes:
    """A picture of one colour; `more`: bytes of a chunk that no reader looks at."""
    rows = b"".join(b"\0" + bytes(colour) * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    extra = _chunk(b"teSt", more) if more else b""
    body = _chunk(b"IHDR", head) + extra + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def png_of_size(width: int, height: int) -> bytes:
    """A header that claims a size; the rest is missing."""
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


GIF = base64.b64decode("R0lGODlhAgADAIAAAP8AAAAAACwAAAAAAgADAAACAoRRADs=")
"""2 x 3 pixels."""
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xc0\x00\x0b\x08\x00\x05\x00\x04\x01\x01\x11\x00\xff\xd9"
)
"""The segments of a JPEG of 4 x 5 pixels, without its scan."""
WEBP_LOSSY = b"RIFF\x1e\0\0\0WEBPVP8 \x12\0\0\0\x30\x01\0\x9d\x01\x2a\x07\0\x09\0\0\0\0\0"
WEBP_LOSSLESS = b"RIFF\x12\0\0\0WEBPVP8L\x06\0\0\0\x2f" + struct.pack("<I", (11 - 1) | (13 - 1) << 14) + b"\0"
WEBP_EXTENDED = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\x0e\0\0" + b"\x10\0\0"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


def data_url(content: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64_of(content)}"


def image(value: str) -> Raw:
    return {"type": "image", "value": value}


def says(*content: str | Raw, role: str = "user") -> Raw:
    return {"role": role, "content": list(content)}


def shows(*content: str | Raw, case_id: str = "one", **more: object) -> Raw:
    """A case whose user says this."""
    return {"id": case_id, "input_messages": [says(*content)], "checks": [{"match": "*"}], **more}
