"""Groups of a poll and their lags, in portions of bounded size."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...admin.errors import NoResponse, ResponseError, UnknownNode
from ...admin.group_lag import Positions, committed_positions, lags_of, shared_positions
from ...admin.groups import list_groups
from ...admin.lag import Lag
from ...admin.places import Place
from ...admin.share_offsets import share_offsets_at
from ...admin.subscriptions import Reading, read_topics
from ...client.explained_errors import from_library
from ...client.transient_errors import COORDINATOR_MOVES
from ...client.user_errors import UserError
from ...protocol.errors import ErrorCode
from .group_reads import GroupReads

if TYPE_CHECKING:
    from ...admin.groups import GroupListing
    from ...admin.session import Admin

#: Partitions of which the ends are read in one poll.
MOST_ENDS = 2000
Offsets = dict[Place, int]


def groups_of(admin: Admin, brokers: set[int]) -> tuple[list[tuple[GroupListing, int]], set[int], bool]:
    """Groups with the brokers that coordinate them, the brokers that do not respond, and whether these are all groups."""
    found: list[tuple[GroupListing, int]] = []
    silent: set[int] = set()
    is_loading = False
    for node in sorted(brokers):
        try:
            found += [(one, node) for one in list_groups(admin, [node])]
        except NoResponse:
            silent.add(node)
        except UnknownNode:
            is_loading = True
        except ResponseError as error:
            if error.code == ErrorCode.REQUEST_TIMED_OUT:
                silent.add(node)
            elif error.code in COORDINATOR_MOVES:
                is_loading = True
            else:
                raise
    return found, silent, not (silent or is_loading)


def behind(
    admin: Admin, kinds: Mapping[str, str], coordinators: Mapping[str, int], away: frozenset[int]
) -> tuple[dict[str, list[Lag]], int]:
    """Lags of groups by partition, without groups that cannot be read now. Reads whole groups, up to MOST_ENDS partitions,
    and returns how many of `kinds` it has taken; the next poll reads the others.
    """
    positions: dict[str, Positions] = {}
    nodes: dict[int, list[str]] = defaultdict(list)
    reads = GroupReads(coordinators, away)
    count = taken = 0
    for name, kind in kinds.items():
        if count >= MOST_ENDS:
            break
        taken += 1
        node = coordinators.get(name)
        found = reads.read(name, partial(_positions, admin, name, kind)) if node is not None else None
        if node is not None and found is not None:
            positions[name] = found
            nodes[node].append(name)
            count += len(found)
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


def _positions(admin: Admin, name: str, kind: str, coordinator: int) -> Positions:
    """Positions of a group; of a share group with the lag that its coordinator has (KIP-1226)."""
    if kind == "share":
        return shared_positions(share_offsets_at(admin, coordinator, [name])[name])
    return committed_positions(admin, name, coordinator)


@contextlib.contextmanager
def known_failures() -> Iterator[None]:
    """Errors of the cluster pass: the next poll reads again."""
    try:
        yield
    except Exception as error:
        if from_library(error) is None and not isinstance(error, UserError | ConnectionError):
            raise
