"""min.insync.replicas with ELR enabled: one cluster-wide value, no broker-level values."""

from __future__ import annotations

from ...metadata.configs import BrokerValues
from ...metadata.image import BROKER_RESOURCE
from ...protocol.internal.cluster_metadata import ConfigRecord
from ...protocol.schema import Message
from .state import ControllerState

MIN_ISR = "min.insync.replicas"


def min_isr_records(state: ControllerState) -> list[Message]:
    """Returns records that set min.insync.replicas cluster-wide and delete broker-level values (KIP-966)."""
    made: list[Message] = []
    if MIN_ISR not in state.image.config(BROKER_RESOURCE, ""):
        value = str(BrokerValues(state.static).get(MIN_ISR))
        made.append(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=MIN_ISR, value=value))
    for (resource_type, name), configs in sorted(state.image.configs.items(), key=lambda item: item[0]):
        if resource_type == BROKER_RESOURCE and name and MIN_ISR in configs:
            made.append(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=name, name=MIN_ISR, value=None))
    return made
