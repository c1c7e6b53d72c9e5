"""A consumer without group membership that commits the offsets 1, 2, 3... Acknowledged commits must exist at the end."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from ....protocol.messages.find_coordinator import FindCoordinatorRequest
from ....protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ....protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from .client import BACKOFF_S, Unreachable
from .invariants import ACKNOWLEDGED, Broken
from .workload import TOPIC, reject_fatal

if TYPE_CHECKING:
    from ....protocol.schema import Request, ResponseT
    from ..transport import Address
    from .client import Client


GROUP = "readers"
_FIND_VERSION, _COMMIT_VERSION, _OFFSET_FETCH_VERSION = 3, 8, 7


class Committer:
    """Commits offsets. `acknowledged`: the last offset whose commit was acknowledged."""

    def __init__(self, client: Client, rng: Random) -> None:
        self.acknowledged = -1
        self._sent = -1
        self._client = client
        self._rng = rng
        self._coordinator: Address | None = None

    async def run(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0, 2 * interval_s))
            self._sent += 1
            place = OffsetCommitRequestPartition(0, self._sent, committed_metadata="")
            topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[place])]
            response = await self._ask(OffsetCommitRequest(GROUP, topics=topics), _COMMIT_VERSION)
            if response is not None and self._is_good(response.topics[0].partitions[0].error_code):
                self.acknowledged = self._sent

    async def check(self) -> None:
        """Checks the committed offset, retrying until there is a response. A node that was cut off may return a stale
        offset, so this runs after all faults have ended.
        """
        request = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(TOPIC, [0])])
        while True:
            response = await self._ask(request, _OFFSET_FETCH_VERSION)
            if response is not None and self._is_good(
                response.error_code or response.topics[0].partitions[0].error_code
            ):
                break
            await asyncio.sleep(BACKOFF_S)
        found = response.topics[0].partitions[0].committed_offset
        if not self.acknowledged <= found <= self._sent:
            reported = f"{self.acknowledged} was acknowledged and {self._sent} sent"
            raise Broken(ACKNOWLEDGED, f"group {GROUP} has committed {found}, where {reported}")

    def _is_good(self, error: int) -> bool:
        reject_fatal(error, f"group {GROUP}")
        if error:
            self._coordinator = None
        return not error

    async def _ask(self, request: Request[ResponseT], version: int) -> ResponseT | None:
        """Returns the coordinator's response; None when there is none."""
        try:
            if self._coordinator is None:
                asked = FindCoordinatorRequest(key=GROUP)
                found = await self._client.ask(self._client.any_address(), asked, _FIND_VERSION, "group")
                if not self._is_good(found.error_code):
                    return None
                self._coordinator = (found.host, found.port)
            return await self._client.ask(self._coordinator, request, version, "group")
        except Unreachable:
            self._coordinator = None
            return None
