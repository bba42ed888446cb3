"""Lists the requirements, resolutions and rules of the specification that no test is marked with."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
KNOWN = [
    *(f"R{number}" for number in range(1, 70)),
    *(f"C{number}" for number in range(1, 36)),
    *(f"P{number}" for number in range(1, 46)),
    "P18a",
]


def marked() -> set[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    calls = re.findall(r"(?:mark\.spec|@spec)\((.*?)\)", text, re.DOTALL)
    return {number for call in calls for number in re.findall(r'"([RCP]\d+a?)"', call)}


if __name__ == "__main__":
    found = marked()
    missing = [number for number in KNOWN if number not in found]
    print(f"{len(KNOWN) - len(missing)} of {len(KNOWN)} are shown by a test")
    if missing:
        print("not yet:", " ".join(missing))
    unknown = sorted(found - set(KNOWN))
    sys.exit(f"no such number: {' '.join(unknown)}" if unknown else 0)
