"""Batches sent to the leaders of their partitions: one at a time for each, again after errors that pass.

A batch that is sent twice is written once: brokers know the sequences of a producer (KIP-98).
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from ..admin.errors import RequestFailed, ResponseError
from ..admin.places import Place
from ..admin.session import Admin
from ..admin.topics import described_topics
from ..client.versions import Bounds
from ..protocol.acks import ALL_IN_SYNC
from ..protocol.errors import ErrorCode
from ..protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ..protocol.uuids import ZERO_UUID
from .batches import Batch
from .requests import add_partitions, may_pass

#: Versions of a producer before KIP-890, part 2.
_PRODUCE = Bounds(3, 11)
#: Bytes of a request, and of all batches that wait for their responses.
MOST_REQUEST_BYTES, MOST_WAITING_BYTES = 8 << 20, 32 << 20
_PAUSE_S, _MOST_NODES = 0.1, 64
_WRITTEN = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class Sender:
    """Sends the batches of one transaction. `deadline_s`: of a batch, with all its repetitions."""

    def __init__(
        self, admin: Admin, transactional_id: str, producer: tuple[int, int], deadline_s: float, timeout_ms: int
    ) -> None:
        self._admin = admin
        self._id = transactional_id
        self._producer = producer
        self._deadline_s = deadline_s
        self._timeout_ms = timeout_ms
        self._leaders: dict[Place, int] = {}
        self._added: set[Place] = set()
        #: Batches that wait, in their order; the first one of a partition in `sent` is on its way.
        self._waiting: dict[Place, deque[Batch]] = defaultdict(deque)
        self._waiting_bytes = 0
        self._sent: set[Place] = set()
        #: When a partition's first batch has to be written, and when it may be sent again.
        self._until: dict[Place, float] = {}
        self._not_before: dict[Place, float] = {}
        self._requests: dict[Future[ProduceResponse], tuple[int, list[Place]]] = {}
        self._threads = ThreadPoolExecutor(_MOST_NODES)

    def close(self) -> None:
        """Returns when no request is on its way."""
        self._threads.shutdown(cancel_futures=True)

    def send(self, batches: Iterable[Batch]) -> None:
        """Takes batches, and blocks while too much is waiting. Raises RequestFailed."""
        for batch in batches:
            self._waiting[batch.topic, batch.partition].append(batch)
            self._waiting_bytes += len(batch.content)
            while self._waiting_bytes > MOST_WAITING_BYTES:
                self._step()
        # Batches that leave as soon as their leader is free are still in the processor's caches, and need less memory.
        self._take_responses(0)
        self._begin_requests()

    def flush(self) -> None:
        """Returns when all batches are written. Raises RequestFailed."""
        while self._waiting:
            self._step()

    def _step(self) -> None:
        self._begin_requests()
        if not self._requests:
            time.sleep(_PAUSE_S / 2)
            return
        self._take_responses(_PAUSE_S)

    def _take_responses(self, timeout_s: float) -> None:
        """Takes the responses that are there, or that come within the time. Raises RequestFailed."""
        done, _ = wait(self._requests, timeout=timeout_s, return_when=FIRST_COMPLETED)
        for future in done:
            node, places = self._requests.pop(future)
            self._sent.difference_update(places)
            self._take(node, places, future)

    def _begin_requests(self) -> None:
        """Sends the first batches of partitions to leaders that have no request of this sender."""
        now = time.monotonic()
        ready = [
            place for place in self._waiting if place not in self._sent and self._not_before.get(place, 0.0) <= now
        ]
        self._look_up([place for place in ready if place not in self._leaders])
        busy = {node for node, _ in self._requests.values()}
        by_node: dict[int, list[Place]] = defaultdict(list)
        sizes: dict[int, int] = defaultdict(int)
        for place in ready:
            node = self._leaders.get(place, -1)
            size = len(self._waiting[place][0].content)
            if node < 0 or node in busy or (by_node[node] and sizes[node] + size > MOST_REQUEST_BYTES):
                continue
            by_node[node].append(place)
            sizes[node] += size
        for node, places in by_node.items():
            if not places:
                continue
            if new := [place for place in places if place not in self._added]:
                add_partitions(self._admin, self._id, self._producer, new)
                self._added.update(new)
            for place in places:
                self._until.setdefault(place, now + self._deadline_s)
            future = self._threads.submit(self._admin.ask, self._request(places), node, _PRODUCE)
            self._requests[future] = (node, places)
            self._sent.update(places)

    def _request(self, places: list[Place]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for topic, partition in places:
            topics[topic].append(PartitionProduceData(partition, self._waiting[topic, partition][0].content))
        data = [TopicProduceData(name=name, topic_id=ZERO_UUID, partition_data=each) for name, each in topics.items()]
        return ProduceRequest(self._id, ALL_IN_SYNC, self._timeout_ms, data)

    def _take(self, node: int, places: list[Place], future: Future[ProduceResponse]) -> None:
        """Takes what became of a request."""
        try:
            response = future.result()
        except RequestFailed as error:
            if not may_pass(error):
                raise
            for place in places:
                self._again(place, error)
            return
        results = {
            (topic.name, one.index): (one.error_code, one.error_message)
            for topic in response.responses
            for one in topic.partition_responses
        }
        for place in places:
            code, message = results.get(place, (ErrorCode.UNKNOWN_SERVER_ERROR, "the response lacks the partition"))
            if code in _WRITTEN:
                self._until.pop(place, None)
                batches = self._waiting[place]
                self._waiting_bytes -= len(batches.popleft().content)
                if not batches:
                    del self._waiting[place]
                continue
            if code == ErrorCode.MESSAGE_TOO_LARGE and self._split(place):
                continue
            rejection = ResponseError(f"{place[0]}-{place[1]} on broker {node}", code, message)
            if not may_pass(rejection):
                raise rejection
            self._again(place, rejection)

    def _split(self, place: Place) -> bool:
        """Puts two smaller batches in the place of one that a topic does not take (KIP-126): False for a single record."""
        batches = self._waiting[place]
        whole = batches[0]
        if whole.records < 2:
            return False
        batches.popleft()
        halves = whole.halves()
        batches.extendleft(reversed(halves))
        self._waiting_bytes += sum(len(half.content) for half in halves) - len(whole.content)
        self._until.pop(place, None)
        return True

    def _again(self, place: Place, error: RequestFailed) -> None:
        now = time.monotonic()
        if now > self._until[place]:
            raise error
        self._leaders.pop(place, None)
        self._not_before[place] = now + _PAUSE_S

    def _look_up(self, places: list[Place]) -> None:
        """Asks for leaders; a partition without one is tried later."""
        if not places:
            return
        now = time.monotonic()
        try:
            topics = described_topics(self._admin, sorted({topic for topic, _ in places}))
        except RequestFailed as error:
            if not may_pass(error) or any(
                now > self._until.setdefault(place, now + self._deadline_s) for place in places
            ):
                raise
            topics = []
        for topic in topics:
            for one in topic.partitions:
                if one.leader_id >= 0:
                    self._leaders[topic.name, one.partition_index] = one.leader_id
        for place in places:
            if place not in self._leaders:
                if now > self._until.setdefault(place, now + self._deadline_s):
                    raise ResponseError(f"{place[0]}-{place[1]}", ErrorCode.LEADER_NOT_AVAILABLE)
                self._not_before[place] = now + _PAUSE_S
