"""The registration of this node with the active controller, as a controller (KIP-919)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registration import Registration, new_incarnation_id

if TYPE_CHECKING:
    from ...protocol.messages.controller_registration import ControllerRegistrationResponse
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from ..runtime.metadata_cache import MetadataCache
    from .driver import QuorumDriver
    from .forwarding import Forwarding

_TIMEOUT_MS = 5_000
_RETRY_BACKOFF_MS = 200


class ControllerRegistrar:
    """Sends the registration until the published image has it."""

    def __init__(
        self,
        clock: Clock,
        metadata: MetadataCache,
        controller: QuorumDriver,
        forwarding: Lazy[Forwarding],
        registration: Registration,
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._controller = controller
        self._forwarding = forwarding
        self._registration = registration
        self._incarnation_id = new_incarnation_id()
        self._is_asking = False

    def start(self) -> None:
        self._controller.on_leader_changed.append(self.look)
        self._metadata.on_published.append(lambda image: self.look())

    def look(self) -> None:
        """Registers this process unless the published image has it. A new cluster has no features before its first
        records.
        """
        image = self._metadata.image
        known = image.cluster.controllers.get(self._registration.node_id)
        is_known = known is not None and known.incarnation_id == self._incarnation_id
        if is_known or self._is_asking or not image.features.finalized:
            return
        self._is_asking = True
        request = self._registration.of_controller(self._incarnation_id)
        self._forwarding().send_to_controller(request, self._answered, timeout_ms=_TIMEOUT_MS)

    def _answered(self, response: ControllerRegistrationResponse | None) -> None:
        """Handles the response. An accepted registration is published soon and checked then; a failed one is sent
        again.
        """
        self._is_asking = False
        if response is None or response.error_code:
            self._clock.call_at(self._clock.now_ms() + _RETRY_BACKOFF_MS, self.look)
