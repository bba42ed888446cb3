"""The document around an overview and the application: policy, title, header, data, and a plain table for browsers
without JavaScript.

The script mounts itself on these elements: `#app` around everything, `header.top` with the buttons `#keys` and
`#theme`, `main#main` with the `#overview` and the empty `section#work.work`, which it fills with the list and the
conversation. In a report `script#index` holds the index, and `script#b0`, `script#b1`, ... the blocks, as base64 of raw
deflate. They come before the script, and browsers do not run them, because they have another type.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from rejoinder.report.page import assets
from rejoinder.report.page.grid import row_address
from rejoinder.report.page.markup import NOTHING, Child, Markup, element, joined, table, verbatim
from rejoinder.views.rows import RowView, quoted_words
from rejoinder.words.runs import run_words

LEVEL = 6
"""Of the compression. 9 makes a large report hardly smaller, and takes three times as long."""
MOST_PLAIN = 200
"""Rows of the plain table."""
BOTH = " and "
"""Between the ids of two runs."""
_DATA = "application/octet-stream"


class Page(Struct, frozen=True, kw_only=True):
    """The content of a document."""

    title: str
    """Of the browser's window."""
    crumb: str
    """The subject: its suites."""
    run: str
    """The run, or both runs, by their ids."""
    overview: Markup
    plain: Markup = NOTHING
    """For browsers without JavaScript."""
    foot: Markup = NOTHING
    home: str = "#/"
    """The address of the link on the name at the top."""
    at: str = "#/"
    """The address of the link on the subject: the page above a conversation. Empty for no link."""
    above: Sequence[tuple[str, str]] = ()
    """Pages above it, by their words and addresses."""
    suite_at: str = ""
    """The address of its suite, if that has a page of its own."""
    acts: Markup = NOTHING
    """Buttons for the whole page."""


class Assets(Struct, frozen=True, kw_only=True):
    """The elements that load or contain the style and the script."""

    policy: str = ""
    """The content security policy; empty if the server sends it as a header."""
    style: Markup
    script: Markup


def inlined() -> Assets:
    """Both within the document, which allows these two by their digests and nothing else at all."""
    script, style = assets.script(assets.APPLICATION), assets.style(assets.STYLES)
    return Assets(
        policy=policy(assets.digest(script), assets.digest(style)),
        style=verbatim("style", None, style),
        script=verbatim("script", None, script),
    )


def policy(script: str, style: str, connect: str = "") -> str:
    """The content security policy of our pages: nothing but our own script and style, and no text becomes HTML."""
    reached = f"connect-src {connect}; " if connect else ""
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; {reached}img-src data:; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def document(page: Page, given: Assets, data: Iterable[Markup] = ()) -> Iterator[str]:
    """The whole document, piece by piece. `data` is written as it comes."""
    yield f'<!doctype html>\n<html lang="en">\n{_head(page, given)}\n<body>\n'
    yield f"{element('a', {'class': 'skip', 'href': '#work'}, 'Skip to conversations')}\n"
    yield '<div id="app" class="app">\n'
    yield f"{_top(page)}\n"
    yield '<main id="main">\n'
    yield f"{page.overview}\n{element('section', {'id': 'work', 'class': 'work', 'hidden': True})}\n"
    yield f"{element('noscript', None, page.plain)}\n"
    yield f"</main>\n{element('footer', {'class': 'foot'}, page.foot)}\n</div>\n"
    for block in data:
        yield f"{block}\n"
    yield f"{given.script}\n</body>\n</html>\n"


def _head(page: Page, given: Assets) -> Markup:
    allowed = {"http-equiv": "Content-Security-Policy", "content": given.policy}
    return element(
        "head",
        None,
        element("meta", {"charset": "utf-8"}),
        element("meta", allowed) if given.policy else None,
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("meta", {"name": "referrer", "content": "no-referrer"}),
        element("title", None, page.title),
        given.style,
    )


def _top(page: Page) -> Markup:
    return element(
        "header",
        {"class": "top"},
        element(
            "a", {"class": "brand", "href": page.home, "aria-label": "rejoinder: overview"}, _logo(), _span("rejoinder")
        ),
        element("nav", {"class": "crumbs", "aria-label": "Breadcrumb"}, element("ol", None, _crumbs(page))),
        element("span", {"class": "grow"}),
        element(
            "button",
            {"class": "btn quiet", "id": "keys", "type": "button", "aria-haspopup": "dialog"},
            "Keys ",
            element("kbd", None, "?"),
        ),
        element("button", {"class": "btn quiet", "id": "theme", "type": "button"}, "Theme: auto"),
        page.acts,
    )


def _crumbs(page: Page) -> Iterator[Markup]:
    """`Runs / service-desk / run 6fdf / Refund window`: the script writes the last, the conversation that is open."""
    for words, href in page.above:
        yield _crumb("above", words, href)
    yield _crumb("suite", page.crumb, page.suite_at or ("" if page.run else page.at))
    if page.run:
        yield _crumb("runid", run_words(*page.run.split(BOTH)), page.at, page.run)
    yield element("li", {"id": "here", "dir": "auto"})


def _crumb(kind: str, words: str, href: str, whole: str | None = None) -> Markup:
    """`whole`: the full text, if `words` is short for it."""
    link = element("a" if href else "span", {"href": href or None, "title": whole, "dir": "auto"}, words)
    return element("li", {"class": kind}, link)


def _span(words: str) -> Markup:
    return element("span", None, words)


_PATHS = (
    "M3 4.5h9a3 3 0 0 1 3 3v1M17 15.5H8a3 3 0 0 1-3-3v-1",
    "m12.6 6.6 2.4 2.4 2.4-2.4M7.4 13.4 5 11l-2.4 2.4",
)


def _logo() -> Markup:
    """Two arrows that answer each other."""
    drawn = {"fill": "none", "stroke": "currentColor", "stroke-width": "1.7", "stroke-linecap": "round"}
    paths = [element("path", {"d": path, **drawn}) for path in _PATHS]
    return element("svg", {"viewBox": "0 0 20 20", "width": 18, "height": 18, "aria-hidden": "true"}, paths)


def made_by(version: str, run: str, more: str = "") -> Markup:
    """The foot of a report. `more`: a sentence about the file."""
    number = f" {version}" if version else ""
    name = element("span", {"class": "mono"}, run)
    told = joined([f"Made by rejoinder{number} from run ", name, ". This file needs no network."])
    return joined([told, element("p", None, more)]) if more else told


def plain_table(
    title: str, rows: Sequence[RowView], number: int, *, note: str = "", prefix: str | None = None
) -> Markup:
    """The rows as a table for browsers without JavaScript. `number`: how many there are in all. `prefix`: begins the
    addresses of conversations, if they can be opened without JavaScript."""
    cells: list[Child] = [
        element("tr", None, [element("td", {"dir": "auto"}, cell) for cell in _cells(row, prefix)])
        for row in rows[:MOST_PLAIN]
    ]
    more = number - min(len(rows), MOST_PLAIN)
    return element(
        "section",
        {"class": "panel plain"},
        element("h2", None, title if number else f"{title}: none"),
        element("p", None, note) if note else None,
        table(None, ("Case", "Target", "Outcome", "Why"), cells) if cells else None,
        element("p", None, f"{more:,} more are not shown here.") if more > 0 else None,
    )


def _cells(row: RowView, prefix: str | None) -> tuple[Child, str, str, str]:
    where = " / ".join(filter(None, (row.target, row.variant, f"trial {row.trial}" if row.trial > 1 else "")))
    name = row.case if prefix is None else element("a", {"href": row_address(row, prefix)}, row.title)
    return name, where, row.outcome, quoted_words(row)


def packed(name: str, content: bytes) -> Markup:
    """A block of data: raw deflate in base64, which the browser unpacks and nothing in it can end."""
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -15)
    pressed = base64.b64encode(deflate.compress(content) + deflate.flush()).decode()
    return verbatim("script", {"type": _DATA, "id": name}, pressed)
