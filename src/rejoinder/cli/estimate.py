"""`rejoinder run --dry-run`"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rejoinder.cli.output import echo, write_data
from rejoinder.engine.estimate import Estimate, TargetEstimate, estimate
from rejoinder.engine.options import RunOptions
from rejoinder.engine.plan import survey_plan
from rejoinder.model import Suite, Target, Usage
from rejoinder.providers import info_of
from rejoinder.providers.settings import normalize_keys
from rejoinder.report.summary import dollars
from rejoinder.report.words import count
from rejoinder.roles import find_target


def show_estimate(suites: list[Suite], options: RunOptions, form: str) -> None:
    """What would be asked, at least and at most, and what that may cost. Nothing is sent, and no key is needed."""
    survey_plan(suites, options)  # what cannot be run is refused, as it would be
    found = estimate(suites, options)
    costs = {name: _costs(suites, name, one, options) for name, one in found.targets.items()}
    judges = {name: _priced(suites, name)(Usage(tokens, 0)) for name, tokens in found.judge_tokens.items()}
    if form != "text":
        targets = {
            name: {**msgspec.to_builtins(one), "least_usd": costs[name][0], "most_usd": costs[name][1]}
            for name, one in found.targets.items()
        }
        write_data({**msgspec.to_builtins(found), "targets": targets, "judges_least_usd": judges})
        return
    echo(*_lines(found, costs, judges))


def _lines(
    found: Estimate, costs: dict[str, tuple[float | None, float | None]], judges: dict[str, float | None]
) -> list[str]:
    lines = [f"{count(found.conversations, 'conversation')} would run; nothing was sent"]
    for name, one in found.targets.items():
        least, most = costs[name]
        calls = _span(one.least_calls, one.most_calls, "call")
        tokens = _span(one.least_input_tokens, one.most_input_tokens, "token")
        lines.append(f"  {name}: {calls}, about {tokens} sent")
        if least is not None:
            most_text = dollars(most) if most is not None else "unknown: set `max_tokens` to bound it"
            lines.append(f"    about {dollars(least)} at least, for what is sent; at most {most_text}")
        else:
            lines.append("    cost unknown: no price is known")
    if found.judge_calls[1]:
        lines.append(f"  judges: {_span(*found.judge_calls, 'call')}")
    for name, cost in judges.items():
        tokens = f"about {found.judge_tokens[name]:,} tokens or more sent to {name} about first replies"
        lines.append(f"    {tokens}, " + ("cost unknown" if cost is None else f"{dollars(cost)} at least"))
    if found.embedding_calls[1]:
        lines.append(f"  embeddings: up to {count(found.embedding_calls[1], 'call')}; equal texts are asked for once")
    return lines


def _span(least: int, most: int, word: str) -> str:
    return count(least, word) if least == most else f"{least:,} to {count(most, word)}"


def _costs(
    suites: list[Suite], name: str, one: TargetEstimate, options: RunOptions
) -> tuple[float | None, float | None]:
    cost = _priced(suites, name)
    target = _named(suites, name)[1]
    longest = normalize_keys(target.settings).get("max_output_tokens", options.limits.max_tokens)
    least = cost(Usage(one.least_input_tokens, 0))
    if not isinstance(longest, int):  # not set, or set by the environment
        return least, 0.0 if info_of(target.provider).local else None
    return least, cost(Usage(one.most_input_tokens + longest * one.most_replies_sent, longest * one.most_calls))


def _named(suites: list[Suite], name: str) -> tuple[Suite, Target]:
    found = ((suite, find_target(suite, name)) for suite in suites)
    return next((suite, target) for suite, target in found if target is not None)


def _priced(suites: list[Suite], name: str) -> Callable[[Usage], float | None]:
    """What tokens of a target cost; None where no price is known."""
    from rejoinder.providers.price_list import PriceList

    suite, target = _named(suites, name)
    prices, model = PriceList(suite.prices), normalize_keys(target.settings).get("model")

    def cost(usage: Usage) -> float | None:
        if not info_of(target.provider).billed and not suite.prices:
            return 0.0 if info_of(target.provider).local else None
        try:
            found = prices.cost(target.provider, model, usage, target=target.name)
        except (ArithmeticError, ImportError, LookupError, TypeError, ValueError):
            return None
        return None if found is None else found.total

    return cost
