"""The reversal of a link: the former source follows the cluster that has taken its place (docs/development/mirror.md).

Topics are paired by their ids, which are equal on both sides. At the former source they are made read-only first, then its
link begins: each partition is cut behind the last batch that both sides have, and what is cut off is kept as files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..metadata.mirror_keys import (
    ACLS,
    BOOTSTRAP,
    CUTS_DIVERGED,
    GROUPS,
    MIRROR_NAME,
    MIRROR_ORIGINS,
    MIRROR_PARTITIONS,
    MIRROR_TOPIC_ID,
    PREFIX,
    QUOTAS,
    SHARE_GROUPS,
    SOURCE_PREFIX,
    STATE,
    SWITCHED,
    TOPICS,
)
from ..protocol.uuids import uuid_to_text
from ..replication.mirror.change import REVERSE, Effect
from ..replication.mirror.link import Link, LinkState
from .config_changes import Operation, alter_topic_configs
from .configs import describe_topic_configs
from .errors import ResponseError, check
from .mirrors import create_link, delete_link, read_links
from .nodes import describe_cluster
from .topics import described_topics

if TYPE_CHECKING:
    from .session import Admin
    from .topics import Topic

_SET = Operation.SET.name


class NotReversible(Exception):
    """A link that cannot be reversed; the text has the reason."""


def reverse(
    here: Admin, source: Admin, link: Link, back: str, client: Mapping[str, str], *, dry_run: bool
) -> list[str]:
    """Has the former `source` of a link follow this cluster with a link named `back`. Returns the topics.

    `client`: `bootstrap.servers` of this cluster, and the properties with which the source logs in to it. An interrupted
    reversal may be repeated. Raises NotReversible, and RequestFailed.
    """
    topics = _common(here, source, link)
    if not topics:
        raise NotReversible("no topic of the link is on both sides with the same id")
    names = [topic.name for topic in topics]
    there = {link.name_there(topic.name): topic for topic in topics}
    _check_writable(here, names)
    _check_free(source, list(there), back)
    properties = dict(client) | {TOPICS: link.topics.pattern, STATE: LinkState.ACTIVE.value, CUTS_DIVERGED: "true"}
    properties |= {GROUPS: link.groups.pattern} if link.groups is not None else {}
    prefixes = {PREFIX: link.source_prefix, SOURCE_PREFIX: link.prefix}
    properties |= {key: prefix for key, prefix in prefixes.items() if prefix}
    chosen = {ACLS: link.follows_acls, QUOTAS: link.follows_quotas, SHARE_GROUPS: link.follows_share_groups}
    properties |= {key: "true" for key, is_chosen in chosen.items() if is_chosen}
    known = read_links(source).get(back)
    if known is not None and known.get(BOOTSTRAP) != properties[BOOTSTRAP]:
        raise NotReversible(f"the former source has another link {back}: take another name for this one")
    steps: dict[Effect, Callable[[], None]] = {
        Effect.CLOSE_FORMER: lambda: _close(source, there, back, describe_cluster(here).cluster_id),
        Effect.LINK_BACK: lambda: None if known else create_link(source, back, properties, dry_run=False),
        Effect.DELETE_LINK: lambda: delete_link(here, link.name, dry_run=False),
    }
    for effect in () if dry_run else REVERSE:
        steps[effect]()
    return names


def _common(here: Admin, source: Admin, link: Link) -> list[Topic]:
    """The followed topics that both sides have with the same id, as they are here."""
    there = {topic.topic_id: topic.name for topic in described_topics(source, None) if topic.topic_id is not None}
    return [
        topic
        for topic in described_topics(here, None)
        if topic.topic_id is not None and _follows(link, topic.name, there.get(topic.topic_id))
    ]


def _follows(link: Link, here: str, there: str | None) -> bool:
    """Whether a topic here is the source's `there` by its name, too."""
    return there is not None and link.follows_topic(there) and link.name_here(there) == here


def _check_writable(here: Admin, topics: Sequence[str]) -> None:
    for name, value in _links_of(here, topics).items():
        if value:
            raise NotReversible(f"topic {name} is read-only here: `odradek mirror switch` or `fail-over` comes first")


def _check_free(source: Admin, topics: Sequence[str], back: str) -> None:
    for name, value in _links_of(source, topics).items():
        if value and value != back and not value.startswith(SWITCHED):
            raise NotReversible(f"topic {name} of the former source follows link {value}")


def _id_text(topic: Topic) -> str:
    assert topic.topic_id is not None
    return uuid_to_text(topic.topic_id.bytes)


def _links_of(admin: Admin, topics: Sequence[str]) -> dict[str, str]:
    found = describe_topic_configs(admin, topics, [MIRROR_NAME])
    return {topic: values[MIRROR_NAME].value or "" if MIRROR_NAME in values else "" for topic, values in found.items()}


def _close(source: Admin, topics: Mapping[str, Topic], back: str, cluster_id: str) -> None:
    """Makes the former source's topics mirrors; `topics`: those here, by the names there. Raises NotReversible for a source
    that has no mirrors.
    """
    changes = {
        name: {
            MIRROR_NAME: (_SET, back),
            MIRROR_TOPIC_ID: (_SET, _id_text(topic)),
            MIRROR_PARTITIONS: (_SET, str(len(topic.partitions))),
            MIRROR_ORIGINS: (_SET, cluster_id),
        }
        for name, topic in topics.items()
    }
    for result in alter_topic_configs(source, changes):
        try:
            check(f"topic {result.resource_name}", result.error_code, result.error_message)
        except ResponseError as error:
            raise NotReversible(
                f"the former source cannot follow: {error}. Apache Kafka has no mirrors: delete its topics and follow "
                "them with a fresh mirror"
            ) from None
