"""A run as every screen shows it: what follows from its receipt and its summary, decided and worded once."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rejoinder.model import Receipt, Summary
from rejoinder.model.boards import Part
from rejoinder.views.board import Board, board_of, share_of
from rejoinder.views.cases import Run
from rejoinder.views.facts import Fact, FactKind, facts_of
from rejoinder.views.notes import Note, notes_of
from rejoinder.views.walk import groups_of
from rejoinder.words.figures import cases_passed, lost_words, of_trials, trials_passed
from rejoinder.words.numbers import capital, count
from rejoinder.words.statuses import early_words

MOST_SUITES = 3
"""Suites that a title names."""


class RunView(Struct, frozen=True, kw_only=True):
    receipt: Receipt
    summary: Summary
    title: str
    """Its suites."""
    early: str
    """`interrupted`, `budget reached`; empty if it was played to its end."""
    board: Board
    facts: dict[FactKind, Fact]
    notes: tuple[Note, ...]
    """Warnings first."""
    parts: tuple[tuple[str, Part], ...]
    """Targets or variants with their names, if there are several; else the run under an empty name."""

    @property
    def groups(self) -> tuple[tuple[str, Part], ...]:
        """Several targets or variants; empty if there is one."""
        return self.parts if len(self.parts) > 1 else ()

    @property
    def passed(self) -> str:
        """`7 of 10 cases`; `20 of 21` if each case has one trial."""
        return cases_passed(self.summary) if self.summary.has_repeats else trials_passed(self.summary)

    @property
    def in_short(self) -> str:
        """`3 failed, 10 of 21 passed (48%): service-desk`, `Interrupted, 1 failed, 4 of 5 passed: service-desk`"""
        share = share_of(self.summary.rate).text
        rate = f" ({share}{of_trials(self.summary)})" if share else ""
        told = [*filter(None, [self.early]), *lost_words(self.summary), f"{self.passed} passed"]
        return f"{capital(', '.join(told))}{rate}: {self.title}"

    @property
    def on_words(self) -> str:
        """` on 3 targets`, ` with 2 variants`"""
        targets, variants = len(self.summary.by_target), len(self.summary.by_variant)
        of_targets = f" on {count(targets, 'target')}" if targets > 1 else ""
        return f"{of_targets} with {count(variants, 'variant')}" if variants > 1 else of_targets


def view_run(run: Run) -> RunView:
    """The view of a run; no result is read."""
    receipt, summary = run.run, run.summary
    parts: dict[str, Part] = {**groups_of(summary)}
    return RunView(
        receipt=receipt,
        summary=summary,
        title=title_of(receipt),
        early=early_words(receipt.status),
        board=board_of(receipt, summary),
        facts={fact.kind: fact for fact in facts_of(receipt, summary)},
        notes=tuple(notes_of(receipt, summary)),
        parts=tuple(parts.items()) or (("", summary),),
    )


def title_of(receipt: Receipt) -> str:
    """The title of a run: its suites."""
    return title_of_suites(suite.title for suite in receipt.suites)


def title_of_suites(titles: Iterable[str]) -> str:
    names = list(dict.fromkeys(titles))
    return " + ".join(names) if len(names) <= MOST_SUITES else f"{len(names)} suites"
