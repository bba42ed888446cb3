"""Recorded conversations played again from a journal alone: no provider is called."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from rejoinder.engine.answers import EndIfMissing, JournalSource
from rejoinder.engine.calls import Call, Source, Tape
from rejoinder.engine.embeddings import Embeddings
from rejoinder.engine.known_secrets import known_secrets
from rejoinder.engine.loops import complete
from rejoinder.engine.plan import Job, plan, survey_plan
from rejoinder.engine.player import Player
from rejoinder.errors import UsageError
from rejoinder.model import NO_RECORDING, Outcome, Suite
from rejoinder.model.forks import Fork
from rejoinder.runs.journal import Told, read_journal
from rejoinder.runs.names import suites_called
from rejoinder.runs.options import Selection
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.secrets import Mask
from rejoinder.words.numbers import count


async def retrace(job: Job, told: Mapping[str, Told], *further: Source) -> tuple[Tape, Outcome | None]:
    """A conversation with its recorded answers: its calls, and how it ended, if it did."""
    tape, embeddings, outcome = Tape(), Embeddings(), None
    with contextlib.suppress(Exception):  # it was cut off there, or cannot be played any more
        outcome = await Player(job, (JournalSource(told), *further), embeddings, tape).play()
    await embeddings.close()
    return tape, outcome


async def unreadable_answers(jobs: Iterable[Job], told: Mapping[str, Told]) -> list[Call]:
    """Judge calls whose answer could not be read, in conversations that ended as an error because of it or could not be
    audited, and calls of simulated users that said nothing.

    Such answers are recorded as replies; `--retry-errors` makes their calls again all the same.
    """
    calls: list[Call] = []
    for job in jobs:
        tape, outcome = await retrace(job, told, EndIfMissing())
        if outcome is None:
            continue
        kind = outcome.error.type if outcome.error is not None else ""
        if kind in ("check", NO_RECORDING) or (outcome.user is not None and outcome.user.has_broken_audit):
            calls += tape.unreadable()
        elif kind == "user":
            calls += [call for call, _ in tape.calls if call.kind == "user"][-1:]
    return calls


def recorded_conversation(
    recorded: RecordedRun, suites: list[Suite], case: str, fork: Fork, asked: Selection = Selection()
) -> Tape:
    """The calls and answers of the conversation of a case that a fork takes up. Where it names no target, that is the
    first one of `asked` that the run had; the variant is that of `asked`.

    Raises UsageError if there is no such conversation or turn, or where several variants may be meant.
    """
    files = {one.path for one in suites_called(suites, fork.suite)}
    folder, options = recorded.folder, recorded.options()
    if not folder.journal.is_file():
        raise UsageError(f"{folder.path} has no journal, and so no conversation to fork")
    survey = survey_plan(suites, options)
    secrets = known_secrets(suites, survey.targets, survey.tools)
    told = read_journal(folder.journal, recorded.mask_for(Mask(secrets))).told
    # The whole plan is walked: cases with the same words are told apart by their order in it.
    jobs = [job for job in plan(suites, options) if job.prepared.case.id == case and job.prepared.suite.path in files]
    jobs = [job for job in jobs if not asked.variants or job.prepared.variant in asked.variants]
    if not jobs:
        raise UsageError(f"run {folder.id} has no case `{case}`")
    jobs = _narrowed(jobs, fork, f"case `{case}` in run {folder.id}")
    variants = list(dict.fromkeys(job.prepared.variant for job in jobs))
    if len(variants) > 1:
        raise UsageError(
            f"run {folder.id} has several variants of case `{case}`; a fork continues one conversation",
            f"Name one with --variant: {', '.join(variants)}.",
        )
    wanted = [job for name in asked.targets for job in jobs if job.prepared.target.name == name]
    tape, _ = complete(retrace((wanted or jobs)[0], told))
    turn = fork.turn
    had = sum(call.kind == "candidate" and answer is not None for call, answer in tape.calls)
    if turn > had + 1 or (turn > 1 and turn > had):
        words = count(had, "turn")
        raise UsageError(
            f"case `{case}` as it is now goes {words} along the conversation of run {folder.id};"
            f" it has no turn {turn} to fork",
            "Turns whose prompt or checks were changed since then are asked again, not taken over.",
        )
    return tape


def _narrowed(jobs: list[Job], fork: Fork, where: str) -> list[Job]:
    """The conversations of the target and the trial that a fork names. Raises UsageError if there are none."""
    names = list(dict.fromkeys(job.prepared.target.name for job in jobs))
    jobs = [job for job in jobs if fork.of in ("", job.prepared.target.name)]
    if not jobs:
        raise UsageError(f"{where} was not asked of target `{fork.of}`", f"It was asked of: {', '.join(names)}.")
    trials = max(job.trial for job in jobs)
    jobs = [job for job in jobs if job.trial == fork.trial]
    if not jobs:
        raise UsageError(f"{where} has {count(trials, 'trial')}; it has no trial {fork.trial} to fork")
    return jobs
