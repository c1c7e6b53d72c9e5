"""Heartbeats at the active controller: when a broker in controlled shutdown may stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.schema import Message
from odradek.replication.controller.controller import Controller
from odradek.server.controller.broker_sessions import BrokerSessionWatch
from odradek.server.runtime.clock import Clock

from tests.replication.controller_transcript import Transcript
from tests.server.harness.images import cache_of
from tests.server.harness.log_end import LogEnd

THREE = (
    "> broker 1\n> broker 2\n> broker 3\n> CreateTopics topics=\"[{'name':'a','num_partitions':-1,"
    "'replication_factor':-1,'assignments':[{'partition_index':0,'broker_ids':[1,2,3]}]}]\"\n"
)


class Timeless(Clock):
    """A clock that stands at zero, and whose timers never expire."""

    def __init__(self) -> None:
        super().__init__(lambda: 0)

    def call_at(self, when: float, call: Callable[[], object]) -> Any:
        return None


class Active:
    """An active controller whose decisions are committed at once."""

    is_active = True
    #: No broker of the cluster is in this process.
    broker_epoch = -1

    def __init__(self, controller: Controller) -> None:
        self.controller = controller

    @property
    def quorum_log(self) -> LogEnd:
        return LogEnd(self.controller.next_offset)

    def decide(self, request: Message, version: int, reply: Callable[[Any], None]) -> None:
        result = self.controller.handle(request, version)
        if result.records:
            self.controller.replay(result.records, 1, 0)
        reply(result.response)


class Heartbeats:
    def __init__(self) -> None:
        transcript = Transcript()
        transcript.run(THREE)
        self.controller = transcript.controller
        metadata = cache_of(self.controller.image)
        parts: Any = (0, Timeless(), metadata, Active(self.controller), None, None)
        self.watch = BrokerSessionWatch(*parts)
        self.controller.sessions.begin(self.controller.image, 0)

    @property
    def end_offset(self) -> int:
        return self.controller.next_offset

    def beat(self, broker_id: int, metadata_offset: int, *, want_shut_down: bool = False) -> bool:
        """Returns whether the broker should shut down now."""
        broker = self.controller.image.broker(broker_id)
        assert broker is not None
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            current_metadata_offset=metadata_offset,
            want_shut_down=want_shut_down,
        )
        found: list[Any] = []
        self.watch.ask(request, 1, found.append)
        return bool(found[0].should_shut_down)


@pytest.mark.parametrize(("missing", "may_stop"), [(0, True), (1, False), (2, False)])
async def test_broker_stops_when_the_others_have_the_last_record_that_moved_its_leaders(
    missing: int, may_stop: bool
) -> None:
    """Before that, clients of a broker without the new leaders send their requests to the stopped one."""
    cluster = Heartbeats()
    for broker_id in (1, 2, 3):
        cluster.beat(broker_id, cluster.end_offset - 1)
    before = cluster.end_offset
    assert not cluster.beat(1, before - 1, want_shut_down=True)
    assert cluster.end_offset > before, "its leader has moved"
    cluster.beat(2, cluster.end_offset - 1)
    cluster.beat(3, cluster.end_offset - 1 - missing)
    assert cluster.beat(1, cluster.end_offset - 1, want_shut_down=True) == may_stop
