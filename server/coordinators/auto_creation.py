"""Topics that clients name, created on their first use (auto.create.topics.enable)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Unpack

from ...client.shown_text import shown, shown_reason
from ...metadata.internal_topics import INTERNAL_TOPICS
from ...protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ...protocol.messages.create_topics import CreateTopicsResponse
    from ..controller.controller_request import ClientFields, Submit
    from ..runtime.log_lines import RepeatedLines

auto_creation_log = logging.getLogger("odradek.topics")
#: Topics in one request to the controller, which decides on all of them in one turn of the loop.
MAX_AT_ONCE = 100
#: Topics that wait to be created. Clients retry, so the others are created later.
MAX_WANTED = 10_000


class AutoCreation:
    """Requests the topics from the controller, each once at a time; clients request the metadata again later.

    `create_internal` creates an internal topic, with the settings of its coordinator.
    """

    def __init__(self, submit: Submit, create_internal: Callable[[str], None], lines: RepeatedLines) -> None:
        self._submit = submit
        self._create_internal = create_internal
        self._lines = lines
        #: Topics to create, each with the client that asked first. The first client's may have been requested already.
        self._wanted: dict[str, ClientFields] = {}
        self._is_asking = False

    def create(self, topic: str, **client: Unpack[ClientFields]) -> None:
        """Creates a topic that does not exist, on behalf of a client; its name is legal."""
        if topic in INTERNAL_TOPICS:
            self._create_internal(topic)
        elif len(self._wanted) < MAX_WANTED:
            self._wanted.setdefault(topic, client)
            if not self._is_asking:
                self._is_asking = True
                asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        from ...protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

        client = next(iter(self._wanted.values()))
        asked = [name for name in islice(self._wanted, MAX_AT_ONCE) if self._wanted[name] == client]
        topics = [CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in asked]

        def created(response: CreateTopicsResponse) -> None:
            for name in asked:
                self._wanted.pop(name, None)
            self._log_outcome(response)
            self._is_asking = bool(self._wanted)
            if self._wanted:
                asyncio.get_running_loop().call_soon(self._ask)

        request = CreateTopicsRequest(topics=topics)
        # From version 7 on the controller holds a client strictly to its quota of new partitions (KIP-599).
        self._submit(request, request.newest_version(), created, **client)

    def _log_outcome(self, response: CreateTopicsResponse) -> None:
        """Logs failures, each once in a while: a client retries for a topic that cannot be created."""
        for topic in response.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                words = f"could not create topic {shown(topic.name)}: {shown_reason(topic.error_message)}"
                self._lines.log(auto_creation_log, logging.WARNING, "", ("auto-creation", topic.error_code), words)
