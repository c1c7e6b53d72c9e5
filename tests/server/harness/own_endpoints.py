"""The endpoints of a node that has no listener, and its registration with them."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller.registration import OwnEndpoints, Registration
from odradek.storage.directory import LogDirectory


class SetEndpoints(OwnEndpoints):
    """`advertised`: those of the broker. `controller`: those of the controller."""

    def __init__(self, advertised: Sequence[Endpoint] = (), controller: Sequence[Endpoint] = ()) -> None:
        self.advertised, self.controller = list(advertised), list(controller)

    def advertised_endpoints(self) -> list[Endpoint]:
        return self.advertised

    def controller_endpoints(self) -> list[Endpoint]:
        return self.controller


def registration_of(
    config: BrokerConfig,
    *,
    advertised: Sequence[Endpoint] = (),
    controller: Sequence[Endpoint] = (),
    directories: Sequence[LogDirectory] = (),
    cluster_id: str = "cluster",
) -> Registration:
    return Registration(config.node_id, cluster_id, config, SetEndpoints(advertised, controller), directories)
