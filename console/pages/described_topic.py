"""The description of a topic, which a viewer may have just created."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...admin.errors import ResponseError
from ...admin.topics import Topic, described_topics
from ...client.error_kinds import ErrorKind, kind_of_code

if TYPE_CHECKING:
    from ...admin.session import Admin

_NEW_TOPIC_S, _NEW_TOPIC_POLL_S = 5.0, 0.1


def described(admin: Admin, name: str, *, is_new: bool) -> Topic:
    """Returns the topic. A broker may not have the metadata of a topic that a viewer has just made."""
    deadline = time.monotonic() + (_NEW_TOPIC_S if is_new else 0)
    while True:
        try:
            (found,) = described_topics(admin, [name])
            return found
        except ResponseError as error:
            if kind_of_code(error.code) != ErrorKind.NOT_FOUND or time.monotonic() >= deadline:
                raise
            time.sleep(_NEW_TOPIC_POLL_S)
