"""Links and the long description of the package, made when it is built.

A package index shows README.md at another address, so relative links are made absolute, from the one address in
`src/rejoinder/_release.py`. While that has OWNER for an account, the text has no links: they would be dead.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<path>[^)\s]+)\)")


def is_placeholder(repository: str) -> bool:
    return "/OWNER/" in f"{repository}/"


def long_description(readme: str, repository: str, tag: str) -> str:
    """README without relative links."""

    def absolute(found: re.Match[str]) -> str:
        if is_placeholder(repository):
            return "" if found["image"] else found["text"]
        kind = "raw" if found["image"] else "blob"
        return f"{found['image']}[{found['text']}]({repository}/{kind}/{tag}/{found['path']})"

    return _RELATIVE.sub(absolute, readme)


def links(repository: str) -> dict[str, str]:
    if is_placeholder(repository):
        return {}
    return {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/main/docs/README.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
        "Source": repository,
    }


class Metadata(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        version = runpy.run_path(str(root / "src/rejoinder/_version.py"))["__version__"]
        repository = runpy.run_path(str(root / "src/rejoinder/_release.py"))["REPOSITORY"]
        tag = "main" if "dev" in version else f"v{version}"
        text = long_description((root / "README.md").read_text(encoding="utf-8"), repository, tag)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = links(repository)
