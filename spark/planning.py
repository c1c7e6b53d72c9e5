"""Partitions and offsets of a query, and the ranges of offsets that its tasks read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..protocol.log_places import EARLIEST, LATEST
from .options import InvalidOptions, Options, Place, Position, named

if TYPE_CHECKING:
    from ..admin.topics import Topic
    from ..columns import Split
    from ..columns.cluster import Cluster

Offsets = dict[Place, int]


class DataLoss(Exception):
    """Records that a query needs are gone, and failOnDataLoss is true."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some data may have been lost; to continue with the records that are left, set the source option "
            "failOnDataLoss to false"
        )


class UnfinishedBatch(Exception):
    """A query continues a batch of its checkpoint, and Spark may end it after that batch, before the other records."""

    def __init__(self) -> None:
        super().__init__(
            "the checkpoint has a batch that was not finished, and there are records after it. With the trigger "
            "availableNow, Spark before 4.2 would end after this batch, with success. Use Spark 4.2, or set "
            "spark.sql.streaming.triggerAvailableNowWrapper.enabled to true in the session: then it reads all. With a "
            "trigger of processing time, set the source option processingTimeOnly to true"
        )


def batch_splits(options: Options) -> list[Split]:
    """The splits of a batch query, whose ends are those of the logs now. Raises ClusterError, DataLoss, InvalidOptions,
    ScanError.
    """
    from ..columns.cluster import Cluster

    with Cluster(options.client) as cluster:
        topics = chosen_topics(cluster, options)
        start = options.start or Position("startingOffsets", EARLIEST)
        end = options.end or Position("endingOffsets", LATEST)
        starts = resolved(cluster, topics, options, start, is_start=True)
        ends = resolved(cluster, topics, options, end, is_start=False)
        for place, first in starts.items():
            if first > ends[place] and start.each:
                raise InvalidOptions(f"{named(place)}: the start {first} is after the end {ends[place]}")
        return splits(cluster, topics, options, *checked(cluster, topics, options, starts, ends))


def chosen_topics(cluster: Cluster, options: Options) -> list[Topic]:
    """Described topics with the partitions of the query, sorted. Raises ClusterError, InvalidOptions."""
    if options.pattern:
        pattern = re.compile(options.pattern)
        return [
            topic
            for topic in cluster.described()
            if not topic.is_internal and not topic.error_code and pattern.search(topic.name)
        ]
    topics = cluster.described(options.topics or tuple(options.assigned))
    if not options.assigned:
        return topics
    made: list[Topic] = []
    for topic in topics:
        wanted = options.assigned[topic.name]
        known = {one.partition_index: one for one in topic.partitions}
        for partition in wanted:
            if partition not in known:
                raise InvalidOptions(f"Option 'assign': topic {topic.name} has no partition {partition}")
        made.append(replace(topic, partitions=[known[one] for one in wanted]))
    return made


def places_of(topics: Sequence[Topic]) -> list[Place]:
    return [(topic.name, one.partition_index) for topic in topics for one in topic.partitions]


def resolved(
    cluster: Cluster, topics: Sequence[Topic], options: Options, position: Position, *, is_start: bool
) -> Offsets:
    """The offsets of a start or an end. Raises InvalidOptions for partitions that it does not name, or names too much."""
    places = places_of(topics)
    if position.each and set(position.each) != set(places):
        raise InvalidOptions(
            f"If {position.option} contains specific {'times' if position.is_time else 'offsets'}, you must specify all "
            f"TopicPartitions. Specified: {_listed(position.each)} Assigned: {_listed(places)}"
        )
    wanted = {place: position.each.get(place, position.common) for place in places}
    found: dict[Place, int] = {}
    if position.is_time:
        for time in sorted(set(wanted.values()) - {None}):  # type: ignore[type-var]
            at = [place for place, one in wanted.items() if one == time]
            for place, offset in cluster.offsets(_only(topics, at), time).items():  # type: ignore[arg-type]
                found[place] = offset
                if offset < 0:
                    if is_start and not options.no_match_is_latest:
                        raise InvalidOptions(
                            f"No offset matched from request of topic-partition {named(place)} and timestamp {time}."
                        )
                    found[place] = LATEST
    else:
        found = {place: offset for place, offset in wanted.items() if offset is not None}
    for special in (EARLIEST, LATEST):
        at = [place for place, offset in found.items() if offset == special]
        found |= cluster.offsets(_only(topics, at), special, committed=options.is_committed)
    return found


def _only(topics: Sequence[Topic], places: Sequence[Place]) -> list[Topic]:
    kept = set(places)
    made: list[Topic] = [
        replace(topic, partitions=[one for one in topic.partitions if (topic.name, one.partition_index) in kept])
        for topic in topics
    ]
    return [topic for topic in made if topic.partitions]


def _listed(places: Mapping[Place, int] | Sequence[Place]) -> str:
    return ", ".join(named(place) for place in sorted(places))


def limited(start: Offsets, end: Offsets, limit: int) -> Offsets:
    """Ends so that about `limit` offsets are read, of each partition in proportion to what it has."""
    sizes = {place: max(0, offset - start.get(place, 0)) for place, offset in end.items()}
    total = sum(sizes.values())
    if total <= limit:
        return end
    made = {}
    for place, size in sizes.items():
        share = limit * size / total
        # A share of less than one record would stay zero for ever.
        made[place] = min(end[place], start.get(place, 0) + (int(share) if share >= 1 else -int(-share // 1)))
    return made


def checked(
    cluster: Cluster, topics: Sequence[Topic], options: Options, start: Offsets, end: Offsets
) -> tuple[Offsets, Offsets]:
    """Starts and ends that the logs have. Raises DataLoss for offsets that they no longer have, with failOnDataLoss."""
    first = cluster.offsets(topics, EARLIEST)
    last = cluster.offsets(topics, LATEST, committed=options.is_committed)
    losses, starts, ends = [], dict(start), dict(end)
    for place in sorted(end):
        if place not in last:
            losses.append(f"{named(place)} is gone")
            starts.pop(place), ends.pop(place)
            continue
        if start[place] < min(first[place], end[place]):
            losses.append(f"{named(place)}: offset {start[place]} is gone: the log starts at {first[place]}")
        if end[place] > last[place]:
            losses.append(f"{named(place)}: the log ends at {last[place]}, before offset {end[place]}")
        starts[place] = max(start[place], first[place])
        ends[place] = min(end[place], last[place])
    if losses and options.fail_on_data_loss:
        raise DataLoss("; ".join(losses))
    return starts, ends


def check_starts(start: Offsets, end: Offsets) -> None:
    """Raises DataLoss for starts after the ends of logs: records after them were read, and the logs lost them."""
    after = [place for place in sorted(end) if start[place] > end[place]]
    if after:
        raise DataLoss(
            "; ".join(f"{named(one)}: the log ends at {end[one]}, before offset {start[one]}" for one in after)
        )


def splits(cluster: Cluster, topics: Sequence[Topic], options: Options, start: Offsets, end: Offsets) -> list[Split]:
    """Ranges of about `splitBytes`, or more of them where minPartitions wants that. Raises ScanError."""
    from ..columns.cluster_plan import plan_topic
    from ..columns.divided_splits import sized
    from ..columns.request import READ_COMMITTED, READ_UNCOMMITTED, Request

    made: list[Split] = []
    nonempty = [place for place, offset in end.items() if start[place] < offset]
    sizes = cluster.sizes(_only(topics, nonempty)) if nonempty else {}
    for topic in _only(topics, nonempty):
        name = topic.name
        at = [one.partition_index for one in topic.partitions]
        request = Request(
            at,
            start_offsets={one: start[name, one] for one in at},
            end_offsets={one: end[name, one] for one in at},
            isolation_level=READ_COMMITTED if options.is_committed else READ_UNCOMMITTED,
            split_bytes=options.split_bytes,
        )
        for plan in plan_topic(cluster, name, request).partitions:
            made += sized(plan, sizes.get((name, plan.partition), 0), options.split_bytes)
    return _more(made, options)


def _more(splits: list[Split], options: Options) -> list[Split]:
    from ..columns.divided_splits import divided

    if options.min_partitions is not None and len(splits) < options.min_partitions:
        total = sum(one.next_offset - one.first_offset for one in splits)
        share = options.min_partitions / max(total, 1)
        splits = [part for one in splits for part in divided(one, round((one.next_offset - one.first_offset) * share))]
    if (most := options.max_records_per_partition) is not None:
        splits = [part for one in splits for part in divided(one, -(-(one.next_offset - one.first_offset) // most))]
    return splits
