"""Statistics: pure functions of recorded verdicts.

Every run needs `wilson`; what only the judge report needs is imported when it is first used.
"""

from __future__ import annotations

from rejoinder.stats.intervals import wilson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rejoinder.stats.agreement import (
        ClusteredRate,
        Confusion,
        PositionBias,
        SelfConsistency,
        clustered_counts,
        clustered_rate,
        exact_binomial,
        kappa,
        kappa_interval,
        krippendorff_alpha,
        position_bias,
        rogan_gladen,
        rogan_gladen_interval,
        self_consistency,
        t_quantile,
    )

__all__ = [
    "ClusteredRate",
    "Confusion",
    "PositionBias",
    "SelfConsistency",
    "clustered_counts",
    "clustered_rate",
    "exact_binomial",
    "kappa",
    "kappa_interval",
    "krippendorff_alpha",
    "position_bias",
    "rogan_gladen",
    "rogan_gladen_interval",
    "self_consistency",
    "t_quantile",
    "wilson",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rejoinder.stats' has no attribute {name!r}")
    from rejoinder.stats import agreement

    return getattr(agreement, name)
