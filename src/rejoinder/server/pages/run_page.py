"""`/runs/ID` and what is below it: a run with its list, and its conversations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rejoinder._version import __version__
from rejoinder.model.history import Notes, Phase
from rejoinder.report.page.columns import Head
from rejoinder.report.page.grid import MOST_CASES, Grid
from rejoinder.report.page.markup import NOTHING, Child, Markup, element, joined, sentence
from rejoinder.report.page.overview import damaged_overview, run_overview
from rejoinder.report.page.shell import MOST_PLAIN, plain_table
from rejoinder.server.desk import Desk, Look, conversation_at
from rejoinder.server.errors import ApiError
from rejoinder.server.pages.asked import address_in, pieces, query_asked
from rejoinder.server.pages.data import FIRST_ROWS, ListData
from rejoinder.server.pages.frame import PageData, Top, page, refused, trouble
from rejoinder.server.pages.links import comparison_link
from rejoinder.server.row_store import Address, Query
from rejoinder.server.run_index import RunIndex
from rejoinder.views.conversation import ConversationView
from rejoinder.views.judges import reliability_of
from rejoinder.views.run import RunView, view_run
from rejoinder.views.turns import CheckView
from rejoinder.words.numbers import capital, count, figure, when

FIRST_S = 0.2
"""Seconds that a page waits for the index of a large run; the rest of the rows comes later."""
EVERY_ROW = 5_000
"""Up to this number of conversations, the grid shows them all; of more, it shows the worst cases."""


class WaitingData(PageData, frozen=True, kw_only=True, tag="waiting"):
    """The page is loaded again until the run has begun."""


class LiveData(Struct, frozen=True, kw_only=True):
    """The progress of a run that is not complete yet."""

    running: bool
    rows: int
    """The number of rows that are in the list already."""
    whole: bool
    """Whether these rows include all conversations that have ended."""


class RunData(ListData, frozen=True, kw_only=True, tag="run"):
    """The data of one run: what you can do with it, and the first values of the forms for that."""

    conversation: ConversationView | None
    acts: bool
    """Whether something may be changed."""
    state: Phase
    mark: str
    """Changes when the run begins, is killed, continues or ends."""
    stops: bool
    """Whether it can be stopped: the queue has started it, or will continue it."""
    resumes: bool
    """Whether it ended early."""
    failed: bool
    """Whether some of its conversations did not pass."""
    targets: list[str]
    notes: Notes
    live: LiveData | None
    """None where everything is there."""


def routes(desk: Desk) -> list[BaseRoute]:
    return [
        Route("/runs/{run}", partial(_show, desk), methods=["GET"]),
        Route("/runs/{run}/{rest:path}", partial(_show, desk), methods=["GET"]),
    ]


def _show(desk: Desk, request: Request) -> Response:
    run = request.path_params["run"]
    try:
        look = desk.look(run)
    except ApiError as error:
        waiting = _waiting(desk, run)
        return waiting or trouble("No such run", f"{capital(error.message)}. It may have been deleted.", error.status)
    if look.is_damaged:
        return _damaged(look, look.damage or "")
    back = element("a", {"class": "btn", "href": f"/runs/{look.id}"}, "The run")
    try:
        address, other = _addresses(pieces(request)[2:])
        index = desk.index(look, FIRST_S if address is None else None)
        conversation = None if address is None else conversation_at(index, address)
        beside = None if other is None else conversation_at(index, other)
    except ApiError as error:
        return refused("Not found", error, back)
    if index.state.damage is not None:
        return _damaged(look, f"{index.source.name}: {index.state.damage}")
    missing = (address is not None and conversation is None) or (other is not None and beside is None)
    if missing:
        words = "This run has no such conversation. It may be that its suite, case or target was renamed."
        return trouble("No such conversation", words, 404, back)
    data = _data(desk, look, index, query_asked(request), conversation)
    plain = _plain(look, index) if conversation is None else plain_conversation(conversation)
    view = None if look.report is None else view_run(look.report)
    return page(
        look.title,
        _overview(desk, look, index, view),
        data,
        run=look.id,
        at=f"/runs/{look.id}",
        top=Top(window=_window(look, index, view), suite_at=_suite_address(look), acts=_acts(desk, look)),
        plain=plain,
    )


def _data(desk: Desk, look: Look, index: RunIndex, query: Query, conversation: ConversationView | None) -> RunData:
    queued, found = desk.is_queued(look), index.find(query, 0, FIRST_ROWS)
    lost = 0 if look.report is None else look.report.summary.failed + look.report.summary.errors
    return RunData(
        head=head_of(desk, look),
        tags=index.tags(),
        query=query,
        found=found,
        conversation=conversation,
        acts=not desk.settings.read_only,
        state=look.state,
        mark=look.mark,
        stops=queued,
        resumes=look.is_stopped,
        failed=bool(lost or found.counts["failed"] or found.counts["error"]),
        targets=_targets(look),
        notes=look.notes,
        live=_live(look, index, queued=queued),
    )


def _waiting(desk: Desk, run: str) -> Response | None:
    """A run of the queue that has not begun, or could not; None for any other."""
    entry = desk.queue.find(run)
    if entry is None:
        return None
    told = entry.message or "It never began." if entry.ended else "It begins when those before it have ended."
    main = element(
        "section",
        {"id": "overview", "class": "overview plainpage"},
        element("h1", None, "Could not start" if entry.ended else "Queued"),
        element("p", {"class": "lead", "dir": "auto"}, entry.title),
        element("p", {"class": "say", "dir": "auto"}, sentence(told)),
        element("p", {"class": "acts"}, element("a", {"class": "btn", "href": "/"}, "All runs")),
    )
    return page("Could not start" if entry.ended else "Queued", main, None if entry.ended else WaitingData(), run=run)


def _addresses(names: list[str]) -> tuple[Address | None, Address | None]:
    """The conversation, or the two, that an address behind the run's names."""
    kind, *rest = names or [""]
    if kind == "" and not rest:
        return None, None
    if kind == "c":
        return address_in(rest), None
    if kind == "compare" and len(rest) == 8:
        return address_in(rest[:5]), address_in([*rest[:2], *rest[5:]])
    raise ApiError(404, "there is nothing at this address")


def head_of(desk: Desk, look: Look) -> Head:
    """The facts about the run that the script needs."""
    summary, targets = None if look.report is None else look.report.summary, _targets(look)
    return Head(
        run=look.id,
        title=look.title,
        targets=tuple(targets if summary is None else list(summary.by_target) or targets),
        variants=() if summary is None else tuple(summary.by_variant),
        block=0,
        judges={} if summary is None else reliability_of(summary.judges),
        fork=desk.settings.read_only,  # else there is a form for it
        version=__version__,
    )


def _targets(look: Look) -> list[str]:
    return [] if look.receipt is None else [target.name for target in look.receipt.targets]


def _live(look: Look, index: RunIndex, *, queued: bool) -> LiveData | None:
    """The progress of the run; None if everything is there."""
    if not look.is_live and not queued and index.state.done and look.verified:
        return None
    return LiveData(running=look.is_live, rows=index.state.rows, whole=index.state.done)


# The top of the page


def _window(look: Look, index: RunIndex, view: RunView | None) -> str:
    """`3 failed, 10 of 21: service-desk`: for a run in progress, how many are done."""
    if view is not None:
        return view.in_short
    counts, planned = index.find(Query(), 0, 0).counts, 0 if look.receipt is None else look.receipt.planned
    state = ["killed"] if look.is_killed else []
    lost = [f"{figure(counts['failed'])} failed"] if counts["failed"] else []
    lost += [count(counts["error"], "error")] if counts["error"] else []
    done = f"{figure(index.state.rows)} of {figure(planned)}" if planned else f"{figure(index.state.rows)} done"
    return f"{capital(', '.join([*state, *lost, done]))}: {look.title}"


def _overview(desk: Desk, look: Look, index: RunIndex, view: RunView | None) -> Markup:
    if view is not None and look.report is not None:
        against = desk.baselines.of(look.folder, look.report)
        notes = _notes(look, index)
        shown = run_overview(
            view, _grid(view, index), f"/runs/{look.id}", notes, known=against.known, since=against.since
        )
        return joined([_pending(desk, look, index), shown])
    state = index.state
    planned = 0 if look.receipt is None else look.receipt.planned
    done = element("span", {"id": "done"}, figure(state.rows))
    words: list[Child] = [done, f" of {figure(planned)} conversations are done." if planned else " are done."]
    if look.is_killed:
        words += [" The run was killed. ", element("code", None, f"rejoinder resume {look.id}"), " continues it."]
    pending = _pending(desk, look, index)
    bar = element("progress", {"id": "progress", "max": max(1, planned), "value": state.rows, "aria-label": "Done"})
    started = None if look.receipt is None else when(look.receipt.started_at)
    section = element(
        "section",
        {"id": "overview", "class": "overview livepage", "aria-labelledby": "h-run"},
        element("h1", {"id": "h-run"}, "Running" if look.is_live else "Killed", f": {look.title}"),
        element("p", {"class": "say", "id": "going"}, words),
        bar if look.is_live else None,
        element("ol", {"class": "flight", "id": "flight", "aria-label": "In flight", "hidden": True}),
        element("p", {"class": "about"}, f"Started {started}. " if started else None, "Rates are shown at the end."),
        element("div", {"id": "acts", "class": "acts"}),
    )
    return joined([pending, section])


def _pending(desk: Desk, look: Look, index: RunIndex) -> Markup:
    """The work on the run that is still in progress; the script updates these words while the page is shown."""
    words: list[Child] = []
    if not look.is_live and desk.is_queued(look):
        words.append("The run is queued, and waits for the runs before it to end. ")
    if not look.verified:
        words.append("The run is large and still being verified: its figures are those that it has written down. ")
    if look.report is not None and not index.state.done:
        done = element("span", {"id": "done"}, figure(index.state.rows))
        words += ["Its conversations are still being read: ", done, " so far."]
    return element("p", {"class": "about", "id": "pending", "role": "status", "hidden": not words}, words)


def _acts(desk: Desk, look: Look) -> Markup:
    """In the head of the page, so that results come first: a button, and what it opens. The script adds its acts, and
    shows the button if there are any."""
    if look.report is None:
        return NOTHING
    others = _others(desk, look)
    button = {"class": "btn", "id": "more", "type": "button", "popovertarget": "acts", "hidden": others is None}
    box = {"class": "menu", "id": "acts", "popover": True, "role": "group", "aria-label": "Actions"}
    return joined([element("button", button, "Actions"), element("div", box, others)])


def _suite_address(look: Look) -> str:
    """The runs of its suite; empty for a run of several."""
    names = {suite.title for suite in look.receipt.suites} if look.receipt is not None else set[str]()
    return f"/?{urlencode({'suite': names.pop()}, errors='replace')}" if len(names) == 1 else ""


def _others(desk: Desk, look: Look) -> Markup | None:
    """The way to the run that this one is to be compared with."""
    rows = list(reversed(desk.damage.history().history.rows))
    own = next((row for row in rows if row.id == look.id), None)
    return None if own is None or look.receipt is None else comparison_link(rows, own, look.receipt.made_of)


def _grid(view: RunView, index: RunIndex) -> Grid:
    grid = Grid(view)
    if index.state.done:
        for row in index.after(0, EVERY_ROW) if index.state.rows <= EVERY_ROW else index.of_worst_cases(MOST_CASES):
            grid.add(row)
    return grid


def _notes(look: Look, index: RunIndex) -> Iterator[str]:
    state = index.state
    if look.notes.note:
        yield f"Note: {look.notes.note}"
    if look.notes.tags:
        yield f"Tags: {', '.join(look.notes.tags)}"
    if state.left_out:
        yield f"{count(state.left_out, 'conversation')} or more are too large to be shown here."


def _damaged(look: Look, words: str) -> Response:
    return page(f"Run {look.id} is damaged", damaged_overview(look.id, [words]), run=look.id)


# What is there without JavaScript


def _plain(look: Look, index: RunIndex) -> Markup:
    """The conversations as a table of links, what failed first."""
    rows = index.find(Query(), 0, MOST_PLAIN).rows
    return plain_table("Conversations", rows, index.state.rows, prefix=f"/runs/{look.id}")


def plain_conversation(talk: ConversationView) -> Markup:
    """A conversation in plain paragraphs."""
    told = [element("h1", None, talk.row.title), element("p", None, talk.row.word)]
    for one in talk.reasons:
        why = ": ".join(filter(None, (one.where, one.what, one.text)))
        told.append(element("p", {"dir": "auto"}, why, [" ", element("q", None, one.said)] if one.said else None))
    told += [element("p", {"dir": "auto"}, note) for note in talk.notes]
    told += [element("p", {"dir": "auto"}, f"{capital(note.label)}: {note.text}.") for note in talk.course]
    for turn in talk.turns:
        name = f"Turn {turn.turn}: {turn.label}" if turn.label else f"Turn {turn.turn}"
        told += [
            element("h2", {"dir": "auto"}, name),
            element("p", {"class": "txt", "dir": "auto"}, turn.prompt),
            element(
                "blockquote",
                {"class": "txt", "dir": "auto"},
                turn.response or ("no reply" if turn.response is None else "empty reply"),
            ),
            element("ul", None, _checks((*turn.checks, *turn.broke))),
        ]
    if talk.checks:
        told += [element("h2", None, "Whole conversation"), element("ul", None, _checks(talk.checks))]
    return joined(told)


def _checks(checks: Iterable[CheckView]) -> Iterator[Markup]:
    for one in checks:
        score = f" (score {one.score})" if one.score else ""
        yield element("li", {"dir": "auto"}, f"{one.state}: {one.called}: {one.reason}{score}")
