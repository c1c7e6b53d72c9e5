"""Groups, ends and lags as a poll reads them: without the brokers that are away, and without patience, since the next poll
reads again.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ...cli.client.admin_calls import coordinator_now
from ...cli.client.errors import CommandError, from_library
from ...cli.groups.lag import Lag, Positions, Reading, committed_positions, lags_of, read_topics, shared_positions
from .groups import share_offsets

if TYPE_CHECKING:
    from ...cli.client.admin import AdminClient, GroupListing


#: Partitions of which the ends are read in one poll.
MOST_ENDS = 2000

Place = tuple[str, int]
Offsets = dict[Place, int]


def groups_of(admin: AdminClient, brokers: set[int]) -> tuple[list[GroupListing], set[int], bool]:
    """Groups that the brokers coordinate, the brokers that do not respond, and whether these are all groups."""
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

    found: list[GroupListing] = []
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


def behind(admin: AdminClient, kinds: Mapping[str, str], away: frozenset[int]) -> tuple[dict[str, list[Lag]], int]:
    """Lags of groups by partition, without groups that cannot be read now. Reads whole groups, up to MOST_ENDS partitions,
    and returns how many of `kinds` it has taken; the next poll reads the others.
    """
    positions: dict[str, Positions] = {}
    nodes: dict[int, list[str]] = defaultdict(list)
    count = taken = 0
    for name, kind in kinds.items():
        if count >= MOST_ENDS:
            break
        taken += 1
        with known_failures():
            node = coordinator_now(admin, name)
            if node in away:
                continue
            positions[name] = _shared(admin, name) if kind == "share" else committed_positions(admin, name)
            nodes[node].append(name)
            count += len(positions[name])
    readings: dict[str, Reading] = {}
    for node, names in nodes.items():
        with known_failures():
            readings |= read_topics(admin, kinds, {node: names})
            continue
        for name in names:  # their topics are unknown, and so is their lag
            del positions[name]
    with known_failures():
        return lags_of(admin, positions, readings, away), taken
    return {}, taken


def _shared(admin: AdminClient, name: str) -> Positions:
    """Positions of a share group, with the lag that its coordinator has (KIP-1226)."""
    offsets = share_offsets(admin, name)
    started = {(one.topic, one.partition): (one.start if one.start >= 0 else None, one.lag) for one in offsets}
    return shared_positions(admin, name, started)


@contextlib.contextmanager
def known_failures() -> Iterator[None]:
    """Errors of the cluster pass: the next poll reads again."""
    try:
        yield
    except Exception as error:
        if from_library(error) is None and not isinstance(error, CommandError | ConnectionError):
            raise
