"""Forms of keys and passwords, in texts and in names: one place for all code that looks for them.

The patterns are texts: each user compiles them when needed.
"""

from __future__ import annotations

_FIRST_LETTERS = (
    r"sk-|pk-|gsk_|xai-|AIza|ya29\.|hf_|gh[pousr]_|github_pat_|glpat-|npm_|[spr]k_(?:live|test)_|whsec_|dop_v1_"
    r"|xox[abprs]-|AKIA|ASIA"
)
KNOWN_KEY = rf"\b(?:{_FIRST_LETTERS})[\w-]{{12,}}"
"""A key recognised by its first letters."""
SECRET_WORDS = r"api[-_ ]?key|access[-_]?key|token|secret|passw(?:or)?d|pwd|authorization|credential"
"""Words that name a secret, in any letter case."""
