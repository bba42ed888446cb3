"""Testing a judge: it is asked about replies that people have labelled, and held against what they said.

The labelled replies become a suite like any other, whose target says what is in the file. So a judge is tested by the
very code that asks it in a run: the same prompt, limits, retries and journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from rejoinder._version import __version__
from rejoinder.engine.passports import Labels, Passport, judge_identity
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
    JudgeVariable,
    Level,
    LlmJudge,
    Message,
    Problem,
    Rubric,
    Suite,
    Target,
    TextPart,
    walk_level,
)
from rejoinder.roles import find_target, pair_of
from rejoinder.spelling import did_you_mean, nearest
from rejoinder.stats import Confusion, kappa, kappa_interval, position_bias, self_consistency, wilson
from rejoinder.suite import Row, read_rows, write_value

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
_PASSES = frozenset({"pass", "passed", "true", "yes", "good", "1", "1.0", "ok", "correct"})
_FAILS = frozenset({"fail", "failed", "false", "no", "bad", "0", "0.0", "wrong", "incorrect"})


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
    takes_criteria: bool = False
    """Is what it is asked the case's own, so that a row may say it?"""
    outcome: str | None = None
    """What all cases of the suite demand, where they demand the same."""


def read_labels(path: Path) -> LabelFile:
    """Raises SuiteError with every mistake of the file."""
    labels: list[Label] = []
    problems: list[Problem] = []
    ids: set[str] = set()
    for row in read_rows(path, str(path)):
        found = row if isinstance(row, Problem) else _label(row)
        if isinstance(found, Problem):
            problems.append(found)
            if found.code in ("missing-field", "unknown-key") and path.suffix.lower() == ".csv":
                break  # it is the header, so every further row has the same
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
    for name in row.values:
        if meant := _meant(name, row.values):
            message = f"there is no column `{name}`; did you mean `{meant}`?"
            return row.source.problem("unknown-key", name, message)
    given = {key: _column(row.values, names) for key, names in _COLUMNS.items()}
    for key in ("reply", "label"):
        if given[key] is None and not any(name in row.values for name in _COLUMNS[key]):
            near = did_you_mean(key, row.values) or f"; it has {', '.join(row.values) or 'nothing'}"
            return row.source.problem("missing-field", key, f"this row has no `{key}`{near}")
    passed = _read_verdict(given["label"])
    if passed is None:
        shown = write_value(given["label"]).strip()
        message = f"`{shown}` is no label; write pass or fail" if shown else "the label is empty; write pass or fail"
        return row.source.problem("wrong-type", "label", message)
    words = {key: write_value(given[key]) for key in ("reply", "prompt", "outcome", "reference", "other")}
    return Label(id=write_value(row.values.get("id")) or f"row-{row.number}", passed=passed, **words)


def _meant(name: str, values: dict[str, Any]) -> str | None:
    """The column that a misspelt one stands for. Columns of other people's are none of ours: `note` is not `other`."""
    spellings = {spelling: names for names in _COLUMNS.values() for spelling in names}
    meant = None if name in spellings else nearest(name, spellings, 0.8)
    return meant if meant and not any(one in values for one in spellings[meant]) else None


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


class _Asked(Struct, frozen=True):
    """What a judge is asked in one case."""

    words: str
    """What the column `criteria` can say instead."""
    rest: str
    """What no column can: a rubric, a template."""
    other: str | None


class Found(Struct, frozen=True):
    """A judge of a suite, the first case that it stands in, and what it is asked in all of them."""

    check: Judged
    case: Case
    suite: Suite
    names: set[str]
    asked: set[_Asked]
    outcomes: set[str | None]


def find_judge(suites: Iterable[Suite], name: str | None) -> Found:
    """The one judge of suites that a name means: the check's own, its words, or the beginning of its digest."""
    known: dict[str, Found] = {}
    for suite in suites:
        for case in suite.cases:
            for judge in (one for one in walk_level(case.level) if isinstance(one, Judged)):
                one = known.setdefault(judge_digest(judge), Found(judge, case, suite, set(), set(), set()))
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
    listed = "\n".join(f"  {digest}  {_title(one.check)}" for digest, one in list((chosen or known).items())[:20])
    if not chosen:
        near = did_you_mean(name or "", [one for found in known.values() for one in found.names])
        raise UsageError(f"the suite has no judge `{name}`{near}", f"There are:\n{listed}")
    what = f"{len(chosen)} judges" if name is None else f"{len(chosen)} judges `{name}`"
    hint = "Its name, its criteria or the beginning of its digest will do. There are:"
    raise UsageError(f"the suite has {what}; name one with --check", f"{hint}\n{listed}")


def _names(judge: Judged) -> tuple[str | None, ...]:
    """What it may be called. Its words as they are written: filled in they may hold secrets, and names are shown."""
    kind = _kind(judge)
    return judge.name, kind, describe(kind, judge.written), describe("", judge.written)


def _asked(judge: Judged, case: Case) -> _Asked:
    if isinstance(judge, Rubric):
        return _Asked("", repr(judge.criteria), None)
    if isinstance(judge, Compare):
        return _Asked(judge.criteria or case.outcome or "", "", judge.other)
    assert isinstance(judge, LlmJudge)
    if _has_template(judge):
        is_asked = JudgeVariable("expected_outcome") in (judge.prompt or ())
        return _Asked((judge.criteria or case.outcome or "") if is_asked else "", repr(judge.prompt), None)
    return _Asked("".join(map(str, judge.prompt or ())) or judge.criteria or case.outcome or "", "", None)


def _has_template(judge: LlmJudge) -> bool:
    return any(isinstance(piece, JudgeVariable) for piece in judge.prompt or ())


def subject_of(found: Found, target: str | None, file: LabelFile) -> Subject:
    """The judge as its suite has it, or answered by another target. Raises UsageError where the labels do not do."""
    check = found.check
    words = {asked.words for asked in found.asked}
    if len({asked.rest for asked in found.asked}) > 1:
        what = "rubric" if isinstance(check, Rubric) else "prompt"
        raise UsageError(
            f"this judge is told something else in every case, because its {what} holds variables",
            "There is no one judge to test then. Test it with a suite of one case.",
        )
    if len(words) > 1 and not all(label.outcome for label in file.labels):
        raise UsageError(
            "this judge is asked something else in every case",
            "Give each row of the labels a column `criteria` with what is demanded of its reply.",
        )
    if isinstance(check, Compare) and not _has_others(found, check, file):
        raise UsageError(
            "a comparison needs the reply that each labelled one is held against",
            "Give each row of the labels a column `other`.",
        )
    takes = len(words) > 1 or "{{" in check.written or not (_has_words(check) or isinstance(check, Rubric))
    if not takes and not isinstance(check, Rubric):
        _refuse_criteria(words.pop(), file)
    outcome = next(iter(found.outcomes)) if len(found.outcomes) == 1 else None
    return Subject(check, found.suite, _target_of(found, target), takes, outcome)


def _has_words(check: Judged) -> bool:
    """Does it say itself what is demanded? Else the case's outcome does."""
    return bool(isinstance(check, LlmJudge | Compare) and (check.criteria or getattr(check, "prompt", None)))


def _has_others(found: Found, check: Compare, file: LabelFile) -> bool:
    """Is there something that each labelled reply can be compared with? Nobody has labelled what a target says now."""
    if check.other is not None and len({asked.other for asked in found.asked}) == 1:
        return True
    by_reference = check.other is None and check.other_target is None
    return all(label.other or (by_reference and label.reference) for label in file.labels)


def _refuse_criteria(words: str, file: LabelFile) -> None:
    """A judge that is asked the same in every case is tested as it is: its passport says what it was asked."""
    for label in file.labels:
        if label.outcome and label.outcome.strip() != words.strip():
            raise UsageError(
                f"`{label.id}` of the labels has criteria of its own, and this judge is asked the same of every reply",
                f"It is asked: {words}\nLeave out the column `criteria`, or test one whose criteria hold variables.",
            )


def _target_of(found: Found, target: str | None) -> Target:
    case, suite = found.case, found.suite
    name = target or found.check.target
    if name is None and case.target is None:  # whom the suite asks does not matter here
        name = case.judge_target or suite.judge_target
    if name is None:
        return pair_of(suite, case, case.target).judge
    judge = find_target(suite, name)
    if judge is None:
        raise UsageError(f"there is no target `{name}`{did_you_mean(name, suite.targets)}")
    return judge


def plain_subject(criteria: str, suite: Suite, target: Target, file: LabelFile) -> Subject:
    """A judge that no suite has."""
    _refuse_criteria(criteria, file)
    return Subject(plain_judge(criteria), suite, target)


def _title(judge: Judged) -> str:
    words = describe(_kind(judge), judge.written)
    return f"{judge.name}: {words}" if judge.name else words


def describe(kind: str, written: str) -> str:
    """A judge in one line, as its author wrote it."""
    asked: Any = msgspec.json.decode(written) if written else {}
    criteria = asked.get("criteria") or asked.get("prompt") or ""
    if isinstance(criteria, list):
        criteria = ", ".join(
            one if isinstance(one, str) else one.get("criterion", one.get("outcome")) for one in criteria
        )
    return " ".join(f"{kind} {criteria}".split())


def _kind(judge: Judged) -> str:
    return "rubric" if isinstance(judge, Rubric) else "compare" if isinstance(judge, Compare) else "llm_judge"


def labelled_suite(subject: Subject, file: LabelFile) -> Suite:
    """A suite in which the judge is asked about every labelled reply."""
    replies = {label.id: [{"text": label.reply}] for label in file.labels}
    candidate = Target(name=CANDIDATE, provider="scripted", settings={"replies": replies}, judge_target=None)
    targets = {**subject.suite.targets, subject.target.name: subject.target, CANDIDATE: candidate}
    # No such file exists, so the run keeps its own copy. In its folder are the judge's own code and environment.
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
        if isinstance(check, LlmJudge) and not _has_template(check):
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


# What came of it.


class Finding(Struct, frozen=True):
    """What the judge said of one labelled reply, in all repeats."""

    id: str
    label: bool
    verdicts: list[bool]
    reasons: list[str]
    orders: list[tuple[float, float]]
    """For a comparison: the score of the reply when it was shown first, and when second."""
    troubles: list[str]
    """Why there was no verdict."""


def read_findings(report: RunReport) -> list[Finding]:
    found: dict[str, Finding] = {}
    for result in report.results:
        one = found.setdefault(result["id"], Finding(result["id"], result["metadata"]["label"], [], [], [], []))
        checks = result["turns"][-1]["checks"] if result["turns"] else []
        if not checks or checks[0].get("error"):
            trouble = checks[0]["reason"] if checks else (result["error"] or {}).get("message", "it was not asked")
            one.troubles.append(trouble)
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
    verdict; repeats only tell how steady the judge is. Replies without a verdict are left out, and where there are
    any, the figures are given a second time, with each of them as a wrong verdict."""
    scored = [one for one in findings if one.verdicts]
    table = Confusion.of((one.label, one.verdicts[0]) for one in scored)
    whole = Confusion.of((one.label, one.verdicts[0] if one.verdicts else not one.label) for one in findings)
    steady = self_consistency([one.verdicts for one in scored])
    orders = position_bias([one.orders[0] for one in scored if one.orders])
    figures: Record = {
        "scored": table.n,
        **_figures(table),
        "confusion": msgspec.to_builtins(table),
        "with_errors": _figures(whole) if whole.n != table.n else None,
        "self_consistency": None if steady is None else msgspec.to_builtins(steady),
        "position": None if orders is None else {**msgspec.to_builtins(orders), "flips": orders.flips},
    }
    return table, figures


def _figures(table: Confusion) -> Record:
    return {
        "agreement": table.agreement,
        "agreement_interval": wilson(table.both_pass + table.both_fail, table.n),
        "base_rate": table.base_rate,
        "kappa": kappa(table),
        "kappa_interval": kappa_interval(table),
        "sensitivity": table.sensitivity,
        "sensitivity_interval": wilson(*table.sensitivity_counts),
        "specificity": table.specificity,
        "specificity_interval": wilson(*table.specificity_counts),
    }


def is_test_of(run: Record, suite: Suite, subject: Subject) -> bool:
    """Is it a run of these labels, with this judge?"""
    same_suite = [one["path"] for one in run["suites"]] == [suite.path]
    return same_suite and subject.target.name in [one["name"] for one in run["targets"]]


def make_passport(subject: Subject, file: LabelFile, findings: Sequence[Finding], run: Record, repeat: int) -> Passport:
    table, figures = measure(findings)
    return Passport(
        judge=judge_identity(run, subject.target.name),
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
