"""Decisions at the start and the stop of a node whose controller is the only voter."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.metadata.features import METADATA_VERSION
from odradek.protocol.internal.cluster_metadata import FeatureLevelRecord
from odradek.protocol.internal.control_records import Endpoint as VoterEndpoint
from odradek.protocol.internal.control_records import VotersVoter
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller import metadata_survey, repair_decisions, repairing
from odradek.server.controller.formatting import BOOTSTRAP_FILE
from odradek.server.controller.metadata_batches import QuorumVoters
from odradek.server.controller.metadata_log import MetadataLost
from odradek.server.controller.metadata_opening import _is_alone
from odradek.server.controller.metadata_snapshots import encode_snapshot, write_snapshot_file
from odradek.server.controller.single_voter import (
    _begin_epoch,
    _update_voter,
    activation,
    leaving,
)

from tests.replication.controller_transcript import Transcript

OWN = Endpoint("C", "here", 9093)


def voter(node_id: int, host: str) -> VotersVoter:
    return VotersVoter(voter_id=node_id, endpoints=[VoterEndpoint(name="C", host=host, port=9093)])


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
    appended: list[Any] = []
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    quorum_log: Any = SimpleNamespace(
        directory=directory, quorum=QuorumVoters(1, [voter(1, host)], 0), end_offset=end_offset,
        append_control=lambda records, epoch, now_ms: appended.extend(records),
    )  # fmt: skip
    registration: Any = SimpleNamespace(node_id=1, endpoints=SimpleNamespace(controller_endpoints=lambda: [OWN]))
    loaded: Any = SimpleNamespace(last_epoch=4)
    assert _begin_epoch(registration, quorum_log, loaded, 0) == 5
    assert [record.type.name for record in appended] == kinds
    assert _begin_epoch(registration, quorum_log, loaded, 0) == 6, "the epoch before is in the file"


class Begun:
    """A controller that notes the records with which it begins."""

    def __init__(self, *, is_begun: bool) -> None:
        finalized = {METADATA_VERSION: 25} if is_begun else {}
        self.image = SimpleNamespace(features=SimpleNamespace(finalized=finalized))

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
    config: Any = SimpleNamespace(metadata_log_dir=str(tmp_path))
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

    def heartbeat(epoch: int, metadata_offset: int, *, want_shut_down: bool) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=epoch, current_metadata_offset=metadata_offset, want_shut_down=want_shut_down
        )

    registration: Any = SimpleNamespace(node_id=1, heartbeat=heartbeat)
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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only such a node must not fetch its log again from others."""
    monkeypatch.setattr(metadata_survey, "survey", lambda directory: SimpleNamespace(voters=set(surveyed)))
    monkeypatch.setattr(repair_decisions, "survey", lambda directory: SimpleNamespace(voters=set(surveyed)))
    monkeypatch.setattr(repairing, "survey", lambda directory: SimpleNamespace(voters=set(surveyed)))
    values = {"controller.quorum.voters": configured.split(",") if configured else []}
    values["controller.quorum.bootstrap.servers"] = bootstrap
    config: Any = SimpleNamespace(is_controller=is_controller, node_id=0, get=values.__getitem__)
    assert _is_alone(config, tmp_path) == is_alone
