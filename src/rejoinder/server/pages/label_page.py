"""`/label?run=&check=`: replies that a judge was asked about, one at a time, for people to judge without seeing what it
said. The labels are what `rejoinder judge test` reads."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from rejoinder.report.page.markup import Child, Markup, element
from rejoinder.server.desk import Desk, Look
from rejoinder.server.errors import ApiError
from rejoinder.server.judged import Item, Judged, Reply, Said, digest_asked, judged_at, judged_in, labels_of
from rejoinder.server.labels import is_digest
from rejoinder.server.pages.data import answering, sound
from rejoinder.server.pages.frame import PageData, page, refused, trouble
from rejoinder.views.judges import judge_rows
from rejoinder.words.numbers import shortened


class LabelData(PageData, frozen=True, kw_only=True, tag="label"):
    run: str
    check: str
    acts: bool
    """May something be changed?"""
    items: list[Item]
    done: list[str]
    """The ids of those that are labelled."""
    first: Reply | None
    """The first that is not."""


def routes(desk: Desk) -> list[BaseRoute]:
    return [
        Route("/label", partial(_show, desk), methods=["GET"]),
        Route("/data/label/reply", answering(partial(_reply, desk)), methods=["GET"]),
        Route("/data/label/verdict", answering(partial(_verdict, desk)), methods=["GET"]),
    ]


def _show(desk: Desk, request: Request) -> Response:
    run, check = request.query_params.get("run", ""), request.query_params.get("check", "")
    try:
        look = sound(desk, run)
        if not check:
            return _choose(look)
        found = list(judged_in(look, digest_asked(check)))
    except ApiError as error:
        return refused("Nothing to label", error)
    if not found:
        return trouble("Nothing to label", "This judge was asked about no reply of the run.", 404, _back(look))
    labels = labels_of(desk, check)
    done = [one.item.id for one in found if one.item.id in labels]
    first = next((one for one in found if one.item.id not in labels), None)
    main = element(
        "section",
        {"id": "overview", "class": "overview labelpage", "aria-labelledby": "h-run"},
        element("h1", {"id": "h-run"}, "Label replies"),
        element(
            "p", {"class": "say", "dir": "auto"}, f"What the judge was asked: {shortened(found[0].reply.asked, 500)}"
        ),
        element("div", {"id": "label"}, _without_script(len(found), len(done))),
        element("p", {"class": "acts"}, _back(look), _judge(check)),
    )
    data = LabelData(
        run=look.id,
        check=check,
        acts=not desk.settings.read_only,
        items=[one.item for one in found],
        done=done,
        first=None if first is None else first.reply,
    )
    return page(f"Label: {look.title}", main, data, run=look.id, at=f"/runs/{look.id}")


def _without_script(number: int, done: int) -> Markup:
    return element("p", {"class": "say"}, f"{done:,} of {number:,} are labelled. Labelling needs JavaScript.")


def _back(look: Look) -> Markup:
    return element("a", {"class": "btn", "href": f"/runs/{look.id}"}, "The run")


def _judge(digest: str) -> Markup:
    return element("a", {"class": "btn", "href": f"/judges/{digest}"}, "The judge")


def _choose(look: Look) -> Response:
    """The judges of a run, to choose one from where there are several."""
    judges = [] if look.report is None else judge_rows(look.report.summary.judges)
    asked = [judge for judge in judges if judge.judged and is_digest(judge.digest)]
    ways = [f"/label?run={look.id}&check={judge.digest}" for judge in asked]
    if not asked:
        return trouble("Nothing to label", "No judge was asked in this run.", 404, _back(look))
    if len(asked) == 1:
        return RedirectResponse(ways[0], 303)
    links: list[Child] = [
        element(
            "li",
            {"dir": "auto"},
            element("a", {"href": way}, f"{judge.title}: {shortened(judge.check, 200)}"),
            f", {judge.judged:,} judged",
        )
        for judge, way in zip(asked, ways, strict=True)
    ]
    main = element(
        "section",
        {"id": "overview", "class": "overview plainpage"},
        element("h1", None, "Label replies: which judge?"),
        element("ul", {"class": "choices-list"}, links),
    )
    return page(f"Label: {look.title}", main, run=look.id)


def _reply(desk: Desk, request: Request) -> Reply:
    return _asked(desk, request).reply


def _verdict(desk: Desk, request: Request) -> Said:
    return _asked(desk, request).said


def _asked(desk: Desk, request: Request) -> Judged:
    get = request.query_params.get
    return judged_at(sound(desk, get("run", "")), digest_asked(get("check", "")), get("id", ""))
