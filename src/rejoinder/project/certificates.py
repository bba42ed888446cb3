"""`client_cert` of a target: the files by which a server knows its client.

It is the path of a PEM file with a certificate and its private key, or a mapping of `cert`, `key` and `password`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rejoinder.project.folders import folder_name
from rejoinder.spelling import list_words

CERTIFICATE_SETTING = "client_cert"
CERTIFICATE_SPELLINGS = (CERTIFICATE_SETTING, "clientCert")
_FILES = ("cert", "key")


def certificate_files(value: Any) -> dict[tuple[str, ...], str]:
    """The paths as they are written, each with its place in the setting."""
    if isinstance(value, str):
        return {(): value} if value.strip() else {}
    fields: Mapping[str, Any] = value if isinstance(value, dict) else {}
    return {(name,): fields[name] for name in _FILES if isinstance(fields.get(name), str) and fields[name].strip()}


def find_certificate(written: str, folders: Iterable[str]) -> Path | None:
    """The file, looked for in the folders and in the working one."""
    path = Path(written.strip()).expanduser()
    return next((place for folder in (*folders, "") if (place := Path(folder, path)).is_file()), None)


def explain_missing_certificate(written: str, folders: Iterable[str]) -> str:
    searched = dict.fromkeys(folder_name(Path(folder).absolute()) for folder in (*folders, ""))
    return f"there is no file `{written}` for `{CERTIFICATE_SETTING}` in {list_words(list(searched))}"
