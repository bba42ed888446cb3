"""The summary of a run on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from rejoinder.report.money import describe_tokens, dollars

BAR_WIDTH = 20
MOST_STALE = 10
MOST_JUDGES = 5
"""Judges that are listed; a suite with a judge for each case has hundreds."""


def write_summary(run: dict[str, Any], summary: dict[str, Any], *, corrected: bool = False) -> Iterator[str]:
    """`corrected`: with the pass rates that people would see where a judge's errors are known."""
    names = ", ".join(dict.fromkeys(suite["name"] or PurePath(suite["path"]).name for suite in run["suites"]))
    targets = ", ".join(summary["by_target"]) or ", ".join(target["name"] for target in run["targets"])
    yield f"{names} on {targets}: {count(summary['total'], 'conversation')}"
    for one in run.get("given_up", ()):
        yield f"  {'given up':10}`{one['target']}`: {one['message']}"
    yield f"  {'result':10}{_result(summary)}"
    if summary["pass_rate"] is not None:
        yield f"  {'pass rate':10}{bar(summary)} {_rate(summary)}"
    yield from _recovery(summary)
    yield from _score(summary)
    yield from _metrics(summary.get("metrics", {}))
    yield from _targets(summary["by_target"])
    for position, judge in enumerate(summary.get("judges", ())[:MOST_JUDGES]):
        yield f"  {'' if position else 'judges':10}{_judge(judge)}"
        if corrected:
            yield f"  {'':10}{_corrected(judge)}"
    if len(summary.get("judges", ())) > MOST_JUDGES:
        yield f"  {'':10}and {count(len(summary['judges']) - MOST_JUDGES, 'more judge')}; --format json shows all"
    if run.get("judges_itself"):
        yield f"  {'judge':10}the target judged its own replies; name another with `judge_target`"
    yield f"  {'tokens':10}{_tokens(summary)}"
    yield from _cost(summary)
    yield f"  {'time':10}{_seconds(summary['duration_s'])}"
    for report in run.get("limits", ()):
        yield f"  {'limits':10}{_limits(report)}"
    yield from _budget(run.get("budget"))
    if run.get("from_cache") is not None:
        yield f"  {'cache':10}{_from_cache(run['from_cache'])}"
    for position, one in enumerate(run.get("stale", ())[:MOST_STALE]):
        yield f"  {'' if position else 'stale':10}{one}"
    if len(run.get("stale", ())) > MOST_STALE:
        yield f"  {'':10}and {len(run['stale']) - MOST_STALE} more recordings that nobody asked for"
    if run["in_doubt"]:
        calls = count(run["in_doubt"], "call")
        yield f"  {'in doubt':10}{calls} cut off before the answer was recorded; such a call may be paid for twice"


def bar(summary: dict[str, Any]) -> str:
    """What failed to the left, what passed to the right."""
    finished = summary["passed"] + summary["failed"] + summary["errors"]
    passed = round(BAR_WIDTH * summary["passed"] / finished)
    passed = min(max(passed, 1 if summary["passed"] else 0), BAR_WIDTH - (summary["passed"] < finished))
    return f"{'-' * (BAR_WIDTH - passed)}|{'+' * passed}"


def count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _result(summary: dict[str, Any]) -> str:
    parts = [
        f"{summary['passed']} passed ({summary['first_try']} on the first try, {summary['recovered']} recovered)",
        f"{summary['failed']} failed",
        count(summary["errors"], "error"),
    ]
    parts += [f"{summary[word]} {word}" for word in ("skipped", "unfinished") if summary[word]]
    return ", ".join(parts)


def _rate(summary: dict[str, Any]) -> str:
    finished = summary["passed"] + summary["failed"] + summary["errors"]
    over = _over(finished, "conversation", summary.get("cases"))
    return f"{summary['pass_rate']:.1%} ({_interval(summary['pass_rate_interval'])}{over})"


def _interval(interval: Any) -> str:
    return f"95 % interval {interval[0]:.1%} to {interval[1]:.1%}"


def _over(number: int, word: str, cases: int | None) -> str:
    """What a rate is over, where cases count more than once: only from several of them it can be told about others."""
    if cases is None or cases == number:
        return ""
    return f"; {count(number, word)} of {'1 case alone' if cases == 1 else f'{cases:,} cases, clustered by case'}"


def _recovery(summary: dict[str, Any]) -> Iterator[str]:
    for row in summary["recovery"]:
        low, high = row["interval"]
        title = "recovery" if row is summary["recovery"][0] else ""
        yield (
            f"  {title:10}after follow-up {row['depth']}: {row['recovered']} of {row['at_risk']}"
            f" ({row['recovered'] / row['at_risk']:.0%}, {low:.0%} to {high:.0%})"
        )


def _score(summary: dict[str, Any]) -> Iterator[str]:
    score, scored = summary["score"], summary["passed"] + summary["failed"]
    if score["mean"] is None:
        return
    over = f", over {scored} of {scored + summary['errors']} conversations" if summary["errors"] else ""
    figures = ", ".join(f"{name} {score[name]:.3g}" for name in ("mean", "median", "min", "max", "stdev"))
    yield f"  {'score':10}{figures}{over}"
    if score["min"] == score["max"]:
        return  # there is nothing to rank
    most = max(score["histogram"])
    for position, number in enumerate(score["histogram"]):
        low, high = position / len(score["histogram"]), (position + 1) / len(score["histogram"])
        yield f"  {'':10}{low:.1f} to {high:.1f} {'#' * round(20 * number / most):20} {number}"
    for title, names in (("best", score["best"]), ("worst", score["worst"])):
        yield f"  {title:10}{', '.join(_scored(one) for one in names)}"


def _metrics(metrics: dict[str, dict[str, Any]]) -> Iterator[str]:
    for position, (name, one) in enumerate(metrics.items()):
        yield f"  {'' if position else 'metrics':10}{name} {_metric(one)}"


def _metric(metric: dict[str, Any]) -> str:
    """An error has no score, so it is told how many there were, and what the mean would be if they were failures."""
    cases, errors = metric["cases"], metric.get("errors", 0)
    total = metric.get("total_cases", cases)
    over = count(cases, "case") if cases == total else f"{cases} of {count(total, 'case')}"
    if metric["mean"] is None:
        return f"is not known over {over}: {count(errors, 'error')}"
    spread = "" if metric["standard_error"] is None else f", standard error {metric['standard_error']:.3g}"
    as_failures = f", {metric['mean_with_errors']:.3g} with {count(errors, 'error')} as 0" if errors else ""
    return f"{metric['mean']:.3g} over {over}{spread}{as_failures}"


def _judge(judge: dict[str, Any]) -> str:
    """What a judge passed, and what is known about how far to trust it."""
    errors = f", {count(judge['errors'], 'error')}" if judge["errors"] else ""
    text = f"{judge['model']} on {_shortened(judge['check'])}: {judge['passed']} of {judge['judged']} passed{errors}; "
    passport = judge.get("passport")
    if passport is None:
        return text + "uncalibrated (see `rejoinder judge test`)"
    figures = passport["figures"]
    parts = [f"agrees with people on {figures['agreement']:.0%}"] if figures.get("agreement") is not None else []
    if figures.get("kappa") is not None:
        parts.append(f"kappa {figures['kappa']:.2f}")
    return f"{text}{', '.join(parts)} ({count(passport['labels'], 'label')})"


def _corrected(judge: dict[str, Any]) -> str:
    found = judge.get("corrected")
    if found is None:
        return "no corrected pass rate: it needs a passport of a judge that tells what people pass from what they fail"
    over = _over(found["verdicts"], "verdict", found["cases"])
    return f"corrected pass rate {found['rate']:.1%} ({_interval(found['interval'])}, {found['method']}{over})"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _budget(budget: dict[str, Any] | None) -> Iterator[str]:
    if budget is None:
        return
    parts: list[str] = []
    if budget["usd"] is not None:
        parts.append(f"{dollars(budget['spent_usd'])} of {dollars(budget['usd'])}")
    if budget["tokens"] is not None:
        parts.append(f"{budget['spent_tokens']:,} of {budget['tokens']:,} tokens")
    end = ""
    if budget["reached"]:
        usd, tokens = budget.get("needed") or (0, 0)
        too_dear = budget["usd"] is not None and budget["spent_usd"] + usd > budget["usd"]
        most = dollars(usd) if too_dear else f"{tokens:,} tokens"
        end = f"; reached: the next call can come to {most}, and that does not fit any more"
    yield f"  {'budget':10}{', '.join(parts)}{end}"


def _from_cache(kept: dict[str, Any]) -> str:
    repeated = kept.get("repeated", 0)
    earlier = kept["answers"] - repeated
    origins = [f"{count(earlier, 'answer')} from earlier runs"] if earlier or not repeated else []
    origins += [f"{count(repeated, 'answer')} repeated within this run"] if repeated else []
    text = ", ".join(origins)
    if kept["tokens"]:
        cost = f" and {dollars(kept['cost'])} of the cost" if kept["cost"] else ""
        text += f"; {kept['tokens']:,} of the tokens{cost} are theirs, and were not spent again"
    return text + (f"; not all answers could be kept: {kept['trouble']}" if kept.get("trouble") else "")


def _targets(by_target: dict[str, dict[str, Any]]) -> Iterator[str]:
    """One line a target, where there are several to compare."""
    if len(by_target) < 2:
        return
    rows = [("target", "passed", "rate (95 %)", "first try", "errors", "tokens", "cost", "reply")]
    for name, one in by_target.items():
        low, high = one["pass_rate_interval"] or (0, 0)
        rate = "-" if one["pass_rate"] is None else f"{one['pass_rate']:.0%} ({low:.0%} to {high:.0%})"
        cost = "-" if one["cost"] is None else dollars(one["cost"])
        reply = "-" if one["duration_s"] is None else f"{one['duration_s']:.2f} s"
        counts = f"{one['passed']}/{one['total'] - one['skipped']}", rate, str(one["first_try"]), str(one["errors"])
        rows.append((name, *counts, f"{one['usage']['total_tokens']:,}", cost, reply))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        figures = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        yield f"  {'':10}{row[0].ljust(widths[0])}  {'  '.join(figures)}"


def _tokens(summary: dict[str, Any]) -> str:
    usage, judges = summary["usage"], summary["judge_usage"]
    about = "about " if usage.get("approximate") or judges.get("approximate") else ""
    text = f"{about}{summary['total_tokens']:,} ({describe_tokens(usage)}"
    if judges["total_tokens"]:
        text += f", {judges['total_tokens']:,} by judges"
    if summary.get("embeddings", {}).get("tokens"):
        text += f", {summary['embeddings']['tokens']:,} for embeddings"
    return f"{text})"


def _cost(summary: dict[str, Any]) -> Iterator[str]:
    """What is known, and what is not: a model without a price is not free."""
    parts: list[str] = []
    breakdown, unpriced = summary["cost_breakdown"], summary["unpriced"]
    embedded = summary.get("embeddings", {}).get("cost")
    known = [cost for cost in (summary["cost"], summary["judge_cost"], embedded) if cost is not None]
    if breakdown is not None and summary["cost"] is None:
        known.append(breakdown["input"] + breakdown["output"])
    if known:
        inner = [f"{dollars(breakdown[kind])} {kind}" for kind in ("input", "output")] if breakdown else []
        if summary["judge_cost"]:
            inner.append(f"{dollars(summary['judge_cost'])} by judges")
        if embedded:
            inner.append(f"{dollars(embedded)} for embeddings")
        about = "about " if summary["usage"].get("approximate") else ""
        parts.append(about + dollars(sum(known)) + (f" ({', '.join(inner)})" if inner else ""))
    # Functions of one's own may well cost nothing; they are named where they make a sum incomplete.
    unpriced = {name: calls for name, calls in unpriced.items() if known or "/" in name}
    if unpriced:
        names = ", ".join(f"{name} ({count(calls, 'call')})" for name, calls in unpriced.items())
        parts.append(f"{'and' if known else 'unknown:'} no price for {names}; `prices` in the configuration can say it")
    if summary["judge_usage"]["total_tokens"] and summary["judge_cost"] is None:
        parts.append(f"{'and' if parts else 'unknown:'} no price for what judges used")
    if parts:
        yield f"  {'cost':10}{' '.join(parts)}"


def _limits(report: dict[str, Any]) -> str:
    text = f"{report['name']}: {report['refused']:,} of {report['requests']:,} requests refused"
    if report["waited_s"]:
        text += f", {report['waited_s']:,.1f} s waited over all calls"
    if report["rate"] is not None:
        text += f", settled on {report['rate']:g} requests a second"
    if report["window"] is not None:
        text += f", settled on {report['window']} at once"
    return text


def _seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def _scored(one: dict[str, Any]) -> str:
    return f"{one['id']} {one['score']:.3g}"
