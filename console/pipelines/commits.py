"""Pipelines by their commits to groups: queries of Spark, archives, replays, and the ledgers of sinks.

A group is found by the beginning of its name. What a commit does not have, such as the error that stopped a pipeline, is in
its metadata.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...admin.group_offsets import Committed, committed
from ...admin.pipeline_progress import ARCHIVE_GROUPS, QUERY_GROUPS, REPLAY_GROUPS, newest_progress
from ...admin.places import Place
from ...admin.replay_progress import parse_replay_progress
from ...sink.ledger import LEDGER_GROUPS, DamagedLedger, Ledger, decoded, group_of, piece_count
from ..cluster.group_reads import GroupReads
from .pipeline import MOST_PARTITIONS, MOST_PIPELINES, Kind, Pipeline, Reading, read_until

if TYPE_CHECKING:
    from ...admin.session import Admin

Ends = Callable[[list[Place]], dict[Place, int]]
#: Kinds by the beginning of a group's name.
PREFIXES = {
    QUERY_GROUPS: Kind.query,
    ARCHIVE_GROUPS: Kind.archive,
    REPLAY_GROUPS: Kind.replay,
    LEDGER_GROUPS: Kind.sink,
}


@dataclass(frozen=True, slots=True)
class _Group:
    kind: Kind
    group: str
    name: str
    commits: Mapping[Place, Committed]


def kind_of(group: str) -> Kind | None:
    """The kind of the pipeline that commits to a group; None for any other group."""
    return next((kind for prefix, kind in PREFIXES.items() if group.startswith(prefix)), None)


def read_commits(admin: Admin, reads: GroupReads, groups: Iterable[str], ends: Ends) -> list[Pipeline]:
    """The pipelines of these groups, without those that `reads` leaves out. Raises RequestFailed."""
    by_kind: dict[Kind | None, list[str]] = defaultdict(list)
    for group in sorted(groups):
        by_kind[kind_of(group)].append(group)
    chosen = [group for kind, named in by_kind.items() if kind is not None for group in named[:MOST_PIPELINES]]
    read = [one for one in (_read(admin, reads, group) for group in chosen) if one is not None and one.commits]
    known = ends([place for one in read if one.kind in (Kind.query, Kind.archive) for place in one.commits])
    by_group = {one.group: one for one in read}
    found = []
    for one in read:
        match one.kind:
            case Kind.replay:
                found.append(_replay(one))
            case Kind.sink:
                found += _sink(one, by_group, reads.unread)
            case _:
                found += _reader(one, known)
    return found


def _read(admin: Admin, reads: GroupReads, group: str) -> _Group | None:
    kind = kind_of(group)
    assert kind is not None
    prefix = next(one for one in PREFIXES if group.startswith(one))
    found = reads.read(group, lambda node: committed(admin, group, node))
    if found is None:
        return None
    return _Group(kind, group, group.removeprefix(prefix), dict(sorted(found.items())[:MOST_PARTITIONS]))


def _reader(group: _Group, ends: Mapping[Place, int]) -> list[Pipeline]:
    """A query or an archive; nothing for a group of another program."""
    progress = newest_progress(one.metadata for one in group.commits.values())
    if progress is None:
        return []
    positions = {place: one.offset for place, one in group.commits.items()}
    pipeline = Pipeline(group.kind, group.name, group.group, "has offsets", "good", read_until(positions, ends))
    return [pipeline.with_progress(progress, group.group)]


def _replay(group: _Group) -> Pipeline:
    progress = {place: parse_replay_progress(one.metadata) for place, one in group.commits.items()}
    readings = []
    for place, one in progress.items():
        offset, end = (None, None) if one is None else (one.offset, one.end)
        left = None if offset is None or end is None else max(0, end - offset)
        readings.append(Reading(*place, offset, end, left))
    is_done = bool(readings) and all(one.lag == 0 for one in readings)
    times = [one.at_ms for one in progress.values() if one is not None and one.at_ms is not None]
    state, tone = ("at the end of the table", "good") if is_done else ("has records left", "plain")
    return Pipeline(
        Kind.replay, group.name, group.group, state, tone, tuple(readings), max(times, default=None), group=group.group
    )


def _sink(group: _Group, groups: Mapping[str, _Group], unread: dict[str, str]) -> list[Pipeline]:
    """The ledger of a sink; nothing for a group that has a later piece of one, or that another program commits to. A
    ledger with a piece that is unread is so, too.
    """
    place, first = next(iter(group.commits.items()))
    try:
        pieces = [first.metadata]
        for index in range(1, piece_count(first.metadata)):
            name = group_of(group.group, index)
            if name in unread:
                unread[group.group] = unread[name]
                return []
            piece = groups.get(name)
            pieces.append(piece.commits[place].metadata if piece is not None and place in piece.commits else "")
        ledger: Ledger = decoded(first.offset, pieces)
    except DamagedLedger:
        return []
    state, tone = ("whole", "good") if ledger.is_ended else ("its transactions are being ended", "warn")
    return [Pipeline(Kind.sink, group.name, place[0], state, tone, (), batch=ledger.batch, group=group.group)]


def merged(shown: Iterable[Pipeline], of_groups: Iterable[Pipeline]) -> list[Pipeline]:
    """Pipelines by their tables or checkpoints, with the progress of their groups, and those that have a group alone."""
    left = {one.group: one for one in of_groups}
    found = []
    for one in shown:
        of_group = left.pop(one.group, None)
        found.append(one if of_group is None else one.beside(of_group))
    return [*found, *left.values()]


def archive_group(table: str) -> str:
    """The group of a table, unless `--commit-group` names another one."""
    return ARCHIVE_GROUPS + table.rpartition("/")[2]
