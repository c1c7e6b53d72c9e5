"""Schemas by id, versions of subjects, levels and modes of the registry. In memory, under a lock of its server."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...extras import install_command
from .errors import (
    RegistryError,
    incompatible,
    invalid_level,
    invalid_mode,
    invalid_schema,
    invalid_version,
    level_not_configured,
    mode_not_configured,
    not_permitted,
    reference_exists,
    schema_not_found,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from .levels import DEFAULT_LEVEL, LEVELS, why_incompatible
from .schemas import AVRO, JSON, KINDS, PROTOBUF, Reference, SchemaText

if TYPE_CHECKING:
    from .schemas import Parsed

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
#: Levels of references of references.
_MOST_DEPTH = 32
#: Compiling a .proto file takes milliseconds, and clients send the same one again and again.
_MOST_PARSED = 1000


def parse(schema: SchemaText) -> Parsed:
    """Raises RegistryError 42201 for a schema that is not one, and 50101 where the library of its kind is not installed."""
    try:
        if schema.kind == AVRO:
            from .avro_schema import AvroSchema

            return AvroSchema(schema)
        if schema.kind == JSON:
            from .json_schema import JsonSchema

            return JsonSchema(schema)
        if schema.kind == PROTOBUF:
            from .protobuf_schema import ProtobufSchema

            return ProtobufSchema(schema)
    except ImportError as missing:
        raise RegistryError(
            50101, f"{schema.kind} schemas need {missing.name}: {install_command('registry')}"
        ) from None
    raise invalid_schema(f"schemaType {schema.kind!r} is not one of {', '.join(KINDS)}")


@dataclass(slots=True)
class Version:
    """A version of a subject. Deleted softly, it is found by those who ask for deleted ones, and by its id."""

    number: int
    schema_id: int
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """A schema with its id."""

    schema_id: int
    schema: SchemaText
    parsed: Parsed

    @property
    def key(self) -> tuple[str, str, tuple[Reference, ...]]:
        return self.schema.kind, self.parsed.identity, self.schema.references

    @property
    def guid(self) -> str:
        """The same for the same schema in every registry of this kind."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, repr(self.key)))


class Store:
    """Methods raise RegistryError."""

    def __init__(self) -> None:
        #: Schemas that were parsed, by their texts: a clearing need not forget them.
        self._parsed: dict[tuple[str, str, tuple[Reference, ...], tuple[tuple[str, str], ...]], Stored] = {}
        self.clear()

    def clear(self) -> None:
        self._by_id: dict[int, Stored] = {}
        self._ids: dict[tuple[str, str, tuple[Reference, ...]], int] = {}
        self._subjects: dict[str, list[Version]] = {}
        self._levels: dict[str | None, str] = {None: DEFAULT_LEVEL}
        self._modes: dict[str | None, str] = {None: MODES[0]}
        self._next_id = 1

    # ---- saving

    def state(self) -> dict[str, object]:
        """Returns all as data of JSON."""
        return {
            "schemas": [
                {
                    "id": schema_id,
                    "kind": one.schema.kind,
                    "text": one.schema.text,
                    "references": [reference.shown() for reference in one.schema.references],
                    "inner": one.schema.inner,
                    "is_first": self._ids[one.key] == schema_id,
                }
                for schema_id, one in self._by_id.items()
            ],
            "subjects": {
                name: [[one.number, one.schema_id, one.is_deleted] for one in found]
                for name, found in self._subjects.items()
            },
            "levels": list(self._levels.items()),
            "modes": list(self._modes.items()),
            "next_id": self._next_id,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Replaces all by data that `state` returned. Raises ValueError, KeyError, TypeError, RegistryError."""
        schemas = []
        for one in state["schemas"]:
            references = tuple(Reference(**reference) for reference in one["references"])
            text = SchemaText(one["kind"], one["text"], references, dict(one["inner"]))
            schemas.append((Stored(int(one["id"]), text, self._parse(text).parsed), bool(one["is_first"])))
        subjects = {
            name: [Version(int(number), int(schema_id), bool(deleted)) for number, schema_id, deleted in found]
            for name, found in state["subjects"].items()
        }
        levels, modes, next_id = dict(state["levels"]), dict(state["modes"]), int(state["next_id"])
        self._by_id = {one.schema_id: one for one, _ in schemas}
        self._ids = {one.key: one.schema_id for one, is_first in schemas if is_first}
        self._subjects, self._levels, self._modes, self._next_id = subjects, levels, modes, next_id

    # ---- reading

    def subjects(self, *, deleted: bool = False) -> list[str]:
        return sorted(
            name for name, found in self._subjects.items() if deleted or not all(one.is_deleted for one in found)
        )

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Returns the versions of a subject, at least one."""
        found = [one for one in self._subjects.get(subject, ()) if deleted or not one.is_deleted]
        if not found:
            raise subject_not_found(subject)
        return found

    def version(self, subject: str, number: str, *, deleted: bool = False) -> Version:
        """`number`: of a version, "latest" or "-1"."""
        if number in ("latest", "-1"):
            return self.versions(subject, deleted=deleted)[-1]
        if not (number.isascii() and number.isdecimal()) or not 1 <= int(number) < 1 << 31:
            raise invalid_version(number)
        for one in self.versions(subject, deleted=deleted):
            if one.number == int(number):
                return one
        raise version_not_found(number)

    def schema(self, schema_id: int) -> Stored:
        if schema_id not in self._by_id:
            raise schema_not_found(schema_id)
        return self._by_id[schema_id]

    def schema_of_guid(self, guid: str) -> Stored:
        for one in self._by_id.values():
            if one.guid == guid:
                return one
        raise schema_not_found(guid)

    def uses(self, schema_id: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        """Returns the subjects and versions that have a schema."""
        self.schema(schema_id)
        return [
            (subject, one.number)
            for subject, found in sorted(self._subjects.items())
            for one in found
            if one.schema_id == schema_id and (deleted or not one.is_deleted)
        ]

    def referenced_by(self, subject: str, number: int) -> list[int]:
        """Returns the ids of schemas, of versions that are not deleted, which refer to a version."""
        used = {one.schema_id for found in self._subjects.values() for one in found if not one.is_deleted}
        return sorted(
            schema_id
            for schema_id in used
            if any((one.subject, one.version) == (subject, number) for one in self._by_id[schema_id].schema.references)
        )

    def find(self, subject: str, kind: str, text: str, references: tuple[Reference, ...], *, deleted: bool) -> Version:
        """Returns the version of a subject that has a schema."""
        found = self.versions(subject, deleted=deleted)
        made = self._made(kind, text, references)
        schema_id = self._ids.get(made.key)
        for one in reversed(found):
            if one.schema_id == schema_id:
                return one
        raise schema_not_found()

    # ---- registering

    def register(
        self,
        subject: str,
        kind: str,
        text: str,
        references: tuple[Reference, ...],
        *,
        schema_id: int = -1,
        number: int = -1,
    ) -> Version:
        """Returns the version that a subject has for a schema: one that was there, or a new one. An id needs mode IMPORT."""
        made = self._made(kind, text, references)
        known = self._ids.get(made.key)
        found = self._subjects.get(subject, [])
        for one in found:
            if one.schema_id == known and not one.is_deleted and schema_id in (-1, known):
                return one
        mode = self.mode(subject)
        if mode.startswith("READONLY"):
            raise not_permitted(f"Subject {subject} is in read-only mode")
        if schema_id != -1 and mode != "IMPORT":
            raise not_permitted(f"Subject {subject} is not in import mode")
        if mode == "IMPORT" and schema_id == -1:
            raise not_permitted(f"Subject {subject} is in import mode: name the schema's id")
        if mode != "IMPORT":
            living = [self._by_id[one.schema_id].parsed for one in found if not one.is_deleted]
            if messages := why_incompatible(self.level(subject), made.parsed, living):
                raise incompatible(subject, messages)
        if schema_id != -1:
            known = self._take_id(schema_id, made)
        elif known is None:
            known = self._take_id(self._next_id, made)
        version = Version(number if number > 0 else max((one.number for one in found), default=0) + 1, known)
        if any(one.number == version.number for one in found):
            raise not_permitted(f"Subject {subject} has a version {version.number} already")
        self._subjects[subject] = sorted([*found, version], key=lambda one: one.number)
        return version

    def _take_id(self, schema_id: int, stored: Stored) -> int:
        if schema_id in self._by_id and self._by_id[schema_id].key != stored.key:
            raise not_permitted(f"Overwrite new schema with id {schema_id} is not permitted.")
        self._by_id[schema_id] = Stored(schema_id, stored.schema, stored.parsed)
        self._ids[stored.key] = schema_id
        self._next_id = max(self._next_id, schema_id + 1)
        return schema_id

    def incompatibilities(
        self, subject: str, number: str | None, kind: str, text: str, references: tuple[Reference, ...]
    ) -> list[str]:
        """Returns what keeps a schema from being the next one after a version; after those that the level names without."""
        made = self._made(kind, text, references)
        if number is None:
            found = [one for one in self._subjects.get(subject, ()) if not one.is_deleted]
        else:
            found = [self.version(subject, number)]
        return why_incompatible(self.level(subject), made.parsed, [self._by_id[one.schema_id].parsed for one in found])

    def _made(self, kind: str, text: str, references: tuple[Reference, ...]) -> Stored:
        inner: dict[str, str] = {}
        self._add_inner(references, inner, 0)
        return self._parse(SchemaText(kind, text, references, inner))

    def _parse(self, schema: SchemaText) -> Stored:
        place = (schema.kind, schema.text, schema.references, tuple(schema.inner.items()))
        if place not in self._parsed:
            if len(self._parsed) >= _MOST_PARSED:
                self._parsed.clear()
            self._parsed[place] = Stored(-1, schema, parse(schema))
        return self._parsed[place]

    def _add_inner(self, references: tuple[Reference, ...], inner: dict[str, str], depth: int) -> None:
        for one in references:
            if depth > _MOST_DEPTH:
                raise invalid_schema(f"references are deeper than {_MOST_DEPTH} levels")
            try:
                found = self.schema(self.version(one.subject, str(one.version), deleted=True).schema_id)
            except RegistryError:
                raise invalid_schema(
                    f'No schema reference found for subject "{one.subject}" and version {one.version}'
                ) from None
            self._add_inner(found.schema.references, inner, depth + 1)
            inner.setdefault(one.name, found.schema.text if found.schema.kind != "PROTOBUF" else found.parsed.text)

    # ---- deleting

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        found = self.versions(subject, deleted=True)
        self._check_deletable(subject, found)
        is_deleted = all(one.is_deleted for one in found)
        if permanent:
            if not is_deleted:
                raise subject_not_soft_deleted(subject)
            del self._subjects[subject]
            return [one.number for one in found]
        if is_deleted:
            raise subject_soft_deleted(subject)
        living = [one for one in found if not one.is_deleted]
        for one in living:
            one.is_deleted = True
        self._levels.pop(subject, None)
        self._modes.pop(subject, None)
        return [one.number for one in living]

    def delete_version(self, subject: str, number: str, *, permanent: bool) -> int:
        found = self.version(subject, number, deleted=number not in ("latest", "-1") or permanent)
        self._check_deletable(subject, [found])
        if permanent:
            if not found.is_deleted:
                raise version_not_soft_deleted(subject, found.number)
            self._subjects[subject].remove(found)
            if not self._subjects[subject]:
                del self._subjects[subject]
        elif found.is_deleted:
            raise version_soft_deleted(subject, found.number)
        found.is_deleted = True
        return found.number

    def _check_deletable(self, subject: str, versions: list[Version]) -> None:
        if self.mode(subject).startswith("READONLY"):
            raise not_permitted(f"Subject {subject} is in read-only mode")
        for one in versions:
            if self.referenced_by(subject, one.number):
                raise reference_exists(subject, one.number)

    # ---- levels and modes; None stands for all subjects

    def level(self, subject: str | None) -> str:
        return self._levels.get(subject, self._levels[None])

    def own_level(self, subject: str) -> str:
        if subject not in self._levels:
            raise level_not_configured(subject)
        return self._levels[subject]

    def set_level(self, subject: str | None, level: object) -> str:
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise invalid_level(level)
        self._levels[subject] = level.upper()
        return level.upper()

    def delete_level(self, subject: str | None) -> str:
        if subject is None:
            before, self._levels[None] = self._levels[None], DEFAULT_LEVEL
            return before
        found = self.own_level(subject)
        del self._levels[subject]
        return found

    def mode(self, subject: str | None) -> str:
        return self._modes.get(subject, self._modes[None])

    def own_mode(self, subject: str) -> str:
        if subject not in self._modes:
            raise mode_not_configured(subject)
        return self._modes[subject]

    def set_mode(self, subject: str | None, mode: object, *, force: bool) -> str:
        if not isinstance(mode, str) or mode.upper() not in MODES:
            raise invalid_mode(mode)
        has_versions = bool(self._subjects.get(subject)) if subject is not None else bool(self._subjects)
        if mode.upper() == "IMPORT" and has_versions and not force:
            raise not_permitted("Cannot import since found existing subjects")
        self._modes[subject] = mode.upper()
        return mode.upper()

    def delete_mode(self, subject: str) -> str:
        found = self.own_mode(subject)
        del self._modes[subject]
        return found
