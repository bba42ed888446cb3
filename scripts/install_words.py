"""Writes install commands and addresses into README and docs, from the settings in `src/rejoinder/_release.py`.

Until rejoinder is published, `pip install '.[view]'` in a checkout works, and in CI an address that pip reads with git.
`make docs` calls this; a test fails on a page that says otherwise.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from rejoinder._release import PUBLISHED, REPOSITORY

ROOT = Path(__file__).parent.parent
ENTRY = ROOT / "scripts" / "schemastore.json"
_EXTRA = re.compile(r"pip install ['\"](?:\.|rejoinder)\[(\w+)\]['\"]( +# in a checkout of rejoinder)?")
_BESIDE = re.compile(r"pip install (?:\.|rejoinder) (pytest[\w -]*?)( +# in a checkout of rejoinder)?$", re.MULTILINE)
_WHOLE = re.compile(r"pip install (?:rejoinder\b|\"rejoinder @ git\+[^\"\s]+\")")
_ACTION = re.compile(r"(uses: )[\w.-]+/rejoinder@")
_ADDRESS = re.compile(r"https://github\.com/[\w.-]+/rejoinder\b")


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def in_words(page: str, *, published: bool = PUBLISHED, repository: str = REPOSITORY) -> str:
    """The page with the install commands and addresses that work."""
    checkout = "  # in a checkout of rejoinder"

    def extra(found: re.Match[str]) -> str:
        if published:
            return f"pip install 'rejoinder[{found[1]}]'"
        return f"pip install '.[{found[1]}]'{checkout if found[2] else ''}"

    def beside(found: re.Match[str]) -> str:
        if published:
            return f"pip install rejoinder {found[1]}"
        return f"pip install . {found[1]}{checkout if found[2] else ''}"

    whole = "pip install rejoinder" if published else f'pip install "rejoinder @ git+{repository}"'
    page = _WHOLE.sub(lambda _: whole, _BESIDE.sub(beside, _EXTRA.sub(extra, page)))
    account = repository.removeprefix("https://github.com/").partition("/")[0]
    page = _ACTION.sub(rf"\g<1>{account}/rejoinder@", page)
    return _ADDRESS.sub(lambda _: repository, page)


def schema_entry(repository: str = REPOSITORY) -> str:
    """The entry for the catalog of SchemaStore, with names of files that no other tool has."""
    entry = {
        "name": "rejoinder suite",
        "description": "Conversations with language models and agents, and checks of their replies",
        "fileMatch": ["*.rejoinder.yaml", "*.rejoinder.yml"],
        "url": f"{repository.replace('github.com', 'raw.githubusercontent.com')}/main/src/rejoinder/suite/schema.json",
    }
    return json.dumps(entry, indent=2) + "\n"


def main() -> int:
    for path, text in [
        *((page, in_words(page.read_text(encoding="utf-8"))) for page in pages()),
        (ENTRY, schema_entry()),
    ]:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"changed {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
