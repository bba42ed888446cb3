"""The calls that a run would make, at least and at most, whatever the replies are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TypeAlias

from msgspec import Struct, field, structs

from rejoinder.engine.effects import Opening
from rejoinder.engine.levels import persistent_items
from rejoinder.engine.plan import Prepared, has_clean_control, plan
from rejoinder.engine.steps import MOST_TURNS_OF_ALL
from rejoinder.formatting.judge import find_judges, format_judge_prompt
from rejoinder.formatting.users import format_user
from rejoinder.model import (
    AnyCheck,
    Attached,
    AttachedPicture,
    Case,
    Compare,
    ConversationCheck,
    Item,
    Judged,
    Level,
    LlmJudge,
    Plan,
    Quote,
    ReadyJudge,
    Rubric,
    Semantic,
    Suite,
    Target,
    Usage,
    User,
    UserAudit,
    follow_ups_of,
    levels_of,
    walk_case,
    walk_check,
)
from rejoinder.model.estimates import Role, RunBounds, TargetBounds
from rejoinder.model.messages import CHARACTERS_A_TOKEN
from rejoinder.providers.registry import info_of
from rejoinder.providers.settings import normalize_keys
from rejoinder.runs.options import RunOptions
from rejoinder.validation.roles import find_embedder, find_target, judge_for


class Effort(Struct, frozen=True):
    """What a conversation, or a part of one, asks for."""

    turns: int = 0
    judges: int = 0
    embeddings: int = 0

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.turns + other.turns, self.judges + other.judges, self.embeddings + other.embeddings)


Asked: TypeAlias = Callable[[AnyCheck], Effort]
"""What a check asks for by itself, as far as it is to be counted."""


class TargetEstimate(Struct):
    """What one target would be asked as a candidate."""

    cases: int = 0
    conversations: int = 0
    least_calls: int = 0
    most_calls: int = 0
    least_input_tokens: int = 0
    most_input_tokens: int = 0
    """Without the replies that later turns are sent again: how long they are is not known."""
    most_replies_sent: int = 0
    """How many replies are sent again with later turns, at most."""
    tools: list[str] = field(default_factory=list[str])
    """What it is offered, by the names of tools and servers. What they answer is sent too, and its length unknown."""


class JudgeEstimate(Struct):
    """What one target would be asked for the sake of checks, or as a simulated user."""

    least_calls: int = 0
    most_calls: int = 0
    least_input_tokens: int = 0
    """About the first replies; the replies themselves are not known."""
    most_input_tokens: int = 0
    """Without the replies that it is shown."""
    replies_shown: dict[str, int] = field(default_factory=dict[str, int])
    """How many replies of each candidate it is shown, at most."""
    compares_targets: bool = False
    """Is it shown replies of other targets as well, or asked for one to compare with? Their length is not known."""


class Estimate(Struct):
    """Pairs are the least and the most. Calls that are made again, because they failed or a judge's answer could not be
    read, are not foreseen."""

    conversations: int
    targets: dict[str, TargetEstimate]
    judge_calls: tuple[int, int]
    embedding_calls: tuple[int, int]
    judges: dict[str, JudgeEstimate] = field(default_factory=dict[str, JudgeEstimate])
    users: dict[str, JudgeEstimate] = field(default_factory=dict[str, JudgeEstimate])
    """The targets that play simulated users."""


def estimate(suites: list[Suite], options: RunOptions) -> Estimate:
    """Walk the plan once."""
    total = Estimate(0, {}, (0, 0), (0, 0))
    expected: set[tuple[str, str]] = set()
    for _, jobs in groupby(plan(suites, options), key=lambda job: id(job.prepared)):
        of_case = list(jobs)
        prepared, trials = of_case[0].prepared, len(of_case)
        least, most = _least(prepared.opening, _asked_by), _most(prepared, _asked_by)
        target = total.targets.setdefault(prepared.target.name, TargetEstimate())
        total.conversations += trials
        target.cases += 1
        target.conversations += trials
        target.least_calls += trials * least.turns
        # Each turn is asked again with what tools have answered.
        calls = most.turns * (1 + prepared.case.max_tool_rounds) if prepared.tools else most.turns
        target.tools += [tool.name for tool in prepared.tools if tool.name not in target.tools]
        target.most_calls += trials * calls
        target.most_replies_sent += trials * (calls * (calls - 1) // 2)
        first = sum(message.length for message in prepared.opening.messages) // CHARACTERS_A_TOKEN + 1
        target.least_input_tokens += trials * first * least.turns
        target.most_input_tokens += trials * (first * calls + _said_again(prepared.case, calls))
        judges = total.judge_calls
        total.judge_calls = judges[0] + trials * least.judges, judges[1] + trials * most.judges
        for name in _asked_for_checks(prepared):
            _add_judge(total.judges.setdefault(name, JudgeEstimate()), name, prepared, trials)
        if prepared.case.user is not None:
            _add_user(total.users.setdefault(prepared.case.user.target, JudgeEstimate()), prepared, trials)
        expected.update(_expected(prepared))
        # Equal texts are embedded once, and a reply may be the expected text, word for word.
        total.embedding_calls = len(expected), total.embedding_calls[1] + trials * most.embeddings
    return total


def bounds_of(found: Estimate, suites: list[Suite], options: RunOptions) -> RunBounds:
    """The calls, tokens and dollars of an estimated run, at least and at most."""
    bounds = _Bounds(suites, options)
    return RunBounds(
        conversations=found.conversations,
        targets=(
            *(bounds.of_target(name, one) for name, one in found.targets.items()),
            *(bounds.of_other(name, one, "user") for name, one in found.users.items()),
            *(bounds.of_other(name, one, "judge") for name, one in found.judges.items()),
        ),
        embedding_calls=found.embedding_calls,
    )


def most_of(suites: list[Suite], options: RunOptions) -> tuple[float | None, int | None]:
    """The dollars and tokens of a run, at most; None if something is not bounded, or has no known price."""
    found = bounds_of(estimate(suites, options), suites, options).targets
    asked = [one for one in found if one.role != "candidate" or options.answers.asks_candidates]
    costs, tokens = [one.cost[1] for one in asked], [one.most_tokens for one in asked]
    return (
        None if None in costs else sum(cost for cost in costs if cost is not None),
        None if None in tokens else sum(number for number in tokens if number is not None),
    )


class _Bounds:
    """Bounds of the calls to targets, with the lengths and prices that their settings give."""

    def __init__(self, suites: list[Suite], options: RunOptions) -> None:
        self._suites = suites
        self._options = options

    def of_target(self, name: str, one: TargetEstimate) -> TargetBounds:
        cost, longest = self._priced(name), self._longest(name)
        sent: int | None = one.most_input_tokens
        if one.most_replies_sent or one.tools:
            sent = None if one.tools or longest is None else sent + longest * one.most_replies_sent
        return TargetBounds(
            name=name,
            cases=one.cases,
            calls=(one.least_calls, one.most_calls),
            tokens=(one.least_input_tokens, sent),
            most_tokens=self._with_replies(name, sent, one.most_calls),
            cost=(cost(Usage(one.least_input_tokens, 0)), self._most(name, sent, one.most_calls)),
            tools=tuple(one.tools),
        )

    def of_other(self, name: str, one: JudgeEstimate, role: Role) -> TargetBounds:
        """Bounds of a judge or a simulated user, who is shown the replies of candidates."""
        shown = {candidate: self._longest(candidate) for candidate in one.replies_shown}
        sent: int | None = one.most_input_tokens
        for candidate, longest in shown.items():
            sent = None if sent is None or longest is None else sent + longest * one.replies_shown[candidate]
        sent = None if one.compares_targets else sent
        return TargetBounds(
            name=name,
            role=role,
            calls=(one.least_calls, one.most_calls),
            tokens=(one.least_input_tokens, sent),
            most_tokens=self._with_replies(name, sent, one.most_calls),
            cost=(self._priced(name)(Usage(one.least_input_tokens, 0)), self._most(name, sent, one.most_calls)),
        )

    def _with_replies(self, name: str, sent: int | None, calls: int) -> int | None:
        longest = self._longest(name)
        return None if sent is None or longest is None else sent + longest * calls

    def _most(self, name: str, sent: int | None, calls: int) -> float | None:
        longest, cost = self._longest(name), self._priced(name)
        if info_of(self._named(name)[1].provider).local and cost(Usage(1, 1)) == 0:
            return 0.0
        return None if sent is None or longest is None else cost(Usage(sent, longest * calls))

    def _longest(self, name: str) -> int | None:
        """Tokens of a reply, at most; None if that is not set, or is set by the environment."""
        settings = normalize_keys(self._named(name)[1].settings)
        longest = settings.get("max_output_tokens", self._options.limits.max_tokens)
        return longest if isinstance(longest, int) else None

    def _named(self, name: str) -> tuple[Suite, Target]:
        found = ((suite, find_target(suite, name)) for suite in self._suites)
        return next((suite, target) for suite, target in found if target is not None)

    def _priced(self, name: str) -> Callable[[Usage], float | None]:
        """Dollars for tokens of a target; None if no price is known."""
        from rejoinder.prices.price_list import PriceList
        from rejoinder.providers.target_prices import foreseen_price

        suite, target = self._named(name)
        prices = PriceList(suite.prices)

        def cost(usage: Usage) -> float | None:
            found = foreseen_price(target, usage, prices)
            return None if found is None else found.total

        return cost


def _asked_at(level: Level, asked: Asked) -> Effort:
    """One turn, and the calls of all its checks."""
    parts = (part for item in level.items if item.check is not None for part in walk_check(item.check))
    return sum(map(asked, parts), Effort(turns=1))


def _most(prepared: Prepared, asked: Asked) -> Effort:
    """A bound for each number by itself: the path of the most turns need not be that of the most judges."""
    opening = prepared.opening
    has_control = opening.control == "afresh" and opening.max_turns != 1 and any(follow_ups_of(opening.level))
    control = _asked_at(opening.level, asked) if has_control else Effort()
    most = _most_of_turns(opening, asked) + control
    return most + most if has_clean_control(prepared) else most


def _least(opening: Opening, asked: Asked) -> Effort:
    """The fewest calls with which a conversation ends, where none of them fails: a plan may stop at its first step, and
    a simulated user after the first reply."""
    if opening.plan is not None:
        least = _least_of_plan(opening, opening.plan, asked)
    elif opening.user is not None and opening.max_turns is not None:
        least = _asked_at(opening.level, asked)  # the user's turns may leave no room for follow-ups
    else:
        least = _shortest_of(opening, opening.level, asked)
    if opening.user is not None:
        least += structs.replace(_asked_at(Level((Item(opening.user.reached),)), asked), turns=0)
        earlier = _limit(opening, opening.user) - 1 if _never_ends(opening.user) else 0
        least += _times(_asked_at(Level(persistent_items(opening.level)), asked), earlier)
    for over in opening.conversation_checks:
        if _looks_at(over, least.turns):
            check = over.checks[1] if over.over == "before" else over.checks[0]
            least += structs.replace(_asked_at(Level((Item(check),)), asked), turns=0)
    return least


def _least_of_plan(opening: Opening, plan: Plan, asked: Asked) -> Effort:
    """Up to the first step that can fail, or all of them; follow-ups may use up a limit before."""
    certain: list[Effort] = []
    for step in plan.steps:
        if step.needs:
            continue  # it is skipped where a value was not found
        certain.append(_shortest_of(opening, step.level, asked))
        if plan.on_failure == "stop" and (step.level.items or step.extracts):
            break
    least = sum(certain, Effort())
    if opening.max_turns is None:
        return least
    return structs.replace(certain[0], turns=min(least.turns, opening.max_turns))


def _shortest_of(opening: Opening, level: Level, asked: Asked) -> Effort:
    kept = structs.replace(_asked_at(Level(persistent_items(level)), asked), turns=0)
    return _shortest(level, kept, opening.max_turns, asked)


def _shortest(level: Level, kept: Effort, turns: int | None, asked: Asked) -> Effort:
    """A level that passes or has failed for good; a follow-up that doubts is sent in any case."""
    here, follow_ups = _asked_at(level, asked), tuple(follow_ups_of(level))
    if turns == 1 or not any(one.ask == "always" for one in follow_ups):
        return here
    further = [kept + _shortest(one.level, kept, turns - 1 if turns else None, asked) for one in follow_ups]
    return here + Effort(*(min(getattr(one, name) for one in further) for name in Effort.__struct_fields__))


def _looks_at(over: ConversationCheck, turns: int) -> bool:
    """Does a check of the whole look at a reply for certain, if there are so many turns?"""
    if over.over in ("last", "transcript"):
        return True
    first = over.turns[0] if over.turns is not None else 1
    return first <= (1 if over.final else turns) and (over.turn is None or first <= over.turn)


def _never_ends(user: User) -> bool:
    """Does nothing but the limit end it?"""
    return user.stop is None and user.reached is None


def _limit(opening: Opening, user: User) -> int:
    return min(user.max_turns, opening.max_turns or user.max_turns)


def _most_of_turns(opening: Opening, asked: Asked) -> Effort:
    """All turns, and what is asked about the whole of them."""
    if opening.plan is not None:
        steps = [_most_of_step(structs.replace(opening, level=step.level), asked) for step in opening.plan.steps]
        most = sum(steps, Effort())
    elif opening.user is not None:
        kept = _asked_at(Level(persistent_items(opening.level)), asked)
        reached = structs.replace(_asked_at(Level((Item(opening.user.reached),)), asked), turns=0)
        limit = _limit(opening, opening.user)
        most = _times(kept, limit - 1) + _times(reached, limit) + _most_of_step(opening, asked)
        if opening.user.audit is not None:
            audit = UserAudit(user=opening.user, target=opening.user.audit, at=opening.user.at)
            most += structs.replace(asked(audit), turns=0)
    else:
        most = _most_of_step(opening, asked)
    if opening.max_turns is not None:
        most = structs.replace(most, turns=min(most.turns, opening.max_turns))
    for over in opening.conversation_checks:
        whole = _asked_at(Level(tuple(map(Item, over.checks))), asked)
        often = 1 if over.over in ("last", "transcript") else most.turns
        most += structs.replace(_times(whole, often), turns=0)
    return most


def _times(effort: Effort, often: int) -> Effort:
    return Effort(*(often * getattr(effort, name) for name in Effort.__struct_fields__))


def _add_user(estimated: JudgeEstimate, prepared: Prepared, trials: int) -> None:
    """The calls of a simulated user: none where the first reply ends it, and one a turn at most."""
    user = prepared.case.user
    assert user is not None
    most = _limit(prepared.opening, user) - (1 if user.opening else 0)
    told = sum(len(message.content) for message in format_user(user, (), ())) // CHARACTERS_A_TOKEN
    estimated.least_calls += trials * (most if _never_ends(user) else prepared.has_simulated_opening)
    estimated.most_calls += trials * most
    estimated.most_input_tokens += trials * most * told
    candidate = prepared.target.name
    shown = estimated.replies_shown.get(candidate, 0) + trials * most * (most + 1) // 2
    estimated.replies_shown[candidate] = shown


def _most_of_step(opening: Opening, asked: Asked) -> Effort:
    kept = structs.replace(_asked_at(Level(persistent_items(opening.level)), asked), turns=0)
    if opening.followups == "first":
        return _longest(opening.level, kept, opening.max_turns, asked)
    later = [_asked_at(level, asked) + kept for level in _all_levels(opening.level)]
    room = (opening.max_turns or MOST_TURNS_OF_ALL) - 1
    judges, embeddings = (
        sum(sorted((getattr(one, name) for one in later), reverse=True)[:room]) for name in ("judges", "embeddings")
    )
    return _asked_at(opening.level, asked) + Effort(min(len(later), room), judges, embeddings)


def _longest(level: Level, kept: Effort, turns: int | None, asked: Asked) -> Effort:
    here = _asked_at(level, asked)
    if turns == 1:
        return here
    left = turns - 1 if turns else None
    further = [kept + _longest(follow_up.level, kept, left, asked) for follow_up in follow_ups_of(level)]
    most = (max((getattr(one, name) for one in further), default=0) for name in Effort.__struct_fields__)
    return here + Effort(*most)


def _said_again(case: Case, turns: int) -> int:
    """Tokens of the later words of a conversation, at most, each sent with every turn after it."""
    return _longest_prompt(case) * (turns * (turns - 1) // 2)


def _longest_prompt(case: Case) -> int:
    """Tokens of the longest follow-up or planned turn."""
    levels = [inner for level in levels_of(case) for inner in (level, *_all_levels(level))]
    prompts = [one.prompt for level in levels for one in follow_ups_of(level)]
    said = [_length(prompt) for prompt in prompts]
    if case.plan is not None:
        said += [sum(_length(words.pieces) for words in step.says) for step in case.plan.steps]
    return max(said, default=0) // CHARACTERS_A_TOKEN + 1


def _length(pieces: Iterable[str | Quote | Attached | AttachedPicture]) -> int:
    """Characters of words; what they quote is not known. A picture counts for the characters of its tokens."""
    return sum(_length_of(one) for one in pieces if not isinstance(one, Quote))


def _length_of(piece: str | Attached | AttachedPicture) -> int:
    if isinstance(piece, AttachedPicture):
        return piece.picture.tokens * CHARACTERS_A_TOKEN
    return len(piece) if isinstance(piece, str) else len(piece.text)


def _all_levels(level: Level) -> list[Level]:
    return [inner for one in follow_ups_of(level) for inner in (one.level, *_all_levels(one.level))]


def _asked_by(check: AnyCheck) -> Effort:
    """What a check asks for by itself, without those inside it."""
    judges = _votes(check) if isinstance(check, Judged) else 0
    embeddings = 1 + len(set(check.expected)) if isinstance(check, Semantic) else 0
    return Effort(judges=judges + (_rival(check) is not None), embeddings=embeddings)


def _votes(check: Judged) -> int:
    """How often a judge is asked for one verdict: a comparison is made in both orders."""
    return check.votes * (2 if isinstance(check, Compare) else 1)


def _judge(check: Judged, prepared: Prepared) -> str:
    target = judge_for(prepared, check.target)
    return target.name if target is not None else str(check.target)


def _rival(check: AnyCheck) -> str | None:
    """The target whose reply is asked for, to compare with."""
    return check.other_target if isinstance(check, Compare) and check.other is None else None


def _asked_for_checks(prepared: Prepared) -> list[str]:
    """The targets that the checks of a case ask, for a verdict or for a reply to compare with."""
    judged = [check for check in walk_case(prepared.case) if isinstance(check, Judged)]
    names = [name for check in judged for name in (_judge(check, prepared), _rival(check)) if name is not None]
    return list(dict.fromkeys(names))


def _add_judge(judge: JudgeEstimate, name: str, prepared: Prepared, trials: int) -> None:
    def asked(check: AnyCheck) -> Effort:
        votes = _votes(check) if isinstance(check, Judged) and _judge(check, prepared) == name else 0
        return Effort(judges=votes + (_rival(check) == name))

    level, candidate = prepared.case.level, prepared.target.name
    most, turns = trials * _most(prepared, asked).judges, _most(prepared, _asked_by).turns
    judge.least_calls += trials * _least(prepared.opening, asked).judges
    judge.most_calls += most
    first = [check for check in find_judges(level) if _judge(check, prepared) == name]
    judge.least_input_tokens += trials * sum(_votes(check) * _shown(check, prepared) for check in first)
    every = [check for check in walk_case(prepared.case) if isinstance(check, LlmJudge | ReadyJudge | Rubric | Compare)]
    longest = max((_shown(check, prepared) for check in every if _judge(check, prepared) == name), default=0)
    judge.most_input_tokens += most * (longest + _longest_prompt(prepared.case) * (turns - 1))
    judge.replies_shown[candidate] = judge.replies_shown.get(candidate, 0) + most * turns
    judge.compares_targets = judge.compares_targets or any(_rival(check) is not None for check in every)


def _shown(check: Judged, prepared: Prepared) -> int:
    """About how many tokens a judge is sent for an empty reply."""
    shown = format_judge_prompt(check, prepared.case, prepared.prompt, "")
    return (len(shown.system) + len(shown.user)) // CHARACTERS_A_TOKEN + 1


def _expected(prepared: Prepared) -> Iterator[tuple[str, str]]:
    """The texts that the first reply is compared with, and the target that embeds them."""
    for item in prepared.case.level.items:
        for part in walk_check(item.check) if item.check is not None else ():
            if isinstance(part, Semantic):
                embedder = find_embedder(prepared.suite, part.target)
                yield from ((embedder.name if embedder else "", text) for text in part.expected)
