"""A page of the viewer: the shell that reports have, too, with script and style by their addresses, and the page's
first data as a block in it."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import HTMLResponse

from rejoinder._version import __version__
from rejoinder.report.page.markup import NOTHING, Child, Markup, element, sentence, text, verbatim
from rejoinder.report.page.shell import Assets, Page, document
from rejoinder.server.errors import ApiError
from rejoinder.server.pages import statics
from rejoinder.words.inert import to_bytes
from rejoinder.words.numbers import capital

RUNS = "Runs"
"""The page above all others."""


class PageData(Struct, frozen=True, kw_only=True, tag_field="page", tag="plain"):
    """The data with which the script begins; `page` names the page. On a plain one the script has nothing to do."""


class Top(Struct, frozen=True, kw_only=True):
    """Additions of some pages to their head, beyond their title."""

    window: str = ""
    """The title of the browser's window, if it is not the title of the page."""
    suite_at: str = ""
    """The address of the link on the title, if the link on the run has another."""
    acts: Markup = NOTHING


PLAIN = Top()


def page(
    title: str,
    overview: Markup,
    data: PageData | None = None,
    *,
    run: str = "",
    at: str = "",
    top: Top = PLAIN,
    plain: Markup = NOTHING,
    status: int = 200,
) -> HTMLResponse:
    """`run`: its id, or the ids of two runs. `at`: the address of the link on the run, or on the title if
    `run` is empty."""
    shown = Page(
        title=top.window or (f"{title} · rejoinder" if title else "rejoinder"),
        crumb=title,
        above=() if title == RUNS else ((RUNS, "/"),),
        suite_at=top.suite_at,
        acts=top.acts,
        run=run,
        overview=overview,
        plain=plain,
        foot=text(f"rejoinder {__version__}"),
        home="/",
        at=at,
    )
    return HTMLResponse("".join(document(shown, _assets(), [_block(data or PageData())])), status)


def _assets() -> Assets:
    return Assets(
        style=element("link", {"rel": "stylesheet", "href": f"/static/{statics.style().name}"}),
        script=verbatim("script", {"src": f"/static/{statics.script().name}"}, ""),
    )


def _block(data: PageData) -> Markup:
    """JSON that cannot end the element that it is in."""
    written = to_bytes(data).decode().replace("<", "\\u003c")
    return verbatim("script", {"id": "first", "type": "application/json"}, written)


def refused(title: str, error: ApiError, links: Child = None) -> HTMLResponse:
    """A page that says why a request is refused."""
    return trouble(title, f"{capital(error.message)}.", error.status, links)


def trouble(title: str, words: str, status: int, links: Child = None) -> HTMLResponse:
    """A page that says what is wrong."""
    told = element(
        "section",
        {"id": "overview", "class": "overview trouble"},
        element(
            "div",
            {"class": "panel"},
            element("h1", None, title),
            element("p", {"class": "say"}, sentence(words)),
        ),
        element("p", {"class": "acts"}, element("a", {"class": "btn", "href": "/"}, "All runs"), links),
    )
    return page(title, told, status=status)
