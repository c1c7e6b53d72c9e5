"""Brokers with their log directories and configs, the metadata quorum, and features."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request

from ...admin.configs import Kind, describe_configs
from ...admin.errors import ResponseError
from ...admin.features import describe_features
from ...admin.log_directories import describe_log_dirs
from ...admin.metadata_quorum import describe_quorum
from ...admin.quorum import quorum_replicas
from ...admin.readings import quorum_members
from ...client.error_kinds import ErrorKind
from ...client.properties import HIDDEN
from ...client.user_errors import UserError
from ..addresses import number_in, path_to
from ..backend import Backend
from ..cluster.model import BrokerRow
from ..formats import NONE, age, number, size
from ..parts import Badge, Cell, Facts, Link, Page, Part, Table, Text
from ..whole_numbers import MOST_INT32
from .long_lists import SortKey, listed, paged

if TYPE_CHECKING:
    from ...admin.log_directories import LogDirectory
    from ...admin.session import Admin


#: Rows of the replicas that are out of sync.
_MOST_REPLICAS = 20
_CRUMBS = (Link("Brokers", "/brokers"),)


#: Columns by which the list sorts.
_KEYS: dict[str, Callable[[BrokerRow], SortKey]] = {
    "Broker": lambda one: one.broker,
    "Address": lambda one: (one.host, one.port),
    "Rack": lambda one: one.rack,
    "State": lambda one: (one.fenced, one.silent),
    "Leads": lambda one: one.leads,
    "Replicas": lambda one: one.replicas,
    "Out of sync": lambda one: one.out_of_sync,
}


def brokers(backend: Backend, request: Request) -> Page:
    found = backend.snapshot
    chosen, search, pages = paged(request, found.brokers, lambda one: f"{one.broker} {one.host}", "brokers", _KEYS)
    rows = [
        (
            Link(str(one.broker), path_to("brokers", one.broker)),
            f"{one.host}:{one.port}",
            one.rack or NONE,
            _state(one, backend.away),
            Badge("active") if one.broker == found.controller else "",
            one.leads,
            one.replicas,
            Badge(number(one.out_of_sync), "warn") if one.out_of_sync else number(0),
        )
        for one in chosen
    ]
    columns = ("Broker", "Address", "Rack", "State", "Controller", "Leads", "Replicas", "Out of sync")
    table = listed(columns, rows, "No broker matches.", _KEYS)
    page = Page("Brokers", [pages, table], "/brokers", live="/brokers", above=[search])
    page.links = [Link("Balance", "/brokers/balance")]
    return page


def broker(backend: Backend, request: Request) -> Page:
    node = number_in(request, "broker", MOST_INT32)
    row = next((one for one in backend.snapshot.brokers if one.broker == node), None)
    if row is None:
        raise UserError(f"the cluster has no broker {node}", ErrorKind.NOT_FOUND)
    figures: list[tuple[str, Cell]] = [
        ("Address", f"{row.host}:{row.port}"),
        ("Rack", row.rack or NONE),
        ("State", _state(row, backend.away)),
        ("Leads", row.leads),
        ("Replicas", row.replicas),
        ("Out of sync", Badge(number(row.out_of_sync), "warn") if row.out_of_sync else 0),
    ]
    if node in backend.away:
        words = f"Broker {node} does not respond. Start it to see its log directories and configs."
        return Page(f"Broker {node}", [Text(words, "bad")], "/brokers", noun="Broker", crumbs=_CRUMBS, figures=figures)
    with backend.links.admin() as admin:
        directories = describe_log_dirs(admin, None, [node])[0].log_dirs
        everything = request.query_params.get("defaults") == "yes"
        configs = _configs(admin, node, everything=everything)
    more = Link(
        "without defaults" if everything else "with defaults",
        path_to("brokers", node) + ("" if everything else "?defaults=yes"),
    )
    return Page(
        f"Broker {node}",
        [_directories(directories), _largest(directories), configs, Facts("", [("Configs", more)])],
        "/brokers",
        noun="Broker",
        crumbs=_CRUMBS,
        figures=figures,
    )


def _configs(admin: Admin, node: int, *, everything: bool) -> Part:
    try:
        configs = describe_configs(admin, Kind.BROKER, str(node))
    except ResponseError as error:
        return Text(f"Configs: {error}")
    shown = sorted(
        (key, value) for key, value in configs.items() if everything or value.config_source != "DEFAULT_CONFIG"
    )
    rows = [
        (
            key,
            HIDDEN if value.is_sensitive else value.value,
            str(value.config_source).lower().replace("_", " "),
        )
        for key, value in shown
    ]
    return Table("Configs", ("Key", "Value", "Source"), rows, "All configs have default values.")


def _state(row: BrokerRow, away: frozenset[int]) -> Badge:
    if row.broker not in away:
        return Badge("running", "good")
    return Badge("fenced" if row.fenced else "no response", "bad")


def _directories(directories: list[LogDirectory]) -> Table:
    rows = []
    for one in directories:
        held = [partition for topic in one.topics for partition in topic.partitions]
        rows.append(
            (
                one.log_dir,
                Badge("offline", "bad") if one.error_code else Badge("online", "good"),
                len(held),
                size(sum(partition.partition_size for partition in held)),
                size(one.total_bytes),
                size(one.usable_bytes),
            )
        )
    return Table("Log directories", ("Directory", "State", "Replicas", "Bytes", "Disk", "Free"), rows)


def _largest(directories: list[LogDirectory]) -> Table:
    replicas = [
        (topic.name, one.partition_index, one.partition_size, one.offset_lag, directory.log_dir)
        for directory in directories
        for topic in directory.topics
        for one in topic.partitions
    ]
    replicas.sort(key=lambda one: -one[2])
    rows = [
        (Link(name, path_to("topics", name)), partition, size(count), lag, where)
        for name, partition, count, lag, where in replicas[:_MOST_REPLICAS]
    ]
    columns = ("Topic", "Partition", "Bytes", "Offset lag", "Directory")
    return Table("Largest replicas", columns, rows, of=len(replicas))


def quorum(backend: Backend, request: Request) -> Page:
    with backend.links.admin() as admin:
        partition = describe_quorum(admin)
        features = describe_features(admin)
    leader, voters = partition.leader_id, partition.current_voters
    rows = [
        (
            one.node,
            Badge(one.role, "good") if one.role == "leader" else Badge(one.role),
            one.end_offset,
            one.lag,
            age(one.ms_behind) if one.ms_behind is not None else NONE,
            one.directory,
        )
        for one in quorum_replicas(leader, partition.high_watermark, quorum_members(partition))
    ]
    figures: list[tuple[str, Cell]] = [
        ("Leader", f"node {leader}"),
        ("Epoch", partition.leader_epoch),
        ("High watermark", number(partition.high_watermark)),
        ("Voters", len(voters)),
        ("Observers", len(partition.observers)),
    ]
    table = Table("Replicas", ("Node", "Role", "End offset", "Lag", "Behind", "Directory id"), rows)
    levels = []
    for name, feature in sorted(features.items()):
        supported, finalized = feature.supported or (None, None), feature.finalized
        levels.append((name, finalized[1] if finalized else 0, supported[0], supported[1]))
    below = [Table("Features", ("Feature", "Level", "Least", "Most"), levels)]
    return Page("Metadata quorum", [table], "/quorum", live="/quorum", live_s=3, below=below, figures=figures)
