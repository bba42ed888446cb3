"""The pictures of a run: each is stored once in its folder, as `pictures/<SHA-256 of its bytes>.png`.

Its digest is part of every key, and stands for it in results and cassettes. What is read is compared with the digest:
a picture that was changed meanwhile, or that came with a folder from elsewhere, is never sent or shown as another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from rejoinder.errors import RejoinderError, UsageError, reason_of
from rejoinder.model.pictures import FILE_NAME, LARGEST_PICTURE, Looks, Picture, recognise
from rejoinder.project.files import FileFault, read_bytes
from rejoinder.run_files import RunDamaged, make_folder, read_whole, replace_file

FOLDER = "pictures"
LARGEST_OF_RUN = 2 << 30
"""Maximum bytes of all pictures of a run."""


class PictureGone(RejoinderError):
    """A picture was moved, deleted or changed after the suite was read."""


def keep_pictures(folder: Path, wanted: Iterable[tuple[Picture, dict[str, str]]]) -> None:
    """Store pictures in a run's folder. `wanted`: each with the files of its suite's pictures, which are replaced by
    the copies. Raises OSError, UsageError, or RunDamaged for what rejoinder did not write."""
    place, together = folder / FOLDER, 0
    for picture, files in wanted:
        together += picture.size
        if together > LARGEST_OF_RUN:
            raise UsageError(
                f"the pictures of this run have more than {LARGEST_OF_RUN >> 30} GB",
                "Run a part of its cases: `--limit`, `--tag` or `--shard`.",
            )
        copy = place / picture.file_name
        if not _holds(copy, picture):
            content = read_picture(picture, files)
            make_folder(place)
            with replace_file(copy) as stream:
                stream.write(content)
        files[picture.digest] = str(copy)


def _holds(path: Path, picture: Picture) -> bool:
    try:
        return os.path.lexists(path) and sha256(read_whole(path, LARGEST_PICTURE)).hexdigest() == picture.digest
    except RunDamaged:
        path.unlink()  # a link, or what has grown
        return False


def read_picture(picture: Picture, files: Mapping[str, str]) -> bytes:
    """The bytes of a picture. `files`: where pictures are, by digest. Raises PictureGone."""
    called = picture.name or picture.digest[:12]
    if picture.digest not in files:
        raise PictureGone(
            f"the picture {called} is not in the run's folder", "Run the suite again where the picture is."
        )
    path = Path(files[picture.digest])
    try:
        content = read_bytes(path, LARGEST_PICTURE)
    except FileFault as fault:
        raise PictureGone(f"the picture {called} cannot be read: {fault.message}") from None
    if sha256(content).hexdigest() != picture.digest:
        raise PictureGone(f"the picture {called} was changed after the suite was read: {path}", "Start the run again.")
    return content


def pictures_in(folder: Path) -> dict[str, str]:
    """The files of a run's pictures, by digest."""
    place = folder / FOLDER
    if place.is_symlink() or not place.is_dir():
        return {}
    with os.scandir(place) as entries:
        named = {FILE_NAME.fullmatch(entry.name): entry for entry in entries if entry.is_file(follow_symlinks=False)}
    return {found[1]: entry.path for found, entry in named.items() if found}


def stored_picture(folder: Path, digest: str) -> tuple[str, bytes] | None:
    """A picture of a run with its media type, as pages show it; None if there is none. It is shown only if its bytes
    have the digest, and are a picture of pixels."""
    place = folder / FOLDER
    for ending in ("png", "jpg", "gif", "webp"):
        path = place / f"{digest}.{ending}"
        if FILE_NAME.fullmatch(path.name) is None or place.is_symlink() or not os.path.lexists(path):
            continue
        try:
            content = read_whole(path, LARGEST_PICTURE)
        except (OSError, RunDamaged):
            return None
        looks = recognise(content)
        is_sound = isinstance(looks, Looks) and sha256(content).hexdigest() == digest
        return (f"image/{looks.type}", content) if is_sound and isinstance(looks, Looks) else None
    return None


def damaged_pictures(folder: Path) -> dict[str, str]:
    """The files in the folder of pictures that are not what their names say, with what is wrong."""
    place = folder / FOLDER
    if place.is_symlink():
        return {FOLDER: "it is a link"}
    if not place.is_dir():
        return {}
    found: dict[str, str] = {}
    for path in sorted(place.iterdir()):
        name, digest = f"{FOLDER}/{path.name}", FILE_NAME.fullmatch(path.name)
        if path.name.startswith("."):
            continue
        try:
            content = read_whole(path, LARGEST_PICTURE) if digest is not None else b""
        except RunDamaged as damage:
            found[name] = damage.reason
        except OSError as error:
            found[name] = f"it cannot be read: {reason_of(error)}"
        else:
            if digest is None:
                found[name] = "it was added later: no picture has such a name"
            elif sha256(content).hexdigest() != digest[1]:
                found[name] = "it was changed: its checksum is another"
    return found
