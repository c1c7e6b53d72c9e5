"""Schemas by their ids, from a registry with Confluent's REST interface (Apicurio and Karapace have it, too)."""

from __future__ import annotations

import base64
import json
import struct
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from ..client.errors import DENIED, NOT_FOUND, UNREACHABLE, CommandError, Misused
from ..options import shown

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject


_TIMEOUT_S = 10
#: HTTP statuses of a server that has no time for the request.
_BUSY = (408, 429)
#: Limit of one schema.
_MOST_BYTES = 4 << 20
#: Limit of the text of an error.
_MOST_REASON_BYTES = 64 << 10
#: Schemas of a schema's references, all levels together.
_MOST_REFERENCES = 100


@dataclass(slots=True)
class Schema:
    """`kind`: AVRO, PROTOBUF or JSON. `references`: name -> text of the schemas that it names, inner ones included."""

    kind: str
    text: str
    references: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema and the id that a registry gave it."""

    id: int
    schema: Schema


class RegistryFailure(CommandError):
    """The registry does not respond, has an error of its own, or rejects the login: the schema may exist."""


class Reference(TypedDict):
    name: str
    subject: str
    version: int


class SchemaResponse(TypedDict):
    id: NotRequired[int]
    schema: str
    schemaType: NotRequired[str]
    references: NotRequired[list[Reference]]


class SchemaRegistry:
    """Schemas are kept: an id never changes its schema."""

    def __init__(self, url: str, user_info: str | None = None, timeout_s: float = _TIMEOUT_S) -> None:
        if not url.startswith(("http://", "https://")):
            raise Misused("--schema-registry needs an http:// or https:// URL")
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if user_info:
            self._headers["Authorization"] = f"Basic {base64.b64encode(user_info.encode()).decode()}"
        self._known: dict[int, Schema] = {}
        self._timeout_s = timeout_s

    def schema(self, schema_id: int) -> Schema:
        """Raises CommandError when there is none, or no response."""
        if schema_id not in self._known:
            response = self._get(f"/schemas/ids/{schema_id}")
            made = Schema(response.get("schemaType") or "AVRO", response["schema"])
            self._add_references(made, response.get("references") or [])
            self._known[schema_id] = made
        return self._known[schema_id]

    def latest(self, subject: str) -> Registered:
        """The newest schema of a subject. Raises CommandError when there is none, or no response."""
        response = self._get(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")
        made = Schema(response.get("schemaType") or "AVRO", response["schema"])
        self._add_references(made, response.get("references") or [])
        return Registered(int(response["id"]), made)

    def _add_references(self, into: Schema, references: list[Reference]) -> None:
        for one in references:
            if one["name"] in into.references:
                continue
            if len(into.references) >= _MOST_REFERENCES:
                raise CommandError(f"a schema has more than {_MOST_REFERENCES} references")
            subject = urllib.parse.quote(str(one["subject"]), safe="")
            response = self._get(f"/subjects/{subject}/versions/{int(one['version'])}")
            into.references[one["name"]] = response["schema"]
            self._add_references(into, response.get("references") or [])

    def _get(self, path: str) -> SchemaResponse:
        found: SchemaResponse | None = self.ask("GET", path)
        if not isinstance(found, dict) or "schema" not in found:
            raise CommandError(f"the schema registry's response for {path} has no schema")
        return found

    def ask(self, method: str, path: str, body: JsonObject | None = None) -> Any:
        """Sends a request of the REST interface. Returns the JSON of the response. Raises CommandError."""
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({"Content-Type": "application/vnd.schemaregistry.v1+json"} if data else {})
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                return json.loads(response.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            status = {401: DENIED, 403: DENIED, 404: NOT_FOUND}.get(error.code, 1)
            reason = _reason(error)
            kind = RegistryFailure if status == DENIED or error.code in _BUSY or error.code >= 500 else CommandError
            raise kind(f"the schema registry returned HTTP status {error.code} for {path}{reason}", status) from None
        except (OSError, ValueError) as error:
            raise RegistryFailure(
                f"no response from the schema registry at {self._url}: {error}", UNREACHABLE
            ) from None


def _reason(error: urllib.error.HTTPError) -> str:
    """The registry's own words, on one line."""
    try:
        words = str(json.loads(error.read(_MOST_REASON_BYTES))["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f": {shown(' '.join(words.split()))}"


def framed(data: bytes) -> tuple[int, bytes]:
    """The schema's id and the rest: a zero byte, the id in four bytes. Raises ValueError."""
    if len(data) < 5 or data[0] != 0:
        raise ValueError("the schema id is missing; give a schema file if the record was written without a registry")
    return struct.unpack_from(">I", data, 1)[0], data[5:]
