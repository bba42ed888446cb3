"""Judge tests: the judge is asked about replies with human labels, and the comparison gives its figures and its result.

The labelled replies become an ordinary suite, whose target answers from the file. So a judge is tested by the code that
asks it in a run: the same prompt, limits, retries and journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from rejoinder._version import __version__
from rejoinder.calibration.labels import Label, LabelFile
from rejoinder.calibration.subjects import Subject, has_template
from rejoinder.formatting.judge import judge_digest
from rejoinder.model import (
    AnyCheck,
    Case,
    Compare,
    Item,
    Level,
    LlmJudge,
    Message,
    Receipt,
    Result,
    Suite,
    Target,
    TextPart,
    kind_of,
)
from rejoinder.model.passports import Figures, Finding, Labels, Passport, Rates
from rejoinder.runs.passports import judge_identity, write_passport
from rejoinder.runs.receipt import now
from rejoinder.stats.agreement import Confusion, kappa, kappa_interval, position_bias, self_consistency
from rejoinder.stats.intervals import wilson


def read_findings(results: Iterable[Result]) -> list[Finding]:
    findings: dict[str, Finding] = {}
    for result in results:
        reply = (result.turns[0].response or "") if result.turns else ""
        finding = findings.setdefault(result.id, Finding(result.id, result.metadata["label"], [], [], [], [], reply))
        check = next(iter(result.deciding_checks), None)
        if check is None:
            finding.troubles.append(result.error.message if result.error is not None else "it was not asked")
        elif check.error:
            finding.troubles.append(check.reason)
        else:
            finding.verdicts.append(check.passed)
            finding.reasons.append(check.reason)
            if check.check.startswith("compare") and len(check.children) == 2:
                first, second = (child.score or 0.0 for child in check.children)
                finding.orders.append((first, second))
    return list(findings.values())


def measure(findings: Sequence[Finding]) -> tuple[Confusion, Figures]:
    """The judge's agreement with human labels, with itself and across both orders. Each reply counts once, by its first
    verdict; repeats only show how steady the judge is. Replies without a verdict are excluded, and if there are any,
    the figures are given a second time with each of them as a wrong verdict."""
    scored = [finding for finding in findings if finding.verdicts]
    table = Confusion.of((finding.label, finding.verdicts[0]) for finding in scored)
    whole = Confusion.of((one.label, one.verdicts[0] if one.verdicts else not one.label) for one in findings)
    return table, Figures(
        **msgspec.to_builtins(_rates(table)),
        confusion=table,
        with_errors=_rates(whole) if whole.n != table.n else None,
        self_consistency=self_consistency([finding.verdicts for finding in scored]),
        position=position_bias([finding.orders[0] for finding in scored if finding.orders]),
    )


def _rates(table: Confusion) -> Rates:
    return Rates(
        scored=table.n,
        agreement=table.agreement,
        agreement_interval=wilson(table.both_pass + table.both_fail, table.n),
        base_rate=table.base_rate,
        kappa=kappa(table),
        kappa_interval=kappa_interval(table),
        sensitivity=table.sensitivity,
        sensitivity_interval=wilson(*table.sensitivity_counts),
        specificity=table.specificity,
        specificity_interval=wilson(*table.specificity_counts),
    )


def make_passport(
    subject: Subject, file: LabelFile, findings: Sequence[Finding], run: Receipt, repeat: int
) -> Passport:
    table, figures = measure(findings)
    return Passport(
        judge=judge_identity(run, subject.target.name),
        digest=judge_digest(subject.check),
        kind=kind_of(subject.check),
        asked=subject.check.written,
        labels=Labels(file.path.name, file.hash, len(file.labels), table.n),
        repeat=repeat,
        figures=figures,
        passes=table.sensitivity_counts,
        fails=table.specificity_counts,
        version=__version__,
        created_at=now(),
    )


def keep_passport(subject: Subject, passport: Passport) -> Path | None:
    """The file that it is kept in, in the project of the suite; None without a verdict to keep."""
    return write_passport(Path(subject.suite.root), passport) if passport.labels.scored else None


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
        context=label.context,
        expected_messages=reference,
        targets=(CANDIDATE,),
        judge_target=subject.target.name,
        metadata={"label": label.passed},
    )


def is_test_of(run: Receipt, suite: Suite, subject: Subject) -> bool:
    """Whether a run is a test of this judge with these labels."""
    is_same_suite = [one.path for one in run.suites] == [suite.path]
    return is_same_suite and subject.target.name in [target.name for target in run.targets]
