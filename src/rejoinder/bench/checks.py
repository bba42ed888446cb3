"""The checks of benchmarks, which their suites call as functions."""

from __future__ import annotations

from typing import Any

from rejoinder.bench.answers import answer_of, is_solved
from rejoinder.bench.instructions import follows as is_followed

MODULE = "bench_checks"
"""The module beside a suite that has these functions."""
TEXT = f'''"""Checks of a benchmark. They are part of rejoinder."""

from {__name__} import follows, solved

__all__ = ["follows", "solved"]
'''


def follows(context: Any, instruction: str, **values: Any) -> bool | str:
    """Whether a reply follows an instruction of IFEval; otherwise the reason."""
    if is_followed(instruction, context.reply, values):
        return True
    wanted = ", ".join(f"{key} {value}" for key, value in values.items())
    return f"not followed: {wanted}" if wanted else "not followed"


def solved(context: Any, kind: str, reference: Any) -> bool | str:
    """Whether a reply has the answer of a task of MINT; otherwise the answer that it has."""
    return is_solved(context.reply, kind, reference) or f"the answer is {answer_of(context.reply)!r}"
