"""Apache's classes of tiered storage in one JVM: requests go through pipes (java/TierOracle.java is the other end)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from odradek.protocol.uuids import uuid_to_text
from odradek.tiers.events import encode_event
from odradek.tiers.segment_metadata import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from odradek.tiers.store import SegmentParts

from compat_tests.java.fetch import TIERS, home
from compat_tests.java.program import JVM_FLAGS, java_command

_SOURCE = Path(__file__).resolve().parents[1] / "java" / "TierOracle.java"
_JVM_FLAGS = (*JVM_FLAGS, "-Xmx256m", "-Dfile.encoding=UTF-8")


class Rejected(Exception):
    """An exception in Apache's code, with its text."""


class TierOracle:
    """A client of the JVM."""

    def __init__(self) -> None:
        command = java_command(_SOURCE, jvm=_JVM_FLAGS, more_jars=(f"{home(TIERS)}/*",))
        # Apache's classes log a warning for each question without a response.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `close`)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
        assert process.stdin is not None and process.stdout is not None
        self._process, self._to, self._from = process, process.stdin, process.stdout

    def ask(self, do: str, **arguments: Any) -> Any:
        """Returns the result of a request. Raises Rejected."""
        self._to.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self._to.flush()
        line = self._from.readline()
        if not line:
            self._log.seek(0)
            raise AssertionError(f"the JVM exited: {self._log.read()[-4000:].decode(errors='replace')}")
        response = json.loads(line)
        if "error" in response:
            raise Rejected(response["error"])
        return response["result"]

    def close(self) -> None:
        self._to.close()
        self._process.wait(60)
        self._from.close()
        self._log.close()

    # ---- records

    def serialize(self, event: dict[str, Any]) -> bytes:
        return b64decode(self.ask("serialize", event=event))

    def deserialize(self, value: bytes) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("deserialize", value=text(value))
        return found

    def metadata_partition(self, partition: TopicIdPartition, count: int) -> int:
        found: int = self.ask("partition", count=count, **partition_json(partition))
        return found

    # ---- the store in a folder

    def open_store(self, folder: Path) -> None:
        self.ask("open", dir=str(folder))

    def copy(self, segment: RemoteLogSegmentMetadata, parts: SegmentParts) -> None:
        self.ask(
            "copy",
            segment=text(encode_event(segment)),
            log=str(parts.log),
            offset_index=str(parts.offset_index),
            time_index=str(parts.time_index),
            transaction_index=None if parts.transaction_index is None else str(parts.transaction_index),
            producer_snapshot=str(parts.producer_snapshot),
            leader_epochs=text(parts.leader_epochs),
        )

    def fetch_log(self, segment: RemoteLogSegmentMetadata, position: int) -> bytes:
        return b64decode(self.ask("fetch", segment=text(encode_event(segment)), position=position))

    def fetch_index(self, segment: RemoteLogSegmentMetadata, kind: str) -> bytes:
        return b64decode(self.ask("index", segment=text(encode_event(segment)), type=kind))

    def delete(self, segment: RemoteLogSegmentMetadata) -> None:
        self.ask("delete", segment=text(encode_event(segment)))

    def segments(self) -> dict[str, list[str]]:
        """Returns the ids of the segments in the folder, by partition. Raises Rejected for files of other names."""
        found: dict[str, list[str]] = self.ask("traverse")
        return found


def text(content: bytes) -> str:
    return b64encode(content).decode("ascii")


def partition_json(partition: TopicIdPartition) -> dict[str, Any]:
    return {"topic_id": uuid_to_text(partition.topic_id), "topic": partition.topic, "partition": partition.partition}


def event_json(event: RemoteLogMetadata) -> dict[str, Any]:
    """Returns the event as the JVM shows it."""
    shown: dict[str, Any] = {"broker_id": event.broker_id, "event_timestamp_ms": event.event_timestamp_ms}
    shown |= {"state": int(event.state), **partition_json(event.partition)}
    if isinstance(event, RemoteLogSegmentMetadata):
        shown |= {"kind": "segment", **_segment_json(event)}
    elif isinstance(event, RemoteLogSegmentMetadataUpdate):
        shown |= {"kind": "update", "segment_id": uuid_to_text(event.segment_id), **_custom_json(event)}
    else:
        shown["kind"] = "delete"
    return shown


def snapshot_json(segment: RemoteLogSegmentMetadata) -> dict[str, Any]:
    """Returns the entry of a snapshot as the JVM shows it."""
    shown = {"broker_id": segment.broker_id, "event_timestamp_ms": segment.event_timestamp_ms}
    return {**shown, "state": int(segment.state), "kind": "snapshot", **_segment_json(segment)}


def _segment_json(segment: RemoteLogSegmentMetadata) -> dict[str, Any]:
    return {
        "segment_id": uuid_to_text(segment.segment_id),
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "max_timestamp_ms": segment.max_timestamp_ms,
        "size_bytes": segment.size_bytes,
        "txn_index_empty": segment.txn_index_empty,
        "epochs": [list(pair) for pair in segment.epochs],
        **_custom_json(segment),
    }


def _custom_json(event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> dict[str, Any]:
    return {"custom_metadata": None if event.custom_metadata is None else text(event.custom_metadata)}
