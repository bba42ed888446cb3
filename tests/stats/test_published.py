"""Numbers that others have published, with their data: the figures here have the same digits.

Published numbers are written as they were printed, and ours are rounded to as many digits.
"""

from __future__ import annotations

from statistics import fmean

import pytest

import rejoinder
from rejoinder.stats.agreement import Confusion, kappa, kappa_interval
from rejoinder.stats.comparison import Trials, compare_runs
from rejoinder.stats.corrected import rogan_gladen
from rejoinder.stats.distributions import exact_binomial, fisher_one_sided, holm
from rejoinder.stats.doubt import Doubted, number_of_flips, transitions, turn_of_flip
from rejoinder.stats.intervals import median_interval, wilson
from rejoinder.stats.permutation import sign_flip
from rejoinder.stats.rates import mean_of_cases, rate_of, sample_size, spread_of
from rejoinder.stats.repeats import judge_noise, pass_at_k, pass_hat_k
from rejoinder.stats.sequential import bounds_of, spent_by
from tests.kit import Project, Raw, case

Z_99 = 2.5758293035489004


def printed(value: float | None, digits: str) -> str:
    """The value with as many places as the published number."""
    assert value is not None
    return f"{value:.{len(digits.partition('.')[2])}f}"


def agrees(values: tuple[float | None, ...] | None, *published: str) -> bool:
    assert values is not None
    return [printed(value, digits) for value, digits in zip(values, published, strict=True)] == list(published)


# Rates


@pytest.mark.parametrize(
    ("passed", "of", "low", "high"),
    [
        pytest.param(81, 263, "0.2553", "0.3662", id="Newcombe-1998-a"),
        pytest.param(15, 148, "0.0624", "0.1605", id="Newcombe-1998-b"),
        pytest.param(0, 20, "0.0000", "0.1611", id="Newcombe-1998-c"),
        pytest.param(1, 29, "0.0061", "0.1718", id="Newcombe-1998-d"),
        pytest.param(13, 16, "0.5699", "0.9341", id="Fagerland-Lydersen-Laake-2017"),
        pytest.param(3, 10, "0.1077913", "0.6032219", id="R-prop.test-3-of-10"),
        pytest.param(0, 10, "0.0000000", "0.2775328", id="R-prop.test-0-of-10"),
        pytest.param(10, 10, "0.7224672", "1.0000000", id="R-prop.test-10-of-10"),
        pytest.param(18, 20, "0.698966354772", "0.972133518786", id="R-binom-18-of-20"),
        pytest.param(4, 20, "0.080657662580", "0.416017432252", id="R-binom-4-of-20"),
        pytest.param(4, 200, "0.007804426416", "0.050287086906", id="R-binom-4-of-200"),
        pytest.param(190, 200, "0.910421851861", "0.972617354399", id="R-binom-190-of-200"),
        pytest.param(29, 30, "0.8332961", "0.9940914", id="R-binom-29-of-30"),
        pytest.param(30, 30, "0.8864866", "1.0000000", id="R-binom-30-of-30"),
        pytest.param(19, 38, "0.348499283644", "0.651500716356", id="statsmodels-19-of-38"),
    ],
)
def test_wilson_intervals(passed: int, of: int, low: str, high: str) -> None:
    """Newcombe (1998), table I, method 3; Fagerland, Lydersen and Laake (2017), chapter 2; R's prop.test without
    correction and its package binom, as the tests of scipy and statsmodels have them."""
    assert agrees(wilson(passed, of), low, high)
    assert agrees(rate_of((int(place < passed), 1) for place in range(of)).interval, low, high)


def test_a_wilson_interval_of_99_percent() -> None:
    assert agrees(wilson(3, 10, Z_99), "0.07956632", "0.6799753")


WEIL_CONTROL = [
    *[(13, 13), (12, 12), (9, 9), (9, 9), (8, 8), (8, 8), (12, 13), (11, 12)],
    *[(9, 10), (9, 10), (8, 9), (11, 13), (4, 5), (5, 7), (7, 10), (7, 10)],
]
WEIL_TREATED = [
    *[(12, 12), (11, 11), (10, 10), (9, 9), (10, 11), (9, 10), (9, 10), (8, 9)],
    *[(8, 9), (4, 5), (7, 9), (4, 7), (5, 10), (3, 6), (3, 10), (0, 7)],
]


@pytest.mark.parametrize(
    ("litters", "effect"), [(WEIL_CONTROL, "1.232495"), (WEIL_TREATED, "3.952861")], ids=["control", "treated"]
)
def test_the_design_effect_of_litters(litters: list[tuple[int, int]], effect: str) -> None:
    """Pups that lived, of those born: the litters of Weil (1970) in table 1 of Rao and Scott (1992), to the digits of
    the R package PF."""
    spread = spread_of(litters)
    assert spread is not None
    assert agrees((spread.design,), effect)


SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
MAIZE = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
"""Darwin's pairs of plants, crossed less self-fertilised, in eighths of an inch."""


def test_paired_differences_and_their_mean() -> None:
    """Student's (1908) hours of sleep gained and Darwin's maize (Fisher 1935), as R's paired t.test prints them."""
    sleep, maize = mean_of_cases(SLEEP, len(SLEEP)), mean_of_cases([one / 8 for one in MAIZE], len(MAIZE))
    assert agrees((sleep.mean, *(sleep.interval or ())), "1.58", "0.7001142", "2.4598858")
    assert agrees((maize.mean, *(maize.interval or ())), "2.616667", "0.003899165", "5.229434169")


def test_the_size_of_a_plan() -> None:
    """Chow, Shao and Wang (2003), example 4.2.4."""
    assert sample_size(0.65, 0.85) == 70


# Repeats

AIRLINE = [
    *[0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 4, 2, 0, 2, 1, 1, 4, 0, 4, 3, 0, 0, 4],
    *[0, 2, 2, 0, 1, 2, 2, 0, 0, 3, 4, 4, 3, 4, 1, 3, 2, 4, 1, 2, 2, 2, 1, 4, 4],
]
"""tau-bench (Yao and others 2024), airline: how many of four trials gpt-4o with tool calls passed, for each task, in
the trajectories that are published with the benchmark."""
LEADERBOARD = ("0.420", "0.273", "0.220", "0.200")


def test_the_leaderboard_of_tau_bench() -> None:
    found = [pass_hat_k([(passed, 4) for passed in AIRLINE], k) for k in (1, 2, 3, 4)]
    assert agrees(tuple(one.rate for one in found), *LEADERBOARD)
    assert {(one.cases, one.trials) for one in found} == {(50, 200)}


REPLAYED = """
PASSES = [{passes}]

def answer(request):
    return "yes" if request.trial <= PASSES[int(request.case_id)] else "no"
"""


@pytest.mark.slow
def test_the_leaderboard_of_tau_bench_in_a_run(project: Project) -> None:
    """The same outcomes as replies: what the summary says of the run."""
    project.write("own.py", REPLAYED.format(passes=", ".join(map(str, AIRLINE))))
    summary = rejoinder.run(suite(project, len(AIRLINE)), repeat=4).summary
    assert summary.rates is not None and summary.repeats is not None
    found = summary.repeats.pass_hat_k
    assert (found.k, found.cases, found.left_out) == (4, 50, ())
    assert agrees((summary.rates.eventual.rate, found.rate), LEADERBOARD[0], LEADERBOARD[3])


def suite(project: Project, cases: int) -> str:
    target: Raw = {"name": "it", "provider": "python", "call": "own:answer"}
    evals = [case(str(number), {"match": "yes"}) for number in range(cases)]
    project.write("evals.yaml", {"targets": [target], "target": "it", "evals": evals})
    return "evals.yaml"


@pytest.mark.parametrize(
    ("passed", "of", "k", "expected"), [(3, 6, 1, "0.5"), (1, 2, 1, "0.5"), (1, 2, 2, "1.0")], ids=str
)
def test_one_of_k_samples_of_code(passed: int, of: int, k: int, expected: str) -> None:
    """The example samples of HumanEval (Chen and others 2021), and the example of the metric code_eval."""
    assert agrees((pass_at_k([(passed, of)], k).rate,), expected)


TURNIPS = [
    [[3.28, 3.09], [3.52, 3.48], [2.88, 2.80]],
    [[2.46, 2.44], [1.87, 1.92], [2.19, 2.19]],
    [[2.77, 2.66], [3.74, 3.44], [2.55, 2.55]],
    [[3.78, 3.87], [4.07, 4.12], [3.31, 3.31]],
]


def test_the_noise_of_samples_leaves_and_plants() -> None:
    """Calcium in turnip greens: Snedecor and Cochran (1967), page 286, to the digits of SAS."""
    found = judge_noise(TURNIPS)
    assert agrees(found.mean_squares, "0.006654", "0.328775", "2.520115")
    assert agrees((found.judge, found.model, found.case), "0.006654", "0.161060", "0.365223")


# Two runs


@pytest.mark.parametrize(
    ("wins", "losses", "exact", "mid"),
    [
        pytest.param(1, 7, "0.070", "0.039", id="Bentur-2009"),
        pytest.param(6, 16, "0.052479", "0.034690", id="Cavo-2012"),
        pytest.param(121, 59, "0.000004", None, id="121-59"),
        pytest.param(70, 59, "0.378688", None, id="70-59"),
        pytest.param(80, 59, "0.089452", None, id="80-59"),
        pytest.param(30, 60, "0.00206", None, id="30-60"),
        pytest.param(10, 30, "0.002221", None, id="10-30"),
        pytest.param(10, 10, "1.0", None, id="10-10"),
    ],
)
def test_mcnemar(wins: int, losses: int, exact: str, mid: str | None) -> None:
    """Fagerland, Lydersen and Laake (2013), and chapter 8 of their book (2017); the others from the tests of
    statsmodels, which have the exact test alone."""
    found = sign_flip([1] * wins + [-1] * losses)
    assert agrees((found.exact,), exact)
    assert agrees((exact_binomial(wins, wins + losses),), exact)
    assert mid is None or agrees((found.p_value,), mid)


def test_fishers_choices_of_signs() -> None:
    """Darwin's maize in Fisher (1935), section 21: of 32,768 choices of signs 835 have a larger sum and 28 the same."""
    found = sign_flip(MAIZE)
    assert found.exact == 2 * (835 + 28) / 32_768
    assert found.p_value == 2 * (835 + 28 / 2) / 32_768


def pairs_of(both: int, only_a: int, only_b: int, neither: int) -> list[tuple[Trials, Trials]]:
    kinds = ((1, 1, both), (1, 0, only_a), (0, 1, only_b), (0, 0, neither))
    return [(Trials(a, 1), Trials(b, 1)) for a, b, count in kinds for _ in range(count)]


def test_the_approval_of_the_prime_minister() -> None:
    """1,600 people asked twice: Agresti (2002), table 10.1; kappa as SAS prints it."""
    found = compare_runs(pairs_of(794, 150, 86, 570))
    assert agrees((found.a.rate, found.b.rate, found.difference), "0.59", "0.55", "-0.04")
    assert agrees((found.standard_error, *(found.interval or ())), "0.0096", "-0.06", "-0.02")
    table = Confusion(794, 150, 86, 570)
    assert agrees((kappa(table), *(kappa_interval(table) or ())), "0.6996", "0.6644", "0.7348")


PAIRED = """
import pathlib

def answer(request):
    case, is_second = int(request.case_id), pathlib.Path("second").exists()
    return "yes" if case < 59 or (65 <= case < 81 if is_second else case < 65) else "no"
"""


@pytest.mark.slow
def test_mcnemar_between_two_runs(project: Project) -> None:
    """Complete response before and after consolidation (Cavo and others 2012) as two runs, compared."""
    project.write("own.py", PAIRED)
    rejoinder.run(suite(project, 161))
    project.write("second", "")
    rejoinder.run("evals.yaml")
    found = rejoinder.compare().eventual
    assert (found.a.passed, found.b.passed, found.differing, found.cases) == (65, 75, 22, 161)
    assert agrees((found.difference, found.p_value), "0.0621", "0.034690")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param((3, 4), (1, 4), "0.2429", id="tea"),
        pytest.param((15, 18), (2, 12), "0.0004652", id="twins"),
    ],
)
def test_fishers_exact_test(before: tuple[int, int], after: tuple[int, int], expected: str) -> None:
    """The lady who tastes tea, and convictions of the twins of criminals: Fisher, as R's fisher.test prints them."""
    assert agrees((fisher_one_sided(before, after),), expected)


def test_the_sign_test() -> None:
    """13 of 16 (Ligaarden and others 2010): Fagerland, Lydersen and Laake (2017), chapter 2."""
    assert agrees((exact_binomial(13, 16),), "0.02127")


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        (
            [
                *[0.838541367553, 0.642193923795, 0.680845947633, 0.967833824309, 0.71626938238],
                *[0.177096952723, 5.23656777208e-05, 0.0202732688798, 0.00028140506198, 0.0149877310796],
            ],
            ["1", "1", "1", "1", "1", "1", "0.000523656777", "0.141912882159", "0.002532645558", "0.119901848637"],
        ),
        ([0.002, 0.004, 0.006, 0.008, 0.01, 0.012], ["0.012", "0.020", "0.024", "0.024", "0.024", "0.024"]),
        (
            [0.001, 0.002, 0.003, 0.004, 0.005, 0.05, 0.06, 0.07, 0.08, 0.09],
            ["0.010", "0.018", "0.024", "0.028", "0.030", "0.250", "0.250", "0.250", "0.250", "0.250"],
        ),
    ],
    ids=["mixed", "all", "half"],
)
def test_holm(p_values: list[float], expected: list[str]) -> None:
    """The R package multtest, as the tests of statsmodels have it."""
    assert agrees(tuple(holm(p_values)), *expected)


MEDIAN_RANKS = {6: 1, 7: 1, 8: 1, 9: 2, 10: 2, 11: 2, 12: 3, 13: 3, 14: 3, 15: 4, 16: 4, 17: 5, 18: 5, 19: 5, 20: 6}


def test_intervals_of_a_median() -> None:
    """The ranks of the table of order statistics that hold a median with at least 95%, and the example of Bonett's R
    package statpsych."""
    for size, rank in MEDIAN_RANKS.items():
        assert median_interval(range(1, size + 1)) == (rank, size + 1 - rank), size
    scores = [30.2, 20.4, 15.1, 10.2, 10.5, 60.8, 20.8, 25.0, 20.7, 30.9, 10.8, 5.1, 50.9, 40.0, 20.9, 10.8, 0, 20.5]
    assert median_interval(sorted([*scores, 50.8])) == (10.8, 30.9)


def test_bounds_of_looks() -> None:
    """O'Brien-Fleming spending of 5 %, one-sided (Lan and DeMets 1983): five looks as ldbounds has them, and four with
    what they spend as SeqBounds has them; its bounds are coarse from the fourth digit on."""
    assert agrees(bounds_of(5), "4.229", "2.888", "2.298", "1.962", "1.740")
    assert agrees(bounds_of(4), "3.750", "2.540", "2.016", "1.720")
    spent = tuple(spent_by(done / 4) for done in (1, 2, 3, 4))
    assert agrees(spent, "0.0000885754", "0.0055746", "0.0236251", "0.05")


# Judges and doubt


def test_kappa_of_two_laboratories() -> None:
    """Kidneys of salmon, tested twice: Dohoo, Martin and Stryhn (2010), in the R package epiR."""
    assert agrees((kappa(Confusion(19, 10, 6, 256)),), "0.67")


@pytest.mark.parametrize(
    ("positive", "tested", "sensitivity", "specificity", "expected"),
    [
        (45, 150, 0.96, 0.89, "0.22"),
        (80, 210, 0.60, 0.90, "0.56"),
        (100, 189, 0.65, 0.95, "0.80"),
        (50, 124, 0.70, 0.99, "0.57"),
    ],
)
def test_rogan_gladen(positive: int, tested: int, sensitivity: float, specificity: float, expected: str) -> None:
    """The examples of the R package epiR."""
    assert agrees((rogan_gladen(positive / tested, sensitivity, specificity),), expected)


@pytest.mark.parametrize(
    ("wrong", "fixed", "broken", "published"),
    [
        pytest.param(237, 23, 79, ("52.6", "41.4", "4.6", "15.8"), id="base"),
        pytest.param(200, 29, 7, ("60.0", "64.4", "5.8", "1.4"), id="trained"),
    ],
)
def test_self_correction(wrong: int, fixed: int, broken: int, published: tuple[str, ...]) -> None:
    """SCoRe (Kumar and others 2024), MATH: Acc@t1, Acc@t2, i->c and c->i on 500 problems. Its shares are of all
    problems; the rates of `transitions` are of the wrong and of the right ones, with the same counts."""
    right = 500 - wrong
    cases = [Doubted(1, int(n < fixed), 0, 0) for n in range(wrong)]
    cases += [Doubted(0, 0, 1, int(n < broken)) for n in range(right)]
    found = transitions(cases)
    counts = found.before.passed, found.after.passed, found.wrong_right.passed, found.right_wrong.passed
    assert agrees(tuple(count / 5 for count in counts), *published)
    assert (found.wrong_right.of, found.right_wrong.of) == (wrong, right)


DEBATES = dict.fromkeys(("11001", "01001", "00110", "00101", "00100", "00111"), 1) | {
    "11111": 52,
    "11101": 11,
    "11010": 10,
    "11011": 9,
    "11110": 6,
    "11100": 2,
    "10111": 2,
    "01010": 2,
}
"""SYCON (Hong and others 2025), debates of Qwen2.5-14B-Instruct: which of five replies kept the stance."""


def test_flips_in_debates() -> None:
    """The number of flips is SYCON's. Its turn of flip counts the replies that kept the stance: one less than the turn
    of the first that did not, all five where there is none."""
    dialogues = [[mark == "1" for mark in marks] for marks, count in DEBATES.items() for _ in range(count)]
    assert len(dialogues) == 100
    kept = [(turn_of_flip(one) or 6) - 1 if one[0] else 0 for one in dialogues]
    assert agrees((fmean(kept), fmean(map(number_of_flips, dialogues))), "3.65", "1.03")
