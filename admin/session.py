"""The session of an administrator: its requests to a cluster, and their repetition while brokers do not agree yet.

Nouns have files of their own beside this one: functions take an `Admin` first, and return dataclasses. A function that only
reads repeats its requests (`Admin.repeated`), and one that changes something sends it once, unless the error means that the
request was not taken.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from ..client.transient_errors import COORDINATOR_MOVES, LEADER_MOVES
from ..protocol.coordinator_types import GROUP
from ..protocol.errors import ErrorCode
from .errors import CoordinatorError, LoginRejected, NoResponse, NotKafka, RequestFailed, ResponseError, UnknownNode

if TYPE_CHECKING:
    from ..client.cluster import Cluster
    from ..client.versions import Version
    from ..protocol.schema import Request, ResponseT


T = TypeVar("T")

_PAUSE_S = 0.2
#: Limit of the time in which a coordinator loads, or moves to another node.
_COORDINATOR_S = 30.0
#: Codes of queries for which a later request may have a response. Not of a topic that is unknown: its name may be wrong.
_TRANSIENT = LEADER_MOVES | COORDINATOR_MOVES


def _is_of_moving_coordinator(error: RequestFailed) -> bool:
    return isinstance(error, ResponseError) and error.is_of_moving_coordinator


class Admin:
    """`query_s` and `change_s`: limits of the time in which queries and changes are repeated."""

    def __init__(self, cluster: Cluster, query_s: float = 0.0, change_s: float = 0.0) -> None:
        self.cluster = cluster
        self._query_s = query_s
        self._change_s = change_s

    def close(self) -> None:
        self.cluster.close()

    @property
    def impatient(self) -> Admin:
        """The same session, whose queries end with the first error."""
        return Admin(self.cluster)

    # ---- requests

    def ask(self, request: Request[ResponseT], node_id: int | None = None, version: Version = None) -> ResponseT:
        """Sends a request, in the newest version that both sides have, to a node or to any. Returns the response.

        Raises RequestFailed.
        """
        return self.cluster.ask(request, node_id, version)

    def ask_controller(self, request: Request[ResponseT]) -> ResponseT:
        """Sends a request to the controller that a broker names: in a cluster of KRaft a broker, which forwards it."""
        return self.cluster.ask_controller(request)

    def coordinator_now(self, key: str, kind: int = GROUP) -> int:
        """The node that coordinates a group or a transactional id. Raises ResponseError where there is none now."""
        try:
            return self.cluster.coordinator(key, kind)
        except CoordinatorError as error:
            subject = f"group {key}" if kind == GROUP else f"transaction {key}"
            if error.code in _TRANSIENT:
                words = "it has no coordinator at the moment: try again later"
                raise ResponseError(subject, error.code, words) from None
            raise ResponseError(subject, error.code, error.message) from None

    def coordinator(self, key: str, kind: int = GROUP) -> int:
        """Works as `coordinator_now`, and waits while a new cluster has none."""
        return self.patiently(lambda: self.coordinator_now(key, kind))

    def by_coordinator(self, keys: Iterable[str], kind: int = GROUP) -> dict[int, list[str]]:
        """Groups or transactional ids by the node that coordinates them."""
        made: dict[int, list[str]] = defaultdict(list)
        for key in keys:
            made[self.coordinator(key, kind)].append(key)
        return made

    # ---- repetition

    def repeated(self, step: Callable[[], T], *, is_query: bool = True) -> T:
        """Runs a step again while brokers do not agree yet: a query, or a change that an error leaves unsent.

        A broker has just died or started, or leads since a moment. The controller is known from one broker, and its address
        from another, which may not know it.
        """
        deadline = time.monotonic() + (self._query_s if is_query else self._change_s)
        while True:
            try:
                return step()
            except RequestFailed as error:
                if not _may_pass(error, is_query=is_query) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_S)

    def patiently(
        self,
        step: Callable[[], T],
        may_pass: Callable[[RequestFailed], bool] = _is_of_moving_coordinator,
        *,
        patience_s: float = _COORDINATOR_S,
        pause_s: float = _PAUSE_S,
    ) -> T:
        """Runs a step that asks coordinators, again while they load or move to other nodes, or while its error may pass."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return step()
            except RequestFailed as error:
                if not may_pass(error) or time.monotonic() > deadline:
                    raise
            time.sleep(pause_s)


def _may_pass(error: RequestFailed, *, is_query: bool) -> bool:
    if isinstance(error, UnknownNode):
        return True
    if isinstance(error, ResponseError):
        return error.code == ErrorCode.NOT_CONTROLLER or (is_query and error.code in _TRANSIENT)
    return is_query and isinstance(error, NoResponse) and not isinstance(error, LoginRejected | NotKafka)
