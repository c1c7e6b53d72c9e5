"""Broker sessions of the active controller, on a simulated clock."""

from __future__ import annotations

import random
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest
from odradek.replication.controller.controller import Controller
from odradek.replication.controller.maintenance import FenceBrokerRequest

from tests.replication.controller_transcript import Transcript

TIMEOUT_MS = 9000


@pytest.fixture
def three() -> Controller:
    """Returns three brokers; 1 leads, 2 and 3 follow."""
    transcript = Transcript()
    transcript.run(
        "> broker 1\n> broker 2\n> broker 3\n> CreateTopics topics=\"[{'name':'a','num_partitions':-1,"
        "'replication_factor':-1,'assignments':[{'partition_index':0,'broker_ids':[1,2,3]}]}]\"\n"
    )
    return transcript.controller


def decide(controller: Controller, request: Any, version: int = 2) -> Any:
    result = controller.handle(request, version)
    if result.records:
        controller.replay(result.records, 1, 0)
    return result.response


def heartbeat(controller: Controller, broker_id: int, **wants: Any) -> BrokerHeartbeatRequest:
    broker = controller.image.broker(broker_id)
    assert broker is not None
    wants.setdefault("current_metadata_offset", controller.next_offset - 1)
    return BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=broker.epoch, **wants)


def hear(controller: Controller, broker_id: int, now: int, metadata_offset: int = 100) -> None:
    broker = controller.image.broker(broker_id)
    assert broker is not None
    controller.sessions.heard(broker_id, broker.epoch, metadata_offset, now)


def test_new_active_controller_gives_unfenced_brokers_full_session(three: Controller) -> None:
    sessions = three.sessions
    assert sessions.deadline() is None
    sessions.begin(three.image, 500)
    assert sessions.deadline() == 500 + TIMEOUT_MS
    assert sessions.expire(500 + TIMEOUT_MS - 1, three.image) == []
    assert [broker.id for broker in sessions.expire(500 + TIMEOUT_MS, three.image)] == [1, 2, 3]
    assert sessions.deadline() is None


def test_broker_without_heartbeats_expires_once(three: Controller) -> None:
    sessions = three.sessions
    sessions.begin(three.image, 0)
    hear(three, 1, 2000)
    hear(three, 3, 2000)
    (gone,) = sessions.expire(TIMEOUT_MS, three.image)
    assert gone.id == 2
    assert sessions.expire(TIMEOUT_MS, three.image) == []
    assert sessions.deadline() == 2000 + TIMEOUT_MS


def test_session_of_former_incarnation_fences_no_broker(three: Controller) -> None:
    three.sessions.heard(2, 1, 100, 0)
    assert three.sessions.expire(TIMEOUT_MS, three.image) == []


def test_fenced_broker_is_not_fenced_again(three: Controller) -> None:
    hear(three, 2, 0)
    broker = three.image.broker(2)
    assert broker is not None
    decide(three, FenceBrokerRequest(broker_id=2, broker_epoch=broker.epoch), 0)
    assert three.sessions.expire(TIMEOUT_MS, three.image) == []


def test_broker_may_stop_once_all_others_have_its_new_leaders(three: Controller) -> None:
    three.sessions.begin(three.image, 0)
    for broker_id in (1, 2, 3):
        hear(three, broker_id, 0, three.next_offset - 1)
    first = decide(three, heartbeat(three, 1, want_shut_down=True))
    assert not first.should_shut_down and three.image.topic("a").partitions[0].leader == 2  # type: ignore[union-attr]
    moved_at = three.next_offset - 1
    three.sessions.shuts_down(1, moved_at)
    assert not decide(three, heartbeat(three, 1, want_shut_down=True)).should_shut_down
    hear(three, 2, 10, moved_at)
    assert not decide(three, heartbeat(three, 1, want_shut_down=True)).should_shut_down
    hear(three, 3, 10, moved_at)
    assert decide(three, heartbeat(three, 1, want_shut_down=True)).should_shut_down


def test_second_process_with_id_of_live_broker_is_rejected(three: Controller) -> None:
    broker = three.image.broker(2)
    assert broker is not None
    features = [
        {"name": name, "min_supported_version": low, "max_supported_version": high}
        for name, (low, high) in broker.features.items()
    ]
    request = Transcript()._message(
        BrokerRegistrationRequest,
        {
            "broker_id": 2,
            "cluster_id": "cluster",
            "incarnation_id": random.Random(7).randbytes(16),
            "features": features,
            "log_dirs": list(broker.directories),
        },
    )
    hear(three, 2, 0)
    assert decide(three, request, 4).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    three.sessions.forget(2)
    response = decide(three, request, 4)
    assert response.error_code == ErrorCode.NONE and response.broker_epoch > broker.epoch


def test_clock_set_back_does_not_extend_session_beyond_timeout(three: Controller) -> None:
    sessions, hour_ms = three.sessions, 3_600_000
    sessions.begin(three.image, 2 * hour_ms)
    hear(three, 1, hour_ms)
    assert sessions.expire(hour_ms, three.image) == []
    hear(three, 1, hour_ms + TIMEOUT_MS - 1)
    assert [broker.id for broker in sessions.expire(hour_ms + TIMEOUT_MS, three.image)] == [2, 3]
