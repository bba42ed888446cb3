"""Statistics: pure functions of recorded verdicts, without a seed and in the standard library alone.

Every run needs `wilson` and `rate_of`; the rest is imported when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rejoinder.model.figures import *
    from rejoinder.model.passports import ClusteredRate as ClusteredRate
    from rejoinder.stats.agreement import *
    from rejoinder.stats.alarms import *
    from rejoinder.stats.clustered import *
    from rejoinder.stats.comparison import *
    from rejoinder.stats.corrected import *
    from rejoinder.stats.deltas import *
    from rejoinder.stats.distributions import *
    from rejoinder.stats.doubt import *
    from rejoinder.stats.gates import *
    from rejoinder.stats.intervals import *
    from rejoinder.stats.needed import *
    from rejoinder.stats.permutation import *
    from rejoinder.stats.rates import *
    from rejoinder.stats.recovery import *
    from rejoinder.stats.repeats import *
    from rejoinder.stats.sequential import *
    from rejoinder.stats.words import *

_NAMES = {
    "model.passports": "ClusteredRate",
    "stats.alarms": "REGRESSION_LEVEL new_failure_chance",
    "stats.agreement": "Confusion kappa kappa_interval krippendorff_alpha position_bias self_consistency",
    "stats.clustered": "clustered_counts clustered_rate",
    "stats.comparison": (
        "LEAST_OF_GROUP Pair Trials compare_all compare_cases compare_groups compare_runs made_up_interval"
        " paired_interval"
    ),
    "stats.corrected": "corrected_rate rogan_gladen rogan_gladen_interval",
    "stats.deltas": "paired_delta",
    "stats.distributions": "exact_binomial fisher_one_sided holm normal_above normal_quantile t_quantile",
    "stats.doubt": "Doubted doubt_of number_of_flips stationary_accuracy transitions turn_of_flip",
    "model.figures": (
        "Aptitude CaseChange CaseRepeats Comparison Corrected Delta Doubt FlipRate GateResult GroupComparison Look Mean"
        " NetRecovery NetRecoveryDifference Noise PassK Rate RuleResult SignFlip Spread Transitions"
    ),
    "stats.gates": "at_most cases_for_lower gate look_rule lower_rule no_regression_rule pass_rule rate_rule",
    "stats.intervals": "Interval Z_95 kept_by median_interval percentile wilson wilson_of_rate",
    "stats.needed": "cases_needed",
    "stats.permutation": "deal_out sign_flip",
    "stats.rates": "mean_of rate_of sample_size spread_of",
    "stats.recovery": "Tries compare_net_recovery net_recovery",
    "stats.repeats": "aptitude case_repeats flip_rate judge_noise pass_at_k pass_hat_k",
    "stats.sequential": "Differing bounds_of count_pairs look spent_by",
    "stats.words": (
        "comparison_words corrected_words delta_words look_words net_difference_words net_verdict_words net_words"
        " more_words noise_words number_words p_words percent point_range points power_words rate_words repeats_words"
        " sample_words selection_words transitions_words without_errors_words"
    ),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - all are names


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rejoinder.stats' has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(f"rejoinder.{_HOMES[name]}"), name)
    return value
