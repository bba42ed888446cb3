"""`/judges/DIGEST`: how reliable one judge is, and where people disagree with it. Its figures come from its passport
and from the summaries of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rejoinder.calibration.measure import CANDIDATE
from rejoinder.model.figures import Interval
from rejoinder.model.passports import Passport
from rejoinder.report.page.markup import Child, Markup, address, element, sentence, table
from rejoinder.server.desk import Desk
from rejoinder.server.errors import ApiError
from rejoinder.server.judged import Item, Judged, digest_asked, judged_in, labels_of
from rejoinder.server.labels import LabelRow
from rejoinder.server.listed import Listed, age, listed
from rejoinder.server.pages.asked import pieces
from rejoinder.server.pages.frame import PageData, page, refused, trouble
from rejoinder.server.queue import Entry, judge_test_of
from rejoinder.views.judges import JudgeRow, judge_rows
from rejoinder.words.numbers import capital, coefficient, count, share, share_range, shortened, when
from rejoinder.words.runs import run_words

MOST_RUNS = 60
"""The latest runs that are looked at."""
MOST_SHOWN = 50
LONGEST_REPLY = 600
ENOUGH_LABELS = 20
"""With fewer the figures of a test say little; it can be made all the same."""
DONE_S = 0.1
"""The longest time to count what a test has done."""


class JudgeData(PageData, frozen=True, kw_only=True, tag="judge"):
    run: str
    """The latest run that it judged and that is not a test of it; empty without one."""
    check: str
    acts: bool
    labels: int
    live: bool
    """Whether a test of it is queued or running."""
    is_tested: bool
    given: list[HumanLabel]
    """The labels that the page lists, in its order."""


class Use(Struct, frozen=True):
    """The judge in one run."""

    listed: Listed
    judge: JudgeRow


def routes(desk: Desk) -> list[BaseRoute]:
    return [Route("/judges/{digest:path}", partial(_show, desk), methods=["GET"])]


def _show(desk: Desk, request: Request) -> Response:
    try:
        digest = digest_asked(pieces(request)[-1])
    except ApiError as error:
        return refused("No such judge", error)
    uses = list(_uses(desk, digest))
    if not uses:
        return trouble("No such judge", f"None of the last {MOST_RUNS} runs was judged by it.", 404)
    latest = uses[0].judge
    source = next((use.listed.row.id for use in uses if CANDIDATE not in use.listed.row.targets), "")
    passport = desk.passport(latest.model, digest)
    given = labels_of(desk, digest)
    labelled = _given(desk, digest, given)
    left = _without_label(desk, source, digest, given)
    title = f"Judge {shortened(latest.name or latest.target, 60)}"
    model = f"{latest.model}: " if latest.model and latest.model != latest.target else ""
    test = judge_test_of(desk.queue, digest)
    main = element(
        "section",
        {"id": "overview", "class": "overview judgepage", "aria-labelledby": "h-run"},
        element("h1", {"id": "h-run", "dir": "auto"}, title),
        element("p", {"class": "say", "dir": "auto"}, shortened(f"{model}{latest.check}", LONGEST_REPLY)),
        element("p", {"class": "lead"}, f"{capital(latest.reliability)}."),
        _passport(passport) if passport is not None else None,
        _progress(desk, test) if test is not None else _labelled(len(given), passport),
        None if test is not None else _refused(desk, digest),
        element("p", {"class": "acts", "id": "acts"}, _more(desk, source, digest, left, len(given))),
        _labels(len(given), labelled),
        _runs(uses),
    )
    data = JudgeData(
        run=source,
        check=digest,
        acts=not desk.settings.read_only,
        labels=len(given),
        live=test is not None,
        is_tested=passport is not None,
        given=[one.given for one in labelled[:MOST_SHOWN]],
    )
    return page(title, main, data)


def _uses(desk: Desk, digest: str) -> Iterator[Use]:
    for row in list(reversed(desk.damage.history().history.rows))[:MOST_RUNS]:
        one = listed(desk, row)
        for judge in [] if one.view is None else judge_rows(one.view.summary.judges):
            if judge.digest == digest:
                yield Use(one, judge)


# The passport


def _passport(passport: Passport) -> Markup:
    figures, verdicts = passport.figures, passport.figures.confusion
    rows: list[tuple[str, str, str]] = [
        (
            "Agrees with humans",
            "" if figures.agreement is None else share(figures.agreement),
            _bounds(figures.agreement_interval),
        ),
        ("Cohen's kappa", "" if figures.kappa is None else coefficient(figures.kappa), _kappa(figures.kappa_interval)),
        ("Passes what humans pass", _of(passport.passes), _bounds(figures.sensitivity_interval)),
        ("Fails what humans fail", _of(passport.fails), _bounds(figures.specificity_interval)),
    ]
    heads = ("Question", "Figure", "95% interval")
    body = [
        element(
            "tr", None, element("th", {"scope": "row"}, name), element("td", None, value), element("td", None, ends)
        )
        for name, value, ends in rows
        if value
    ]
    wrong = f"It passes {verdicts.judge_only:,} that humans fail, and fails {verdicts.human_only:,} that humans pass."
    tested = (
        f"Tested {when(passport.created_at)} with {count(passport.labels.scored, 'label')} of {passport.labels.file}."
    )
    return element(
        "div",
        {"class": "panel"},
        element("h2", None, "Passport"),
        table("figures", heads, body),
        element("p", None, wrong),
        element("p", {"class": "about"}, tested),
    )


def _bounds(interval: Interval | None) -> str:
    return "" if interval is None else share_range(interval)


def _kappa(bounds: Interval | None) -> str:
    return "" if bounds is None else " to ".join(map(coefficient, bounds))


def _of(part: tuple[int, int]) -> str:
    return f"{part[0]:,} of {part[1]:,}" if part[1] else ""


def _labelled(number: int, passport: Passport | None) -> Markup | None:
    """The number of labels: out of the number that a test needs, or new since the last test."""
    if passport is not None:
        more = number - passport.labels.scored
        return element("p", {"class": "about"}, f"{count(more, 'label')} more since then.") if more > 0 else None
    if number >= ENOUGH_LABELS:
        words = f"It was never tested against human labels. {count(number, 'label')} are there for a test."
    elif number:
        words = f"It was never tested against human labels. {number} of {ENOUGH_LABELS} labels are there."
    else:
        words = f"It was never tested against human labels. A test needs {ENOUGH_LABELS} of them to say much."
    bar = element("progress", {"max": ENOUGH_LABELS, "value": min(number, ENOUGH_LABELS), "aria-label": "Labels"})
    return element("div", {"class": "labelled"}, element("p", {"class": "say"}, words), bar)


def _progress(desk: Desk, test: Entry) -> Markup:
    """A test that is queued or running, with the number of replies that it has asked about."""
    done = planned = 0
    with suppress(ApiError):
        look = desk.look(test.id)
        done, planned = desk.index(look, DONE_S).state.rows, 0 if look.receipt is None else look.receipt.planned
    link = element("a", {"href": f"/runs/{test.id}"}, "The test")
    if not planned:
        return element("p", {"class": "say", "role": "status"}, link, " begins when the runs before it have ended.")
    words = f" is running: {done:,} of {count(planned, 'reply', 'replies')} judged."
    bar = element("progress", {"max": planned, "value": done, "aria-label": "Judged"})
    return element("div", {"class": "labelled"}, element("p", {"class": "say", "role": "status"}, link, words), bar)


def _refused(desk: Desk, digest: str) -> Markup | None:
    """Why the last test could not be run."""
    test = judge_test_of(desk.queue, digest, is_waiting=False)
    if test is None or not test.message:
        return None
    told = sentence(f"The last test did not begin: {shortened(test.message, LONGEST_REPLY)}")
    return element("p", {"class": "say", "dir": "auto"}, told)


def _more(desk: Desk, run: str, digest: str, left: int, given: int) -> Child:
    """The way to the replies that have no label yet."""
    if desk.settings.read_only or not run or not left:
        return None
    words = f"Label {'the other' if given else 'its'} {count(left, 'reply', 'replies')}"
    hint = f" ({ENOUGH_LABELS} are better)" if given + left < ENOUGH_LABELS else ""
    return element("a", {"class": "btn", "href": f"/label?run={run}&check={digest}"}, f"{words}{hint}")


def _without_label(desk: Desk, run: str, digest: str, labels: dict[str, LabelRow]) -> int:
    """The number of replies of a run that the judge saw and that have no label."""
    with suppress(ApiError):
        return sum(one.item.id not in labels for one in judged_in(desk.look(run), digest)) if run else 0
    return 0


# Labels, those first with which the judge disagrees


class HumanLabel(Struct, frozen=True):
    """A human label, with the reply and what the judge said."""

    run: str
    item: Item
    label: Literal["pass", "fail"]
    note: str


class _LabelledReply(Struct, frozen=True):
    given: HumanLabel
    one: Judged

    @property
    def agrees(self) -> bool:
        return (self.given.label == "pass") == (self.one.said.state == "passed")


def _given(desk: Desk, digest: str, labels: dict[str, LabelRow]) -> list[_LabelledReply]:
    found: list[_LabelledReply] = []
    for run in dict.fromkeys(name.partition(":")[0] for name in labels):
        try:
            look = desk.look(run)
        except ApiError:
            continue
        for one in judged_in(look, digest) if not look.is_damaged else ():
            row = labels.get(one.item.id)
            if row is not None:
                found.append(_LabelledReply(HumanLabel(run, one.item, row.label, row.note), one))
    return sorted(found, key=lambda one: one.agrees)


def _labels(number: int, found: Sequence[_LabelledReply]) -> Markup | None:
    if not number:
        return None
    agreed = sum(one.agrees for one in found)
    told = f"{count(number, 'label')}: the judge agrees with {agreed:,}, and not with {len(found) - agreed:,}."
    rows = [_label(place, one) for place, one in enumerate(found[:MOST_SHOWN])]
    more = f"And {count(len(found) - MOST_SHOWN, 'more label')}." if len(found) > MOST_SHOWN else None
    return element(
        "div",
        {"class": "panel"},
        element("h2", None, "Labels"),
        element("p", None, told),
        element("ul", {"class": "disagreements"}, rows),
        element("p", {"class": "about"}, more) if more else None,
    )


def _label(place: int, labelled: _LabelledReply) -> Markup:
    given, one = labelled.given, labelled.one
    item, said = one.item, one.said
    name = address(item.suite, item.case, item.target, item.variant or "-", str(item.trial))
    turn = "" if item.turn is None else f"?turn={item.turn}"
    judge = "passed" if said.state == "passed" else "failed"
    return element(
        "li",
        {"data-label": place, "tabindex": -1},
        element("a", {"href": f"/runs/{given.run}/c/{name}{turn}", "dir": "auto"}, one.reply.title),
        element("span", {"class": "about"}, f"human: {given.label}; judge: {judge}"),
        element("blockquote", {"class": "txt", "dir": "auto"}, shortened(one.reply.reply, LONGEST_REPLY)),
        element("p", {"class": "about", "dir": "auto"}, f"The judge: {shortened(said.reason, LONGEST_REPLY)}"),
    )


# Where it judged


def _runs(uses: list[Use]) -> Markup:
    has_errors = any(use.judge.errors for use in uses[:MOST_SHOWN])
    heads = ("Run", "Check", "Passed", *(("Errors",) if has_errors else ()), "Started")
    body = [
        element(
            "tr",
            None,
            element("th", {"scope": "row"}, _run_link(use.listed.row.id)),
            element("td", {"dir": "auto"}, shortened(use.judge.name or use.judge.check, 80)),
            element("td", None, use.judge.passed),
            element("td", None, use.judge.errors) if has_errors else None,
            element("td", None, age(use.listed.row)),
        )
        for use in uses[:MOST_SHOWN]
    ]
    return element(
        "div",
        {"class": "panel tablewrap", "tabindex": 0, "role": "region", "aria-label": "Runs"},
        element("h2", None, "Runs that it judged"),
        table("figures", heads, body),
    )


def _run_link(run: str) -> Markup:
    return element("a", {"href": f"/runs/{run}", "title": run}, run_words(run))
