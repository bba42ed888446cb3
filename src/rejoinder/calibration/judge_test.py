"""Testing a judge: it is asked about replies that people have labelled.

The labelled replies become a suite like any other, whose target answers from the file. So a judge is tested by the code
that asks it in a run: the same prompt, limits, retries and journal.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from rejoinder.calibration.labels import Label, LabelFile
from rejoinder.calibration.subjects import Subject, has_template
from rejoinder.formatting import judge_digest
from rejoinder.model import (
    AnyCheck,
    Case,
    Compare,
    Item,
    Level,
    LlmJudge,
    Message,
    Receipt,
    Suite,
    Target,
    TextPart,
)

CANDIDATE = "labelled replies"
"""The target that answers from the file."""


def labelled_suite(subject: Subject, file: LabelFile) -> Suite:
    """A suite in which the judge is asked about every labelled reply."""
    replies = {label.id: [{"text": label.reply}] for label in file.labels}
    candidate = Target(name=CANDIDATE, provider="scripted", settings={"replies": replies}, judge_target=None)
    targets = {**subject.suite.targets, subject.target.name: subject.target, CANDIDATE: candidate}
    # No such file exists, so the run keeps its own copy. Its folder holds the code and environment of the judge.
    path = Path(subject.suite.path).parent / f"judge test of {file.path.name} ({judge_digest(subject.check)})"
    return structs.replace(
        subject.suite,
        path=str(path),
        name=f"judge test of {file.path.name}",
        description=None,
        cases=tuple(_case(label, subject) for label in file.labels),
        targets=targets,
        judge_target=subject.target.name,
    )


def _case(label: Label, subject: Subject) -> Case:
    check = structs.replace(subject.check, target=subject.target.name, every_turn=False)
    if label.outcome and subject.takes_criteria and isinstance(check, LlmJudge | Compare):
        check = structs.replace(check, criteria=label.outcome)
        if isinstance(check, LlmJudge) and not has_template(check):
            check = structs.replace(check, prompt=None)
    if label.other and isinstance(check, Compare):
        check = structs.replace(check, other=label.other)
    question = label.prompt or "(not given)"
    reference = (Message("assistant", (TextPart(label.reference, ""),), ""),) if label.reference else ()
    item: AnyCheck = check  # type: ignore[assignment] - a judge is one of the checks
    return Case(
        id=label.id,
        at=f"cases[{label.id}]",
        messages=(Message("user", (TextPart(question, ""),), ""),),
        level=Level((Item(item),)),
        outcome=label.outcome or subject.outcome,
        expected_messages=reference,
        target=CANDIDATE,
        judge_target=subject.target.name,
        metadata={"label": label.passed},
    )


def is_test_of(run: Receipt, suite: Suite, subject: Subject) -> bool:
    """Is it a run of these labels, with this judge?"""
    is_same_suite = [one.path for one in run.suites] == [suite.path]
    return is_same_suite and subject.target.name in [target.name for target in run.targets]
