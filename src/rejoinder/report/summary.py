"""The summary of a run on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

BAR_WIDTH = 20


def write_summary(run: dict[str, Any], summary: dict[str, Any]) -> Iterator[str]:
    names = ", ".join(dict.fromkeys(suite["name"] or PurePath(suite["path"]).name for suite in run["suites"]))
    targets = ", ".join(summary["by_target"])
    yield f"{names} on {targets}: {count(summary['total'], 'conversation')}"
    yield f"  {'result':10}{_result(summary)}"
    if summary["pass_rate"] is not None:
        yield f"  {'pass rate':10}{bar(summary)} {_rate(summary['pass_rate'], summary['pass_rate_interval'])}"
    yield from _recovery(summary)
    yield from _score(summary["score"])
    yield from _targets(summary["by_target"])
    if run.get("judges_itself"):
        yield f"  {'judge':10}the target judged its own replies; name another with `judge_target`"
    yield f"  {'tokens':10}{_tokens(summary)}"
    yield f"  {'time':10}{_seconds(summary['duration_s'])}"
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


def _rate(rate: float, interval: Any) -> str:
    low, high = interval
    return f"{rate:.1%} (95 % interval {low:.1%} to {high:.1%})"


def _recovery(summary: dict[str, Any]) -> Iterator[str]:
    for row in summary["recovery"]:
        low, high = row["interval"]
        title = "recovery" if row is summary["recovery"][0] else ""
        yield (
            f"  {title:10}after follow-up {row['depth']}: {row['recovered']} of {row['at_risk']}"
            f" ({row['recovered'] / row['at_risk']:.0%}, {low:.0%} to {high:.0%})"
        )


def _score(score: dict[str, Any]) -> Iterator[str]:
    if score["mean"] is None:
        return
    figures = ", ".join(f"{name} {score[name]:.3g}" for name in ("mean", "median", "min", "max", "stdev"))
    yield f"  {'score':10}{figures}"
    most = max(score["histogram"])
    for position, number in enumerate(score["histogram"]):
        low, high = position / len(score["histogram"]), (position + 1) / len(score["histogram"])
        yield f"  {'':10}{low:.1f} to {high:.1f} {'#' * round(20 * number / most):20} {number}"
    for title, names in (("best", score["best"]), ("worst", score["worst"])):
        yield f"  {title:10}{', '.join(_scored(one) for one in names)}"


def _targets(by_target: dict[str, dict[str, Any]]) -> Iterator[str]:
    if len(by_target) < 2:
        return
    for name, one in by_target.items():
        rate = "-" if one["pass_rate"] is None else f"{one['pass_rate']:.1%}"
        yield f"  {'':10}{name}: {one['passed']} of {one['total']} passed ({rate}), {count(one['errors'], 'error')}"


def _tokens(summary: dict[str, Any]) -> str:
    usage, judges = summary["usage"], summary["judge_usage"]
    text = f"{summary['total_tokens']:,} ({usage['input_tokens']:,} in, {usage['output_tokens']:,} out"
    if judges["total_tokens"]:
        text += f", {judges['total_tokens']:,} by judges"
    known = [cost for cost in (summary["cost"], summary["judge_cost"]) if cost is not None]
    return f"{text})" + (f", ${sum(known):.4f}" if known else "")


def _seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def _scored(one: dict[str, Any]) -> str:
    return f"{one['id']} {one['score']:.3g}"
