"""Brokers and controllers of the cluster: registration with the active controller, heartbeats, removal, envelopes."""

from __future__ import annotations

from ..schema import (
    BOOL,
    BYTES,
    ERROR_TEXT,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Message,
    array,
    message,
    struct,
    wire,
)

# BrokerRegistration (key 62): a broker enters the cluster.
#
# The controller gives it an epoch, which its heartbeats carry, and fences it until it has caught up with the metadata
# log. A node id in use by another process is DUPLICATE_BROKER_REGISTRATION until that one's session ends; features must
# fit the cluster's (KIP-631).
#
# Versions 0-4, all flexible. Additions by version:
# - 1: migration from ZooKeeper (no longer)
# - 2: log directories (KIP-858)
# - 3: the epoch before a clean shutdown, for eligible leader replicas (KIP-966)
# - 4: a feature may start at level 0


@struct
class Listener(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
    security_protocol: int = wire(INT16)


@struct
class Feature(Message):
    name: str = wire(STRING)
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@message("0-4", flexible="0+", key=62)
class BrokerRegistrationRequest(Message):
    broker_id: int = wire(INT32)
    cluster_id: str = wire(STRING)
    incarnation_id: bytes = wire(UUID)
    listeners: list[Listener] = wire(array(Listener))
    features: list[Feature] = wire(array(Feature))
    rack: str | None = wire(STRING, nullable="0+")
    is_migrating_zk_broker: bool = wire(BOOL, "1+")
    log_dirs: list[bytes] = wire(array(UUID), "2+")
    previous_broker_epoch: int = wire(INT64, "3+", default=-1)


@message("0-4", flexible="0+", key=62)
class BrokerRegistrationResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    broker_epoch: int = wire(INT64, default=-1)


# BrokerHeartbeat (key 63): a broker is alive, and how far it is in the metadata log.
#
# Asks to be unfenced when it has caught up, and to shut down in order: leadership is taken off it first (KIP-631).
# Silence for `broker.session.timeout.ms` fences it.
#
# Versions 0-2, all flexible. Additions by version:
# - 1: log directories that have failed (KIP-858)
# - 2: log directories that take no new partitions (KIP-1066)


@message("0-2", flexible="0+", key=63)
class BrokerHeartbeatRequest(Message):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    current_metadata_offset: int = wire(INT64)
    want_fence: bool = wire(BOOL)
    want_shut_down: bool = wire(BOOL)
    offline_log_dirs: list[bytes] = wire(array(UUID), "1+", tag=0)
    cordoned_log_dirs: list[bytes] | None = wire(array(UUID), "2+", nullable="2+", tag=1, default=None)


@message("0-2", flexible="0+", key=63)
class BrokerHeartbeatResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    is_caught_up: bool = wire(BOOL)
    is_fenced: bool = wire(BOOL, default=True)
    should_shut_down: bool = wire(BOOL)


# ControllerRegistration (key 70): a controller makes its listeners and features known.
#
# To the active controller, after it started and after every change of it; how brokers find all controllers (KIP-919).
#
# Version 0, flexible.


@message("0", flexible="0+", key=70)
class ControllerRegistrationRequest(Message):
    controller_id: int = wire(INT32)
    incarnation_id: bytes = wire(UUID)
    zk_migration_ready: bool = wire(BOOL)
    listeners: list[Listener] = wire(array(Listener))
    features: list[Feature] = wire(array(Feature))


@message("0", flexible="0+", key=70)
class ControllerRegistrationResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


# UnregisterBroker (key 64): removes a broker that is gone for good.
#
# Its registration goes, so that it counts no longer for features and is shown no more (KIP-631).
#
# Version 0, flexible.


@message("0", flexible="0+", key=64)
class UnregisterBrokerRequest(Message):
    broker_id: int = wire(INT32)


@message("0", flexible="0+", key=64)
class UnregisterBrokerResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


# UnregisterController (key 94): removes the registration of a controller that is gone.
#
# Its features count no longer when features are raised. For one that was stopped for good: a live one registers again.
# The active controller refuses to remove itself (INVALID_REQUEST); CONTROLLER_ID_NOT_REGISTERED where there is none.
#
# Version 0, flexible.


@message("0", flexible="0+", key=94)
class UnregisterControllerRequest(Message):
    controller_id: int = wire(INT32)


@message("0", flexible="0+", key=94)
class UnregisterControllerResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


# Envelope (key 58): a request that a broker hands on to the controller for a client.
#
# It holds the whole request with its header, the client's principal and address; the response holds the whole response.
# Only from brokers (CLUSTER_AUTHORIZATION_FAILED else), and only for requests that may be handed on (KIP-590).
#
# Version 0, flexible.
#
# The principal, `DefaultPrincipalData`, is preceded by its version, an int16. Kafka's default principal builder reads and
# writes it.


@message("0", flexible="0+", key=58)
class EnvelopeRequest(Message):
    request_data: bytes = wire(BYTES)
    request_principal: bytes | None = wire(BYTES, nullable="0+")
    client_host_address: bytes = wire(BYTES)


@message("0", flexible="0+", key=58)
class EnvelopeResponse(Message):
    response_data: bytes | None = wire(BYTES, nullable="0+", default=None)
    error_code: int = wire(INT16)


@message("0", flexible="0+")
class DefaultPrincipalData(Message):
    type: str = wire(STRING)
    name: str = wire(STRING)
    token_authenticated: bool = wire(BOOL)
