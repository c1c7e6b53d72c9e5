"""A Fetch of a client that may have a quota: it is answered without records where they would exceed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchResponse
from .fetch import Fetch
from .fetch_response import NO_NODES

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchRequest
    from ..network.call import Call, CostMeter
    from .fetch_context import FetchContext
    from .fetch_path import FetchPath
    from .fetch_response import FetchResult

# A consumer's Fetch while clients have quotas: it finds no more than the quota allows, and waits with what exceeds it.
#
# A response that would exceed the quota is not sent. The client gets an empty one with the throttle time, and its session
# stays as it was, so that it asks for the same records again (KIP-219). Bytes are those of the records and 64 for each
# partition; Kafka counts the response with its names.
#: Size of a partition in a response, with its share of the topic.
_PARTITION_BYTES = 64


class ThrottledFetch(Fetch):
    __slots__ = ("_meter",)

    def __init__(self, path: FetchPath, call: Call[FetchRequest], meter: CostMeter, context: FetchContext) -> None:
        super().__init__(path, call, context)
        self._meter = meter
        most = meter.most_fetched_bytes()
        if most < self._max_bytes:
            self._max_bytes = int(most)
            self._min_bytes = min(self._min_bytes, self._max_bytes)

    def _respond(self, results: list[FetchResult]) -> FetchResponse:
        session = self._context.session
        size = sum(one.records.size + _PARTITION_BYTES for one in results if one.records is not None)
        if (
            size
            and (session is None or session.epoch == self._context.epoch)
            and self._meter.throttles_fetch(self._call, size)
        ):
            return FetchResponse(0, ErrorCode.NONE, 0 if session is None else session.id, [], NO_NODES)
        return super()._respond(results)
