"""A command's connection to a cluster: the sources of its properties, and its clients.

The properties of a context are overlaid by `--command-config`, then by `-X`, then by `--bootstrap-server`. The
current context does not count when `--bootstrap-server` is given: its passwords are for its own cluster.

- `Admin`, `Patient`: the admin clients.
- `Connection`: the properties and clients of one command; `connection_of` makes it of the command's options.
- `request_producer_id`: gets the producer id of an idempotent producer of confluent-kafka, without the half second
  that librdkafka waits for it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .contexts import read_contexts
from .errors import NOT_FOUND, UNREACHABLE, CommandError, CoordinatorMoves, Misused
from .librdkafka import check_names, librdkafka_settings
from .properties import (
    Security,
    connection_arguments,
    login_of,
    pairs,
    read_client_properties,
    security_of,
    ssl_context,
)

if TYPE_CHECKING:
    import logging
    import ssl

    from confluent_kafka import Producer

    from ...client.cluster import Cluster
    from .admin import AdminClient


# ---- connections

T = TypeVar("T")
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 30.0
#: A dead broker leaves the metadata within its session's time; Odradek and Kafka have 9 s by default.
_PATIENCE_S, _PAUSE_S = 12.0, 0.2
#: Changes that are one request to the controller: nothing is sent while it is not known.
_SENT_TO_CONTROLLER = frozenset(
    ("alter_partition_reassignments", "create_partitions", "create_topics", "delete_topics")
)
#: Limit of the first check whether a listener accepts connections.
_CONNECT_TIMEOUT_S = 5.0
#: Addresses that are probed at the same time.
_MOST_PROBES = 4


#: A request that every version of Kafka serves: its length, API key 18, version 0, correlation id 1, no client id.
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_TLS_ALERT = b"\x15\x03"
#: Reasons of OpenSSL for bytes that are not of TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


class Admin:
    """kafka-python's admin client, and the client of requests that it lacks (`requests`)."""

    def __init__(self, make: Callable[[], Any], make_requests: Callable[[], Cluster]) -> None:
        self._make = make
        self._make_requests = make_requests
        self._library: Any = make()
        self._requests: Cluster | None = None

    def __getattr__(self, name: str) -> Any:
        if self._library is None:
            self._library = self._make()
        return getattr(self._library, name)

    @property
    def requests(self) -> Cluster:
        if self._requests is None:
            self._requests = self._make_requests()
        return self._requests

    def forget_places(self) -> None:
        """Begins anew: kafka-python's client keeps the first response about coordinators and the controller for ever, and a
        broker that has died or lost them fails every later call.
        """
        library, self._library = self._library, None
        if library is not None:
            library.close()

    def close(self) -> None:
        self.forget_places()
        if self._requests is not None:
            self._requests.close()


class Patient:
    """An `Admin` that repeats a query while brokers do not agree yet: one has just died or started, or leads
    since a moment. A change is repeated only when it was not sent.
    """

    def __init__(self, client: Admin, query_s: float, change_s: float) -> None:
        self._client = client
        self._query_s = query_s
        self._change_s = change_s

    def __getattr__(self, name: str) -> Any:
        is_query = name.startswith(("list_", "describe_"))
        if not is_query and name not in _SENT_TO_CONTROLLER:
            return getattr(self._client, name)

        def asked(*given: Any, **named: Any) -> Any:
            return self.repeated(lambda: getattr(self._client, name)(*given, **named), is_query=is_query)

        return asked

    @property
    def impatient(self) -> Admin:
        """The client itself, whose queries end with the first error."""
        return self._client

    def repeated(self, step: Callable[[], T], *, is_query: bool = True) -> T:
        """Runs a step again while brokers do not agree yet: a query, or a change that an error leaves unsent."""
        from kafka import errors

        from ...client.errors import UnknownNode

        # The controller is known from one broker, and its address from another, which may not have heard of it.
        passing: tuple[type[Exception], ...] = (errors.UnknownBrokerIdError, errors.NotControllerError, UnknownNode)
        if is_query:
            passing += (
                CoordinatorMoves,
                errors.KafkaConnectionError,
                errors.Cancelled,  # requests that were under way when the broker closed the connection
                ConnectionError,
                errors.NodeNotReadyError,
                errors.NotCoordinatorError,
                errors.CoordinatorLoadInProgressError,
                errors.CoordinatorNotAvailableError,
                errors.NotLeaderForPartitionError,
                errors.OffsetNotAvailableError,
            )
        deadline = time.monotonic() + (self._query_s if is_query else self._change_s)
        while True:
            try:
                return step()
            except passing as error:
                if time.monotonic() > deadline:
                    if isinstance(error, ConnectionError | errors.Cancelled):
                        raise errors.KafkaConnectionError(str(error)) from None
                    raise
                self._client.forget_places()
                time.sleep(_PAUSE_S)


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
        return [_host_and_port(one) for one in self.bootstrap.split(",") if one.strip()]

    @property
    def security(self) -> Security:
        if self._security is None:
            self._security = security_of(self.properties)
        return self._security

    def to(self, bootstrap: str) -> Connection:
        """The same options for another cluster."""
        return Connection({**self.properties, "bootstrap.servers": bootstrap}, self.timeout_s)

    def librdkafka(self, **settings: str | bool) -> dict[str, Any]:
        """Settings of a confluent-kafka client. Names have `_` in place of dots. The user's properties have precedence."""
        self.reach()
        own = {"client.id": "odradek-cli", **{name.replace("_", "."): value for name, value in settings.items()}}
        return own | librdkafka_settings(self.properties, self.security) | {"log_level": 0, "logger": _silent_logger()}

    @contextlib.contextmanager
    def admin(self) -> Iterator[AdminClient]:
        """A `Patient` client, closed at the end."""
        import logging

        self.reach()
        logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
        from kafka.admin import KafkaAdminClient

        from .kafka_python import admin_settings, network_client

        settings = admin_settings(self.properties, self.security, self.timeout_s)
        client = Admin(lambda: KafkaAdminClient(**settings, kafka_client=network_client), self.cluster)
        try:
            # Calls pass through `__getattr__` to the untyped library.
            patient = Patient(client, min(self.timeout_s, self.patience_s), min(self.timeout_s, _PATIENCE_S))
            yield cast("AdminClient", patient)
        finally:
            client.close()

    def cluster(self) -> Cluster:
        """The client of requests that no library has. The caller closes it."""
        from ...client.cluster import Address, Cluster

        self.reach()
        addresses = [Address(*one) for one in self.addresses]
        login, client_id = login_of(self.security), self.properties.get("client.id", "odradek-cli")
        arguments = connection_arguments(self.security)
        return Cluster(addresses, client_id, self.timeout_s, lambda listener: login, arguments)

    def reach(self) -> None:
        """Raises CommandError unless something listens at one of the addresses: libraries retry in silence for long."""
        if self._is_reached:
            return
        failed = []
        for address in self.bootstrap.split(","):
            try:
                with socket.create_connection(_host_and_port(address), timeout=_CONNECT_TIMEOUT_S) as connected:
                    self._check_protocol(connected, address.strip())
            except OSError as error:
                failed.append(f"{address.strip()} ({error.strerror or error})")
            else:
                self._is_reached = True
                return
        raise CommandError(
            f"cannot connect to {', '.join(failed)}: start a broker, or name one with --bootstrap-server HOST:PORT",
            UNREACHABLE,
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
        def probe(address: str) -> bool:
            host, port = _host_and_port(address)
            try:
                with socket.create_connection((host, port), timeout=timeout_s) as connected:
                    if self.security.has_tls:
                        context = ssl_context(self.security)
                        context.wrap_socket(connected.dup(), server_hostname=host).close()
                    else:
                        connected.sendall(_API_VERSIONS)
                        connected.recv(1)
            except TimeoutError:
                return True
            except OSError:
                pass  # a refused connection, or a handshake that failed: it responds
            return False

        return probe

    def _check_protocol(self, connected: socket.socket, address: str) -> None:
        """Raises CommandError where one side has TLS and the other has not: libraries try again until their timeouts."""
        protocol = self.security.protocol
        if not self.security.has_tls and _expects_tls(connected, _host_and_port(address)):
            secured = protocol.replace("PLAINTEXT", "SSL")
            raise CommandError(
                f"{address} expects TLS, and security.protocol is {protocol}: set security.protocol={secured}",
                UNREACHABLE,
            )
        if not self.security.has_tls:
            return
        if not _offers_tls(connected, _host_and_port(address)[0], ssl_context(self.security)):
            plain = {"SSL": "PLAINTEXT", "SASL_SSL": "SASL_PLAINTEXT"}[protocol]
            raise CommandError(
                f"{address} has no TLS, and security.protocol is {protocol}: name a port with TLS, or set "
                f"security.protocol={plain}",
                UNREACHABLE,
            )


def _expects_tls(connected: socket.socket, address: tuple[str, int]) -> bool:
    """Sends an ApiVersions request of version 0. A port with TLS sends an alert, or ends the connection: then it gets
    a handshake on another connection, whose certificate does not count.
    """
    connected.settimeout(_CONNECT_TIMEOUT_S)
    try:
        connected.sendall(_API_VERSIONS)
        first = connected.recv(2)
    except TimeoutError:
        return False
    except OSError:
        first = b""
    if first:
        return first == _TLS_ALERT
    import ssl  # a port of Kafka without TLS has responded

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address, timeout=_CONNECT_TIMEOUT_S) as again:
        return _offers_tls(again, address[0], context)


def _offers_tls(connected: socket.socket, host: str, context: ssl.SSLContext) -> bool:
    """Whether the port takes a handshake with TLS; that it fails for another reason is for the libraries to explain."""
    import ssl

    connected.settimeout(_CONNECT_TIMEOUT_S)
    try:
        context.wrap_socket(connected.dup(), server_hostname=host).close()
    except ssl.SSLEOFError:
        return False
    except ssl.SSLError as error:
        return error.reason not in _NO_TLS
    except OSError:
        return False
    return True


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
    """Raises Misused for options that cannot be meant, and CommandError for a context that does not exist."""
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
        raise CommandError(f"there is no context {chosen!r}; contexts: {known}", NOT_FOUND)
    return dict(contexts.named[chosen])


# ---- producer ids

#: The limit for each of the two responses. An attempt that fails changes nothing: librdkafka asks again by its own timer.
_TIMEOUT_S = 1.0
#: The values of `enable.idempotence` that librdkafka takes for yes.
_YES = ("true", "t", "1")


def request_producer_id(producer: Producer, settings: Mapping[str, object], topic: str) -> None:
    """Has the producer ask for its id as soon as a connection is up, on a thread: records are queued meanwhile.

    librdkafka 2.16 asks when metadata arrives. The first metadata names the brokers, and the bootstrap connection is
    closed at once, so that attempt finds no connection. The next one is by a timer of 500 ms, and no record leaves before.
    The second metadata arrives over a connection that stays, so the attempt after it succeeds.
    """
    if str(settings.get("enable.idempotence", False)).lower() in _YES:
        threading.Thread(target=_read_metadata_twice, args=(producer, topic), name="producer-id", daemon=True).start()


def _read_metadata_twice(producer: Producer, topic: str) -> None:
    with contextlib.suppress(Exception):  # of a broker that does not respond: the records themselves say so
        producer.list_topics(topic, timeout=_TIMEOUT_S)
        producer.list_topics(topic, timeout=_TIMEOUT_S)
