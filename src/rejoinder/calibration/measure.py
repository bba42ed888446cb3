"""What a judge test found: the judge's verdicts beside people's labels, its figures, and its passport."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rejoinder._version import __version__
from rejoinder.calibration.labels import LabelFile
from rejoinder.calibration.subjects import Subject, kind_of
from rejoinder.engine.passports import judge_identity
from rejoinder.engine.receipt import now
from rejoinder.formatting import judge_digest
from rejoinder.model import Receipt, Result
from rejoinder.model.passports import Figures, Finding, Labels, Passport, Rates, VerdictTable
from rejoinder.stats import Confusion, kappa, kappa_interval, position_bias, self_consistency, wilson


def read_findings(results: Iterable[Result]) -> list[Finding]:
    findings: dict[str, Finding] = {}
    for result in results:
        finding = findings.setdefault(result.id, Finding(result.id, result.metadata["label"], [], [], [], []))
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
    """How far the judge agrees with people, with itself and with both orders. Each reply counts once: by its first
    verdict; repeats only show how steady the judge is. Replies without a verdict are left out, and where there are
    any, the figures are given a second time, with each of them as a wrong verdict."""
    scored = [finding for finding in findings if finding.verdicts]
    table = Confusion.of((finding.label, finding.verdicts[0]) for finding in scored)
    whole = Confusion.of((one.label, one.verdicts[0] if one.verdicts else not one.label) for one in findings)
    return table, Figures(
        **msgspec.to_builtins(_rates(table)),
        confusion=msgspec.convert(table, VerdictTable, from_attributes=True),
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
