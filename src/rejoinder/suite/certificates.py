"""`client_cert` of a target: the files that tell a server who its client is.

It is the path of a PEM file with a certificate and its private key, or a mapping of `cert`, `key` and `password`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rejoinder.suite.files import folder_name
from rejoinder.suite.paths import list_words

SETTING = "client_cert"
SPELLINGS = (SETTING, "clientCert")
FILES = ("cert", "key")


def certificate_files(value: Any) -> dict[tuple[str, ...], str]:
    """The paths as they are written, each with its place in the setting."""
    if isinstance(value, str):
        return {(): value} if value.strip() else {}
    fields: Mapping[str, Any] = value if isinstance(value, dict) else {}
    return {(name,): fields[name] for name in FILES if isinstance(fields.get(name), str) and fields[name].strip()}


def find_certificate(written: str, folders: Iterable[str]) -> Path | None:
    """The file, looked for in the folders and in the working one."""
    path = Path(written.strip()).expanduser()
    return next((place for folder in (*folders, "") if (place := Path(folder, path)).is_file()), None)


def explain_missing(written: str, folders: Iterable[str]) -> str:
    searched = dict.fromkeys(folder_name(Path(folder).absolute()) for folder in (*folders, ""))
    return f"there is no file `{written}` for `{SETTING}` in {list_words(list(searched))}"
