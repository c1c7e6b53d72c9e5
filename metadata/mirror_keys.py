"""Configs of mirrors: which topics follow another cluster, and the links to these clusters (docs/development/mirror.md).

A link is kept as dynamic configs of all brokers, `mirror.link.NAME.PROPERTY`. A topic that follows has `mirror.name=NAME`
among its own configs (the name of KIP-1279, provisional): it is read-only for clients until that is removed.
"""

from __future__ import annotations

import re

#: Configs of a topic: the link that it follows, the id of the followed topic (base64, "" where the source has none), and
#: how many partitions that has.
MIRROR_NAME, MIRROR_TOPIC_ID, MIRROR_PARTITIONS = "mirror.name", "mirror.topic.id", "mirror.partitions"
#: Config of a topic, and property of a link: whether a partition that has records which the source has lost, or has others
#: for, is cut to the last common batch. Without it the partition stops (KIP-1279's name, provisional).
CUTS_DIVERGED = "mirror.support.unclean.leader.election"
#: Config of a topic, "INDEX:EPOCH": the leader of this partition in this epoch gets a new epoch, in which it cuts its log.
#: By their epochs followers and consumers then find that they have records which are cut off.
MIRROR_CUT = "mirror.cut"
#: Config of a topic: the ids of the clusters that its records come through. One's own among them would be a circle.
MIRROR_ORIGINS = "mirror.cluster.ids"
#: Configs that make a topic a mirror: deleted with the change to it.
OF_MIRRORS = (MIRROR_NAME, MIRROR_TOPIC_ID, MIRROR_PARTITIONS, MIRROR_CUT, MIRROR_ORIGINS)
#: In front of the name of a link: the value of MIRROR_NAME at a source whose records are all in the other cluster.
SWITCHED = "switched-"
#: Config of all brokers: no producer id below it is given.
PRODUCER_ID_FLOOR = "mirror.producer.id.floor"
LINK_PREFIX = "mirror.link."
#: Properties of a link itself; all others are of its client.
BOOTSTRAP, TOPICS, GROUPS, STATE, PREFIX, REPLICATION_FACTOR, THROTTLE, ACLS, QUOTAS, SHARE_GROUPS = (
    "bootstrap.servers",
    "topics",
    "groups",
    "state",
    "prefix",
    "replication.factor",
    "throttle.bytes.per.second",
    "acls",
    "quotas",
    "share.groups",
)
#: Property of a link: the least milliseconds between two Fetches of a broker to one of the source's
#: (replication/mirror/fetch_linger.py).
LINGER = "fetch.linger.ms"
#: Property of a reversed link: the source's names of followed topics and groups begin with it, and lose it here.
SOURCE_PREFIX = "source.prefix"
#: Those whose values are shown: each other one may be a secret.
SHOWN = frozenset(
    {
        BOOTSTRAP,
        TOPICS,
        GROUPS,
        STATE,
        PREFIX,
        SOURCE_PREFIX,
        REPLICATION_FACTOR,
        THROTTLE,
        LINGER,
        ACLS,
        QUOTAS,
        SHARE_GROUPS,
        CUTS_DIVERGED,
    }
)
#: In front of what a link notes itself beside its properties: marks of the rules and quotas that it has made here.
MADE = "made."
_MADE = re.compile(r"made\.[a-z]+\.\d+")

#: Configs of a topic that follow those of the source's topic: clients cannot change them.
FOLLOWED_CONFIGS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
)


def link_key(name: str, property_: str) -> str:
    return f"{LINK_PREFIX}{name}.{property_}"


def split_key(key: str) -> tuple[str, str] | None:
    """(link, property) of a config of a link; None for other configs."""
    if not key.startswith(LINK_PREFIX):
        return None
    name, _, property_ = key[len(LINK_PREFIX) :].partition(".")
    return (name, property_) if name and property_ else None


def is_made(property_: str) -> bool:
    """Whether a link notes itself there what it has made."""
    return _MADE.fullmatch(property_) is not None


def is_shown(key: str) -> bool:
    """Whether the value of a link's config is no secret."""
    found = split_key(key)
    return key == PRODUCER_ID_FLOOR or (found is not None and (found[1] in SHOWN or is_made(found[1])))
