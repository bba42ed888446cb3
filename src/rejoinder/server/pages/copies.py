"""A conversation to take elsewhere: its case as YAML, or the request of a turn as a command of curl."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route

from rejoinder.run_files import RunDamaged
from rejoinder.server.copies import as_curl, as_yaml
from rejoinder.server.desk import Desk
from rejoinder.server.errors import ApiError
from rejoinder.server.pages.asked import address_asked, number_asked
from rejoinder.server.pages.data import PATIENCE_S, sound


def routes(desk: Desk) -> list[BaseRoute]:
    return [Route("/data/runs/{run}/copy", partial(_copy, desk), methods=["GET"])]


def _copy(desk: Desk, request: Request) -> PlainTextResponse:
    look = sound(desk, request.path_params["run"])
    try:
        result = desk.index(look, PATIENCE_S).result(address_asked(request))
    except RunDamaged as error:
        raise ApiError(409, f"{error.path.name}: {error.reason}", code="damaged") from None
    if result is None:
        raise ApiError(404, "this run has no such conversation")
    kind = request.query_params.get("as", "yaml")
    if kind == "yaml":
        return PlainTextResponse(as_yaml(result, desk.root, look.id, desk.text_of(look, result.file)))
    if kind == "curl":
        return PlainTextResponse(as_curl(result, look.receipt, number_asked(request, "turn", 1)))
    raise ApiError(400, "`as` is yaml or curl")
