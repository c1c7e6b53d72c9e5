"""Formats log directories as Apache Kafka's `StorageTool format` does (KIP-853).

```
meta.properties                                      in every log directory: cluster, node and directory id
bootstrap.checkpoint                                 in that of the metadata log: features and users of the new cluster
__cluster_metadata-0/00000000000000000000-0000000000.checkpoint   the voters, on a node that may begin the cluster
```

The voters are this node alone (`--standalone`) or the named nodes (`--initial-controllers`). The directory names no
voters on nodes that join (`--no-initial-controllers`), on nodes that are only brokers, and with
`controller.quorum.voters`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.configs import InvalidConfig
from ...metadata.features import FEATURES, KRAFT_VERSION, formatted_levels
from ...metadata.image import METADATA_VERSION
from ...metadata.metadata_version import DEFAULT, SCRAM
from ...protocol.internal.cluster_metadata import FeatureLevelRecord, UserScramCredentialRecord
from ...protocol.internal.control_records import Endpoint, KRaftVersionFeature, VotersVoter
from ...protocol.schema import Message
from ...protocol.uuids import uuid_from_text, uuid_to_text
from ...replication.random_source import random_uuid
from ...storage.files.meta_properties import MetaProperties, check_unused, read_meta_properties, write_meta_properties
from ...storage.files.modes import make_folder
from .metadata_log import DIRECTORY_NAME
from .metadata_snapshots import SnapshotId, encode_snapshot, write_snapshot_file
from .quorum_voters import QuorumVoters

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig

BOOTSTRAP_FILE = "bootstrap.checkpoint"
#: The controller listener in Kafka's default configuration, for a node without a controller listener.
_DEFAULT_CONTROLLER = ("localhost", 9093)
_MOST_ID_LENGTH = 249


_INITIAL_VOTER = re.compile(r"(\d+)@\[?([^@\]]+)\]?:(\d+):([A-Za-z0-9_-]{22})")


class InitialVoter(NamedTuple):
    id: int
    host: str
    port: int
    directory_id: bytes


class _Bootstrap(NamedTuple):
    """The first records of a new cluster, and the metadata.version that they are written in."""

    metadata_version: int
    records: Sequence[Message]


class AlreadyFormatted(Exception):
    """A log directory already belongs to a cluster."""


def format_directories(
    config: BrokerConfig,
    cluster_id: str | None = None,
    *,
    ignore_formatted: bool = False,
    initial_voters: Sequence[InitialVoter] | None = None,
    features: Mapping[str, int] | None = None,
    users: Sequence[UserScramCredentialRecord] = (),
) -> str:
    """Formats every log directory of the broker. Returns the cluster id, which is new unless given.

    `initial_voters`: the first voters; empty for a node that joins, None to use the configuration. `features`: levels
    in a new cluster that differ from the default; raises UnknownLevel. `users`: the SCRAM users of a new cluster
    (KIP-900); raises InvalidConfig if its metadata.version is too old for them.

    With `ignore_formatted`, directories that are already formatted stay unchanged. Otherwise they raise
    AlreadyFormatted before anything is written. Raises InvalidConfig for an invalid cluster id and for directories of
    another node or of several clusters, OSError, InvalidMetaProperties.
    """
    levels = formatted_levels(features or {})
    if users and levels[METADATA_VERSION] < SCRAM:
        raise InvalidConfig("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    first_records = [*_feature_records(levels), *users]
    directories = _all_directories(config)
    known = {directory: read_meta_properties(directory) for directory in directories}
    formatted = [directory for directory, properties in known.items() if properties is not None]
    if formatted and not ignore_formatted:
        raise AlreadyFormatted(f"{', '.join(formatted)}: already formatted; skip it with --ignore-formatted")
    _check_node(config, known)
    ids = {properties.cluster_id for properties in known.values() if properties is not None}
    if cluster_id is None:
        cluster_id = ids.pop() if len(ids) == 1 else uuid_to_text(random_uuid(random.SystemRandom()))
    _check_cluster_id(cluster_id, ids)
    for directory in directories:
        if known[directory] is None:
            check_unused(directory)
    for directory in directories:
        if known[directory] is None:
            new = None if formatted else _Bootstrap(levels[METADATA_VERSION], first_records)
            _format(config, directory, cluster_id, initial_voters, new)
    return cluster_id


def ensure_formatted(config: BrokerConfig) -> str:
    """Returns the cluster id of the broker's directories. Formats directories that are not formatted yet, so that a
    broker starts on an empty disk and on an added disk. Raises what `format_directories` raises, and InvalidConfig
    where another node may have chosen the cluster id.
    """
    if not config.is_alone and not any(map(read_meta_properties, _all_directories(config))):
        raise InvalidConfig(
            f"{', '.join(_all_directories(config))}: not formatted, and the cluster has other nodes: format it "
            "with the cluster id "
            "that all nodes of the cluster share (odradek format -t ID server.properties)"
        )
    return format_directories(config, ignore_formatted=True)


def _check_cluster_id(cluster_id: str, known: set[str]) -> None:
    if not cluster_id or len(cluster_id) > _MOST_ID_LENGTH or not cluster_id.isprintable() or " " in cluster_id:
        raise InvalidConfig(f"{cluster_id!r} is not a valid cluster id")
    if known - {cluster_id}:
        raise InvalidConfig(f"the directories belong to cluster {', '.join(sorted(known))}, not to {cluster_id}")


def _check_node(config: BrokerConfig, known: Mapping[str, MetaProperties | None]) -> None:
    for directory, properties in known.items():
        if properties is not None and properties.node_id != config.node_id:
            raise InvalidConfig(
                f"{directory} belongs to node {properties.node_id}, and node.id is {config.node_id}: set node.id to that of "
                "the data, or use an empty directory for a new node"
            )


def _all_directories(config: BrokerConfig) -> list[str]:
    return list(dict.fromkeys([*config.log_dirs, config.metadata_log_dir]))


def _format(
    config: BrokerConfig,
    directory: str,
    cluster_id: str,
    initial_voters: Sequence[InitialVoter] | None,
    bootstrap: _Bootstrap | None,
) -> None:
    """Formats one directory. meta.properties is written last: a directory that has it is formatted. `bootstrap`: that of a
    new cluster; None for a disk added to a formatted node.
    """
    make_folder(directory)
    directory_id = random_uuid(random.SystemRandom())
    if bootstrap is not None and directory == config.metadata_log_dir:
        now_ms = int(time.time() * 1000)
        _write_bootstrap(directory, bootstrap, now_ms)
        voters = _voters(config, directory_id) if initial_voters is None else initial_voters
        if voters:
            _write_voters(config, directory, voters, now_ms)
        directory_id = next((voter.directory_id for voter in voters if voter.id == config.node_id), directory_id)
    write_meta_properties(directory, MetaProperties(cluster_id, config.node_id, directory_id))


def _write_bootstrap(directory: str, bootstrap: _Bootstrap, now_ms: int) -> None:
    quorum = QuorumVoters(last_contained_timestamp_ms=0)
    batches = encode_snapshot(bootstrap.records, bootstrap.metadata_version, 0, quorum, now_ms)
    write_snapshot_file(Path(directory, BOOTSTRAP_FILE), batches)


def _feature_records(levels: Mapping[str, int]) -> Sequence[Message]:
    """Returns the feature records. metadata.version comes first, since it may decide how the rest is read.
    kraft.version is recorded by the log itself.
    """
    others = sorted(levels.keys() - {METADATA_VERSION, KRAFT_VERSION})
    names = [METADATA_VERSION, *(name for name in others if levels[name])]
    return [FeatureLevelRecord(name=name, feature_level=levels[name]) for name in names]


def _voters(config: BrokerConfig, directory_id: bytes) -> Sequence[InitialVoter]:
    """Returns the initial voters: a single node votes for itself; otherwise the configuration or other nodes determine
    the voters.
    """
    if not config.is_alone or config.get("controller.quorum.voters"):
        return ()
    return [_this_voter(config, directory_id)]


def _this_voter(config: BrokerConfig, directory_id: bytes) -> InitialVoter:
    endpoint = _controller_endpoint(config)
    return InitialVoter(config.node_id, endpoint.host, endpoint.port, directory_id)


def standalone_voters(config: BrokerConfig) -> Sequence[InitialVoter]:
    """Returns this node as the only voter, in a directory with a new id."""
    return [_this_voter(config, random_uuid(random.SystemRandom()))]


def read_initial_voters(text: str) -> Sequence[InitialVoter]:
    """Parses `id@host:port:directory` entries separated by commas. Raises InvalidConfig."""
    voters = [_initial_voter(part.strip()) for part in text.split(",")]
    if len({voter.id for voter in voters}) != len(voters):
        raise InvalidConfig(f"each voter needs a unique id: {text}")
    return voters


def _initial_voter(text: str) -> InitialVoter:
    matched = _INITIAL_VOTER.fullmatch(text)
    if matched is None:
        raise InvalidConfig(f"{text!r} is not id@host:port:directory, as in 1@localhost:9093:JEXY6aqzQY-32P5TStzaFg")
    voter_id, host, port, directory_id = matched.groups()
    if len(voter_id) > 10 or int(voter_id) >= 1 << 31 or len(port) > 5 or not 0 < int(port) <= 65535:
        raise InvalidConfig(f"{text!r}: an id is less than 2^31, and a port is a number from 1 to 65535")
    try:
        return InitialVoter(int(voter_id), host, int(port), uuid_from_text(directory_id))
    except ValueError as error:
        raise InvalidConfig(f"{text!r}: {error}") from None


def _write_voters(config: BrokerConfig, directory: str, initial: Sequence[InitialVoter], now_ms: int) -> None:
    feature = FEATURES[KRAFT_VERSION]
    name = _controller_endpoint(config).name
    voters = [
        VotersVoter(
            voter_id=voter.id,
            voter_directory_id=voter.directory_id,
            endpoints=[Endpoint(name=name, host=voter.host, port=voter.port)],
            kraft_version_feature=KRaftVersionFeature(
                min_supported_version=feature.minimum, max_supported_version=feature.built
            ),
        )
        for voter in initial
    ]
    quorum = QuorumVoters(feature.formatted, voters, now_ms)
    metadata_directory = Path(directory, DIRECTORY_NAME)
    make_folder(metadata_directory)
    path = metadata_directory / SnapshotId(0, 0).file_name
    write_snapshot_file(path, encode_snapshot((), DEFAULT, 0, quorum, now_ms))


def _controller_endpoint(config: BrokerConfig) -> Endpoint:
    """Returns the endpoint at which other voters would reach this one."""
    for listener in config.listeners.controllers:
        return Endpoint(name=listener.name, host=listener.host or _DEFAULT_CONTROLLER[0], port=listener.port)
    host, port = _DEFAULT_CONTROLLER
    return Endpoint(name=config.get("controller.listener.names")[0].upper(), host=host, port=port)
