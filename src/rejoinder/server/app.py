"""The server as one application: API and pages, behind the guard."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from rejoinder.server.api import routes as api_routes
from rejoinder.server.api_routes import Api
from rejoinder.server.damage import Damage
from rejoinder.server.desk import Desk
from rejoinder.server.errors import ApiError, of_status
from rejoinder.server.guard import Guard
from rejoinder.server.pages import routes as page_routes
from rejoinder.server.settings import Settings


def make_app(settings: Settings) -> Starlette:
    """`app.state.closing` is set when open streams are to end; `app.state.api` has the queue, `app.state.desk` the
    indexes, which are deleted when it is closed."""
    damage = Damage(settings.root)
    api, desk = Api(settings, damage), Desk(settings, damage)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        """Runs of the queue go on while the server is there. One that only shows starts none."""
        work = None if settings.read_only else asyncio.create_task(api.supervisor.work())
        try:
            yield
        finally:
            api.closing.set()
            desk.close()
            damage.close()
            if work is not None:
                await api.supervisor.close()
                await work

    app = Starlette(
        routes=[*api_routes(api), *page_routes(desk, api.streams)],
        middleware=[Middleware(Guard, settings=settings)],
        exception_handlers={ApiError: _refused, HTTPException: _not_there},
        lifespan=lifespan,
    )
    app.state.api = api
    app.state.desk = desk
    app.state.closing = api.closing
    return app


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.inside(request.app.state.desk.root).response()


def _not_there(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    return of_status(error.status_code, error.detail, headers).response()
