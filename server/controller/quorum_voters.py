"""The voters of the quorum and the KRaft version, as the control records of a log or a snapshot have them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...protocol.internal.control_records import KRaftVersionRecord, SnapshotHeaderRecord, VotersRecord, VotersVoter
from ...protocol.schema import Message


@dataclass(slots=True)
class QuorumVoters:
    """The content of the control records in a log or a snapshot: the KRaft version and the voters."""

    kraft_version: int = 0
    voters: list[VotersVoter] = field(default_factory=list)
    #: The timestamp of the last record that a snapshot contains, from its header.
    last_contained_timestamp_ms: int = -1

    def learn(self, record: Message) -> None:
        if isinstance(record, KRaftVersionRecord):
            self.kraft_version = record.kraft_version
        elif isinstance(record, VotersRecord):
            self.voters = record.voters
        elif isinstance(record, SnapshotHeaderRecord):
            self.last_contained_timestamp_ms = record.last_contained_log_timestamp
