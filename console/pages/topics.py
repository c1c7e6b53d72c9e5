"""Topics: the list, one topic with its partitions and configs, and their changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request

from ...cli.client.admin import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    alter_configs,
    config_values,
    described_topics,
    partition_offsets,
)
from ...cli.client.errors import NOT_FOUND, CommandError, Misused
from ...cli.client.properties import HIDDEN, pairs
from ...cli.topics import alter_topic, create_topics, delete_topics, trim_topic
from ..access.sessions import FLASH_COOKIE
from ..actions import Done, required, whole
from ..actions import Form as Fields
from ..backend import Backend
from ..cluster.model import Rates, TopicRow
from ..drawings import chart, replicas_drawn
from ..formats import NONE, in_unit_of, number, numbers, size, with_unit
from ..parts import Badge, Bar, Cell, Charts, Facts, Field, Form, Link, Page, Pages, Part, Table
from .lists import SortKey, here, listed, number_of, paged, path_to

if TYPE_CHECKING:
    from ...cli.client.admin import AdminClient, ConfigValue, Partition, Topic, TopicOptions


#: Partitions on one page of a topic.
_PARTITIONS = 100
_NEW_TOPIC_S, _NEW_TOPIC_POLL_S = 5.0, 0.1


#: Columns of the list, and what it sorts by.
_KEYS: dict[str, Callable[[TopicRow], SortKey]] = {
    "Topic": lambda one: one.name,
    "Partitions": lambda one: one.partitions,
    "Replicas": lambda one: one.replicas,
    "Under-replicated": lambda one: one.under_replicated + one.without_leader,
    "Records/s": lambda one: one.records_per_s,
}


def topics(backend: Backend, request: Request) -> Page:
    found = backend.snapshot
    internal = request.query_params.get("internal") == "yes"
    short = request.query_params.get("short") == "yes"
    rows = [
        one
        for one in found.topics
        if (internal or not one.internal) and (not short or one.under_replicated or one.without_leader)
    ]
    chosen, search, pages = paged(request, rows, lambda one: one.name, "topics", _KEYS)
    hidden = 0 if internal else sum(one.internal for one in found.topics)
    pages.text += f", without {hidden} internal" if hidden else ""
    search.fields = [
        *search.fields,
        Field("internal", "Internal topics", "yes" if internal else "", "check"),
        Field("short", "Under-replicated only", "yes" if short else "", "check"),
    ]
    cells = [
        (
            Link(one.name, path_to("topics", one.name)),
            one.partitions,
            one.replicas,
            _health(one.under_replicated, one.without_leader),
            number(one.records_per_s),
            Link("messages", path_to("topics", one.name, "messages")),
        )
        for one in chosen
    ]
    table = listed((*_KEYS, ""), cells, "No topic matches.", _KEYS)
    return Page("Topics", [pages, table], "/topics", live="/topics", live_s=5, above=[search], below=[_creation()])


def _health(under_replicated: int, without_leader: int) -> Badge:
    if without_leader:
        return Badge(f"{without_leader} without leader", "bad")
    return Badge(str(under_replicated), "warn" if under_replicated else "good")


def _creation() -> Form:
    fields = [
        Field("name", "Name", required=True),
        Field("partitions", "Partitions", kind="number", hint="empty: the broker's default"),
        Field("replicas", "Replicas", kind="number", hint="empty: the broker's default"),
        Field("configs", "Configs", kind="area", hint="one KEY=VALUE per line"),
    ]
    return Form("Create a topic", "/topics", fields, "Create")


def topic(backend: Backend, request: Request) -> Page:
    name = request.path_params["topic"]
    with backend.links.admin() as admin:
        found = _described(admin, name, is_new=FLASH_COOKIE in request.cookies)
        first = max(0, number_of(request, "page", 0)) * _PARTITIONS
        shown = found["partitions"][first : first + _PARTITIONS]
        asked: Topic = {**found, "partitions": shown}
        away = backend.away
        begins, ends = (partition_offsets(admin, [asked], at, without=away) for at in (EARLIEST, LATEST))
        sizes = _sizes(admin, name, [one for one in shown if one["leader_id"] not in away])
        configs = config_values(admin, "topic", name)
        stored = _stored(admin, asked, configs, ends, away)
    rates = backend.rates.note(name, first, {index: end for (_, index), end in ends.items()}, sizes)
    row = backend.snapshot.topic(name)
    records_per_s = row.records_per_s if row is not None else None
    if rates.is_new and records_per_s is not None:
        backend.poller.history.add(f"rate/{name}", records_per_s)
    facts = Facts(
        "Topic",
        [
            ("Id", str(found["topic_id"])),
            ("Partitions", len(found["partitions"])),
            ("Records in these partitions", number(sum(ends[one] - begins.get(one, 0) for one in ends))),
            ("Bytes of their leaders", size(sum(sizes.values()))),
            (
                "Bytes of all their replicas",
                size(sum(sizes.get(_index(one), 0) * len(one["replica_nodes"]) for one in shown)),
            ),
            ("Records/s", number(records_per_s)),
            ("Bytes/s of their leaders", _per_second(rates.bytes_per_s)),
        ],
    )
    brokers = [one.broker for one in backend.snapshot.brokers]
    rows = [_partition(name, one, begins, ends, sizes, rates, brokers, away) for one in shown]
    columns = ("Partition", "Leader", "Epoch", "Replicas", "ISR", "First", "End", "Bytes", "Records/s", "")
    table = Table("Partitions", columns, rows, of=len(found["partitions"]))
    throughput = Charts([chart("Records/s", *backend.poller.history.points(f"rate/{name}"), " records/s")])
    pages = _partition_pages(request, len(found["partitions"]), first)
    parts: list[Part] = [facts, _readers(backend, name), table, *pages, *stored, throughput]
    return Page(
        f"Topic {name}",
        parts,
        "/topics",
        live=here(request),
        live_s=5,
        above=[Bar([Link("Messages", path_to("topics", name, "messages"))])],
        below=[_config_table(name, configs), *_changes(name, len(found["partitions"]))],
    )


def _index(partition: Partition) -> int:
    return int(partition["partition_index"])


def _per_second(value: float | None) -> str:
    return f"{size(round(value))}/s" if value is not None else NONE


def _readers(backend: Backend, name: str) -> Table:
    """Groups with offsets in the topic, as the poller read them last."""
    rows = [
        (Link(row.group, path_to("groups", row.group)), row.kind, row.state, number(lag))
        for row, lag in backend.poller.readers(name)
    ]
    return Table("Groups that read it", ("Group", "Kind", "State", "Lag here"), rows, "No group has offsets here.")


def _stored(
    admin: AdminClient,
    asked: Topic,
    configs: dict[str, ConfigValue],
    ends: dict[tuple[str, int], int],
    away: frozenset[int],
) -> list[Table]:
    """Returns a table of what disks and remote store have of a tiered topic (KIP-405); nothing for other topics."""
    enabled = configs.get("remote.storage.enable")
    if enabled is None or enabled["value"] != "true":
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


def _described(admin: AdminClient, name: str, *, is_new: bool) -> Topic:
    """Returns the topic. A broker may not have the metadata of a topic that a viewer has just made."""
    deadline = time.monotonic() + (_NEW_TOPIC_S if is_new else 0)
    while True:
        try:
            (found,) = described_topics(admin, [name])
            return found
        except CommandError as error:
            if error.status != NOT_FOUND or time.monotonic() >= deadline:
                raise
            time.sleep(_NEW_TOPIC_POLL_S)


def _partition_pages(request: Request, count: int, first: int) -> list[Pages]:
    if count <= _PARTITIONS:
        return []
    page, path = first // _PARTITIONS, here(request)
    before = f"{path}?page={page - 1}" if page else ""
    after = f"{path}?page={page + 1}" if first + _PARTITIONS < count else ""
    return [Pages(f"{first + 1}-{min(count, first + _PARTITIONS)} of {count} partitions", before, after)]


def _partition(
    name: str,
    one: Partition,
    begins: dict[tuple[str, int], int],
    ends: dict[tuple[str, int], int],
    sizes: dict[int, int],
    rates: Rates,
    brokers: list[int],
    away: frozenset[int],
) -> list[Cell]:
    index = one["partition_index"]
    place = (name, index)
    isr, replicas = one["isr_nodes"], one["replica_nodes"]
    leader: Cell = one["leader_id"]
    if one["leader_id"] < 0:
        leader = Badge("none", "bad")
    elif leader != replicas[0]:
        leader = Badge(f"{leader}, not preferred", "plain")
    messages = f"{path_to('topics', name, 'messages')}?partition={index}"
    return [
        index,
        leader,
        one["leader_epoch"],
        replicas_drawn(one["leader_id"], replicas, isr, brokers, away),
        Badge(numbers(isr), "warn" if len(isr) < len(replicas) else "good"),
        begins.get(place),
        ends.get(place),
        size(sizes.get(index)),
        number(rates.records_per_s.get(index)),
        Link("look", messages),
    ]


def _sizes(admin: AdminClient, name: str, partitions: list[Partition]) -> dict[int, int]:
    """Bytes of the leaders' replicas. Brokers that do not respond are left out."""
    from kafka.errors import KafkaError

    leaders = {one["partition_index"]: one["leader_id"] for one in partitions if one["leader_id"] >= 0}
    sizes: dict[int, int] = {}
    for node in sorted(set(leaders.values())):
        held = [index for index, leader in leaders.items() if leader == node]
        try:
            response = admin.describe_log_dirs({name: held}, [node])
        except KafkaError:
            continue
        for directory in response[0]["log_dirs"]:
            for topic in directory["topics"]:
                for one in topic["partitions"]:
                    if not one["is_future_key"]:
                        sizes[one["partition_index"]] = one["partition_size"]
    return sizes


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


def _config_table(name: str, configs: dict[str, ConfigValue]) -> Table:
    """Configs that differ from their default first. Each row has a form, whose empty value is the default."""
    rows = sorted(configs.items(), key=lambda one: (not _differs(*one), one[0]))
    shown = [
        (
            key,
            _config_form(name, key, value),
            with_unit(key, value["value"]),
            Badge("differs", "warn") if _differs(key, value) else "",
            _default_of(key, value),
            _SOURCES.get(value["config_source"], str(value["config_source"]).lower()),
        )
        for key, value in rows
    ]
    return Table("Configs", ("Key", "Value", "Reads as", "Differs", "Default", "Source"), shown)


def _config_form(name: str, key: str, value: ConfigValue) -> Cell:
    if value["is_sensitive"] or value.get("read_only"):
        return HIDDEN if value["is_sensitive"] else value["value"]
    now = str(value["value"] if value["value"] is not None else "")
    label = f"Value of {key}; empty: its default"
    choices = ("true", "false") if now in ("true", "false") else _CHOICES.get(key, ())
    if choices:
        # A select has no empty text: its first choice is the default.
        options = ("", *choices) if now in choices else ("", now, *choices)
        field = Field("config_value", label, now, "select", options, labels={"": "its default"})
    else:
        field = Field("config_value", label, now)
    return Form("", f"{path_to('topics', name)}/config", [Field("name", "", key, "hidden"), field], "Set")


def _differs(key: str, value: ConfigValue) -> bool:
    return bool(value["config_source"] != "DEFAULT_CONFIG" and value["value"] != _default_of(key, value))


def _default_of(key: str, value: ConfigValue) -> str:
    """The value without the topic's own: of the broker's configuration, or Kafka's."""
    own = "DYNAMIC_TOPIC_CONFIG"
    for one in value.get("synonyms") or ():
        if str(one.get("config_source", one.get("source"))) != own:
            return in_unit_of(key, str(one["name"]), str(one["value"]))
    return str(value["value"]) if value["config_source"] != own else NONE


def _changes(name: str, partitions: int) -> list[Form]:
    at = path_to("topics", name)
    return [
        Form(
            "Add partitions, or change the number of replicas",
            f"{at}/alter",
            [
                Field("partitions", "New number of partitions", kind="number", hint=f"now {partitions}"),
                Field("replicas", "Replicas of each partition", kind="number"),
            ],
            "Change",
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
        ),
        Form("Delete the topic", f"{at}/delete", [_typed(name)], "Delete topic and records", danger=True),
    ]


def _typed(name: str) -> Field:
    return Field("confirm", f"Type {name} to confirm", required=True)


def confirmed(form: Fields, name: str) -> None:
    """Raises Misused unless the name was typed."""
    if form.get("confirm", "").strip() != name:
        raise Misused(f"nothing was changed: type {name} to confirm")


# ---- changes


def create(backend: Backend, form: Fields) -> Done:
    name = required(form, "name")
    lines = [line.strip() for line in form.get("configs", "").splitlines() if line.strip()]
    options: TopicOptions = {
        "num_partitions": whole(form, "partitions", -1, 1),
        "replication_factor": whole(form, "replicas", -1, 1),
        "configs": pairs(lines, "configs"),
    }
    with backend.links.admin() as admin:
        create_topics(admin, [name], options, if_not_exists=False, dry_run=False)
    return Done(f"Topic {name} was created.", path_to("topics", name))


def set_config(backend: Backend, form: Fields) -> Done:
    name, key, value = form["topic"], required(form, "name"), form.get("config_value", "").strip()
    change = ("SET", value) if value else ("DELETE", None)
    with backend.links.admin() as admin:
        alter_configs(admin, "topic", name, {key: change}, dry_run=False)
    words = f"{key} of {name} was set." if value else f"{key} of {name} was reset to its default."
    return Done(words, path_to("topics", name))


def alter(backend: Backend, form: Fields) -> Done:
    name = form["topic"]
    partitions, replicas = whole(form, "partitions", 0, 1), whole(form, "replicas", 0, 1)
    if not partitions and not replicas:
        raise Misused("nothing to change: give partitions or replicas")
    with backend.links.admin() as admin:
        done = alter_topic(admin, name, partitions or None, replicas or None, {}, dry_run=False)
    return Done(f"Changed: {'; '.join(done)}"[:400], path_to("topics", name))


def trim(backend: Backend, form: Fields) -> Done:
    name, before = form["topic"], required(form, "before")
    partition = whole(form, "partition", -1)
    offset = None if before == "end" else whole(form, "before")
    with backend.links.admin() as admin:
        done = trim_topic(admin, name, None if partition < 0 else partition, offset, dry_run=False)
    return Done(f"Deleted records of {'; '.join(done)}"[:400], path_to("topics", name))


def delete(backend: Backend, form: Fields) -> Done:
    name = form["topic"]
    confirmed(form, name)
    with backend.links.admin() as admin:
        delete_topics(admin, [name], if_exists=False, dry_run=False)
    return Done(f"Topic {name} was deleted.", "/topics")
