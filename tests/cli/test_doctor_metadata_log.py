"""`odradek doctor --data-dir` on metadata logs that Apache Kafka cannot read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from odradek.protocol.internal.control_records import LeaderChangeMessage, LeaderChangeVoter
from odradek.protocol.records.control import ControlRecord, ControlType
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.metadata_log import DIRECTORY_NAME, QuorumLog
from odradek.server.controller.metadata_survey import newer_leader_changes

from compat_tests.cli.commands import odradek_command
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually


def append_newer_leader_change(directory: Path) -> int:
    """Appends a LeaderChange of version 1, as releases before 0.1 wrote for dynamic voters. Returns its offset."""
    now_ms = int(time.time() * 1000)
    log = QuorumLog(directory, BrokerConfig({}), now_ms)
    end = log.end
    voter = LeaderChangeVoter(voter_id=1, voter_directory_id=b"d" * 16)
    change = LeaderChangeMessage(version=1, leader_id=1, voters=[voter], granting_voters=[voter])
    log.append_control([ControlRecord(ControlType.LEADER_CHANGE, change)], end.epoch + 1, now_ms)
    log.close(now_ms)
    return end.end_offset


def found(data_dir: Path) -> list[str]:
    done = odradek_command("doctor", "--data-dir", str(data_dir), "--output", "jsonl")
    return [one["finding"] for one in done.lines if one["check"] == "metadata log"]


@pytest.mark.usefixtures("processes")
def test_doctor_names_leader_changes_that_kafka_cannot_read_until_a_snapshot_replaces_them(tmp_path: Path) -> None:
    broker = OdradekProcess(tmp_path)
    with broker:
        pass
    assert found(broker.data_dir) == []
    offset = append_newer_leader_change(broker.data_dir / DIRECTORY_NAME)
    (words,) = found(broker.data_dir)
    assert f"1 LeaderChange records of version 1, the last at offset {offset}" in words
    broker.properties |= {"metadata.log.max.snapshot.interval.ms": "200", "metadata.max.retention.bytes": "1"}
    with broker:
        eventually(lambda: not newer_leader_changes(broker.data_dir / DIRECTORY_NAME), what="a snapshot replaces it")
    assert found(broker.data_dir) == []
