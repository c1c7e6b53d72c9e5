"""A controller among others makes itself known: each process registers with the active controller, once (KIP-919)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..quorum.registration import Registration, new_incarnation_id

if TYPE_CHECKING:
    from ..node import Node

_TIMEOUT_MS = 5_000
_RETRY_BACKOFF_MS = 200


class ControllerRegistrar:
    def __init__(self, broker: Node, registration: Registration) -> None:
        self._broker = broker
        self._registration = registration
        self._incarnation_id = new_incarnation_id()
        self._is_asking = False

    def start(self) -> None:
        self._broker.controller.on_leader_changed.append(self.look)
        self._broker.on_published.append(lambda image: self.look())

    def look(self) -> None:
        """Asks when what is published does not have this process yet. A new cluster has no features before it has begun."""
        broker, image = self._broker, self._broker.image
        known = image.cluster.controllers.get(broker.node_id)
        is_known = known is not None and known.incarnation_id == self._incarnation_id
        if is_known or self._is_asking or not image.features.finalized:
            return
        self._is_asking = True
        request = self._registration.of_controller(image.features, self._incarnation_id)
        broker.forwarding().send_to_controller(request, self._answered, timeout_ms=_TIMEOUT_MS)

    def _answered(self, response: Any) -> None:
        """Handles the response. An accepted registration is published soon and checked then; a failed one is sent
        again.
        """
        self._is_asking = False
        if response is None or response.error_code:
            self._broker.call_at(self._broker.now_ms() + _RETRY_BACKOFF_MS, self.look)
