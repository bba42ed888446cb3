"""All cases of a suite, built once, with the problems of each and the targets that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import islice, zip_longest
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec
from msgspec import structs

from rejoinder.model import Case, Problem, Suite
from rejoinder.suite.agentv_files import is_of_agentv
from rejoinder.suite.document_paths import read_path, write_path
from rejoinder.suite.source import RowSource, Source
from rejoinder.suite.target_names import check_target
from rejoinder.suite.targets import Targets, resolve
from rejoinder.suite.walk import Built, Walker

Review = Callable[[Built, Source, Suite], Iterable[Problem]]
"""Reports more problems of a case, given the suite's file and the part of the suite that is read by then."""
IN_MEMORY = 1 << 20
"""Maximum bytes of a data set's cases, as JSON, held in memory."""
_Spot: TypeAlias = tuple[str, str, str, int]


def spot_of(problem: Problem) -> _Spot:
    return problem.file, problem.code, problem.path, problem.line


class CaseCollector:
    def __init__(self, walkers: list[Walker], suite: Suite, review: Review | None) -> None:
        self.walkers = walkers
        """One for each variant of the suite; they walk over the same cases."""
        self.walker = walkers[0]
        self.context = self.walker.context
        self.suite = suite
        self.review = review
        self.problems: list[Problem] = []
        self.targets = {*self.context.defaults.targets, self.context.defaults.judge_target}
        """The names of all targets that answer or judge."""
        self.followups: set[str] = set()
        """The values of `followups` in cases."""
        self._ids: dict[str, tuple[str, Source | RowSource]] = {}
        self._spots: set[_Spot] = set()

    def collect(self) -> Iterable[Case]:
        """The cases, each with every variant; kept in memory only if no data set is used."""
        cases: list[Case] = []
        store = CaseStore() if self.walker.streams else None
        for built in self._walk():
            self._add_problems(built)
            if built.rest is not None:
                self._check_id(built, built.rest)
                self.targets |= {*built.rest.targets, built.rest.judge_target}
                self.followups.add(built.rest.followups)
            if built.case is not None:
                cases.append(built.case) if store is None else store.add(built.case)
        return tuple(cases) if store is None else store

    def _walk(self) -> Iterator[Built]:
        if len(self.walkers) == 1:
            yield from self.walker.walk()
            return
        for group in zip_longest(*(walker.walk() for walker in self.walkers)):
            builts = [built for built in group if built is not None]
            everywhere = set.intersection(*(set(map(spot_of, built.problems)) for built in builts))
            for built, walker in zip(group, self.walkers, strict=True):
                if built is not None:
                    name = walker.context.variant.name if walker.context.variant is not None else ""
                    yield structs.replace(built, problems=name_variant(built.problems, everywhere, name))

    def _add_problems(self, built: Built) -> None:
        """Keep the problems of a case. A place that an earlier case has reported is not reported again: a thousand rows
        that fail at one line of the suite give one problem, and take no more memory than one."""
        problems = built.problems
        if built.rest is not None and self.review is not None:
            problems = [*problems, *self.review(built, self.context.source, self.suite)]
        if not problems:
            return
        new = [problem for problem in problems if spot_of(problem) not in self._spots]
        self._spots.update(map(spot_of, new))
        self.problems += new

    def _check_id(self, built: Built, case: Case) -> None:
        if "id" in built.touched or (self.walker.touched and "{{" in case.id):
            return  # its id is not known
        at, source = f"{case.at}.id", built.source
        kept = structs.replace(source, text=None) if isinstance(source, RowSource) else source
        first_at, first = self._ids.setdefault(case.id, (at, kept))
        if first_at != at:
            line = first.number if isinstance(first, RowSource) else first.place(read_path(first_at))[0]
            where = f"on line {line}" if first.file == source.file else f"in {first.file}, line {line}"
            where = where if line else f"as `{first_at}`"
            problem = source.problem("duplicate-id", at, f"the id `{case.id}` is already used, {where}")
            self.problems.append(structs.replace(problem, first_line=line or None))

    def check_targets(self, targets: Targets, folders: tuple[str, ...]) -> None:
        """Check the targets that are used; the others need neither their variables nor their files."""
        environment, options = self.context.scope.environment, self.context.options
        for name in sorted(name for name in self.targets if name):
            target = resolve(name, self.context.targets.known)
            judges = [target.judge_target] if target and target.judge_target else []
            for needed in (name, *judges) if options.asks else ():
                self.problems += targets.check_environment(needed, environment, options.missing)
                self.problems += targets.check_certificate(needed, environment, folders)
            for judge in judges:
                self._check_judge(targets, name, judge)

    def _check_judge(self, targets: Targets, name: str, judge: str) -> None:
        """Check that the judge which a target names for its own replies exists."""
        entry, known = targets.entries[name], self.context.targets
        if judge in known.faulty or is_of_agentv(entry.source.file):
            return  # it matters only where a check asks a judge
        for fault in check_target(judge, known.known, complete=known.complete):
            self.problems.append(fault.problem(entry.source, write_path((*entry.path, "judge_target"))))


def name_variant(problems: list[Problem], everywhere: set[_Spot], name: str) -> list[Problem]:
    """The problems, with the variant's name added if only some variants have the problem."""
    return [
        problem
        if spot_of(problem) in everywhere
        else structs.replace(problem, message=f"{problem.message} (with the variant `{name}`)")
        for problem in problems
    ]


class CaseStore:
    """Cases as JSON, which can be iterated over any number of times. A small data set stays in memory, also as objects;
    a larger one goes to a temporary file, which is deleted with this object.

    Reading cases back takes a fifth of the time of building them from their rows.
    """

    def __init__(self) -> None:
        self._stream: BinaryIO = BytesIO()
        self._path: Path | None = None
        """The file, if there is one."""
        self._encode = msgspec.json.Encoder().encode
        self._first: list[Case] = []
        self._size = 0

    def add(self, case: Case) -> None:
        line = self._encode(case) + b"\n"
        self._size += len(line)
        if self._size <= IN_MEMORY:
            self._first.append(case)
        elif self._path is None:
            self._path = self._move_to_file()
        self._stream.write(line)

    def _move_to_file(self) -> Path:
        import weakref
        from tempfile import mkstemp

        in_memory = self._in_memory()
        descriptor, name = mkstemp(prefix="rejoinder-", suffix=".jsonl")
        path = Path(name)
        self._stream = open(descriptor, "wb", buffering=1 << 20)  # noqa: SIM115, PTH123 - closed with this object
        weakref.finalize(self, _delete, self._stream, path)
        self._stream.writelines(in_memory)
        return path

    def __iter__(self) -> Iterator[Case]:
        yield from self._first
        if self._path is not None:
            decode = msgspec.json.Decoder(Case).decode
            yield from map(decode, islice(self.lines(), len(self._first), None))

    def lines(self) -> Iterator[bytes]:
        """The cases as JSON, one per line."""
        if self._path is None:
            yield from self._in_memory()
            return
        if not self._stream.closed:
            self._stream.close()  # all cases were added
        with self._path.open("rb", buffering=1 << 20) as stream:
            yield from stream

    def _in_memory(self) -> BytesIO:
        """The cases in memory, as a stream at its start."""
        assert isinstance(self._stream, BytesIO)
        return BytesIO(self._stream.getvalue())


def _delete(stream: BinaryIO, path: Path) -> None:
    stream.close()
    path.unlink(missing_ok=True)
