"""The registry's HTTP server: one request at a time.

Operations of the registry over HTTP: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from ..loopback_http import BadBody, JsonHandler, LoopbackServer
from .errors import RegistryError, invalid_schema, schema_not_found
from .schemas import AVRO, KINDS, Reference
from .store import Store

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject, JsonValue
    from .store import Stored, Version

log = logging.getLogger("odradek.testing.registry")


@dataclass(slots=True)
class Asked:
    """A request: parts of its path by name, its query, its body."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: JsonObject = field(default_factory=dict)

    @property
    def subject(self) -> str:
        return self.path["subject"]

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    @property
    def text(self) -> str:
        found = self.body.get("schema")
        if not isinstance(found, str) or not found:
            raise invalid_schema("Empty schema")
        return found

    @property
    def kind(self) -> str:
        return str(self.body.get("schemaType") or AVRO)

    @property
    def references(self) -> tuple[Reference, ...]:
        listed = self.body.get("references") or []
        try:
            if not isinstance(listed, list):
                raise TypeError("not a list of references")
            return tuple(_reference(one) for one in listed)
        except (KeyError, TypeError, ValueError):
            raise RegistryError(422, "a reference needs name, subject and version") from None

    def number(self, name: str) -> int:
        """Returns a number of the body, -1 for none."""
        found = self.body.get(name)
        return found if isinstance(found, int) else -1


def _reference(reference: JsonValue) -> Reference:
    """Raises KeyError, TypeError, ValueError."""
    version = reference["version"] if isinstance(reference, dict) else None
    if not isinstance(reference, dict) or not isinstance(version, int | float | str):
        raise TypeError("not a reference")
    return Reference(str(reference["name"]), str(reference["subject"]), int(version))


def _schema_only(stored: Stored, form: str) -> dict[str, object]:
    shown: dict[str, object] = {"schema": stored.parsed.formatted(form)}
    if stored.schema.kind != AVRO:
        shown["schemaType"] = stored.schema.kind
    if stored.schema.references:
        shown["references"] = [one.shown() for one in stored.schema.references]
    return shown


def _shown(store: Store, subject: str, version: Version, form: str = "") -> dict[str, object]:
    stored = store.schema(version.schema_id)
    head = {"subject": subject, "version": version.number, "id": version.schema_id, "guid": stored.guid}
    return {**head, **_schema_only(stored, form)}


def _page(items: Sequence[str | int], asked: Asked) -> list[str | int]:
    try:
        offset, limit = int(asked.query.get("offset", 0)), int(asked.query.get("limit", -1))
    except ValueError:
        raise RegistryError(422, "offset and limit must be numbers") from None
    return [*items[offset:]] if limit < 0 else [*items[offset : offset + limit]]


def _subjects(store: Store, asked: Asked) -> object:
    prefix = asked.query.get("subjectPrefix", "").removeprefix(":*:")
    return _page([one for one in store.subjects(deleted=asked.flag("deleted")) if one.startswith(prefix)], asked)


def _versions(store: Store, asked: Asked) -> object:
    return _page([one.number for one in store.versions(asked.subject, deleted=asked.flag("deleted"))], asked)


def _version(store: Store, asked: Asked) -> object:
    version = store.version(asked.subject, asked.path["version"], deleted=asked.flag("deleted"))
    return _shown(store, asked.subject, version, asked.query.get("format", ""))


def _version_text(store: Store, asked: Asked) -> object:
    version = store.version(asked.subject, asked.path["version"], deleted=asked.flag("deleted"))
    return store.schema(version.schema_id).parsed.formatted(asked.query.get("format", ""))


def _referenced_by(store: Store, asked: Asked) -> object:
    return store.referenced_by(asked.subject, store.version(asked.subject, asked.path["version"], deleted=True).number)


def _register(store: Store, asked: Asked) -> object:
    version = store.register(
        asked.subject,
        asked.kind,
        asked.text,
        asked.references,
        schema_id=asked.number("id"),
        number=asked.number("version"),
    )
    guid = store.schema(version.schema_id).guid
    # Without the schema: confluent-kafka would keep the text that it sees here, in another format than it has sent.
    return {"id": version.schema_id, "version": version.number, "guid": guid}


def _look_up(store: Store, asked: Asked) -> object:
    version = store.find(asked.subject, asked.kind, asked.text, asked.references, deleted=asked.flag("deleted"))
    return _shown(store, asked.subject, version, asked.query.get("format", ""))


def _schema_by_id(store: Store, asked: Asked) -> object:
    return _schema_only(store.schema(_id(asked)), asked.query.get("format", ""))


def _schema_text_by_id(store: Store, asked: Asked) -> str:
    return store.schema(_id(asked)).parsed.formatted(asked.query.get("format", ""))


def _id(asked: Asked) -> int:
    text = asked.path["id"]
    if not (text.isascii() and text.isdecimal()):
        raise schema_not_found(text)
    return int(text)


def _check(store: Store, asked: Asked) -> object:
    found = store.incompatibilities(asked.subject, asked.path.get("version"), asked.kind, asked.text, asked.references)
    response: dict[str, object] = {"is_compatible": not found}
    return {**response, "messages": found} if asked.flag("verbose") else response


def _config(store: Store, asked: Asked) -> object:
    subject = asked.path.get("subject")
    if subject is None or asked.flag("defaultToGlobal"):
        return {"compatibilityLevel": store.level(subject)}
    return {"compatibilityLevel": store.own_level(subject)}


def _mode(store: Store, asked: Asked) -> object:
    subject = asked.path.get("subject")
    if subject is None or asked.flag("defaultToGlobal"):
        return {"mode": store.mode(subject)}
    return {"mode": store.own_mode(subject)}


def _set_mode(store: Store, asked: Asked) -> object:
    return {"mode": store.set_mode(asked.path.get("subject"), asked.body.get("mode"), force=asked.flag("force"))}


Function = Callable[[Store, Asked], object]

_OPERATIONS: tuple[tuple[str, str, Function], ...] = (
    ("GET", "/", lambda store, asked: {}),
    ("GET", "/subjects", _subjects),
    ("POST", "/subjects/{subject}", _look_up),
    (
        "DELETE",
        "/subjects/{subject}",
        lambda store, asked: store.delete_subject(asked.subject, permanent=asked.flag("permanent")),
    ),
    ("GET", "/subjects/{subject}/versions", _versions),
    ("POST", "/subjects/{subject}/versions", _register),
    ("GET", "/subjects/{subject}/versions/{version}", _version),
    (
        "DELETE",
        "/subjects/{subject}/versions/{version}",
        lambda store, asked: store.delete_version(
            asked.subject, asked.path["version"], permanent=asked.flag("permanent")
        ),
    ),
    ("GET", "/subjects/{subject}/versions/{version}/schema", _version_text),
    ("GET", "/subjects/{subject}/versions/{version}/referencedby", _referenced_by),
    ("GET", "/schemas/types", lambda store, asked: list(KINDS)),
    (
        "GET",
        "/schemas/guids/{guid}",
        lambda store, asked: _schema_only(store.schema_of_guid(asked.path["guid"]), asked.query.get("format", "")),
    ),
    ("GET", "/schemas/ids/{id}", _schema_by_id),
    ("GET", "/schemas/ids/{id}/schema", _schema_text_by_id),
    (
        "GET",
        "/schemas/ids/{id}/subjects",
        lambda store, asked: sorted({name for name, _ in store.uses(_id(asked), deleted=asked.flag("deleted"))}),
    ),
    (
        "GET",
        "/schemas/ids/{id}/versions",
        lambda store, asked: [
            {"subject": name, "version": number}
            for name, number in store.uses(_id(asked), deleted=asked.flag("deleted"))
        ],
    ),
    ("POST", "/compatibility/subjects/{subject}/versions", _check),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}", _check),
    ("GET", "/config", _config),
    ("GET", "/config/{subject}", _config),
    (
        "PUT",
        "/config",
        lambda store, asked: {"compatibility": store.set_level(None, asked.body.get("compatibility"))},
    ),
    (
        "PUT",
        "/config/{subject}",
        lambda store, asked: {"compatibility": store.set_level(asked.subject, asked.body.get("compatibility"))},
    ),
    ("DELETE", "/config", lambda store, asked: {"compatibilityLevel": store.delete_level(None)}),
    ("DELETE", "/config/{subject}", lambda store, asked: {"compatibilityLevel": store.delete_level(asked.subject)}),
    ("GET", "/mode", _mode),
    ("GET", "/mode/{subject}", _mode),
    ("PUT", "/mode", _set_mode),
    ("PUT", "/mode/{subject}", _set_mode),
    ("DELETE", "/mode/{subject}", lambda store, asked: {"mode": store.delete_mode(asked.subject)}),
    ("GET", "/contexts", lambda store, asked: _page(["."], asked)),
)
_ROUTES = [
    (method, re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path) + r"\Z"), function)
    for method, path, function in _OPERATIONS
]


def route(method: str, path: str) -> tuple[Function, dict[str, str]]:
    """Returns what answers a request, and the parts of its path. Raises RegistryError."""
    found_path = False
    for one, pattern, function in _ROUTES:
        match = pattern.match(path)
        if match is not None and one == method:
            return function, {name: unquote(value) for name, value in match.groupdict().items()}
        found_path = found_path or match is not None
    raise RegistryError(*((405, "HTTP 405 Method Not Allowed") if found_path else (404, "HTTP 404 Not Found")))


class SchemaRegistry(LoopbackServer):
    """Serves until `close`. `port`: 0 picks a free one. Raises OSError where the port is taken."""

    def __init__(self, port: int = 0) -> None:
        self.store = Store()
        self.lock = threading.Lock()

        class BoundRegistryHandler(_RegistryHandler):
            registry = self

        super().__init__(BoundRegistryHandler, port, "odradek-registry")

    def clear(self) -> None:
        """Forgets all subjects, schemas, levels and modes."""
        with self.lock:
            self.store.clear()

    def save(self, path: str | Path) -> None:
        """Writes all subjects, schemas, levels and modes into a file. Raises OSError."""
        with self.lock:
            state = self.store.state()
        Path(path).write_text(json.dumps(state), encoding="utf-8")

    def restore(self, path: str | Path) -> None:
        """Returns to what was saved. Raises ValueError for a file that `save` did not write, OSError."""
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
            with self.lock:
                self.store.load(state)
        except (ValueError, KeyError, TypeError, RecursionError, RegistryError) as wrong:
            raise ValueError(f"{path} is not a file of schemas that save() wrote: {wrong}") from None


class _RegistryHandler(JsonHandler):
    content_type: ClassVar[str] = "application/vnd.schemaregistry.v1+json"
    most_body_bytes: ClassVar[int] = 4 << 20
    body_types: ClassVar[tuple[str, ...]] = (
        "application/vnd.schemaregistry.v1+json",
        "application/vnd.schemaregistry+json",
        "application/json",
    )
    registry: SchemaRegistry

    def handle_request(self) -> None:
        try:
            body = self.allowed_body()
            parts = urlsplit(self.path)
            function, path = route(self.command, parts.path.rstrip("/") or "/")
            with self.registry.lock:
                content = function(self.registry.store, Asked(path, dict(parse_qsl(parts.query)), body))
            self.respond(200, content)
        except BadBody as bad:
            self.respond(bad.status, {"error_code": bad.status, "message": bad.words})
        except RegistryError as error:
            self.respond(error.status, {"error_code": error.code, "message": error.words})
        except Exception:  # a defect here is the response to this request, and no end of the connection without a word
            log.exception("%s %s", self.command, self.path)
            self.respond(500, {"error_code": 50001, "message": "Error in the backend data store"})
