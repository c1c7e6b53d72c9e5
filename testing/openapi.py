"""The description of the control port as OpenAPI 3.1, made of its operations."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING

from ..version import __version__
from .control import OPERATIONS

if TYPE_CHECKING:
    from .control import Operation

_PLACES = re.compile(r"{(\w+)}")


def description() -> dict[str, object]:
    """Returns the document."""
    paths: dict[str, dict[str, object]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    info = {
        "title": "Odradek test kit",
        "version": __version__,
        "description": "Faults, time and records of a broker for tests",
    }
    return {"openapi": "3.1.0", "info": info, "paths": paths}


@functools.cache
def description_text() -> str:
    """The document as JSON. Made anew for each request, it would take most of the time of a port that many clients ask."""
    return json.dumps(description())


def _described(operation: Operation) -> dict[str, object]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PLACES.findall(operation.path)
    ] + [
        {"name": name, "in": "query", "description": words, "schema": {"type": kind}}
        for name, kind, words in operation.query
    ]
    made: dict[str, object] = {
        "operationId": operation.function.__name__.strip("_"),
        "summary": operation.summary,
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": {"type": "object"}}}},
            "400": {"description": "The request is wrong; `error` has the reason"},
            "404": {"description": "The broker, topic, group or fault does not exist"},
            "408": {"description": "The condition was not met before the timeout"},
            "409": {"description": "The operation is not possible in the current state"},
        },
    }
    if parameters:
        made["parameters"] = parameters
    if operation.method == "POST":
        # Types are left out of fields that take lists and null, too.
        properties = {
            name: {"description": words}
            if name in ("api", "error", "version")
            else {"type": kind, "description": words}
            for name, kind, words in operation.body
        }
        made["requestBody"] = {
            "content": {"application/json": {"schema": {"type": "object", "properties": properties}}}
        }
    return made
