"""The plan of a run: suites x cases x variants x targets x trials, one conversation after the other, never all at
once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from math import inf
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from rejoinder.checks.registry import is_plain
from rejoinder.engine.effects import Opening
from rejoinder.errors import UsageError
from rejoinder.formatting.prompt import format_case
from rejoinder.formatting.steps import format_plan
from rejoinder.formatting.turns import picture_reference
from rejoinder.model import (
    Case,
    Compare,
    Custom,
    FilePart,
    ImagePart,
    Message,
    Mode,
    Prompt,
    PythonCheck,
    Semantic,
    Suite,
    Target,
    TextPart,
    file_in_project,
    pictures_of,
    title_of,
    walk_case,
)
from rejoinder.model.chosen_names import ChosenNames, chosen_names
from rejoinder.model.forks import Fork
from rejoinder.model.pictures import Picture
from rejoinder.model.providers import row_of
from rejoinder.model.results import Place
from rejoinder.model.runs import ChosenCases
from rejoinder.model.tools import PythonTool, Tool, runs_code
from rejoinder.providers.registry import is_plugin
from rejoinder.runs.names import case_name_of, name_of, name_on
from rejoinder.runs.options import RunOptions, Selection
from rejoinder.runs.target_identity import identity_of
from rejoinder.spelling import did_you_mean
from rejoinder.validation.roles import (
    Pair,
    find_embedding_fault,
    find_output_schema_fault,
    find_pictures_fault,
    find_provider_fault,
    find_state_fault,
    find_target,
    find_tools_fault,
    find_workspace_fault,
    judges_of,
    offers_of,
    other_targets,
    pair_of,
    tools_of,
)

DEFAULT_WORKERS = 10
WORKERS_FOR_SCRIPTS = 200
"""A script answers at once and calls no server; it waits for the journal, which commits many records at once."""
MOST_NAMES = 1000
"""Names that are remembered to propose the nearest one."""
_UNNAMED = re.compile(r"eval-\d+")


class Prepared(Pair, frozen=True):
    """A pair with all that its trials share."""

    suite_name: str
    prompt: Prompt
    opening: Opening
    content: bytes
    """A digest of the first request, the case and the target."""
    title: str
    """What reports call the case."""
    tools: tuple[Tool, ...] = ()
    """Every tool of the case, its turns and the target."""
    offers: tuple[tuple[int, ...], ...] = ()
    """Those that each planned turn is offered, as places in `tools`; empty if it is all of them."""

    @property
    def variant(self) -> str:
        """The variant of the suite that the case is put in, if there is any."""
        return self.case.variant

    @property
    def has_simulated_opening(self) -> bool:
        """Does a simulated user think of the first words?"""
        return self.case.user is not None and not self.case.user.opening

    @property
    def suite_file(self) -> str:
        return file_in_project(self.suite.path, self.suite.root)


def has_clean_control(prepared: Prepared) -> bool:
    """Whether its conversations are had a second time, without the texts that are put into answers of tools."""
    if prepared.opening.control != "clean" or prepared.opening.fork is not None:
        return False
    return any(fault.fault == "says" for tool in prepared.tools for fault in tool.fails)


class Job(Struct, frozen=True):
    """One conversation to be had."""

    number: int
    """Its place in document order, from 0."""
    prepared: Prepared
    trial: int
    confirms: bool = False
    """Whether it is a further trial of a newly failing case. It is not had if one before it has passed."""


class JobReference(NamedTuple):
    """A job for another process, which has loaded the same suites: no suite, row or secret is in it."""

    number: int
    suite: str
    case: str
    target: str
    variant: str
    trial: int


def reference_of(job: Job) -> JobReference:
    prepared = job.prepared
    place = prepared.case.id, prepared.target.name, prepared.variant
    return JobReference(job.number, prepared.suite.path, *place, job.trial)


class JobFinder:
    """Finds jobs again by reference, in any order: the plan is walked once, and jobs on the way wait until they are
    asked for. A job that is asked for a second time is found by a new walk. Rows of data sets are read again."""

    def __init__(self, suites: list[Suite], options: RunOptions) -> None:
        self._suites = suites
        self._options = options
        self._jobs: Iterator[Job] = iter(())
        self._next = inf
        self._passed: dict[int, Job] = {}
        """Jobs that the walk has passed and that were not asked for yet."""

    def find(self, reference: JobReference) -> Job:
        job = self._passed.pop(reference.number, None) or self._walk_to(reference.number)
        if job is None or reference_of(job) != reference:
            raise UsageError(f"the suite {reference.suite} is not the same here: case `{reference.case}` is missing")
        return job

    def _walk_to(self, number: int) -> Job | None:
        if number < self._next:
            self._jobs, self._next = plan(self._suites, self._options), 0
            self._passed.clear()
        for job in self._jobs:
            self._next = job.number + 1
            if job.number == number:
                return job
            self._passed[job.number] = job
        return None


def place_of(job: Job) -> Place:
    prepared = job.prepared
    return Place(prepared.suite_name, prepared.case.id, prepared.target.name, prepared.variant, job.trial)


def plan(suites: Iterable[Suite], options: RunOptions) -> Iterator[Job]:
    """Every conversation of a run, in document order; behind them those that confirm new failures."""
    number = 0
    confirm = options.selection.confirm
    failing = frozenset(() if confirm is None else confirm.cases)
    confirmed: list[Prepared] = []
    occurrences: dict[bytes, int] = {}
    names: dict[_Called, tuple[str, bytes]] = {}
    """The suite's name and the target's identity, for each suite and target."""
    fork = options.answers.fork
    for pair in pairs(suites, options.selection):
        place = _called(pair.suite, pair.target)
        if place not in names:
            names[place] = name_of(pair.suite), identity_of(pair.target)
        forked = pair if fork is None else _forked(pair, fork)
        prepared = _tell_apart(prepare(forked, *names[place]), occurrences)
        if fork is not None:
            prepared = structs.replace(prepared, opening=structs.replace(prepared.opening, fork=fork))
        for trial in range(1, trials_of(pair.case, options) + 1):
            yield Job(number, prepared, trial)
            number += 1
        if failing and case_name_of(pair) in failing:
            confirmed.append(prepared)
    # One further trial of each case, then a second one: a trial then seldom waits for the one before it.
    for further in range(1, (0 if confirm is None else confirm.times) + 1):
        for prepared in confirmed:
            yield Job(number, prepared, trials_of(prepared.case, options) + further, confirms=True)
            number += 1


def trials_of(case: Case, options: RunOptions) -> int:
    return max(case.repeat or 1, options.repeat)


_Called = tuple[str, str, str]


def _called(suite: Suite, target: Target) -> _Called:
    """What a target is known by in a run."""
    return suite.path, target.name, target.variant


def _is_next(suite: Suite, case: Case, last: tuple[str, int, str] | None) -> tuple[bool, tuple[str, int, str]]:
    """Whether it is another case than the last one, and not another variant or target of it."""
    known = suite.path, case.number, case.id
    return known != last, known


def pairs(suites: Iterable[Suite], selection: Selection) -> Iterator[Pair]:
    """Every selected case with each of its variants and targets."""
    taken, last, wanted = 0, None, frozenset(selection.pairs)
    targets = tuple(dict.fromkeys(selection.targets))
    for suite in suites:
        for case in suite.cases:
            if not is_selected(case, selection):
                continue
            is_next, last = _is_next(suite, case, last)
            taken += is_next
            if selection.limit is not None and taken > selection.limit:
                return
            if not _is_in_shard(suite, case, selection.shard):
                continue
            for target_name in targets or case.targets or (None,):
                pair = pair_of(suite, case, target_name)
                if not wanted or not wanted.isdisjoint((case_name_of(pair), name_on(suite, case, ""))):
                    yield pair


class Survey(Struct, frozen=True):
    """What a plan amounts to, found in one walk before anything is sent."""

    planned: int
    targets: list[tuple[Suite, Target]]
    """Every target that is asked, candidates and judges, with a suite that names it."""
    threads: int | None = None
    judges_itself: bool = False
    """Does a target judge its own replies because no other judge is named?"""
    embedders: list[Target] = []
    """Targets that are asked for nothing but vectors."""
    coded: list[Suite] = []
    """Suites that run Python code of the user's in this process."""
    chosen: ChosenCases | None = None
    """None where all cases are run."""
    tools: list[tuple[Suite, Tool]] = []
    """Every tool that is declared for a case that is run."""
    pictures: list[tuple[Picture, dict[str, str]]] = []
    """Every picture of the cases that are run, once, with the files of its suite's pictures."""


def survey_plan(suites: list[Suite], options: RunOptions) -> Survey:
    """Walk the plan once. What this version or this command cannot do is refused here."""
    count, selection = 0, options.selection
    ids, tags = _Wanted("case", selection.cases), _Wanted("tag", selection.tags)
    variants = _Wanted("variant", selection.variants)
    for variant in (one for suite in suites for one in suite.variants):
        variants.see(variant.name)
    variants.refuse_missing()
    every, last = 0, None
    for suite in suites if selection.is_partial else ():
        for case in suite.cases:
            is_next, last = _is_next(suite, case, last)
            every += is_next
            ids.see(case.id)
            for tag in case.tags:
                tags.see(tag)
    ids.refuse_missing()
    tags.refuse_missing()
    found: dict[_Called, tuple[Suite, Target]] = {}
    speaking: set[_Called] = set()
    """Targets that are called for text, and not only for vectors."""
    judges_itself = False
    coded: dict[str, Suite] = {}
    tools: dict[tuple[str, bytes], tuple[Suite, Tool]] = {}
    pictures: dict[tuple[str, str], tuple[Picture, dict[str, str]]] = {}
    chosen, last = 0, None
    for pair in pairs(suites, selection):
        count += trials_of(pair.case, options)
        is_next, last = _is_next(pair.suite, pair.case, last)
        chosen += is_next
        shown = [picture for picture, _ in pictures_of(pair.case)] if pair.suite.pictures else []
        for picture in shown:
            pictures.setdefault((pair.suite.path, picture.digest), (picture, pair.suite.pictures))
        if not shown and _called(pair.suite, pair.target) in speaking and is_plain(pair.case):
            continue  # as nearly all rows of a large data set
        for tool in tools_of(pair):
            tools.setdefault((pair.suite.path, msgspec.json.encode(tool)), (pair.suite, tool))
        others = list(other_targets(pair))
        _refuse(pair, others, no_code=options.trust.no_code)
        if shown and (fault := find_pictures_fault(pair, shown)) is not None:
            raise fault
        if pair.suite.path not in coded and _runs_python(pair, others):
            coded[pair.suite.path] = pair.suite
        judges_itself = judges_itself or pair.target.name in (judge.name for judge in judges_of(pair))
        texts = (pair.target, *other_targets(pair, vectors=False))
        speaking.update(_called(pair.suite, target) for target in texts)
        for target in (pair.target, *others):
            _, known = found.setdefault(_called(pair.suite, target), (pair.suite, target))
            if known is not target and known != target:
                raise UsageError(f"two targets of one run are named `{target.name}` in {pair.suite.path}")
    threads = max((suite.threads for suite in suites if suite.threads), default=None)
    embedders = [target for place, (_, target) in found.items() if place not in speaking]
    part = ChosenCases(chosen, every) if chosen < every else None
    runs = list(found.values()), threads, judges_itself, embedders, list(coded.values())
    return Survey(count, *runs, part, list(tools.values()), list(pictures.values()))


def _runs_python(pair: Pair, others: list[Target]) -> bool:
    """Does a conversation run Python code of the project or of a package?"""
    own = any(row_of(one.provider).in_process or is_plugin(one.provider) for one in (pair.target, *others))
    own = own or any(isinstance(tool, PythonTool) for tool in tools_of(pair))
    return own or any(isinstance(check, PythonCheck | Custom) for check in walk_case(pair.case))


class _Wanted:
    """Names that a command asks for, and whether they are there: a typo must not select nothing in silence."""

    def __init__(self, what: str, names: tuple[str, ...]) -> None:
        self._what = what
        self._names = ChosenNames(names)
        self._found: set[str] = set()
        self._known: dict[str, None] = {}

    def see(self, name: str) -> None:
        self._found.update(self._names.found_by(name))
        if len(self._known) < MOST_NAMES:
            self._known[name] = None

    def refuse_missing(self) -> None:
        for name in self._names.missing(self._found):
            hint = did_you_mean(name.replace("*", ""), self._known).removeprefix("; ")
            listed = ", ".join(list(self._known)[:20]) or "none"
            raise UsageError(f"there is no {self._what} `{name}`", hint or f"There are: {listed}.")


def default_workers(survey: Survey) -> int:
    """How many conversations run at once by default."""
    if survey.threads:
        return survey.threads
    at_once = all(target.provider == "scripted" and not target.settings.get("delay_ms") for _, target in survey.targets)
    return WORKERS_FOR_SCRIPTS if at_once else DEFAULT_WORKERS


def is_selected(case: Case, selection: Selection) -> bool:
    if selection.cases and case.id not in chosen_names(tuple(selection.cases)):
        return False
    if selection.variants and case.variant not in selection.variants:
        return False
    if not selection.tags:
        return True
    tags = chosen_names(tuple(selection.tags))
    return any(tag in tags for tag in case.tags)


def _is_in_shard(suite: Suite, case: Case, shard: tuple[int, int] | None) -> bool:
    """By a stable hash: a case stays in its part when others come and go.

    Cases that have the same name and words are told apart by their order alone, so they stay together: a case without
    a name of its own is known by its words here too, and the suite's file does not matter.
    """
    if shard is None:
        return True
    part, parts = shard
    known = format_case(case, suite.formatting).question if _UNNAMED.fullmatch(case.id) else case.id
    name = known.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=8).digest()) % parts == part - 1


def prepare(pair: Pair, suite_name: str, target_identity: bytes) -> Prepared:
    suite, case, target = pair.suite, pair.case, pair.target
    prompt = format_case(case, suite.formatting, target.mode)
    messages = prompt.messages
    if case.user is not None and not case.user.opening:
        messages = tuple(message for message in messages if message.content)  # its first words come later
    opening = Opening(
        prompt.question,
        messages,
        case.level,
        case.followups,
        case.max_turns,
        control=case.control,
        plan=None if case.plan is None else format_plan(case.plan, suite.formatting, target.mode),
        user=case.user,
        conversation_checks=case.conversation_checks,
        reply=case.reply,
    )
    digest = _digest(case, target_identity, prompt, target.mode)
    more = title_of(case), tools_of(pair), _offers(pair)
    return Prepared(suite, case, target, pair.judge, suite_name, prompt, opening, digest, *more)


def _offers(pair: Pair) -> tuple[tuple[int, ...], ...]:
    """The tools of each planned turn, if some turn has its own."""
    plan = pair.case.plan
    if plan is None or all(step.tools is None for step in plan.steps):
        return ()
    every = tools_of(pair)
    return tuple(tuple(map(every.index, offer)) for offer in offers_of(pair.case, pair.target))


def _forked(pair: Pair, fork: Fork) -> Pair:
    """Other words at the first turn are other words of the case: judges and records are to have them, too."""
    if fork.turn > 1 or fork.prompt is None:
        return pair
    messages = list(pair.case.messages)
    last = max((place for place, one in enumerate(messages) if one.role == "user"), default=len(messages))
    at, user = pair.case.at, pair.case.user
    if user is not None:
        last = last if user.opening else len(messages)
        user = structs.replace(user, opening=fork.prompt)
    replaced = messages[last].parts if last < len(messages) else ()
    pictures = tuple(part for part in replaced if isinstance(part, ImagePart) and part.picture is not None)
    words = fork.prompt
    for picture in pictures:  # they stay, and so do not stand in the words as well
        words = words.replace(picture_reference(picture.picture.name, "lm"), "") if picture.picture else words
    messages[last:] = [Message("user", (*pictures, TextPart(words, at)), at), *messages[last + 1 :]]
    return structs.replace(pair, case=structs.replace(pair.case, messages=tuple(messages), user=user))


def _digest(case: Case, target: bytes, prompt: Prompt, mode: Mode) -> bytes:
    """What a recorded answer depends on. A case without a name of its own is known by its words alone."""
    name = "" if _UNNAMED.fullmatch(case.id) else case.id
    digest = blake2b(target, digest_size=16)
    digest.update(msgspec.json.encode((name, prompt.messages)))
    if mode == "agent":  # it opens the files itself, so they are not in the messages
        parts = (part for message in case.messages for part in message.parts if isinstance(part, FilePart))
        digest.update(msgspec.json.encode([part.text for part in parts]))
    if case.output_schema is not None:
        digest.update(b"output schema " + case.output_schema.document.encode())
    return digest.digest()


def _tell_apart(prepared: Prepared, occurrences: dict[bytes, int]) -> Prepared:
    """Cases with the same name and words are numbered, so that each has answers of its own."""
    earlier = occurrences.get(prepared.content, 0)
    occurrences[prepared.content] = earlier + 1
    return structs.replace(prepared, content=prepared.content + b"%d" % earlier) if earlier else prepared


def _refuse(pair: Pair, others: list[Target], *, no_code: bool) -> None:
    """What this version or this command cannot do is refused before anything is sent."""
    target, case = pair.target, pair.case
    for one in (target, *others):
        if (fault := find_provider_fault(one)) is not None:
            raise fault
        if no_code and one.runs_code:
            raise UsageError(f"target `{one.name}` runs code of the project, and --no-code refuses that")
    if (fault := find_tools_fault(case, pair.target)) is not None:
        raise fault
    if no_code and any(map(runs_code, tools_of(pair))):
        raise UsageError(f"case `{case.id}` has tools that run code, and --no-code refuses that")
    if (fault := find_output_schema_fault(case, target)) is not None:
        raise fault
    for check in walk_case(case):
        if no_code and check.runs_code:
            raise UsageError(f"case `{case.id}` runs code of the project, and --no-code refuses that")
        if isinstance(check, Compare) and check.other_target:
            rival = find_target(pair.suite, check.other_target)
            if rival is not None and (fault := find_output_schema_fault(case, rival, "rival")) is not None:
                raise fault
        if isinstance(check, Semantic) and (fault := find_embedding_fault(pair.suite, case.id, check)) is not None:
            raise fault
        if (fault := find_workspace_fault(case, target, check)) is not None:
            raise fault
        if (fault := find_state_fault(case, target, check)) is not None:
            raise fault
