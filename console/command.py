"""`odradek console`: the console in the foreground, until SIGTERM or SIGINT."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ..admin.connection import Connection, connection_of
from ..cli.client.options import client_command, new_app
from ..client.loopback import is_loopback
from ..client.properties import REGISTRY_URL
from ..client.tls_files import check_server_files
from ..client.user_errors import Misused, UserError
from ..client.user_info import apart
from .access import audit
from .access.users import ADMIN, add_user, is_role
from .cluster_options import of_cluster, one_of_cluster
from .handshakes import HandshakeListener
from .settings import DAYS, MOST_DAYS, Archives, Settings

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

app = new_app("Serve the web console.")

#: Requests to the cluster wait no longer: a viewer waits for the page.
_TIMEOUT_S = 10.0
#: A page leaves out what a broker that has just died would have told, and the next reading of it asks the broker after it.
_PATIENCE_S = 1.0
_BACKLOG = 128
#: Limit of a request's head: an address may have the position of a search in each of 1,000 partitions.
_MOST_HEAD_BYTES = 64 << 10
_M_ARENA_MAX = -8
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")

Clusters = Annotated[
    list[str] | None,
    typer.Option("--cluster", metavar="CONTEXT", help="a cluster of the contexts; repeated: several in one console"),
]
Users = Annotated[
    Path | None, typer.Option("--users", metavar="FILE", help="users who may log in; required off loopback")
]
SingleSignOn = Annotated[
    Path | None, typer.Option("--oidc", metavar="FILE", help="settings of single sign-on (OpenID Connect)")
]
NewUser = Annotated[
    str | None, typer.Option("--add-user", metavar="NAME", help="add a user with a password to the file, and exit")
]
Masked = Annotated[
    list[str] | None,
    typer.Option(
        "--mask", metavar="FIELD", help="hide a field of values, such as *password* or card.number; may be repeated"
    ),
]
Registry = Annotated[
    list[str] | None,
    typer.Option("--schema-registry", metavar="[CONTEXT=]URL", help="schema registry for Avro and Protobuf"),
]
MetricsUrls = Annotated[
    list[str] | None,
    typer.Option("--metrics", metavar="[CONTEXT=]URL", help="URL of a node's /metrics; may be repeated"),
]
ConnectUrl = Annotated[
    list[str] | None,
    typer.Option("--connect", metavar="[CONTEXT=]URL", help="REST address of a Kafka Connect cluster"),
]
Warehouse = Annotated[
    Path | None, typer.Option("--warehouse", metavar="DIR", help="show the Iceberg tables of `odradek archive` there")
]
Catalog = Annotated[
    list[str] | None,
    typer.Option("--catalog", metavar="KEY=VALUE", help="property of PyIceberg's catalog with such tables; repeatable"),
]
Parquet = Annotated[Path | None, typer.Option("--parquet", metavar="DIR", help="folder of such tables, plain Parquet")]
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="namespace of the Iceberg tables")]
Checkpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--checkpoint", metavar="[CONTEXT=]DIR", help="show the lag of the Spark query of this checkpoint; repeatable"
    ),
]
HistoryFolder = Annotated[
    Path | None,
    typer.Option(
        "--history", metavar="DIR", help="folder with the history of charts (default: $XDG_STATE_HOME/odradek/console)"
    ),
]
HistoryDays = Annotated[
    int,
    typer.Option("--history-days", metavar="N", min=0, max=MOST_DAYS, help="days of history; 0: in memory, 6 hours"),
]
AllowedHosts = Annotated[
    list[str] | None, typer.Option("--allowed-host", metavar="NAME", help="a further host name for browsers")
]
AuditFile = Annotated[
    Path | None,
    typer.Option("--audit-log", metavar="FILE", help="log of changes and logins (default: standard error)"),
]
Certificate = Annotated[Path | None, typer.Option("--tls-certificate", metavar="FILE", help="certificate, PEM")]


@app.command()
@client_command
def console(
    connection: Connection,
    host: Annotated[str, typer.Option("--host", help="the address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="port; 0: any free port")] = 8080,
    cluster: Clusters = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="do not allow changes")] = False,
    users: Users = None,
    oidc: SingleSignOn = None,
    add: NewUser = None,
    role: Annotated[str, typer.Option("--role", help="with --add-user: admin or viewer")] = ADMIN,
    mask: Masked = None,
    schema_registry: Registry = None,
    metrics: MetricsUrls = None,
    connect: ConnectUrl = None,
    warehouse: Warehouse = None,
    catalog: Catalog = None,
    parquet: Parquet = None,
    namespace: Namespace = "kafka",
    checkpoint: Checkpoints = None,
    history: HistoryFolder = None,
    history_days: HistoryDays = DAYS,
    allowed_host: AllowedHosts = None,
    audit_file: AuditFile = None,
    certificate: Certificate = None,
    key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="private key, PEM")] = None,
) -> None:
    """Serve the web console for any Kafka cluster."""
    if add is not None:
        _add_user(users, add, role)
        return
    _check(host, certificate, key, has_logins=users is not None or oidc is not None)
    settings = Settings(
        host,
        port,
        read_only,
        users,
        tuple(mask or ()),
        allowed_hosts=tuple(allowed_host or ()),
        audit_file=audit_file,
        is_tls=certificate is not None,
        oidc=oidc,
        archives=_archives(warehouse, catalog, parquet, namespace),
        history=history or _history_folder(),
        history_days=history_days,
    )
    named = _clusters(cluster or [], connection.timeout_s)
    for one in (connection, *named.values()):
        one.timeout_s = min(one.timeout_s, _TIMEOUT_S)
        one.patience_s = _PATIENCE_S
    given = _Services(schema_registry or [], metrics or [], connect or [], checkpoint or [])
    if not named:
        settings = given.added(settings, connection, "", [])
    clusters = {name: (one, given.added(settings, one, name, list(named))) for name, one in named.items()}
    _serve(connection, clusters, settings, certificate, key)


class _Services(NamedTuple):
    """Options with the services and the folders beside clusters."""

    registries: list[str]
    metrics: list[str]
    connects: list[str]
    checkpoints: list[str]

    def added(self, settings: Settings, connection: Connection, name: str, names: list[str]) -> Settings:
        """The settings of one cluster. Raises Misused."""
        registry = one_of_cluster("--schema-registry", self.registries, name, names)
        if registry is None and len(names) > 1:  # the registry of the environment is that of one cluster
            registry = connection.properties.get(REGISTRY_URL, "")
        return replace(
            settings,
            schema_registry=registry,
            metrics=tuple(_urls("--metrics", "a node's /metrics", of_cluster("--metrics", self.metrics, name, names))),
            connect=_connect_url(one_of_cluster("--connect", self.connects, name, names)),
            checkpoints=tuple(map(Path, of_cluster("--checkpoint", self.checkpoints, name, names))),
        )


def _check(host: str, certificate: Path | None, key: Path | None, *, has_logins: bool) -> None:
    if not has_logins and not is_loopback(host):
        raise Misused(
            f"--host {host} is not loopback: give --oidc FILE, or --users FILE, made by"
            " `odradek console --users FILE --add-user NAME`"
        )
    if (certificate is None) != (key is None):
        raise Misused("give both --tls-certificate and --tls-key")
    if certificate is not None and key is not None:
        check_server_files(certificate, key)


def _clusters(names: list[str], timeout_s: float) -> dict[str, Connection]:
    """Raises Misused for a name that no address can have, and UserError for a context that does not exist."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise Misused(f"--cluster {name!r}: use a context with a name of letters, digits, '.', '_' and '-'")
    return {name: connection_of(None, None, name, [], timeout_s) for name in names}


def _share_arenas() -> None:
    """Has the threads share memory arenas of glibc, where it is glibc: one for each thread holds what it once needed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _urls(option: str, of: str, texts: list[str]) -> list[str]:
    for text in texts:
        if not text.startswith(("http://", "https://")):
            raise Misused(f"{option} {apart(text).url}: give the http:// address of {of}")
    return texts


def _connect_url(text: str | None) -> str | None:
    return None if text is None else _urls("--connect", "a Connect worker", [text])[0]


def _archives(warehouse: Path | None, catalog: list[str] | None, parquet: Path | None, namespace: str) -> Archives:
    if parquet is not None and (warehouse is not None or catalog):
        raise Misused("give --warehouse DIR, --catalog KEY=VALUE, or --parquet DIR")
    for folder in filter(None, (warehouse, parquet)):
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}")
    return Archives(warehouse, tuple(catalog or ()), parquet, namespace)


def _history_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local/state") / "odradek" / "console"


def _add_user(users: Path | None, name: str, role: str) -> None:
    if users is None:
        raise Misused("--add-user needs --users FILE")
    if not is_role(role):
        raise Misused("--role must be admin, viewer, or editor=TOPIC with * for any characters, several with commas")
    if sys.stdin.isatty():
        password = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        password = sys.stdin.readline().removesuffix("\n")
    add_user(users, name, role, password)
    print(f"odradek: {name} may log in as {role}")


def _serve(
    connection: Connection,
    named: Mapping[str, tuple[Connection, Settings]],
    settings: Settings,
    certificate: Path | None,
    key: Path | None,
) -> None:
    _share_arenas()
    import uvicorn

    from .application import application
    from .backend import Backend

    audit.begin(settings.audit_file)
    backend = Backend(connection, settings)
    clusters = {name: Backend(*one, name) for name, one in named.items()}
    listener = _listener(settings)
    host, port = listener.getsockname()[:2]
    config = server_config(application(backend, clusters), certificate, key, listener)
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if settings.is_tls else "http"
    of = ",".join(named) or connection.bootstrap
    print(f"odradek: console of {of} on {scheme}://{shown}:{port}/", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def server_config(
    app: ASGIApp, certificate: Path | None = None, key: Path | None = None, listener: HandshakeListener | None = None
) -> uvicorn.Config:
    """The HTTP server's options. `listener`: the one that it is to serve; None for one of its own."""
    import uvicorn

    from .connections import Connections, protocol_of

    return uvicorn.Config(
        app,
        http=protocol_of(Connections(listener)),
        loop="asyncio",  # uvloop is no faster for a page, and takes 3 MB
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
        timeout_graceful_shutdown=5,
        backlog=_BACKLOG,  # asyncio accepts as many in one turn, before it closes those that are too many
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def _listener(settings: Settings) -> HandshakeListener:
    """Bound before uvicorn starts: a port that is taken is an error of one line."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = HandshakeListener(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        hint = "; choose another with --port N, or --port 0" if error.errno == errno.EADDRINUSE else ""
        raise UserError(f"{settings.host}:{settings.port}: {error.strerror}{hint}") from None
    return made
