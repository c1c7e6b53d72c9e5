"""Broker sessions of the active controller, and each broker's metadata offset.

A broker without a heartbeat for `broker.session.timeout.ms` is fenced (KIP-631). Sessions are not persisted. A new
active controller gives every unfenced broker a full session from its takeover, since it cannot know the heartbeats
that its predecessor received.

A broker in controlled shutdown may stop only when every active broker has the metadata of its new leaders, so that
clients are not sent to it any more (`may_stop`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...metadata.image import BrokerImage, MetadataImage

#: The metadata offset of a broker before its first heartbeat.
_NOTHING = -1


@dataclass(slots=True)
class _Session:
    epoch: int
    deadline: int
    metadata_offset: int


class BrokerSessions:
    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._sessions: dict[int, _Session] = {}
        #: The offset that the other brokers must reach before a broker in controlled shutdown may stop.
        self._shutdown_offsets: dict[int, int] = {}

    def begin(self, image: MetadataImage, now_ms: int) -> None:
        """Starts the sessions when this controller becomes active."""
        self._sessions.clear()
        self._shutdown_offsets.clear()
        for broker in image.cluster.brokers.values():
            if not broker.fenced:
                self._sessions[broker.id] = _Session(broker.epoch, now_ms + self.session_timeout_ms, _NOTHING)

    def heard(self, broker_id: int, epoch: int, metadata_offset: int, now_ms: int) -> None:
        """Records a heartbeat. The broker epoch is checked against the registration when the session expires."""
        self._sessions[broker_id] = _Session(epoch, now_ms + self.session_timeout_ms, metadata_offset)

    def has(self, broker: BrokerImage) -> bool:
        """Returns whether this incarnation of the broker has a session."""
        session = self._sessions.get(broker.id)
        return session is not None and session.epoch == broker.epoch

    def shuts_down(self, broker_id: int, offset: int) -> None:
        """Starts a controlled shutdown. `offset`: the offset of the last record so far that moved its leaderships."""
        self._shutdown_offsets.setdefault(broker_id, offset)

    def moved(self, broker_id: int, offset: int) -> None:
        """Records that further leaderships moved off a broker, if it is in controlled shutdown."""
        if broker_id in self._shutdown_offsets:
            self._shutdown_offsets[broker_id] = offset

    def may_stop(self, broker: BrokerImage, image: MetadataImage) -> bool:
        """Returns whether every active broker with a session has the metadata in which this broker leads nothing."""
        offset = self._shutdown_offsets.get(broker.id, _NOTHING)
        return all(
            session.metadata_offset >= offset
            for broker_id, session in self._sessions.items()
            if broker_id != broker.id and (other := image.broker(broker_id)) is not None and other.is_active
        )

    def forget(self, broker_id: int) -> None:
        """Removes the session of a broker that was fenced or has stopped."""
        self._sessions.pop(broker_id, None)
        self._shutdown_offsets.pop(broker_id, None)

    def deadline(self) -> int | None:
        return min((session.deadline for session in self._sessions.values()), default=None)

    def expire(self, now_ms: int, image: MetadataImage) -> list[BrokerImage]:
        """Returns the unfenced brokers whose sessions expired, each once.

        If the clock was set back, no session lasts longer than the full timeout.
        """
        for session in self._sessions.values():
            session.deadline = min(session.deadline, now_ms + self.session_timeout_ms)
        over = [broker_id for broker_id, session in self._sessions.items() if session.deadline <= now_ms]
        found: list[BrokerImage] = []
        for broker_id in sorted(over):
            session, broker = self._sessions[broker_id], image.broker(broker_id)
            self.forget(broker_id)
            if broker is not None and broker.epoch == session.epoch and not broker.fenced:
                found.append(broker)
        return found
