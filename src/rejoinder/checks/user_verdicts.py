"""The user's own verdicts: a script's output, a function's result or a webhook's answer, read in one place."""

from __future__ import annotations

from typing import Any

import msgspec

from rejoinder.checks.base import CheckFault, pass_mark, scored_verdict
from rejoinder.model import Check, Opinion, Verdict, reaches
from rejoinder.words.numbers import beginning

WANTED = "true or false, a score from 0 to 1, the reason why it fails, or an object with `score` or `passed`"
LONGEST_QUOTE = 200


def read_opinion(value: Any) -> Opinion:
    """A verdict of the user's code. Raises CheckFault for anything that is not a verdict: a typo must not pass."""
    if isinstance(value, Opinion):
        return _checked(value)
    if isinstance(value, bool):
        return Opinion(passed=value)
    if isinstance(value, int | float):
        return _checked(Opinion(score=value))
    if isinstance(value, str):
        if not value.strip():
            raise CheckFault(f"gave an empty text; {WANTED} is expected")
        return Opinion(passed=False, reason=value)
    if isinstance(value, dict):
        return _from_mapping(value)
    raise CheckFault(f"gave {_shown(value)}; {WANTED} is expected")


def _from_mapping(data: dict[Any, Any]) -> Opinion:
    passed, score = data.get("passed", data.get("pass")), data.get("score")
    if passed is None and score is None:
        raise CheckFault(f"gave {_shown(data)}, which has neither `score` nor `passed`")
    if passed is not None and not isinstance(passed, bool):
        raise CheckFault(f"gave {_shown(passed)} as `passed`; true or false is expected")
    reason = data.get("reason") or data.get("reasoning") or ""
    return _checked(
        Opinion(
            passed=passed,
            score=score,
            reason=reason if isinstance(reason, str) else _shown(reason),
            hits=_points(data.get("hits")),
            misses=_points(data.get("misses")),
        )
    )


def _checked(opinion: Opinion) -> Opinion:
    score = opinion.score
    if score is None:
        if opinion.passed is None:
            raise CheckFault(f"gave neither a score nor whether it passed; {WANTED} is expected")
        return opinion
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise CheckFault(f"gave the score {_shown(score)}; a number from 0 to 1 is expected")
    return msgspec.structs.replace(opinion, score=float(score))


def _points(value: Any) -> tuple[str, ...]:
    points = value if isinstance(value, list | tuple) else ()
    return tuple(point for point in points if isinstance(point, str) and point.strip())


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # nothing that a function returns may be trusted
        text = f"an object of the type {type(value).__name__}"
    return beginning(text, LONGEST_QUOTE)


def opinion_verdict(check: Check, value: str | None, opinion: Opinion) -> Verdict:
    """The verdict of an opinion. If it has both, `passed` decides, and a threshold of the check must be reached as
    well."""
    score = opinion.score if opinion.score is not None else float(bool(opinion.passed))
    if opinion.passed is None:
        passed = reaches(score, pass_mark(check))
    else:
        passed = opinion.passed and (check.threshold is None or reaches(score, check.threshold))
    plain = "passed" if passed else "failed" if opinion.score is None else f"scored {score:g}"
    return scored_verdict(
        check,
        value,
        passed,
        opinion.reason or ("" if passed else "; ".join(opinion.misses)) or plain,
        score=score,
        hits=opinion.hits,
        misses=opinion.misses,
        reasoning=opinion.reason or None,
        threshold=pass_mark(check) if opinion.score is not None else None,
    )
