"""The OpenAPI document, and a stranger that makes requests from it: none of them may be a mistake of the server's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rejoinder.server.api import ROUTES, document
from rejoinder.server.api_runs import RunsQuery
from rejoinder.server.app import make_app
from rejoinder.server.settings import Limits, Settings
from tests.kit import EXAMPLES, ROOT, Project
from tests.server.kit import api, scripted
from tests.server.kit import settings as served

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPEN = Limits(changes=1_000_000, changes_per_s=1e9, queued=1_000_000)


def test_every_route_is_in_the_document():
    paths = document()["paths"]
    assert {(route.method.lower(), f"/api/v1{route.path}") for route in ROUTES} == {
        (method, path) for path, methods in paths.items() for method in methods
    }


def test_the_page_has_every_route_and_every_filter():
    page = (ROOT / "docs/guides/server.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([A-Z]+) (\S+)` \|", page, re.MULTILINE))
    assert rows == {(route.method, route.path) for route in ROUTES}
    assert [name for name in RunsQuery.__struct_fields__ if f"`{name}`" not in page] == []


def test_the_document_is_served(tmp_path: Path):
    answer = api(served(tmp_path), "GET", "/openapi.json")
    assert answer.status_code == 200
    assert answer.json()["openapi"] == "3.1.0"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory):
    """A project with a run, so that not every answer is that there is nothing."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / ".rejoinder").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        project = Project(folder)
        project.write("evals.yaml", scripted())
        project.run("run", "evals.yaml")
        project.run("run", "evals.yaml")
        yield make_app(Settings(root=folder, host="testserver", port=80, limits=OPEN))


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_no_request_is_a_mistake_of_the_server(app, route):
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    operation = schema[f"/api/v1{route.path}"][route.method]

    @given(case=operation.as_strategy(), is_there=st.booleans())
    @settings(
        max_examples=EXAMPLES or 12,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    def ask(case, is_there):
        runs = sorted(path.name for path in (app.state.api.settings.root / ".rejoinder" / "runs").glob("2*"))
        if is_there and runs:
            known = {"run": runs[0], "a": runs[0], "b": runs[-1], "number": "1"}
            case.path_parameters = {name: known.get(name, value) for name, value in case.path_parameters.items()}
        if route.changes:
            case.headers = {**(case.headers or {}), "Content-Type": "application/json"}
        case.call_and_validate(checks=CHECKS)

    ask()
