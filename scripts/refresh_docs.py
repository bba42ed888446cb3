"""Writes the real output of every command into README and docs. Read the difference before you commit it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.documentation import ROOT, follow, pages

chosen = [Path(name).resolve() for name in sys.argv[1:]] or pages()
for page in chosen:
    before = page.read_text(encoding="utf-8")
    after = follow(page, refresh=True)
    if after != before:
        page.write_text(after, encoding="utf-8", newline="\n")
        print(f"changed {page.relative_to(ROOT)}")
