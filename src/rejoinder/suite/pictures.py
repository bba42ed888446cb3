"""Pictures of a suite: `{type: image, value: PATH or data URL}`, found as attached files are, and recognised by their
bytes. Nothing is downloaded.
"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from hashlib import sha256
from pathlib import Path

from msgspec import structs

from rejoinder.model.pictures import LARGEST_PICTURE, Looks, Picture, recognise
from rejoinder.project.files import FileFault, Finder, in_quotes, read_bytes, too_large
from rejoinder.words.numbers import beginning

_DATA_URL = re.compile(r"\s*data:(?P<type>[^,;]{0,100})(?P<rest>[^,]{0,200}),", re.IGNORECASE)
_ADDRESS = re.compile(r"\s*[a-z][a-z0-9+.-]+:", re.IGNORECASE)
_OTHER_NAMES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
_LONGEST_NAME = 200
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f<>\u2028\u2029]")
"""Characters that would end the reference to a picture, or its line."""


class PicturePaths(dict[str, str]):
    """The file of each picture, by digest. Pictures that were written as data are in a temporary folder, which is
    deleted with this object."""

    _folder: Path | None = None

    def keep(self, content: bytes, name: str) -> str:
        """Write a picture's bytes to the temporary folder; its file."""
        if self._folder is None:
            import shutil
            import weakref
            from tempfile import mkdtemp

            self._folder = Path(mkdtemp(prefix="rejoinder-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / name
        if not path.exists():
            path.write_bytes(content)
        return str(path)


class PictureFiles:
    """Reads the pictures of one suite."""

    def __init__(self, finder: Finder) -> None:
        self.paths = PicturePaths()
        self._finder = finder
        self._known: dict[Path, Picture | FileFault] = {}

    def read(self, written: str) -> tuple[Picture, str | None]:
        """A picture, and its absolute path if it is a file. Raises FileFault."""
        if (head := _DATA_URL.match(written)) is not None:
            return self._from_data(written, head), None
        if _is_address(written):
            message = f"{in_quotes(beginning(written.strip(), 60))} is an address, and pictures are not downloaded"
            raise FileFault("bad-picture", f"{message}; save the picture beside the suite, and write its path")
        file = self._finder.find(written) if written.strip() else None
        if file is None:
            raise FileFault("file-not-found", self._finder.explain_missing(beginning(written, _LONGEST_NAME)))
        picture = self._from_file(file, _UNSAFE.sub("_", written))
        return picture, self.paths[picture.digest]

    def knows(self, file: Path) -> bool:
        """Whether a file is a picture that could be sent."""
        try:
            return bool(self._from_file(file, file.name).digest)
        except FileFault:
            return False

    def _from_file(self, file: Path, name: str) -> Picture:
        if file not in self._known:
            try:
                self._known[file] = _made(read_bytes(file, LARGEST_PICTURE), file.name, name)
            except FileFault as fault:
                self._known[file] = fault
        known = self._known[file]
        if isinstance(known, FileFault):
            raise known
        self.paths.setdefault(known.digest, str(file.resolve()))
        return known if known.name == name else structs.replace(known, name=name)

    def _from_data(self, written: str, head: re.Match[str]) -> Picture:
        data, declared = written[head.end() :].strip(), head["type"].strip().lower()
        if not head["rest"].lower().endswith(";base64"):
            raise FileFault("bad-picture", "the data of a picture is base64: `data:image/png;base64,...`")
        if len(data) * 3 // 4 > LARGEST_PICTURE + 2:
            raise too_large("data:...", len(data) * 3 // 4, LARGEST_PICTURE)
        try:
            content = a2b_base64("".join(data.split()), strict_mode=True)
        except (Base64Error, ValueError):
            raise FileFault("bad-picture", "the data of this picture is not valid base64") from None
        picture = _made(content, "data:...", "")
        declared = _OTHER_NAMES.get(declared, declared)
        if declared != picture.mime_type:
            message = f"this data says that it is `{declared[:60]}`, and it is `{picture.mime_type}`"
            raise FileFault("bad-picture", f"{message}; correct the type before `;base64`")
        picture = structs.replace(picture, name=f"image-{picture.file_name[:8]}{picture.file_name[64:]}")
        if picture.digest not in self.paths:
            self.paths[picture.digest] = self.paths.keep(content, picture.file_name)
        return picture


def _is_address(written: str) -> bool:
    """Whether it begins like an address. One letter before a colon is a drive of Windows."""
    found = _ADDRESS.match(written)
    return found is not None and len(found[0].strip()) > 2 and "://" in written[: found.end() + 2]


def _made(content: bytes, called: str, name: str) -> Picture:
    looks = recognise(content)
    if not isinstance(looks, Looks):
        raise FileFault("bad-picture", f"{in_quotes(called)} cannot be sent as a picture: {looks}")
    return Picture(
        mime_type=f"image/{looks.type}",
        digest=sha256(content).hexdigest(),
        name=name,
        size=len(content),
        width=looks.width,
        height=looks.height,
    )
