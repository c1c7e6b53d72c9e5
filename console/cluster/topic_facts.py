"""Facts of topics for lists and heads of pages: size, offsets, retention, policy, and the time of the newest record.

The poller reads them by turns, a portion at a time, for all viewers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...admin.configs import describe_topic_configs
from ...admin.log_directories import describe_log_dirs
from ...admin.log_offsets import list_offsets, offsets_at
from ...admin.mirrors import LINK_OF_TOPIC
from ...admin.readings import replicas_in
from ...admin.sizes import bytes_by_partition
from ...protocol.log_places import EARLIEST, LATEST
from ..whole_numbers import whole_number
from .model import TopicFacts

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ...admin.topics import Topic

#: The place of the record with the newest time (KIP-734).
_NEWEST = -3
_RETENTION_MS, _RETENTION_BYTES, _POLICY = "retention.ms", "retention.bytes", "cleanup.policy"
_TIERED = "remote.storage.enable"
_CONFIGS = (_RETENTION_MS, _RETENTION_BYTES, _POLICY, LINK_OF_TOPIC, _TIERED)


def read_facts(admin: Admin, topics: Sequence[Topic], away: frozenset[int]) -> dict[str, TopicFacts]:
    """Facts of topics whose partitions all have leaders. Raises RequestFailed."""
    if not topics:
        return {}
    places = [(one.name, each.partition_index) for one in topics for each in one.partitions]
    begins, ends = offsets_at(admin, places, EARLIEST), offsets_at(admin, places, LATEST)
    newest = _newest(admin, [place for place in places if ends.get(place, 0) > begins.get(place, 0)])
    configs = describe_topic_configs(admin, [one.name for one in topics], _CONFIGS, without_denied=True)
    sizes = bytes_by_partition(replicas_in(describe_log_dirs(admin, _held(topics), _brokers(topics, away))))
    made: dict[str, TopicFacts] = {}
    for one in topics:
        own = [(one.name, each.partition_index) for each in one.partitions]
        values = {key: value.value for key, value in configs.get(one.name, {}).items()}
        made[one.name] = TopicFacts(
            sum(sizes[place] for place in own if place in sizes) if any(place in sizes for place in own) else None,
            sum(ends[place] - begins[place] for place in own if place in ends and place in begins),
            _number(values.get(_RETENTION_MS)),
            _number(values.get(_RETENTION_BYTES)),
            values.get(_POLICY) or "",
            max((newest[place] for place in own if newest.get(place, -1) >= 0), default=None),
            values.get(LINK_OF_TOPIC) or "",
            values.get(_TIERED) == "true",
        )
    return made


def _newest(admin: Admin, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    return {place: one.timestamp for place, one in list_offsets(admin, dict.fromkeys(places, _NEWEST)).items()}


def _held(topics: Sequence[Topic]) -> dict[str, list[int]]:
    return {one.name: [each.partition_index for each in one.partitions] for one in topics}


def _brokers(topics: Sequence[Topic], away: frozenset[int]) -> list[int]:
    """Brokers with replicas of the topics."""
    found: dict[int, None] = {}
    for one in topics:
        for each in one.partitions:
            found.update(dict.fromkeys(each.replica_nodes))
    return sorted(found.keys() - away)


def _number(text: str | None) -> int | None:
    return whole_number(text) if text else None
