"""The registrations of this node: as a broker, and as a controller."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ...metadata.features import supported_features
from ...protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ...protocol.messages.broker_registration import BrokerRegistrationRequest
from ...protocol.messages.registrations import RegisteredFeature, RegisteredListener
from ...replication.random_source import random_uuid
from ..config.listeners import SECURITY_PROTOCOLS
from ..partitions.cordoning import cordoned_ids

if TYPE_CHECKING:
    from ...protocol.messages.controller_registration import ControllerRegistrationRequest
    from ...storage.directory import LogDirectory
    from ..config.broker_config import BrokerConfig
    from ..config.endpoint import Endpoint


class OwnEndpoints(Protocol):
    """The endpoints of this node, as others reach them. See ListenerSet."""

    def advertised_endpoints(self) -> list[Endpoint]: ...

    def controller_endpoints(self) -> list[Endpoint]: ...


def new_incarnation_id() -> bytes:
    """Returns the id of one life of a process: a registration with another id replaces it."""
    return random_uuid(random.SystemRandom())


class Registration:
    """The requests of one node. `directories`: the log directories that could be opened."""

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        config: BrokerConfig,
        endpoints: OwnEndpoints,
        directories: Sequence[LogDirectory],
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.endpoints = endpoints
        self._config = config
        self._directories = directories

    def of_broker(self, incarnation_id: bytes, *, kill_loses_nothing: bool = False) -> BrokerRegistrationRequest:
        """Returns the registration as a broker. `previous_broker_epoch` shows that the last stop was clean: then every
        directory has stored the same epoch. With `kill_loses_nothing` the end of a process counts as such a stop, if the
        machine has run since.
        """
        epochs = {directory.previous_broker_epoch for directory in self._directories}
        if kill_loses_nothing and epochs == {-1}:
            epochs = {directory.interrupted_broker_epoch or -1 for directory in self._directories}
        return BrokerRegistrationRequest(
            broker_id=self.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=incarnation_id,
            listeners=self._listeners(self.endpoints.advertised_endpoints()),
            features=_features(),
            rack=self._config.get("broker.rack"),
            log_dirs=[d.directory_id for d in self._directories if d.directory_id is not None],
            previous_broker_epoch=epochs.pop() if len(epochs) == 1 else -1,
        )

    def of_controller(self, incarnation_id: bytes) -> ControllerRegistrationRequest:
        """Returns the registration as a controller (KIP-919)."""
        from ...protocol.messages.controller_registration import ControllerRegistrationRequest  # not of a single node

        return ControllerRegistrationRequest(
            controller_id=self.node_id,
            incarnation_id=incarnation_id,
            listeners=self._listeners(self.endpoints.controller_endpoints()),
            features=_features(),
        )

    def heartbeat(
        self,
        broker_epoch: int,
        metadata_offset: int,
        *,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: Sequence[bytes] = (),
    ) -> BrokerHeartbeatRequest:
        """Returns a heartbeat of the broker. `metadata_offset`: the last one that it has published."""
        return BrokerHeartbeatRequest(
            broker_id=self.node_id,
            broker_epoch=broker_epoch,
            current_metadata_offset=metadata_offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(offline_log_dirs),
            cordoned_log_dirs=cordoned_ids(self._config, self._directories),
        )

    def offline_log_dirs(self) -> list[bytes]:
        """Returns the ids of the directories that have failed."""
        return [d.directory_id for d in self._directories if not d.is_online and d.directory_id is not None]

    def _listeners(self, endpoints: Iterable[Endpoint]) -> list[RegisteredListener]:
        protocols = self._config.listeners.protocols
        return [
            RegisteredListener(
                name=e.name, host=e.host, port=e.port, security_protocol=SECURITY_PROTOCOLS[protocols[e.name]]
            )
            for e in endpoints
        ]


def _features() -> list[RegisteredFeature]:
    return [
        RegisteredFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in supported_features().items()
    ]
