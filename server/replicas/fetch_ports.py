"""Ports of a fetcher: requests to the nodes that it fetches from, and partitions that are followed there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...client.peers import Endpoint
    from ...protocol.messages.fetch import FetchableTopicResponse, FetchPartition, PartitionData, ReplicaState
    from ...protocol.records.errors import BatchError
    from ...protocol.schema import Request, ResponseCallback
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.clock import Clock


class FetchRequests(Protocol):
    """Requests to the leaders of followed partitions: brokers of this cluster, or of another one."""

    @property
    def node_id(self) -> int:
        """This broker's id."""

    @property
    def isolation_level(self) -> int: ...

    def endpoint(self, broker_id: int) -> Endpoint | None:
        """Returns the endpoint of a leader; None when it is not known."""

    def replica_state(self) -> ReplicaState:
        """Returns this broker as the sender of a Fetch."""

    def topic_name(self, topic_id: bytes) -> str:
        """Returns the name by which a Fetch has to name a topic besides its id; "" for none."""

    def topic_id(self, topic: FetchableTopicResponse) -> bytes:
        """Returns the id of a topic of a response."""

    def send(self, endpoint: Endpoint, request: Request, reply: ResponseCallback, *, purpose: str) -> None:
        """Sends the request; `reply` gets the response, or None. Each `purpose` has a connection of its own."""


class FetchPauses(Protocol):
    """Pauses between fetches, in which records gather at the leader (`FetchLinger`). Times are those of the loop."""

    def sent(self, now_ms: float) -> None:
        """Notes a fetch."""

    def pause_ms(self, now_ms: float, *, is_urgent: bool, took_ms: float) -> float:
        """Returns the time until the next fetch, after a response. `is_urgent`: whether a partition must not wait for more
        records. `took_ms`: from the response's arrival until it was written.
        """


class Followed(Protocol):
    """A partition that is fetched from its leader."""

    hosted: HostedPartition
    #: By topic id and index.
    key: tuple[bytes, int]
    epoch: int
    failures: int
    not_before_ms: int
    #: The error in the last response's batches, if they could not be written.
    damage: BatchError | None
    #: Called when the next fetch may have changed in another way than by a response.
    changed: Callable[..., None]

    @property
    def is_current(self) -> bool: ...

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is fetched until `changed` is called."""

    @property
    def is_urgent(self) -> bool:
        """Whether the next fetch must not wait for more records at the leader."""

    def wanted(self, max_bytes: int) -> FetchPartition: ...

    def take(self, data: PartitionData, now_ms: int) -> int:
        """Applies the leader's response to `wanted`. Returns an error code, 0 for success."""

    def failed(self, now_ms: int, most_backoff_ms: int) -> None:
        """Notes an error: the next fetch waits."""

    def disconnected(self) -> None:
        """Notes that a request was not answered, or its session is lost."""

    def out_of_range(self, requests: FetchRequests, clock: Clock, endpoint: Endpoint) -> None:
        """Recovers from a fetch offset that is outside of the leader's log."""

    def leave(self) -> None:
        """Ends the following."""
