"""Recently stopped brokers: keeps stale leaders out of Metadata responses.

A client whose leader dies sends Metadata to another broker within a millisecond, before the controller's decision arrives.
If the response names the old leader, librdkafka accepts it and asks again a second later. If one response names the new
leader and no longer lists the old broker, librdkafka loses the partition, again for a second. So:

- Metadata that would name a leader whose connection to this node has ended, and whose listeners refuse, waits until it is
  fenced; HELD_MS at most.
- A broker that stopped without a controlled shutdown stays among the brokers of Metadata for LISTED_MS after
  it is fenced. (Kafka lists it for the rest of its session, nine seconds.) It leads nothing
  meanwhile, and its replicas are offline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ...client.probes import AGAIN_S, is_gone
from ...metadata.image import BrokerImage, ClusterImage, MetadataImage

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..runtime.lazy import Lazy
    from ..runtime.metadata_cache import MetadataCache

#: Most leaders move in much less; a client without a response for longer might take this broker for dead too.
HELD_MS = 500
#: Turns of the loop from a connection's end until it is handled: the next one reads it, the one after that reports it.
HEARD_TURNS = 3
#: Each client refreshes its metadata within this time: first the leaders, then the brokers.
LISTED_MS = 2000


class StoppedBrokers:
    """Brokers whose process has ended, or may have ended, and that clients would take for alive or for lost."""

    def __init__(self, metadata: MetadataCache, peers: Lazy[Peers]) -> None:
        self._metadata = metadata
        self._peers = peers
        self._cluster: ClusterImage = metadata.image.cluster
        #: Brokers that are not fenced yet, and whose process is gone or is being probed.
        self._leaving: dict[int, asyncio.Task[None]] = {}
        self._waiting: list[Callable[[], None]] = []
        #: Fenced brokers, and when they were fenced, in the loop's time.
        self._fenced_at: dict[int, float] = {}

    def start(self) -> None:
        self._peers().on_any_lost = self._connection_lost
        self._metadata.on_published.append(self._published)

    def stop(self) -> None:
        for task in list(self._leaving.values()):
            task.cancel()

    # For the handler of Metadata.

    @property
    def leaving(self) -> Collection[int]:
        """Brokers whose partitions the controller is about to give other leaders."""
        return self._leaving.keys()

    def when_heard(self, response: Callable[[], None]) -> None:
        """Calls `answer` when the ends of connections have been handled that a peer has made already: at once, unless
        there are such.
        """
        self._hear(HEARD_TURNS, response)

    def _hear(self, turns: int, response: Callable[[], None]) -> None:
        if turns and self._peers().have_some_ended():
            asyncio.get_running_loop().call_soon(self._hear, turns - 1, response)
        else:
            response()

    def when_known(self, response: Callable[[], None]) -> None:
        """Calls `answer` when no broker is leaving: after the controller's decision, or after HELD_MS."""
        self._waiting.append(response)

    def still_listed(self) -> Collection[int]:
        """Fenced brokers that Metadata lists nevertheless."""
        if not self._fenced_at:
            return ()
        since = asyncio.get_running_loop().time() - LISTED_MS / 1000
        self._fenced_at = {node: at for node, at in self._fenced_at.items() if at > since}
        return self._fenced_at.keys()

    # Events.

    def _connection_lost(self, host: str, port: int) -> None:
        """Handles the end of a connection that this node had opened to a listener of a broker, or of a controller that
        is also a broker.
        """
        image = self._metadata.image.cluster
        for broker in image.brokers.values():
            controller = image.controllers.get(broker.id)
            listeners = [*broker.listeners.values(), *(controller.listeners.values() if controller is not None else ())]
            if any((one.host, one.port) == (host, port) for one in listeners):
                self.look_for(broker)

    def look_for(self, broker: BrokerImage) -> None:
        """Handles the end of a connection to or from a broker: the broker may be gone."""
        if not broker.fenced and broker.id not in self._leaving:
            self._leaving[broker.id] = task = asyncio.get_running_loop().create_task(self._await_fenced(broker))
            task.add_done_callback(lambda _: self._known(broker.id))

    async def _await_fenced(self, broker: BrokerImage) -> None:
        """Ended by `_published`."""
        listeners = [(one.host, one.port) for one in broker.listeners.values()]
        if await is_gone(listeners, AGAIN_S[:2]):
            await asyncio.sleep(HELD_MS / 1000)

    def _known(self, broker_id: int) -> None:
        self._leaving.pop(broker_id, None)
        if not self._leaving:
            waiting, self._waiting = self._waiting, []
            for response in waiting:
                response()

    def _published(self, image: MetadataImage) -> None:
        before, self._cluster = self._cluster, image.cluster
        if image.cluster is before:
            return
        for broker in image.cluster.brokers.values():
            was = before.brokers.get(broker.id)
            if not broker.fenced or was is None:
                self._fenced_at.pop(broker.id, None)
            elif not was.fenced and not was.in_controlled_shutdown:
                self._fenced_at[broker.id] = asyncio.get_running_loop().time()
            if broker.fenced and broker.id in self._leaving:
                self._leaving[broker.id].cancel()
