"""Internal topics of streams groups, created on their first use (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from .topic_creation import CREATE_TOPICS_TIMEOUT_MS, CreateTopicsFor

if TYPE_CHECKING:
    from ...protocol.messages.create_topics import CreatableTopic, CreateTopicsResponse
    from ...protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

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
        from ...protocol.messages.create_topics import CreateTopicsRequest

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
            from ...protocol.messages.streams_group_heartbeat import StreamsStatus

            status = StreamsStatus(status_code=MISSING_INTERNAL_TOPICS, status_detail=words)
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
