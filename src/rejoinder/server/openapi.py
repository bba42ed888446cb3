"""The OpenAPI document, made from the table of routes and the types in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder._version import __version__
from rejoinder.client import ErrorAnswer
from rejoinder.model.runs import RUN_ID
from rejoinder.server.api_routes import PREFIX, Route, takes_several

_ALWAYS = (401, 403, 413, 421, 500)
"""Answers of the guard, which stands before every row."""
_ON_CHANGES = (400, 408, 415, 422, 429)
_JSON = "application/json"
_REFERENCE = "#/components/schemas/{name}"
_PARAMETERS = {
    "run": {"type": "string", "pattern": f"^{RUN_ID}$"},
    "number": {"type": "string", "pattern": "^[0-9]{1,9}$"},
}


def make_document(routes: Sequence[Route]) -> dict[str, Any]:
    types: list[Any] = [ErrorAnswer]
    for route in routes:
        types += [kind for kind in (route.body, route.query) if kind is not None]
        types += [] if isinstance(route.answer, str) else [route.answer]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    known = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, known, components)
        paths.setdefault(f"{PREFIX}{route.path}", {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rejoinder",
            "version": __version__,
            "description": "Runs of a project: start, watch, compare.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(route: Route, known: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _PARAMETERS.get(name, {"type": "string"})}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    if route.query is not None:
        parameters += _query_parameters(route.query, known, components)
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "parameters": parameters,
        "responses": _responses(route, known),
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": known[id(route.body)]}}}
    return operation


def _query_parameters(kind: type[Struct], known: dict[int, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    name = known[id(kind)]["$ref"].rpartition("/")[2]
    properties = components[name]["properties"]
    several = {field.encode_name for field in msgspec.structs.fields(kind) if takes_several(field.type)}
    return [
        {
            "name": field,
            "in": "query",
            "schema": {key: value for key, value in schema.items() if key != "default"},
            **({"style": "form", "explode": False} if field in several else {}),
        }
        for field, schema in properties.items()
    ]


def _responses(route: Route, known: dict[int, Any]) -> dict[str, Any]:
    content = {route.answer: {}} if isinstance(route.answer, str) else {_JSON: {"schema": known[id(route.answer)]}}
    responses: dict[str, Any] = {str(route.status): {"description": route.summary, "content": content}}
    errors = {*_ALWAYS, *route.errors, *(_ON_CHANGES if route.changes else ())}
    refused = {_JSON: {"schema": known[id(ErrorAnswer)]}}
    for status in sorted(errors):
        responses[str(status)] = {"description": _DESCRIPTIONS[status], "content": refused}
    return responses


_DESCRIPTIONS = {
    400: "The request is not JSON.",
    401: "The token is missing, or is not the server's.",
    403: "The server is read-only, or another page asks.",
    404: "There is no such thing.",
    408: "The request took too long.",
    409: "It cannot be done as things are now.",
    413: "The request is too large.",
    415: "The request is not said to be JSON.",
    421: "The server does not answer for that host.",
    422: "The request cannot be carried out as given.",
    429: "Too much at once; `Retry-After` says when to come again.",
    500: "The server made a mistake.",
}
