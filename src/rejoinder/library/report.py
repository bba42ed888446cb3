"""A run as Python programs see it: its results, verdicts, rows, data frames, and its board in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rejoinder.errors import UsageError
from rejoinder.installing import pip_install
from rejoinder.library.rows import By, CaseVerdict, Row, columns_of, rows_of, verdicts
from rejoinder.model.figures import NoRate, Rate
from rejoinder.runs.report import RunReport as StoredReport
from rejoinder.words.figures import no_rate_words

if TYPE_CHECKING:
    import pandas
    import polars


class RunReport(StoredReport, frozen=True):
    """A recorded run. Results are read from the disk, one at a time."""

    @classmethod
    def of(cls, report: StoredReport) -> RunReport:
        return cls(report.run, report.summary, report.folder, report.derived)

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.id

    @property
    def rate(self) -> float:
        """The final pass rate, from 0 to 1. Raises UsageError if the run has no honest rate, and says why."""
        return self._known(self.summary.rate)

    @property
    def first_try_rate(self) -> float:
        """The pass rate before follow-ups. Raises UsageError if the run has no honest rate, and says why."""
        rates = self.summary.rates
        return self._known(self.summary.rate if rates is None else rates.first_try)

    def _known(self, rate: Rate | NoRate) -> float:
        if isinstance(rate, NoRate):
            raise UsageError(
                f"run {self.id}: {no_rate_words(rate)}", "`report.summary.by_target` has parts of the run."
            )
        if rate.rate is None:
            raise UsageError(f"run {self.id} measured nothing")
        return rate.rate

    @property
    def cases(self) -> tuple[CaseVerdict, ...]:
        """Each case on each target with the verdict on all its trials."""
        return tuple(verdicts(self))

    def rows(self, by: By = "conversation") -> list[Row]:
        """The results as flat dictionaries: one for each case, conversation (a trial of a case), turn or check."""
        return list(rows_of(self, by))

    def to_pandas(self, by: By = "conversation") -> pandas.DataFrame:
        """The rows as a data frame of pandas."""
        try:
            from pandas import DataFrame
        except ImportError:
            raise _missing("pandas") from None
        return DataFrame(self.rows(by), columns=list(columns_of(by)))

    def to_polars(self, by: By = "conversation") -> polars.DataFrame:
        """The rows as a data frame of polars."""
        try:
            from polars import DataFrame
        except ImportError:
            raise _missing("polars") from None
        rows = self.rows(by)
        return DataFrame({name: [row[name] for row in rows] for name in columns_of(by)}, strict=False)

    def __repr__(self) -> str:
        return f"<RunReport {self.id}: {self.run.status}, {self.summary.in_short}>"

    def _repr_html_(self) -> str:
        """The board and the failures, for notebooks."""
        from rejoinder.report.notebook import write_fragment

        return write_fragment(self)


def _missing(package: str) -> UsageError:
    hint = f"Install it: {pip_install(package)}. Or use `report.rows()`."
    return UsageError(f"{package} is not installed", hint)
