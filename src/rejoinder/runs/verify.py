"""Is a recorded run what it was when it was written?

Its files are held against their checksums, and its summary against what the results add up to. If it is played again,
each result is compared with what the journal gives, and the number of planned conversations with the plan. Nothing is
called or written. A run that was killed is not damaged: it has no results yet.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from rejoinder.errors import RejoinderError, UsageError, decoding_reason, reason_of
from rejoinder.model import Case, Receipt, Result, Suite, Summary
from rejoinder.model.results import Place
from rejoinder.run_files import RunDamaged, lines_of, open_file
from rejoinder.runs.checksums import FILE as CHECKSUMS
from rejoinder.runs.checksums import changed_files, read_checksums
from rejoinder.runs.differences import unlike
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.journal import JournalError, Opened, Record
from rejoinder.runs.pictures import damaged_pictures
from rejoinder.runs.receipt import is_as_stored, read_stored
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport, different_figures, read_run
from rejoinder.runs.results import read_results
from rejoinder.runs.state import status_now
from rejoinder.words.numbers import beginning

MOST_NAMED = 20
"""Differences that are named; the others are counted."""
LONGEST_VALUE = 80
CHECKSUMS_SINCE = 2
"""The first format of run folders that has them."""

_TOO_DEEP = "it holds data that is nested too deeply to be compared"


class Difference(Struct, frozen=True, omit_defaults=True):
    """Something that is not as it was written, and where."""

    file: str
    message: str
    line: int | None = None
    field: str | None = None

    @property
    def words(self) -> str:
        return f"{self.field} {self.message}" if self.field else self.message


class Verification(Struct, frozen=True, kw_only=True):
    run: str
    verdict: Literal["intact", "damaged"]
    status: str | None
    """How the run ended, as its receipt says; `killed` or `running` where it has not."""
    finished: bool
    """Were all planned conversations had?"""
    planned: int
    conversations: int
    """Those that have a result, or have ended in the journal of a run without results."""
    calls: int
    """Answers that the journal holds."""
    sealed: bool
    """Did this user's rejoinder write the checksums?"""
    replayed: bool
    """Whether the journal was played again."""
    differences: tuple[Difference, ...]
    """The first ones."""
    more: int
    """Further ones, which are not listed."""
    notes: tuple[str, ...]
    """What could not be looked at, and why."""

    @property
    def exit_code(self) -> int:
        return RunDamaged.exit_code if self.verdict == "damaged" else 0


class _Findings:
    """What was found so far. Of many differences the first are kept."""

    def __init__(self) -> None:
        self.named: list[Difference] = []
        self.more = 0
        self.notes: list[str] = []
        self.sealed = False
        self.played: int | None = None
        """Conversations of a run without results that ended in its journal."""

    def add(self, *differences: Difference) -> None:
        for one in differences:
            if one in self.named:  # a missing file is missed by its checksum and by its reader
                continue
            if len(self.named) < MOST_NAMED:
                self.named.append(one)
            else:
                self.more += 1


Play: TypeAlias = Callable[[RecordedRun, list[Suite], frozenset[Place] | None], RunReport]
"""Plays a journal again by suites, without calls. For a run that ended where its journal had no answer, it is given the
conversations that never started; for any other run, None."""


def refuse_damaged(recorded: RecordedRun, play: Play | None = None) -> None:
    """Raises RunDamaged for what `find_damage` finds."""
    if (damage := find_damage(recorded, play)) is not None:
        raise damage


def sound_report(recorded: RecordedRun) -> RunReport:
    """The figures of a run that has ended. Raises RunDamaged if it is not as it was written."""
    refuse_damaged(recorded)
    found = read_run(recorded)
    if found is None:
        raise RunDamaged(recorded.folder.path, "it has no summary or no results")
    return found


def find_damage(recorded: RecordedRun, play: Play | None = None) -> RunDamaged | None:
    """What makes a recorded run unfit to be used; None if it is sound, also if it was cut off. What decides
    something with a run plays its journal, too."""
    found = verify_run(recorded, play)
    if found.verdict == "intact":
        return None
    told = next((one for one in found.differences if one.field or one.line), found.differences[0])
    is_figure = told.file == "summary.json" and told.field is not None
    reason = "its figures disagree with the results" if is_figure else told.words
    if told.line is not None:
        reason = f"line {told.line}: {reason}"
    return RunDamaged(
        recorded.folder.path / told.file, reason, f"`rejoinder verify {found.run}` says all that differs."
    )


def verify_run(recorded: RecordedRun, play: Play | None = None) -> Verification:
    """Compare a run with its checksums and counts and, if `play` is given, with what its journal gives. Playing is most
    of the work. Without it the checksums vouch for the journal, and for the figures too if they have this user's seal
    and all files are unchanged: then only rejoinder, which counted these results into this summary, can have written
    them."""
    folder, found = recorded.folder, _Findings()
    run = _read_receipt(folder, found)
    status = None if run is None else status_now(folder, run.status)
    ended = status not in ("running", "killed")
    _check_sums(folder, found, run, ended=ended)
    found.add(*(Difference(name, what) for name, what in damaged_pictures(folder.path).items()))
    files = _Files(folder, found, ended=ended, plays=play is not None)
    replayed = False
    are_vouched_for = found.sealed and not found.named and play is None
    if run is not None and files.summary is not None and files.results.is_whole and not are_vouched_for:
        report = RunReport(run, files.summary, folder)
        found.add(*(Difference("summary.json", what, None, name or None) for name, what in _wrong_figures(report)))
    if run is not None and play is not None and files.can_be_played:
        replayed = _play_again(recorded, run, found, play, ended=ended and files.results.is_whole)
    if status == "running":
        found.notes.append("the run is open in a process, and changing")
    further = 0 if files.summary is None else sum(case.trials for case in files.summary.confirmed)
    recorded_ones = max(0, files.results.records["Result"] - further)  # those that confirm are not planned
    return Verification(
        run=folder.id,
        verdict="damaged" if found.named else "intact",
        status=status,
        finished=run is not None and run.status == "completed" and not (files.summary and files.summary.unfinished),
        planned=0 if run is None else run.planned,
        conversations=recorded_ones or found.played or 0,
        calls=files.journal.records["Told"],
        sealed=found.sealed,
        replayed=replayed,
        differences=tuple(found.named),
        more=found.more,
        notes=tuple(found.notes),
    )


# The files, each for itself


def _read_receipt(folder: RunFolder, found: _Findings) -> Receipt | None:
    try:
        run = folder.read_receipt()
    except RunDamaged as error:
        found.add(Difference("run.json", error.reason))
        return None
    if run is None:
        if not folder.journal.exists() and not folder.results.exists():
            raise UsageError(f"run {folder.id} never started", "There is nothing to verify.")
        found.add(Difference("run.json", "it is missing"))
    return run


def _check_sums(folder: RunFolder, found: _Findings, run: Receipt | None, *, ended: bool) -> None:
    try:
        sums = read_checksums(folder.path)
        if sums is not None:
            found.sealed = sums.sealed
            changed = changed_files(folder.path, sums, ended=ended)
            found.add(*(Difference(name, what) for name, what in changed.items()))
    except RunDamaged as error:
        found.add(Difference(error.path.name, error.reason))
        return
    except OSError as error:
        found.add(Difference(CHECKSUMS, f"it cannot be read: {reason_of(error)}"))
        return
    if sums is None and run is not None and run.format >= CHECKSUMS_SINCE:
        found.add(Difference(CHECKSUMS, "it is missing"))
    elif sums is None:
        found.notes.append("an earlier version of rejoinder made the run: it has no checksums")
    elif not sums.sealed:
        found.notes.append("the checksums are not sealed with your key: another user made the run, or rewrote them")


class _Reading(Struct, frozen=True):
    """What was read of a file with a record a line."""

    is_whole: bool
    records: Counter[str]
    """How many there are of each type."""
    first: str = ""
    """The type of the first."""


_NOT_READ = _Reading(False, Counter())


class _Files:
    """Every file is read once, record by record, to find out which line is not as rejoinder writes it."""

    def __init__(self, folder: RunFolder, found: _Findings, *, ended: bool, plays: bool) -> None:
        self._folder = folder
        self._found = found
        self.journal = _NOT_READ
        self.can_be_played = plays and self._read_what_is_played(ended=ended)
        self.results = self._read_lines("results.jsonl", Result) if ended else _NOT_READ
        self.summary: Summary | None = self._read_summary() if ended else None

    def _read_what_is_played(self, *, ended: bool) -> bool:
        has_suite = self._has_suite()
        cases = self._read_lines("cases.jsonl", tuple[int, Case])
        self.journal = self._read_lines("journal.jsonl", Record, may_tear=not ended)
        if self.journal.first not in ("", Opened.__name__):
            self._found.add(Difference("journal.jsonl", "its beginning is missing", 1))
        return has_suite and cases.is_whole and self.journal.is_whole

    def _has_suite(self) -> bool:
        try:
            read_stored(self._folder)
        except RunDamaged as error:
            self._found.add(Difference("suite.json", error.reason))
        except RejoinderError as error:
            self._found.add(Difference("suite.json", error.message))
        else:
            return True
        return False

    def _read_summary(self) -> Summary | None:
        try:
            summary = self._folder.read_summary()
        except RunDamaged as error:
            self._found.add(Difference("summary.json", error.reason))
            return None
        if summary is None:
            self._found.add(Difference("summary.json", "it is missing"))
        return summary

    def _read_lines(self, name: str, kind: Any, *, may_tear: bool = False) -> _Reading:
        """`may_tear`: a process that was killed may have written half of the last line."""
        path, decode = self._folder.path / name, msgspec.json.Decoder(kind).decode
        records, first, line = Counter[str](), "", 0
        try:
            with open_file(path) as stream:
                for content in lines_of(stream, path):
                    line += 1
                    if not content.endswith(b"\n"):
                        if may_tear:
                            break
                        raise RunDamaged(path, "the last line is cut off")
                    record = type(decode(content)).__name__
                    first = first or record
                    records[record] += 1
            return _Reading(True, records, first)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            self._found.add(Difference(name, beginning(decoding_reason(error), LONGEST_VALUE), line))
        except RunDamaged as error:
            self._found.add(Difference(name, error.reason, line or None))
        except FileNotFoundError:
            if may_tear and name == "journal.jsonl":  # it was killed before its first call
                return _NOT_READ
            self._found.add(Difference(name, "it is missing"))
        except OSError as error:
            self._found.add(Difference(name, f"it cannot be read: {reason_of(error)}"))
        return _Reading(False, records, first)


# What they add up to


def _wrong_figures(report: RunReport) -> Iterator[tuple[str, str]]:
    try:
        for one in different_figures(report):
            yield one.field, _unlike(one.recorded, one.counted, "the results")
    except RecursionError:
        yield "", _TOO_DEEP
    except (RejoinderError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        yield "", f"its results cannot be counted: {beginning(str(error), LONGEST_VALUE)}"


def _play_again(recorded: RecordedRun, run: Receipt, found: _Findings, play: Play, *, ended: bool) -> bool:
    """Play the journal, and compare what comes of it. True if it could be played."""
    try:
        suites = _suites_of(recorded, found)
        if suites is None:
            return False
        ends = ended and recorded.options().answers.otherwise == "end"
        report = play(recorded, suites, _skipped(recorded.folder) if ends else None)
        if not ended:
            found.played = report.summary.finished
            return True
        differences = [*_planned(run, report), *_wrong_results(recorded.folder, run, report)]
    except (JournalError, RunDamaged) as error:
        found.add(Difference("journal.jsonl", error.message))
        return False
    except RecursionError:
        found.add(Difference("results.jsonl", _TOO_DEEP))
        return False
    except RejoinderError as error:
        found.notes.append(f"the journal was not played again: {error.message}")
        return False
    if differences and found.sealed and not found.named:
        # Nothing was edited: the seal says so. A run may have been resumed with other suites than it began with.
        found.notes.append(f"played with the suites that the run began with, {_told(differences[0])}")
    else:
        found.add(*differences)
    return True


def _told(difference: Difference) -> str:
    place = f"line {difference.line} of {difference.file}" if difference.line else difference.file
    return f"{place} would be another: {difference.field or 'it'} {difference.message}"


def _suites_of(recorded: RecordedRun, found: _Findings) -> list[Suite] | None:
    """The suites as they were; None where the folder's copy is not to be trusted and the project has others."""
    if recorded.is_trusted:
        return recorded.copies()
    suites = recorded.suites(asks=False)
    if is_as_stored(suites, recorded.folder, recorded.stored):
        return suites
    found.notes.append(
        "the journal was not played again: the suites here differ from the run's; --trust uses its own copy"
    )
    return None


def _planned(run: Receipt, report: RunReport) -> Iterator[Difference]:
    if run.planned != report.run.planned:
        yield Difference("run.json", _unlike(run.planned, report.run.planned, "the plan"), None, "planned")


def _skipped(folder: RunFolder) -> frozenset[Place]:
    return frozenset(result.place for result in read_results(folder.results) if result.status == "skipped")


_Key: TypeAlias = tuple[Place, str]


def _key(result: Result) -> _Key:
    return result.place, result.file


class _Derived:
    """The results that the journal gives, in document order, found by their conversation."""

    def __init__(self, path: Path) -> None:
        self._numbers: dict[_Key, deque[int]] = {}
        for number, result in enumerate(read_results(path)):
            self._numbers.setdefault(_key(result), deque()).append(number)
        self._rest = enumerate(read_results(path))
        self._last = -1

    def holds(self, key: _Key) -> bool:
        return bool(self._numbers.get(key))

    def take(self, key: _Key) -> Result | None:
        """The result of a conversation, which is used up; None where it stands before one that was taken already."""
        wanted = self._numbers[key].popleft()
        if wanted < self._last:
            return None
        self._last = wanted
        return next(result for number, result in self._rest if number == wanted)

    def left(self) -> Iterator[Place]:
        for (place, _), numbers in self._numbers.items():
            yield from (place for _ in numbers)


def _wrong_results(folder: RunFolder, run: Receipt, report: RunReport) -> Iterator[Difference]:
    name = folder.results.name
    derived = _Derived(report.results.path)
    for line, result in enumerate(read_results(folder.results), 1):
        if not derived.holds(_key(result)):
            # What was skipped, or ended by an error outside of its calls, is in no journal.
            if result.status not in ("skipped", "error"):
                yield Difference(
                    name, f"the journal does not hold this conversation: {beginning(result.id, LONGEST_VALUE)}", line
                )
            continue
        played = derived.take(_key(result))
        if played is None:
            yield Difference(name, "it is out of order", line)
        elif played != result:
            for one in unlike(result, played):
                yield Difference(name, _unlike(one.recorded, one.counted, "the journal"), line, one.field)
    if run.status == "completed":
        for place in derived.left():
            yield Difference(
                name, f"a conversation that the journal holds is missing: {beginning(place.case, LONGEST_VALUE)}"
            )


def _unlike(recorded: object, counted: object, source: str) -> str:
    return f"is {_value(recorded)}, and by {source} it is {_value(counted)}"


def _value(value: object) -> str:
    return beginning(msgspec.json.encode(value, enc_hook=repr).decode(), LONGEST_VALUE)
