"""Decisions at the start and the stop of a node whose controller is the only voter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.features import METADATA_VERSION
from odradek.metadata.image import EMPTY_IMAGE
from odradek.metadata.transactions import MetadataTransactions
from odradek.protocol.internal.cluster_metadata import FeatureLevelRecord
from odradek.protocol.records.control import ControlRecord
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller.formatting import BOOTSTRAP_FILE
from odradek.server.controller.metadata_log import DIRECTORY_NAME, Loaded, MetadataLost, QuorumLog
from odradek.server.controller.metadata_opening import _is_alone
from odradek.server.controller.metadata_snapshots import encode_snapshot, write_snapshot_file
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.controller.single_voter_start import (
    _begin_epoch,
    _update_voter,
    activation,
    leaving,
)

from tests.replication.controller_transcript import Transcript
from tests.server.harness.images import image_with
from tests.server.harness.own_endpoints import registration_of
from tests.server.harness.quorum_logs import NOW_MS, quorum_config, quorum_log_in, voter, write_voters

OWN = Endpoint("C", "here", 9093)


class NotedControls(QuorumLog):
    """The metadata log of a node. `controls`: the control records that were appended."""

    def __init__(self, directory: Path, config: BrokerConfig, now_ms: int) -> None:
        super().__init__(directory, config, now_ms)
        self.controls: list[ControlRecord] = []

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> None:
        super().append_control(records, epoch, now_ms)
        self.controls += records


@pytest.mark.parametrize(
    ("hosts", "own", "is_changed", "after"),
    [
        ({1: "here", 2: "there"}, [OWN], False, {1: "here", 2: "there"}),
        ({1: "moved", 2: "there"}, [OWN], True, {1: "here", 2: "there"}),
        ({2: "there"}, [OWN], False, {2: "there"}),
        ({1: "moved"}, [], False, {1: "moved"}),
    ],
)
def test_only_the_voter_of_this_node_gets_its_new_address(
    hosts: dict[int, str], own: list[Endpoint], is_changed: bool, after: dict[int, str]
) -> None:
    voters = [voter(node_id, host) for node_id, host in hosts.items()]
    assert _update_voter(voters, 1, own) == is_changed
    assert {one.voter_id: one.endpoints[0].host for one in voters} == after


@pytest.mark.parametrize(
    ("end_offset", "host", "kinds"),
    [
        (0, "here", ["LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS"]),
        (5, "here", ["LEADER_CHANGE"]),
        (5, "moved", ["LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS"]),
    ],
)
def test_voters_enter_the_log_with_its_first_leader_or_a_new_address(
    tmp_path: Path, end_offset: int, host: str, kinds: list[str]
) -> None:
    config = quorum_config(tmp_path, node_id=1)
    quorum_log_in(tmp_path, records=end_offset).close(NOW_MS)
    quorum_log = NotedControls(tmp_path / DIRECTORY_NAME, config, NOW_MS)
    assert quorum_log.end_offset == end_offset
    quorum_log.quorum = QuorumVoters(1, [voter(1, host)], 0)
    registration = registration_of(config, controller=[OWN])
    loaded = Loaded(MetadataDelta(EMPTY_IMAGE), MetadataTransactions(), 4, 0)
    assert _begin_epoch(registration, quorum_log, loaded, 0) == 5
    assert [record.type.name for record in quorum_log.controls] == kinds
    assert _begin_epoch(registration, quorum_log, loaded, 0) == 6, "the epoch before is in the file"


class Begun:
    """A controller that notes the records with which it begins."""

    def __init__(self, *, is_begun: bool) -> None:
        self.image = image_with(*([FeatureLevelRecord(name=METADATA_VERSION, feature_level=25)] if is_begun else []))

    def activate(self, bootstrap: Any, *, transaction_open: bool) -> Any:
        return list(bootstrap)


@pytest.mark.parametrize("is_begun", [True, False])
@pytest.mark.parametrize("state", ["written", "damaged", "absent"])
def test_cluster_that_has_not_begun_needs_its_bootstrap_records(tmp_path: Path, state: str, is_begun: bool) -> None:
    records = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=25)]
    path = tmp_path / BOOTSTRAP_FILE
    if state != "absent":
        write_snapshot_file(path, encode_snapshot(records, 25, 1, QuorumVoters(), 0))
    if state == "damaged":
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-20])
    config = quorum_config(tmp_path)
    controller: Any = Begun(is_begun=is_begun)
    if state == "written":
        assert activation(config, controller, transaction_open=False) == records
    elif is_begun:
        assert activation(config, controller, transaction_open=False) == []
    else:
        with pytest.raises(MetadataLost, match="damaged" if state == "damaged" else "part of a cluster"):
            activation(config, controller, transaction_open=False)


@pytest.mark.parametrize("has_other", [False, True])
def test_stopping_broker_decides_until_it_may_shut_down(*, has_other: bool) -> None:
    transcript = Transcript()
    if has_other:
        transcript.run("> broker 2\n")
    transcript.run("> broker 1\n> CreateTopics topics=\"[{'name':'a','num_partitions':3,'replication_factor':1}]\"\n")
    controller = transcript.controller
    registration = registration_of(BrokerConfig({"node.id": "1"}))
    broker = controller.image.broker(1)
    assert broker is not None
    decided = []
    for result in leaving(registration, broker.epoch, controller):
        decided.append(result)
        if result.records:
            controller.replay(result.records, 1, 0)
        assert len(decided) < 10, "it does not end"
    assert [result.response.should_shut_down for result in decided] == [False] * (len(decided) - 1) + [True]  # type: ignore[attr-defined]
    stopped = controller.image.broker(1)
    assert stopped is not None and stopped.fenced
    leaders = {one.leader for one in controller.image.topics.by_name["a"].partitions.values()}
    assert (1 in leaders) is not has_other, "the only broker keeps its leaderships"


@pytest.mark.parametrize(
    ("is_controller", "configured", "surveyed", "bootstrap", "is_alone"),
    [
        (True, "", [0], [], True),
        (True, "", [0], ["other:9093"], True),
        (True, "", [], [], True),
        (True, "", [], ["other:9093"], False),
        (True, "", [0, 1], [], False),
        (True, "", [1], [], False),
        (True, "0@here:9093", [], ["other:9093"], True),
        (True, "0@here:9093,1@there:9093", [], [], False),
        (True, "1@there:9093", [0], [], False),
        (False, "", [0], [], False),
        (False, "", [], [], False),
    ],
)
def test_node_is_the_only_voter_by_its_configuration_and_what_its_log_holds(
    is_controller: bool,
    configured: str,
    surveyed: list[int],
    bootstrap: list[str],
    is_alone: bool,
    tmp_path: Path,
) -> None:
    """Only such a node must not fetch its log again from others."""
    folder = tmp_path / DIRECTORY_NAME
    write_voters(folder, surveyed)
    voters = configured.split(",") if configured else []
    config = quorum_config(tmp_path, is_controller=is_controller, voters=voters, bootstrap_servers=bootstrap)
    assert _is_alone(config, folder) == is_alone
