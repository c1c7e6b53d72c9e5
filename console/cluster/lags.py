"""Groups, ends and lags as a poll reads them: without the brokers that are away, and without patience, since the next poll
reads again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ...cli.client.admin_calls import LATEST
from ...cli.client.errors import CommandError, from_library
from ...cli.groups.offsets import committed_offsets
from .groups import share_offsets
from .own_messages import coordinator_of

#: Partitions of which the ends are read in one poll.
MOST_ENDS = 2000
#: Partitions in one request for ends: the answers of more take memory that the process keeps.
_ENDS_AT_ONCE = 500

Place = tuple[str, int]
Offsets = dict[Place, int]


def groups_of(admin: Any, brokers: set[int]) -> tuple[list[dict[str, Any]], set[int], bool]:
    """Groups that the brokers coordinate, the brokers that do not answer, and whether these are all groups."""
    from kafka.errors import (
        Cancelled,
        CoordinatorLoadInProgressError,
        CoordinatorNotAvailableError,
        KafkaConnectionError,
        KafkaTimeoutError,
        NodeNotReadyError,
        RequestTimedOutError,
        UnknownBrokerIdError,
    )

    found: list[dict[str, Any]] = []
    silent: set[int] = set()
    is_loading = False
    for node in sorted(brokers):
        try:
            found += admin.list_groups(broker_ids=[node])
        except (
            KafkaConnectionError,
            KafkaTimeoutError,
            NodeNotReadyError,
            RequestTimedOutError,
            Cancelled,
            ConnectionError,
        ):
            silent.add(node)
        except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, UnknownBrokerIdError):
            is_loading = True
    return found, silent, not (silent or is_loading)


def ends(admin: Any, places: list[Place]) -> Iterator[tuple[Place, int]]:
    """Ends of partitions that have leaders, in requests of bounded size."""
    from kafka.structs import TopicPartition

    for start in range(0, len(places), _ENDS_AT_ONCE):
        asked = {TopicPartition(*place): LATEST for place in places[start : start + _ENDS_AT_ONCE]}
        for where, found in admin.list_partition_offsets(asked).items():
            yield (where.topic, where.partition), found.offset


def behind(admin: Any, groups: list[str], away: frozenset[int]) -> dict[str, Offsets]:
    """Lags of groups by partition, without those that cannot be read now."""
    committed = {}
    for name in groups:
        with known_failures():
            if coordinator_of(admin, name) not in away:
                committed[name] = committed_offsets(admin, name)
    places = sorted({place for held in committed.values() for place in held})[:MOST_ENDS]
    last: Offsets = {}
    with known_failures():
        last = _ends_of(admin, places, away)
    found = {}
    for name, held in committed.items():
        lags = {place: max(0, last[place] - offset) for place, offset in held.items() if place in last}
        if lags or not held:
            found[name] = lags
    return found


def behind_shared(admin: Any, groups: list[str], away: frozenset[int]) -> dict[str, Offsets]:
    """Lags of share groups, as their coordinators say (KIP-1226)."""
    found = {}
    for name in groups:
        with known_failures():
            if coordinator_of(admin, name) in away:
                continue
            offsets = share_offsets(admin, name)
            lags = {(one.topic, one.partition): one.lag for one in offsets if one.lag is not None}
            if lags:
                found[name] = lags
    return found


def _ends_of(admin: Any, places: list[Place], away: frozenset[int]) -> Offsets:
    """Ends of partitions that may be gone, or without a leader that answers."""
    if not places:
        return {}
    led = {
        (topic["name"], one["partition_index"])
        for topic in admin.describe_topics(sorted({name for name, _ in places}))
        if not topic["error_code"]
        for one in topic["partitions"]
        if one["leader_id"] >= 0 and one["leader_id"] not in away
    }
    return dict(ends(admin, [place for place in places if place in led]))


@contextlib.contextmanager
def known_failures() -> Iterator[None]:
    """Errors of the cluster pass: the next poll reads again."""
    try:
        yield
    except Exception as error:
        if from_library(error) is None and not isinstance(error, CommandError | ConnectionError):
            raise
