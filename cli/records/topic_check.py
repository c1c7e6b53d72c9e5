"""The topic that records are written to: it must exist, or be asked for.

Apache Kafka's console producer and kcat leave this to the brokers, which create each topic that a producer names unless
`auto.create.topics.enable` is false. A misspelt name is then a new topic, and its records are missing in the other one.
"""

from __future__ import annotations

import contextlib

from ...admin.connection import Connection
from ...client.error_kinds import ErrorKind
from ...client.explained_errors import from_library
from ...client.suggestions import did_you_mean
from ...client.user_errors import UserError
from ...protocol.codec import MalformedMessage
from ...protocol.errors import ErrorCode
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ..messages import warn

#: The first version that can leave the creation of topics out. Brokers since 0.11 have it.
_METADATA_VERSION = 4


def check_topic(connection: Connection, name: str, *, creates: bool, dry_run: bool = False) -> None:
    """Raises UserError for a topic that does not exist. With `creates` it is created, unless this is a dry run."""
    if _is_listed(connection, name):
        return
    # Most topics exist, and need nothing of it.
    from ...admin.errors import ResponseError
    from ...admin.topic_changes import NewTopic, create_topics, wait_for_topics
    from ...admin.topics import describe_topics

    with connection.admin() as admin:
        (topic,) = describe_topics(admin, [name])
        if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        if not creates:
            known = [one.name for one in describe_topics(admin, None) if not one.is_internal]
            hint = did_you_mean(name, known)
            raise UserError(f"topic {name} does not exist{hint or ';'} --create creates it", ErrorKind.NOT_FOUND)
        (made,) = create_topics(admin, {name: NewTopic()}, validate_only=dry_run)
        if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            error = from_library(ResponseError(f"topic {name}", made.error_code, made.error_message))
            assert error is not None
            raise error
        if not dry_run:
            wait_for_topics(admin, [name])
        warn(f"topic {name} {'would be' if dry_run else 'is'} created")


def _is_listed(connection: Connection, name: str) -> bool:
    """Whether one of the brokers lists the topic, by a connection that takes less time than an administrator's."""
    connection.reach()
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    for address in connection.addresses:
        with contextlib.suppress(OSError, MalformedMessage), connection.blocking(address) as broker:
            (topic,) = broker.ask(request, _METADATA_VERSION).topics
            is_listed: bool = topic.error_code == ErrorCode.NONE
            return is_listed
    return False
