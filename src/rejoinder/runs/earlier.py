"""Earlier runs as sources of answers: their journals, the models they used and the conversations they skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from rejoinder.model import Suite, Target
from rejoinder.model.results import Place
from rejoinder.providers.settings import model_of
from rejoinder.runs.folder import RunFolder, list_grades, runs_folder
from rejoinder.runs.journal import Told, read_journals
from rejoinder.runs.names import name_of
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.results import read_results
from rejoinder.runs.secrets import Mask
from rejoinder.runs.target_identity import asked_model


class EarlierRuns(Struct, frozen=True):
    """Recorded runs whose answers are looked up first."""

    recorded: tuple[RecordedRun, ...] = ()

    def models(self) -> dict[str, str | None]:
        """The model that each target asked for, as it was filled in then."""
        receipts = (run.folder.read_receipt() for run in self.recorded)
        return {target.name: target.model for run in receipts if run is not None for target in run.targets}

    def replayed(self) -> Iterator[str]:
        """The targets that cassettes answered for although they are the user's own code."""
        for receipt in (run.folder.read_receipt() for run in self.recorded):
            yield from () if receipt is None else receipt.replayed

    def changed_models(self, targets: Iterable[tuple[Suite, Target]], mask: Mask) -> set[str]:
        """The targets that name their model by a variable, and ask for another one now."""
        then = self.models()
        now = {
            target.name: asked_model(suite, target) for suite, target in targets if "${{" in (model_of(target) or "")
        }
        return {name for name, model in now.items() if model and then.get(name) not in (None, mask.hide_text(model))}

    def skipped(self, suites: Iterable[Suite]) -> set[Place]:
        """Conversations that never started: a target was disabled, or the first failure ended the run."""
        paths = [run.folder.results for run in self.recorded if run.folder.results.is_file()]
        names: dict[str, None] = {}
        places: list[Place] = []
        for result in (result for path in paths for result in read_results(path)):
            names[result.suite] = None
            if result.status == "skipped":
                places.append(result.place)
        now = renamed_suites(names, map(name_of, suites))
        return {place._replace(suite=now.get(place.suite, place.suite)) for place in places}

    def told(self, mask: Mask) -> dict[str, Told]:
        """Their answers, those of the first run first. A call that failed in one may have an answer in another."""
        return read_journals(self.journals(mask)).told

    def journals(self, mask: Mask) -> Iterator[tuple[Path, Mask]]:
        """Their journals, each with the mask that reads it."""
        for run in self.recorded:
            yield run.folder.journal, run.mask_for(mask)

    def with_grades(self) -> EarlierRuns:
        """Also the grades that were made of them, the latest first: a judge is not called again for the same."""
        grades = ((run.root, grade) for run in self.recorded for grade in list_grades(run.root, run.folder.id))
        known = [*self.recorded, *(RecordedRun(grade, root) for root, grade in grades if grade.journal.is_file())]
        return EarlierRuns(tuple(sorted(known, key=_written_at, reverse=True)))


def _written_at(run: RecordedRun) -> int:
    return run.folder.journal.lstat().st_mtime_ns


def find_earlier(path: str, root: Path) -> RunFolder | None:
    """A run by the path that it had, or by its name among the project's runs; None if it is gone."""
    there = [RunFolder(runs_folder(root) / Path(path).name), RunFolder(Path(path))]
    return next((folder for folder in there if folder.journal.is_file()), None)


def renamed_suites(before: Iterable[str], now: Iterable[str]) -> dict[str, str]:
    """The suites of a run that have another name now: those left over, in their order, where both sides have as many
    of them."""
    sides = list(dict.fromkeys(before)), list(dict.fromkeys(now))
    gone, new = ([name for name in sides[n] if name not in sides[1 - n]] for n in (0, 1))
    return dict(zip(gone, new, strict=True)) if len(gone) == len(new) else {}
