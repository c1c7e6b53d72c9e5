"""Creates topics on their first use: internal ones of coordinators and streams groups, and auto.create.topics.enable.

- `TopicCreation`: creates one internal topic for its coordinator.
- `StreamsTopics`: creates the internal topics of streams groups' topologies (KIP-1071).
- `AutoCreation`: creates the topics that clients request metadata of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Unpack

from ...client.shown_text import shown, shown_reason
from ...metadata.image import INTERNAL_TOPICS
from ...protocol.errors import ErrorCode
from ...storage.files.open_files import advice, check_room

if TYPE_CHECKING:
    from ...protocol.messages.streams_groups import StreamsGroupHeartbeatResponse
    from ...protocol.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
    from ..controller.commits import ClientFields
    from ..controller.driver import Submit
    from ..runtime.log_lines import RepeatedLines


log = logging.getLogger("odradek.groups")

CREATE_TOPICS_VERSION = 7
CREATE_TOPICS_TIMEOUT_MS = 30_000

#: Sends the request, of CREATE_TOPICS_VERSION, to the active controller. The callback gets the response when the topics
#: are published on this broker.
CreateTopics = Callable[["CreateTopicsRequest", Callable[["CreateTopicsResponse"], None]], None]
#: The same on behalf of a client that the controller must authorize: principal and host, or None.
CreateTopicsFor = Callable[
    ["CreateTopicsRequest", Callable[["CreateTopicsResponse"], None], "tuple[str, str] | None"], None
]


class TopicCreation:
    """Creates one internal topic, with one request in flight. `metadata_log_dir` must have room for it."""

    def __init__(self, metadata_log_dir: str, lines: RepeatedLines, create_topics: CreateTopics) -> None:
        self._metadata_log_dir = metadata_log_dir
        self._lines = lines
        self._create_topics = create_topics
        #: Callbacks that wait for the creation.
        self._waiting: list[Callable[[], None]] = []

    def create(self, topic: CreatableTopic, done: Callable[[], None]) -> None:
        """Creates the topic. `done` is called when it is published on this broker or could not be created."""
        from ...protocol.messages.topics import CreateTopicsRequest

        self._waiting.append(done)
        if len(self._waiting) > 1:
            return
        try:
            check_room(self._metadata_log_dir)
        except OSError as error:
            words = f"{topic.name} cannot be created: {error}{advice(error)}"
            self._lines.log(log, logging.ERROR, "", ("no room", topic.name), words)
            self._finish()
            return
        self._create_topics(CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_TOPICS_TIMEOUT_MS), self._created)

    def _created(self, response: CreateTopicsResponse) -> None:
        for result in response.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                words = ErrorCode(result.error_code).name
                log.error("%s cannot be created: %s (%s)", result.name, words, result.error_message)
        self._finish()

    def _finish(self) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()


# ---- topics of streams groups

MISSING_INTERNAL_TOPICS = 3
#: The number of creation errors that a heartbeat response contains.
REPORTED_ERRORS = 3
#: The number of errors kept. The next creation of a topic overwrites or clears its error.
REMEMBERED_ERRORS = 1_000


class StreamsTopics:
    """Creates the internal topics of topologies, with one creation in flight per topic. Members repeat their request
    until the topics exist.
    """

    def __init__(self, create_topics: CreateTopicsFor) -> None:
        self._create_topics = create_topics
        self._in_flight: set[str] = set()
        #: Topic -> why it could not be created.
        self._errors: dict[str, str] = {}

    def create(self, topics: Iterable[CreatableTopic], client: tuple[str, str] | None = None) -> None:
        """`client`: principal and host of the member, where the controller authorizes clients."""
        new = [topic for topic in topics if topic.name not in self._in_flight]
        if not new:
            return
        from ...protocol.messages.topics import CreateTopicsRequest

        names = {topic.name for topic in new}
        self._in_flight |= names

        def created(response: CreateTopicsResponse) -> None:
            self._in_flight -= names
            for result in response.topics:
                self._errors.pop(result.name, None)
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    if len(self._errors) >= REMEMBERED_ERRORS:
                        self._errors.clear()
                    self._errors[result.name] = result.error_message or ErrorCode(result.error_code).name

        request = CreateTopicsRequest(topics=new, timeout_ms=CREATE_TOPICS_TIMEOUT_MS)
        self._create_topics(request, created, client)

    def tell_unauthorized(self, response: StreamsGroupHeartbeatResponse, topics: Iterable[str]) -> None:
        """Adds the topics that the member may not create to the status that reports missing internal topics."""
        words = f"Unauthorized to CREATE on topics {', '.join(topics)}."
        missing = [status for status in response.status or () if status.status_code == MISSING_INTERNAL_TOPICS]
        if missing:
            missing[0].status_detail += f"; {words}"
        else:
            from ...protocol.messages.streams_groups import Status

            status = Status(status_code=MISSING_INTERNAL_TOPICS, status_detail=words)
            response.status = [*(response.status or ()), status]

    def tell_errors(self, response: StreamsGroupHeartbeatResponse, topics: Iterable[CreatableTopic]) -> None:
        """Adds creation errors to the status that reports missing internal topics."""
        errors = [f"{topic.name} ({self._errors[topic.name]})" for topic in topics if topic.name in self._errors]
        if not errors:
            return
        words = ", ".join(errors[:REPORTED_ERRORS])
        if len(errors) > REPORTED_ERRORS:
            words += f" and {len(errors) - REPORTED_ERRORS} more"
        for status in response.status or ():
            if status.status_code == MISSING_INTERNAL_TOPICS:
                status.status_detail += f"; Creation failed: {words}."


# ---- topics of clients

auto_creation_log = logging.getLogger("odradek.topics")

#: With it the controller holds a client strictly to its quota of new partitions (KIP-599).
_VERSION = 7
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
        from ...protocol.messages.topics import CreatableTopic, CreateTopicsRequest

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

        self._submit(CreateTopicsRequest(topics=topics), _VERSION, created, **client)

    def _log_outcome(self, response: CreateTopicsResponse) -> None:
        """Logs failures, each once in a while: a client retries for a topic that cannot be created."""
        for topic in response.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                words = f"could not create topic {shown(topic.name)}: {shown_reason(topic.error_message)}"
                self._lines.log(auto_creation_log, logging.WARNING, "", ("auto-creation", topic.error_code), words)
