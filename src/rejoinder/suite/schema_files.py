"""JSON Schemas of authors: found in a suite or a file, and refused before the first reply if they cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, cast

import msgspec

from rejoinder.json_schemas import Expansion, TooManyVisits, compile_schema
from rejoinder.project.files import FileFault
from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.yaml_syntax import parse

OUTPUT_SCHEMA = ("output_schema", "outputSchema")
"""The spellings of the key."""

NO_MAPPING = "an output schema is a mapping, as in `type: object`"

ReadDocument = Callable[[str, DocumentPath], Any]
"""Returns the JSON Schema in a file that is named at a place; None, with a recorded problem, if there is none."""


class SchemaFault(Exception):
    """A JSON Schema cannot be used. `code` is the code of the problem."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def read_document(text: str, written: str) -> Any:
    """The data in a JSON file, or a YAML file if its name says so. Raises FileFault."""
    try:
        if PurePath(written).suffix.lower() not in (".yaml", ".yml"):
            return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FileFault("json-syntax", f"{written} is not valid JSON: {error}") from None
    document, faults = parse(text, written)
    for fault in (*faults, *(document.faults if document is not None else ())):
        raise FileFault(fault.code, f"{written}, line {fault.line}: {fault.message}")
    return document.data if document is not None else None


def read_output_document(text: str, written: str) -> dict[str, Any]:
    """The output schema in a file. Raises FileFault."""
    document = read_document(text, written)
    if not isinstance(document, dict):
        raise FileFault("invalid-schema", NO_MAPPING)
    return document


def refuse_unusable(document: Any) -> None:
    """Raises SchemaFault if a document is not a JSON Schema, or would take too long."""
    try:
        compile_schema(document)
        Expansion(document)
    except TooManyVisits as error:
        raise SchemaFault("schema-multiplies", f"this JSON Schema would take too long: {error}") from None
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "message", str(error))
        raise SchemaFault("invalid-schema", f"this is not a JSON Schema: {reason}") from None


def refuse_as_output(document: Any) -> None:
    """Like `refuse_unusable`, for a schema that is sent. APIs take only mappings."""
    if not isinstance(document, dict):
        raise SchemaFault("invalid-schema", NO_MAPPING)
    refuse_unusable(document)


def schema_file(written: Any) -> str | None:
    """The file that an `output_schema` names: a text, or `{file: PATH}`. None if it is the schema itself."""
    named = cast("dict[str, Any]", written).get("file") if isinstance(written, dict) and len(written) == 1 else written
    return named if isinstance(named, str) else None


def output_schema_of(settings: Mapping[str, Any]) -> str | None:
    """The output schema in settings whose files are read, as JSON text."""
    document = next((settings[key] for key in OUTPUT_SCHEMA if key in settings), None)
    return msgspec.json.encode(document).decode() if isinstance(document, dict) else None


def with_output_schemas(targets: Any, path: DocumentPath, read: ReadDocument) -> Any:
    """A list of targets, with output schemas from files filled in; refused entries stay unchanged."""
    if not isinstance(targets, list):
        return targets
    return [with_output_schema(target, (*path, place), read) for place, target in enumerate(targets)]


def with_output_schema(settings: Any, path: DocumentPath, read: ReadDocument) -> Any:
    """The settings of a target or a variant, with an output schema from a file filled in."""
    if not isinstance(settings, dict):
        return settings
    filled: dict[str, Any] = {}
    for key in OUTPUT_SCHEMA:
        if (file := schema_file(settings.get(key))) is not None:
            filled[key] = read(file, (*path, key))
    if isinstance(settings.get("settings"), dict):
        filled["settings"] = with_output_schema(settings["settings"], (*path, "settings"), read)
    return {**settings, **filled} if filled else settings
