"""Creation of topics on their first use, by a request to the controller."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...storage.files.failures import advice
from ...storage.files.room import check_room

if TYPE_CHECKING:
    from ...protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
    from ..runtime.log_lines import RepeatedLines

log = logging.getLogger("odradek.groups")
CREATE_TOPICS_TIMEOUT_MS = 30_000
#: Sends the request, of the newest version, to the active controller. The callback gets the response when the active
#: controller has published the topics; this broker may still have an older image.
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
        """Creates the topic. `done` is called when the active controller has published it, or it could not be created: this
        broker may still have an older image.
        """
        from ...protocol.messages.create_topics import CreateTopicsRequest

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
