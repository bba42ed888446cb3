"""Variables of `.env` files in this process's environment, lent to users' Python code during a run.

Code that decides which servers are asked or trusted never reads them from there: it uses `own_environment`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping

from rejoinder.errors import UsageError
from rejoinder.model.secret_forms import KNOWN_KEY

_lock = threading.Lock()
_lent: dict[str, tuple[str, int]] = {}
"""The lent variables, and the number of runs that borrow each: runs in several threads share one environment."""

_NEVER_LENT = re.compile(
    r"^(REJOINDER|XDG|SSL|OPENSSL|PYTHON|LD|DYLD|NODE|GIT)|PROXY$|CA_BUNDLE$|^(HOME|PATH|TMPDIR|COLUMNS)$|COLOR$", re.I
)
"""Variables that would control rejoinder itself, or the libraries in its process."""

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASS|AUTH(?!OR_|ORS?$)|CRED|JWT|BEARER|COOKIE|WEBHOOK|CONN(?:ECTION)?_?STR"
    r"|(?<![A-Z])(?:PAT|DSN|PRIVATE|PEM|SAS)(?![A-Z])|(?<!OLD)(?<!^)PWD|^PWD_",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    rf"""(?:^|[\s,;=:"'])(?-i:{KNOWN_KEY}|eyJ[\w-]{{12,}})(?![/\\\w])|-----BEGIN[ ]|^(?:bearer|basic|token)[ ]\S{{8,}}$
    |(?:AccountKey|SharedAccessKey|SharedAccessSignature|password|pwd)[ ]?=|://hooks\.|/webhooks?/
    |://(?=[^/\s@]*:)[^/\s@]+@|https?://[^/\s@]+@""",
    re.IGNORECASE | re.VERBOSE,
)
"""Keys recognised by their first letters, JSON Web Tokens, PEM, connection strings, and addresses with a user or
password."""
_OF_THE_SYSTEM = re.compile(
    r"PATH|PWD|OLDPWD|HOME|SHELL|TERM|LANG|LANGUAGE|LC_.*|USER|LOGNAME|TMPDIR|TEMP|TMP|DISPLAY|TZ|HOSTNAME|_|MAIL|SHLVL"
)
"""Variables that programs need, and that hold no secret whatever their values look like."""


def is_secret(name: str, value: str) -> bool:
    """Whether an environment variable is a secret, by its name or the form of its value."""
    return bool(_SECRET_NAME.search(name)) or (not _OF_THE_SYSTEM.fullmatch(name) and looks_secret(value))


def looks_secret(value: str) -> bool:
    """Whether a value has the form of a key, a token or an address with a password."""
    return bool(_SECRET_VALUE.search(value))


def own_environment() -> dict[str, str]:
    """This process's environment without the lent variables."""
    with _lock:
        return {name: value for name, value in os.environ.items() if name not in _lent or _lent[name][0] != value}


class Loan:
    """The variables that one run has lent."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def add(self, variables: Mapping[str, str], file: str) -> dict[str, str]:
        """Set the variables that are not set, and return them. Raises UsageError if another suite of this process has
        lent another value under the same name."""
        with _lock:
            lent = {name: value for name, value in variables.items() if _can_be_lent(name, value)}
            for name, value in lent.items():
                if name in _lent and _lent[name][0] != value:
                    raise UsageError(
                        f"`{name}` of the .env files of {file} has another value for another suite of this run",
                        "Both run your Python code in one process, which has one environment. Run them one by one.",
                    )
            for name, value in lent.items():
                os.environ[name] = value
                _lent[name] = (value, _lent.get(name, ("", 0))[1] + 1)
                self._names.append(name)
        return lent

    def close(self) -> None:
        """Remove them, except those that were changed meanwhile."""
        with _lock:
            for name in self._names:
                value, users = _lent.pop(name)
                if users > 1:
                    _lent[name] = (value, users - 1)
                elif os.environ.get(name) == value:
                    del os.environ[name]
            self._names.clear()


def _can_be_lent(name: str, value: str) -> bool:
    is_free = name not in os.environ or name in _lent
    return is_free and not _NEVER_LENT.search(name) and "\0" not in value and value != ""
