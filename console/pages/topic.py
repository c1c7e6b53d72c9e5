"""One topic: its partitions, the groups that read it, and the rules for it."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ...admin import acls
from ...admin.configs import describe_topic_configs
from ...admin.errors import RequestFailed
from ...admin.log_directories import describe_log_dirs
from ...admin.log_offsets import partition_offsets
from ...admin.offsets import offsets_of
from ...admin.readings import replicas_in
from ...admin.sizes import ReplicaSize, bytes_by_partition, bytes_of_replicas
from ...admin.topics import Partition, Topic
from ...client.explained_errors import from_library
from ...client.user_errors import UserError
from ...client.wording import counted
from ...protocol.log_places import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED
from ..access.sessions import FLASH_COOKIE
from ..addresses import here, number_of, path_to
from ..backend import Backend
from ..cluster.topic_rates import Rates
from ..command_templates import command_of
from ..drawings import chart
from ..formats import NONE, number, numbers, size
from ..parts import Badge, Cell, Charts, Code, Facts, Link, Page, Pages, Part, Table, Text
from ..replica_boxes import replicas_drawn
from .access import rules_table
from .described_topic import described
from .topic_changes import changes
from .topic_head import ACCESS, GROUPS, PARTITIONS, topic_page

if TYPE_CHECKING:
    from ...admin.session import Admin


#: Partitions on one page of a topic.
_PARTITIONS = 100
_TIERED = "remote.storage.enable"


def topic(backend: Backend, request: Request) -> Response:
    """Leads to the first tab."""
    base = request.scope.get("root_path", "")
    return RedirectResponse(base + path_to("topics", request.path_params["topic"], "messages"), 303)


def partitions(backend: Backend, request: Request) -> Page:
    name = request.path_params["topic"]
    with backend.links.admin() as admin:
        topic = described(admin, name, is_new=FLASH_COOKIE in request.cookies)
        page = min(number_of(request, "page", 0), max(0, len(topic.partitions) - 1) // _PARTITIONS)
        first = page * _PARTITIONS
        shown = topic.partitions[first : first + _PARTITIONS]
        asked = replace(topic, partitions=shown)
        away = backend.away
        begins, ends = (partition_offsets(admin, [asked], at, without=away) for at in (EARLIEST, LATEST))
        replicas = _replicas(admin, name, shown, away)
        stored = _stored(admin, asked, ends, away)
    sizes = {index: count for (_, index), count in bytes_by_partition(replicas).items()}
    rates = backend.rates.note(name, first, {index: end for (_, index), end in ends.items()}, sizes)
    row = backend.snapshot.topic(name)
    records_per_s = row.records_per_s if row is not None else None
    if rates.is_new and records_per_s is not None:
        backend.poller.history.add(f"rate/{name}", records_per_s)
    facts = Facts(
        "",
        [
            ("Offsets in these partitions", number(sum(offsets_of(begins, ends).values()))),
            ("Bytes in these partitions", size(sum(sizes.values()))),
            ("Bytes of all their replicas", size(bytes_of_replicas(replicas))),
            ("Bytes/s in these partitions", _per_second(rates.bytes_per_s)),
            ("Topic id", str(topic.topic_id or NONE)),
        ],
    )
    brokers = [one.broker for one in backend.snapshot.brokers]
    rows = [_partition(name, one, begins, ends, sizes, rates, brokers, away) for one in shown]
    columns = ("Partition", "Leader", "Epoch", "Replicas", "ISR", "First", "End", "Bytes", "Records/s", "")
    table = Table("Partitions", columns, rows, of=len(topic.partitions))
    throughput = Charts(
        [chart("Records/s", *backend.poller.history.points(f"rate/{name}"), " records/s", f"rate/{name}")]
    )
    pages = _partition_pages(request, len(topic.partitions), first)
    made = topic_page(backend, name, PARTITIONS, [facts, table, *pages, *stored, throughput])
    made.live, made.live_s = here(request), 5
    made.below = changes(backend, name, len(topic.partitions))
    return made


def groups(backend: Backend, request: Request) -> Page:
    """Groups with offsets in the topic, as the poller read them last."""
    name = request.path_params["topic"]
    rows = [
        (Link(row.group, path_to("groups", row.group)), row.kind, row.state, row.members, number(lag))
        for row, lag in backend.poller.groups_of(name)
    ]
    columns = ("Group", "Kind", "State", "Members", "Lag here")
    table = Table("Groups that read it", columns, rows, "No group has offsets in this topic.")
    parts: list[Part] = [table]
    if not rows:
        parts.append(Code("A first group", command_of(backend, "consume", name, "--from-beginning", "--group", "NAME")))
    page = topic_page(backend, name, GROUPS, parts)
    page.live, page.live_s = here(request), 5
    return page


def rules(backend: Backend, request: Request) -> Page:
    """The ACLs that name the topic, a prefix of it, or all topics."""
    name = request.path_params["topic"]
    wanted = acls.AclFilter(
        resource_type=acls.ResourceType.TOPIC, resource_name=name, pattern_type=acls.PatternType.MATCH
    )
    try:
        with backend.links.admin() as admin:
            found = acls.describe_acls(admin, wanted)
        table = rules_table(found)
        table.empty = "No rule names this topic, a prefix of it, or all topics."
        table.next = [Link("Create an ACL", "/access#do-create-an-acl")]
        parts: list[Part] = [table]
    except Exception as error:
        known = error if isinstance(error, UserError) else from_library(error)
        if known is None:
            raise
        parts = [Text(f"ACLs: {known}")]
    return topic_page(backend, name, ACCESS, parts)


def _per_second(value: float | None) -> str:
    return f"{size(round(value))}/s" if value is not None else NONE


def _stored(
    admin: Admin,
    asked: Topic,
    ends: dict[tuple[str, int], int],
    away: frozenset[int],
) -> list[Table]:
    """Returns a table of what disks and remote store have of a tiered topic (KIP-405); nothing for other topics."""
    found = describe_topic_configs(admin, [asked.name], [_TIERED], without_denied=True).get(asked.name, {})
    if _TIERED not in found or found[_TIERED].value != "true":
        return []
    local, stored = (partition_offsets(admin, [asked], at, without=away) for at in (EARLIEST_LOCAL, LATEST_TIERED))
    rows = [
        (
            place[1],
            number(local.get(place)),
            number(last + 1) if (last := stored.get(place, -1)) >= 0 else NONE,
            number(ends[place] - last - 1) if last >= 0 and place in ends else NONE,
        )
        for place in sorted(ends)
    ]
    columns = ("Partition", "First on the disk", "Stored to", "Not stored yet")
    return [Table("In the remote store", columns, rows, of=len(rows))]


def _partition_pages(request: Request, count: int, first: int) -> list[Pages]:
    if count <= _PARTITIONS:
        return []
    page, path = first // _PARTITIONS, here(request)
    before = f"{path}?page={page - 1}" if page else ""
    after = f"{path}?page={page + 1}" if first + _PARTITIONS < count else ""
    return [Pages(f"{first + 1}-{min(count, first + _PARTITIONS)} of {counted(count, 'partition')}", before, after)]


def _partition(
    name: str,
    partition: Partition,
    begins: dict[tuple[str, int], int],
    ends: dict[tuple[str, int], int],
    sizes: dict[int, int],
    rates: Rates,
    brokers: list[int],
    away: frozenset[int],
) -> list[Cell]:
    index = partition.partition_index
    place = (name, index)
    isr, replicas = partition.isr_nodes, partition.replica_nodes
    leader: Cell = partition.leader_id
    if partition.leader_id < 0:
        leader = Badge("none", "bad")
    elif leader != replicas[0]:
        leader = Badge(f"{leader}, not preferred", "plain")
    messages = f"{path_to('topics', name, 'messages')}?partition={index}"
    return [
        index,
        leader,
        partition.leader_epoch,
        replicas_drawn(partition.leader_id, replicas, isr, brokers, away),
        Badge(numbers(isr), "warn" if len(isr) < len(replicas) else "good"),
        begins.get(place),
        ends.get(place),
        size(sizes.get(index)),
        number(rates.records_per_s.get(index)),
        Link("look", messages),
    ]


def _replicas(admin: Admin, name: str, partitions: list[Partition], away: frozenset[int]) -> list[ReplicaSize]:
    """The replicas of the partitions, without those of brokers that do not respond."""
    held: dict[int, list[int]] = defaultdict(list)
    for one in partitions:
        for node in one.replica_nodes:
            held[node].append(one.partition_index)
    found: list[ReplicaSize] = []
    for node in sorted(held.keys() - away):
        with contextlib.suppress(RequestFailed):
            found += replicas_in(describe_log_dirs(admin, {name: held[node]}, [node]))
    return found
