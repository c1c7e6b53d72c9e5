"""Topics that come to be because somebody asks for them: with auto.create.topics.enable, and the internal ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ErrorCode
from ..protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ..protocol.schema import Message
from .internal_topics import INTERNAL_TOPICS, SHARE_GROUP_STATE_TOPIC

if TYPE_CHECKING:
    from .broker import BrokerServer

log = logging.getLogger("odradek.topics")

_VERSION = 4


class AutoCreation:
    """Asks the controller, once for each topic at a time; who wants the topic asks for its metadata again later."""

    def __init__(self, broker: BrokerServer) -> None:
        self._broker = broker
        self._in_flight: set[str] = set()

    def create(self, names: Iterable[str]) -> None:
        """`names` are legal ones of topics that do not exist."""
        new = [name for name in dict.fromkeys(names) if name not in self._in_flight]
        broker = self._broker
        for topic in INTERNAL_TOPICS.intersection(new):
            new.remove(topic)
            if topic == SHARE_GROUP_STATE_TOPIC:
                broker.share_states.ensure_topic(lambda: None)
            else:
                (broker.groups if topic == broker.groups.topic else broker.transactions).ensure_topic(lambda: None)
        if not new:
            return
        self._in_flight.update(new)
        topics = [CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in new]

        def created(response: Message) -> None:
            self._in_flight.difference_update(new)
            _log_outcome(response)

        self._broker.controller.submit(CreateTopicsRequest(topics=topics), _VERSION, created)


def _log_outcome(response: Any) -> None:
    for topic in response.topics:
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            log.warning("could not create topic %s: %s", topic.name, topic.error_message)
