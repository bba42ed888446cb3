"""The cassettes of a folder as the answers of one target."""

from __future__ import annotations

from pathlib import Path

from rejoinder.cassettes.file import Change, Kind, Recording, Shelf, read_cassette, schema_digest
from rejoinder.cassettes.match import Playback
from rejoinder.model import Request


class FolderPlayback:
    """Answers the requests of suites from the cassettes that were recorded of these suites."""

    def __init__(self, folder: Path, of: str, root: str, reveal: Change) -> None:
        """`of`: the target that was recorded. `root`: the project of the suites."""
        self._folder = folder
        self._of = of
        self._root = root
        self._reveal = reveal
        self._shelf = Shelf(folder)
        self._paths: dict[tuple[Path, str, int], list[Path]] = {}
        """The cassettes of a suite's folder, by case and trial."""
        self._own: set[Path] = set()
        """The cassettes of conversations with the target that was recorded."""
        for path in sorted(folder.rglob("*.yaml")):
            cassette = read_cassette(path)
            self._paths.setdefault((path.parent, cassette.case, cassette.trial), []).append(path)
            if cassette.target == of:
                self._own.add(path)
        self._playbacks: dict[Path, Playback] = {}
        self._places: set[Path] = set()
        """The folders of the suites that have asked."""

    def find(self, request: Request) -> Recording | None:
        """The recording that answers a request. Each answers once."""
        wanted = self._wanted(request)
        return next((found for one in self._known(request) if (found := one.find(wanted)) is not None), None)

    def explain(self, request: Request) -> str:
        """The reason why no recording answers a request."""
        if known := self._known(request):
            return known[0].explain(self._wanted(request))
        place = self._shelf.place(request.suite, self._root)
        what = f"case `{request.case_id}`, trial {request.trial}"
        return f"{place} has no cassette for {what}; `run --record {self._folder}` writes one"

    def stale(self, *, whole: bool) -> list[str]:
        """Recordings of the target that were not used; `whole`: cassettes that were not opened, too."""
        left: list[str] = []
        for path, playback in sorted(self._playbacks.items()):
            if words := playback.left_of(self._of):
                left.append(f"{path.relative_to(self._folder).as_posix()}: {words}")
        unplayed = sorted(path for path in self._own - set(self._playbacks) if path.parent in self._places)
        return left + [f"{path.relative_to(self._folder).as_posix()}: no call used it" for path in unplayed if whole]

    def _wanted(self, request: Request) -> Recording:
        kind: Kind = "embedding" if request.embed is not None else "candidate"
        if request.kind in ("judge", "user"):
            kind = request.kind
        return Recording(
            asked=kind,
            of=self._of,
            turn=request.turn,
            messages=request.messages,
            text=request.embed or "",
            output_schema=schema_digest(request.output_schema),
        )

    def _known(self, request: Request) -> list[Playback]:
        place = self._shelf.place(request.suite, self._root)
        self._places.add(place)
        return [self._playback(path) for path in self._paths.get((place, request.case_id, request.trial), ())]

    def _playback(self, path: Path) -> Playback:
        if path not in self._playbacks:
            self._playbacks[path] = Playback(path, self._reveal)
        return self._playbacks[path]
