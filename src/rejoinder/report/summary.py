"""The summary of a run on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rejoinder.model import Receipt, Result, Summary, TurnResult, UsageResult
from rejoinder.model.figures import Aptitude, NetRecovery, Rate
from rejoinder.model.results import Interval
from rejoinder.model.runs import (
    BudgetUse,
    CacheUse,
    ConfirmedCase,
    JudgeSummary,
    LimiterResult,
    Metric,
    QuarantinedCase,
    Recovery,
    Repeats,
    ScoredCase,
    Scores,
    SpoiltCounts,
    TargetSummary,
)
from rejoinder.report.words import count, money, shortened
from rejoinder.spelling import list_words

BAR_WIDTH = 20
MOST_STALE = 10
MOST_QUARANTINED = 10
MOST_ALWAYS_ASKED = 5
JUDGED_ITSELF = "the target judged its own replies; name another with `judge_target`"
LONGEST_CHECK = 60
"""Characters of a judge's check."""
MOST_JUDGES = 5
"""Judges that are listed; a suite with a judge for each case has hundreds."""


def write_summary(run: Receipt, summary: Summary) -> Iterator[str]:
    names = ", ".join(dict.fromkeys(suite.title for suite in run.suites))
    targets = ", ".join(summary.by_target) or ", ".join(target.name for target in run.targets)
    chosen = "" if run.chosen is None else f", {run.chosen}"
    yield f"{names} on {targets}: {count(summary.total, 'conversation')}{chosen}"
    for disabled in run.given_up:
        yield _line("disabled", f"`{disabled.target}`: {disabled.message}")
    yield _line("result", result_words(summary))
    yield from _rates(run, summary)
    parts = _parts(summary)
    yield from _lines("recovery", (f"{of}{_follow_up(row)}" for of, one in parts for row in one.recovery))
    answered = [(of, one) for of, one in parts if not is_only_doubted(one)]
    yield from _lines("net", (f"{of}{words}" for of, one in answered for words in _net(one.net_recovery)))
    yield from _lines("hints", (f"{of}{words}" for of, one in parts for words in _hints(one)))
    yield from _lines("doubted", (f"{of}{words}" for of, one in parts for words in _doubted(one)))
    yield from _lines("tasks", (f"{of}{words}" for of, one in parts for words in _conditions(one)))
    yield from _lines("users", spoilt_words(summary.spoilt))
    yield from _lines("faults", fault_words(summary))
    yield from _repeats(summary)
    yield from _lines("again", confirmed_words(summary))
    yield from _lines("apart", map(quarantine_words, summary.quarantined[:MOST_QUARANTINED]))
    yield from _score(summary)
    metrics = ((of, name, metric) for of, one in parts for name, metric in one.metrics.items())
    yield from _lines("metrics", (f"{of}{name} {_metric(metric)}" for of, name, metric in metrics))
    yield from _groups("target", summary.by_target)
    yield from _groups("variant", summary.by_variant)
    yield from _lines("judges", _judges(summary.judges))
    if run.judges_itself:
        yield _line("judge", JUDGED_ITSELF)
    yield _line("tokens", _tokens(summary))
    yield from _cost(summary)
    yield _line("time", _seconds(summary.duration_s))
    yield from (_line("limits", limit_words(limiter)) for limiter in run.limits)
    if run.budget is not None:
        yield _line("budget", budget_words(run.budget))
    if run.from_cache is not None:
        words = cache_notes(run.from_cache)
        yield from _lines("cache", words if run.from_cache.answers else [cache_words(run.from_cache), *words])
    yield from _lines("stale", stale_words(run.stale or ()))
    if run.in_doubt:
        yield _line("in doubt", doubt_words(run.in_doubt))


def doubt_words(calls: int) -> str:
    return f"{count(calls, 'call')} cut off before the answer was recorded; such a call may be made and paid for twice"


def _parts(summary: Summary) -> list[tuple[str, Summary | TargetSummary]]:
    """What has figures of its own: the run, or each of several targets or variants, after its name."""
    groups = summary.by_target if len(summary.by_target) > 1 else summary.by_variant
    if len(groups) < 2:
        return [("", summary)]
    return [(f"{name}: ", group) for name, group in groups.items()]


def _line(title: str, text: str) -> str:
    return f"  {title:10}{text}"


def _lines(title: str, texts: Iterable[str]) -> Iterator[str]:
    """The title before the first of several lines."""
    return (_line("" if place else title, text) for place, text in enumerate(texts))


def bar(summary: Summary) -> str:
    """What failed to the left, what passed to the right."""
    passed = round(BAR_WIDTH * summary.passed / summary.finished)
    passed = min(max(passed, 1 if summary.passed else 0), BAR_WIDTH - (summary.passed < summary.finished))
    return f"{'-' * (BAR_WIDTH - passed)}|{'+' * passed}"


def result_words(summary: Summary) -> str:
    parts = [
        f"{summary.passed} passed ({summary.passed_at_once} on the first try, {summary.recovered} recovered)",
        f"{summary.failed} failed",
        count(summary.errors, "error"),
    ]
    parts += [f"{summary.skipped} skipped"] if summary.skipped else []
    parts += [f"{summary.unfinished} unfinished"] if summary.unfinished else []
    parts += [f"{summary.apart} in quarantine"] if summary.apart else []
    parts += [f"{summary.spoilt.conversations} spoilt"] if summary.spoilt and summary.spoilt.conversations else []
    return ", ".join(parts)


def spoilt_numbers(spoilt: SpoiltCounts) -> str:
    """`2 of 20 (leak 1, role 1), counted apart`"""
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in spoilt.by_kind.items())
    return f"{spoilt.conversations:,} of {spoilt.of:,} ({kinds}), counted apart"


def bounds_words(spoilt: SpoiltCounts | None) -> str:
    """The bounds that stand beside a rate without spoilt conversations; empty if there is no rate."""
    from rejoinder.stats.words import spoilt_bounds

    if spoilt is None or spoilt.bounds is None or spoilt.bounds == (0, 1):
        return ""
    return spoilt_bounds(spoilt.conversations, spoilt.bounds)


def fault_words(summary: Summary) -> Iterator[str]:
    """What became of the failures of tools that were wanted. One that never landed makes a pass mean less."""
    faults = summary.faults
    if faults is None:
        return
    landed = f"{faults.landed:,} of {count(faults.planned, 'fault')} of tools landed"
    recovered = f", recovered after {faults.recovered:,} of {faults.landed:,}" if faults.landed else ""
    yield f"{landed}{recovered}"
    if left := faults.planned - faults.landed:
        what = "it tested nothing: its tool was" if left == 1 else "they tested nothing: their tools were"
        named = f"`rejoinder show -v` names {'it' if left == 1 else 'them'}"
        yield f"{count(left, 'fault')} never landed; {what} not called so often ({named})"


def spoilt_words(spoilt: SpoiltCounts | None) -> Iterator[str]:
    """What simulated users did to the figures. Where no judge has looked at them, they are never called clean."""
    if spoilt is None:
        return
    if spoilt.conversations:
        yield f"spoilt: {spoilt_numbers(spoilt)}"
    if spoilt.cases:
        cases = "1 case" if spoilt.cases == 1 else f"{spoilt.cases:,} cases"
        yield f"nothing was measured in {cases}: the simulated user spoilt every conversation"
    if spoilt.not_audited:
        yield f"simulated users: {spoilt.not_audited:,} of {count(spoilt.of, 'conversation')} not audited"


def _selection(run: Receipt, summary: Summary) -> str | None:
    """What a rate of only some conversations is not a rate of."""
    options = run.reported
    stopped = options.fail_fast and summary.skipped > 0
    only_failed, again = options.failed_from is not None, run.asked_again
    if not (summary.unfinished or only_failed or stopped or again):
        return None
    from rejoinder.stats import selection_words

    finished, planned = summary.finished, summary.finished + summary.unfinished
    return selection_words(finished, planned, only_failed=only_failed, stopped=stopped, retried=again)


def _rates(run: Receipt, summary: Summary) -> Iterator[str]:
    """The pass rate, and what it is not a rate of."""
    words, rates = _selection(run, summary), summary.rates
    stopped = run.reported.fail_fast and summary.skipped > 0
    if summary.finished and not summary.passed + summary.failed:
        yield _line("pass rate", f"no rate: {summary.errors:,} of {summary.finished:,} had an error")
        return
    if rates is None or rates.eventual.rate is None or stopped:
        if words is not None:
            yield _line("pass rate", words)
        return
    beside = "".join(f"; {one}" for one in (words, bounds_words(summary.spoilt)) if one)
    yield _line("pass rate", f"{bar(summary)} {_rate(rates.eventual)}{beside}")
    if summary.recovery:
        gain = rates.gain
        yield _line(
            "first try", f"{_rate(rates.first_try)}; follow-ups added {gain.passed} of {gain.of} {_percent(gain)}"
        )


def _percent(rate: Rate) -> str:
    if rate.rate is None or rate.interval is None:
        return ""
    return f"({rate.rate:.0%}, {rate.interval[0]:.0%} to {rate.interval[1]:.0%})"


def _rate(rate: Rate) -> str:
    over = _over(rate.of, "conversation", rate.cases)
    text = f"{rate.rate:.1%} ({_interval(rate.interval)}{over})"
    if rate.errors and rate.without_errors is not None:
        text += f"; {rate.without_errors:.1%} of the {rate.of - rate.errors:,} without an error"
    return text


def _interval(interval: Interval | None) -> str:
    return "no interval" if interval is None else f"95 % interval {interval[0]:.1%} to {interval[1]:.1%}"


def _over(number: int, word: str, cases: int | None) -> str:
    """The sample of a rate, where cases count more than once: one case alone says nothing about others."""
    if cases is None or cases == number:
        return ""
    return f"; {count(number, word)} of {'1 case alone' if cases == 1 else f'{cases:,} cases, clustered by case'}"


def _net(net: NetRecovery | None) -> Iterator[str]:
    if net is not None and net.answered_back is not None and net.afresh is not None:
        from rejoinder.stats import net_words

        shares = f"answered back once {net.answered_back:.0%}, asked afresh {net.afresh:.0%}"
        yield f"{net_words(net)} ({shares} of {count(net.failures, 'failure')})"


def is_only_doubted(one: Summary | TargetSummary) -> bool:
    """Was every follow-up to a wrong reply a doubt, which right replies get as well? Then nothing was answered back:
    what became of them is "wrong to right"."""
    doubts, back = one.transitions, one.answered_back
    return doubts is not None and back is not None and back.of <= doubts.wrong_right.of + doubts.errors


def _hints(one: Summary | TargetSummary) -> Iterator[str]:
    for hint, row in one.by_hint.items():
        over = _over(row.at_risk, "conversation", row.cases)
        bounds = "" if row.interval is None else f" ({_interval(row.interval)}{over})"
        net = "".join(f"; net {words}" for words in _net(row.net_recovery))
        yield f"{hint}: {row.recovered} of {row.at_risk}{bounds}{net}"


def _doubted(one: Summary | TargetSummary) -> Iterator[str]:
    from rejoinder.stats import rate_words, transitions_words

    found = one.transitions
    if found is None:
        return
    yield f"after the first doubt: {transitions_words(found)}"
    if found.stationary is not None and found.stationary_interval is not None:
        low, high = found.stationary_interval
        yield f"asked for ever, if rates stayed as they are: {found.stationary:.0%} right ({low:.0%} to {high:.0%})"
    if one.caves is not None:
        yield f"right at first {one.caves.of}, wrong in the end {one.caves.passed}: caved {rate_words(one.caves)}"
    if found.number_of_flips is not None and found.number_of_flips.mean is not None:
        before = found.turn_of_flip.mean if found.turn_of_flip is not None else None
        turns = "" if before is None else f"; right replies before the first wrong one: {before:.3g}"
        yield f"flips a question: {found.number_of_flips.mean:.3g}{turns}"
    if found.errors:
        yield f"{count(found.errors, 'doubt')} answered by an error, in no rate"


def _conditions(one: Summary | TargetSummary) -> Iterator[str]:
    for condition, found in one.by_condition.items():
        relative = "" if found.relative is None or condition == "full" else f"; {found.relative:.0%} of full"
        difference = found.against_full
        if difference is not None and difference.difference is not None and difference.interval is not None:
            from rejoinder.stats import point_range, points

            relative += f", {points(difference.difference)} ({point_range(difference.interval)})"
        able = "" if found.aptitude is None else f"; {aptitude_words(found.aptitude)}"
        yield f"{condition}: {_rate(found.rate)}{relative}{able}"


def condition_rates(one: Summary | TargetSummary) -> str:
    """`full 82% (62 to 93), concat 73% (52 to 88), sharded 38% (20 to 61)`: the interval of each is over tasks. Empty
    where tasks were put in one way alone: that is the rate of the run."""
    from rejoinder.stats import rate_words

    if one.no_rate != "several-conditions":
        return ""
    return ", ".join(f"{condition} {rate_words(found.rate)}" for condition, found in one.by_condition.items())


def aptitude_words(found: Aptitude) -> str:
    """`aptitude 0.92, unreliability 0.40 (10 repeats)`"""
    numbers = f"aptitude {found.aptitude:.2f}, unreliability {found.unreliability:.2f}"
    return f"{numbers} ({found.repeats:,} repeats)"


def _follow_up(row: Recovery) -> str:
    low, high = row.interval
    text = f"after follow-up {row.depth}: {row.recovered} of {row.at_risk}"
    over = _over(row.at_risk, "conversation", row.cases or None)
    text += f" ({row.recovered / row.at_risk:.0%}, {low:.0%} to {high:.0%}{over})"
    return f"{text}, {count(row.errors, 'error')}" if row.errors else text


def _repeats(summary: Summary) -> Iterator[str]:
    found = [(of, one.repeats) for of, one in _parts(summary) if one.repeats is not None]
    if not found:
        return
    cases = summary.by_case
    together = f"{cases.passed} of {count(cases.total, 'case')} passed together"
    if len(_parts(summary)) > 1:
        yield from _lines("repeats", [together, *(f"{of}{', '.join(_repeated(repeats))}" for of, repeats in found)])
    else:
        yield _line("repeats", ", ".join([together, *_repeated(found[0][1])]))


def _repeated(repeats: Repeats) -> Iterator[str]:
    """pass^k and pass@k, with the cases that they are of where they are not of all."""
    known = [(name, one) for name, one in (("pass^", repeats.pass_hat_k), ("pass@", repeats.pass_at_k)) if one.cases]
    for name, one in known:
        low, high = one.interval or (0.0, 1.0)
        yield f"{name}{one.k} {one.rate:.0%} ({low:.0%} to {high:.0%})"
    if known and repeats.pass_hat_k.short:
        every = repeats.pass_hat_k.cases + repeats.pass_hat_k.short
        yield f"over {repeats.pass_hat_k.cases:,} of {count(every, 'case')}"
    if repeats.flip_rate.rate is not None:
        yield f"a verdict differs between two runs in {repeats.flip_rate.rate:.0%}"


def quarantine_words(case: QuarantinedCase) -> str:
    text = f"{case.id} on {case.target}: {case.passed} of {case.trials} passed"
    if case.active:
        return f"{text}, not counted until {case.until} ({case.reason})"
    return f"{text}; its quarantine ended on {case.until}, so it counts again ({case.reason})"


def confirmed_words(summary: Summary) -> Iterator[str]:
    """`further trials: c3 0 of 7, c4 1 of 3 passed; not counted; $0.02`: of cases that fail and passed before."""
    cases = summary.confirmed
    if not cases:
        return
    named = [f"{case.id} {case.passed} of {_asked(case)}" for case in cases[:MOST_QUARANTINED]]
    more = f" and {count(len(cases) - MOST_QUARANTINED, 'more case')}" if len(cases) > MOST_QUARANTINED else ""
    costs = [case.cost for case in cases]
    known = sum(cost for cost in costs if cost is not None)
    cost = f"; {money(known)} beside the cost of the run" if known and None not in costs else ""
    yield f"asked again, not counted: {', '.join(named)}{more} passed{cost}"


def _asked(case: ConfirmedCase) -> str:
    return f"{case.trials} ({count(case.errors, 'error')})" if case.errors else f"{case.trials}"


def _score(summary: Summary) -> Iterator[str]:
    parts = ((of, one.score, one) for of, one in _parts(summary))
    yield from _lines("score", (f"{of}{_scores(score, one)}" for of, score, one in parts if score and score.cases))
    score = summary.score
    if score.mean is None or score.min == score.max:
        return  # there is nothing to rank
    most, bins = max(score.histogram), len(score.histogram)
    for position, number in enumerate(score.histogram):
        low, high = position / bins, (position + 1) / bins
        yield _line("", f"{low:.1f} to {high:.1f} {'#' * round(20 * number / most):20} {number}")
    yield _line("best", _ranked(score.best))
    yield _line("worst", _ranked(score.worst))


def _scores(score: Scores, of: Summary | TargetSummary) -> str:
    scored = of.passed + of.failed
    over = f", over {scored} of {scored + of.errors} conversations" if of.errors else ""
    known = ((name, getattr(score, name)) for name in ("mean", "median", "min", "max", "stdev"))
    return ", ".join(f"{name} {value:.3g}" for name, value in known if value is not None) + over


def _ranked(cases: Iterable[ScoredCase]) -> str:
    return ", ".join(f"{case.id} {case.score:.3g}" for case in cases)


def _metric(metric: Metric) -> str:
    """An error has no score, so the number of errors is shown, and the mean that counts them as failures."""
    cases, errors = metric.cases, metric.errors
    total = metric.total_cases or cases
    over = count(cases, "case") if cases == total else f"{cases} of {count(total, 'case')}"
    if metric.replies != metric.total_replies:
        over += f", {metric.replies} of {metric.total_replies} replies"
    if metric.mean is None:
        return f"is not known over {over}: {count(errors, 'error')}"
    spread = "" if metric.standard_error is None else f", standard error {metric.standard_error:.3g}"
    as_failures = f", {metric.mean_with_errors:.3g} with {count(errors, 'error')} as 0" if errors else ""
    return f"{metric.mean:.3g} over {over}{spread}{as_failures}"


def _judges(judges: tuple[JudgeSummary, ...]) -> Iterator[str]:
    yield from map(_judge, judges[:MOST_JUDGES])
    if len(judges) > MOST_JUDGES:
        yield f"and {count(len(judges) - MOST_JUDGES, 'more judge')}; --format json shows all"


def _judge(judge: JudgeSummary) -> str:
    """What a judge passed, and what is known about how far to trust it."""
    errors = f", {count(judge.errors, 'error')}" if judge.errors else ""
    check = shortened(judge.check, LONGEST_CHECK)
    name = f"{judge.name}, " if judge.name else ""
    text = f"{name}{judge.model} on {check}: {judge.passed} of {judge.judged} first replies passed{errors}; "
    passport = judge.passport
    if passport is None:
        return text + "uncalibrated (see `rejoinder judge test`)"
    figures = passport.figures
    parts = [f"agrees with people on {figures.agreement:.0%}"] if figures.agreement is not None else []
    if figures.kappa is not None:
        parts.append(f"kappa {figures.kappa:.2f}")
    return f"{text}{', '.join(parts)} ({count(passport.labels, 'label')})"


def corrected_words_of(judge: JudgeSummary) -> str:
    """The pass rate that people would see, where a judge's errors are known."""
    name = judge.name or f"{judge.model} on {shortened(judge.check, LONGEST_CHECK)}"
    if judge.corrected is None:
        return f"{name}: no corrected pass rate: the judge has no passport, or does not tell passes from failures"
    from rejoinder.stats import corrected_words

    return f"{name}: corrected pass rate of first replies {corrected_words(judge.corrected)}"


def budget_words(budget: BudgetUse) -> str:
    parts: list[str] = []
    if budget.usd is not None:
        parts.append(f"{dollars(budget.spent_usd)} of {dollars(budget.usd)}")
    if budget.tokens is not None:
        parts.append(f"{budget.spent_tokens:,} of {budget.tokens:,} tokens")
    if not budget.reached:
        return ", ".join(parts)
    usd, tokens = budget.needed
    too_dear = budget.usd is not None and budget.spent_usd + usd > budget.usd
    most = dollars(usd) if too_dear else f"{tokens:,} tokens"
    return f"{', '.join(parts)}; reached: the next call can cost up to {most}, which is more than what is left"


def cache_notes(use: CacheUse | None) -> list[str]:
    """What has to be known about the cache beside the result."""
    if use is None:
        return []
    notes = [cache_words(use)] if use.answers or use.trouble or use.ignored else []
    return notes + ([_always_asked_words(use.always_asked)] if use.always_asked else [])


def _always_asked_words(names: tuple[str, ...]) -> str:
    shown = list_words([f"`{name}`" for name in names[:MOST_ALWAYS_ASKED]])
    more = f" and {len(names) - MOST_ALWAYS_ASKED} more" if len(names) > MOST_ALWAYS_ASKED else ""
    return f"not cached: {shown}{more} (only LLM APIs are, unless a target says `cache: true`)"


def cache_words(use: CacheUse) -> str:
    earlier = use.answers - use.repeated
    origins = [f"{count(earlier, 'answer')} from earlier runs"] if earlier or not use.repeated else []
    origins += [f"{count(use.repeated, 'answer')} repeated within this run"] if use.repeated else []
    text = ", ".join(origins)
    if use.tokens:
        cost = f" and {dollars(use.cost)} of the cost" if use.cost else ""
        text += f"; {use.tokens:,} of the tokens{cost} belong to them and were not billed again"
    if use.ignored:
        text += f"; {count(use.ignored, 'stored answer')} not sealed by your rejoinder, and asked again"
    return text + (f"; not all answers could be stored: {use.trouble}" if use.trouble else "")


def stale_words(recordings: tuple[str, ...]) -> Iterator[str]:
    yield from recordings[:MOST_STALE]
    if len(recordings) > MOST_STALE:
        yield f"and {len(recordings) - MOST_STALE} more recordings that no call used"


def _groups(what: str, groups: dict[str, TargetSummary]) -> Iterator[str]:
    """One line for each target, or variant, if there are several to compare."""
    if len(groups) < 2:
        return
    rows = [(what, "passed", "rate (95 %)", "first try", "errors", "tokens", "cost", "reply")]
    rows += [_target_row(name, group) for name, group in groups.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        figures = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        yield _line("", f"{row[0].ljust(widths[0])}  {'  '.join(figures)}")


def _target_row(name: str, target: TargetSummary) -> tuple[str, str, str, str, str, str, str, str]:
    low, high = target.pass_rate_interval or (0, 0)
    return (
        name,
        f"{target.passed}/{target.total - target.skipped}",
        f"{target.pass_rate:.0%} ({low:.0%} to {high:.0%})" if target.has_rate else "no rate",
        str(target.first_try),
        str(target.errors),
        f"{target.usage.total_tokens:,}",
        "-" if target.cost is None else dollars(target.cost),
        "-" if target.duration_s is None else f"{target.duration_s:.2f} s",
    )


def _tokens(summary: Summary) -> str:
    usage, judges = summary.usage, summary.judge_usage
    about = "about " if usage.approximate or judges.approximate or summary.user_usage.approximate else ""
    text = f"{about}{summary.total_tokens:,} ({describe_tokens(usage)}"
    if judges.total_tokens:
        text += f", {judges.total_tokens:,} by judges"
    if summary.user_usage.total_tokens:
        text += f", {summary.user_usage.total_tokens:,} by simulated users"
    if summary.embeddings is not None and summary.embeddings.tokens:
        text += f", {summary.embeddings.tokens:,} for embeddings"
    return f"{text})"


def _cost(summary: Summary) -> Iterator[str]:
    """What is known, and what is not: a model without a price is not free."""
    parts = [text for text in (_known_cost(summary),) if text]
    if unpriced := unpriced_words(summary):
        parts.append(f"{'and' if parts else 'unknown:'} {unpriced}")
    if summary.judge_usage.total_tokens and summary.judge_cost is None:
        parts.append(f"{'and' if parts else 'unknown:'} no price for what judges used")
    if parts:
        yield _line("cost", " ".join(parts))


def unpriced_words(summary: Summary) -> str:
    """The models whose price is not known. Functions of the user's may well cost nothing: they are named where they
    make a sum incomplete."""
    known = bool(_known_cost(summary))
    unpriced = {name: calls for name, calls in summary.unpriced.items() if known or "/" in name}
    if not unpriced:
        return ""
    names = ", ".join(f"{name} ({count(calls, 'call')})" for name, calls in unpriced.items())
    return f"no price for {names}; set it under `prices` in the configuration"


def _known_cost(summary: Summary) -> str:
    parts, judges = summary.cost_breakdown, summary.judge_cost
    embedded = summary.embeddings.cost if summary.embeddings is not None else None
    known = [cost for cost in (summary.cost, judges, summary.user_cost, embedded) if cost is not None]
    if parts is not None and summary.cost is None:
        known.append(parts.input + parts.output)
    if not known:
        return ""
    inner = [f"{dollars(parts.input)} input", f"{dollars(parts.output)} output"] if parts is not None else []
    inner += [f"{dollars(judges)} by judges"] if judges else []
    inner += [f"{dollars(summary.user_cost)} by simulated users"] if summary.user_cost else []
    inner += [f"{dollars(embedded)} for embeddings"] if embedded else []
    about = "about " if summary.usage.approximate else ""
    return about + dollars(sum(known)) + (f" ({', '.join(inner)})" if inner else "")


def limit_words(limiter: LimiterResult) -> str:
    text = f"{limiter.name}: {limiter.refused:,} of {limiter.requests:,} requests refused"
    if limiter.waited_s:
        text += f", {limiter.waited_s:,.1f} s waited over all calls"
    if limiter.rate is not None:
        text += f", settled on {limiter.rate:g} requests a second"
    if limiter.window is not None:
        text += f", settled on {limiter.window} at once"
    return text


def _seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def dollars(amount: float) -> str:
    """Cents matter in a large sum, and millionths in the price of one reply."""
    return f"${amount:,.{_places_of(amount)}f}"


def dollars_alike(*amounts: float) -> list[str]:
    """The same for amounts that stand beside each other: with as many digits behind the point."""
    places = max((_places_of(amount) for amount in amounts if amount), default=2)
    return [f"${amount:,.{places}f}" for amount in amounts]


def _places_of(amount: float) -> int:
    return 2 if amount == 0 or amount >= 1 else 4 if amount >= 0.01 else 6


def describe_tokens(usage: UsageResult) -> str:
    """`1,204 in, 300 cached, 88 out, 40 thinking`"""
    parts = [f"{usage.input_tokens:,} in"]
    if usage.cached_tokens:
        parts.append(f"{usage.cached_tokens:,} cached")
    parts.append(f"{usage.output_tokens:,} out")
    if usage.reasoning_tokens:
        parts.append(f"{usage.reasoning_tokens:,} thinking")
    return ", ".join(parts)


def describe_spending(spent: Result | TurnResult) -> str:
    """What a turn or a conversation used and cost."""
    about = "about " if spent.usage.approximate else ""
    text = f"{about}{spent.usage.total_tokens:,} tokens ({describe_tokens(spent.usage)})"
    if spent.cost is None:
        return text
    text += f", {about}{dollars(spent.cost)}"
    parts = spent.cost_breakdown
    return text if parts is None else f"{text} ({dollars(parts.input)} input, {dollars(parts.output)} output)"
