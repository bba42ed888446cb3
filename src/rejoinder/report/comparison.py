"""A comparison of two runs on a terminal: the verdict first and last, and between them what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice, zip_longest
from typing import TextIO, cast

from msgspec import Struct

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
    NetRecovery,
    NetRecoveryDifference,
    Rate,
)
from rejoinder.report.inert import to_json
from rejoinder.report.problems import columns_of, printable
from rejoinder.report.summary import dollars
from rejoinder.report.words import count, shortened
from rejoinder.stats.words import (
    comparison_words,
    more_words,
    net_difference_words,
    noise_words,
    number_words,
    p_words,
    percent,
    point_range,
    points,
    repeats_words,
)

WIDEST, SIDE_BY_SIDE = 160, 110
"""Columns that are used at most, and from which on two replies stand beside each other."""
BLOCKS = 3
"""Cases that broke which are shown with both replies."""
MOST_NAMED = 20
MOST_ROWS = 5
"""Rows of a reply."""
LONGEST = 200
"""Characters of a name, a title, a prompt."""


class Marks(Struct, frozen=True):
    """The terminal has signs, everything else has words."""

    worse: str = ""
    better: str = ""
    unknown: str = ""
    broke: str = "broke: "
    fixed: str = "fixed: "
    less: str = "less often: "
    more: str = "more often: "
    arrow: str = "->"
    cut: str = "..."


PLAIN = Marks()
SIGNS = Marks("✗ ", "✓ ", "? ", "✗ ", "✓ ", "✗ ", "✓ ", "→", "…")


def marks_for(stream: TextIO) -> Marks:
    """Signs on a terminal that can write them."""
    try:
        "✗✓→…".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return SIGNS if stream.isatty() else PLAIN


def write_comparison(
    found: RunComparison, *, width: int = 100, marks: Marks = PLAIN, every: bool = False
) -> Iterator[str]:
    """`every`: show all flips, with the replies of those that have kept them."""
    width, flips = min(width, WIDEST), _count_flips(found)
    yield f"{_mark(found, marks)}{_headline(found, flips, marks)}"
    yield ""
    yield from _runs(found)
    yield ""
    yield from _table(found, width)
    yield from _seen(found)
    yield from _errors(found)
    yield from _groups("tag", [group for group in found.by_tag if _tells_more(group, found)])
    yield from _noise(found)
    yield ""
    yield from _flips(found, flips, width, marks, every)
    yield from _others(found)
    yield ""
    yield f"{_mark(found, marks)}{_result(found, flips)}"


def sum_up(found: RunComparison, marks: Marks = PLAIN) -> str:
    """The comparison of two variants in a line: `terse against chatty: Cannot tell. ...`."""
    names = [", ".join(map(_safe, side.variants or side.targets)) for side in (found.b, found.a)]
    return f"{' against '.join(names)}: {_headline(found, _count_flips(found), marks)}"


def write_comparisons_json(comparisons: Sequence[RunComparison]) -> Iterator[str]:
    """One comparison is a document; several are a list of them. Flips may be many: they are written one by one."""
    if len(comparisons) == 1:
        yield from _write_json(comparisons[0])
        yield "\n"
        return
    yield '{"comparisons": [\n'
    for place, one in enumerate(comparisons):
        yield ",\n" if place else ""
        yield from _write_json(one)
    yield "\n]}\n"


def _write_json(found: RunComparison) -> Iterator[str]:
    for place, (name, value) in enumerate(found.parts().items()):
        yield f'{"," if place else "{"}\n  "{name}": '
        if isinstance(value, Iterator | tuple):
            yield from _list_json(cast("Iterable[object]", value), "\n    ", "\n  ")
        elif isinstance(value, dict):
            yield from _object_json(cast("dict[str, object]", value))
        else:
            yield to_json(value)
    yield "\n}"


def _object_json(value: dict[str, object]) -> Iterator[str]:
    for place, (name, entry) in enumerate(value.items()):
        yield f'{"," if place else "{"}"{name}":'
        if isinstance(entry, Iterator):
            yield from _list_json(cast("Iterable[object]", entry))
        else:
            yield to_json(entry)
    yield "}"


def _list_json(entries: Iterable[object], before: str = "", end: str = "") -> Iterator[str]:
    """Each entry by itself, with these spaces before it, and before the end of the list."""
    number = 0
    for number, entry in enumerate(entries, 1):
        yield f"{',' if number > 1 else '['}{before}{to_json(entry)}"
    yield f"{end}]" if number else "[]"


_WORDS = {
    "better": "Better",
    "worse": "Worse",
    "no-difference": "No difference",
    "cannot-tell": "Cannot tell",
    "too-few": "Too few to tell",
}


def _mark(found: RunComparison, marks: Marks) -> str:
    if found.is_worse:
        return marks.worse
    return marks.unknown if found.verdict == "cannot-tell" else marks.better


def _word(found: Comparison) -> str:
    word = _WORDS[found.verdict]
    return f"{word} beyond {100 * found.margin:g} points" if found.verdict == "no-difference" else word


def _headline(found: RunComparison, flips: _FlipCounts, marks: Marks) -> str:
    if not found.matched:
        return "Cannot tell. No case is in both runs."
    if found.by_target:
        told = "; ".join(_target(one, marks) for one in found.by_target)
        return f"{_targets_word(found)}: {told}. {_counted(found, flips)}."
    return f"{_word(found.eventual)}. {_counted(found, flips)}; in the end {_moved(found.eventual, marks)}."


def _targets_word(found: RunComparison) -> str:
    """What several targets have become, in a word."""
    verdicts = [one.verdict for one in found.by_target]
    if len(set(verdicts)) == 1:
        return _WORDS[verdicts[0]]
    if found.verdict == "cannot-tell":
        return "Mixed" if found.is_worse else _WORDS["cannot-tell"]
    return f"{_WORDS[found.verdict]} on {verdicts.count(found.verdict)} of {count(len(verdicts), 'target')}"


def _target(one: TargetComparison, marks: Marks) -> str:
    return f"{_safe(one.name)} {_WORDS[one.verdict].lower()}, {_moved(one.comparison, marks)}"


def _moved(found: Comparison, marks: Marks) -> str:
    return f"{_mean(found, 0)} {marks.arrow} {_mean(found, 1)}"


def _mean(found: Comparison, side: int) -> str:
    """The mean over cases, which the points are the difference of."""
    rate = (found.a, found.b)[side]
    return "no rate" if found.means is None else percent(found.means[side], rate.cases, rate.interval)


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
        return f"{of} {'passes' if broke == 1 else 'pass'} less often, {fixed:,} more often"
    return f"{of} broke, {fixed:,} {'was' if fixed == 1 else 'were'} fixed"


def _compared(found: RunComparison) -> str:
    return f"{count(found.matched, 'pair')} of case and target" if found.by_target else count(found.matched, "case")


def _result(found: RunComparison, flips: _FlipCounts) -> str:
    less, more = ("less often", "more often") if flips.repeated else ("broke", "fixed")
    counts = f"{flips.broke:,} {less}, {flips.fixed:,} {more} of {found.matched:,}"
    if not found.by_target:
        return f"{comparison_words(found.eventual)}; {counts}"
    return "; ".join([*(f"{_safe(one.name)} {comparison_words(one.comparison)}" for one in found.by_target), counts])


def _percent(rate: Rate) -> str:
    return "no rate" if rate.rate is None else percent(rate.rate, rate.cases, rate.interval)


def _runs(found: RunComparison) -> Iterator[str]:
    for letter, run in (("A", found.a), ("B", found.b)):
        yield f"  {letter}  {_safe(run.run)}  {_described(run)}"
    if found.changed:
        yield f"     differs: {_safe(', '.join(found.changed))}"
    if found.chosen is not None:
        chosen, other = ("A", "B") if found.chosen == "a" else ("B", "A")
        yield f"     {chosen} has only cases that failed in {other}: some pass by chance. Run all cases to compare."
    if found.edited:
        yield f"     {count(found.edited, 'matched case')} with another question or other checks"


def _described(run: ComparedRun) -> str:
    text = f"{_safe(', '.join(run.suites))} on {_safe(', '.join(run.targets)) or 'no target'}"
    text += f" ({_safe(', '.join(run.variants))})" if run.variants else ""
    parts = [text, count(run.conversations, "conversation")]
    parts += [f"{run.skipped:,} skipped and left out"] if run.skipped else []
    parts += [f"{run.unfinished:,} unfinished"] if run.unfinished else []
    parts += [run.status] if run.status != "completed" else []
    return ", ".join(parts)


Row = tuple[str, ...]
_HEAD: Row = ("", "", "A", "", "B", "points", "95 %", "p", "")
_DROPPED = (7, 1, 3, 6)
"""Columns that are left out, in this order, where the screen is too narrow."""


def _table(found: RunComparison, width: int) -> Iterator[str]:
    rows = [_HEAD]
    for name, eventual, first_try, net in _compared_rates(found):
        rows += [_rates(f"in the end{name}", eventual), _rates(f"first try{name}", first_try), *_net(name, net)]
    rows += _delta("cost of a case", found.cost, dollars)
    rows += _delta("time of a reply", found.latency_s, _seconds)
    rows += _delta("tokens of a case", found.tokens, number_words)
    kept = list(range(len(_HEAD)))
    for column in _DROPPED:
        if _wide(rows, kept) > width:
            kept.remove(column)
    widths = [max(len(row[column]) for row in rows) for column in kept]
    for row in rows:
        label, *cells = (row[column] for column in kept)
        *figures, word = cells
        shown = [cell.rjust(size) for cell, size in zip(figures, widths[1:-1], strict=True) if size]
        yield f"  {label.ljust(widths[0])}  {'  '.join(shown)}  {word}".rstrip()


def _compared_rates(
    found: RunComparison,
) -> list[tuple[str, Comparison, Comparison, NetRecoveryDifference | None]]:
    """Of each target where there are several, with its name behind a comma: they have no common rate."""
    if not found.by_target:
        return [("", found.eventual, found.first_try, found.net_recovery)]
    return [(f", {_safe(one.name)}", one.comparison, one.first_try, one.net_recovery) for one in found.by_target]


def _wide(rows: Sequence[Row], kept: Sequence[int]) -> int:
    return sum(max(len(row[column]) for row in rows) + 2 for column in kept)


def _rates(label: str, found: Comparison) -> Row:
    if found.difference is None or found.interval is None or found.p_value is None:
        return (label, "", "no rate", "", "no rate", "", "", "", "cannot tell")
    return (
        label,
        f"{found.a.passed:,} of {found.a.of:,}",
        _mean(found, 0),
        f"{found.b.passed:,} of {found.b.of:,}",
        _mean(found, 1),
        points(found.difference).partition(" ")[0],
        point_range(found.interval),
        p_words(found.p_value).removeprefix("p "),
        _word(found).lower(),
    )


def _net(name: str, net: NetRecoveryDifference | None) -> list[Row]:
    """Nothing where no follow-up was sent."""
    if net is None or not any(one.failures or one.uncontrolled for one in (net.a, net.b)):
        return []
    words = net_difference_words(net) if net.a.failures and net.b.failures else "not measured"
    text, _, word = words.rpartition(": ")
    difference = "" if net.difference is None or not text else points(net.difference).partition(" ")[0]
    interval = "" if net.interval is None else point_range(net.interval)
    return [(f"net recovery{name}", "", _gain(net.a), "", _gain(net.b), difference, interval, "", word)]


def _gain(net: NetRecovery) -> str:
    return "" if net.net is None else points(net.net).partition(" ")[0]


def _delta(label: str, found: Delta, shown: Callable[[float], str]) -> list[Row]:
    if found.a is None or found.b is None or not (found.a or found.b):
        return []
    change = found.b / found.a - 1 if found.a else None
    told = "" if change is None else f"{100 * change:+.0f}%"
    return [(label, "", shown(found.a), "", shown(found.b), told, "", "", _typical(found, change))]


def _typical(found: Delta, change: float | None) -> str:
    """What is tested: the median over cases, named where it goes another way than the means."""
    if found.verdict == "same":
        return "the same in every case"
    word = "cannot tell" if found.verdict == "cannot-tell" else found.verdict
    if found.change is None or change is None or found.change * change > 0:
        return word
    return f"{word}, typically {100 * found.change:+.0f}%"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _seen(found: RunComparison) -> Iterator[str]:
    """What could have been seen, where nothing was."""
    for name, eventual, first_try, _ in _compared_rates(found):
        same = eventual == first_try  # where no follow-up was sent
        labels = ((f"in the end{name}", eventual), *(() if same else ((f"first try{name}", first_try),)))
        for label, one in labels:
            if one.smallest_effect is None or one.verdict in ("better", "worse"):
                continue
            least = points(min(1.0, one.smallest_effect)).removeprefix("+")
            yield f"  {label}: {least} or more would have been seen{_not_excluded(one)}"


def _not_excluded(one: Comparison) -> str:
    if one.verdict != "cannot-tell" or one.equivalence is None:
        return ""
    text = f"; {100 * one.margin:g} points are not excluded ({point_range(one.equivalence)} at 90%)"
    return text if one.more_cases is None else f"{text}; about {more_words(one.more_cases)} would tell"


def _errors(found: RunComparison) -> Iterator[str]:
    a, b = found.eventual.a, found.eventual.b
    if not (a.errors or b.errors):
        return
    told = "; ".join(f"{letter} {_without(rate)}" for letter, rate in (("A", a), ("B", b)))
    decide = [
        name for name, one in (("in the end", found.eventual), ("first try", found.first_try)) if one.errors_decide
    ]
    held = f"they decide ({', '.join(decide)})" if decide else "the verdicts hold without them, and if they had passed"
    yield f"  errors count as failures: {told}; {held}"


def _without(rate: Rate) -> str:
    if not rate.errors:
        return "none"
    left = rate.of - rate.errors
    if rate.without_errors is None:
        return f"all {rate.errors:,}"
    others = percent(rate.without_errors, rate.cases, rate.interval)
    return f"{rate.errors:,} of {rate.of:,} ({others} of the {left:,} without)"


def _groups(kind: str, groups: Sequence[GroupComparison]) -> Iterator[str]:
    for group in groups[:MOST_NAMED]:
        name = f"  {kind} {_safe(group.name)}"
        if group.p_value is None:
            yield f"{name}: {count(group.comparison.cases, 'case')}, too few to tell"
            continue
        one = group.comparison
        figures = f"{_percent(one.a)} and {_percent(one.b)}, {count(one.cases, 'case')}"
        word = _WORDS[group.verdict].lower()
        yield f"{name}: {word} ({figures}, {p_words(group.p_value)} corrected for {count(group.tested, 'group')})"


def _tells_more(group: GroupComparison, found: RunComparison) -> bool:
    """Is a tag large enough to be tested, and not on every case?"""
    return group.p_value is not None and group.comparison.cases < found.eventual.cases


def _noise(found: RunComparison) -> Iterator[str]:
    flaky = found.flakiness
    told = [f"{letter} {_flip_rate(one)}" for letter, one in (("A", flaky.a), ("B", flaky.b)) if one.rate is not None]
    if told:
        yield f"  a verdict differs between two trials of a case: {', '.join(told)}"
    for case in flaky.cases[:BLOCKS]:
        yield f"    {_flaky(case)}"
    if len(flaky.cases) > BLOCKS:
        yield f"    and {len(flaky.cases) - BLOCKS:,} more flaky cases; --format json has all"
    for letter, noise in (("A", found.noise.a), ("B", found.noise.b)):
        if noise is not None:
            yield f"  noise of {letter}: {noise_words(noise)}"


def _flip_rate(one: FlipRate) -> str:
    if one.rate is None:
        return "not known"
    interval = "" if one.interval is None else f" ({100 * one.interval[0]:.0f} to {100 * one.interval[1]:.0f})"
    return f"{100 * one.rate:.0f}%{interval} of {count(one.cases, 'case')}"


def _flaky(case: FlakyCase) -> str:
    return f"{_safe(case.id)}: A {repeats_words(case.a)}, B {repeats_words(case.b)}"


def _flips(found: RunComparison, counts: _FlipCounts, width: int, marks: Marks, every: bool) -> Iterator[str]:
    starts = (marks.less, marks.more) if counts.repeated else (marks.broke, marks.fixed)
    kinds = (True, counts.broke, starts[0], BLOCKS), (False, counts.fixed, starts[1], 0)
    for broke, total, start, most in kinds:
        shown = set[CaseName]()
        kept = (flip for flip in found.flips if flip.broke is broke and flip.moment is not None)
        for flip in islice(kept, total if every else most):
            shown.add(_name_of(flip))
            yield from _block(flip, start, counts.several, width, marks)
            yield ""
        if total > len(shown):
            rest = (flip for flip in found.flips if flip.broke is broke and _name_of(flip) not in shown)
            names = "  ".join(_flip_name(one, counts.several) for one in islice(rest, MOST_NAMED))
            yield f"{start}{names}{_more(total - len(shown))}"
    if not every and len(found.flips) > min(BLOCKS, counts.broke):
        yield f"both replies of all: rejoinder compare {_sides(found)} --all"


def _name_of(flip: Flip) -> CaseName:
    return CaseName(flip.file, flip.id, flip.target, flip.variant or "")


def _sides(found: RunComparison) -> str:
    """What names both sides for the command."""
    if found.a.run != found.b.run:
        return f"{_safe(found.a.run)} {_safe(found.b.run)}"
    return f"{_safe(found.a.run)} {'--targets' if found.a.targets != found.b.targets else '--variants'}"


def _flip_name(flip: Flip, several: bool) -> str:
    parts = [flip.target, *([flip.variant] if flip.variant else [])] if several else []
    parts += [f"{flip.a[0]} of {flip.a[1]}, then {flip.b[0]} of {flip.b[1]}"] if max(flip.a[1], flip.b[1]) > 1 else []
    return _safe(flip.id) + (f" ({_safe(', '.join(parts))})" if parts else "")


def _block(flip: Flip, start: str, several: bool, width: int, marks: Marks) -> Iterator[str]:
    moment = flip.moment
    if moment is None:
        return
    title = "" if moment.title == flip.id else f"{_safe(moment.title)} "
    where = [flip.id, flip.target, *([flip.variant] if flip.variant else [])] if several else [flip.id]
    yield f"{start}{title}[{_safe(', '.join(where))}]: {_states(flip, marks)}"
    yield f"  {_parting(flip, moment)}"
    yield f"  > {_safe(moment.prompt, min(LONGEST, max(20, width - 4)))}"
    yield from _replies(moment, width, marks)


def _states(flip: Flip, marks: Marks) -> str:
    if max(flip.a[1], flip.b[1]) > 1:
        return f"passed {flip.a[0]} of {flip.a[1]} {marks.arrow} {flip.b[0]} of {flip.b[1]}"
    on = f"passed on turn {flip.passed_on}"
    before, after = (
        on if state == "passed" and flip.passed_on is not None else state for state in (flip.before, flip.after)
    )
    return f"{before} {marks.arrow} {after}"


def _parting(flip: Flip, moment: Moment) -> str:
    side = "B" if flip.broke else "A"
    fails = f"{side} fails {', '.join(map(_safe, moment.fails))}; " if moment.fails else ""
    if flip.differs == "verdict":
        return f"{fails}the same words, graded differently on turn {flip.turn}"
    return f"{fails}differs from turn {flip.turn} on" + (", where another prompt was sent" * (flip.differs == "prompt"))


def _replies(moment: Moment, width: int, marks: Marks) -> Iterator[str]:
    if width < SIDE_BY_SIDE:
        for letter, reply in zip("AB", moment.replies, strict=True):
            for place, row in enumerate(_reply_rows(reply, max(20, width - 6), marks)):
                yield f"  {letter} < {row}" if place == 0 else f"      {row}"
        return
    room = (width - 14) // 2
    a, b = (_reply_rows(reply, room, marks) for reply in moment.replies)
    for place, (left, right) in enumerate(zip_longest(a, b, fillvalue="")):
        begin, middle = ("A < ", "B < ") if place == 0 else ("    ", "    ")
        yield f"  {begin}{left}{' ' * (room - columns_of(left))}  {middle}{right}".rstrip()


def _reply_rows(reply: str | None, room: int, marks: Marks) -> list[str]:
    """At most five rows: the first three, how many are left out, and the last."""
    if reply is None:
        return ["(no reply)"]
    lines = reply.replace("\r\n", "\n").strip().split("\n")
    rows = [row for line in lines for row in _wrapped(printable(line), room)]
    if not any(rows):
        return ["(empty reply)"]
    if len(rows) <= MOST_ROWS:
        return rows
    return [*rows[:3], f"{marks.cut} {count(len(rows) - 4, 'more line')}", rows[-1]]


def _wrapped(line: str, room: int) -> Iterator[str]:
    """A line in rows of so many columns, broken at words where it can be."""
    row = ""
    for word in line.split(" "):
        joined = f"{row} {word}" if row else word
        if columns_of(joined) <= room:
            row = joined
            continue
        if row:
            yield row
        row = ""
        for character in word:
            if columns_of(row + character) > room:
                yield row
                row = ""
            row += character
    yield row


def _others(found: RunComparison) -> Iterator[str]:
    same = found.matched - len(found.flips)
    reworded = max(0, found.matched - found.same_words - len(found.flips))
    parts = [f"{same:,} with the same verdict ({reworded:,} in other words)"] if same else []
    parts += [f"only in A: {_names(found.only_in_a)}"] if found.only_in_a else []
    parts += [f"only in B: {_names(found.only_in_b)}"] if found.only_in_b else []
    parts += [f"not begun in one of them: {_names(found.left_out)}"] if found.left_out else []
    if parts:
        yield "; ".join(parts)
    if found.renamed:
        pairs = (f"{_case(one.a)} is {_case(one.b)}" for one in found.renamed[:MOST_NAMED])
        yield f"renamed and compared: {', '.join(pairs)}{_more(len(found.renamed))}"


def _names(names: Iterable[CaseName]) -> str:
    """Each id once, with its targets where they are several."""
    shown: dict[str, list[str]] = {}
    targets, more = set[str](), 0
    for (_, case), group in groupby(names, key=lambda name: name[:2]):
        on = [name.target for name in group]
        targets.update(on)
        if case in shown or len(shown) < MOST_NAMED:
            shown.setdefault(case, []).extend(on)
        else:
            more += 1
    told = (_safe(f"{name} ({', '.join(on)})" if len(targets) > 1 else name) for name, on in shown.items())
    return ", ".join(told) + _more(len(shown) + more)


def _case(name: CaseName) -> str:
    return f"{_safe(name.id)} ({_safe(name.file)})"


def _more(number: int) -> str:
    return f" and {number - MOST_NAMED:,} more; --format json has all" if number > MOST_NAMED else ""


def _safe(text: str, most: int = LONGEST) -> str:
    """A text of others in one line, which no terminal obeys."""
    return printable(shortened(text[: 4 * most], most))
