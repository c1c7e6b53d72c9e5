"""Topics that come to be because somebody asks for them: with auto.create.topics.enable, and the internal ones."""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode
from ...protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ...protocol.schema import Message
from ..runtime.internal_topics import INTERNAL_TOPICS, SHARE_GROUP_STATE_TOPIC
from ..runtime.peer_text import shown, shown_reason

if TYPE_CHECKING:
    from ..node import Node

log = logging.getLogger("odradek.topics")

_VERSION = 4
#: Topics that one request to the controller has: it decides on all of them in one turn.
MAX_AT_ONCE = 100
#: Topics that wait to be created. Clients ask again, so more may come when these are there.
MAX_WANTED = 10_000


class AutoCreation:
    """Asks the controller, once for each topic at a time; clients that want the topic ask for its metadata again later."""

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        #: Wanted, the first MAX_AT_ONCE of them perhaps asked for already.
        self._wanted: dict[str, None] = {}
        self._is_asking = False

    def create(self, topic: str) -> None:
        """`topic`: the legal name of a topic that does not exist."""
        broker = self._broker
        if topic in INTERNAL_TOPICS:
            if topic == SHARE_GROUP_STATE_TOPIC:
                broker.share_states().ensure_topic(lambda: None)
            else:
                (broker.groups if topic == broker.groups.topic else broker.transactions).ensure_topic(lambda: None)
        elif len(self._wanted) < MAX_WANTED:
            self._wanted[topic] = None
            if not self._is_asking:
                self._is_asking = True
                asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        asked = list(islice(self._wanted, MAX_AT_ONCE))
        topics = [CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in asked]

        def created(response: Message) -> None:
            for name in asked:
                self._wanted.pop(name, None)
            self._log_outcome(response)
            self._is_asking = bool(self._wanted)
            if self._wanted:
                asyncio.get_running_loop().call_soon(self._ask)

        self._broker.controller.submit(CreateTopicsRequest(topics=topics), _VERSION, created)

    def _log_outcome(self, response: Any) -> None:
        """A client asks again and again for a topic that cannot be created."""
        for topic in response.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                words = f"could not create topic {shown(topic.name)}: {shown_reason(topic.error_message)}"
                self._broker.lines.log(log, logging.WARNING, "", ("auto-creation", topic.error_code), words)
