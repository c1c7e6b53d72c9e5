"""Which brokers the active controller still hears, and how far they are in the metadata log.

A broker that is not heard of for `broker.session.timeout.ms` is fenced (KIP-631). Nothing of this survives: a new active
controller gives every unfenced broker a whole session from the moment when it took over, since it cannot know what the
one before it heard.

A broker that shuts down may stop only when every active broker knows who leads in its place, so that no client is sent to it
any more: until then its leave is not granted (`may_stop`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...metadata.image import BrokerImage, MetadataImage

#: A broker says nothing of what it has before its first heartbeat.
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
        #: Up to where the others must have come before a broker that shuts down may stop.
        self._shutdown_offsets: dict[int, int] = {}

    def begin(self, image: MetadataImage, now: int) -> None:
        """This controller has become the active one."""
        self._sessions.clear()
        self._shutdown_offsets.clear()
        for broker in image.cluster.brokers.values():
            if not broker.fenced:
                self._sessions[broker.id] = _Session(broker.epoch, now + self.session_timeout_ms, _NOTHING)

    def heard(self, broker_id: int, epoch: int, metadata_offset: int, now: int) -> None:
        """A heartbeat has come; whether it is a registered incarnation's is seen when its session ends."""
        self._sessions[broker_id] = _Session(epoch, now + self.session_timeout_ms, metadata_offset)

    def has(self, broker: BrokerImage) -> bool:
        """Whether this incarnation's session goes on."""
        session = self._sessions.get(broker.id)
        return session is not None and session.epoch == broker.epoch

    def shuts_down(self, broker_id: int, offset: int) -> None:
        """`offset`: where the last record stands by which its leaders moved, so far."""
        self._shutdown_offsets.setdefault(broker_id, offset)

    def moved(self, broker_id: int, offset: int) -> None:
        """More leaders have moved of a broker that may be one that shuts down."""
        if broker_id in self._shutdown_offsets:
            self._shutdown_offsets[broker_id] = offset

    def may_stop(self, broker: BrokerImage, image: MetadataImage) -> bool:
        """Whether every active broker that is heard knows that this one leads nothing any more."""
        offset = self._shutdown_offsets.get(broker.id, _NOTHING)
        return all(
            session.metadata_offset >= offset
            for broker_id, session in self._sessions.items()
            if broker_id != broker.id and (other := image.broker(broker_id)) is not None and other.is_active
        )

    def forget(self, broker_id: int) -> None:
        """It was fenced, or has stopped."""
        self._sessions.pop(broker_id, None)
        self._shutdown_offsets.pop(broker_id, None)

    def deadline(self) -> int | None:
        return min((session.deadline for session in self._sessions.values()), default=None)

    def expire(self, now: int, image: MetadataImage) -> list[BrokerImage]:
        """The unfenced brokers whose sessions are over; each is named once. A clock that was set back makes none longer
        than a whole one.
        """
        for session in self._sessions.values():
            session.deadline = min(session.deadline, now + self.session_timeout_ms)
        over = [broker_id for broker_id, session in self._sessions.items() if session.deadline <= now]
        found: list[BrokerImage] = []
        for broker_id in sorted(over):
            session, broker = self._sessions[broker_id], image.broker(broker_id)
            self.forget(broker_id)
            if broker is not None and broker.epoch == session.epoch and not broker.fenced:
                found.append(broker)
        return found
