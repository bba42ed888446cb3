"""Spans of OpenTelemetry as tests look at them."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.kit import Raw


def read_spans(text: str) -> list[Any]:
    """The spans of a document, by OpenTelemetry's own types: a key that they do not know is an error."""
    document = json.loads(text)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):  # hex in OTLP/JSON, where protocol buffers have base64
            if key in span:
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    message = json_format.ParseDict(document, ExportTraceServiceRequest())
    [resource] = message.resource_spans
    assert attributes(resource.resource)["service.name"] == "rejoinder"
    [scope] = resource.scope_spans
    return list(scope.spans)


def attributes(thing: Any) -> Raw:
    return {one.key: plain(one.value) for one in thing.attributes}


def plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [plain(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)
