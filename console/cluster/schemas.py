"""The schemas of a registry: subjects, versions, their differences, and compatibility. Any registry of Confluent's interface
has these (that of this product, Confluent's, Karapace's).
"""

from __future__ import annotations

import difflib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote

from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ...client.user_info import apart
from ...records.schema_registry import SchemaRegistry
from .unreachable import Unreachable

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject

T = TypeVar("T")
#: A viewer waits no longer for one response.
_TIMEOUT_S = 3.0
#: The list of subjects is read again after this time.
_FRESH_S = 5.0
#: Subjects and versions that are shown, and characters of a schema.
MOST_SUBJECTS, _MOST_VERSIONS, _MOST_CHARACTERS = 100_000, 500, 1_000_000
#: Lines around a change, and what stands for those between changes.
_CONTEXT, _CUT = 3, ("", "  …")
#: Parts that the usual names of subjects have after a topic (TopicNameStrategy).
_OF_TOPIC = ("-value", "-key")


@dataclass(frozen=True, slots=True)
class Version:
    subject: str
    version: int
    id: int
    kind: str
    text: str
    references: tuple[str, ...] = ()


class Compatibility(NamedTuple):
    """`is_own`: the subject's, and not the registry's."""

    level: str
    is_own: bool


class SchemaCatalog:
    """Raises UserError where the registry does not respond."""

    def __init__(self, url: str, user_info: str | None) -> None:
        #: Pages show it, without a user and a password.
        self.url, self.given_url = apart(url).url, url
        self._registry = SchemaRegistry(url, user_info, _TIMEOUT_S)
        self._subjects: tuple[float, list[str]] = (0.0, [])
        self._unreachable = Unreachable()

    def _asked(self, kind: type[T], method: str, path: str, body: JsonObject | None = None) -> T:
        with self._unreachable.noted():
            return self._registry.ask_for(kind, method, path, body)

    def subjects(self) -> list[str]:
        """Names of subjects, in order."""
        at, known = self._subjects
        if time.monotonic() - at > _FRESH_S:
            known = sorted(str(one) for one in self._asked(list, "GET", "/subjects")[:MOST_SUBJECTS])
            self._subjects = (time.monotonic(), known)
        return known

    def forget(self) -> None:
        """After a change: the next list is new."""
        self._subjects = (0.0, [])

    def versions(self, subject: str) -> list[int]:
        found = self._asked(list, "GET", f"{_path(subject)}/versions")
        return sorted((one for one in found if isinstance(one, int)), reverse=True)[:_MOST_VERSIONS]

    def version(self, subject: str, version: int | str) -> Version:
        path = f"{_path(subject)}/versions/{version}"
        found = self._asked(dict, "GET", path)
        text, number = found.get("schema"), found.get("version")
        if not isinstance(text, str) or not isinstance(number, int):
            raise UserError(f"the schema registry's response for {path} has no schema")
        schema_id = found.get("id")
        references = found.get("references") or []
        names = tuple(f"{one.get('subject')} {one.get('version')}" for one in references[:100] if isinstance(one, dict))
        kind = str(found.get("schemaType") or "AVRO")[:20]
        shown = _indented(text) if kind != "PROTOBUF" else text
        return Version(subject, number, schema_id if isinstance(schema_id, int) else -1, kind, shown, names)

    def compatibility(self, subject: str | None = None) -> Compatibility | None:
        """The level of the subject, or else the registry's; None of a registry without levels."""
        if subject is not None:
            try:
                found = self._asked(dict, "GET", f"/config/{quote(subject, safe='')}")
                return Compatibility(str(found.get("compatibilityLevel") or found.get("compatibility")), True)
            except UserError as error:
                if error.kind != ErrorKind.NOT_FOUND:
                    raise
        try:
            found = self._asked(dict, "GET", "/config")
        except UserError as error:
            if error.kind == ErrorKind.NOT_FOUND:
                return None
            raise
        return Compatibility(str(found.get("compatibilityLevel") or found.get("compatibility")), False)

    def set_compatibility(self, subject: str, level: str) -> None:
        self._asked(dict, "PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})

    def is_compatible(self, subject: str, text: str, kind: str) -> bool:
        """Whether a schema could be the subject's next version."""
        body: JsonObject = {"schema": text, "schemaType": kind}
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest"
        return bool(self._asked(dict, "POST", path, body).get("is_compatible"))

    def register(self, subject: str, text: str, kind: str) -> int:
        """Adds a version. Returns the schema's id."""
        found = self._asked(dict, "POST", f"{_path(subject)}/versions", {"schema": text, "schemaType": kind})
        self.forget()
        return int(found.get("id", -1))


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def topic_of(subject: str) -> str:
    """The topic that a subject is of by its usual name; "" for other names."""
    return next((subject.removesuffix(one) for one in _OF_TOPIC if subject.endswith(one)), "")


def subjects_of(topic: str, subjects: list[str]) -> list[str]:
    wanted = {f"{topic}{one}" for one in _OF_TOPIC}
    return [one for one in subjects if one in wanted]


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def differences(before: str, after: str) -> list[tuple[str, str]]:
    """Lines that differ, and those around them: each with the class `added` or `removed`, or "" for one of both."""
    old, new = (one[:_MOST_CHARACTERS].splitlines() for one in (before, after))
    kinds = {"+": "added", "-": "removed", " ": ""}
    lines = [(kinds[line[0]], line) for line in difflib.ndiff(old, new) if line[0] in kinds]
    changed = [index for index, (kind, _) in enumerate(lines) if kind]
    near = {at for index in changed for at in range(index - _CONTEXT, index + _CONTEXT + 1)}
    made: list[tuple[str, str]] = []
    for index, line in enumerate(lines):
        if index in near:
            made.append(line)
        elif not made or made[-1] != _CUT:
            made.append(_CUT)
    return made if changed else [("", "The schemas are the same.")]
