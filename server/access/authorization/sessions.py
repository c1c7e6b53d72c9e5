"""The decisions for one client: made by the authorizer, kept until the rules change, and noted in the audit log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from ....metadata.acls import CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType

if TYPE_CHECKING:
    from ....protocol.apis import Api

#: Longer names are decided anew each time: a client makes them up, and they would fill the memory.
MOST_KEPT_NAME = 249
_Key = tuple[int, int, str]


class Decider(Protocol):
    """The node's authorization, as sessions use it."""

    version: int
    allowed: int
    denied: int

    @property
    def keeps_decisions(self) -> bool: ...

    #: Returns whether decisions that allow are written to the audit log.
    logs_allowed: Callable[[], bool]

    def kept(self) -> None:
        """Counts a decision that a session keeps."""

    def decide(self, session: AuthorizationSession, operation: int, resource_type: int, name: str) -> bool:
        """Raises AuthorizerNotReady."""

    def may_write_any_topic(self, session: AuthorizationSession) -> bool:
        """Raises AuthorizerNotReady."""

    def log(self, session: AuthorizationSession, key: _Key, count: int, level: int) -> None:
        """Writes a decision to the audit log."""


class SessionConnection(Protocol):
    """The connection of a client, which keeps its session."""

    #: None before the first request that needs it.
    authorization: AuthorizationSession | None

    @property
    def principal(self) -> str: ...
    @property
    def client_host(self) -> str: ...


class ClientCall(Protocol):
    """A request of a client; a `Call` is one. Its client may be another one than that of the connection."""

    @property
    def api(self) -> Api: ...
    @property
    def connection(self) -> SessionConnection: ...
    @property
    def principal(self) -> str: ...
    @property
    def client_host(self) -> str: ...


class AuthorizationSession:
    """Decides for one principal on one host. `api`: the request at hand, for the audit log."""

    __slots__ = (
        "_authorization",
        "_decisions",
        "_version",
        "api",
        "client_host",
        "host",
        "principal",
        "written",
        "written_version",
    )

    def __init__(self, authorization: Decider, principal: str, client_host: str) -> None:
        self.principal = principal
        #: As `Call.client_host`: "/127.0.0.1".
        self.client_host = client_host
        self.host = client_host.lstrip("/")
        self.api = ""
        self._authorization = authorization
        self._decisions: dict[_Key, bool] = {}
        self._version = authorization.version
        #: Names and ids of topics that the client may write to, by the rules of `written_version`.
        self.written: set[str | bytes] = set()
        self.written_version = authorization.version

    def may_write(self, topic: str | bytes) -> None:
        """Caches the permission to write to a topic, by its name or its id. Topic ids are never reused."""
        authorization = self._authorization
        if not authorization.keeps_decisions or len(topic) > MOST_KEPT_NAME or authorization.logs_allowed():
            return
        if self.written_version != authorization.version:
            self.written = set()
            self.written_version = authorization.version
        self.written.add(topic)
        authorization.kept()

    def allows(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        count: int = 1,
        log_denied: bool = True,
    ) -> bool:
        """Returns whether the client may do it. `count`: how often the request names the resource, for the log.

        `log_denied`: False where a denial is no attempt, but leaves something out.
        """
        authorization = self._authorization
        if self._version != authorization.version:
            self._decisions = {}
            self._version = authorization.version
        key = (operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = authorization.decide(self, *key)
            if authorization.keeps_decisions and len(name) <= MOST_KEPT_NAME:
                self._decisions[key] = decision
                authorization.kept()
        if not decision:
            authorization.denied += 1
            if log_denied:
                authorization.log(self, key, count, logging.INFO)
        else:
            authorization.allowed += 1
            if authorization.logs_allowed():
                authorization.log(self, key, count, logging.DEBUG)
        return decision

    def allowed_names(
        self,
        operation: Operation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        log_denied: bool = True,
    ) -> set[str]:
        """Returns those of the names on which the client may do it; a name is decided once."""
        counts: dict[str, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        return {
            name
            for name, count in counts.items()
            if self.allows(operation, resource_type, name, count=count, log_denied=log_denied)
        }

    def allows_on_cluster(self, operation: Operation, *, log_denied: bool = True) -> bool:
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=log_denied)

    def may_write_any_topic(self) -> bool:
        """Returns whether the client may write to some topic: then it may have a producer id (KIP-679)."""
        return self._authorization.may_write_any_topic(self)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Returns the operations that the client may do on the resource, a bit for each (KIP-430)."""
        bits = 0
        for operation in OPERATIONS_OF[resource_type]:
            if self._authorization.decide(self, operation, resource_type, name):
                bits |= 1 << operation
                self._authorization.allowed += 1
            else:
                self._authorization.denied += 1
        return bits
