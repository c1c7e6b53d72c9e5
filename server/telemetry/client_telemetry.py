"""Client telemetry of a broker: takes pushes, shows them to Prometheus, and forwards them to a collector (KIP-714)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ...metadata.image import CLIENT_METRICS_RESOURCE
from ...protocol.errors import ErrorCode
from ..runtime.thread_pools import ThreadPool
from .client_series import ClientSeries
from .export import Collector
from .instances import Instance, Instances, Push
from .otlp import Pushed, UnreadablePush, export_request, read_push
from .subscriptions import ClientLabels, subscriptions

if TYPE_CHECKING:
    from ...metadata.image import ConfigResource, MetadataImage
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines

log = logging.getLogger("odradek.telemetry")
#: Pushes that are read at a time, 2 MB each at most; further ones are THROTTLING_QUOTA_EXCEEDED.
MOST_READING = 16
#: Called once with the error code of the response.
Done = Callable[[int], None]


class ClientTelemetry:
    """The metrics that clients push to this broker. `collector`: None where nothing is forwarded. `pool` reads pushes."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, lines: RepeatedLines, pool: ThreadPool, collector: Collector | None
    ) -> None:
        self.max_bytes = config.get("telemetry.max.bytes")
        self.instances = Instances(self.max_bytes)
        self.series = ClientSeries()
        self.collector = collector
        self.pushes = self.unreadable = 0
        self._clock = clock
        self._lines = lines
        self._pool = pool
        self._reading = 0

    def follow(self, changed: Iterable[ConfigResource], image: MetadataImage) -> None:
        """Takes over the subscriptions of an image. `changed`: the resources whose configs are new in it."""
        if any(kind == CLIENT_METRICS_RESOURCE for kind, _ in changed):
            self.instances.set_subscriptions(subscriptions(image))

    def push(
        self, instance_id: bytes, describe: Callable[[], ClientLabels], connection: object, principal: str, push: Push,
        metrics: bytes, done: Done,
    ) -> None:  # fmt: skip
        """Takes a push. Calls `done` when it is read and shown, now or later."""
        taken = self.instances.push(instance_id, describe, connection, push, self._clock.now_ms())
        if isinstance(taken, ErrorCode):
            done(taken)
        elif not metrics:
            done(ErrorCode.NONE)
        elif self._reading >= MOST_READING:
            done(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        else:
            self._reading += 1
            reading = partial(self._read, bytes(metrics), push.compression_type, taken.client, principal)
            self._pool.run_then(reading, partial(self._was_read, taken, done))

    def disconnected(self, connection: object) -> None:
        self.instances.disconnected(connection)

    async def stop(self) -> None:
        if self.collector is not None:
            await self.collector.stop()

    def _read(
        self, metrics: bytes, compression_type: int, client: ClientLabels, principal: str
    ) -> tuple[Pushed, bytes]:
        """Runs on a thread."""
        pushed = read_push(metrics, compression_type)
        return pushed, b"" if self.collector is None else export_request(pushed, client, principal)

    def _was_read(self, instance: Instance, done: Done, outcome: tuple[Pushed, bytes] | BaseException) -> None:
        self._reading -= 1
        if isinstance(outcome, BaseException):
            self.unreadable += 1
            words = "cannot be read" if isinstance(outcome, UnreadablePush) else "failed"
            client = instance.client
            text = f"a push of metrics of {client.client_source_address} {words}: {outcome!r}"
            self._lines.log(log, logging.WARNING, client.client_source_address, "push", text)
            done(ErrorCode.INVALID_RECORD)
            return
        pushed, exported = outcome
        self.pushes += 1
        now_ms = self._clock.now_ms()
        self.series.take(instance.client, pushed.samples, now_ms + instance.expiry_ms, now_ms)
        self.series.left_out += pushed.skipped
        if self.collector is not None:
            self.collector.forward(exported)
        done(ErrorCode.NONE)
