"""Changes that records make to the registrations of brokers and controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from immutables import Map

from .changed_maps import applied
from .image import BrokerImage, ClusterImage, ControllerImage, Endpoint

if TYPE_CHECKING:
    from ..protocol.internal.cluster_metadata import (
        BrokerEndpoint,
        BrokerFeature,
        BrokerRegistrationChangeRecord,
        ControllerEndpoint,
        ControllerFeature,
        RegisterBrokerRecord,
        RegisterControllerRecord,
        UnregisterBrokerRecord,
        UnregisterControllerRecord,
    )


class ClusterDelta:
    """The changed registrations by node id: an image if new or changed, None if removed."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.brokers: dict[int, BrokerImage | None] = {}
        self.controllers: dict[int, ControllerImage | None] = {}

    def __bool__(self) -> bool:
        return bool(self.brokers or self.controllers)

    def replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = broker_from_record(record)

    def replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = None

    def replay_fencing(self, broker_id: int, epoch: int, fenced: bool) -> None:
        self.brokers[broker_id] = self._broker(broker_id, epoch)._replace(fenced=fenced)

    def replay_broker_change(self, record: BrokerRegistrationChangeRecord) -> None:
        """Replays a change record. In `fenced`, 1 fences, -1 unfences and 0 leaves it. Controlled shutdown can only be
        entered.
        """
        broker = self._broker(record.broker_id, record.broker_epoch)
        cordoned = record.cordoned_log_dirs
        self.brokers[record.broker_id] = broker._replace(
            fenced=broker.fenced if record.fenced == 0 else record.fenced == 1,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
            directories=tuple(sorted(record.log_dirs)) if record.log_dirs else broker.directories,
            cordoned_directories=broker.cordoned_directories if cordoned is None else tuple(sorted(cordoned)),
        )

    def replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = ControllerImage(
            record.controller_id,
            record.incarnation_id,
            record.zk_migration_ready,
            _listeners(record.end_points),
            _features(record.features),
        )

    def replay_unregister_controller(self, record: UnregisterControllerRecord) -> None:
        self.controllers[record.controller_id] = None

    def apply(self) -> ClusterImage:
        return ClusterImage(
            applied(self.image.brokers, self.brokers), applied(self.image.controllers, self.controllers)
        )

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self.brokers[broker_id] if broker_id in self.brokers else self.image.brokers.get(broker_id)
        assert broker is not None, f"a record changes broker {broker_id}, which is not registered"
        assert broker.epoch == epoch, f"a record for epoch {epoch} of broker {broker_id}, whose epoch is {broker.epoch}"
        return broker


def broker_from_record(record: RegisterBrokerRecord) -> BrokerImage:
    return BrokerImage(
        record.broker_id,
        record.broker_epoch,
        record.incarnation_id,
        _listeners(record.end_points),
        _features(record.features),
        record.rack,
        record.fenced,
        record.in_controlled_shutdown,
        record.is_migrating_zk_broker,
        tuple(sorted(record.log_dirs)),
        tuple(sorted(record.cordoned_log_dirs or ())),
    )


def _listeners(endpoints: Sequence[BrokerEndpoint | ControllerEndpoint]) -> Map[str, Endpoint]:
    return Map({e.name: Endpoint(e.name, e.host, e.port, e.security_protocol) for e in endpoints})


def _features(features: Sequence[BrokerFeature | ControllerFeature]) -> Map[str, tuple[int, int]]:
    return Map({f.name: (f.min_supported_version, f.max_supported_version) for f in features})
