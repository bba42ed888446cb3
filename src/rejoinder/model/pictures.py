"""Pictures of messages: what they are, their limits, and how their bytes are recognised.

The bytes decide the type of a picture, never its name. The size in pixels is read from the header, and nothing is
decoded, so a picture that unpacks to gigabytes costs nothing here and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, structs

PictureType: TypeAlias = Literal["png", "jpeg", "gif", "webp"]
PICTURE_TYPES: tuple[PictureType, ...] = get_args(PictureType)
"""The types of pictures. All of them are pixels: none can hold a script or name an address, as SVG can."""
LARGEST_PICTURE = 5 << 20
"""Maximum bytes of a picture."""
LONGEST_SIDE = 8000
"""Maximum width and height of a picture, in pixels."""
MOST_PICTURES = 20
"""Maximum pictures of a conversation."""
LARGEST_TOGETHER = 20 << 20
"""Maximum bytes of all pictures of a conversation: each request holds all of them."""
MOST_TOKENS_OF_PICTURE = 6000
"""The most tokens that a picture is taken to have before its tokens are counted."""
_ENDINGS: dict[PictureType, str] = {"png": "png", "jpeg": "jpg", "gif": "gif", "webp": "webp"}


class Picture(Struct, frozen=True, gc=False, omit_defaults=True):
    """A picture in a message. A tool's picture has its data; one of a suite has a digest, and the run folder has its
    bytes: they are put in when a request is sent."""

    mime_type: str
    data: str = ""
    """The bytes, as base64."""
    digest: str = ""
    """The SHA-256 of the bytes, in hexadecimal digits."""
    name: str = ""
    """Its path as written in the suite, or a name made of its digest."""
    size: int = 0
    """Its bytes."""
    width: int = 0
    height: int = 0
    at: tuple[int, int] | None = None
    """The place of its reference in the message's text, from and to; None: it follows the text."""

    @property
    def type(self) -> PictureType | None:
        return next((one for one in PICTURE_TYPES if self.mime_type == f"image/{one}"), None)

    @property
    def tokens(self) -> int:
        """The tokens that it probably has: APIs scale large pictures down and count areas."""
        return max(85, min(self.width * self.height // 750, 1600))

    @property
    def file_name(self) -> str:
        """Its file in a run folder."""
        return f"{self.digest}.{_ENDINGS[self.type or 'png']}"

    def sent(self) -> str:
        """The data of a request. A request that is only looked at has the digest in its place."""
        return self.data or f"sha256:{self.digest}"

    def data_url(self) -> str:
        return f"data:{self.mime_type};base64,{self.sent()}"

    def moved(self, by: int) -> Picture:
        """The picture in a longer text. `by`: the number of characters that were added in front."""
        return self if self.at is None or not by else structs.replace(self, at=(self.at[0] + by, self.at[1] + by))


FILE_NAME = re.compile(rf"([0-9a-f]{{64}})\.({'|'.join(_ENDINGS.values())})")
"""The name of a picture's file in a run folder."""


def pieces_of(text: str, pictures: Sequence[Picture]) -> list[str | Picture]:
    """A message in pieces, as models see it: each picture in the place of its reference, without blank texts."""
    pieces: list[str | Picture] = []
    end = 0
    for picture in sorted((one for one in pictures if one.at), key=lambda one: one.at or (0, 0)):
        start, after = picture.at or (0, 0)
        pieces += [text[end:start].strip("\n"), picture]
        end = after
    pieces.append(text[end:].strip("\n") if end else text)
    pieces += [picture for picture in pictures if picture.at is None]
    return [piece for piece in pieces if isinstance(piece, Picture) or piece.strip()]


def refuse_many(pictures: Iterable[Picture]) -> str | None:
    """Why a conversation cannot have these pictures, if it cannot."""
    known = list(pictures)
    if len(known) > MOST_PICTURES:
        return f"{len(known)} pictures, and a conversation can have {MOST_PICTURES}"
    together = sum(one.size for one in known)
    if together > LARGEST_TOGETHER:
        return f"pictures of {together / (1 << 20):.1f} MB, and a conversation can have {LARGEST_TOGETHER >> 20} MB"
    return None


class Looks(Struct, frozen=True):
    """The type and size of a picture, from its first bytes."""

    type: PictureType
    width: int
    height: int


def recognise(content: bytes) -> Looks | str:
    """The type and size of a picture, or the reason if it cannot be used."""
    found = _png(content) or _gif(content) or _webp(content) or _jpeg(content)
    if found is None:
        other = next((name for sign, name in _OTHERS if re.search(sign, content[:1024])), "")
        known = "it is no PNG, JPEG, GIF or WebP picture"
        return f"{known}, but {other}" if other else known
    if min(found.width, found.height) < 1:
        return f"it is a damaged {found.type.upper()} picture: its header has no size"
    if max(found.width, found.height) > LONGEST_SIDE:
        return f"it has {found.width:,} x {found.height:,} pixels; the limit is {LONGEST_SIDE:,} a side"
    return found


_OTHERS = (
    (rb"^%PDF-", "a PDF"),
    (rb"(?i)<svg[\s>]", "SVG, which can hold scripts"),
    (rb"(?i)<!doctype html|<html", "an HTML page"),
    (rb"(?s)^BM.{4}\0\0\0\0", "a BMP"),
    (rb"^(II\*\0|MM\0\*)", "a TIFF"),
    (rb"(?s)^....ftyp(heic|heix|mif1|avif)", "HEIC or AVIF"),
    (rb"^version https://git-lfs", "a pointer of Git LFS; `git lfs pull` fetches the file"),
    (rb"^\Z", "an empty file"),
)
"""Other kinds of files, by their first bytes."""


def _number(content: bytes, start: int, count: int, *, little: bool = False) -> int:
    return int.from_bytes(content[start : start + count], "little" if little else "big")


def _png(content: bytes) -> Looks | None:
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        return None
    is_whole = content[12:16] == b"IHDR" and len(content) >= 24
    return Looks("png", *((_number(content, 16, 4), _number(content, 20, 4)) if is_whole else (0, 0)))


def _gif(content: bytes) -> Looks | None:
    if content[:6] not in (b"GIF87a", b"GIF89a"):
        return None
    return Looks("gif", _number(content, 6, 2, little=True), _number(content, 8, 2, little=True))


def _webp(content: bytes) -> Looks | None:
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        return None
    kind, width, height = content[12:16], 0, 0
    if kind == b"VP8X" and len(content) >= 30:
        width, height = (_number(content, at, 3, little=True) + 1 for at in (24, 27))
    elif kind == b"VP8L" and content[20:21] == b"\x2f" and len(content) >= 25:
        bits = _number(content, 21, 4, little=True)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8 " and content[23:26] == b"\x9d\x01\x2a" and len(content) >= 30:
        width, height = (_number(content, at, 2, little=True) & 0x3FFF for at in (26, 28))
    return Looks("webp", width, height)


_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of a JPEG that begin a frame, which has its size."""


def _jpeg(content: bytes) -> Looks | None:
    if content[:3] != b"\xff\xd8\xff":
        return None
    at = 2
    while at + 9 < len(content) and content[at] == 0xFF:
        marker = content[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _FRAMES:
            return Looks("jpeg", _number(content, at + 7, 2), _number(content, at + 5, 2))
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # without a length
            at += 2
        else:
            at += 2 + max(_number(content, at + 2, 2), 2)
    return Looks("jpeg", 0, 0)
