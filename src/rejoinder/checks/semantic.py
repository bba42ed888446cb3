"""`semantic`: does the reply mean the same as an expected text? Both are turned into vectors by an embedding model,
and the score is the cosine of the angle between them.

Such models see what a text is about, and hardly whether it says yes or no: docs/checks/semantic.md says more.
"""

from __future__ import annotations

import math
import operator
import sys
from array import array
from functools import lru_cache

from rejoinder.checks.base import Context, error_verdict, gather_all, pass_mark, scored_verdict
from rejoinder.model import Failure, Reply, Semantic, Verdict, reaches


async def judge_semantic(check: Semantic, context: Context) -> Verdict:
    label = f"semantic {', '.join(check.expected)}"
    expected = [text for text in check.expected if text.strip()]
    if not expected:
        return error_verdict(check, label, "nothing is left of what is expected once its variables are filled in")
    if not context.reply.text.strip():
        return scored_verdict(check, label, False, "the reply is empty", score=0.0, threshold=pass_mark(check))
    asked = [context.port.embed(text, check.target) for text in (context.reply.text, *expected)]
    answers = await gather_all(asked)
    failure = next((one for one in answers if isinstance(one, Failure)), None)
    if failure is not None:
        return error_verdict(check, label, f"the embedding could not be had: {failure.message}")
    vectors = [one.vector for one in answers if not isinstance(one, Failure)]
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1:
        return error_verdict(check, label, "the embeddings have different lengths, so they cannot be compared")
    if not all(map(_norm, vectors)):
        return error_verdict(check, label, "an embedding is all zeros, so it says nothing about the text's meaning")
    likeness = [cosine(vectors[0], vector) for vector in vectors[1:]]
    best = max(range(len(likeness)), key=likeness.__getitem__)
    score = round(likeness[best], 6)
    which = f" to {expected[best]!r}" if len(expected) > 1 else ""
    model = next((f" by {one.model}" for one in answers if isinstance(one, Reply) and one.model), "")
    reason = f"similarity {score:.3f}{which}{model}; {pass_mark(check):g} is needed"
    return scored_verdict(
        check, label, reaches(score, pass_mark(check)), reason, score=score, threshold=pass_mark(check)
    )


def cosine(one: bytes, other: bytes) -> float:
    """From 0 to 1: what points the other way is as unlike as what has nothing in common."""
    a, b = _floats(one), _floats(other)
    product = math.fsum(map(operator.mul, a, b))
    norm = _norm(one) * _norm(other)
    return min(1.0, max(0.0, product / norm)) if norm else 0.0


@lru_cache(maxsize=512)
def _floats(vector: bytes) -> array[float]:
    values = array("f")
    values.frombytes(vector)
    if sys.byteorder == "big":
        values.byteswap()
    return values


@lru_cache(maxsize=512)
def _norm(vector: bytes) -> float:
    return math.sqrt(math.fsum(value * value for value in _floats(vector)))
