"""Requests for what a project and its user have: suites, variables, secrets by name, targets, models, labels; and for
the comparison of two runs."""

from __future__ import annotations

import asyncio
import os
import re
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from rejoinder._version import __version__
from rejoinder.client import Health, project_mark
from rejoinder.engine.run import sound_run
from rejoinder.exports.comparison_json import write_comparisons_json
from rejoinder.gates.verbs import blessed_run
from rejoinder.model.figures import MARGIN
from rejoinder.model.runs import is_run_id
from rejoinder.prices.model_list import known_models
from rejoinder.project.user_files import user_values
from rejoinder.providers.settings import model_of
from rejoinder.runs.comparing import Wanted, compare_all
from rejoinder.runs.recorded import RecordedRun
from rejoinder.server.api_routes import Api, Call, Route
from rejoinder.server.errors import ApiError, no_run
from rejoinder.server.found import open_run
from rejoinder.server.labels import REPLIES, LabelFile, LabelRow, is_digest, label_file, label_files, read_rows
from rejoinder.suite.configuration import open_project, read_prices
from rejoinder.suite.discover import looks_like_suite
from rejoinder.suite.targets import read_targets

MOST_SUITES = 1000
_BASELINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Document(Struct, frozen=True):
    """The OpenAPI document."""

    openapi: str


class SuiteItem(Struct, frozen=True):
    name: str
    saved: bool
    """Was it saved under a name (`rejoinder suites`)? Else `name` is its path in the project."""


class SuitesAnswer(Struct, frozen=True):
    suites: tuple[SuiteItem, ...]


class VarsAnswer(Struct, frozen=True):
    vars: dict[str, str]


class SecretsAnswer(Struct, frozen=True):
    """Names; values are never told."""

    secrets: tuple[str, ...]


class TargetItem(Struct, frozen=True):
    name: str
    provider: str
    model: str | None


class TargetsAnswer(Struct, frozen=True):
    targets: tuple[TargetItem, ...]


class ModelsQuery(Struct, frozen=True, kw_only=True):
    q: Annotated[str, Meta(max_length=200)] = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    offset: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0


class ModelItem(Struct, frozen=True):
    """Prices are in dollars per million tokens."""

    id: str
    input: float | None
    output: float | None
    context_window: int | None


class ModelsAnswer(Struct, frozen=True):
    models: tuple[ModelItem, ...]
    total: int


class LabelsAnswer(Struct, frozen=True):
    labels: tuple[LabelFile, ...]


class LabelRowsAnswer(Struct, frozen=True):
    name: str
    labels: tuple[LabelRow, ...]


class ComparisonAnswer(Struct, frozen=True):
    """The same object as `rejoinder compare A B --format json` prints."""

    verdict: str


async def show_health(api: Api, _call: Call) -> Health:
    return Health("ok", __version__, api.settings.read_only, project_mark(api.settings.root))


async def list_suites(api: Api, _call: Call) -> SuitesAnswer:
    return await asyncio.to_thread(_suites, api.settings.root)


def _suites(root: Path) -> SuitesAnswer:
    saved = [SuiteItem(name, True) for name in user_values("suites")]
    files = sorted(islice(_yaml_files(root), MOST_SUITES))
    return SuitesAnswer((*saved, *(SuiteItem(name, False) for name in files)))


def _yaml_files(root: Path) -> Any:
    """The paths of suites in the project; hidden folders and links are passed over."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _PASSED_OVER)
        for name in names:
            path = Path(folder, name)
            if path.suffix.lower() in (".yaml", ".yml") and not path.is_symlink() and looks_like_suite(path):
                yield path.relative_to(root).as_posix()


_PASSED_OVER = ("node_modules", "__pycache__", "venv", "site-packages", "dist", "build")


async def list_vars(_api: Api, _call: Call) -> VarsAnswer:
    return VarsAnswer(dict(user_values("vars")))


async def list_secrets(_api: Api, _call: Call) -> SecretsAnswer:
    return SecretsAnswer(tuple(user_values("secrets")))


async def list_targets(api: Api, _call: Call) -> TargetsAnswer:
    def find() -> TargetsAnswer:
        with api.loading:
            targets = read_targets(open_project(api.settings.root)).names()
        rows = (TargetItem(one.name, one.provider, _shown_model(model_of(one))) for one in targets.values())
        return TargetsAnswer(tuple(rows))

    return await asyncio.to_thread(find)


def _shown_model(model: Any) -> str | None:
    return model if isinstance(model, str) and model else None


async def list_models(api: Api, call: Call) -> ModelsAnswer:
    query: ModelsQuery = call.query

    def find() -> ModelsAnswer:
        with api.loading:
            models = known_models(read_prices(open_project(api.settings.root).config))
        words = query.q.casefold()
        found = [one for one in models if words in one.id.casefold() and not one.deprecated]
        page = found[query.offset : query.offset + query.limit]
        return ModelsAnswer(
            tuple(ModelItem(one.id, one.input, one.output, one.context_window) for one in page), len(found)
        )

    return await asyncio.to_thread(find)


async def list_labels(api: Api, _call: Call) -> LabelsAnswer:
    return LabelsAnswer(tuple(await asyncio.to_thread(label_files, api.settings.root)))


async def show_labels(api: Api, call: Call) -> LabelRowsAnswer:
    name = call.path["name"]
    path = label_file(api.settings.root, name)
    if not is_digest(name) or not os.path.lexists(path):
        if name == REPLIES:
            return LabelRowsAnswer(name, ())
        raise ApiError(404, f"there are no labels {name[:60]!r}", code="no-labels")
    return LabelRowsAnswer(name, tuple(await asyncio.to_thread(read_rows, path)))


async def compare_runs(api: Api, call: Call) -> Response:
    names = call.path["a"], call.path["b"]

    def compare() -> str:
        recorded = [_run_or_baseline(api, name) for name in names]
        return "".join(write_comparisons_json(compare_all(map(sound_run, recorded), Wanted(MARGIN))))

    return Response(await asyncio.to_thread(compare), media_type="application/json")


def _run_or_baseline(api: Api, name: str) -> RecordedRun:
    """A baseline has the name before a run does."""
    found = Path(blessed_run(api.settings.root, name)).name if _BASELINE.fullmatch(name) else name
    if is_run_id(found):
        return open_run(api, found)
    raise no_run(name)


def _list(path: str, handler: Any, summary: str, answer: type[Struct], query: type[Struct] | None = None) -> Route:
    return Route(
        method="GET", path=path, handler=handler, summary=summary, answer=answer, query=query, errors=(404, 409, 422)
    )


ROUTES = (
    _list("/health", show_health, "Is the server there?", Health),
    _list("/suites", list_suites, "The suites of the project, and those that were saved under names.", SuitesAnswer),
    _list("/vars", list_vars, "The user's variables.", VarsAnswer),
    _list("/secrets", list_secrets, "The names of the user's secrets.", SecretsAnswer),
    _list("/targets", list_targets, "The targets of the project.", TargetsAnswer),
    _list("/models", list_models, "Models whose prices are known.", ModelsAnswer, ModelsQuery),
    _list("/labels", list_labels, "The files of labels that people gave in the viewer.", LabelsAnswer),
    _list(
        "/labels/{name}",
        show_labels,
        "The labels for one judge; `replies`: labels given without a judge.",
        LabelRowsAnswer,
    ),
    _list("/compare/{a}/{b}", compare_runs, "Run B against run A; each is a run or a baseline.", ComparisonAnswer),
)
