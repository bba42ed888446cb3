"""A judge that is a function: its votes differ, and its reasons can be read."""

from __future__ import annotations

import json
from typing import Any

FRIENDLY = "The reply takes the customer's side, names the next step and promises nothing that the policy forbids."
KINDS = (
    (
        ("calm down", "as i already said"),
        (0.2, 0.3, 0.1),
        "The reply tells an upset customer to calm down and repeats itself. It names no next step, and no apology.",
    ),
    (
        ("sorry",),
        (0.9, 1.0, 0.8),
        "Apologises once, explains the delay in plain words, and offers two concrete ways forward.",
    ),
    (
        ("unfortunately",),
        (0.7, 0.4, 0.4),
        "Correct about the policy, but cold: it opens with a refusal and offers no alternative such as store credit.",
    ),
)
_asked: dict[str, int] = {}


def judge(request: Any) -> str:
    texts = [str(message.content) for message in request.messages]
    low = (texts[-1].rpartition("## ]]")[2] or texts[-1]).lower()
    if any("Stays friendly." in text for text in texts):
        return json.dumps({"criteria": list(qualities(low))})
    vote = _asked[texts[-1]] = _asked.get(texts[-1], 0) + 1
    for words, scores, why in KINDS:
        if any(word in low for word in words):
            return json.dumps({"score": scores[vote % 3], "reasoning": why})
    return json.dumps({"score": 0.9, "reasoning": FRIENDLY})


def qualities(low: str) -> Any:
    alternative = any(word in low for word in ("credit", "exchange", "another size"))
    yield {"id": "1", "met": "policy" in low or "cannot" in low, "reasoning": "It names the policy."}
    yield {"id": "2", "met": alternative, "reasoning": f"{'An' if alternative else 'No'} alternative is named."}
    yield {"id": "3", "met": "sorry" in low, "reasoning": "Warm." if "sorry" in low else "Curt."}
