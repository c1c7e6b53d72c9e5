"""The first records of a cluster: what it was formatted with, as one transaction (KIP-868) that a crash cannot halve."""

from __future__ import annotations

from collections.abc import Sequence

from ...metadata.features import ELIGIBLE_LEADER_REPLICAS
from ...protocol.internal.cluster_metadata import BeginTransactionRecord, EndTransactionRecord, FeatureLevelRecord
from ...protocol.schema import Message
from .features import min_isr_records
from .state import ControllerState


def bootstrap_records(state: ControllerState, bootstrap: Sequence[Message]) -> Sequence[Message]:
    records = [BeginTransactionRecord(name="Bootstrap records"), *bootstrap]
    if any(_enables_elr(record) for record in bootstrap):
        records += min_isr_records(state)
    return [*records, EndTransactionRecord()]


def _enables_elr(record: Message) -> bool:
    return (
        isinstance(record, FeatureLevelRecord) and record.name == ELIGIBLE_LEADER_REPLICAS and record.feature_level > 0
    )
