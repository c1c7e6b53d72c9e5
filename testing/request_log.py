"""`broker.requests`: what clients asked, one line each, the last thousand."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from .faults.matching import OWN_CLIENT_ID, PEER_CLIENT_ID
from .faults.named_items import TopicNames, groups_of, topics_of

if TYPE_CHECKING:
    from ..server.network.call import Call

#: Requests that are remembered, and topics and groups of one that are named.
MOST_REQUESTS = 1000
MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request of a client. `topics`: the partitions that it names, as "orders-0"."""

    time_ms: int
    node_id: int
    api: str
    version: int
    client_id: str | None
    client_host: str
    topics: tuple[str, ...]
    groups: tuple[str, ...]

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.time_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
        names = " ".join((*self.topics, *(f"group={group}" for group in self.groups)))
        return (
            f"{at} {self.client_id or '(no client id)'} > {self.node_id}: {self.api} v{self.version} {names}".rstrip()
        )


class RequestLog:
    """The requests of clients, the oldest first. Those of brokers to each other are left out."""

    def __init__(self) -> None:
        self.is_on = False
        self._requests: deque[SeenRequest] = deque(maxlen=MOST_REQUESTS)

    def add(self, call: Call, node_id: int, names: TopicNames) -> None:
        """Notes a request. Called on the loop's thread of a broker, before the request has any effect."""
        if call.client_id == OWN_CLIENT_ID or PEER_CLIENT_ID.fullmatch(call.client_id or ""):
            return
        named = topics_of(call.request, call.version, names)
        topics = tuple(f"{topic}-{index}" if index >= 0 else topic for topic, index in named[:MOST_NAMES])
        more = (f"and {len(named) - MOST_NAMES} more",) if len(named) > MOST_NAMES else ()
        groups = tuple(dict.fromkeys(group for group in groups_of(call.request) if group))[:MOST_NAMES]
        self._requests.append(
            SeenRequest(
                call.now_ms,
                node_id,
                call.api.name,
                call.version,
                call.client_id,
                call.client_host,
                topics + more,
                groups,
            )
        )

    def matching(
        self, api: str | None = None, *, client_id: str | None = None, topic: str | None = None
    ) -> list[SeenRequest]:
        """Returns the requests of an API, of a client, that name a topic. Text may have `*` and `?`."""
        return [
            one
            for one in self
            if (api is None or fnmatchcase(one.api, api))
            and (client_id is None or fnmatchcase(one.client_id or "", client_id))
            and (topic is None or any(fnmatchcase(name.rpartition("-")[0] or name, topic) for name in one.topics))
        ]

    def lines(self, last: int = 20) -> list[str]:
        """Returns the last requests as lines."""
        return [str(one) for one in self][-last:]

    def clear(self) -> None:
        self._requests.clear()

    def __iter__(self) -> Iterator[SeenRequest]:
        return iter(list(self._requests))

    def __len__(self) -> int:
        return len(self._requests)

    def __str__(self) -> str:
        return "\n".join(self.lines())
