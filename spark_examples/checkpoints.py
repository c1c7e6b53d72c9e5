"""Checkpoints that note their cluster: on another cluster Spark would report that all offsets changed."""

from __future__ import annotations

import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient

_NAME = "cluster-id"
_TIMEOUT_S = 30


def claim(checkpoint: Path, bootstrap: str) -> None:
    """Notes the cluster in a checkpoint. Ends the program with a line if the checkpoint belongs to a different cluster."""
    cluster_id = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=_TIMEOUT_S).cluster_id
    note = checkpoint / _NAME
    if not note.exists():
        checkpoint.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{cluster_id}\n", encoding="utf-8")
        return
    known = note.read_text(encoding="utf-8").strip()
    if known != cluster_id:
        sys.exit(
            f"{checkpoint} belongs to cluster {known}, and {bootstrap} is cluster {cluster_id}: delete {checkpoint} and the "
            "tables written with it, or name another folder with --checkpoint"
        )
