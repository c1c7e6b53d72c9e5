"""The registration of a broker in simulated time: each request that it sends, and when, in each of its states."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from odradek.metadata.image import MetadataImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from odradek.protocol.schema import Request, ResponseCallback
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller import broker_lifecycle
from odradek.server.controller.broker_lifecycle import (
    HEARTBEAT_VERSION,
    LEAVING_INTERVAL_MS,
    LEAVING_TIMEOUT_MS,
    PROBE_CONTROLLERS_MS,
    REGISTRATION_VERSION,
    RETRY_BACKOFF_MS,
    BrokerLifecycle,
    LifecycleState,
    RegistrationFailed,
)
from odradek.server.partitions.cordoning import CORDONED_KEY
from odradek.server.runtime.clock import Clock
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.replication.controller_transcript import Transcript
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_forwarding import NotedForwarding
from tests.server.harness.own_endpoints import registration_of
from tests.server.harness.unlocked_directory import unlocked_directory
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns, with_broker

OWN, OTHER = 1, 2
HEARTBEAT_MS, SESSION_MS = 2000, 9000
#: Two milliseconds: an event may come so much late.
SLACK_MS = 2


class Sent(NamedTuple):
    at_ms: int
    request: Any
    reply: Callable[[Any], None]
    timeout_ms: int
    version: int | None
    purpose: str


def three_brokers() -> MetadataImage:
    transcript = Transcript()
    transcript.run("> broker 1\n> broker 2\n> broker 3\n")
    return transcript.controller.image


class Quorum:
    """The driver of the quorum, as the lifecycle uses it."""

    is_active = False
    broker_epoch = -1

    def __init__(self) -> None:
        self.on_leader_changed: list[Callable[[], None]] = []

    def voter_endpoints(self) -> dict[int, Endpoint]:
        return {}


class Clients:
    """The listeners of a broker with so many clients."""

    def __init__(self) -> None:
        self.clients = 0
        self.on_connection_lost: list[Callable[[object], None]] = []

    def has_clients(self) -> bool:
        return self.clients > 0


class ToTheTest(NotedForwarding):
    """Adds the requests to the controller, with their times, to `requests`."""

    def __init__(self, clock: Clock, requests: list[Sent]) -> None:
        super().__init__()
        self._now_ms = clock.now_ms
        self._requests = requests

    def send_to_controller(
        self,
        request: Request,
        reply: ResponseCallback,
        *,
        timeout_ms: int,
        version: int | None = None,
        purpose: str = "",
    ) -> None:
        self._requests.append(Sent(self._now_ms(), request, reply, timeout_ms, version, purpose))


class NotedSessions:
    """The sessions of brokers, which note the requests of this process."""

    def __init__(self) -> None:
        self.asked: list[tuple[Request, int]] = []

    def ask(self, request: Request, version: int, reply: ResponseCallback, connection: object = None) -> None:
        self.asked.append((request, version))


class Harness:
    """A broker of which only the lifecycle exists. The test is the controller: it has the requests and replies to them."""

    def __init__(self, **properties: str) -> None:
        self.config = BrokerConfig(
            {"node.id": str(OWN)} | {key.replace("_", "."): value for key, value in properties.items()}
        )
        self.clock = loop_clock()
        self.metadata = MetadataCache()
        self.metadata.image = three_brokers()
        self.sent: list[Sent] = []
        self.controller: Any = Quorum()
        self.directories = [
            unlocked_directory(Path(f"/d{number}"), bytes([number]) * 16, previous_broker_epoch=5, is_online=number < 2)
            for number in range(3)
        ]
        self.leads = False
        self.listeners = Clients()
        self.lifecycle = BrokerLifecycle(
            node_of(self.config, clock=self.clock, metadata=self.metadata),
            self.controller,
            registration_of(
                self.config, advertised=[Endpoint("PLAINTEXT", "here", 9092)], directories=self.directories
            ),
            Lazy(lambda: ToTheTest(self.clock, self.sent)),
            None,
            lambda: self.leads,
            self.listeners,  # type: ignore[arg-type]
        )

    def publish(self, image: MetadataImage) -> None:
        self.metadata.image = image
        for function in list(self.metadata.on_published):
            function(image)

    def publish_own(self, **changes: Any) -> None:
        self.publish(with_broker(self.metadata.image, OWN, **changes))

    @property
    def epoch(self) -> int:
        broker = self.metadata.image.broker(OWN)
        assert broker is not None
        return broker.epoch

    async def respond(self, *, error: ErrorCode = ErrorCode.NONE, **fields: Any) -> None:
        """Replies to the last request, and waits for what follows at once."""
        last = self.sent[-1]
        made: Any = (
            BrokerRegistrationResponse(error_code=error, broker_epoch=self.epoch if not error else -1)
            if isinstance(last.request, BrokerRegistrationRequest)
            else BrokerHeartbeatResponse(error_code=error, **fields)
        )
        last.reply(made)
        await turns()

    async def registered(self) -> None:
        """Goes on until the broker has its epoch, and its image has that."""
        registering = asyncio.create_task(self.lifecycle.register())
        await turns()
        await self.respond()
        await registering

    async def runs(self) -> None:
        await self.registered()
        running = asyncio.create_task(self.lifecycle.run())
        await running
        assert self.lifecycle.state is LifecycleState.RUNNING

    async def leaving(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self.lifecycle.leave())
        await turns()
        return task

    def heartbeats(self) -> list[BrokerHeartbeatRequest]:
        return [one.request for one in self.sent if isinstance(one.request, BrokerHeartbeatRequest)]


def is_near(milliseconds: float, expected: float) -> bool:
    return expected <= milliseconds <= expected + SLACK_MS


# ---- registration


def test_broker_registers_at_once_and_then_sends_heartbeats_of_its_epoch() -> None:
    async def story() -> None:
        harness = Harness(broker_rack="a")
        registering = asyncio.create_task(harness.lifecycle.register())
        await turns()
        (first,) = harness.sent
        assert (first.version, first.timeout_ms, first.purpose) == (REGISTRATION_VERSION, SESSION_MS // 2, "lifecycle")
        assert isinstance(first.request, BrokerRegistrationRequest)
        assert (first.request.broker_id, first.request.cluster_id, first.request.rack) == (OWN, "cluster", "a")
        assert first.request.previous_broker_epoch == 5
        assert harness.lifecycle.state is LifecycleState.REGISTERING
        await harness.respond()
        assert harness.lifecycle.state is LifecycleState.STARTING
        assert harness.lifecycle.broker_epoch == harness.controller.broker_epoch == harness.epoch
        assert registering.done()
        second = harness.sent[1]
        assert (second.version, second.timeout_ms, second.purpose) == (HEARTBEAT_VERSION, SESSION_MS // 2, "lifecycle")
        assert second.request.broker_epoch == harness.epoch
        assert second.request.current_metadata_offset == harness.metadata.image.offset
        assert second.request.offline_log_dirs == [bytes([2]) * 16]
        assert len(harness.sent) == 2

    simulated(story)


@pytest.mark.parametrize("former", [[], [-1, 5], [5, 6]])
def test_clean_stop_is_reported_only_if_all_directories_agree(former: list[int]) -> None:
    async def story() -> None:
        harness = Harness()
        for directory, epoch in zip(harness.directories, former):
            directory.previous_broker_epoch = epoch
        asyncio.create_task(harness.lifecycle.register())  # noqa: RUF006
        await turns()
        assert harness.sent[0].request.previous_broker_epoch == (-1 if former else 5)
        assert harness.sent[0].request.log_dirs == [bytes([number]) * 16 for number in range(3)]

    simulated(story)


@pytest.mark.parametrize("epoch", [0, 7])
def test_registration_returns_when_the_image_has_it(epoch: int) -> None:
    async def story() -> None:
        harness = Harness()
        old, harness.metadata.image = harness.metadata.image, with_broker(harness.metadata.image, OWN, epoch=99)
        registering = asyncio.create_task(harness.lifecycle.register())
        await turns()
        harness.sent[0].reply(BrokerRegistrationResponse(broker_epoch=epoch))
        await turns()
        assert harness.lifecycle.broker_epoch == epoch and not registering.done()
        harness.publish(old)
        await turns()
        assert not registering.done(), "it has another incarnation of the broker"
        harness.publish_own(epoch=epoch, fenced=True)
        await turns()
        assert registering.done() and harness.lifecycle.is_starting

    simulated(story)


@pytest.mark.parametrize(
    "error", [None, ErrorCode.NOT_CONTROLLER, ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.INVALID_REGISTRATION]
)
def test_failed_registration_is_sent_again_after_a_while(error: ErrorCode | None) -> None:
    async def story() -> None:
        harness = Harness()
        registering = asyncio.create_task(harness.lifecycle.register())
        await turns()
        for count in range(1, 5):
            assert len(harness.sent) == count
            if error is None:
                harness.sent[-1].reply(None)
            else:
                await harness.respond(error=error)
            await after_ms(RETRY_BACKOFF_MS - 5)
            assert len(harness.sent) == count
            await after_ms(5 + SLACK_MS)
        assert not registering.done() and harness.lifecycle.broker_epoch == -1
        assert len({one.request.incarnation_id for one in harness.sent}) == 1, "it is the same process"
        await harness.respond()
        assert registering.done()

    simulated(story)


def test_session_of_the_previous_process_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        harness = Harness()
        asyncio.create_task(harness.lifecycle.register())  # noqa: RUF006
        await turns()
        for _ in range(3):
            await harness.respond(error=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
            await after_ms(RETRY_BACKOFF_MS + SLACK_MS)
        await harness.respond(error=ErrorCode.NOT_CONTROLLER)
        await after_ms(RETRY_BACKOFF_MS + SLACK_MS)
        await harness.respond(error=ErrorCode.INVALID_REGISTRATION)

    simulated(story)
    said = [record.message for record in caplog.records if record.name == "odradek.lifecycle"]
    assert len(said) == 2, said
    assert "previous process" in said[0] and "INVALID_REGISTRATION" in said[1]


def test_broker_that_no_controller_registers_gives_up() -> None:
    async def story() -> None:
        harness = Harness(initial_broker_registration_timeout_ms="7000")
        began = harness.clock.now_ms()
        with pytest.raises(RegistrationFailed, match="within 7 s"):
            await harness.lifecycle.register()
        assert is_near(harness.clock.now_ms() - began, 7000)

    simulated(story)


# ---- heartbeats


def test_heartbeats_come_at_their_interval() -> None:
    async def story() -> None:
        harness = Harness()
        await harness.runs()
        for _ in range(4):
            await harness.respond()
            await after_ms(HEARTBEAT_MS + SLACK_MS)
        times = [one.at_ms for one in harness.sent[3:]]
        assert [is_near(later - earlier, HEARTBEAT_MS) for earlier, later in pairwise(times)] == [True] * 3

    simulated(story)


def test_heartbeat_wants_what_the_state_needs() -> None:
    async def story() -> None:
        harness = Harness()
        await harness.registered()
        harness.publish_own(fenced=True)
        wanted = [(one.want_fence, one.want_shut_down) for one in harness.heartbeats()]
        assert wanted == [(True, False)], "its listeners do not accept yet"
        running = asyncio.create_task(harness.lifecycle.run())
        await turns()
        assert (harness.sent[-1].request.want_fence, harness.sent[-1].request.want_shut_down) == (False, False)
        assert not running.done()
        harness.publish_own(fenced=False)
        await turns()
        assert running.done() and not harness.lifecycle.is_starting
        await harness.leaving()
        assert (harness.sent[-1].request.want_fence, harness.sent[-1].request.want_shut_down) == (False, True)

    simulated(story)


def test_broker_that_leaves_before_it_is_ready_wants_no_fence() -> None:
    async def story() -> None:
        harness = Harness()
        await harness.registered()
        leaving = await harness.leaving()
        assert (harness.sent[-1].request.want_fence, harness.sent[-1].request.want_shut_down) == (False, True)
        await harness.respond(should_shut_down=True)
        assert leaving.done()

    simulated(story)


def test_response_to_an_earlier_request_is_ignored() -> None:
    async def story() -> None:
        harness = Harness()
        await harness.runs()
        earlier = harness.sent[-1]
        (leader_changed,) = harness.controller.on_leader_changed
        leader_changed()
        await turns()
        count = len(harness.sent)
        earlier.reply(None)
        await after_ms(3 * HEARTBEAT_MS)
        assert len(harness.sent) == count, "the last request has no response"

    simulated(story)


def test_new_controller_gets_a_heartbeat_at_once_in_the_place_of_the_next_one() -> None:
    async def story() -> None:
        harness = Harness()
        await harness.runs()
        await harness.respond()
        count = len(harness.sent)
        await after_ms(HEARTBEAT_MS // 2)
        (leader_changed,) = harness.controller.on_leader_changed
        leader_changed()
        assert len(harness.sent) == count + 1
        await after_ms(HEARTBEAT_MS // 2 + 100)
        assert len(harness.sent) == count + 1, "the timer of the earlier one is cancelled"

    simulated(story)


def test_active_controller_of_this_process_decides_without_the_network() -> None:
    async def story() -> None:
        harness = Harness()
        sessions = NotedSessions()
        asked = sessions.asked
        harness.lifecycle._broker_sessions = sessions  # type: ignore[assignment]
        harness.lifecycle.send_next()
        assert (len(harness.sent), asked) == (1, [])
        harness.controller.is_active = True
        harness.lifecycle.send_next()
        assert len(harness.sent) == 1
        assert [(type(request), version) for request, version in asked] == [
            (BrokerRegistrationRequest, REGISTRATION_VERSION)
        ]

    simulated(story)


# ---- published images


@pytest.mark.parametrize(
    ("broker_id", "changes", "is_sent"),
    [
        (OTHER, {"in_controlled_shutdown": True}, True),
        (OTHER, {"in_controlled_shutdown": True, "fenced": True}, False),
        (OTHER, {"rack": "b"}, False),
        (OWN, {"in_controlled_shutdown": True}, False),
    ],
)
def test_controller_that_waits_for_this_broker_gets_a_heartbeat_at_once(
    broker_id: int, changes: dict[str, Any], is_sent: bool
) -> None:
    async def story() -> None:
        harness = Harness()
        await harness.runs()
        await harness.respond()
        count = len(harness.sent)
        harness.publish(with_broker(harness.metadata.image, broker_id, **changes))
        assert len(harness.sent) - count == int(is_sent)
        if is_sent:
            assert harness.sent[-1].request.current_metadata_offset == harness.metadata.image.offset
        harness.publish(harness.metadata.image._replace(offset=harness.metadata.image.offset + 1))
        assert len(harness.sent) - count == int(is_sent), "the brokers have not changed"

    simulated(story)


def test_broker_without_an_epoch_has_nothing_to_report_to_a_controller_that_waits() -> None:
    async def story() -> None:
        harness = Harness()
        asyncio.create_task(harness.lifecycle.register())  # noqa: RUF006
        await turns()
        harness.publish(with_broker(harness.metadata.image, OTHER, in_controlled_shutdown=True))
        assert len(harness.sent) == 1

    simulated(story)


@pytest.mark.parametrize(("fenced", "same_epoch"), [(True, True), (True, False), (False, True), (False, False)])
def test_ready_broker_runs_when_its_own_incarnation_is_unfenced(fenced: bool, same_epoch: bool) -> None:
    async def story() -> None:
        harness = Harness()
        harness.metadata.image = with_broker(harness.metadata.image, OWN, fenced=True)
        await harness.registered()
        epoch = harness.epoch
        running = asyncio.create_task(harness.lifecycle.run())
        await turns()
        count = len(harness.sent)
        harness.publish_own(fenced=fenced, epoch=epoch if same_epoch else epoch + 1)
        await turns()
        assert running.done() == (same_epoch and not fenced)
        assert (harness.lifecycle.state is LifecycleState.RUNNING) == running.done()
        assert len(harness.sent) - count == int(fenced and same_epoch), "a fenced one asks again at once"
        running.cancel()

    simulated(story)


def test_unfenced_broker_runs_only_when_it_is_ready() -> None:
    async def story() -> None:
        harness = Harness()
        await harness.registered()
        harness.publish_own(fenced=False)
        assert harness.lifecycle.is_starting
        await harness.lifecycle.run()
        assert not harness.lifecycle.is_starting

    simulated(story)


@pytest.mark.parametrize(("names", "is_sent"), [({CORDONED_KEY, "a"}, True), ({"a"}, False)])
def test_change_of_cordoned_directories_is_reported_at_once(names: set[str], is_sent: bool) -> None:
    async def story() -> None:
        harness = Harness()
        await harness.runs()
        await harness.respond()
        count = len(harness.sent)
        harness.lifecycle._config_changed(frozenset(names))
        assert len(harness.sent) == count, "not while the change is being published"
        await turns()
        assert len(harness.sent) - count == int(is_sent)

    simulated(story)


# ---- controlled shutdown


def test_broker_that_is_not_registered_stops_without_a_request() -> None:
    async def story() -> None:
        harness = Harness()
        registering = asyncio.create_task(harness.lifecycle.register())
        await turns()
        leaving = await harness.leaving()
        assert leaving.done() and harness.lifecycle.state is LifecycleState.SHUTTING_DOWN
        harness.sent[0].reply(None)
        await after_ms(1000)
        await (await harness.leaving())
        assert len(harness.sent) == 1
        registering.cancel()

    simulated(story)


def test_heartbeats_of_a_controlled_shutdown_follow_one_another_until_it_may_stop() -> None:
    async def story() -> None:
        harness = Harness()
        await harness.runs()
        leaving = await harness.leaving()
        count = len(harness.sent)
        for _ in range(3):
            await harness.respond(should_shut_down=False)
            await after_ms(LEAVING_INTERVAL_MS - 5)
            assert len(harness.sent) == count
            await after_ms(5 + SLACK_MS)
            count += 1
            assert len(harness.sent) == count and not leaving.done()
        await harness.respond(should_shut_down=True)
        assert leaving.done() and harness.lifecycle.state is LifecycleState.SHUTTING_DOWN
        await after_ms(10 * HEARTBEAT_MS)
        harness.publish_own(fenced=True)
        harness.lifecycle.send_next()
        assert len(harness.sent) == count, "a broker that has stopped sends nothing"

    simulated(story)


@pytest.mark.parametrize("leads", [True, False])
def test_controlled_shutdown_that_the_controller_never_grants_has_an_end(leads: bool) -> None:
    async def story() -> None:
        harness = Harness()
        await harness.runs()
        harness.leads = leads
        began = harness.clock.now_ms()
        leaving = await harness.leaving()
        while not leaving.done():
            await harness.respond(should_shut_down=False)
            await after_ms(LEAVING_INTERVAL_MS + SLACK_MS)
        assert LEAVING_TIMEOUT_MS <= harness.clock.now_ms() - began < LEAVING_TIMEOUT_MS + 2 * LEAVING_INTERVAL_MS
        assert harness.lifecycle.state is LifecycleState.SHUTTING_DOWN

    simulated(story)


def hands_over(harness: Harness) -> None:
    """Publishes an image in which other brokers lead what this broker led."""
    harness.leads = False
    harness.publish_own(in_controlled_shutdown=True)


@pytest.mark.parametrize(
    ("interval_ms", "session_ms", "held_ms"), [("2000", "9000", 2000), ("500", "9000", 500), ("5000", "6000", 3000)]
)
def test_broker_answers_its_clients_for_one_interval_after_its_leaders_moved(
    interval_ms: str, session_ms: str, held_ms: int
) -> None:
    async def story() -> None:
        harness = Harness(broker_heartbeat_interval_ms=interval_ms, broker_session_timeout_ms=session_ms)
        await harness.runs()
        harness.leads, harness.listeners.clients = True, 1
        leaving = await harness.leaving()
        await harness.respond(should_shut_down=False)
        await after_ms(10)
        hands_over(harness)
        await turns()
        began, count = harness.clock.now_ms(), len(harness.sent)
        harness.sent[-1].reply(BrokerHeartbeatResponse())
        harness.lifecycle.send_next()
        await after_ms(held_ms - 20)
        assert len(harness.sent) == count, "it stays unfenced"
        while len(harness.sent) == count:
            await after_ms(1)
        assert held_ms - SLACK_MS <= harness.sent[-1].at_ms - began <= held_ms + SLACK_MS
        assert harness.sent[-1].request.want_shut_down and not leaving.done()
        assert harness.listeners.on_connection_lost == []
        await harness.respond(should_shut_down=True)
        assert leaving.done()

    simulated(story)


@pytest.mark.parametrize("event", ["the last client leaves", "the other brokers are fenced"])
def test_broker_without_company_stops_to_wait_for_its_clients(event: str) -> None:
    async def story() -> None:
        harness = Harness()
        await harness.runs()
        harness.leads, harness.listeners.clients = True, 2
        await harness.leaving()
        await harness.respond(should_shut_down=False)
        hands_over(harness)
        await turns()
        count, watchers = len(harness.sent), len(harness.metadata.on_published)
        (lost,) = harness.listeners.on_connection_lost
        for number in (1, 2):
            await after_ms(100)
            assert len(harness.sent) == count
            if event == "the last client leaves":
                lost(object())
                harness.listeners.clients -= 1
            else:
                harness.publish(with_broker(harness.metadata.image, number + 1, fenced=True))
            await turns()
        assert len(harness.sent) == count + 1
        assert harness.listeners.on_connection_lost == []
        assert len(harness.metadata.on_published) == watchers - 1
        await harness.respond(should_shut_down=True)

    simulated(story)


@pytest.mark.parametrize(("clients", "others", "waits"), [(1, True, True), (0, True, False), (1, False, False)])
def test_broker_waits_only_for_clients_that_other_brokers_serve(clients: int, others: bool, waits: bool) -> None:
    async def story() -> None:
        harness = Harness()
        await harness.runs()
        harness.leads, harness.listeners.clients = True, clients
        for broker_id in () if others else (2, 3):
            harness.publish(with_broker(harness.metadata.image, broker_id, fenced=True))
        leaving = await harness.leaving()
        hands_over(harness)
        await turns()
        assert bool(harness.listeners.on_connection_lost) == waits
        await harness.respond(should_shut_down=True)
        await after_ms(HEARTBEAT_MS // 2)
        assert leaving.done() == (not waits)
        await after_ms(HEARTBEAT_MS)
        assert leaving.done()

    simulated(story)


def test_broker_that_led_nothing_does_not_wait_for_its_clients() -> None:
    async def story() -> None:
        harness = Harness()
        await harness.runs()
        harness.listeners.clients = 1
        leaving = await harness.leaving()
        harness.publish_own(in_controlled_shutdown=True)
        await turns()
        assert harness.listeners.on_connection_lost == []
        await harness.respond(should_shut_down=True)
        assert leaving.done()

    simulated(story)


# ---- controlled shutdown without controllers


def failing(harness: Harness, gone: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets the hosts for which `gone` is true refuse connections. Returns the hosts that are probed, as they are."""
    probed: list[str] = []

    async def is_gone(addresses: list[tuple[str, int]]) -> bool:
        probed.extend(host for host, _ in addresses)
        return gone(addresses[0][0])

    monkeypatch.setattr(broker_lifecycle, "is_gone", is_gone)
    return probed


async def until_done(harness: Harness, leaving: asyncio.Task[None], limit_ms: int) -> int:
    """Fails each request. Returns after how many milliseconds the broker stops."""
    began = harness.clock.now_ms()
    while not leaving.done() and harness.clock.now_ms() - began < limit_ms:
        harness.sent[-1].reply(None)
        await after_ms(RETRY_BACKOFF_MS + SLACK_MS)
    return harness.clock.now_ms() - began


@pytest.mark.parametrize(
    ("voters", "gone", "ends"),
    [
        ((1, 2, 3), (), False),
        ((1, 2, 3), (2,), False),
        ((1, 2, 3), (2, 3), True),
        ((2, 3, 4), (2,), False),
        ((2, 3, 4), (3, 4), True),
        ((2, 3, 4, 5), (2,), False),
        ((2, 3, 4, 5), (2, 3), True),
        ((0, 1), (0,), True),
        ((2,), (2,), True),
        ((2,), (), False),
    ],
)
def test_controlled_shutdown_ends_when_too_few_controllers_run_for_a_quorum(
    voters: tuple[int, ...], gone: tuple[int, ...], ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        harness = Harness(controlled_shutdown_max_retries="100", controlled_shutdown_retry_backoff_ms="100")
        harness.controller.voter_endpoints = lambda: {one: Endpoint("C", f"h{one}", 9093) for one in voters}
        probed = failing(harness, lambda host: int(host[1:]) in gone, monkeypatch)
        await harness.runs()
        leaving = await harness.leaving()
        taken_ms = await until_done(harness, leaving, 8000)
        assert leaving.done() == ends
        assert set(probed) == {f"h{one}" for one in voters if one != OWN}
        if ends:
            assert PROBE_CONTROLLERS_MS < taken_ms < PROBE_CONTROLLERS_MS + 4 * RETRY_BACKOFF_MS
        else:
            assert len(probed) > len(set(probed)), "they are probed again"
            leaving.cancel()

    simulated(story)


def test_controlled_shutdown_ends_after_its_retries(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        harness = Harness(controlled_shutdown_max_retries="3", controlled_shutdown_retry_backoff_ms="500")
        failing(harness, lambda host: False, monkeypatch)
        await harness.runs()
        leaving = await harness.leaving()
        await after_ms(300)
        await harness.respond(should_shut_down=False)
        await after_ms(LEAVING_INTERVAL_MS + SLACK_MS)
        taken_ms = await until_done(harness, leaving, 10_000)
        assert leaving.done()
        assert 1500 - LEAVING_INTERVAL_MS - SLACK_MS < taken_ms < 1500 + 3 * RETRY_BACKOFF_MS

    simulated(story)
    said = [record.message for record in caplog.records if "controlled shutdown for" in record.message]
    assert ["retry 1 of 3" in said[0], "retry 2 of 3" in said[1]] == [True, True]
    assert len(said) == 2


def test_controller_that_responds_in_time_restarts_the_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness(controlled_shutdown_max_retries="2", controlled_shutdown_retry_backoff_ms="1000")
        failing(harness, lambda host: False, monkeypatch)
        await harness.runs()
        leaving = await harness.leaving()
        for _ in range(3):
            await until_done(harness, leaving, 1500)
            assert not leaving.done()
            await harness.respond(should_shut_down=False)
            await after_ms(LEAVING_INTERVAL_MS + SLACK_MS)
        assert 1800 < await until_done(harness, leaving, 5000) < 2500
        assert leaving.done()

    simulated(story)


def test_failures_before_the_controlled_shutdown_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness(controlled_shutdown_max_retries="3", controlled_shutdown_retry_backoff_ms="1000")
        probed = failing(harness, lambda host: True, monkeypatch)
        harness.controller.voter_endpoints = lambda: {one: Endpoint("C", f"h{one}", 9093) for one in (2, 3)}
        await harness.runs()
        for _ in range(60):
            harness.sent[-1].reply(None)
            await after_ms(RETRY_BACKOFF_MS + SLACK_MS)
        assert probed == []
        leaving = await harness.leaving()
        harness.sent[-1].reply(None)
        await turns()
        assert not leaving.done()
        assert 2800 < await until_done(harness, leaving, 9000) < 3500

    simulated(story)
