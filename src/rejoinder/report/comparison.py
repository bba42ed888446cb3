"""A comparison of two runs on a terminal: the verdict first and last, and between them what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice, zip_longest
from shlex import quote
from typing import NamedTuple

from msgspec import Struct, structs

from rejoinder.model.comparisons import (
    CaseName,
    ComparedRun,
    FlakyCase,
    Flip,
    Moment,
    RunComparison,
    TargetComparison,
)
from rejoinder.model.figures import (
    Comparison,
    Delta,
    FlipRate,
    GroupComparison,
    NetRecoveryDifference,
    Rate,
)
from rejoinder.report.failure import reply_rows
from rejoinder.report.styled import (
    EMPTY,
    PLAIN,
    Commands,
    Form,
    Line,
    Piece,
    Role,
    beside,
    command_rows,
    fitted,
    line,
    mark,
    paragraph,
    safe,
    width_of_line,
)
from rejoinder.report.tables import Column, write_table
from rejoinder.views.board import share_of
from rejoinder.words.figures import (
    change_words,
    comparison_words,
    exact_words,
    gain_words,
    hidden_words,
    mid_p_words,
    net_difference_words,
    noise_words,
    power_words,
    repeats_words,
    side_counts,
    side_words,
    typical_words,
    verdict_words,
)
from rejoinder.words.numbers import (
    count,
    money_alike,
    number_words,
    p_number,
    percent,
    plural,
    point_range,
    points,
    seconds_alike,
    share_words,
    shortened,
)

MOST_COLUMNS, SIDE_BY_SIDE = 160, 110
"""Columns that are used at most, and from which on two replies stand beside each other."""
BLOCKS = 3
"""Cases that broke which are shown with both replies."""
MOST_NAMED = 20
LONGEST = 200
"""Characters of a name."""
LONGEST_TARGET = 28
"""Columns of a target's name in a table."""


def write_comparison(
    found: RunComparison, form: Form = PLAIN, *, every: bool = False, exact: bool = False
) -> Iterator[Line]:
    """`every`: show all flips, with the replies of those that have kept them. `exact`: name both p-values."""
    return _within(_screen(found, form, every, exact), form)


def write_verdict(found: RunComparison, form: Form) -> Iterator[Line]:
    """The result and what to type next, and nothing else."""
    return _within(_ending(found, _count_flips(found), form, every=False), form)


def _within(rows: Iterable[Line], form: Form) -> Iterator[Line]:
    most = _columns_of(form)
    return iter(rows) if most is None else (fitted(row, most) for row in rows)


def _columns_of(form: Form) -> int | None:
    return None if form.width is None else min(form.width, MOST_COLUMNS)


def _screen(found: RunComparison, form: Form, every: bool, exact: bool) -> Iterator[Line]:
    flips = _count_flips(found)
    yield from paragraph((*_mark(found, form), *_headline(found, flips, form)), form)
    yield EMPTY
    yield from _paragraphs(_runs(found), form)
    yield EMPTY
    yield from _table(found, form)
    groups = [group for group in found.by_tag if _tells_more(group, found)]
    for told in (_p_values(found) if exact else (), _seen(found), _errors(found), _tags(groups), _noise(found)):
        yield from _paragraphs(told, form)
    yield EMPTY
    yield from _flips(found, flips, form, every)
    if not form.commands:  # so that the result is the last line
        yield from (line(f"{use}: {command}") for command, use in _commands(found, flips, every))
    yield from _paragraphs(_others(found), form)
    yield EMPTY
    yield from _ending(found, flips, form, every)


def _ending(found: RunComparison, flips: _FlipCounts, form: Form, every: bool) -> Iterator[Line]:
    yield from paragraph((*_mark(found, form), *_result(found, flips)), form)
    if form.commands:
        yield from command_rows(_commands(found, flips, every), form.edge)


def _paragraphs(rows: Iterable[Line], form: Form) -> Iterator[Line]:
    return (row for one in rows for row in paragraph(one, form))


def sum_up(found: RunComparison, form: Form = PLAIN) -> str:
    """The comparison of two variants in a line: `terse against chatty: Cannot tell. ...`."""
    names = [", ".join(map(_short, side.variants or side.targets)) for side in (found.b, found.a)]
    return f"{' against '.join(names)}: {''.join(headline(found, form))}"


def headline(found: RunComparison, form: Form = PLAIN) -> tuple[str, str]:
    """The verdict in a word, and its grounds: `Worse`, `. 6 of 44 cases broke, 1 was fixed; final pass rate 80% ->
    69%.`"""
    word, *rest = _headline(found, _count_flips(found), form)
    return word.text, "".join(piece.text for piece in rest)


def short_verdict(found: RunComparison) -> str:
    """`Cannot tell, 1 broke, 4 fixed`"""
    flips = _count_flips(found)
    broke, fixed = ("less often", "more often") if flips.repeated else ("broke", "fixed")
    told = [f"{number:,} {word}" for number, word in ((flips.broke, broke), (flips.fixed, fixed)) if number]
    return ", ".join([headline(found)[0], *told])


def page_words(found: RunComparison) -> tuple[str, str]:
    """A sentence for a heading, `Worse or not: we cannot tell; 9 broke, 5 fixed`, and what it leaves out."""
    flips = _count_flips(found)
    word, *rest = _headline(found, flips, Form(width=None, symbols=True))
    broke, fixed = ("less often", "more often") if flips.repeated else ("broke", "fixed")
    told = f"{_CLAUSES.get(word.text, word.text)}; {flips.broke:,} {broke}, {flips.fixed:,} {fixed}"
    if not found.matched:
        told = _CLAUSES["Cannot tell"]
    grounds = f"Of {_compared(found)}." if found.groups else "".join(piece.text for piece in rest)
    return told, grounds.lstrip(".: ")


_CLAUSES = {
    "Better": "B is better than A",
    "Worse": "B is worse than A",
    "No difference": "B is not worse than A",
    "Cannot tell": "Worse or not: we cannot tell",
    "Too few to tell": "Worse or not: too few cases to tell",
}


_WORDS = {
    "better": "Better",
    "worse": "Worse",
    "no-difference": "No difference",
    "cannot-tell": "Cannot tell",
    "too-few": "Too few to tell",
}


_ROLES: dict[str, Role] = {"worse": "fail", "better": "pass", "cannot-tell": "warned"}
"""Of the words of verdicts; the others need no colour."""


def _mark(found: RunComparison, form: Form) -> Line:
    """In words alone the verdict is the first of them."""
    if not form.symbols:
        return EMPTY
    return mark("✗" if found.is_worse else "?" if found.verdict == "cannot-tell" else "✓", form)


def _word(found: Comparison) -> str:
    return verdict_words(found).capitalize()


def _headline(found: RunComparison, flips: _FlipCounts, form: Form) -> Line:
    role = "fail" if found.is_worse else _ROLES.get(found.verdict, "name")
    if not found.matched:
        measured = "measured " if any(one.eventual.unmeasured for one in found.each) else ""
        return line(("Cannot tell", role), f". No case is {measured}in both runs.")
    if found.groups:
        told = "; ".join(_target(one, form) for one in found.groups)
        return line((_groups_word(found), role), f": {told}. {_counted(found, flips)}.")
    [one] = found.each
    moved = _moved(one.eventual, form)
    return line((_word(one.eventual), role), f". {_counted(found, flips)}; final pass rate {moved}.")


def _groups_word(found: RunComparison) -> str:
    """What several targets or conditions have become, in a word."""
    verdicts = [one.verdict for one in found.groups]
    if len(set(verdicts)) == 1:
        return _WORDS[verdicts[0]]
    if found.verdict == "cannot-tell":
        return "Mixed" if found.is_worse else _WORDS["cannot-tell"]
    of = count(len(verdicts), "condition" if found.by_condition else "target")
    return f"{_WORDS[found.verdict]} on {verdicts.count(found.verdict)} of {of}"


def _target(one: TargetComparison, form: Form) -> str:
    return f"{_short(one.name)} {verdict_words(one.comparison)}, {_moved(one.comparison, form)}"


def _moved(found: Comparison, form: Form) -> str:
    return f"{side_words(found, 0)} {form.arrow} {side_words(found, 1)}"


class _FlipCounts(Struct, frozen=True):
    """What is said of all flips together, which may be more than fit the memory."""

    broke: int
    fixed: int
    repeated: bool
    """Do trials of a case differ in number or verdict, so that it passes more or less often and does not just flip?"""
    several: bool
    """Are they of several targets or variants?"""


def _count_flips(found: RunComparison) -> _FlipCounts:
    broke, repeated, places = 0, False, set[tuple[str, str | None]]()
    for flip in found.flips:
        broke += flip.broke
        repeated = repeated or max(flip.a[1], flip.b[1]) > 1
        places.add((flip.target, flip.variant))
    return _FlipCounts(broke, len(found.flips) - broke, repeated, len(places) > 1)


def _counted(found: RunComparison, flips: _FlipCounts) -> str:
    broke, fixed = flips.broke, flips.fixed
    of = f"{broke:,} of {_compared(found)}"
    if flips.repeated:
        return f"{of} {plural(broke, 'passes', 'pass')} less often, {fixed:,} more often"
    return f"{of} broke, {fixed:,} {plural(fixed, 'was', 'were')} fixed"


def _compared(found: RunComparison) -> str:
    kind = "condition" if found.by_condition else "target"
    return f"{count(found.matched, 'pair')} of case and {kind}" if found.groups else count(found.matched, "case")


def _result(found: RunComparison, flips: _FlipCounts) -> Line:
    less, more = ("less often", "more often") if flips.repeated else ("broke", "fixed")
    counts = f"{flips.broke:,} {less}, {flips.fixed:,} {more} of {found.matched:,}"
    if found.groups:
        told = (f"{_short(one.name)} {comparison_words(one.comparison)}" for one in found.groups)
        return line("; ".join([*told, counts]))
    [one] = found.each
    verdict, colon, figures = comparison_words(one.eventual).partition(":")
    return line((verdict, _ROLES.get(found.verdict, "name")), f"{colon}{figures}; {counts}")


def _percent(rate: Rate) -> str:
    return share_of(rate.if_tested).text or "no rate"


def _runs(found: RunComparison) -> Iterator[Line]:
    for letter, run in (("A", found.a), ("B", found.b)):
        yield line(f"  {letter}  ", (_short(run.run), "name"), f"  {_described(run)}")
    if found.changed:
        yield line((f"     differs: {_short(', '.join(found.changed))}", "warn"))
    if found.chosen is not None:
        chosen, other = ("A", "B") if found.chosen == "a" else ("B", "A")
        only = f"     {chosen} has only cases that failed in {other}: some pass by chance. Run all cases to compare."
        yield line((only, "warn"))
    if found.edited:
        yield line((f"     {count(found.edited, 'matched case')} with another question or other checks", "warn"))


def _described(run: ComparedRun) -> str:
    text = f"{_short(', '.join(run.suites))} on {_short(', '.join(run.targets)) or 'no target'}"
    text += f" ({_short(', '.join(run.variants))})" if run.variants else ""
    parts = [text, count(run.conversations, "conversation")]
    parts += [f"{run.skipped:,} skipped and left out"] if run.skipped else []
    parts += [f"{run.unfinished:,} unfinished"] if run.unfinished else []
    parts += [run.status] if run.status != "completed" else []
    return ", ".join(parts)


class _Row(NamedTuple):
    """A row of the table: counts and figures of both sides, their difference, and a verdict with its words."""

    label: str
    of_a: str = ""
    a: str = ""
    of_b: str = ""
    b: str = ""
    points: str = ""
    interval: str = ""
    p: str = ""
    holm: str = ""
    word: str = ""
    verdict: str = ""


def _table(found: RunComparison, form: Form) -> Iterator[Line]:
    rows: list[_Row] = []
    for name, eventual, first_try, net in found.each:
        behind = form.cut(_behind(name), LONGEST_TARGET)
        both = (("final pass rate", eventual), ("first try", first_try))
        rows += [*(_rates(f"{label}{behind}", one, form) for label, one in both), *_net(behind, net)]
    rows += _delta("cost per case", found.cost, money_alike, form)
    rows += _delta("time per reply", found.latency_s, seconds_alike, form)
    rows += _delta("tokens per case", found.tokens, _each(number_words), form)
    columns = [
        Column(title="", cells=[line((row.label, "quiet")) for row in rows]),
        _figures("", [row.of_a for row in rows], leaves=2),
        _figures("A", [row.a for row in rows], "name"),
        _figures("", [row.of_b for row in rows], leaves=2),
        _figures("B", [row.b for row in rows], "name"),
        _figures("points", [row.points for row in rows]),
        _figures("95%", [row.interval for row in rows], leaves=3),
        _figures("mid-p", [row.p for row in rows], "quiet", leaves=1),
        *([_figures("Holm", [row.holm for row in rows], "quiet", leaves=1)] if any(row.holm for row in rows) else []),
        Column(title="", cells=[line((row.word, _ROLES.get(row.verdict, "text"))) for row in rows]),
    ]
    most = _columns_of(form)
    inside = structs.replace(form, width=None if most is None else most - 2)
    yield from ((Piece("  "), *row) for row in write_table(columns, inside))


def _figures(title: str, texts: Sequence[str], role: Role = "text", leaves: int = 0) -> Column:
    return Column(title=title, cells=[line((text, role)) for text in texts], right=True, leaves=leaves)


def _behind(name: str) -> str:
    """A group's name behind a label."""
    return f", {_short(name)}" if name else ""


def _rates(label: str, found: Comparison, form: Form) -> _Row:
    if found.difference is None or found.interval is None or found.p_value is None:
        return _Row(label, a="no rate", b="no rate", word="cannot tell", verdict="cannot-tell")
    row = _Row(
        label,
        side_counts(found, 0),
        side_words(found, 0),
        side_counts(found, 1),
        side_words(found, 1),
        word=_WORDS[found.verdict].lower() if form.width else verdict_words(found),
        verdict=found.verdict,
    )
    if hidden_words(found):
        return row
    return row._replace(
        points=points(found.difference).partition(" ")[0],
        interval=point_range(found.interval),
        p=p_number(found.p_value),
        holm="" if found.p_holm is None else p_number(found.p_holm),
    )


def _net(name: str, net: NetRecoveryDifference | None) -> list[_Row]:
    """Nothing where no follow-up was sent."""
    if net is None or not any(one.failures or one.uncontrolled for one in (net.a, net.b)):
        return []
    if not (net.a.failures and net.b.failures):
        return [_Row(f"net recovery{name}", word="not measured")]
    text, _, word = net_difference_words(net).rpartition(": ")
    difference = "" if net.difference is None or not text else points(net.difference).partition(" ")[0]
    interval = "" if net.interval is None else point_range(net.interval)
    a, b = (gain_words(one).partition(" ")[0] for one in (net.a, net.b))
    gains = {"a": a, "b": b, "points": difference, "interval": interval}
    return [_Row(f"net recovery{name}", **gains, word=word, verdict=net.verdict if text else "")]


def _each(shown: Callable[[float], str]) -> Callable[[float, float], list[str]]:
    return lambda a, b: [shown(a), shown(b)]


def _delta(label: str, found: Delta, shown: Callable[[float, float], list[str]], form: Form) -> list[_Row]:
    if found.a is None or found.b is None or not (found.a or found.b):
        return []
    word = typical_words(found, brief=form.is_narrow if found.verdict != "same" else form.width is not None)
    a, b = shown(found.a, found.b)
    return [_Row(label, a=a, b=b, points=change_words(found), word=word)]


def _p_values(found: RunComparison) -> Iterator[Line]:
    for one in found.each:
        for label, rate in (("final pass rate", one.eventual), ("first try", one.first_try)):
            yield line((f"  {label}{_behind(one.name)}: {exact_words(rate)}; {rate.method or 'no test'}", "quiet"))


def _seen(found: RunComparison) -> Iterator[Line]:
    """What could have been seen, if nothing was."""
    for one in found.each:
        name, eventual, first_try = _behind(one.name), one.eventual, one.first_try
        same = eventual == first_try  # where no follow-up was sent
        labels = ((f"final pass rate{name}", eventual), *(() if same else ((f"first try{name}", first_try),)))
        for label, rate in labels:
            if words := power_words(rate):
                yield line((f"  {label}: {words}", "quiet"))


def _errors(found: RunComparison) -> Iterator[Line]:
    for one in found.each:
        a, b = one.eventual.a, one.eventual.b
        if not (a.errors or b.errors):
            continue
        told = "; ".join(f"{letter} {_without(rate)}" for letter, rate in (("A", a), ("B", b)))
        both = (("final pass rate", one.eventual), ("first try", one.first_try))
        decide = [name for name, rate in both if rate.undecided == "errors"]
        held = (
            f"they decide ({', '.join(decide)})" if decide else "the verdicts hold without them, and if they had passed"
        )
        yield line((f"  errors count as failures{_behind(one.name)}: {told}; {held}", "warn"))


def _without(rate: Rate) -> str:
    if not rate.errors:
        return "none"
    left = rate.of - rate.errors
    if rate.without_errors is None:
        return f"all {rate.errors:,}"
    others = percent(rate.without_errors, rate.cases, rate.interval)
    return f"{rate.errors:,} of {rate.of:,} ({others} of the {left:,} without)"


def _tags(groups: Sequence[GroupComparison]) -> Iterator[Line]:
    for group in groups[:MOST_NAMED]:
        name = f"  tag {_short(group.name)}: "
        if group.p_value is None:
            yield line(f"{name}{count(group.comparison.cases, 'case')}, too few to tell")
            continue
        one = group.comparison
        figures = f"{_percent(one.a)} and {_percent(one.b)}, {count(one.cases, 'case')}"
        yield line(name, (verdict_words(one), _ROLES.get(group.verdict, "text")), f" ({figures}, {mid_p_words(one)})")


def _tells_more(group: GroupComparison, found: RunComparison) -> bool:
    """Is a tag large enough to be tested, and not on every case?"""
    return group.p_value is not None and group.comparison.cases < max(one.eventual.cases for one in found.each)


def _noise(found: RunComparison) -> Iterator[Line]:
    flaky = found.flakiness
    told = [f"{letter} {_flip_rate(one)}" for letter, one in (("A", flaky.a), ("B", flaky.b)) if one.rate is not None]
    if told:
        yield line((f"  a verdict differs between two trials of a case: {', '.join(told)}", "quiet"))
    for case in flaky.cases[:BLOCKS]:
        yield line((f"    {_flaky(case)}", "quiet"))
    if len(flaky.cases) > BLOCKS:
        yield line((f"    and {len(flaky.cases) - BLOCKS:,} more flaky cases; --format json has all", "quiet"))
    for letter, noise in (("A", found.noise.a), ("B", found.noise.b)):
        if noise is not None:
            yield line((f"  noise of {letter}: {noise_words(noise)}", "quiet"))


def _flip_rate(one: FlipRate) -> str:
    if one.rate is None:
        return "not known"
    return f"{share_words(one.rate, one.interval)} of {count(one.cases, 'case')}"


def _flaky(case: FlakyCase) -> str:
    return f"{_short(case.id)}: A {repeats_words(case.a)}, B {repeats_words(case.b)}"


def _flips(found: RunComparison, counts: _FlipCounts, form: Form, every: bool) -> Iterator[Line]:
    words = ("less often", "more often") if counts.repeated else ("broke", "fixed")
    kinds = (True, counts.broke, words[0], BLOCKS), (False, counts.fixed, words[1], 0)
    for broke, total, word, most in kinds:
        shown = set[CaseName]()
        kept = (flip for flip in found.flips if flip.broke is broke and flip.moment is not None)
        for flip in islice(kept, total if every else most):
            shown.add(_name_of(flip))
            yield from _block(flip, word, counts.several, form)
            yield EMPTY
        if total > len(shown):
            rest = (flip for flip in found.flips if flip.broke is broke and _name_of(flip) not in shown)
            names = "  ".join(_flip_name(one, counts.several) for one in islice(rest, MOST_NAMED))
            start = _sign(broke, form)
            yield from paragraph((*start, Piece(f"{word}: {names}{_more(total - len(shown))}")), form)


def _sign(broke: bool, form: Form) -> Line:
    """In words alone it is said how a case flipped."""
    return mark("✗" if broke else "✓", form) if form.symbols else EMPTY


def _commands(found: RunComparison, counts: _FlipCounts, every: bool) -> Commands:
    """How to see what was left out."""
    is_whole = every or len(found.flips) <= min(BLOCKS, counts.broke)
    if is_whole or not (found.a.run + found.b.run).isprintable():
        return ()
    return ((f"rejoinder compare {_sides(found)} --all", "both replies of all"),)


def _name_of(flip: Flip) -> CaseName:
    return CaseName(flip.file, flip.id, flip.target, flip.variant or "")


def _sides(found: RunComparison) -> str:
    """What names both sides for the command."""
    if found.a.run != found.b.run:
        return f"{quote(found.a.run)} {quote(found.b.run)}"
    return f"{quote(found.a.run)} {'--targets' if found.a.targets != found.b.targets else '--variants'}"


def _flip_name(flip: Flip, several: bool) -> str:
    parts = [flip.target, *([flip.variant] if flip.variant else [])] if several else []
    parts += [f"{flip.a[0]} of {flip.a[1]}, then {flip.b[0]} of {flip.b[1]}"] if max(flip.a[1], flip.b[1]) > 1 else []
    return _short(flip.id) + (f" ({_short(', '.join(parts))})" if parts else "")


def _block(flip: Flip, word: str, several: bool, form: Form) -> Iterator[Line]:
    moment = flip.moment
    if moment is None:
        return
    yield from _title(flip, moment, word, several, form)
    yield from paragraph(line(f"  {_parting(flip, moment)}"), form)
    yield line((f"  > {form.cut(safe(moment.prompt), form.room - 4)}", "quiet"))
    yield from _replies(flip, moment, form)


def _title(flip: Flip, moment: Moment, word: str, several: bool, form: Form) -> Iterator[Line]:
    """`✗ Do you ship to Norway? [shipping-1]`, and how it ended before and now at the right edge. In words:
    `broke: Do you ship to Norway? [shipping-1]: passed on turn 1 -> failed`."""
    where = [flip.id, flip.target, *([flip.variant] if flip.variant else [])] if several else [flip.id]
    id_there = line(("[", "quiet"), _short(", ".join(where)), ("]", "quiet"))
    has_title = moment.title != flip.id
    if not form.symbols:
        title = f"{form.cut(safe(moment.title), 0)} " if has_title else ""
        yield from paragraph((Piece(f"{word}: {title}"), *id_there, Piece(f": {_states(flip, form)}")), form)
        return
    room = max(12, form.room - 3 - width_of_line(id_there))
    title = line((form.cut(safe(moment.title), room), "name"), " ") if has_title else EMPTY
    yield from beside((*_sign(flip.broke, form), *title, *id_there), line((_states(flip, form), "quiet")), form.edge)


def _states(flip: Flip, form: Form) -> str:
    if max(flip.a[1], flip.b[1]) > 1:
        return f"passed {flip.a[0]} of {flip.a[1]} {form.arrow} {flip.b[0]} of {flip.b[1]}"
    on = f"passed on turn {flip.passed_on}"
    before, after = (
        on if state == "passed" and flip.passed_on is not None else state for state in (flip.before, flip.after)
    )
    return f"{before} {form.arrow} {after}"


def _parting(flip: Flip, moment: Moment) -> str:
    side = "B" if flip.broke else "A"
    fails = f"{side} fails {', '.join(map(_short, moment.fails))}; " if moment.fails else ""
    if flip.differs == "verdict":
        return f"{fails}the same words, graded differently on turn {flip.turn}"
    return f"{fails}replies differ from turn {flip.turn}" + (
        ", where another prompt was sent" * (flip.differs == "prompt")
    )


def _replies(flip: Flip, moment: Moment, form: Form) -> Iterator[Line]:
    """Side by side where signs are wanted and there is room for two."""
    most = _columns_of(form)
    roles: tuple[Role, Role] = ("quiet", "reason") if flip.broke else ("reason", "quiet")
    labels = [Piece(f"{letter} < ", role) for letter, role in zip("AB", roles, strict=True)]
    if most is None or most < SIDE_BY_SIDE or not form.symbols:
        for label, reply in zip(labels, moment.replies, strict=True):
            for place, row in enumerate(_reply(reply, form.room - 6, form)):
                yield (Piece("  "), label, *row) if place == 0 else (Piece("      "), *row)
        return
    room = (most - 14) // 2
    sides = (_reply(reply, room, form) for reply in moment.replies)
    for place, (left, right) in enumerate(zip_longest(*sides, fillvalue=EMPTY)):
        begin, middle = labels if place == 0 else (Piece("    "), Piece("    "))
        gap = Piece(" " * (room - width_of_line(left) + 2))
        yield (Piece("  "), begin, *left, *((gap, middle, *right) if right else ()))


def _reply(reply: str | None, room: int, form: Form) -> list[Line]:
    return [line(("(no reply)", "quiet"))] if reply is None else reply_rows(reply.strip(), (), room, form.dots)


def _others(found: RunComparison) -> Iterator[Line]:
    same = found.matched - len(found.flips)
    reworded = max(0, found.matched - found.same_words - len(found.flips))
    parts = [f"{same:,} unchanged ({reworded:,} with a different reply)"] if same else []
    parts += [f"only in A: {_names(found.only_in_a)}"] if found.only_in_a else []
    parts += [f"only in B: {_names(found.only_in_b)}"] if found.only_in_b else []
    parts += [f"not started in one of them: {_names(found.left_out)}"] if found.left_out else []
    if parts:
        yield line(("; ".join(parts), "quiet"))
    if found.renamed:
        pairs = (f"{_case(one.a)} is {_case(one.b)}" for one in found.renamed[:MOST_NAMED])
        yield line((f"renamed and compared: {', '.join(pairs)}{_more(len(found.renamed))}", "quiet"))


def _names(names: Iterable[CaseName]) -> str:
    """Each id once, with its targets if they are several."""
    shown: dict[str, list[str]] = {}
    targets, more = set[str](), 0
    for (_, case), group in groupby(names, key=lambda name: name[:2]):
        on = [name.target for name in group]
        targets.update(on)
        if case in shown or len(shown) < MOST_NAMED:
            shown.setdefault(case, []).extend(on)
        else:
            more += 1
    told = (_short(f"{name} ({', '.join(on)})" if len(targets) > 1 else name) for name, on in shown.items())
    return ", ".join(told) + _more(len(shown) + more)


def _case(name: CaseName) -> str:
    return f"{_short(name.id)} ({_short(name.file)})"


def _more(number: int) -> str:
    return f" and {number - MOST_NAMED:,} more; --format json has all" if number > MOST_NAMED else ""


def _short(text: str) -> str:
    """A name of others, in a line that is not too long."""
    return safe(shortened(text, LONGEST))
