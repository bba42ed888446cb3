"""Commands that install missing packages into the Python that runs."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from rejoinder._release import PUBLISHED

_NOT_FROM = re.compile(r"python_version < ['\"](\d+)\.(\d+)['\"]")


def install_hint(extra: str, *, published: bool = PUBLISHED, python: tuple[int, int] = sys.version_info[:2]) -> str:
    """The hint for missing packages of an extra: the command that installs them, or why there is none."""
    rows = [row.partition(";") for row in _requirements() if re.search(rf"extra == ['\"]{extra}['\"]", row)]
    for package, _, marker in rows:
        excluded = _NOT_FROM.search(marker)
        if excluded and python >= (limit := (int(excluded[1]), int(excluded[2]))):
            name = re.split(r"[^\w.-]", package.strip())[0]
            return f"{name} has no build for Python {limit[0]}.{limit[1]} and newer; use an older Python for it."
    packages = [package.strip() for package, _, _ in rows]
    return f"Install it: {pip_install(*([f'rejoinder[{extra}]'] if published or not packages else packages))}"


def pip_install(*packages: str) -> str:
    """The command that installs packages into this Python, for any shell: with uv if pip is missing."""
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    tool = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"{tool} {' '.join(_quoted(package) for package in packages)}"


def _quoted(package: str) -> str:
    """Names may come from untrusted code: nothing that a shell expands is left in them."""
    plain = re.sub(r"[^\w\[\].,;:<>=!~@/ +-]", "", package)
    return plain if re.fullmatch(r"[\w.-]+", plain) else f'"{plain}"'


def _requirements() -> list[str]:
    """The requirements of the installed package; none if rejoinder runs from its source only."""
    try:
        return requires("rejoinder") or []
    except PackageNotFoundError:
        return []
