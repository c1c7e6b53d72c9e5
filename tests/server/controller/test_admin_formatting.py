"""Formatting of log directories, and the file with a voter's quorum state."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.metadata.configs import InvalidConfig
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import (
    AlreadyFormatted,
    ensure_formatted,
    format_directories,
    read_initial_voters,
)
from odradek.server.controller.metadata_log import DIRECTORY_NAME
from odradek.server.controller.metadata_snapshots import read_snapshot
from odradek.server.runtime.sliced_work import run_to_completion
from odradek.storage.files.quorum_state import (
    CorruptQuorumState,
    QuorumState,
    decode_quorum_state,
    encode_quorum_state,
    read_quorum_state,
)


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig({"log.dirs": f"{tmp_path / 'x'},{tmp_path / 'y'}"})


def test_formatting_is_done_once_and_by_one_cluster(config: BrokerConfig, tmp_path: Path) -> None:
    assert format_directories(config, "my-cluster") == "my-cluster"
    with pytest.raises(AlreadyFormatted):
        format_directories(config)
    assert format_directories(config, ignore_formatted=True) == "my-cluster"
    with pytest.raises(InvalidConfig, match="belong to cluster my-cluster"):
        format_directories(config, "another", ignore_formatted=True)
    assert (tmp_path / "x" / DIRECTORY_NAME).exists() and not (tmp_path / "y" / DIRECTORY_NAME).exists()
    ids = {(tmp_path / name / "meta.properties").read_text().split("directory.id=")[1] for name in "xy"}
    assert len(ids) == 2


@pytest.mark.parametrize("wrong", ["", "has space", "x" * 250])
def test_a_cluster_id_must_be_one(config: BrokerConfig, tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InvalidConfig, match="is not a valid cluster id"):
        format_directories(config, wrong)
    assert list(tmp_path.iterdir()) == []


def test_added_directory_joins_cluster_without_becoming_voter(config: BrokerConfig, tmp_path: Path) -> None:
    cluster_id = ensure_formatted(BrokerConfig({"log.dirs": str(tmp_path / "y")}))
    assert ensure_formatted(config) == cluster_id
    assert not (tmp_path / "x" / DIRECTORY_NAME).exists() and not (tmp_path / "x" / "bootstrap.checkpoint").exists()


def test_the_directory_of_another_node_is_refused(config: BrokerConfig, tmp_path: Path) -> None:
    ensure_formatted(config)
    other = BrokerConfig({"log.dirs": f"{tmp_path / 'x'},{tmp_path / 'y'}", "node.id": "2"})
    with pytest.raises(InvalidConfig, match=r"belongs to node 1, and node\.id is 2"):
        ensure_formatted(other)


NODE = {"node.id": "2", "process.roles": "broker,controller", "controller.listener.names": "C"}
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:1,C://127.0.0.1:2",
    "listener.security.protocol.map": "C:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
FIRST = "1@a:9093:JEXY6aqzQY-32P5TStzaFg,2@[::1]:9094:MvDxzVmcRsaTz33bUuRU6A"


def first_snapshot(directory: Path) -> list[tuple[int, str, int, bytes]]:
    path = directory / DIRECTORY_NAME / f"{0:020d}-{0:010d}.checkpoint"
    voters = run_to_completion(read_snapshot(path)).quorum.voters
    return [(v.voter_id, v.endpoints[0].host, v.endpoints[0].port, v.voter_directory_id) for v in voters]


def test_the_first_voters_may_be_named_and_have_the_directories_that_are_said(tmp_path: Path) -> None:
    config = BrokerConfig({**NODE, **LISTENERS, "log.dirs": str(tmp_path)})
    voters = read_initial_voters(FIRST)
    format_directories(config, "c", initial_voters=voters)
    assert first_snapshot(tmp_path) == [tuple(voter) for voter in voters]
    assert "directory.id=MvDxzVmcRsaTz33bUuRU6A" in (tmp_path / "meta.properties").read_text()


@pytest.mark.parametrize("wrong", ["", "1@a:9093", "x@a:9093:JEXY6aqzQY-32P5TStzaFg", "1@a:JEXY6aqzQY-32P5TStzaFg"])
def test_voters_that_cannot_be_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidConfig, match="is not id@host:port:directory"):
        read_initial_voters(wrong)


def test_a_node_that_joins_and_one_of_a_configured_quorum_know_no_voters(tmp_path: Path) -> None:
    joins = BrokerConfig({**NODE, **LISTENERS, "log.dirs": str(tmp_path / "j")})
    format_directories(joins, "c", initial_voters=())
    static = {"controller.quorum.voters": "2@a:1,3@b:1"}
    format_directories(BrokerConfig({**NODE, **LISTENERS, **static, "log.dirs": str(tmp_path / "s")}), "c")
    for name in "js":
        assert not (tmp_path / name / DIRECTORY_NAME).exists() and (tmp_path / name / "bootstrap.checkpoint").exists()


def test_a_node_of_a_cluster_is_not_formatted_by_itself(tmp_path: Path) -> None:
    """A node that formatted itself would generate a cluster id of its own."""
    config = BrokerConfig({**NODE, **LISTENERS, "log.dirs": str(tmp_path), "controller.quorum.voters": "2@a:1,3@b:1"})
    with pytest.raises(InvalidConfig, match="odradek format -t ID"):
        ensure_formatted(config)
    format_directories(config, "c")
    assert ensure_formatted(config) == "c"


STATE = QuorumState(3, 7)
TEXTS = {
    0: b'{"clusterId":"","leaderId":3,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":3}],"data_version":0}',
    1: b'{"leaderId":3,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
}


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_the_state_of_the_quorum_is_written_as_kafka_writes_it(kraft_version: int) -> None:
    assert encode_quorum_state(STATE, kraft_version, [3]) == TEXTS[kraft_version]
    assert decode_quorum_state(TEXTS[kraft_version]) == STATE


@pytest.mark.parametrize("damaged", [b"", b"{}", b'{"data_version":9}', b"[1]", b'{"leaderId":"x","data_version":1}'])
def test_a_damaged_state_is_an_error_and_not_a_fresh_one(tmp_path: Path, damaged: bytes) -> None:
    directory = tmp_path / "log"  # a copy would be beside it
    directory.mkdir()
    assert read_quorum_state(directory) is None
    (directory / "quorum-state").write_bytes(damaged)
    with pytest.raises(CorruptQuorumState):
        read_quorum_state(directory)
