"""The tested judge: found in a suite by its name, its words or its digest, or made from criteria."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from rejoinder.calibration.labels import LabelFile
from rejoinder.errors import UsageError
from rejoinder.formatting.judge import judge_digest
from rejoinder.model import (
    Case,
    Compare,
    Judged,
    JudgeVariable,
    LlmJudge,
    ReadyJudge,
    Rubric,
    Suite,
    Target,
    kind_of,
    walk_case,
)
from rejoinder.model.passports import describe_judge
from rejoinder.spelling import did_you_mean
from rejoinder.validation.roles import find_target, pair_of


class Subject(Struct, frozen=True):
    """The tested judge, and its suite."""

    check: Judged
    suite: Suite
    target: Target
    takes_criteria: bool = False
    """Whether its criteria come from the case, so that a row may set them."""
    outcome: str | None = None
    """The outcome that all cases of the suite require, if it is the same."""


def plain_judge(criteria: str) -> LlmJudge:
    """The judge of `llm_judge: {criteria: ...}`."""
    written = msgspec.json.encode({"criteria": criteria}).decode()
    return LlmJudge(criteria=criteria, written=written)


class _Asked(Struct, frozen=True):
    """A judge's criteria in one case."""

    words: str
    """The part that the column `criteria` can replace."""
    rest: str
    """The part that no column can replace: a rubric, a template."""
    other: str | None


class FoundJudge(Struct, frozen=True):
    """A judge of a suite, the first case with it, and its criteria in all cases."""

    check: Judged
    case: Case
    suite: Suite
    names: set[str]
    asked: set[_Asked]
    outcomes: set[str | None]


def find_judge(suites: Iterable[Suite], name: str | None) -> FoundJudge:
    """The single judge of suites that matches a name: the check's own name, its words, or the beginning of its
    digest."""
    known: dict[str, FoundJudge] = {}
    for suite in suites:
        for case in suite.cases:
            for judge in (one for one in walk_case(case) if isinstance(one, Judged)):
                one = known.setdefault(judge_digest(judge), FoundJudge(judge, case, suite, set(), set(), set()))
                one.names.update(filter(None, _names(judge)))
                one.asked.add(_asked(judge, case))
                one.outcomes.add(case.outcome)
    chosen = known
    if name is not None:
        words = " ".join(name.split())
        chosen = {digest: one for digest, one in known.items() if name in one.names or words in one.names}
        chosen = chosen or {digest: one for digest, one in known.items() if name and digest.startswith(name)}
    if len(chosen) == 1:
        return next(iter(chosen.values()))
    if not known:
        raise UsageError("the suite has no judge", "A judge is an `llm_judge`, a `rubric` or a `compare`.")
    listed = "\n".join(f"  {digest}  {title_of(one.check)}" for digest, one in list((chosen or known).items())[:20])
    if not chosen:
        near = did_you_mean(name or "", [one for found in known.values() for one in found.names])
        raise UsageError(f"the suite has no judge `{name}`{near}", f"There are:\n{listed}")
    what = f"{len(chosen)} judges" if name is None else f"{len(chosen)} judges `{name}`"
    hint = "Its name, its criteria or the beginning of its digest will do. There are:"
    raise UsageError(f"the suite has {what}; name one with --check", f"{hint}\n{listed}")


def _names(judge: Judged) -> tuple[str | None, ...]:
    """The names that identify a judge. Its words are used as written: filled in they may hold secrets, and names are
    shown."""
    kind = kind_of(judge)
    return judge.name, kind, describe_judge(kind, judge.written), describe_judge("", judge.written)


def _asked(judge: Judged, case: Case) -> _Asked:
    if isinstance(judge, Rubric):
        return _Asked("", repr(judge.criteria), None)
    if isinstance(judge, Compare):
        return _Asked(judge.criteria or case.outcome or "", "", judge.other)
    if isinstance(judge, ReadyJudge):
        return _Asked("", "", None)
    assert isinstance(judge, LlmJudge)
    if has_template(judge):
        is_asked = JudgeVariable("expected_outcome") in (judge.prompt or ())
        return _Asked((judge.criteria or case.outcome or "") if is_asked else "", repr(judge.prompt), None)
    return _Asked("".join(map(str, judge.prompt or ())) or judge.criteria or case.outcome or "", "", None)


def has_template(judge: LlmJudge) -> bool:
    return any(isinstance(piece, JudgeVariable) for piece in judge.prompt or ())


def subject_of(found: FoundJudge, target: str | None, file: LabelFile) -> Subject:
    """The suite's judge, or the same judge answered by another target. Raises UsageError if the labels do not
    suit it."""
    check = found.check
    words = {asked.words for asked in found.asked}
    if len({asked.rest for asked in found.asked}) > 1:
        what = "rubric" if isinstance(check, Rubric) else "prompt"
        raise UsageError(
            f"this judge gets different instructions from case to case, because its {what} holds variables",
            "So there is no single judge to test. Test it with a suite of one case.",
        )
    if len(words) > 1 and not all(label.outcome for label in file.labels):
        raise UsageError(
            "this judge gets different criteria from case to case",
            "Give each row of the labels a column `criteria` with what its reply has to satisfy.",
        )
    if isinstance(check, Compare) and not _has_others(found, check, file):
        raise UsageError(
            "a comparison needs the reply that each labelled reply is compared with",
            "Give each row of the labels a column `other`.",
        )
    takes = len(words) > 1 or "{{" in check.written or not (_has_words(check) or isinstance(check, Rubric))
    if not takes and not isinstance(check, Rubric):
        _refuse_criteria(words.pop(), file)
    outcome = next(iter(found.outcomes)) if len(found.outcomes) == 1 else None
    return Subject(check, found.suite, _target_of(found, target), takes, outcome)


def _has_words(check: Judged) -> bool:
    """Whether the check has its own criteria. Otherwise the case's outcome is judged."""
    return bool(isinstance(check, LlmJudge | Compare) and (check.criteria or getattr(check, "prompt", None)))


def _has_others(found: FoundJudge, check: Compare, file: LabelFile) -> bool:
    """Whether each labelled reply has another to compare with. A target's current reply has no label."""
    if check.other is not None and len({asked.other for asked in found.asked}) == 1:
        return True
    by_reference = check.other is None and check.other_target is None
    return all(label.other or (by_reference and label.reference) for label in file.labels)


def _refuse_criteria(words: str, file: LabelFile) -> None:
    """Refuse criteria in labels for a judge with the same criteria in every case: its result records those."""
    for label in file.labels:
        if label.outcome and label.outcome.strip() != words.strip():
            raise UsageError(
                f"label `{label.id}` has its own criteria, but this judge is asked the same about every reply",
                f"It is asked: {words}\nLeave out the column `criteria`, or test one whose criteria hold variables.",
            )


def _target_of(found: FoundJudge, target: str | None) -> Target:
    case, suite = found.case, found.suite
    name = target or found.check.target
    if name is None and not case.targets:  # the candidate's target does not matter here
        name = case.judge_target or suite.judge_target
    if name is None:
        return pair_of(suite, case, next(iter(case.targets), None)).judge
    judge = find_target(suite, name)
    if judge is None:
        raise UsageError(f"there is no target `{name}`{did_you_mean(name, suite.targets)}")
    return judge


def plain_subject(criteria: str, suite: Suite, target: Target, file: LabelFile) -> Subject:
    """A judge that is not in any suite."""
    _refuse_criteria(criteria, file)
    return Subject(plain_judge(criteria), suite, target)


def digest_of(subject: Subject) -> str:
    """The digest that identifies its labels and its test result."""
    return judge_digest(subject.check)


def title_of(judge: Judged) -> str:
    words = describe_judge(kind_of(judge), judge.written)
    return f"{judge.name}: {words}" if judge.name else words
