"""`rejoinder run --dry-run`"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from shlex import quote

import msgspec
from msgspec import structs

from rejoinder.cli.given import given_words
from rejoinder.cli.output import echo_lines, form_for, look, write_data
from rejoinder.engine.estimate import JudgeEstimate, TargetEstimate, estimate
from rejoinder.engine.options import RunOptions
from rejoinder.engine.plan import survey_plan
from rejoinder.model import Suite, Target, Usage
from rejoinder.providers import info_of
from rejoinder.providers.settings import normalize_keys
from rejoinder.report.estimate import Asked, Foreseen, Role, write_estimate
from rejoinder.report.words import Commands, rounded_up
from rejoinder.roles import find_target

USUAL_LENGTH = 1000
"""Tokens of a reply that are proposed as a bound."""


def show_estimate(suites: list[Suite], options: RunOptions, form: str) -> None:
    """What would be asked, at least and at most, and what that may cost. Nothing is sent, and no key is needed."""
    survey_plan(suites, options)  # what cannot be run is refused, as it would be
    found = estimate(suites, options)
    bounds = _Bounds(suites, options)
    targets = {name: bounds.of_target(name, one) for name, one in found.targets.items()}
    judges = {name: bounds.of_other(name, one, "judge") for name, one in found.judges.items()}
    users = {name: bounds.of_other(name, one, "user") for name, one in found.users.items()}
    if form != "text":
        document = msgspec.to_builtins(found)
        for kind, costs in (("targets", targets), ("judges", judges), ("users", users)):
            for name, asked in costs.items():
                document[kind][name] |= {"least_usd": asked.cost[0], "most_usd": asked.cost[1]}
        write_data(document)
        return
    foreseen = Foreseen(
        conversations=found.conversations,
        asked=(*targets.values(), *users.values(), *judges.values()),
        embedding_calls=found.embedding_calls,
    )
    foreseen = structs.replace(foreseen, commands=_next_commands(foreseen, given_words()))
    echo_lines(write_estimate(foreseen, form_for(sys.stdout), quiet=look().quiet))


def most_of(suites: list[Suite], options: RunOptions) -> tuple[float | None, int | None]:
    """The dollars and tokens of a run at most; None where nothing bounds them, or a price is not known."""
    found, bounds = estimate(suites, options), _Bounds(suites, options)
    candidates = found.targets.items() if options.answers.asks_candidates else ()
    asked = [bounds.of_target(*one) for one in candidates]
    asked += [bounds.of_other(*one, "judge") for one in found.judges.items()]
    asked += [bounds.of_other(*one, "user") for one in found.users.items()]
    costs, tokens = [one.cost[1] for one in asked], [bounds.all_tokens(one) for one in asked]
    return (
        None if None in costs else sum(cost for cost in costs if cost is not None),
        None if None in tokens else sum(number for number in tokens if number is not None),
    )


def _next_commands(found: Foreseen, given: Sequence[str]) -> Commands:
    """The same command, with a budget that is enough for all of it; with bounds for what has none."""
    words = [quote(word) for word in given]
    if "--dry-run" not in words or not all(word.isprintable() for word in given):
        return ()
    same = " ".join(word for word in words if word != "--dry-run")
    least, most = found.cost
    if most is not None and most > 0:
        return ((f"rejoinder {same} --budget-usd {rounded_up(most)}", "run, never more"),)
    if most is not None:
        return ((f"rejoinder {same}", "run"),)
    if least is None or any(one.tools for one in found.asked) or any(word.startswith("--max-tokens") for word in words):
        return ()
    return ((f"rejoinder {' '.join(words)} --max-tokens {USUAL_LENGTH}", "bounds replies, and so the cost"),)


class _Bounds:
    """What targets cost, at least and at most."""

    def __init__(self, suites: list[Suite], options: RunOptions) -> None:
        self._suites = suites
        self._options = options

    def of_target(self, name: str, one: TargetEstimate) -> Asked:
        cost, longest = self._priced(name), self._longest(name)
        sent: int | None = one.most_input_tokens
        if one.most_replies_sent or one.tools:
            sent = None if one.tools or longest is None else sent + longest * one.most_replies_sent
        return Asked(
            name=name,
            cases=one.cases,
            calls=(one.least_calls, one.most_calls),
            tokens=(one.least_input_tokens, sent),
            cost=(cost(Usage(one.least_input_tokens, 0)), self._most(name, sent, one.most_calls)),
            tools=tuple(one.tools),
        )

    def of_other(self, name: str, one: JudgeEstimate, role: Role) -> Asked:
        """Of a judge or a simulated user, who is shown the replies of candidates."""
        shown = {candidate: self._longest(candidate) for candidate in one.replies_shown}
        sent: int | None = one.most_input_tokens
        for candidate, longest in shown.items():
            sent = None if sent is None or longest is None else sent + longest * one.replies_shown[candidate]
        sent = None if one.compares_targets else sent
        return Asked(
            name=name,
            role=role,
            calls=(one.least_calls, one.most_calls),
            tokens=(one.least_input_tokens, sent),
            cost=(self._priced(name)(Usage(one.least_input_tokens, 0)), self._most(name, sent, one.most_calls)),
        )

    def all_tokens(self, asked: Asked) -> int | None:
        """What is sent to a target and comes back, at most."""
        sent, longest = asked.tokens[1] if asked.tokens else None, self._longest(asked.name)
        return None if sent is None or longest is None else sent + longest * asked.calls[1]

    def _most(self, name: str, sent: int | None, calls: int) -> float | None:
        longest, cost = self._longest(name), self._priced(name)
        if info_of(self._named(name)[1].provider).local and cost(Usage(1, 1)) == 0:
            return 0.0
        return None if sent is None or longest is None else cost(Usage(sent, longest * calls))

    def _longest(self, name: str) -> int | None:
        """Tokens of a reply, at most; None where that is not set, or set by the environment."""
        settings = normalize_keys(self._named(name)[1].settings)
        longest = settings.get("max_output_tokens", self._options.limits.max_tokens)
        return longest if isinstance(longest, int) else None

    def _named(self, name: str) -> tuple[Suite, Target]:
        found = ((suite, find_target(suite, name)) for suite in self._suites)
        return next((suite, target) for suite, target in found if target is not None)

    def _priced(self, name: str) -> Callable[[Usage], float | None]:
        """What tokens of a target cost; None where no price is known."""
        from rejoinder.providers.price_list import PriceList, foreseen_price

        suite, target = self._named(name)
        prices = PriceList(suite.prices)

        def cost(usage: Usage) -> float | None:
            found = foreseen_price(target, usage, prices)
            return None if found is None else found.total

        return cost
