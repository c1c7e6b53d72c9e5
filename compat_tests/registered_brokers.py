"""Brokers that exist only in the metadata: registered and unfenced, without a process."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest
from odradek.protocol.messages.registrations import RegisteredFeature, RegisteredListener

from .wire import WireClient


def register_brokers(
    controller: str, cluster_id: str, brokers: Iterable[int], port: int, features: dict[str, tuple[int, int]]
) -> None:
    """Registers brokers that all advertise this port of 127.0.0.1. Their sessions begin now."""
    supported = [
        RegisteredFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in features.items()
    ]
    wire = WireClient(controller)
    for number in brokers:
        listener = RegisteredListener(name="PLAINTEXT", host="127.0.0.1", port=port, security_protocol=0)
        request = BrokerRegistrationRequest(
            broker_id=number,
            cluster_id=cluster_id,
            incarnation_id=number.to_bytes(16, "big"),
            listeners=[listener],
            features=supported,
            log_dirs=[(number << 64).to_bytes(16, "big")],
        )
        registration = wire.call(request, 4)
        assert not registration.error_code, registration
        beat = BrokerHeartbeatRequest(
            broker_id=number, broker_epoch=registration.broker_epoch, current_metadata_offset=1 << 40, want_fence=False
        )
        heartbeat = wire.call(beat, 1)
        assert not heartbeat.error_code, heartbeat
