"""Panels that take turns with the list of conversations in one place of a page.

`nav.views` has a link for each, `a[data-view]`, and `section.view` with its name as `id` is a panel. The script shows
the one that the address names (`?view=grid`), and the list where it names none. Without JavaScript all are shown.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rejoinder.report.page.markup import NOTHING, Child, Markup, element, joined


class Panel(Struct, frozen=True):
    name: str
    title: str
    content: Child


def panels(shown: Iterable[Panel | None], prefix: str) -> Markup:
    """`prefix` begins the addresses of the application."""
    told = [one for one in shown if one is not None]
    if not told:
        return NOTHING
    links = [_link(one.name, one.title, f"{prefix}/?view={one.name}") for one in told]
    sections = [
        element("section", {"class": "view", "id": one.name, "aria-label": one.title, "hidden": True}, one.content)
        for one in told
    ]
    nav = element("nav", {"class": "views", "aria-label": "Views"}, _link("", "List", f"{prefix}/"), links)
    return joined([nav, sections])


def _link(name: str, title: str, place: str) -> Markup:
    current = None if name else "true"
    return element("a", {"class": "tab", "href": place, "data-view": name, "aria-current": current}, title)
