"""Schemas by their ids, from a registry with Confluent's REST interface (Apicurio and Karapace have it, too)."""

from __future__ import annotations

import http.client
import json
import struct
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..client.error_kinds import ErrorKind
from ..client.message_text import shown
from ..client.user_errors import Misused, UserError
from ..client.user_info import apart, basic_login
from ..http_exchange import opened

if TYPE_CHECKING:
    from ..protocol.json_value import JsonObject


_TIMEOUT_S = 10
_KINDS = {401: ErrorKind.DENIED, 403: ErrorKind.DENIED, 404: ErrorKind.NOT_FOUND}
#: HTTP statuses of a server that has no time for the request.
_BUSY = (408, 429)
#: Limit of one schema.
_MOST_BYTES = 4 << 20
#: Limit of the text of an error.
_MOST_REASON_BYTES = 64 << 10
#: Schemas of a schema's references, all levels together.
_MOST_REFERENCES = 100
#: Texts of schemas that are kept, in bytes; the least recently used go first.
_MOST_KEPT_BYTES = 64 << 20
#: A whole exchange takes no longer than so many times the timeout of one read.
_READS = 2
T = TypeVar("T")
_WORDS: dict[type, str] = {list: "list", dict: "object"}


@dataclass(slots=True)
class Schema:
    """`kind`: AVRO, PROTOBUF or JSON. `references`: name -> text of the schemas that it names, inner ones included."""

    kind: str
    text: str
    references: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.text) + sum(map(len, self.references.values()))


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema and the id that a registry gave it."""

    id: int
    schema: Schema


class RegistryFailure(UserError):
    """The registry does not respond, has an error of its own, or rejects the login: the schema may exist."""


class Reference(NamedTuple):
    name: str
    subject: str
    version: int


class SchemaResponse(NamedTuple):
    """A response with a schema, whose fields have the types that they should have."""

    schema: Schema
    references: list[Reference]
    id: int | None


class SchemaRegistry:
    """Schemas are kept: an id never changes its schema. A registry may return anything: what is no schema is an error."""

    def __init__(self, url: str, user_info: str | None = None, timeout_s: float = _TIMEOUT_S) -> None:
        if not url.startswith(("http://", "https://")):
            raise Misused("--schema-registry needs an http:// or https:// URL")
        plain = apart(url)
        self._url, user_info = plain.url.rstrip("/"), user_info or plain.user_info
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        self._headers |= basic_login(user_info)
        #: The least recently used first.
        self._known: dict[int, Schema] = {}
        self._known_bytes = 0
        self._timeout_s = timeout_s

    def schema(self, schema_id: int) -> Schema:
        """Raises UserError when there is none, or no response."""
        made = self._known.pop(schema_id, None)
        if made is None:
            response = self._get(f"/schemas/ids/{schema_id}")
            made = response.schema
            self._add_references(made, response.references)
            self._known_bytes += made.size
        self._known[schema_id] = made
        while self._known_bytes > _MOST_KEPT_BYTES and len(self._known) > 1:
            self._known_bytes -= self._known.pop(next(iter(self._known))).size
        return made

    def latest(self, subject: str) -> Registered:
        """The newest schema of a subject. Raises UserError when there is none, or no response."""
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest"
        response = self._get(path)
        if response.id is None:
            raise _unusable(path, "has no id")
        self._add_references(response.schema, response.references)
        return Registered(response.id, response.schema)

    def _add_references(self, into: Schema, references: list[Reference]) -> None:
        """Adds the schemas that a schema names, level by level."""
        waiting = list(references)
        while waiting:
            one = waiting.pop(0)
            if one.name in into.references:
                continue
            if len(into.references) >= _MOST_REFERENCES or into.size > _MOST_BYTES:
                raise UserError(
                    f"a schema has more than {_MOST_REFERENCES} references, or more than {_MOST_BYTES} bytes"
                )
            response = self._get(f"/subjects/{urllib.parse.quote(one.subject, safe='')}/versions/{one.version}")
            into.references[one.name] = response.schema.text
            waiting += response.references

    def _get(self, path: str) -> SchemaResponse:
        found = self.ask("GET", path)
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise _unusable(path, "has no schema")
        kind, number = found.get("schemaType") or "AVRO", found.get("id")
        if not isinstance(kind, str) or not (number is None or _is_id(number)):
            raise _unusable(path, "has a type or an id that is none")
        return SchemaResponse(Schema(kind, found["schema"]), _references(path, found.get("references") or []), number)

    def ask(self, method: str, path: str, body: JsonObject | None = None) -> Any:
        """Sends a request of the REST interface. Returns the JSON of the response. Raises UserError."""
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({"Content-Type": "application/vnd.schemaregistry.v1+json"} if data else {})
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        try:
            with opened(request, self._timeout_s, _READS * self._timeout_s) as response:
                return json.loads(_read(response))
        except urllib.error.HTTPError as error:
            kind = _KINDS.get(error.code, ErrorKind.FAILED)
            is_of_registry = kind == ErrorKind.DENIED or error.code in _BUSY or error.code >= 500
            words = f"the schema registry returned HTTP status {error.code} for {path}{_reason(error)}"
            raise (RegistryFailure(words, kind) if is_of_registry else UserError(words, kind)) from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            words = shown(" ".join(str(error).split()) or type(error).__name__)
            raise RegistryFailure(
                f"no response from the schema registry at {self._url}: {words}", ErrorKind.UNREACHABLE
            ) from None

    def ask_for(self, kind: type[T], method: str, path: str, body: JsonObject | None = None) -> T:
        """The same, for a response of this type. Raises UserError for any other."""
        found = self.ask(method, path, body)
        if not isinstance(found, kind):
            raise _unusable(path, f"is no {_WORDS.get(kind, 'JSON')}")
        return found


def _read(response: http.client.HTTPResponse) -> bytes:
    """Raises TimeoutError, and ValueError for a response beyond the limit."""
    body = response.read(_MOST_BYTES + 1)
    if len(body) > _MOST_BYTES:
        raise ValueError(f"it is longer than {_MOST_BYTES >> 20} MB")
    return body


def _unusable(path: str, words: str) -> UserError:
    return UserError(f"the schema registry's response for {path} {words}")


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32


def _references(path: str, listed: object) -> list[Reference]:
    if not isinstance(listed, list):
        raise _unusable(path, "has references that are no list")
    made = []
    for one in listed[: _MOST_REFERENCES + 1]:
        name, subject, version = (one.get(key) for key in Reference._fields) if isinstance(one, dict) else (None,) * 3
        if (
            not isinstance(name, str)
            or not isinstance(subject, str)
            or not (isinstance(version, int) and _is_id(version))
        ):
            raise _unusable(path, "has a reference without name, subject and version")
        made.append(Reference(name, subject, version))
    return made


def _reason(error: urllib.error.HTTPError) -> str:
    """The registry's own words, on one line."""
    try:
        words = str(json.loads(error.read(_MOST_REASON_BYTES))["message"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, http.client.HTTPException):
        return ""
    return f": {shown(' '.join(words.split()))}"


def framed(data: bytes) -> tuple[int, bytes]:
    """The schema's id and the rest: a zero byte, the id in four bytes. Raises ValueError."""
    if len(data) < 5 or data[0] != 0:
        raise ValueError("the schema id is missing; give a schema file if the record was written without a registry")
    return struct.unpack_from(">I", data, 1)[0], data[5:]
