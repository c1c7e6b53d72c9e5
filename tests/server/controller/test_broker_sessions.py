"""Sessions of brokers at the active controller in simulated time: which brokers it probes and fences, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from odradek.metadata.image import BrokerImage, MetadataImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from odradek.protocol.schema import Message
from odradek.replication.controller.maintenance import FenceBrokerRequest, MoveLeadersRequest
from odradek.server.controller import broker_sessions
from odradek.server.controller.broker_sessions import HELD_MS, LATE_MS, SECOND_LOOK_MS, BrokerSessionWatch

from tests.replication.controller_transcript import Transcript
from tests.server.harness.images import cache_of
from tests.server.harness.log_end import LogEnd
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns, with_broker

SESSION_MS = 9000
#: The broker in the controller's own process.
OWN, SECOND, THIRD = 0, 2, 3


class Tasks:
    """Periodic tasks that count their starts and stops."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


class Harness:
    """A controller whose decisions are committed at once, with the sessions of brokers 0, 2 and 3. Broker 0 is its own."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch | None = None, gone: Callable[[str], bool] | None = None
    ) -> None:
        self.transcript = Transcript()
        self.transcript.run("> broker 0\n> broker 2\n> broker 3\n")
        self.clock = loop_clock()
        self.is_active = True
        self.on_leader_changed: list[Callable[[], None]] = []
        self.broker_epoch = self.broker(OWN).epoch
        self.decided: list[Message] = []
        self.suspected: list[int] = []
        self.probed: list[tuple[str, int]] = []
        self.tasks = Tasks()
        self.metadata = cache_of(self.image)
        parts: Any = (OWN, self.clock, self.metadata, self, self.tasks, lambda broker: self.suspected.append(broker.id))
        self.watch = BrokerSessionWatch(*parts)
        self.answered: asyncio.Event = asyncio.Event()
        self.answered.set()

        async def is_gone(addresses: list[tuple[str, int]]) -> bool:
            self.probed.extend(addresses)
            await self.answered.wait()
            return gone is not None and gone(addresses[0][0])

        if monkeypatch is not None:
            monkeypatch.setattr(broker_sessions, "is_gone", is_gone)

    @property
    def controller(self) -> Any:
        return self.transcript.controller

    @property
    def image(self) -> MetadataImage:
        return self.transcript.controller.image

    @property
    def quorum_log(self) -> LogEnd:
        return LogEnd(self.controller.next_offset)

    def decide(self, request: Message, version: int, reply: Callable[[Any], None]) -> None:
        self.decided.append(request)
        result = self.controller.handle(request, version)
        if result.records:
            self.controller.replay(result.records, 1, 0)
        reply(result.response)

    def broker(self, broker_id: int) -> BrokerImage:
        found = self.image.broker(broker_id)
        assert found is not None
        return found

    def publish(self) -> None:
        self.metadata.image = self.image

    def start(self) -> None:
        self.watch.start()
        self.probed.clear()
        self.suspected.clear()

    def beat(self, broker_id: int, connection: Any = None, *, want_shut_down: bool = False) -> Any:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.broker(broker_id).epoch,
            current_metadata_offset=self.image.offset,
            want_shut_down=want_shut_down,
        )
        found: list[Any] = []
        self.watch.ask(request, 2, found.append, connection)
        return found[0] if found else None

    def fenced(self) -> set[int]:
        return {broker.id for broker in self.image.cluster.brokers.values() if broker.fenced}

    def lead(self, count: int, first: int) -> None:
        """Creates a topic whose partitions the broker leads."""
        others = [one for one in (SECOND, THIRD) if one != first]
        assigned = [{"partition_index": index, "broker_ids": [first, *others]} for index in range(count)]
        topic = [{"name": "a", "num_partitions": -1, "replication_factor": -1, "assignments": assigned}]
        self.transcript.run(f'> CreateTopics topics="{topic}"\n')


async def keep(harness: Harness, *brokers: int, for_ms: int) -> None:
    """Sends the brokers' heartbeats each second."""
    for _ in range(for_ms // 1000):
        for broker_id in brokers:
            harness.beat(broker_id)
        await after_ms(1000)


# ---- expiry


def test_silent_broker_is_fenced_when_its_session_is_over(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        harness = Harness()
        harness.start()
        harness.beat(THIRD)
        await keep(harness, SECOND, for_ms=8000)
        assert harness.fenced() == set()
        await keep(harness, SECOND, for_ms=2000)
        assert harness.fenced() == {THIRD}
        assert (harness.watch.expired_sessions, harness.watch.rejected_brokers) == (1, 0)
        await keep(harness, SECOND, for_ms=20_000)
        assert harness.watch.expired_sessions == 1
        harness.beat(THIRD)
        assert harness.fenced() == set(), "its next heartbeat ends that"
        await after_ms(SESSION_MS + 10)
        assert harness.fenced() == {SECOND, THIRD} and harness.watch.expired_sessions == 3

    simulated(story)
    assert f"broker {THIRD} has sent no heartbeat for {SESSION_MS} ms" in caplog.text


def test_session_of_the_own_broker_never_expires_while_it_is_this_process() -> None:
    async def story() -> None:
        harness = Harness()
        harness.start()
        await keep(harness, SECOND, THIRD, for_ms=40_000)
        assert harness.fenced() == set() and harness.watch.expired_sessions == 0
        await after_ms(3 * SESSION_MS)
        assert harness.fenced() == {SECOND, THIRD}, "nor without any heartbeat"

    simulated(story)


def test_session_of_the_own_brokers_previous_process_expires() -> None:
    async def story() -> None:
        harness = Harness()
        harness.broker_epoch += 1
        harness.start()
        await keep(harness, SECOND, THIRD, for_ms=10_000)
        assert harness.fenced() == {OWN} and harness.watch.expired_sessions == 1

    simulated(story)


async def held(harness: Harness, late_ms: int) -> None:
    """Holds the loop until so long after the end of the sessions."""
    began = harness.clock.now_ms()
    loop: Any = asyncio.get_running_loop()
    loop.advance((SESSION_MS + late_ms) / 1000)
    await turns()
    assert harness.clock.now_ms() - began >= SESSION_MS + late_ms


@pytest.mark.parametrize("late_ms", [HELD_MS + 10, LATE_MS - 100])
def test_heartbeats_that_wait_while_the_loop_is_held_keep_their_sessions(late_ms: int) -> None:
    async def story() -> None:
        harness = Harness()
        harness.start()
        await held(harness, late_ms)
        assert harness.fenced() == set()
        harness.beat(SECOND)
        await after_ms(SECOND_LOOK_MS - 10)
        assert harness.fenced() == set()
        harness.beat(SECOND)
        await after_ms(20)
        assert harness.fenced() == {THIRD} and harness.watch.expired_sessions == 1
        await after_ms(SESSION_MS)
        assert harness.fenced() == {SECOND, THIRD}

    simulated(story)


@pytest.mark.parametrize(("late_ms", "is_fenced"), [(LATE_MS - 100, True), (LATE_MS + 100, False)])
def test_sessions_start_again_after_this_process_did_not_run(late_ms: int, is_fenced: bool) -> None:
    async def story() -> None:
        harness = Harness()
        harness.start()
        await held(harness, late_ms)
        await after_ms(SECOND_LOOK_MS + 10)
        assert harness.fenced() == ({SECOND, THIRD} if is_fenced else set())
        await after_ms(SESSION_MS - SECOND_LOOK_MS - 100)
        assert harness.fenced() == ({SECOND, THIRD} if is_fenced else set())
        await after_ms(200)
        assert harness.fenced() == {SECOND, THIRD}

    simulated(story)


@pytest.mark.parametrize("set_by_ms", [-3_600_000, 3_600_000])
def test_clock_that_was_set_starts_the_sessions_again(set_by_ms: int) -> None:
    async def story() -> None:
        harness = Harness()
        loop, offset_ms = asyncio.get_running_loop(), [0]
        harness.clock._seconds = lambda: loop.time() + offset_ms[0] / 1000
        harness.start()
        await after_ms(SESSION_MS - 1000)
        offset_ms[0] = set_by_ms
        harness.watch.clock_moved()
        await after_ms(SESSION_MS - 100)
        assert harness.fenced() == set()
        await after_ms(200)
        assert harness.fenced() == {SECOND, THIRD}
        harness.is_active = False
        harness.watch.clock_moved()

    simulated(story)


# ---- leadership


def test_sessions_and_tasks_last_as_long_as_this_controller_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness(monkeypatch)
        harness.is_active = False
        harness.watch.start()
        (leader_changed,) = harness.on_leader_changed
        assert harness.tasks.calls == []
        assert harness.beat(SECOND).error_code == ErrorCode.NOT_CONTROLLER
        harness.is_active = True
        leader_changed()
        leader_changed()
        assert harness.tasks.calls == ["start"]
        await turns()
        assert harness.suspected == [SECOND, THIRD], "a new controller tries each other broker once"
        harness.is_active = False
        leader_changed()
        assert harness.tasks.calls == ["start", "stop"]
        await after_ms(2 * SESSION_MS)
        assert harness.fenced() == set()
        harness.is_active = True
        leader_changed()
        await after_ms(SESSION_MS - 100)
        assert harness.fenced() == set()
        await after_ms(200)
        assert harness.fenced() == {SECOND, THIRD}
        harness.watch.stop()
        assert harness.tasks.calls == ["start", "stop", "start", "stop"]

    simulated(story)


def test_new_controller_does_not_try_fenced_brokers_and_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness(monkeypatch)
        harness.transcript.run("> fence 3\n")
        harness.watch.start()
        await turns()
        assert harness.suspected == [SECOND] and harness.probed == [("b2", 9092)]

    simulated(story)


def test_new_controller_tries_the_previous_process_of_its_own_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness(monkeypatch)
        harness.broker_epoch += 1
        harness.watch.start()
        await turns()
        assert harness.suspected == [OWN, SECOND, THIRD]

    simulated(story)


# ---- probes


@pytest.mark.parametrize("is_refused", [True, False])
def test_broker_whose_connection_ends_is_fenced_if_its_listeners_refuse(
    is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        refusing = set[str]()
        harness = Harness(monkeypatch, lambda host: host in refusing)
        harness.start()
        await turns()
        harness.probed.clear()
        refusing |= {"b3"} if is_refused else set()
        connection: Any = object()
        harness.beat(THIRD, connection)
        harness.beat(SECOND, object())
        harness.watch.connection_lost(connection)
        await turns()
        assert harness.suspected == [THIRD] and harness.probed == [("b3", 9092)]
        assert harness.fenced() == ({THIRD} if is_refused else set())
        assert harness.watch.rejected_brokers == int(is_refused)
        harness.watch.connection_lost(connection)
        harness.watch.connection_lost(object())  # type: ignore[arg-type]
        await turns()
        assert harness.suspected == [THIRD], "one end is one reason"
        if is_refused:
            await after_ms(SESSION_MS)
            assert harness.watch.expired_sessions == 1, "only that of the other broker"

    simulated(story)


@pytest.mark.parametrize("meanwhile", ["registered again", "fenced", "not active", "unregistered"])
def test_probe_that_ends_late_fences_no_broker(meanwhile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness(monkeypatch, lambda host: True)
        harness.answered.clear()
        harness.transcript.run("> fence 2\n")
        harness.watch.start()
        await turns()
        assert harness.probed == [("b3", 9092)]
        epoch = harness.broker(THIRD).epoch
        if meanwhile == "registered again":
            harness.controller.sessions.forget(THIRD)
            harness.transcript.run("> restart 3\n")
            assert harness.broker(THIRD).epoch != epoch
        elif meanwhile == "fenced":
            harness.transcript.run("> fence 3\n")
        elif meanwhile == "unregistered":
            harness.transcript.run("> fence 3\n> UnregisterBroker broker_id=3\n")
        else:
            harness.is_active = False
        harness.answered.set()
        await turns()
        assert harness.watch.rejected_brokers == 0
        assert not any(isinstance(one, FenceBrokerRequest) for one in harness.decided)

    simulated(story)


def test_broker_is_probed_by_one_task_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness(monkeypatch)
        harness.start()
        await turns()
        harness.probed.clear()
        harness.answered.clear()
        for _ in range(2):
            connection: Any = object()
            harness.beat(THIRD, connection)
            harness.watch.connection_lost(connection)
            await turns()
        assert harness.probed == [("b3", 9092)]
        harness.answered.set()
        await turns()
        connection = object()
        harness.beat(THIRD, connection)
        harness.watch.connection_lost(connection)
        await turns()
        assert len(harness.probed) == 2

    simulated(story)


def test_stopped_watch_ends_its_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness(monkeypatch, lambda host: True)
        harness.answered.clear()
        harness.watch.start()
        await turns()
        harness.watch.stop()
        harness.answered.set()
        await after_ms(3 * SESSION_MS)
        assert harness.fenced() == set() and harness.decided == []

    simulated(story)


# ---- registrations


@pytest.mark.parametrize(
    ("error", "is_probed"),
    [
        (ErrorCode.DUPLICATE_BROKER_REGISTRATION, True),
        (ErrorCode.NONE, False),
        (ErrorCode.INVALID_REGISTRATION, False),
    ],
)
def test_previous_process_of_a_broker_that_registers_too_early_is_probed(
    error: ErrorCode, is_probed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        harness = Harness(monkeypatch)
        harness.start()
        await turns()
        harness.suspected.clear()
        responses: list[Any] = []

        def decide(request: Message, version: int, reply: Callable[[Any], None]) -> None:
            reply(BrokerRegistrationResponse(error_code=error))

        monkeypatch.setattr(harness, "decide", decide)
        harness.watch.ask(BrokerRegistrationRequest(broker_id=THIRD), 4, responses.append)
        assert [one.error_code for one in responses] == [error]
        assert harness.suspected == ([THIRD] if is_probed else [])

    simulated(story)


# ---- leaders that move in parts


def test_all_leaders_of_a_broker_that_is_fenced_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.replication.controller.maintenance.MAX_MOVES", 2)

    async def story() -> None:
        harness = Harness()
        harness.lead(7, THIRD)
        harness.start()
        await keep(harness, SECOND, for_ms=10_000)
        await turns()
        topic = harness.image.topic("a")
        assert topic is not None
        assert {partition.leader for partition in topic.partitions.values()} == {SECOND}
        assert harness.fenced() == {THIRD}

    simulated(story)


def test_heartbeat_of_a_controlled_shutdown_moves_leaders_until_none_is_left() -> None:
    async def story() -> None:
        harness = Harness()
        harness.lead(3, THIRD)
        harness.start()
        for broker_id in (SECOND, THIRD):
            harness.beat(broker_id)
        assert not any(isinstance(one, MoveLeadersRequest) for one in harness.decided)
        assert not harness.beat(THIRD, want_shut_down=True).should_shut_down
        await turns()
        moves = [one for one in harness.decided if isinstance(one, MoveLeadersRequest)]
        assert {(one.broker_id, one.broker_epoch) for one in moves} == {(THIRD, harness.broker(THIRD).epoch)}
        topic = harness.image.topic("a")
        assert topic is not None
        assert {partition.leader for partition in topic.partitions.values()} == {SECOND}
        assert not harness.beat(THIRD, want_shut_down=True).should_shut_down, "broker 2 has not read that"
        harness.publish()
        harness.beat(SECOND)
        assert harness.beat(THIRD, want_shut_down=True).should_shut_down
        await after_ms(2 * SESSION_MS)
        assert harness.watch.expired_sessions == 1, "the session of a broker that has stopped is forgotten"

    simulated(story)


def test_own_broker_has_what_is_published_here() -> None:
    """A broker in controlled shutdown waits for it as for any other broker."""

    async def story() -> None:
        harness = Harness()
        harness.lead(1, THIRD)
        harness.start()
        for broker_id in (SECOND, THIRD):
            harness.beat(broker_id)
        harness.beat(THIRD, want_shut_down=True)
        await turns()
        harness.beat(SECOND)
        assert not harness.beat(THIRD, want_shut_down=True).should_shut_down, "this node has not published it"
        harness.metadata.image = with_broker(harness.image, OWN, epoch=harness.broker_epoch)._replace(
            offset=harness.image.offset
        )
        assert harness.beat(THIRD, want_shut_down=True).should_shut_down

    simulated(story)
