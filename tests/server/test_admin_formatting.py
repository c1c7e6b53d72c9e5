"""Formatting log directories, and the file that remembers a voter's promises."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.metadata.configs import InvalidConfig
from odradek.server.config import BrokerConfig
from odradek.server.formatting import AlreadyFormatted, ensure_formatted, format_directories
from odradek.server.quorum_log import DIRECTORY_NAME
from odradek.server.quorum_state import (
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
    with pytest.raises(InvalidConfig, match="cannot be a cluster id"):
        format_directories(config, wrong)
    assert list(tmp_path.iterdir()) == []


def test_one_more_directory_joins_the_cluster_and_is_no_new_voter(config: BrokerConfig, tmp_path: Path) -> None:
    cluster_id = ensure_formatted(BrokerConfig({"log.dirs": str(tmp_path / "y")}))
    assert ensure_formatted(config) == cluster_id
    assert not (tmp_path / "x" / DIRECTORY_NAME).exists() and not (tmp_path / "x" / "bootstrap.checkpoint").exists()


def test_the_directory_of_another_node_is_refused(config: BrokerConfig, tmp_path: Path) -> None:
    ensure_formatted(config)
    other = BrokerConfig({"log.dirs": f"{tmp_path / 'x'},{tmp_path / 'y'}", "node.id": "2"})
    with pytest.raises(InvalidConfig, match=r"belongs to node 1, and node\.id is 2"):
        ensure_formatted(other)


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
    assert read_quorum_state(tmp_path) is None
    (tmp_path / "quorum-state").write_bytes(damaged)
    with pytest.raises(CorruptQuorumState):
        read_quorum_state(tmp_path)
