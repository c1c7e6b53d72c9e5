"""`odradek schema`: subjects and schemas of a registry with Confluent's REST interface."""

from __future__ import annotations

import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...admin.connection import Connection
from ...client.properties import REGISTRY_URL, REGISTRY_VARIABLE
from ...client.user_errors import Misused, UserError
from ...records.schema_registry import SchemaRegistry
from ..client.options import Yes, client_command, new_app
from ..output import Output, Table

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject


app = new_app("List, get, register, check and delete schemas of a registry.")

_KINDS = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
_MOST_SCHEMA_BYTES = 4 << 20

Registry = Annotated[
    str | None,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        help=f"URL of the registry (default: {REGISTRY_URL} of the properties, or {REGISTRY_VARIABLE})",
    ),
]
Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="such as orders-value")]
SchemaFile = Annotated[Path, typer.Argument(metavar="FILE", help=".avsc, .proto or .json")]
Version = Annotated[int | None, typer.Option("--version", help="default: the newest")]


@app.command("list")
@client_command
def list_subjects(connection: Connection, output: Output, schema_registry: Registry = None) -> None:
    """List subjects with their versions."""
    registry = _registry(connection, schema_registry)
    names = sorted(map(str, registry.ask_for(list, "GET", "/subjects")))
    versions = [registry.ask_for(list, "GET", f"{_path(name)}/versions") for name in names]
    found = [{"subject": name, "versions": some} for name, some in zip(names, versions, strict=True)]
    rows = [(name, ", ".join(map(str, some))) for name, some in zip(names, versions, strict=True)]
    output.show(found, Table("", ("SUBJECT", "VERSIONS"), rows))


@app.command("get")
@client_command
def get(
    subject: Subject, connection: Connection, output: Output, schema_registry: Registry = None, version: Version = None
) -> None:
    """Print a schema, or with --output json all that the registry has about it."""
    path = f"{_path(subject)}/versions/{_version(version)}"
    found = _registry(connection, schema_registry).ask_for(dict, "GET", path)
    if output.form == "table":
        typer.echo(_field(found, "schema", path))
        return
    output.show([found], Table("", [name.upper() for name in found], [list(found.values())]))


@app.command("register")
@client_command
def register(
    subject: Subject, file: SchemaFile, connection: Connection, output: Output, schema_registry: Registry = None
) -> None:
    """Register the schema of a file under a subject."""
    path = f"{_path(subject)}/versions"
    found = _registry(connection, schema_registry).ask_for(dict, "POST", path, _body(file))
    output.changed("registered", [f"{subject}: id {_field(found, 'id', path)}"], dry_run=False)


@app.command("check")
@client_command
def check(
    subject: Subject,
    file: SchemaFile,
    connection: Connection,
    output: Output,
    schema_registry: Registry = None,
    version: Version = None,
) -> None:
    """Check whether a schema is compatible with a subject. The exit status is 1 if it is not."""
    path = f"/compatibility{_path(subject)}/versions/{_version(version)}?verbose=true"
    found = _registry(connection, schema_registry).ask_for(dict, "POST", path, _body(file))
    if _field(found, "is_compatible", path) is not True:
        messages = found.get("messages")
        reasons = "; ".join(map(str, messages)) if isinstance(messages, list) else ""
        raise UserError(f"{file} is not compatible with {subject}{': ' if reasons else ''}{reasons}")
    output.changed("compatible", [subject], dry_run=False)


@app.command("delete")
@client_command
def delete(
    subject: Subject,
    connection: Connection,
    output: Output,
    schema_registry: Registry = None,
    version: Version = None,
    permanent: Annotated[bool, typer.Option("--permanent", help="also what was deleted before, for good")] = False,
    yes: Yes = False,
) -> None:
    """Delete a subject, or one version of it."""
    name = subject if version is None else f"{subject}, version {version}"
    if not yes:
        typer.confirm(f"delete {name}?", abort=True, err=True)
    path = _path(subject) if version is None else f"{_path(subject)}/versions/{version}"
    _registry(connection, schema_registry).ask("DELETE", path + ("?permanent=true" if permanent else ""))
    output.changed("deleted", [name], dry_run=False)


def _registry(connection: Connection, given: str | None) -> SchemaRegistry:
    """Raises Misused where neither an option nor the properties nor the environment name the registry."""
    url = connection.registry_url(given)
    if url is None:
        raise Misused(
            f"name the schema registry: --schema-registry URL, {REGISTRY_URL} of a context, or {REGISTRY_VARIABLE}"
        )
    return SchemaRegistry(url, connection.registry_user_info)


def _field(described: dict[str, object], name: str, path: str) -> object:
    if name not in described:
        raise UserError(f"the schema registry's response for {path} has no {name}")
    return described[name]


def _path(subject: str) -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}"


def _version(version: int | None) -> str:
    if version is not None and version < 1:
        raise Misused("--version must be at least 1")
    return "latest" if version is None else str(version)


def _body(file: Path) -> JsonObject:
    kind = _KINDS.get(file.suffix.lower())
    if kind is None:
        raise Misused(f"{file} is not a schema: its name ends in .avsc, .proto or .json")
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_SCHEMA_BYTES).decode()
    except OSError as error:
        raise Misused(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Misused(f"{file} is not UTF-8") from None
    return {"schema": text, "schemaType": kind}
