"""The checksums of a run folder: what each file held when it was last written.

The file `checksums` is of the form that `sha256sum -c` reads. The suites' copy is entered before the first call, all
other files when the run ends; while a run goes on, or after it was killed, only the copy's checksums count. The line
`# seal` is a code over those above it that only this user's rejoinder can make, and `# end` is their own checksum. So
damage by accident is always found, and the user who made a run sees whether another one has written its checksums.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from rejoinder.run_files import RunDamaged, read_whole, replace_file, sums_of
from rejoinder.runs.seal import code_of

FILE = "checksums"
RECEIPT = "run.json"
COPY = ("suite.json", "cases.jsonl", "seal")
"""Written once, before the first call. A run without a usable key has no seal."""
WORK = ("journal.jsonl", "results.jsonl", "summary.json")
"""Written, with the receipt, when the run ends."""
LARGEST = 1 << 16
_LINE = re.compile(r"([0-9a-f]{64})  ([\w.]+)")


class Checksums(Struct, frozen=True):
    files: dict[str, str]
    sealed: bool
    """Did this user's rejoinder write them?"""


def write_checksums(folder: Path, run: str, receipt: bytes | None = None) -> None:
    """`receipt`: what `run.json` is about to hold, of a run that has ended."""
    names = COPY if receipt is None else (*COPY, *WORK)
    there = [name for name in names if (folder / name).exists()]
    sums = dict(zip(there, sums_of([folder / name for name in there]), strict=True))
    if receipt is not None:
        sums[RECEIPT] = sha256(receipt).hexdigest()
    lines = [f"# run {run}", *(f"{value}  {name}" for name, value in sums.items())]
    content = "".join(f"{line}\n" for line in lines).encode()
    content += b"# seal %s\n" % (code_of(content) or b"none")
    content += b"# end %s\n" % sha256(content).hexdigest().encode()
    with replace_file(folder / FILE, durable=receipt is not None) as stream:
        stream.write(content)


def read_checksums(folder: Path) -> Checksums | None:
    """None if there are none. Raises OSError, or RunDamaged if they are not as they were written."""
    path = folder / FILE
    try:
        content = read_whole(path, LARGEST)
    except FileNotFoundError:
        return None
    body, _, end = content.rpartition(b"# end ")
    if end != sha256(body).hexdigest().encode() + b"\n":
        raise RunDamaged(path, "it is not as it was written")
    listed, _, seal = body.rpartition(b"# seal ")
    code = code_of(listed, create=False)
    lines = map(_LINE.fullmatch, listed.decode("ascii", "replace").splitlines())
    sums = {found[2]: found[1] for found in lines if found}
    return Checksums(sums, code is not None and hmac.compare_digest(code + b"\n", seal))


def changed_files(folder: Path, sums: Checksums, *, ended: bool) -> dict[str, str]:
    """The files that are not as they were written, with what is wrong. `ended`: do all of them count?"""
    names = (RECEIPT, *COPY, *WORK) if ended else COPY
    there = [name for name in names if (folder / name).exists()]
    now = dict(zip(there, sums_of([folder / name for name in there]), strict=True))
    found = {name: _change(sums.files.get(name), now.get(name)) for name in names}
    return {name: change for name, change in found.items() if change}


def _change(written: str | None, now: str | None) -> str:
    """The difference between two checksums of a file, in words; empty if there is none."""
    if written == now:
        return ""
    if written is None:
        return "it was added later: the checksums do not name it"
    return "it is missing" if now is None else "it was changed: its checksum is another"
