"""Metadata logs in folders, and the voters in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from odradek.protocol.internal.cluster_metadata import FeatureLevelRecord
from odradek.protocol.internal.control_records import Endpoint, VotersVoter
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.metadata_log import DIRECTORY_NAME, QuorumLog
from odradek.server.controller.metadata_snapshots import SnapshotId, encode_snapshot, write_snapshot_file
from odradek.server.controller.quorum_voters import QuorumVoters

NOW_MS = 1_700_000_000_000
METADATA_VERSION = 30


def quorum_config(
    folder: Path,
    *,
    node_id: int = 0,
    is_controller: bool = True,
    voters: Sequence[str] = (),
    bootstrap_servers: Sequence[str] = (),
) -> BrokerConfig:
    """Returns the configuration of a node of a quorum. `voters`: id@host:port; `bootstrap_servers`: host:port."""
    listeners = "PLAINTEXT://:9092" + (",CONTROLLER://:9093" if is_controller else "")
    return BrokerConfig(
        {
            "node.id": str(node_id),
            "log.dirs": str(folder),
            "process.roles": "broker,controller" if is_controller else "broker",
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": ",".join(voters),
            "controller.quorum.bootstrap.servers": ",".join(bootstrap_servers),
        }
    )


def voter(node_id: int, host: str = "here", *, directory_id: bytes = bytes(16)) -> VotersVoter:
    endpoints = [Endpoint(name="C", host=host, port=9093)]
    return VotersVoter(voter_id=node_id, voter_directory_id=directory_id, endpoints=endpoints)


def write_voters(folder: Path, node_ids: Iterable[int]) -> None:
    """Writes a snapshot of the log in that folder, which names these voters."""
    folder.mkdir(exist_ok=True)
    quorum = QuorumVoters(1, [voter(node_id) for node_id in node_ids], 0)
    records = [FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION)]
    path = folder / SnapshotId(0, 0).file_name
    write_snapshot_file(path, encode_snapshot(records, METADATA_VERSION, 0, quorum, NOW_MS))


def quorum_log_in(folder: Path, *, records: int = 0, quorum: QuorumVoters | None = None) -> QuorumLog:
    """Opens the metadata log of the log directory in that folder, and appends so many records to it in epoch 1."""
    path = folder / DIRECTORY_NAME
    path.mkdir(exist_ok=True)
    opened = QuorumLog(path, BrokerConfig({"log.dirs": str(folder)}), NOW_MS)
    if records:
        level = FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION)
        opened.append([level] * records, 1, NOW_MS, METADATA_VERSION, True)
    if quorum is not None:
        opened.quorum = quorum
    return opened
