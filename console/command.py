"""`odradek console`: the console in the foreground, until SIGTERM or SIGINT."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import re
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..cli.client.connection import Connection, connection_of
from ..cli.client.errors import CommandError, Misused
from ..cli.client.options import client_command, new_app
from .access import audit
from .access.guard import is_loopback
from .access.users import ADMIN, ROLES, add_user
from .settings import Settings

app = new_app("Serve the web console.")

#: Requests to the cluster wait no longer: a viewer waits for the page.
_TIMEOUT_S = 10.0
#: A page leaves out what a broker that has just died would have told, and the next reading of it asks the broker after it.
_PATIENCE_S = 1.0
_MOST_CONNECTIONS = 500
_BACKLOG = 128
#: Limit of a request's head: an address may have the position of a search in each of 1,000 partitions.
_MOST_HEAD_BYTES = 64 << 10
_M_ARENA_MAX = -8
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


@app.command()
@client_command
def console(
    connection: Connection,
    host: Annotated[str, typer.Option("--host", help="the address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="port; 0: any free port")] = 8080,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster", metavar="CONTEXT", help="a cluster of the contexts; repeated: several in one console"
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="do not allow changes")] = False,
    users: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="users who may log in; required off loopback")
    ] = None,
    oidc: Annotated[
        Path | None, typer.Option("--oidc", metavar="FILE", help="settings of single sign-on (OpenID Connect)")
    ] = None,
    add: Annotated[
        str | None, typer.Option("--add-user", metavar="NAME", help="add a user with a password to the file, and exit")
    ] = None,
    role: Annotated[str, typer.Option("--role", help="with --add-user: admin or viewer")] = ADMIN,
    mask: Annotated[
        list[str] | None,
        typer.Option(
            "--mask", metavar="FIELD", help="hide a field of values, such as *password* or card.number; may be repeated"
        ),
    ] = None,
    schema_registry: Annotated[
        str | None, typer.Option("--schema-registry", metavar="URL", help="schema registry for Avro and Protobuf")
    ] = None,
    metrics: Annotated[
        list[str] | None, typer.Option("--metrics", metavar="URL", help="URL of a node's /metrics; may be repeated")
    ] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option("--allowed-host", metavar="NAME", help="a further host name for browsers")
    ] = None,
    audit_file: Annotated[
        Path | None,
        typer.Option("--audit-log", metavar="FILE", help="log of changes and logins (default: standard error)"),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", metavar="FILE", help="certificate, PEM")
    ] = None,
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
        schema_registry,
        tuple(allowed_host or ()),
        audit_file,
        certificate is not None,
        tuple(_urls(metrics or [])),
        oidc,
    )
    named = _clusters(cluster or [], connection.timeout_s)
    for one in (connection, *named.values()):
        one.timeout_s = min(one.timeout_s, _TIMEOUT_S)
        one.patience_s = _PATIENCE_S
    _serve(connection, named, settings, certificate, key)


def _check(host: str, certificate: Path | None, key: Path | None, *, has_logins: bool) -> None:
    if not has_logins and not is_loopback(host):
        raise Misused(
            f"--host {host} is not loopback: give --oidc FILE, or --users FILE, made by"
            " `odradek console --users FILE --add-user NAME`"
        )
    if (certificate is None) != (key is None):
        raise Misused("give both --tls-certificate and --tls-key")


def _clusters(names: list[str], timeout_s: float) -> dict[str, Connection]:
    """Raises Misused for a name that no address can have, and CommandError for a context that does not exist."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise Misused(f"--cluster {name!r}: use a context with a name of letters, digits, '.', '_' and '-'")
    return {name: connection_of(None, None, name, [], timeout_s) for name in names}


def _share_arenas() -> None:
    """Has the threads share memory arenas of glibc, where it is glibc: one for each thread holds what it once needed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _urls(texts: list[str]) -> list[str]:
    for text in texts:
        if not text.startswith(("http://", "https://")):
            raise Misused(f"--metrics {text}: give the http:// address of a node's /metrics")
    return texts


def _add_user(users: Path | None, name: str, role: str) -> None:
    if users is None:
        raise Misused("--add-user needs --users FILE")
    if role not in ROLES:
        raise Misused(f"--role must be {' or '.join(ROLES)}")
    if sys.stdin.isatty():
        password = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        password = sys.stdin.readline().removesuffix("\n")
    add_user(users, name, role, password)
    print(f"odradek: {name} may log in as {role}")


def _serve(
    connection: Connection, named: dict[str, Connection], settings: Settings, certificate: Path | None, key: Path | None
) -> None:
    _share_arenas()
    import uvicorn

    from .application import application
    from .backend import Backend

    audit.begin(settings.audit_file)
    backend = Backend(connection, settings)
    clusters = {name: Backend(one, settings) for name, one in named.items()}
    listener = _listener(settings)
    host, port = listener.getsockname()[:2]
    config = uvicorn.Config(
        application(backend, clusters),
        loop="asyncio",  # uvloop is no faster for a page, and takes 3 MB
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
        timeout_graceful_shutdown=5,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if settings.is_tls else "http"
    of = ",".join(named) or connection.bootstrap
    print(f"odradek: console of {of} on {scheme}://{shown}:{port}/", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _listener(settings: Settings) -> socket.socket:
    """Bound before uvicorn starts: a port that is taken is an error of one line."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        hint = "; choose another with --port N, or --port 0" if error.errno == errno.EADDRINUSE else ""
        raise CommandError(f"{settings.host}:{settings.port}: {error.strerror}{hint}") from None
    return made
