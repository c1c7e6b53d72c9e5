"""Sessions of brokers at the active controller in simulated time: which brokers it probes and fences, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
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


class Stand:
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
        self.metadata = SimpleNamespace(image=self.image)
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
    def quorum_log(self) -> Any:
        return SimpleNamespace(end_offset=self.controller.next_offset)

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


async def keep(stand: Stand, *brokers: int, for_ms: int) -> None:
    """Sends the brokers' heartbeats each second."""
    for _ in range(for_ms // 1000):
        for broker_id in brokers:
            stand.beat(broker_id)
        await after_ms(1000)


# ---- expiry


def test_silent_broker_is_fenced_when_its_session_is_over(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        stand = Stand()
        stand.start()
        stand.beat(THIRD)
        await keep(stand, SECOND, for_ms=8000)
        assert stand.fenced() == set()
        await keep(stand, SECOND, for_ms=2000)
        assert stand.fenced() == {THIRD}
        assert (stand.watch.expired_sessions, stand.watch.rejected_brokers) == (1, 0)
        await keep(stand, SECOND, for_ms=20_000)
        assert stand.watch.expired_sessions == 1
        stand.beat(THIRD)
        assert stand.fenced() == set(), "its next heartbeat ends that"
        await after_ms(SESSION_MS + 10)
        assert stand.fenced() == {SECOND, THIRD} and stand.watch.expired_sessions == 3

    simulated(story)
    assert f"broker {THIRD} has sent no heartbeat for {SESSION_MS} ms" in caplog.text


def test_session_of_the_own_broker_never_expires_while_it_is_this_process() -> None:
    async def story() -> None:
        stand = Stand()
        stand.start()
        await keep(stand, SECOND, THIRD, for_ms=40_000)
        assert stand.fenced() == set() and stand.watch.expired_sessions == 0
        await after_ms(3 * SESSION_MS)
        assert stand.fenced() == {SECOND, THIRD}, "nor without any heartbeat"

    simulated(story)


def test_session_of_the_own_brokers_previous_process_expires() -> None:
    async def story() -> None:
        stand = Stand()
        stand.broker_epoch += 1
        stand.start()
        await keep(stand, SECOND, THIRD, for_ms=10_000)
        assert stand.fenced() == {OWN} and stand.watch.expired_sessions == 1

    simulated(story)


async def held(stand: Stand, late_ms: int) -> None:
    """Holds the loop until so long after the end of the sessions."""
    began = stand.clock.now_ms()
    loop: Any = asyncio.get_running_loop()
    loop.advance((SESSION_MS + late_ms) / 1000)
    await turns()
    assert stand.clock.now_ms() - began >= SESSION_MS + late_ms


@pytest.mark.parametrize("late_ms", [HELD_MS + 10, LATE_MS - 100])
def test_heartbeats_that_wait_while_the_loop_is_held_keep_their_sessions(late_ms: int) -> None:
    async def story() -> None:
        stand = Stand()
        stand.start()
        await held(stand, late_ms)
        assert stand.fenced() == set()
        stand.beat(SECOND)
        await after_ms(SECOND_LOOK_MS - 10)
        assert stand.fenced() == set()
        stand.beat(SECOND)
        await after_ms(20)
        assert stand.fenced() == {THIRD} and stand.watch.expired_sessions == 1
        await after_ms(SESSION_MS)
        assert stand.fenced() == {SECOND, THIRD}

    simulated(story)


@pytest.mark.parametrize(("late_ms", "is_fenced"), [(LATE_MS - 100, True), (LATE_MS + 100, False)])
def test_sessions_start_again_after_this_process_did_not_run(late_ms: int, is_fenced: bool) -> None:
    async def story() -> None:
        stand = Stand()
        stand.start()
        await held(stand, late_ms)
        await after_ms(SECOND_LOOK_MS + 10)
        assert stand.fenced() == ({SECOND, THIRD} if is_fenced else set())
        await after_ms(SESSION_MS - SECOND_LOOK_MS - 100)
        assert stand.fenced() == ({SECOND, THIRD} if is_fenced else set())
        await after_ms(200)
        assert stand.fenced() == {SECOND, THIRD}

    simulated(story)


@pytest.mark.parametrize("set_by_ms", [-3_600_000, 3_600_000])
def test_clock_that_was_set_starts_the_sessions_again(set_by_ms: int) -> None:
    async def story() -> None:
        stand = Stand()
        loop, offset_ms = asyncio.get_running_loop(), [0]
        stand.clock._seconds = lambda: loop.time() + offset_ms[0] / 1000
        stand.start()
        await after_ms(SESSION_MS - 1000)
        offset_ms[0] = set_by_ms
        stand.watch.clock_moved()
        await after_ms(SESSION_MS - 100)
        assert stand.fenced() == set()
        await after_ms(200)
        assert stand.fenced() == {SECOND, THIRD}
        stand.is_active = False
        stand.watch.clock_moved()

    simulated(story)


# ---- leadership


def test_sessions_and_tasks_last_as_long_as_this_controller_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        stand = Stand(monkeypatch)
        stand.is_active = False
        stand.watch.start()
        (leader_changed,) = stand.on_leader_changed
        assert stand.tasks.calls == []
        assert stand.beat(SECOND).error_code == ErrorCode.NOT_CONTROLLER
        stand.is_active = True
        leader_changed()
        leader_changed()
        assert stand.tasks.calls == ["start"]
        await turns()
        assert stand.suspected == [SECOND, THIRD], "a new controller tries each other broker once"
        stand.is_active = False
        leader_changed()
        assert stand.tasks.calls == ["start", "stop"]
        await after_ms(2 * SESSION_MS)
        assert stand.fenced() == set()
        stand.is_active = True
        leader_changed()
        await after_ms(SESSION_MS - 100)
        assert stand.fenced() == set()
        await after_ms(200)
        assert stand.fenced() == {SECOND, THIRD}
        stand.watch.stop()
        assert stand.tasks.calls == ["start", "stop", "start", "stop"]

    simulated(story)


def test_new_controller_does_not_try_fenced_brokers_and_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        stand = Stand(monkeypatch)
        stand.transcript.run("> fence 3\n")
        stand.watch.start()
        await turns()
        assert stand.suspected == [SECOND] and stand.probed == [("b2", 9092)]

    simulated(story)


def test_new_controller_tries_the_previous_process_of_its_own_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        stand = Stand(monkeypatch)
        stand.broker_epoch += 1
        stand.watch.start()
        await turns()
        assert stand.suspected == [OWN, SECOND, THIRD]

    simulated(story)


# ---- probes


@pytest.mark.parametrize("is_refused", [True, False])
def test_broker_whose_connection_ends_is_fenced_if_its_listeners_refuse(
    is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        refusing = set[str]()
        stand = Stand(monkeypatch, lambda host: host in refusing)
        stand.start()
        await turns()
        stand.probed.clear()
        refusing |= {"b3"} if is_refused else set()
        connection: Any = object()
        stand.beat(THIRD, connection)
        stand.beat(SECOND, object())
        stand.watch.connection_lost(connection)
        await turns()
        assert stand.suspected == [THIRD] and stand.probed == [("b3", 9092)]
        assert stand.fenced() == ({THIRD} if is_refused else set())
        assert stand.watch.rejected_brokers == int(is_refused)
        stand.watch.connection_lost(connection)
        stand.watch.connection_lost(object())  # type: ignore[arg-type]
        await turns()
        assert stand.suspected == [THIRD], "one end is one reason"
        if is_refused:
            await after_ms(SESSION_MS)
            assert stand.watch.expired_sessions == 1, "only that of the other broker"

    simulated(story)


@pytest.mark.parametrize("meanwhile", ["registered again", "fenced", "not active", "unregistered"])
def test_probe_that_ends_late_fences_no_broker(meanwhile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        stand = Stand(monkeypatch, lambda host: True)
        stand.answered.clear()
        stand.transcript.run("> fence 2\n")
        stand.watch.start()
        await turns()
        assert stand.probed == [("b3", 9092)]
        epoch = stand.broker(THIRD).epoch
        if meanwhile == "registered again":
            stand.controller.sessions.forget(THIRD)
            stand.transcript.run("> restart 3\n")
            assert stand.broker(THIRD).epoch != epoch
        elif meanwhile == "fenced":
            stand.transcript.run("> fence 3\n")
        elif meanwhile == "unregistered":
            stand.transcript.run("> fence 3\n> UnregisterBroker broker_id=3\n")
        else:
            stand.is_active = False
        stand.answered.set()
        await turns()
        assert stand.watch.rejected_brokers == 0
        assert not any(isinstance(one, FenceBrokerRequest) for one in stand.decided)

    simulated(story)


def test_broker_is_probed_by_one_task_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        stand = Stand(monkeypatch)
        stand.start()
        await turns()
        stand.probed.clear()
        stand.answered.clear()
        for _ in range(2):
            connection: Any = object()
            stand.beat(THIRD, connection)
            stand.watch.connection_lost(connection)
            await turns()
        assert stand.probed == [("b3", 9092)]
        stand.answered.set()
        await turns()
        connection = object()
        stand.beat(THIRD, connection)
        stand.watch.connection_lost(connection)
        await turns()
        assert len(stand.probed) == 2

    simulated(story)


def test_stopped_watch_ends_its_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        stand = Stand(monkeypatch, lambda host: True)
        stand.answered.clear()
        stand.watch.start()
        await turns()
        stand.watch.stop()
        stand.answered.set()
        await after_ms(3 * SESSION_MS)
        assert stand.fenced() == set() and stand.decided == []

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
        stand = Stand(monkeypatch)
        stand.start()
        await turns()
        stand.suspected.clear()
        answers: list[Any] = []

        def decide(request: Message, version: int, reply: Callable[[Any], None]) -> None:
            reply(BrokerRegistrationResponse(error_code=error))

        monkeypatch.setattr(stand, "decide", decide)
        stand.watch.ask(BrokerRegistrationRequest(broker_id=THIRD), 4, answers.append)
        assert [one.error_code for one in answers] == [error]
        assert stand.suspected == ([THIRD] if is_probed else [])

    simulated(story)


# ---- leaders that move in parts


def test_all_leaders_of_a_broker_that_is_fenced_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.replication.controller.maintenance.MAX_MOVES", 2)

    async def story() -> None:
        stand = Stand()
        stand.lead(7, THIRD)
        stand.start()
        await keep(stand, SECOND, for_ms=10_000)
        await turns()
        topic = stand.image.topic("a")
        assert topic is not None
        assert {partition.leader for partition in topic.partitions.values()} == {SECOND}
        assert stand.fenced() == {THIRD}

    simulated(story)


def test_heartbeat_of_a_controlled_shutdown_moves_leaders_until_none_is_left() -> None:
    async def story() -> None:
        stand = Stand()
        stand.lead(3, THIRD)
        stand.start()
        for broker_id in (SECOND, THIRD):
            stand.beat(broker_id)
        assert not any(isinstance(one, MoveLeadersRequest) for one in stand.decided)
        assert not stand.beat(THIRD, want_shut_down=True).should_shut_down
        await turns()
        moves = [one for one in stand.decided if isinstance(one, MoveLeadersRequest)]
        assert {(one.broker_id, one.broker_epoch) for one in moves} == {(THIRD, stand.broker(THIRD).epoch)}
        topic = stand.image.topic("a")
        assert topic is not None
        assert {partition.leader for partition in topic.partitions.values()} == {SECOND}
        assert not stand.beat(THIRD, want_shut_down=True).should_shut_down, "broker 2 has not read that"
        stand.publish()
        stand.beat(SECOND)
        assert stand.beat(THIRD, want_shut_down=True).should_shut_down
        await after_ms(2 * SESSION_MS)
        assert stand.watch.expired_sessions == 1, "the session of a broker that has stopped is forgotten"

    simulated(story)


def test_own_broker_has_what_is_published_here() -> None:
    """A broker in controlled shutdown waits for it as for any other broker."""

    async def story() -> None:
        stand = Stand()
        stand.lead(1, THIRD)
        stand.start()
        for broker_id in (SECOND, THIRD):
            stand.beat(broker_id)
        stand.beat(THIRD, want_shut_down=True)
        await turns()
        stand.beat(SECOND)
        assert not stand.beat(THIRD, want_shut_down=True).should_shut_down, "this node has not published it"
        stand.metadata.image = with_broker(stand.image, OWN, epoch=stand.broker_epoch)._replace(
            offset=stand.image.offset
        )
        assert stand.beat(THIRD, want_shut_down=True).should_shut_down

    simulated(story)
