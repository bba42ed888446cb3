"""The account of an import: what was mapped, what only nearly, and what has no form here. Nothing is dropped
silently: each loss has a line in the report and a comment at its place."""

from __future__ import annotations

from msgspec import Struct, field

from rejoinder.imports.sources import ImportFault, Spot
from rejoinder.yaml_text import Comment


class Loss(Struct, frozen=True):
    """A construct that means something else here, or nothing."""

    file: str
    line: int
    what: str
    how: str


class ImportReport(Struct, frozen=True, kw_only=True):
    """The report of an import, as `--format json` writes it."""

    files: tuple[str, ...] = ()
    """The files that were written."""
    sources: int = 0
    complete: int = 0
    """The number of sources without a loss."""
    cases: int = 0
    mapped: int = 0
    approximated: tuple[Loss, ...] = ()
    left_out: tuple[Loss, ...] = ()
    unreadable: tuple[Loss, ...] = ()
    """Sources that could not be imported at all."""

    @property
    def lost(self) -> bool:
        return bool(self.approximated or self.left_out)


class _Account(Struct):
    """The figures of one source. The same loss at the same place counts once."""

    source: str
    cases: int = 0
    mapped: set[tuple[str | int, ...]] = field(default_factory=set)
    approximated: dict[Loss, None] = field(default_factory=dict)
    left_out: dict[Loss, None] = field(default_factory=dict)
    unreadable: list[Loss] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not (self.approximated or self.left_out or self.unreadable)


class Ledger:
    """The account during an import."""

    def __init__(self) -> None:
        self._accounts: list[_Account] = []

    def begin(self, source: str) -> None:
        """Begin the account of a source. What is lost in the files that it names counts there, too."""
        self._accounts.append(_Account(source))

    @property
    def _now(self) -> _Account:
        return self._accounts[-1]

    def count_cases(self, number: int) -> None:
        self._now.cases += number

    def map(self, spot: Spot) -> None:
        """Count a construct that means the same here."""
        self._now.mapped.add((spot.file.name, spot.row or 0, *spot.path))

    def approximate(self, spot: Spot, what: str, how: str) -> Comment:
        """Note a construct that means nearly the same here; the comment for its place."""
        self._now.approximated[Loss(spot.file.name, spot.line, what, how)] = None
        return Comment(f"not the same as {what}: {how}")

    def leave_out(self, spot: Spot, what: str, how: str) -> Comment:
        """Note a construct without a form here; the comment for its place."""
        self._now.left_out[Loss(spot.file.name, spot.line, what, how)] = None
        return Comment(f"not imported: {what} ({how})")

    def refuse(self, fault: ImportFault) -> None:
        """Note that the source cannot be imported, and forget what was noted so far."""
        loss = Loss(fault.file, fault.line, fault.what, fault.how)
        self._accounts[-1] = _Account(self._now.source, unreadable=[loss])

    def report(self) -> ImportReport:
        accounts = self._accounts
        return ImportReport(
            sources=len(accounts),
            complete=sum(one.is_complete for one in accounts),
            cases=sum(one.cases for one in accounts),
            mapped=sum(len(one.mapped) for one in accounts),
            approximated=tuple(loss for one in accounts for loss in one.approximated),
            left_out=tuple(loss for one in accounts for loss in one.left_out),
            unreadable=tuple(loss for one in accounts for loss in one.unreadable),
        )
