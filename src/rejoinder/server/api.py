"""All requests of the HTTP API, and the document that describes them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from starlette.routing import BaseRoute

from rejoinder.server import api_acts, api_lists, api_results, api_runs
from rejoinder.server.api_routes import Api, Call, Route
from rejoinder.server.openapi import make_document


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    return make_document(ROUTES)


async def show_document(_api: Api, _call: Call) -> dict[str, Any]:
    return document()


ROUTES = (
    *api_runs.ROUTES,
    *api_results.ROUTES,
    *api_acts.ROUTES,
    *api_lists.ROUTES,
    Route(
        method="GET",
        path="/openapi.json",
        handler=show_document,
        summary="This document.",
        answer=api_lists.Document,
    ),
)


def routes(api: Api) -> list[BaseRoute]:
    return [route.as_endpoint(api) for route in ROUTES]
