"""The start of a single voter on its own directories: what it appends before its first flush, and in which batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from odradek.metadata.image import METADATA_VERSION
from odradek.protocol.internal.cluster_metadata import UserScramCredentialRecord
from odradek.protocol.internal.control_records import LeaderChangeMessage
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.control import decode_control
from odradek.protocol.records.record import decode_batch
from odradek.replication.controller.policies import Policies
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller import single_voter_start
from odradek.server.controller.formatting import format_directories
from odradek.server.controller.metadata_batches import RECORDS_PER_BATCH, decode_batches
from odradek.server.controller.metadata_log import QuorumLog
from odradek.server.controller.metadata_opening import InvalidQuorum, open_log
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.controller.single_voter_start import LeadershipStart, new_controller, take_over
from odradek.server.runtime.clock import Clock
from odradek.server.runtime.sliced_work import run_to_completion
from odradek.storage.directory import LogDirectory

from tests.server.harness.own_endpoints import registration_of
from tests.server.harness.unlocked_directory import unlocked_directory

NODE_ID = 3
#: Seconds since 1970.
NOW_S = 1_700_000_000
CLUSTER_ID = "cluster"
LISTENERS = [Endpoint("PLAINTEXT", "here", 9092)]


class Started(NamedTuple):
    log: QuorumLog
    start: LeadershipStart
    #: The names of the records of each batch that the start appended; none of control batches.
    appended: list[list[str]]


def user(number: int) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=f"user-{number}", mechanism=1, salt=b"salt", stored_key=b"key", server_key=b"key", iterations=4096
    )


def config_of(folder: Path, **properties: str) -> BrokerConfig:
    return BrokerConfig(
        {"node.id": str(NODE_ID), "log.dirs": str(folder)}
        | {key.replace("_", "."): value for key, value in properties.items()}
    )


def kinds_of(data: bytes) -> list[list[str]]:
    return [
        [type(one).__name__.removesuffix("Record") for one in batch.records]
        for batch in decode_batches(data, QuorumVoters())
    ]


def started(config: BrokerConfig, *, directory: LogDirectory | None = None) -> Started:
    """Starts the voter on its formatted directory, as its driver does."""
    clock = Clock(lambda: NOW_S)
    opened = LogDirectory.open(config.metadata_log_dir) if directory is None else None
    registering = directory or opened
    assert registering is not None
    registration = registration_of(config, advertised=LISTENERS, directories=[registering], cluster_id=CLUSTER_ID)
    quorum_log, loaded = run_to_completion(open_log(config, clock, [opened] if opened else []))
    assert loaded is not None
    before = quorum_log.end_offset
    controller = new_controller(config, CLUSTER_ID, lambda level: None, uses_acls=False, policies=Policies())
    start = take_over(config, clock, registration, quorum_log, loaded, controller)
    appended = kinds_of(quorum_log.log.read(before, 1 << 24).bytes())
    if opened is not None:
        opened.close()
    return Started(quorum_log, start, appended)


def leader_changes(one: Started) -> list[tuple[int, int, list[int], list[int]]]:
    """Returns the version, leader, voters and granting voters of each that the start appended."""
    data = one.log.log.read(one.start.epoch_start_offset, 1 << 24).bytes()
    controls = [
        decode_control(record.key, record.value)
        for position, header in iter_headers(data)
        if header.is_control
        for record in decode_batch(data, position, header)
    ]
    messages = [one.message for one in controls if one is not None and isinstance(one.message, LeaderChangeMessage)]
    return [
        (
            found.version,
            found.leader_id,
            [voter.voter_id for voter in found.voters],
            [voter.voter_id for voter in found.granting_voters],
        )
        for found in messages
    ]


def stopped(one: Started) -> None:
    one.log.close(NOW_S * 1000)


def test_bootstrap_records_are_one_batch_however_many_they_are(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    users = RECORDS_PER_BATCH + 100
    format_directories(config, CLUSTER_ID, users=[user(number) for number in range(users)])
    first = started(config)
    control, bootstrap, *others = first.appended
    assert control == []
    assert (bootstrap[0], bootstrap[-1]) == ("BeginTransaction", "EndTransaction")
    assert bootstrap.count("UserScramCredential") == users
    assert [kind for batch in others for kind in batch] == [
        "RegisterController", "RegisterBroker", "BrokerRegistrationChange"
    ]  # fmt: skip
    stopped(first)


def test_start_registers_and_unfences_the_broker_in_the_image_that_its_delta_leads_to(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    format_directories(config, CLUSTER_ID)
    log, start, _ = first = started(config)
    image = start.controller.image
    broker = image.broker(NODE_ID)
    assert broker is not None
    assert not broker.fenced
    assert broker.epoch == start.broker_epoch
    assert [(one.name, one.host, one.port) for one in broker.listeners.values()] == [("PLAINTEXT", "here", 9092)]
    assert METADATA_VERSION in image.features.finalized
    assert start.controller.next_offset == log.end_offset
    assert start.delta.apply(image.offset, image.epoch, NOW_S * 1000) == image
    assert (start.epoch, start.epoch_start_offset) == (1, 0)
    stopped(first)


def test_next_start_has_a_later_epoch_and_appends_no_bootstrap_records(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    format_directories(config, CLUSTER_ID)
    first = started(config)
    stopped(first)
    second = started(config)
    assert second.start.epoch == 2
    assert second.start.epoch_start_offset == first.log.end_offset
    assert second.appended[0] == [], "the change of the leader"
    assert leader_changes(second) == [(0, NODE_ID, [NODE_ID], [NODE_ID])]
    assert [kind for batch in second.appended for kind in batch] == [
        "RegisterController", "RegisterBroker", "BrokerRegistrationChange"
    ]  # fmt: skip
    assert second.start.broker_epoch > first.start.broker_epoch
    stopped(second)


def test_controller_begins_with_the_image_of_all_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets: list[int] = []

    def unsupported(delta: Any, image: Any, *, is_tiered: bool) -> None:
        offsets.append(image.offset)

    monkeypatch.setattr(single_voter_start, "unsupported", unsupported)
    config = config_of(tmp_path)
    format_directories(config, CLUSTER_ID)
    first = started(config)
    assert first.log.log.partition == 0 and first.log.bytes_since_snapshot > 0
    stopped(first)
    second = started(config)
    assert offsets == [-1, first.log.end_offset - 1]
    stopped(second)


def test_controller_that_is_no_broker_registers_no_broker(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        process_roles="controller",
        controller_listener_names="CONTROLLER",
        listeners="CONTROLLER://:9093",
        controller_quorum_voters=f"{NODE_ID}@here:9093",
        listener_security_protocol_map="CONTROLLER:PLAINTEXT",
    )
    format_directories(config, CLUSTER_ID)
    first = started(config)
    assert first.start.broker_epoch == -1
    assert [kind for batch in first.appended[2:] for kind in batch] == ["RegisterController"]
    stopped(first)


def test_broker_that_the_controller_rejects_does_not_start(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    format_directories(config, CLUSTER_ID)
    without_id = unlocked_directory(tmp_path, bytes(16), node_id=NODE_ID)
    with pytest.raises(InvalidQuorum, match="cannot register this broker"):
        started(config, directory=without_id)
