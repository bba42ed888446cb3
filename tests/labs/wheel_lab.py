"""Wheels made from installed packages, so that pip can install them without a network."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import parse_tag, sys_tags
from packaging.utils import canonicalize_name

NOT_PACKED = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")


def make_wheels(folder: Path, *requirements: str) -> Path:
    """The folder with a wheel of each package that is required, directly or not. rejoinder has none: pip builds it."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting, known = [Requirement(one) for one in requirements], set[tuple[str, frozenset[str]]]()
    while waiting:
        wanted = waiting.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in known:
            continue
        known.add(key)
        found = distribution(wanted.name)
        if key[0] != "rejoinder":
            _pack(found, folder)
        needs = map(Requirement, found.requires or [])
        extras = wanted.extras or {""}
        waiting += [one for one in needs if not one.marker or any(one.marker.evaluate({"extra": e}) for e in extras)]
    return folder


def _pack(found: Distribution, folder: Path) -> None:
    tag = _tag(found.read_text("WHEEL") or "")
    name = re.sub(r"[-_.]+", "_", found.metadata["Name"])
    path = folder / f"{name}-{found.version}-{tag}.whl"
    if path.exists():
        return
    files = [one for one in found.files or [] if _belongs(one.parts)]
    [information] = {one.parts[0] for one in files if one.parts[0].endswith(".dist-info")}
    record = io.StringIO()
    with zipfile.ZipFile(path, "w") as wheel:  # not compressed, which would take most of the time
        for one in files:
            wheel.writestr(_dated(one.as_posix()), Path(str(one.locate())).read_bytes())
            csv.writer(record).writerow([one.as_posix(), "", ""])
        csv.writer(record).writerow([f"{information}/RECORD", "", ""])
        wheel.writestr(_dated(f"{information}/RECORD"), record.getvalue())


def _belongs(parts: tuple[str, ...]) -> bool:
    return ".." not in parts and "__pycache__" not in parts and parts[-1] not in NOT_PACKED


def _dated(name: str) -> zipfile.ZipInfo:
    """Zip files know no time before 1980, and some packages are older."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _tag(wheel: str) -> str:
    """A tag of the installed wheel that this interpreter takes."""
    supported = set(sys_tags())
    tags = re.findall(r"^Tag: (\S+)$", wheel, re.MULTILINE)
    return next(tag for tag in tags if parse_tag(tag) & supported)
