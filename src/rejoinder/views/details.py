"""All that was counted in a run beyond its most important figures, as labelled lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from rejoinder.model import Receipt, Summary
from rejoinder.model.boards import is_only_doubted
from rejoinder.model.figures import Aptitude, Mean, NetRecovery, NoRate, Rate
from rejoinder.model.runs import JudgeSummary, Metric, Recovery, Repeated, Repeats, ScoredCase, Scores, TargetSummary
from rejoinder.views.notes import bounds_words, budget_words, cache_words, known_cost, unpriced_words
from rejoinder.views.walk import groups_of
from rejoinder.words.figures import (
    cases_passed,
    describe_tokens,
    net_words,
    no_rate_words,
    rate_words,
    selection_words,
    transitions_words,
    trials_words,
    without_errors_words,
)
from rejoinder.words.numbers import (
    coefficient,
    count,
    number_words,
    point_range,
    points,
    share,
    share_range,
    share_words,
    shortened,
)

BAR_WIDTH = 20
MOST_JUDGES = 5
"""Judges that are listed; a suite with a judge for each case has hundreds."""
LONGEST_CHECK = 60
"""Characters of a judge's check."""


class Detail(Struct, frozen=True):
    label: str
    lines: tuple[str, ...]


def details_of(receipt: Receipt, summary: Summary) -> Iterator[Detail]:
    """Details that have at least one line."""
    for label, lines in _all_details(receipt, summary):
        if found := tuple(lines):
            yield Detail(label, found)


_Labelled: TypeAlias = tuple[str, Iterable[str]]
_Part: TypeAlias = Summary | TargetSummary


def _all_details(receipt: Receipt, summary: Summary) -> Iterator[_Labelled]:
    yield "result", [result_words(summary)]
    yield "pass rate", _rates(receipt, summary)
    yield "first try", _first_try(summary)
    for label, lines in _BY_PART.items():
        yield label, _of_parts(summary, lines)
    yield "repeats", _repeats(summary)
    yield from _scores_of(summary)
    yield "metrics", _of_parts(summary, lambda one: map(_metric, one.metrics.items()))
    yield "judges", _judges(summary.judges)
    yield "tokens", _tokens(summary)
    yield "cost", _cost(summary)
    if receipt.budget is not None and not receipt.budget.reached:
        yield "budget", [budget_words(receipt.budget)]
    if receipt.from_cache is not None and not receipt.from_cache.answers:
        yield "cache", [cache_words(receipt.from_cache)]


def _of_parts(summary: Summary, lines: Callable[[_Part], Iterable[str]]) -> Iterator[str]:
    """The lines of the run, or of each of several targets or variants behind its name."""
    parts: dict[str, _Part] = {**groups_of(summary)} or {"": summary}
    return (f"{name}: {text}" if name else text for name, one in parts.items() for text in lines(one))


def result_words(summary: Summary) -> str:
    parts = [
        f"{trials_words(summary.passed, summary)} passed"
        f" ({summary.passed_at_once:,} on the first try, {summary.recovered:,} recovered)",
        f"{summary.failed:,} failed",
        count(summary.errors, "error"),
    ]
    spoilt = 0 if summary.spoilt is None else summary.spoilt.conversations
    others = {
        "skipped": summary.skipped,
        "unfinished": summary.unfinished,
        "in quarantine": summary.apart,
        "invalid": spoilt,
    }
    return ", ".join([*parts, *(f"{number:,} {word}" for word, number in others.items() if number)])


def _rates(receipt: Receipt, summary: Summary) -> Iterator[str]:
    """The pass rate, and what it is not a rate of."""
    found, planned = summary.rate, summary.finished + max(0, summary.unfinished)
    words = selection_words(planned, only_failed=receipt.reported.failed_from is not None, retried=receipt.asked_again)
    if isinstance(found, NoRate):
        told = "" if found.is_of_several else no_rate_words(found, planned)
        if told or words:
            yield "; ".join(filter(None, (words, told)))
        return
    yield "; ".join(filter(None, (f"{_bar(summary)} {_rate(found)}", words, bounds_words(summary.spoilt))))


def _bar(summary: Summary) -> str:
    """Failures to the left, passes to the right."""
    passed = round(BAR_WIDTH * summary.passed / summary.finished)
    passed = min(max(passed, 1 if summary.passed else 0), BAR_WIDTH - (summary.passed < summary.finished))
    return f"{'-' * (BAR_WIDTH - passed)}|{'+' * passed}"


def _first_try(summary: Summary) -> Iterator[str]:
    if isinstance(summary.rate, Rate) and summary.recovery and summary.rates is not None:
        gain = summary.rates.gain
        added = f"follow-ups added {gain.passed:,} of {gain.of:,}, {rate_words(gain)}"
        yield f"{_rate(summary.rates.first_try)}; {added}"


def _over(number: int, word: str, cases: int | None) -> str:
    """The sample of a rate, where cases count more than once: one case alone says nothing about others."""
    if cases is None or cases == number:
        return ""
    return f"; {count(number, word)} of {count(cases, 'case', 'cases, clustered by case')}"


def _rate(rate: Rate) -> str:
    text = f"{rate_words(rate)}{_over(rate.of, 'conversation', rate.cases)}"
    without = without_errors_words(rate) if rate.errors else ""
    return f"{text}; {without}" if without else text


def _net(net: NetRecovery | None) -> Iterator[str]:
    if net is not None and net.answered_back is not None and net.afresh is not None:
        shares = f"passed after one follow-up {share(net.answered_back)}, when asked again {share(net.afresh)}"
        yield f"{net_words(net)} ({shares} of {count(net.failures, 'failure')})"


def _repeated_replies(found: Repeated | None) -> Iterator[str]:
    if found is not None:
        of = count(found.of, "conversation")
        yield f"the same words after a follow-up in {found.conversations:,} of {of} that got one"


def _hints(one: _Part) -> Iterator[str]:
    for hint, row in one.by_hint.items():
        over = _over(row.at_risk, "conversation", row.cases)
        bounds = "" if row.interval is None else f" ({share_range(row.interval)}{over})"
        net = "".join(f"; net {words}" for words in _net(row.net_recovery))
        yield f"{hint}: {row.recovered} of {row.at_risk}{bounds}{net}"


def _doubted(one: _Part) -> Iterator[str]:
    found = one.transitions
    if found is None:
        return
    yield f"after the first doubt: {transitions_words(found)}"
    if found.stationary is not None and found.stationary_interval is not None:
        right = share_words(found.stationary, found.stationary_interval)
        yield f"right if asked for ever at these rates: {right}"
    if one.caves is not None:
        yield f"right at first {one.caves.of}, wrong at the end {one.caves.passed}: caved {rate_words(one.caves)}"
    yield from _flipped("question", "replies", found.number_of_flips, found.turn_of_flip)
    if found.errors:
        yield f"{count(found.errors, 'doubt')} answered by an error, in no rate"


def _steps(one: _Part) -> Iterator[str]:
    if one.step_flips is not None:
        yield from _flipped("plan", "steps", one.step_flips.number_of_flips, one.step_flips.turn_of_flip)


def _flipped(whole: str, parts: str, number: Mean | None, turn: Mean | None) -> Iterator[str]:
    if number is not None and number.mean is not None:
        before = None if turn is None else turn.mean
        turns = "" if before is None else f"; right {parts} before the first wrong one: {number_words(before)}"
        yield f"flips a {whole}: {number_words(number.mean)}{turns}"


def _conditions(one: _Part) -> Iterator[str]:
    for condition, found in one.by_condition.items():
        relative = "" if found.relative is None or condition == "full" else f"; {share(found.relative)} of full"
        difference = found.against_full
        if difference is not None and difference.difference is not None and difference.interval is not None:
            relative += f", {points(difference.difference)} ({point_range(difference.interval)})"
        able = "" if found.aptitude is None else f"; {aptitude_words(found.aptitude)}"
        yield f"{condition}: {_rate(found.rate)}{relative}{able}"


def condition_rates(one: _Part) -> str:
    """`full 82% (62 to 93), concat 73% (52 to 88), sharded 38% (20 to 61)`: the interval of each is over tasks. Empty
    if tasks were put in only one way: that is the rate of the run."""
    if one.no_rate != "several-conditions":
        return ""
    return ", ".join(f"{condition} {rate_words(found.rate)}" for condition, found in one.by_condition.items())


def why_no_rate(one: _Part) -> str:
    """`no rate yet`; empty if there is a rate, and for several targets or variants, whose rates are shown."""
    found = one.rate
    if not isinstance(found, NoRate) or found.because in ("several-targets", "several-variants"):
        return ""
    return no_rate_words(found)


def aptitude_words(found: Aptitude) -> str:
    """`aptitude 0.92, unreliability 0.40 (10 repeats)`"""
    numbers = f"aptitude {coefficient(found.aptitude)}, unreliability {coefficient(found.unreliability)}"
    return f"{numbers} ({found.repeats:,} repeats)"


def _repeats(summary: Summary) -> Iterator[str]:
    parts = list(_of_parts(summary, _repeats_of))
    if parts:
        together = f"{cases_passed(summary)} passed together"
        yield from [together, *parts] if groups_of(summary) else [", ".join([together, *filter(None, parts)])]


def _repeats_of(one: _Part) -> list[str]:
    """Of a target without a rate neither pass^k nor pass@k is one."""
    if one.repeats is None:
        return []
    if isinstance(one.rate, NoRate) and one.rate.because in ("untested", "errors"):
        return [no_rate_words(one.rate)]
    return [", ".join(_repeated(one.repeats))]


def _follow_up(row: Recovery) -> str:
    recovered = share_words(row.share, row.interval)
    over = _over(row.at_risk, "conversation", row.cases or None)
    text = f"after follow-up {row.depth}: {row.recovered} of {row.at_risk}, {recovered}{over}"
    return f"{text}, {count(row.errors, 'error')}" if row.errors else text


def _repeated(repeats: Repeats) -> Iterator[str]:
    """pass^k and pass@k, and the number of their cases if it is not that of all."""
    known = [(name, one) for name, one in (("pass^", repeats.pass_hat_k), ("pass@", repeats.pass_at_k)) if one.cases]
    for name, one in known:
        yield f"{name}{one.k} {share_words(one.rate or 0.0, one.interval or (0.0, 1.0))}"
    if known and repeats.pass_hat_k.short:
        every = repeats.pass_hat_k.cases + repeats.pass_hat_k.short
        yield f"over {repeats.pass_hat_k.cases:,} of {count(every, 'case')}"
    if repeats.flip_rate.rate is not None:
        yield f"a verdict differs between two runs in {share(repeats.flip_rate.rate)}"


def _scores_of(summary: Summary) -> Iterator[_Labelled]:
    def lines(one: _Part) -> list[str]:
        score = one.score
        return [_scores(score, one)] if score is not None and score.cases and not _is_of_verdicts(score) else []

    score = summary.score
    is_even = score.mean is None or score.min == score.max or _is_of_verdicts(score)  # there is nothing to rank
    yield "score", chain(_of_parts(summary, lines), () if is_even else _histogram(score))
    if not is_even:
        yield "best", [_ranked(score.best)]
        yield "worst", [_ranked(score.worst)]


def _is_of_verdicts(score: Scores) -> bool:
    """Whether each score is 0 or 1 and says what the verdict says: then no other scores of this mean vary more."""
    mean = score.mean
    if mean is None or score.stdev is None:
        return mean in (0, 1)
    most = score.cases * mean * (1 - mean)
    return abs((score.cases - 1) * score.stdev**2 - most) < 1e-6 * score.cases


def _histogram(score: Scores) -> Iterator[str]:
    most, bins = max(score.histogram), len(score.histogram)
    for position, number in enumerate(score.histogram):
        low, high = position / bins, (position + 1) / bins
        yield f"{number_words(low)} to {number_words(high)} {'#' * round(20 * number / most):20} {number}"


def _scores(score: Scores, of: _Part) -> str:
    scored = of.passed + of.failed
    over = f", over {scored} of {scored + of.errors} conversations" if of.errors else ""
    known = ((name, getattr(score, name)) for name in ("mean", "median", "min", "max", "stdev"))
    return ", ".join(f"{name} {number_words(value)}" for name, value in known if value is not None) + over


def _ranked(cases: Iterable[ScoredCase]) -> str:
    return ", ".join(f"{case.id} {number_words(case.score)}" for case in cases)


def _metric(named: tuple[str, Metric]) -> str:
    """An error has no score, so the number of errors is shown, and the mean that counts them as failures."""
    name, metric = named
    cases, errors = metric.cases, metric.errors
    total = metric.total_cases or cases
    over = count(cases, "case") if cases == total else f"{cases} of {count(total, 'case')}"
    if metric.replies != metric.total_replies:
        over += f", {metric.replies} of {metric.total_replies} replies"
    if metric.mean is None:
        return f"{name} is not known over {over}: {count(errors, 'error')}"
    spread = "" if metric.standard_error is None else f", standard error {number_words(metric.standard_error)}"
    as_failures = (
        f", {number_words(metric.mean_with_errors or 0.0)} with {count(errors, 'error')} as 0" if errors else ""
    )
    return f"{name} {number_words(metric.mean)} over {over}{spread}{as_failures}"


def _judges(judges: tuple[JudgeSummary, ...]) -> Iterator[str]:
    yield from map(_judge, judges[:MOST_JUDGES])
    if len(judges) > MOST_JUDGES:
        yield f"and {count(len(judges) - MOST_JUDGES, 'more judge')}; --format json shows all"


def _judge(judge: JudgeSummary) -> str:
    """The replies that a judge passed, and its reliability."""
    errors = f", {count(judge.errors, 'error')}" if judge.errors else ""
    check = shortened(judge.check, LONGEST_CHECK)
    name = f"{judge.name}, " if judge.name else ""
    text = f"{name}{judge.model} on {check}: {judge.passed} of {judge.judged} first replies passed{errors}; "
    passport = judge.passport
    if passport is None:
        return text + "uncalibrated (see `rejoinder judge test`)"
    figures = passport.figures
    parts = [f"agrees with humans on {share(figures.agreement)}"] if figures.agreement is not None else []
    if figures.kappa is not None:
        parts.append(f"kappa {coefficient(figures.kappa)}")
    return f"{text}{', '.join(parts)} ({count(passport.labels, 'label')})"


def _tokens(summary: Summary) -> Iterator[str]:
    usage, judges = summary.usage, summary.judge_usage
    about = "about " if usage.approximate or judges.approximate or summary.user_usage.approximate else ""
    text = f"{about}{summary.total_tokens:,} ({describe_tokens(usage)}"
    if judges.total_tokens:
        text += f", {judges.total_tokens:,} by judges"
    if summary.user_usage.total_tokens:
        text += f", {summary.user_usage.total_tokens:,} by simulated users"
    if summary.embeddings is not None and summary.embeddings.tokens:
        text += f", {summary.embeddings.tokens:,} for embeddings"
    yield f"{text})"
    groups = groups_of(summary).items()
    yield from (f"{name}: {one.usage.total_tokens:,} ({describe_tokens(one.usage)})" for name, one in groups)


def _cost(summary: Summary) -> Iterator[str]:
    """The known cost, and the models without a price: these are not free."""
    parts = [text for text in (known_cost(summary),) if text]
    if unpriced := unpriced_words(summary):
        parts.append(f"{'and' if parts else 'unknown:'} {unpriced}")
    if summary.judge_usage.total_tokens and summary.judge_cost is None:
        parts.append(f"{'and' if parts else 'unknown:'} no price for what judges used")
    if parts:
        yield " ".join(parts)


_BY_PART: dict[str, Callable[[_Part], Iterable[str]]] = {
    "recovery": lambda one: map(_follow_up, one.recovery),
    "net": lambda one: () if is_only_doubted(one) else _net(one.net_recovery),
    "repeated": lambda one: _repeated_replies(one.repeated),
    "hints": _hints,
    "doubted": _doubted,
    "steps": _steps,
    "tasks": _conditions,
}
