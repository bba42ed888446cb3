"""Chooses the sources of a run's answers, as the value `Answers` of its options says.

In this order: the run's own journal, earlier runs, a fork's prefix, cassettes, the cache, live calls, and what becomes
of a call that none of them answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from rejoinder.engine.answers import (
    Allowed,
    EndIfMissing,
    FailIfMissing,
    ForkPrefix,
    Journaled,
    JournalSource,
    OnceSource,
)
from rejoinder.engine.calls import Call, Models, Source, Tape
from rejoinder.engine.journal_writer import Journal
from rejoinder.engine.live import Live
from rejoinder.engine.loops import complete
from rejoinder.engine.plan import Job, place_of, plan
from rejoinder.engine.retrace import retrace, unreadable_answers
from rejoinder.engine.setup import Setup
from rejoinder.errors import RejoinderError
from rejoinder.model import Outcome, Reply, key_kind
from rejoinder.model.results import Place
from rejoinder.runs.earlier import EarlierRuns
from rejoinder.runs.journal import History, Told

if TYPE_CHECKING:
    from rejoinder.cassettes.file import Shelf
    from rejoinder.engine.cache import RunCache
    from rejoinder.engine.cassettes import CassetteSource, ReplayTargets
    from rejoinder.model.runs import CacheUse


def refuse_closed(setup: Setup, told: Mapping[str, Told]) -> None:
    """Raises why a judge could not be opened, where a conversation needs an answer of it that is not recorded."""
    if setup.closed and (error := complete(_find_closed(setup, told))) is not None:
        raise error


async def _find_closed(setup: Setup, told: Mapping[str, Told]) -> RejoinderError | None:
    for job in plan(setup.suites, setup.options):
        tape, _ = await retrace(job, told, EndIfMissing())
        for call, answer in tape.calls:
            place = call.request.suite, call.request.target
            if answer is None and place in setup.closed:
                return setup.closed[place]
    return None


async def _is_gone(call: Call) -> str:
    return f"turn {call.request.turn} was not recorded, and the run that was replayed is gone"


def _open_cassettes(setup: Setup, shelf: Shelf | None, models: Models) -> CassetteSource | None:
    if shelf is None or setup.options.answers.replay is None:
        return None
    from rejoinder.engine.cassettes import CassetteSource

    return CassetteSource(shelf, setup.mask.reveal_text, models)


def _find_replay_targets(setup: Setup) -> ReplayTargets | None:
    if not any(opened.target.provider == "replay" for opened in setup.targets):
        return None
    from rejoinder.engine.cassettes import ReplayTargets

    return ReplayTargets(setup.targets)


def _open_cache(setup: Setup) -> RunCache:
    """Before anything is sent, so that a damaged cache is found in time."""
    from rejoinder.engine.cache import Cache, RunCache

    store = Cache(Path(setup.suites[0].root), setup.options.answers.cache_lifetime_s, setup.mask)
    return RunCache(store, setup.targets)


class RunSources:
    """The sources of one execution of a run."""

    def __init__(self, setup: Setup, earlier: EarlierRuns, prefix: Tape | None = None) -> None:
        """`prefix`: the conversation of another run, whose beginning a fork takes over."""
        answers = setup.options.answers
        self._setup = setup
        self._earlier = earlier
        looked_up = earlier.with_grades() if answers.otherwise == "end" else earlier
        self.told: Mapping[str, Told] = looked_up.told(setup.mask)
        """The answers of earlier runs."""
        self._skipped: Collection[Place] = () if answers.asks_candidates else earlier.skipped(setup.suites)
        """Conversations that earlier runs skipped, and that cannot be played now either."""
        self._models = Models()
        self._shelf = self._open_shelf()
        """Where cassettes are written, or played from."""
        self._cassettes = _open_cassettes(setup, self._shelf, self._models)
        self._prefix = ForkPrefix(prefix, answers.fork) if prefix is not None and answers.fork else None
        self._replay_targets = _find_replay_targets(setup)
        self._cache = _open_cache(setup) if answers.cache and setup.opens_targets else None

    def _open_shelf(self) -> Shelf | None:
        answers, suites = self._setup.options.answers, self._setup.suites
        folder = answers.record or answers.replay
        if folder is None:
            return None
        from rejoinder.cassettes.file import Shelf, check_folder

        if answers.record is not None:
            check_folder(Path(answers.record))
        return Shelf(Path(folder), [(suite.path, suite.root) for suite in suites])

    def for_run(self, live: Live, journal: Journal, history: History | None) -> tuple[Source, ...]:
        return (
            *self._own(journal, history),
            *self._recorded(journal),
            *self._called(live, journal),
            *self._otherwise(),
        )

    def _own(self, journal: Journal, history: History | None) -> Iterator[Source]:
        """The run's own journal. What it holds counts as used where a recording is given once. A price that is found
        now is recorded: from here on the reply has it, whatever it would cost later."""

        def price(call: Call, reply: Reply) -> Reply:
            priced = self._price(call, reply)
            if priced.price is not None and priced is not reply:
                journal.priced(call.key, priced.price)
            return priced

        if history is not None:
            sources = self._cassettes, self._prefix, self._replay_targets
            once: list[OnceSource] = [one for one in sources if one is not None]
            yield JournalSource(history.told, price, once=once)

    def _recorded(self, journal: Journal) -> Iterator[Source]:
        """Answers that were recorded elsewhere."""
        if self._earlier.recorded:
            setup, explains = self._setup, self._setup.options.answers.otherwise == "explain"
            without = self._earlier.changed_models(setup.survey.targets, setup.mask) if explains else ()
            yield Journaled(JournalSource(self.told, self._price, without=without), journal)
        for source in (self._prefix, self._cassettes):
            if source is not None:
                yield Journaled(source, journal)

    def _called(self, live: Live, journal: Journal) -> Iterator[Source]:
        """The cache, then the providers, for the kinds of calls that may be made."""
        asks, source = self._setup.options.answers.asks, live
        if self._cache is not None:
            lookup = Journaled(self._cache.lookup, journal)
            yield lookup
            source = self._cache.fill(lookup, live)
        if asks:
            yield Allowed(source, asks, self._setup.closed)

    def _otherwise(self) -> Iterator[Source]:
        otherwise = self._setup.options.answers.otherwise
        if otherwise == "end":
            yield EndIfMissing(self._skipped)
        elif otherwise == "explain" and self._cassettes is not None:
            yield FailIfMissing(self._cassettes.explain)
        elif otherwise == "explain" and not self._earlier.recorded:
            yield FailIfMissing(_is_gone)
        elif otherwise == "explain":
            from rejoinder.engine.nearest import NearestCall

            nearest = NearestCall(self._earlier.recorded[0], self.told, self._models)
            yield FailIfMissing(nearest.explain, self._skipped)

    def _price(self, call: Call, reply: Reply) -> Reply:
        assert call.target is not None
        return self._setup.priced(call.job.prepared.suite, call.target, reply)

    def tape(self) -> Tape | None:
        """A tape, where what a conversation asks is wanted after its end."""
        return Tape() if self._setup.options.answers.record is not None or self._cache is not None else None

    def was_skipped(self, job: Job) -> bool:
        return place_of(job) in self._skipped

    def finished(self, job: Job, outcome: Outcome, tape: Tape | None) -> None:
        """A conversation has ended: close or write its cassette, and drop from the cache what no judge could read."""
        if self._cassettes is not None:
            self._cassettes.close(job)
        elif tape is not None and self._shelf is not None and not job.confirms:
            from rejoinder.engine.cassettes import record_conversation

            record_conversation(self._shelf, job, tape, self._models, self._setup.mask.hide_text)
        if tape is not None and self._cache is not None and outcome.has_undecided_judge:
            self._cache.forget(tape.unreadable())

    def stale(self, *, whole: bool) -> list[str]:
        """Recordings that no call used. Whole cassettes are named only where every case was played (`whole`)."""
        every = whole and not self._setup.options.selection.targets
        unused = self._cassettes.stale(self._setup.suites if every else ()) if self._cassettes else []
        return unused + (self._replay_targets.stale(whole=whole) if self._replay_targets else [])

    def retry_errors(self, history: History | None) -> tuple[History | None, int]:
        """Forget failed calls and unreadable answers, so that they are called again; the history without them, and how
        many they are."""
        known = {**self.told, **(history.told if history is not None else {})}
        setup, asks = self._setup, self._setup.options.answers.asks
        unreadable = complete(unreadable_answers(plan(setup.suites, setup.options), known))
        again = {key for key, told in known.items() if told.has_failed} | {call.key for call in unreadable}
        if self._cache is not None:
            self._cache.forget(unreadable)
        self.told = {key: told for key, told in self.told.items() if key not in again or key_kind(key) not in asks}
        if history is None:
            return None, len(again)
        kept = {key: told for key, told in history.told.items() if key not in again}
        return structs.replace(history, told=kept), len(again)

    def cache_use(self, history: History | None) -> CacheUse | None:
        """How many answers came from the cache, and what they would have cost."""
        return None if self._cache is None else self._cache.use(history)

    def close(self) -> None:
        if self._cache is not None:
            self._cache.close()
