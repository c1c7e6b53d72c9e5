"""The connection of a command or a console to a cluster: the sources of its properties, and its clients.

The properties of a context are overlaid by `--command-config`, then by `-X`, then by `--bootstrap-server`. The
current context does not count when `--bootstrap-server` is given: its passwords are for its own cluster.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..client.contexts import read_contexts
from ..client.error_kinds import ErrorKind
from ..client.librdkafka import check_names, librdkafka_settings
from ..client.properties import REGISTRY_URL, REGISTRY_USER_INFO, REGISTRY_VARIABLE, pairs, read_client_properties
from ..client.security_options import TOKEN_S, Security, login_of, security_of
from ..client.tls_files import ssl_context
from ..client.user_errors import Misused, UserError

if TYPE_CHECKING:
    import logging
    import ssl

    from ..client.blocking import BlockingConnection
    from ..client.cluster import Cluster
    from ..client.sasl import Login
    from .session import Admin

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 30.0
#: A dead broker leaves the metadata within its session's time; Odradek and Kafka have 9 s by default.
_PATIENCE_S = 12.0
#: Limit of the first check whether a listener accepts connections.
_CONNECT_TIMEOUT_S = 5.0
#: Addresses that are probed at the same time.
_MOST_PROBES = 4


class Connection:
    """Properties of a client, and clients with them. It connects when a command takes its first client."""

    def __init__(self, properties: dict[str, str], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self.properties = {"bootstrap.servers": DEFAULT_BOOTSTRAP, **properties}
        self.timeout_s = timeout_s
        #: Limit of the time in which an admin client repeats a query.
        self.patience_s = _PATIENCE_S
        self._is_reached = False
        self._security: Security | None = None

    @property
    def bootstrap(self) -> str:
        return self.properties["bootstrap.servers"]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each of the bootstrap servers. Raises Misused."""
        found = [_host_and_port(one) for one in self.bootstrap.split(",") if one.strip()]
        if not found:
            raise Misused("the address of the brokers is empty: name one by --bootstrap-server HOST:PORT")
        return found

    @property
    def security(self) -> Security:
        if self._security is None:
            self._security = security_of(self.properties)
        return self._security

    @property
    def client_id(self) -> str:
        return self.properties.get("client.id", "odradek-cli")

    def _login(self, timeout_s: float) -> Login | None:
        return login_of(self.security, min(TOKEN_S, timeout_s))

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS of connections, by the files as they are now; None where the protocol has none. Raises Misused."""
        return ssl_context(self.security) if self.security.has_tls else None

    def registry_url(self, given: str | None, schema: Path | None = None) -> str | None:
        """The schema registry's URL: the one of an option, else of the properties, else of the environment.

        A file with the schema replaces the last two. A context's registry comes before the environment's, which is for
        whatever cluster.
        """
        if given is not None or schema is not None:
            return given
        return self.properties.get(REGISTRY_URL) or os.environ.get(REGISTRY_VARIABLE) or None

    @property
    def registry_user_info(self) -> str | None:
        return self.properties.get(REGISTRY_USER_INFO)

    def to(self, bootstrap: str) -> Connection:
        """The same options for another cluster."""
        return Connection({**self.properties, "bootstrap.servers": bootstrap}, self.timeout_s)

    def librdkafka(self, **settings: str | bool) -> dict[str, Any]:
        """Settings of a confluent-kafka client. Names have `_` in place of dots. The user's properties have precedence."""
        self.reach()
        own = {"client.id": "odradek-cli", **{name.replace("_", "."): value for name, value in settings.items()}}
        return own | librdkafka_settings(self.properties, self.security) | {"log_level": 0, "logger": _silent_logger()}

    @contextlib.contextmanager
    def admin(self) -> Iterator[Admin]:
        """A session of the administrator, closed at the end."""
        from .session import Admin

        self.reach()
        made = Admin(self.cluster(), min(self.timeout_s, self.patience_s), min(self.timeout_s, _PATIENCE_S))
        try:
            yield made
        finally:
            made.close()

    def cluster(self) -> Cluster:
        """The client of requests of our own. The caller closes it."""
        from ..client.cluster import Address, Cluster

        self.reach()
        addresses = [Address(*one) for one in self.addresses]
        login, tls = self._login(self.timeout_s), self.tls
        return Cluster(
            addresses,
            self.client_id,
            self.timeout_s,
            lambda listener: login,
            lambda listener, host: {} if tls is None else {"ssl": tls, "server_hostname": host},
        )

    def blocking(self, address: tuple[str, int]) -> contextlib.AbstractContextManager[BlockingConnection]:
        """A connection for few requests, logged in. Raises OSError."""
        from ..client.blocking import BlockingConnection

        timeout_s = min(_CONNECT_TIMEOUT_S, self.timeout_s)
        login = self._login(timeout_s)
        return contextlib.closing(BlockingConnection(address, self.client_id, timeout_s, self.tls, login))

    def reach(self) -> None:
        """Logs in at one of the addresses, and ends the connection: libraries retry what fails in silence for long.

        Raises UserError where nothing listens at any, and LoginRejected where one does not let this client in.
        """
        from ..client.errors import LoginRejected

        if self._is_reached:
            return
        failed = []
        for address in self.addresses:
            try:
                self._log_in(address)
            except LoginRejected:
                raise
            except OSError as error:
                failed.append(f"{address[0]}:{address[1]} ({error.strerror or error})")
            else:
                self._is_reached = True
                return
        raise UserError(
            f"cannot connect to {', '.join(failed)}: start a broker, or name one with --bootstrap-server HOST:PORT",
            ErrorKind.UNREACHABLE,
        )

    def silent_addresses(self, timeout_s: float) -> list[str]:
        """Addresses that accept a connection, and send nothing within the time: their process hangs."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_MOST_PROBES) as probes:
            addresses = [one.strip() for one in self.bootstrap.split(",") if one.strip()]
            return [
                one
                for one, is_silent in zip(addresses, probes.map(self._is_silent(timeout_s), addresses), strict=True)
                if is_silent
            ]

    def _is_silent(self, timeout_s: float) -> Callable[[str], bool]:
        from ..client.port_security import API_VERSIONS

        def probe(address: str) -> bool:
            host, port = _host_and_port(address)
            try:
                with socket.create_connection((host, port), timeout=timeout_s) as connected:
                    if (tls := self.tls) is not None:
                        tls.wrap_socket(connected.dup(), server_hostname=host).close()
                    else:
                        connected.sendall(API_VERSIONS)
                        connected.recv(1)
            except TimeoutError:
                return True
            except OSError:
                pass  # a refused connection, or a handshake that failed: it responds
            return False

        return probe

    def _log_in(self, address: tuple[str, int]) -> None:
        """Raises OSError, such as LoginRejected. Without a login, a broker that hangs is for the client to explain."""
        tls = self.tls
        timeout_s = min(_CONNECT_TIMEOUT_S, self.timeout_s)
        login = self._login(timeout_s)
        if login is not None:
            from ..client.blocking import BlockingConnection

            BlockingConnection(address, self.client_id, timeout_s, tls, login).close()
            return
        from ..client.faults import rejection
        from ..client.port_security import fault_of_port

        fault = fault_of_port(address, tls, timeout_s, has_login=False)
        if fault is not None:
            where = f"{address[0]}:{address[1]}"
            raise rejection(where, fault, has_tls=tls is not None, has_login=False)


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdecimal() and 0 < int(port) <= 65535):
        raise Misused(f"{address!r} is not HOST:PORT; separate several addresses with commas")
    return host.strip("[]"), int(port)


def _silent_logger() -> logging.Logger:
    """librdkafka writes to standard error itself unless it is given a logger."""
    import logging

    logger = logging.getLogger("odradek.librdkafka")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def connection_of(
    bootstrap: str | None, command_config: Path | None, context: str | None, settings: list[str], timeout_s: float
) -> Connection:
    """Raises Misused for options that cannot be meant, and UserError for a context that does not exist."""
    properties: dict[str, str] = {}
    if context is not None or bootstrap is None:
        properties |= _of_context(context)
    if command_config is not None:
        properties |= read_client_properties(command_config)
    given = pairs(settings, "-X")
    if given:
        check_names(given)
    properties |= given
    if bootstrap is not None:
        properties["bootstrap.servers"] = bootstrap
    if timeout_s <= 0:
        raise Misused("--timeout must be more than 0 seconds")
    return Connection(properties, timeout_s)


def _of_context(name: str | None) -> dict[str, str]:
    contexts = read_contexts()
    chosen = name if name is not None else contexts.current
    if chosen is None:
        return {}
    if chosen not in contexts.named:
        known = ", ".join(sorted(contexts.named)) or "none; add one with `odradek context add`"
        raise UserError(f"there is no context {chosen!r}; contexts: {known}", ErrorKind.NOT_FOUND)
    return dict(contexts.named[chosen])
