"""The client behind a telemetry request, as subscriptions match it."""

from __future__ import annotations

from ...protocol.uuids import uuid_to_text
from ..network.call import Call
from ..telemetry.subscriptions import Client


def client_of(call: Call, instance_id: bytes) -> Client:
    name, version = call.connection.software or (None, None)
    return Client(
        client_instance_id=uuid_to_text(instance_id),
        client_id=call.client_id,
        client_software_name=name,
        client_software_version=version,
        client_source_address=call.client_host.removeprefix("/"),
        client_source_port=call.connection.remote_address.rpartition(":")[2],
    )
