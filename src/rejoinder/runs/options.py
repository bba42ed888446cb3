"""What the caller decides about a run, in groups. It is recorded, so that a resumed run is the same run."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, structs

from rejoinder.errors import UsageError
from rejoinder.model import ALL_KINDS, Kind, Suite
from rejoinder.model.forks import Fork
from rejoinder.model.given import GivenTarget
from rejoinder.model.results import LARGEST, CaseName

Otherwise: TypeAlias = Literal["explain", "end", "leave"]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]


MOST_ROUNDS = 10
"""Rounds of a run that repeats its cases until they tell."""


class Rounds(Struct, frozen=True, kw_only=True):
    """Whole rounds of repeats, one after the other, until they tell a run from a baseline (`--repeat auto`)."""

    against: str
    """The baseline's name."""
    run: str = ""
    """The run that the baseline is of. It is recorded when the run starts: another one would be another plan."""


MOST_CONFIRMED = 7
"""Times that a newly failing case is asked again, unless a command says another number."""


class Confirm(Struct, frozen=True, kw_only=True):
    """Ask each case again that passed in a baseline and fails now, until it passes once (`run --against`)."""

    against: str
    """The baseline's name."""
    times: Annotated[int, Meta(ge=0, le=1000)] = MOST_CONFIRMED
    """Further trials of a case at the most."""
    run: str = ""
    """The run that the baseline is of, recorded when the run starts."""
    cases: tuple[CaseName, ...] = ()
    """The newly failing ones: they are known when all other conversations have ended."""


class Selection(Struct, frozen=True, kw_only=True):
    """Which conversations a run has, and what is kept of them."""

    cases: tuple[str, ...] = ()
    """Ids, lists of them with commas, and patterns such as `refund*`; so are `tags`."""
    tags: tuple[str, ...] = ()
    pairs: tuple[CaseName, ...] = ()
    """Of the chosen cases only these, each on its own target, or on any if its target is empty; all of them if there
    are none."""
    limit: Positive | None = None
    shard: tuple[int, int] | None = None
    """Which part of the cases, counted from 1, and of how many parts."""
    targets: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    targets_file: str | None = None
    given: GivenTarget | None = None
    """The target that a program gave as `target=`."""
    system_prompt: str | None = None
    failed_from: str | None = None
    """The run whose failed cases these are."""
    rounds: Rounds | None = None
    """Repeat the cases until it can be told whether they got worse; `repeat` is the number of rounds begun."""
    confirm: Confirm | None = None
    """The baseline that decides whether the run is good enough, and how its new failures are confirmed."""
    include_messages: bool = False
    """Add to each turn of a result the messages that were sent."""
    keep_workspaces: Literal["failed", "all"] | None = None
    """Which workspaces of agents stay after their conversation."""

    @property
    def is_partial(self) -> bool:
        """True if cases are left out."""
        return bool(self.cases or self.tags or self.limit or self.shard)

    @property
    def is_compared(self) -> bool:
        """True if the run is compared with a baseline while it is made."""
        return self.rounds is not None or self.confirm is not None


class Pace(Struct, frozen=True, kw_only=True):
    """How fast a run works, and when it gives up."""

    workers: Positive | None = None
    timeout_s: Seconds | None = None
    max_retries: Annotated[int, Meta(ge=0)] | None = None
    fail_fast: bool = False


class Limits(Struct, frozen=True, kw_only=True):
    """What a run may spend."""

    budget_usd: Annotated[float, Meta(gt=0, le=LARGEST)] | None = None
    budget_tokens: Annotated[int, Meta(ge=1, le=LARGEST)] | None = None
    max_tokens: Positive | None = None
    """The longest reply of targets that do not set it themselves."""

    @property
    def has_budget(self) -> bool:
        return self.budget_usd is not None or self.budget_tokens is not None


class Answers(Struct, frozen=True, kw_only=True):
    """How the calls of a run are answered: where recorded answers are looked up, which kinds of calls may be made, and
    what becomes of the others."""

    runs: tuple[str, ...] = ()
    """Folders of earlier runs, whose answers are looked up first."""
    asks: frozenset[Kind] = ALL_KINDS
    """The kinds of calls that may be made."""
    otherwise: Otherwise = "leave"
    """What a call becomes that is neither recorded nor may be made: an error that explains the difference to what is
    recorded, the end of its conversation, or nothing yet, so that `resume` can make it."""
    cache: bool = False
    cache_lifetime_s: Annotated[float, Meta(ge=0)] | None = None
    record: str | None = None
    """A folder that cassettes are written to."""
    replay: str | None = None
    """A folder of cassettes, which are the only answers."""
    fork: Fork | None = None
    """Where the one conversation of the run takes another course than in the run before."""

    @property
    def asks_candidates(self) -> bool:
        return "candidate" in self.asks

    @property
    def opens_targets(self) -> bool:
        """True if calls of targets may be made. Work on this machine needs none."""
        return bool(self.asks - {"work"})


REPLAY = Answers(asks=frozenset({"work"}), otherwise="explain")
GRADE = Answers(asks=ALL_KINDS - {"candidate", "user", "tool"}, otherwise="end")
MERGE = Answers(asks=frozenset())


class Trust(Struct, frozen=True, kw_only=True):
    """What files may do. Decided by each command, never by a folder."""

    no_code: bool = False
    """Refuse what runs code of the project."""
    trust_env: bool = False
    """Send keys to addresses that come from a `.env` file which does not hold the key."""


class RunOptions(Struct, frozen=True, kw_only=True):
    repeat: Positive = 1
    selection: Selection = Selection()
    pace: Pace = Pace()
    limits: Limits = Limits()
    answers: Answers = Answers()
    trust: Trust = Trust()

    def flat(self) -> dict[str, Any]:
        """One object without groups, as run folders and documents have it."""
        groups = (self.selection, self.pace, self.limits, self.answers, self.trust)
        fields = {name: value for group in groups for name, value in msgspec.to_builtins(group).items()}
        return {"repeat": self.repeat, **fields, "asks": sorted(self.answers.asks)}

    def changed(self, **fields: Any) -> RunOptions:
        """A copy with other values of some fields, whichever group they are in."""
        groups: dict[str, Any] = {}
        for field in structs.fields(RunOptions):
            group = getattr(self, field.name)
            if isinstance(group, Struct):
                mine = {name: fields.pop(name) for name in group.__struct_fields__ if name in fields}
                groups |= {field.name: structs.replace(group, **mine)} if mine else {}
        return structs.replace(self, **groups, **fields)


def grown_options(options: RunOptions) -> dict[str, Any]:
    """The options that grow while a run goes on, as its receipt has them: a run that is cut off in another round, or
    while new failures are confirmed, has begun it."""
    return {"repeat": options.repeat, "confirm": msgspec.to_builtins(options.selection.confirm)}


def read_options(flat: dict[str, Any]) -> RunOptions:
    """Options from one object without groups. Raises msgspec.ValidationError."""
    groups = {field.name: field.type for field in structs.fields(RunOptions) if field.name != "repeat"}
    nested: dict[str, Any] = {
        name: {key: flat[key] for key in group.__struct_fields__ if key in flat} for name, group in groups.items()
    }
    return msgspec.convert({**nested, "repeat": flat.get("repeat", 1)}, RunOptions)


def settled(options: RunOptions, suites: list[Suite]) -> RunOptions:
    """The options with what follows from them: cassettes are the only answers, a lifetime implies the cache, and the
    suites' budgets hold where the command sets none. Budgets of several suites are added up. Raises UsageError where
    two of them contradict each other."""
    refuse_contradictions(options)
    answers = options.answers
    if answers.cache_lifetime_s is not None:
        options = options.changed(cache=True)
    if answers.replay is not None and answers.asks == ALL_KINDS:
        options = options.changed(asks=REPLAY.asks, otherwise=REPLAY.otherwise)
    for name in ("budget_usd", "budget_tokens"):
        budgets = [getattr(suite, name) for suite in suites if getattr(suite, name) is not None]
        if getattr(options.limits, name) is None and budgets:
            options = options.changed(**{name: sum(budgets)})
    return options


def refuse_contradictions(options: RunOptions) -> None:
    """Raises UsageError for values that cannot be, and for two that contradict each other."""
    shard, answers = options.selection.shard, options.answers
    try:
        msgspec.json.encode(options)
    except UnicodeEncodeError:
        raise UsageError("an option contains bytes that are not valid text", "Write it in UTF-8.") from None
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise UsageError(f"there is no part {shard[0]} of {shard[1]}", "The parts are counted from 1: (2, 5) for 2/5.")
    if answers.fork is not None and answers.fork.turn < 1:
        raise UsageError(f"there is no turn {answers.fork.turn} to fork at", "Turns are counted from 1.")
    if answers.replay is not None and (answers.cache or answers.cache_lifetime_s is not None or answers.record):
        raise UsageError("a replay answers only from cassettes; leave out the cache and the recording")
    if answers.otherwise == "explain" and not answers.runs and answers.replay is None:
        raise UsageError("there is nothing recorded to answer from", "Name runs or cassettes.")
