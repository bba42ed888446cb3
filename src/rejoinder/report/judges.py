"""How far a judge can be trusted: its figures, where people and judge disagree, and what that means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct, structs

from rejoinder.model.figures import Interval
from rejoinder.model.passports import Finding, Passport, PositionBias, Rates, describe_judge
from rejoinder.report.failure import reply_rows
from rejoinder.report.styled import (
    EMPTY,
    Commands,
    Form,
    Line,
    Piece,
    Role,
    beside,
    command_rows,
    folded,
    line,
    mark,
    paragraph,
    safe,
    width_of_line,
)
from rejoinder.words.numbers import coefficient, count, money, p_words, percent, plural, rate_range, shortened
from rejoinder.words.runs import id_end

FEW_LABELS = 30
SOUND_KAPPA, POOR_KAPPA = 0.8, 0.4
"""From here on a judge is good, and below here hardly better than none: a convention, no law."""
SOUND_RATE = 0.8
"""A rate of replies judged rightly below which a judge is called kind or strict."""
SHOWN = 2
"""Disagreements that are shown without being asked for."""
MOST_TROUBLES = 10
LONGEST_ASKED, LONGEST_TROUBLE, LONGEST_REPLY = 120, 300, 1000


class JudgeTest(Struct, frozen=True, kw_only=True):
    """A test of a judge, and what became of it."""

    passport: Passport
    findings: tuple[Finding, ...]
    cost: float | None = None
    run: str
    kept: str
    """Where its figures are saved."""
    commands: Commands = ()


class _Row(Struct, frozen=True):
    """Labels and words in full, and where there is little room."""

    label: tuple[str, str]
    counted: str = ""
    value: str = ""
    bounds: str = ""
    word: tuple[str, str] = ("", "")
    role: Role = "quiet"


def write_judge_report(tested: JudgeTest, form: Form, *, every: bool = False) -> Iterator[Line]:
    """`every`: show all disagreements."""
    passport = tested.passport
    asked = safe(shortened(describe_judge(passport.kind, passport.asked), LONGEST_ASKED))
    yield from paragraph(line((safe(passport.judge), "name"), (f" as {asked}", "quiet")), form)
    yield from _table(list(_rows(passport)), form)
    for text in _besides(tested, form):
        yield from paragraph(line((text, "quiet")), form)
    yield from _disagreements(tested.findings, form, every=every)
    yield from _troubles(tested.findings, form)
    yield EMPTY
    sign, word, why = judged(passport)
    role: Role = "pass" if sign == "✓" else "fail" if sign == "✗" else "warned"
    start = (*mark(sign, form), Piece(word, role))
    if sign == "?" and not form.symbols:  # the mark says it already
        start = (Piece("CANNOT TELL", role),)
    yield from beside((*start, Piece(f": {why}")), (), form.edge)
    if form.commands:
        yield from command_rows(tested.commands, form.edge)


def judged(passport: Passport) -> tuple[str, str, str]:
    """Whether the judge can be used: a mark, the word and why."""
    figures, labels = passport.figures, passport.labels.scored
    if not labels:
        return "!", "nothing was measured", "the judge gave no verdict at all"
    if not passport.passes[1] or not passport.fails[1]:
        which = "pass" if not passport.passes[1] else "fail"
        why = "a judge that always says the same would look as good"
        return "?", "cannot tell", f"the human labels {which} none of the replies; {why}"
    kappa = f"kappa {coefficient(figures.kappa or 0)} of {count(labels, 'label')}"
    if labels < FEW_LABELS:
        return "?", "cannot tell", f"{kappa}; the intervals are wide, {FEW_LABELS} labels or more tell more"
    wrong = "".join(f"; {text}" for text in _faults(figures))
    if figures.kappa is None or figures.kappa < POOR_KAPPA:
        return "✗", "not to be used", f"{kappa}, hardly more than chance gives{wrong}"
    if figures.kappa < SOUND_KAPPA or wrong:
        return "!", "usable with care", f"{kappa}{wrong}"
    return "✓", "usable", kappa


def _faults(figures: Rates) -> Iterator[str]:
    if figures.specificity is not None and figures.specificity < SOUND_RATE:
        yield "too kind to bad replies"
    if figures.sensitivity is not None and figures.sensitivity < SOUND_RATE:
        yield "too strict with good replies"


def _rows(passport: Passport) -> Iterator[_Row]:
    figures, table, scored = passport.figures, passport.figures.confusion, passport.labels.scored
    if not scored:
        return
    agreed = table.both_pass + table.both_fail
    yield _rate(("agrees with humans", "agrees"), (agreed, scored), figures.agreement_interval)
    if figures.kappa is None:
        yield _Row(("kappa", "kappa"), word=("not defined: every verdict is the same", "not defined"))
    else:
        bounds = "" if figures.kappa_interval is None else " to ".join(map(coefficient, figures.kappa_interval))
        yield _Row(("kappa", "kappa"), "", coefficient(figures.kappa), bounds)
    good = _rate(("passes what is good", "good passes"), passport.passes, figures.sensitivity_interval)
    missed = passport.passes[1] - passport.passes[0]
    yield _warned(good, f"rejects {missed:,} of {passport.passes[1]:,}", f"{missed:,} rejected") if missed else good
    bad = _rate(("fails what is bad", "bad fails"), passport.fails, figures.specificity_interval)
    missed = passport.fails[1] - passport.fails[0]
    yield (
        _warned(bad, f"lets {missed:,} of {passport.fails[1]:,} through", f"{missed:,} false passes") if missed else bad
    )
    steady, position = figures.self_consistency, figures.position
    if steady is not None:
        same = round(steady.unanimous * steady.replies), steady.replies
        alpha = "" if steady.alpha is None else f"alpha {coefficient(steady.alpha)}"
        often = "twice" if passport.repeat == 2 else f"{passport.repeat:,} times"
        yield _rate((f"same verdict {often}", f"same {often}"), same, steady.unanimous_interval, alpha)
    if position is not None:
        same = round(position.consistent * position.pairs), position.pairs
        yield _rate(("same in both orders", "both orders"), same, position.consistent_interval, _swayed(position))


def _swayed(position: PositionBias) -> str:
    """Which place of two answers the judge prefers."""
    if position.p_value is None:
        return ""
    return f"{position.to_first:,} for the first, {position.to_second:,} for the second, {p_words(position.p_value)}"


def _rate(label: tuple[str, str], part: tuple[int, int], bounds: Interval | None, word: str = "") -> _Row:
    number, of = part
    if not of:
        return _Row(label, word=("no such replies", "none"))
    ends = "" if bounds is None else rate_range(bounds)
    return _Row(label, f"{number:,} of {of:,}", percent(number / of, of, bounds), ends, (word, word))


def _warned(row: _Row, *word: str) -> _Row:
    return structs.replace(row, word=word, role="warn")


def _table(rows: Sequence[_Row], form: Form) -> Iterator[Line]:
    narrow = form.is_narrow
    gap = " " * (2 if narrow else 3)
    labels = [row.label[1 if narrow else 0] for row in rows]
    longest = max(map(len, labels), default=0)
    columns = ("counted", "value", "bounds")
    widths = {name: max((len(getattr(row, name)) for row in rows), default=0) for name in columns}
    if form.width is not None and longest + 2 + sum(widths.values()) + len(gap) * 3 > form.width:
        del widths["counted"]  # how many there are stands below
    for row, label in zip(rows, labels, strict=True):
        start = Piece(f"  {label.ljust(longest)}{gap}", "quiet")
        if not row.value:
            yield (start, Piece(row.word[1 if narrow else 0]))
            continue
        counted = f"{row.counted.rjust(widths['counted'])}{gap}" if "counted" in widths else ""
        value, bounds = row.value.rjust(widths["value"]), row.bounds.rjust(widths["bounds"])
        figures = (start, Piece(counted), Piece(value, "name"), Piece(f"{gap}{bounds}", "quiet"))
        word = row.word[1 if narrow else 0]
        yield from _with_word(figures, Piece(word, row.role), gap, form)


def _with_word(figures: Line, word: Piece, gap: str, form: Form) -> Iterator[Line]:
    """What a figure means behind it; below it if there is no room."""
    whole = (*figures, Piece(gap), word) if word.text else figures
    if form.width is None or width_of_line(whole) <= form.width:
        yield whole
    else:
        yield figures
        yield from folded((Piece(f"    {word.text}", word.role),), form.width)


def _besides(tested: JudgeTest, form: Form) -> Iterator[str]:
    """What the figures rest on, and what else there is to know."""
    passport, labels = tested.passport, tested.passport.labels
    missing = labels.rows - labels.scored
    without = f", {missing:,} of them without a verdict" if missing else ""
    cost = [money(tested.cost)] if tested.cost is not None else []
    run = f"run {safe(id_end(tested.run) if form.symbols else tested.run)}"
    yield ", ".join([f"{safe(labels.file)}: {count(labels.rows, 'row')}{without}", *cost, run])
    if passport.figures.with_errors is not None:
        yield _with_errors(passport.figures.with_errors, missing)
    if labels.scored and passport.figures.self_consistency is None and passport.repeat == 1:
        yield "is it the same verdict each time? --repeat 3 asks about every reply three times"
    yield safe(tested.kept)


def _with_errors(rates: Rates, missing: int) -> str:
    """The figures leave out replies without a verdict: here these count as wrong."""
    shares = {"agrees": rates.agreement, "good passes": rates.sensitivity, "bad fails": rates.specificity}
    known = [f"{name} {percent(value, rates.scored)}" for name, value in shares.items() if value is not None]
    kappa = [] if rates.kappa is None else [f"kappa {coefficient(rates.kappa)}"]
    verdicts = plural(missing, "the missing verdict", f"the {missing:,} missing verdicts")
    return f"with {verdicts} taken as wrong: {', '.join([*known, *kappa])}"


_DO = {True: "pass", False: "fail"}


def _disagreements(findings: Sequence[Finding], form: Form, *, every: bool) -> Iterator[Line]:
    wrong = [finding for finding in findings if finding.is_wrong]
    if not wrong:
        return
    yield EMPTY
    shown = wrong if every else _of_both_kinds(wrong)
    more = f" ({len(shown):,} shown; all: --verbose)" if len(shown) < len(wrong) else ""
    yield from paragraph(line((count(len(wrong), "disagreement"), "name"), (more, "quiet")), form)
    sign = "≠" if form.symbols else "!="
    for finding in shown:
        yield EMPTY
        people, judge = _DO[finding.label], _DO[finding.verdicts[0]]
        told = line((sign, "warn"), f" {safe(finding.id)}  ", (f"human: {people}, judge: {judge}", "reason"))
        yield from paragraph(told, form)
        room = None if form.edge is None else form.edge - 4
        whole = line(safe(shortened(finding.reply, LONGEST_REPLY)) or "(empty reply)")
        rows = [whole] if room is None else reply_rows(finding.reply, (), room)
        for place, row in enumerate(rows):
            start = ("  < " if form.symbols else "  replied: ") if place == 0 else "    "
            yield (Piece(start, "quiet"), *row)
        reason = line(("  judge: ", "quiet"), safe(finding.reasons[0]))
        yield from islice(paragraph(reason, form), 3) if form.edge is not None else [reason]


def _of_both_kinds(wrong: Sequence[Finding]) -> list[Finding]:
    """A few of them, in their order: one that the judge passes and one that it fails, if there are both."""
    firsts = {finding.label: finding for finding in reversed(wrong)}
    others = [finding for finding in wrong if finding is not firsts[finding.label]]
    chosen = [*firsts.values(), *others][:SHOWN]
    return [finding for finding in wrong if finding in chosen]


def _troubles(findings: Sequence[Finding], form: Form) -> Iterator[Line]:
    """Why there are verdicts missing; mostly it is one reason for all of them."""
    reasons: dict[str, list[str]] = {}
    for finding in findings:
        for trouble in dict.fromkeys(finding.troubles):
            reasons.setdefault(trouble, []).append(finding.id)
    if reasons:
        yield EMPTY
    for reason, ids in list(reasons.items())[:MOST_TROUBLES]:
        more = f" and {len(ids) - 1:,} more" if ids[1:] else ""
        why = safe(shortened(reason, LONGEST_TROUBLE))
        yield from paragraph(line(("no verdict", "fail"), f" on {safe(ids[0])}{more}: ", (why, "reason")), form)
    if len(reasons) > MOST_TROUBLES:
        yield line((f"and for {len(reasons) - MOST_TROUBLES:,} other reasons", "quiet"))
