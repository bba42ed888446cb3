"""Script and style of the viewer. They are made once; their address has their digest in it, so browsers keep them."""

from __future__ import annotations

import hashlib
from functools import cache

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rejoinder.report.page import assets
from rejoinder.server.errors import ApiError

OWN_SCRIPTS = ("data", "source", "live", "acts", "runs", "label", "judge", "start")
"""Behind those of the report, each `server_NAME.js`."""
OWN_STYLES = ("viewer.css",)
_NOT_OURS = "report_source.js"
_FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}


class Static(Struct, frozen=True):
    name: str
    """With the digest of its content."""
    content: bytes
    kind: str


@cache
def script() -> Static:
    shared = [name for name in assets.APPLICATION if name != _NOT_OURS]
    return _named("js", assets.script((*shared, *(f"server_{name}.js" for name in OWN_SCRIPTS))), "text/javascript")


@cache
def style() -> Static:
    return _named("css", assets.style((*assets.STYLES, *OWN_STYLES)), "text/css")


def _named(ending: str, text: str, kind: str) -> Static:
    content = text.encode()
    return Static(f"app-{hashlib.sha256(content).hexdigest()[:16]}.{ending}", content, kind)


def _answer(request: Request) -> Response:
    wanted = request.path_params["name"]
    for static in (script(), style()):
        if static.name == wanted:
            return Response(static.content, 200, _FOR_EVER, static.kind)
    raise ApiError(404, "there is no such file; load the page again")


_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20"><path d="M3 4.5h9a3 3 0 0 1 3 3v1M17 15.5H8a3 3 0 0'
    ' 1-3-3v-1" fill="none" stroke="#1f4fa8" stroke-width="2.2" stroke-linecap="round"/></svg>'
)


def _icon(_request: Request) -> Response:
    return Response(_ICON, 200, _FOR_EVER, "image/svg+xml")


def routes() -> list[BaseRoute]:
    return [Route("/static/{name}", _answer, methods=["GET"]), Route("/favicon.ico", _icon, methods=["GET"])]
