"""Share partitions that are created, dropped and created again while the persister is slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from odradek.coordinator.share_state import ShareKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.read_share_group_state import (
    ReadShareGroupStateResponse,
    ReadStatePartitionResult,
    ReadStateResult,
)
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.runtime.clock import Clock
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.server.share.share_configs import ShareConfigs
from odradek.server.share.share_partitions import SharePartitions

from tests.server.harness.hosted import Hosted
from tests.server.harness.noted_partitions import NotedPartitions

KEY = ShareKey("group", b"t" * 16, 0)


@dataclass
class SlowPersister:
    """A persister that responds when the test calls `answer`."""

    asked: list[tuple[Any, Callable[[Any], None]]] = field(default_factory=list)

    def ask(self, request: Any, reply: Callable[[Any], None]) -> None:
        self.asked.append((request, reply))

    def respond(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Responds to the oldest request."""
        _, reply = self.asked.pop(0)
        partition = ReadStatePartitionResult(partition=0, error_code=error, start_offset=7)
        reply(ReadShareGroupStateResponse(results=[ReadStateResult(topic_id=KEY.topic_id, partitions=[partition])]))


@pytest.fixture
def persister() -> SlowPersister:
    return SlowPersister()


def led_in_epoch(path: Path, epoch: int) -> Hosted:
    hosted = Hosted(path / str(epoch), topic_id=KEY.topic_id)
    hosted.lead(epoch=epoch)
    return hosted


def share_partitions(persister: SlowPersister) -> SharePartitions:
    """Returns share partitions without a broker: the tests open them with partitions of their own."""
    none: Any = None
    lazy_persister: Any = Lazy(lambda: persister)
    configs = ShareConfigs(BrokerConfig(), MetadataCache(), Clock())
    return SharePartitions(NotedPartitions(), none, lazy_persister, none, configs, Clock())


def test_response_to_dropped_share_partition_leaves_successor_alone(persister: SlowPersister, tmp_path: Path) -> None:
    partitions = share_partitions(persister)
    partitions.open(KEY, led_in_epoch(tmp_path, 1))
    successor = partitions.open(KEY, led_in_epoch(tmp_path, 2))
    persister.respond(ErrorCode.FENCED_LEADER_EPOCH)
    persister.respond()
    assert partitions.get(KEY) is successor
    assert successor.state_machine is not None and successor.state_machine.start_offset == 7


def test_share_partition_is_recreated_after_failed_state_read(persister: SlowPersister, tmp_path: Path) -> None:
    partitions = share_partitions(persister)
    hosted = led_in_epoch(tmp_path, 1)
    first = partitions.open(KEY, hosted)
    persister.respond(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert first.validation_error is not None and partitions.get(KEY) is None
    second = partitions.open(KEY, hosted)
    persister.respond()
    assert partitions.get(KEY) is second and second.state_machine is not None
