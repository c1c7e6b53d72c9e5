"""The decisions of an operator about damage in a stopped node's data directory."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from ...replication.quorum.log import SnapshotId
from ...replication.random_source import random_uuid
from ...storage.files.meta_properties import (
    META_PROPERTIES,
    InvalidMetaProperties,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ...storage.files.modes import make_folder
from ...storage.files.quorum_state import QuorumState, write_quorum_state
from ...storage.files.writes import set_aside
from .flushed_end import FlushedEnd
from .metadata_log import DIRECTORY_NAME
from .metadata_snapshots import sound_snapshots
from .metadata_survey import segments, survey
from .repairing import metadata_end


def cut_metadata(directory: Path) -> str:
    """Truncates the metadata log at its damage. Returns a description of what was done."""
    metadata = directory / DIRECTORY_NAME
    end = metadata_end(metadata)
    if end is None:
        return f"{metadata}: nothing to cut"
    make_folder(metadata)
    kept = Path(set_aside(str(metadata)))
    shutil.copytree(kept, metadata)
    if end.file is not None:
        file = metadata / end.file.name
        file.open("r+b").truncate(end.position)
        for later in segments(metadata):
            if later.name > file.name:
                later.unlink()
    sound_snapshots(metadata).rename_damaged()
    FlushedEnd(directory).reset(SnapshotId(end.offset, 0))
    return f"{metadata}: ends at offset {end.offset} now; the old log is kept as {kept}"


def write_properties(directory: Path, cluster_id: str | None, node_id: int | None) -> str:
    """Writes meta.properties again. Raises ValueError where its content cannot be determined."""
    path = directory / META_PROPERTIES
    try:
        before = read_meta_properties(str(directory))
    except InvalidMetaProperties:
        before = None
    voters = survey(directory / DIRECTORY_NAME).quorum.voters
    node_id = node_id if node_id is not None else (before.node_id if before is not None else None)
    if node_id is None and len(voters) == 1:
        node_id = voters[0].voter_id
    cluster_id = cluster_id or (before.cluster_id if before is not None else None)
    if cluster_id is None or node_id is None:
        raise ValueError(f"{path}: no other file names the cluster and the node; give --cluster-id ID --node-id N")
    ids = [voter.voter_directory_id for voter in voters if voter.voter_id == node_id]
    directory_id = ids[0] if ids else (before.directory_id if before is not None else None)
    kept = f"; the old file is kept as {set_aside(str(path))}" if path.exists() else ""
    properties = MetaProperties(cluster_id, node_id, directory_id or random_uuid(random.SystemRandom()))
    write_meta_properties(str(directory), properties)
    return f"{path}: written for node {node_id} of cluster {cluster_id}{kept}"


def forget_votes(directory: Path) -> str:
    """Begins quorum-state again: this voter may vote a second time in an epoch in which it has voted."""
    metadata = directory / DIRECTORY_NAME
    path = metadata / "quorum-state"
    kept = f"; the old file is kept as {set_aside(str(path))}" if path.exists() else ""
    found = survey(metadata)
    write_quorum_state(metadata, QuorumState(), found.quorum.kraft_version, sorted(found.voters))
    return f"{path}: created anew{kept}"
