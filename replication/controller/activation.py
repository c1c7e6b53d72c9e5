"""The first records of a new active controller.

A new cluster gets the features it was formatted with in one transaction (KIP-868), so a crash cannot split them. A
transaction that the previous controller left open is aborted.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...metadata.features import ELIGIBLE_LEADER_REPLICAS
from ...metadata.image import METADATA_VERSION
from ...protocol.internal.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from ...protocol.schema import Message
from .min_isr import min_isr_records
from .state import ControllerState


def activation_records(
    state: ControllerState, bootstrap: Sequence[Message], transaction_open: bool
) -> Sequence[Message]:
    """Returns the first records. `bootstrap`: the records the directory was formatted with.

    `transaction_open`: the log ends inside a transaction.
    """
    records: list[Message] = [AbortTransactionRecord(reason="Controller failover")] if transaction_open else []
    if METADATA_VERSION not in state.image.features.finalized:
        elr = min_isr_records(state) if any(map(_enables_elr, bootstrap)) else []
        return [
            *records,
            BeginTransactionRecord(name="Bootstrap records"),
            *bootstrap,
            *elr,
            EndTransactionRecord(),
        ]
    return records + (min_isr_records(state) if state.elr_enabled else [])


def _enables_elr(record: Message) -> bool:
    if not isinstance(record, FeatureLevelRecord):
        return False
    return record.name == ELIGIBLE_LEADER_REPLICAS and record.feature_level > 0
