"""Testing a judge: it is asked about replies that people have labelled, and held against what they said.

The labelled replies become a suite like any other, whose target says what is in the file. So a judge is tested by the
very code that asks it in a run: the same prompt, limits, retries and journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from rejoinder._version import __version__
from rejoinder.engine.passports import Labels, Passport
from rejoinder.engine.plan import find_target, pair_of
from rejoinder.engine.receipt import now
from rejoinder.engine.results import Record
from rejoinder.engine.run import RunReport
from rejoinder.errors import SuiteError, UsageError
from rejoinder.formatting import judge_digest
from rejoinder.model import (
    AnyCheck,
    Case,
    Compare,
    Item,
    Judged,
    Level,
    LlmJudge,
    Message,
    Problem,
    Rubric,
    Suite,
    Target,
    TextPart,
    groups_of,
    walk_check,
)
from rejoinder.stats import Confusion, kappa, kappa_interval, position_bias, self_consistency, wilson
from rejoinder.suite.datasets import Row, read_rows
from rejoinder.suite.paths import did_you_mean
from rejoinder.suite.templates import write_value

CANDIDATE = "labelled replies"
"""The target that says what the file says."""
_COLUMNS: dict[str, tuple[str, ...]] = {
    "reply": ("reply", "candidate_answer", "response"),
    "label": ("label", "passed", "human"),
    "prompt": ("prompt", "question"),
    "outcome": ("criteria", "outcome", "expected_outcome"),
    "reference": ("reference", "reference_answer"),
    "other": ("other",),
}
"""What a row says, by the names that it may have."""
_PASSES = frozenset({"pass", "passed", "true", "yes", "good", "1", "ok", "correct"})
_FAILS = frozenset({"fail", "failed", "false", "no", "bad", "0", "wrong", "incorrect"})


class Label(Struct, frozen=True, kw_only=True):
    """A reply, and what people say of it."""

    id: str
    reply: str
    passed: bool
    prompt: str = ""
    outcome: str = ""
    reference: str = ""
    other: str = ""


class LabelFile(Struct, frozen=True):
    path: Path
    hash: str
    labels: list[Label]


class Subject(Struct, frozen=True):
    """The judge that is tested, and the suite that it comes from."""

    check: Judged
    suite: Suite
    target: Target


def read_labels(path: Path) -> LabelFile:
    """Raises SuiteError with every mistake of the file."""
    labels: list[Label] = []
    problems: list[Problem] = []
    ids: set[str] = set()
    for row in read_rows(path, str(path)):
        found = row if isinstance(row, Problem) else _label(row)
        if isinstance(found, Problem):
            problems.append(found)
        elif found.id in ids:
            assert isinstance(row, Row)
            problems.append(row.source.problem("duplicate-id", "id", f"the id `{found.id}` is taken already"))
        else:
            ids.add(found.id)
            labels.append(found)
    if problems:
        raise SuiteError(problems)
    if not labels:
        raise UsageError(f"{path} has no rows", "Each row is a reply and its label: pass or fail.")
    return LabelFile(path, sha256(path.read_bytes()).hexdigest(), labels)


def _label(row: Row) -> Label | Problem:
    given = {key: _column(row.values, names) for key, names in _COLUMNS.items()}
    for key in ("reply", "label"):
        if given[key] is None:
            near = did_you_mean(key, row.values) or f"; it has {', '.join(row.values) or 'nothing'}"
            return row.source.problem("missing-field", key, f"this row has no `{key}`{near}")
    passed = _read_verdict(given["label"])
    if passed is None:
        message = f"`{write_value(given['label'])}` is no label; write pass or fail"
        return row.source.problem("wrong-type", "label", message)
    words = {key: write_value(given[key]) for key in ("reply", "prompt", "outcome", "reference", "other")}
    return Label(id=write_value(row.values.get("id")) or f"row-{row.number}", passed=passed, **words)


def _column(values: dict[str, Any], names: Iterable[str]) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _read_verdict(value: Any) -> bool | None:
    word = write_value(value).strip().lower()
    return True if word in _PASSES else False if word in _FAILS else None


# The judge.


def plain_judge(criteria: str) -> LlmJudge:
    """The judge that `llm_judge: {criteria: ...}` is."""
    written = msgspec.json.encode({"criteria": criteria}).decode()
    return LlmJudge(criteria=criteria, written=written)


class Found(Struct, frozen=True):
    """A judge of a suite, and the first case that it stands in."""

    check: Judged
    case: Case
    suite: Suite
    varies: bool
    """Is it asked something else in every case?"""


def find_judge(suites: Iterable[Suite], name: str | None) -> Found:
    """The one judge of suites that a name means: the check's own, its words, or the beginning of its digest."""
    found: dict[str, tuple[Judged, Case, Suite]] = {}
    wordings: dict[str, set[str]] = {}
    for suite in suites:
        for case in suite.cases:
            for judge in _judges(case.level):
                digest = judge_digest(judge)
                if name is None or name in (judge.name, _title(judge)) or digest.startswith(name):
                    found.setdefault(digest, (judge, case, suite))
                    wordings.setdefault(digest, set()).add(_title(structs.replace(judge, name=None)))
    if len(found) == 1:
        ((digest, first),) = found.items()
        return Found(*first, varies=len(wordings[digest]) > 1)
    if not found:
        what = f"no judge `{name}`" if name else "no judge"
        raise UsageError(f"the suite has {what}", "A judge is an `llm_judge`, a `rubric` or a `compare`.")
    listed = "\n".join(f"  {digest}  {_title(judge)}" for digest, (judge, _, _) in list(found.items())[:20])
    raise UsageError(f"the suite has {len(found)} judges; name one with --check", f"There are:\n{listed}")


def subject_of(found: Found, target: str | None, file: LabelFile) -> Subject:
    """The judge as its suite has it, or answered by another target."""
    if found.varies and not all(label.outcome for label in file.labels):
        raise UsageError(
            "this judge is asked something else in every case, because its criteria hold variables",
            "Give each row of the labels a column `criteria`.",
        )
    name = target or found.check.target
    if name is None:
        judge = pair_of(found.suite, found.case, found.case.target).judge
    else:
        judge = find_target(found.suite, name)
        if judge is None:
            raise UsageError(f"there is no target `{name}`{did_you_mean(name, found.suite.targets)}")
    return Subject(found.check, found.suite, judge)


def _title(judge: Judged) -> str:
    if judge.name:
        return judge.name
    criteria = judge.criteria if isinstance(judge, LlmJudge | Compare) else None
    return f"{_kind(judge)} {criteria or ''}".strip()


def _kind(judge: Judged) -> str:
    return "rubric" if isinstance(judge, Rubric) else "compare" if isinstance(judge, Compare) else "llm_judge"


def _judges(level: Level) -> Iterator[Judged]:
    for item in level.items:
        inner = [item, *(groups_of(item.check) if item.check is not None else ())]
        if item.check is not None:
            yield from (part for part in walk_check(item.check) if isinstance(part, Judged))
        for one in inner:
            if one.follow_up is not None:
                yield from _judges(one.follow_up.level)


def labelled_suite(subject: Subject, file: LabelFile) -> Suite:
    """A suite in which the judge is asked about every labelled reply."""
    replies = {label.id: [{"text": label.reply}] for label in file.labels}
    candidate = Target(name=CANDIDATE, provider="scripted", settings={"replies": replies}, judge_target=None)
    targets = {**subject.suite.targets, subject.target.name: subject.target, CANDIDATE: candidate}
    return structs.replace(
        subject.suite,
        path=str(Path(subject.suite.root) / f"judge test of {file.path.name}"),  # no file: the run keeps its own copy
        name=f"judge test of {file.path.name}",
        description=None,
        cases=tuple(_case(label, subject) for label in file.labels),
        targets=targets,
        judge_target=subject.target.name,
    )


def _case(label: Label, subject: Subject) -> Case:
    check = structs.replace(subject.check, target=subject.target.name, every_turn=False)
    if label.outcome and isinstance(check, LlmJudge | Compare) and check.criteria:
        check = structs.replace(check, criteria=label.outcome)
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
        outcome=label.outcome or None,
        expected_messages=reference,
        target=CANDIDATE,
        judge_target=subject.target.name,
        metadata={"label": label.passed},
    )


# What came of it.


class Finding(Struct, frozen=True):
    """What the judge said of one labelled reply, in all repeats."""

    id: str
    label: bool
    verdicts: list[bool]
    reasons: list[str]
    orders: list[tuple[float, float]]
    """For a comparison: the score of the reply when it was shown first, and when second."""


def read_findings(report: RunReport) -> list[Finding]:
    found: dict[str, Finding] = {}
    for result in report.results:
        one = found.setdefault(result["id"], Finding(result["id"], result["metadata"]["label"], [], [], []))
        checks = result["turns"][-1]["checks"] if result["turns"] else []
        if not checks or checks[0].get("error"):
            continue
        check = checks[0]
        one.verdicts.append(check["passed"])
        one.reasons.append(check["reason"])
        children = check.get("children", [])
        if check["check"].startswith("compare") and len(children) == 2:
            one.orders.append((children[0]["score"], children[1]["score"]))
    return list(found.values())


def measure(findings: Sequence[Finding]) -> tuple[Confusion, Record]:
    """How far the judge agrees with people, with itself and with both orders. Each reply counts once: by its first
    verdict; repeats only tell how steady the judge is."""
    scored = [one for one in findings if one.verdicts]
    table = Confusion.of((one.label, one.verdicts[0]) for one in scored)
    steady = self_consistency([one.verdicts for one in scored])
    orders = position_bias([one.orders[0] for one in scored if one.orders])
    figures: Record = {
        "scored": table.n,
        "agreement": table.agreement,
        "agreement_interval": wilson(table.both_pass + table.both_fail, table.n),
        "base_rate": table.base_rate,
        "kappa": kappa(table),
        "kappa_interval": kappa_interval(table),
        "sensitivity": table.sensitivity,
        "sensitivity_interval": wilson(*table.sensitivity_counts),
        "specificity": table.specificity,
        "specificity_interval": wilson(*table.specificity_counts),
        "confusion": msgspec.to_builtins(table),
        "self_consistency": None if steady is None else msgspec.to_builtins(steady),
        "position": None if orders is None else {**msgspec.to_builtins(orders), "flips": orders.flips},
    }
    return table, figures


def make_passport(subject: Subject, file: LabelFile, findings: Sequence[Finding], repeat: int) -> Passport:
    table, figures = measure(findings)
    model = subject.target.settings.get("model") or subject.target.name
    return Passport(
        judge=f"{subject.target.provider}/{model}",
        digest=judge_digest(subject.check),
        kind=_kind(subject.check),
        asked=subject.check.written,
        labels=Labels(file.path.name, file.hash, len(file.labels), table.n),
        repeat=repeat,
        figures=figures,
        passes=table.sensitivity_counts,
        fails=table.specificity_counts,
        version=__version__,
        created_at=now(),
    )
