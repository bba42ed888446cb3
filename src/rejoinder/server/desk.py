"""What pages read of a project: its runs, what is wrong with them, and the indexes of those that are looked at.

Reading is bounded. A run is found by its whole id and nowhere but in the project. Whether it is what it was when it was
written is looked up before its figures are shown; for a large run that takes seconds, so its page comes first, and is
told when something is wrong.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep

from msgspec import Struct

from rejoinder.errors import RejoinderError, reason_of
from rejoinder.history.notes import read_notes
from rejoinder.model import Receipt
from rejoinder.model.history import Notes, Phase
from rejoinder.model.passports import Passport
from rejoinder.run_files import RunDamaged, refuse_special_files
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.passports import find_passport
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport, read_run
from rejoinder.runs.state import state_of
from rejoinder.runs.system_prompts import SystemPrompts
from rejoinder.server.baseline import Baselines
from rejoinder.server.damage import Damage, is_small
from rejoinder.server.errors import ApiError, no_run
from rejoinder.server.folders import find_folder, results_file
from rejoinder.server.index_folder import IndexFolder
from rejoinder.server.known import Known
from rejoinder.server.queue import Queue
from rejoinder.server.row_store import Address
from rejoinder.server.run_index import RunIndex
from rejoinder.server.settings import Settings
from rejoinder.views.conversation import ConversationView, view_conversation
from rejoinder.views.rows import PLAIN, frame_of
from rejoinder.views.run import title_of

MOST_INDEXES = 8
"""Indexes that are kept at once."""
INDEX_S = 60.0
"""How long verifying a large run waits for its index."""


class Look(Struct, frozen=True):
    """A run as it is at this moment."""

    folder: RunFolder
    state: Phase
    receipt: Receipt | None = None
    report: RunReport | None = None
    """Of a run that has ended: its figures."""
    damage: str | None = None
    verified: bool = True
    """False while it is still being looked through."""
    notes: Notes = Notes()

    @property
    def id(self) -> str:
        return self.folder.id

    @property
    def is_live(self) -> bool:
        return self.state == "running"

    @property
    def is_killed(self) -> bool:
        return self.state == "killed"

    @property
    def is_damaged(self) -> bool:
        return self.state == "damaged"

    @property
    def is_stopped(self) -> bool:
        return self.receipt is not None and self.receipt.is_stopped

    @property
    def mark(self) -> str:
        """Another one as soon as the run has begun, was killed, goes on or has ended: its page is another then."""
        receipt = self.receipt
        return self.state if receipt is None else f"{self.state} {receipt.status} {receipt.finished_at}"

    @property
    def title(self) -> str:
        return self.id if self.receipt is None else title_of(self.receipt) or self.id


class Desk:
    def __init__(self, settings: Settings, damage: Damage | None = None) -> None:
        self.damage = Damage(settings.root) if damage is None else damage
        self.settings = settings
        self.root = settings.root
        self.queue = Queue(settings.root)
        self.baselines = Baselines(settings.root)
        self._indexed: IndexFolder | None = None
        self._lock = Lock()
        self._indexes: Known[str, RunIndex] = Known(MOST_INDEXES)
        self._verifying: set[str] = set()
        self._made = 0

    def close(self) -> None:
        """Delete the indexes."""
        with self._lock:
            if self._indexed is not None:
                self._indexed.delete()
                self._indexed = None
            self._indexes = Known(MOST_INDEXES)

    def passport(self, model: str, digest: str) -> Passport | None:
        """The newest test of a judge; None if it was never tested."""
        return find_passport(self.root, model, digest)

    # Runs

    def folder(self, run: str) -> RunFolder:
        """A run of the project, or new grades of one, by its whole id. Raises ApiError."""
        folder = find_folder(self.root, run)
        if folder is None:
            raise no_run(run)
        return folder

    def text_of(self, look: Look, file: str) -> str:
        """The YAML of a suite of a run that is not a file, by its name in results; empty for other suites."""
        try:
            return RecordedRun(look.folder, self.root).text_of(file)
        except RejoinderError:
            return ""

    def look(self, run: str) -> Look:
        """Raises ApiError for a run that is not there."""
        folder = self.folder(run)
        try:
            refuse_special_files(folder.path)
            stored = state_of(folder)
            if stored.receipt is None:
                return Look(folder, stored.phase, damage=stored.damage or None)
            receipt, notes = stored.receipt, read_notes(folder)
            if stored.phase != "ended":
                return Look(folder, stored.phase, receipt, notes=notes)
            damage, verified = self._damage_of(folder)
            report = None if damage else read_run(RecordedRun(folder, self.root))
        except RejoinderError as error:
            return Look(folder, "damaged", damage=error.reason if isinstance(error, RunDamaged) else str(error))
        except OSError as error:
            return Look(folder, "damaged", damage=reason_of(error))
        if damage or report is None:
            return Look(folder, "damaged", receipt, damage=damage or "it has no summary or no results", notes=notes)
        return Look(folder, "ended", receipt, report, verified=verified, notes=notes)

    def is_queued(self, look: Look) -> bool:
        """Has the queue started it, or will it go on with it?"""
        entry = self.queue.find(look.id)
        if entry is None or not entry.is_waiting:
            return False
        return look.is_live or (not entry.stop and (look.is_killed or look.is_stopped))

    def _damage_of(self, folder: RunFolder) -> tuple[str, bool]:
        """What is wrong with a run that has ended, empty for nothing; and whether that is known already."""
        known = self.damage.known(folder)
        if known is not None or is_small(folder):
            return self.damage.find(folder) if known is None else known, True
        with self._lock:
            begun = str(folder.path) in self._verifying
            self._verifying.add(str(folder.path))
        if not begun:
            Thread(target=self._verify_behind, args=(folder,), daemon=True).start()
        return "", False

    def _verify_behind(self, folder: RunFolder) -> None:
        """After the index, which people wait for."""
        end = monotonic() + INDEX_S
        while monotonic() < end:
            with self._lock:
                index = self._indexes.get(str(folder.path))
            if index is not None and index.state.done:
                break
            sleep(0.1)
        try:
            self.damage.find(folder)
        finally:
            with self._lock:
                self._verifying.discard(str(folder.path))

    # Indexes

    def index(self, look: Look, seconds: float | None = None) -> RunIndex:
        """The index of a run's results, which has grown for so many seconds at most. Where that was not enough, a
        thread goes on with it."""
        source = results_file(look.folder)
        key = str(look.folder.path)
        with self._lock:
            index = self._indexes.get(key)
            if index is None or not index.is_of(source):
                if index is not None:
                    index.close()
                frame = PLAIN if look.receipt is None else frame_of(look.receipt)
                index = RunIndex(source, self._new_file(), frame)
                for old in self._indexes.put(key, index):
                    old.close()
        state = index.grow(seconds)
        if not state.done:
            index.grow_on()
        return index

    def new_file(self) -> Path:
        """A place for an index, which goes with the server."""
        with self._lock:
            return self._new_file()

    def _new_file(self) -> Path:
        if self._indexed is None:
            self._indexed = IndexFolder()
        self._made += 1
        return self._indexed.path / f"{self._made}.sqlite"


def conversation_at(index: RunIndex, address: Address) -> ConversationView | None:
    """With the system prompt. Raises ApiError where the results were changed under the index."""
    row = index.row(address)
    try:
        result = None if row is None else index.result(address)
    except RunDamaged as error:
        raise ApiError(409, f"{error.path.name}: {error.reason}", code="damaged") from None
    if row is None or result is None:
        return None
    return view_conversation(result, row, SystemPrompts(RunFolder(index.source.parent), result).of(result))
