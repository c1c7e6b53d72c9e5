"""Schemas of a registry: subjects, versions with their differences, compatibility, and the topics that use them."""

from __future__ import annotations

from starlette.requests import Request

from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ..actions import Done, Fields, required
from ..addresses import name_in, number_of, path_to
from ..backend import Backend
from ..cluster.schemas import Compatibility, SchemaCatalog, Version, differences, topic_of
from ..command_templates import command_of
from ..formats import NONE
from ..parts import Cell, Code, Diff, Effect, Field, Form, Link, Page, Part, Table, Text
from .long_lists import listed, paged

_KINDS = ("AVRO", "JSON", "PROTOBUF")
_LEVELS = ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE")
_MOST_VERSIONS = 50
_CRUMBS = (Link("Schemas", "/schemas"),)


def _catalog(backend: Backend) -> SchemaCatalog:
    if backend.schemas is None:
        raise UserError(
            "this cluster has no schema registry: start the console with --schema-registry URL", ErrorKind.NOT_FOUND
        )
    return backend.schemas


def schemas(backend: Backend, request: Request) -> Page:
    catalog = _catalog(backend)
    subjects = catalog.subjects()
    chosen, search, pages = paged(request, subjects, str, "subjects", {"Subject": str, "Topic": topic_of})
    rows = [(Link(one, path_to("schemas", one)), _topic(backend, one), _part(one)) for one in chosen]
    table = listed(("Subject", "Topic", "Part"), rows, "No subject matches.", ("Subject", "Topic"))
    if not subjects:
        table.empty = "The registry has no schemas yet. Register one, or let a producer with a serializer do it."
    level = catalog.compatibility()
    return Page(
        "Schemas",
        [pages, table],
        "/schemas",
        above=[search],
        below=[_registering(backend, "", _KINDS[0], "")],
        figures=[
            ("Subjects", len(subjects)),
            ("Compatibility", level.level if level else NONE),
            ("Registry", catalog.url),
        ],
    )


def _topic(backend: Backend, subject: str) -> Cell:
    name = topic_of(subject)
    if name and backend.snapshot.topic(name) is not None:
        return Link(name, path_to("topics", name, "messages"))
    return NONE


def _part(subject: str) -> str:
    return "value" if subject.endswith("-value") else "key" if subject.endswith("-key") else NONE


def schema(backend: Backend, request: Request) -> Page:
    """A version of a subject, by default the newest, and its differences to the one before."""
    subject, catalog = name_in(request, "subject"), _catalog(backend)
    versions = catalog.versions(subject)
    if not versions:
        raise UserError(f"the registry has no subject {subject}", ErrorKind.NOT_FOUND)
    chosen = number_of(request, "version", versions[0])
    before = number_of(request, "before", max((one for one in versions if one < chosen), default=0))
    version = catalog.version(subject, chosen)
    level = catalog.compatibility(subject)
    parts: list[Part] = [_versions(subject, versions, chosen)]
    if before and before != chosen:
        older = catalog.version(subject, before)
        parts.append(Diff(f"Differences from version {before} to {chosen}", differences(older.text, version.text)))
    parts.append(Code(f"Version {chosen}", version.text))
    if version.references:
        parts.append(Text(f"It refers to {', '.join(version.references)}."))
    return Page(
        f"Subject {subject}",
        parts,
        "/schemas",
        noun="Subject",
        crumbs=_CRUMBS,
        figures=_figures(backend, subject, version, versions, level),
        below=[_registering(backend, subject, version.kind, version.text), _leveling(subject, level)],
    )


def _figures(
    backend: Backend, subject: str, version: Version, versions: list[int], level: Compatibility | None
) -> list[tuple[str, Cell]]:
    words = f"{level.level}{'' if level.is_own else ', the default'}" if level is not None else NONE
    return [
        ("Newest version", versions[0]),
        ("Schema id", version.id if version.id >= 0 else NONE),
        ("Type", version.kind),
        ("Compatibility", words),
        ("Topic", _topic(backend, subject)),
    ]


def _versions(subject: str, versions: list[int], chosen: int) -> Table:
    at = path_to("schemas", subject)
    rows: list[list[Cell]] = []
    for one in versions[:_MOST_VERSIONS]:
        difference: Cell = (
            "shown below"
            if one == chosen
            else Link("compare", f"{at}?version={max(one, chosen)}&before={min(one, chosen)}")
        )
        rows.append([Link(str(one), f"{at}?version={one}"), difference])
    return Table("Versions", ("Version", "Difference"), rows, of=len(versions))


def _registering(backend: Backend, subject: str, kind: str, text: str) -> Form:
    return Form(
        "Register a version" if subject else "Register a schema",
        "/schemas",
        [
            Field("subject", "Subject", subject, required=True, hint="TOPIC-value or TOPIC-key"),
            Field("kind", "Type", kind, "select", _KINDS),
            Field("schema", "Schema", text, "area", required=True),
        ],
        "Register",
        words="The registry checks the schema against the newest version. Producers may write with it from then on.",
        command=command_of(backend, "schema", "register", template=" {subject} FILE --schema-type {kind}"),
    )


def _leveling(subject: str, level: Compatibility | None) -> Form:
    now = level.level if level is not None else NONE
    return Form(
        "Set compatibility",
        f"{path_to('schemas', subject)}/compatibility",
        [Field("level", "Level", now, "select", _LEVELS)],
        "Set level",
        words="New versions are checked by this level. Versions that are there stay.",
        effects=[Effect(f"Compatibility of {subject}", now, "{level}")],
    )


def register(backend: Backend, form: Fields) -> Done:
    catalog = _catalog(backend)
    subject, kind, text = required(form, "subject"), required(form, "kind"), required(form, "schema")
    schema_id = catalog.register(subject, text, kind)
    return Done(f"The schema was registered under {subject} with id {schema_id}.", path_to("schemas", subject))


def set_level(backend: Backend, form: Fields) -> Done:
    subject, level = form["subject"], required(form, "level")
    _catalog(backend).set_compatibility(subject, level)
    return Done(f"The compatibility of {subject} is {level}.", path_to("schemas", subject))
