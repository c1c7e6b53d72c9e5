"""One topic: its partitions, the groups that read it, its configs and the rules for it, and their changes."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ...admin import acls
from ...admin.config_alteration import alter_configs
from ...admin.configs import ConfigValue, config_values
from ...admin.errors import RequestFailed, ResponseError
from ...admin.log_directories import describe_log_dirs
from ...admin.log_offsets import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, partition_offsets
from ...admin.offsets import offsets_of
from ...admin.readings import replicas_in
from ...admin.record_deletion import trim_topic
from ...admin.sizes import ReplicaSize, bytes_by_partition, bytes_of_replicas
from ...admin.topic_alteration import alter_topic
from ...admin.topic_batches import delete_topics
from ...admin.topics import Partition, Topic, described_topics
from ...client.error_kinds import ErrorKind, kind_of_code
from ...client.explained_errors import from_library
from ...client.properties import HIDDEN
from ...client.user_errors import Misused, UserError
from ...client.wording import counted
from ..access.sessions import FLASH_COOKIE
from ..actions import Done, required, whole
from ..actions import Form as Fields
from ..backend import Backend
from ..cluster.topic_rates import Rates
from ..config_values import in_unit_of, with_unit
from ..drawings import chart
from ..formats import NONE, number, numbers, size
from ..parts import Badge, Cell, Charts, Code, Effect, Facts, Field, Form, Link, Page, Pages, Part, Table, Text
from ..replica_boxes import replicas_drawn
from .access import rules_table
from .lists import here, number_of, path_to
from .topic_head import ACCESS, CONFIGURATION, GROUPS, PARTITIONS, command_of, deletion, topic_page

if TYPE_CHECKING:
    from ...admin.session import Admin


#: Partitions on one page of a topic.
_PARTITIONS = 100
_NEW_TOPIC_S, _NEW_TOPIC_POLL_S = 5.0, 0.1
_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "this topic",
    "DYNAMIC_BROKER_CONFIG": "a broker, dynamic",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers, dynamic",
    "STATIC_BROKER_CONFIG": "the broker's configuration file",
    "DEFAULT_CONFIG": "default",
}
_CHOICES = {
    "compression.type": ("producer", "gzip", "snappy", "lz4", "zstd", "uncompressed"),
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}


def topic(backend: Backend, request: Request) -> Response:
    """Leads to the first tab."""
    base = request.scope.get("root_path", "")
    return RedirectResponse(base + path_to("topics", request.path_params["topic"], "messages"), 303)


def partitions(backend: Backend, request: Request) -> Page:
    name = request.path_params["topic"]
    with backend.links.admin() as admin:
        topic = described(admin, name, is_new=FLASH_COOKIE in request.cookies)
        first = max(0, number_of(request, "page", 0)) * _PARTITIONS
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
    page = topic_page(backend, name, PARTITIONS, [facts, table, *pages, *stored, throughput])
    page.live, page.live_s = here(request), 5
    page.below = _changes(backend, name, len(topic.partitions))
    return page


def readers(backend: Backend, request: Request) -> Page:
    """Groups with offsets in the topic, as the poller read them last."""
    name = request.path_params["topic"]
    rows = [
        (Link(row.group, path_to("groups", row.group)), row.kind, row.state, row.members, number(lag))
        for row, lag in backend.poller.readers(name)
    ]
    columns = ("Group", "Kind", "State", "Members", "Lag here")
    table = Table("Groups that read it", columns, rows, "No group has offsets in this topic.")
    parts: list[Part] = [table]
    if not rows:
        parts.append(Code("A first group", command_of(backend, "consume", name, "--from-beginning", "--group", "NAME")))
    page = topic_page(backend, name, GROUPS, parts)
    page.live, page.live_s = here(request), 5
    return page


def configuration(backend: Backend, request: Request) -> Page:
    name = request.path_params["topic"]
    with backend.links.admin() as admin:
        described(admin, name, is_new=FLASH_COOKIE in request.cookies)
        configs = config_values(admin, "topic", name)
    page = topic_page(backend, name, CONFIGURATION, [])
    page.below = [_config_table(backend, name, configs), deletion(backend, name)]
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
    enabled = config_values(admin, "topic", asked.name).get("remote.storage.enable")
    if enabled is None or enabled.value != "true":
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


def described(admin: Admin, name: str, *, is_new: bool) -> Topic:
    """Returns the topic. A broker may not have the metadata of a topic that a viewer has just made."""
    deadline = time.monotonic() + (_NEW_TOPIC_S if is_new else 0)
    while True:
        try:
            (found,) = described_topics(admin, [name])
            return found
        except ResponseError as error:
            if kind_of_code(error.code) != ErrorKind.NOT_FOUND or time.monotonic() >= deadline:
                raise
            time.sleep(_NEW_TOPIC_POLL_S)


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


def _config_table(backend: Backend, name: str, configs: dict[str, ConfigValue]) -> Table:
    """Configs that differ from their default first. Each row has a form, whose empty value is the default."""
    rows = sorted(configs.items(), key=lambda one: (not _differs(*one), one[0]))
    shown = [
        (
            key,
            _config_form(backend, name, key, value),
            with_unit(key, value.value),
            Badge("differs", "warn") if _differs(key, value) else "",
            _default_of(key, value),
            _SOURCES.get(value.config_source, str(value.config_source).lower()),
        )
        for key, value in rows
    ]
    return Table("Configs", ("Key", "Value", "Reads as", "Differs", "Default", "Source"), shown)


def _config_form(backend: Backend, name: str, key: str, value: ConfigValue) -> Cell:
    if value.is_sensitive or value.read_only:
        return HIDDEN if value.is_sensitive else value.value
    now = str(value.value if value.value is not None else "")
    label = f"Value of {key}; empty: its default"
    choices = ("true", "false") if now in ("true", "false") else _CHOICES.get(key, ())
    if choices:
        # A select has no empty text: its first choice is the default.
        options = ("", *choices) if now in choices else ("", now, *choices)
        field = Field("config_value", label, now, "select", options, labels={"": "its default"})
    else:
        field = Field("config_value", label, now)
    return Form(
        f"Set {key} of {name}",
        f"{path_to('topics', name)}/config",
        [Field("name", "", key, "hidden"), field],
        "Set",
        effects=[Effect(key, _as_read(key, now), "{config_value}")],
        command=command_of(backend, "config", "set", "topic", name, template=f" {key}={{config_value}}"),
    )


def _as_read(key: str, value: str) -> str:
    unit = with_unit(key, value)
    return f"{value} ({unit})" if unit else value


def _differs(key: str, value: ConfigValue) -> bool:
    return bool(value.config_source != "DEFAULT_CONFIG" and value.value != _default_of(key, value))


def _default_of(key: str, value: ConfigValue) -> str:
    """The value without the topic's own: of the broker's configuration, or Kafka's."""
    own = "DYNAMIC_TOPIC_CONFIG"
    for one in value.synonyms:
        if one.source != own:
            return in_unit_of(key, one.name, str(one.value))
    return str(value.value) if value.config_source != own else NONE


def _changes(backend: Backend, name: str, count: int) -> list[Form]:
    at = path_to("topics", name)
    return [
        Form(
            "Add partitions, or change the number of replicas",
            f"{at}/alter",
            [
                Field("partitions", "New number of partitions", kind="number", hint=f"now {count}"),
                Field("replicas", "Replicas of each partition", kind="number"),
            ],
            "Change partitions",
            words="Keys go to other partitions after partitions were added. Partitions cannot be removed.",
            effects=[Effect("Partitions", str(count), "{partitions}"), Effect("Replicas", "", "{replicas}")],
            command=command_of(
                backend, "topic", "alter", name, template="[ --partitions {partitions}][ --replicas {replicas}]"
            ),
            name="Add partitions",
        ),
        Form(
            "Delete old records",
            f"{at}/trim",
            [
                Field("partition", "Partition", kind="number", hint="empty: all"),
                Field("before", "Before offset", hint="an offset, or end", required=True),
            ],
            "Delete records",
            danger=True,
            words="Records before the offset are deleted from all replicas. This cannot be undone.",
            command=command_of(backend, "topic", "trim", name, template="[ --partition {partition}] --before {before}"),
        ),
        deletion(backend, name),
    ]


def confirmed(form: Fields, name: str) -> None:
    """Raises Misused unless the name was typed."""
    if form.get("confirm", "").strip() != name:
        raise Misused(f"nothing was changed: type {name} to confirm")


def set_config(backend: Backend, form: Fields) -> Done:
    name, key, value = form["topic"], required(form, "name"), form.get("config_value", "").strip()
    change = ("SET", value) if value else ("DELETE", None)
    with backend.links.admin() as admin:
        alter_configs(admin, "topic", name, {key: change}, dry_run=False)
    words = f"{key} of {name} was set." if value else f"{key} of {name} was reset to its default."
    return Done(words, path_to("topics", name, CONFIGURATION))


def alter(backend: Backend, form: Fields) -> Done:
    name = form["topic"]
    partitions, replicas = whole(form, "partitions", 0, 1), whole(form, "replicas", 0, 1)
    if not partitions and not replicas:
        raise Misused("nothing to change: give partitions or replicas")
    with backend.links.admin() as admin:
        done = alter_topic(admin, name, partitions or None, replicas or None, {}, dry_run=False)
    return Done(f"Changed: {'; '.join(done)}"[:400], path_to("topics", name, PARTITIONS))


def trim(backend: Backend, form: Fields) -> Done:
    name, before = form["topic"], required(form, "before")
    partition = whole(form, "partition", -1)
    offset = None if before == "end" else whole(form, "before")
    notes: list[str] = []
    with backend.links.admin() as admin:
        done = trim_topic(admin, name, None if partition < 0 else partition, offset, dry_run=False, note=notes.append)
    return Done(f"Deleted records of {'; '.join([*done, *notes])}"[:400], path_to("topics", name, PARTITIONS))


def delete(backend: Backend, form: Fields) -> Done:
    name = form["topic"]
    confirmed(form, name)
    with backend.links.admin() as admin:
        delete_topics(admin, [name], if_exists=False, dry_run=False)
    return Done(f"Topic {name} was deleted.", "/topics")
