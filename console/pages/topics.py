"""Topics: the list, one topic with its partitions and configs, and their changes."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request

from ...cli.client.admin_calls import (
    EARLIEST,
    LATEST,
    alter_configs,
    config_values,
    described_topics,
    partition_offsets,
)
from ...cli.client.errors import NOT_FOUND, CommandError, Misused
from ...cli.client.properties import HIDDEN, pairs
from ...cli.topics.changes import alter_topic, create_topics, delete_topics, trim_topic
from ..access.sessions import FLASH_COOKIE
from ..actions import Done, required, whole
from ..actions import Form as Fields
from ..backend import Backend
from ..views.formats import number, numbers, size
from ..views.parts import Badge, Facts, Field, Form, Link, Page, Pages, Part, Table
from .paging import number_of, paged, path_to

#: Partitions on one page of a topic.
_PARTITIONS = 100
_NEW_TOPIC_S, _NEW_TOPIC_POLL_S = 5.0, 0.1


def topics(backend: Backend, request: Request) -> Page:
    found = backend.snapshot
    internal = request.query_params.get("internal") == "yes"
    short = request.query_params.get("short") == "yes"
    rows = [
        one
        for one in found.topics
        if (internal or not one.internal) and (not short or one.under_replicated or one.without_leader)
    ]
    chosen, search, pages = paged(request, rows, lambda one: one.name, "topics")
    hidden = 0 if internal else sum(one.internal for one in found.topics)
    pages.text += f", without {hidden} internal" if hidden else ""
    search.fields = [
        *search.fields,
        Field("internal", "Internal topics", "yes" if internal else "", "check"),
        Field("short", "Under-replicated only", "yes" if short else "", "check"),
    ]
    table = Table(
        "",
        ("Topic", "Partitions", "Replicas", "Under-replicated", "Records/s"),
        [
            (
                Link(one.name, path_to("topics", one.name)),
                one.partitions,
                one.replicas,
                _health(one.under_replicated, one.without_leader),
                number(one.records_per_s),
            )
            for one in chosen
        ],
        "No topic matches.",
    )
    address = f"{request.url.path}?{request.query_params}"
    return Page("Topics", [pages, table], "/topics", live=address, live_s=5, above=[search], below=[_creation()])


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
        asked, away = [{"name": name, "partitions": shown}], backend.away
        begins, ends = (partition_offsets(admin, asked, at, without=away) for at in (EARLIEST, LATEST))
        sizes = _sizes(admin, name, [one for one in shown if one["leader_id"] not in away])
        configs = config_values(admin, "topic", name)
    row = backend.snapshot.topic(name)
    facts = Facts(
        "Topic",
        [
            ("Id", str(found["topic_id"])),
            ("Partitions", len(found["partitions"])),
            ("Records in these partitions", number(sum(ends[one] - begins.get(one, 0) for one in ends))),
            ("Bytes of their leaders", size(sum(sizes.values()))),
            ("Records/s", number(row.records_per_s if row is not None else None)),
            ("Messages", Link("show records", path_to("topics", name, "messages"))),
        ],
    )
    rows = [_partition(name, one, begins, ends, sizes) for one in shown]
    columns = ("Partition", "Leader", "Epoch", "Replicas", "ISR", "First", "End", "Bytes", "Records")
    table = Table("Partitions", columns, rows)
    parts: list[Part] = [facts, table, *_partition_pages(request, len(found["partitions"]), first)]
    return Page(
        f"Topic {name}",
        parts,
        "/topics",
        live=f"{request.url.path}?{request.query_params}",
        live_s=5,
        below=[_config_table(configs), *_changes(name, len(found["partitions"]))],
    )


def _described(admin: Any, name: str, *, is_new: bool) -> dict[str, Any]:
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
    page, path = first // _PARTITIONS, request.url.path
    before = f"{path}?page={page - 1}" if page else ""
    after = f"{path}?page={page + 1}" if first + _PARTITIONS < count else ""
    return [Pages(f"{first + 1}-{min(count, first + _PARTITIONS)} of {count} partitions", before, after)]


def _partition(
    name: str,
    one: dict[str, Any],
    begins: dict[tuple[str, int], int],
    ends: dict[tuple[str, int], int],
    sizes: dict[int, int],
) -> list[Any]:
    index = one["partition_index"]
    place = (name, index)
    isr, replicas = one["isr_nodes"], one["replica_nodes"]
    leader: Any = one["leader_id"]
    if leader < 0:
        leader = Badge("none", "bad")
    elif leader != replicas[0]:
        leader = Badge(f"{leader}, not preferred", "plain")
    messages = f"{path_to('topics', name, 'messages')}?partition={index}"
    return [
        index,
        leader,
        one["leader_epoch"],
        numbers(replicas),
        Badge(numbers(isr), "warn" if len(isr) < len(replicas) else "good"),
        begins.get(place),
        ends.get(place),
        size(sizes.get(index)),
        Link("look", messages),
    ]


def _sizes(admin: Any, name: str, partitions: list[dict[str, Any]]) -> dict[int, int]:
    """Bytes of the leaders' replicas. Brokers that do not answer are left out."""
    from kafka.errors import KafkaError

    leaders = {one["partition_index"]: one["leader_id"] for one in partitions if one["leader_id"] >= 0}
    sizes: dict[int, int] = {}
    for node in sorted(set(leaders.values())):
        held = [index for index, leader in leaders.items() if leader == node]
        try:
            answered = admin.describe_log_dirs({name: held}, [node])
        except KafkaError:
            continue
        for directory in answered[0]["log_dirs"]:
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


def _config_table(configs: dict[str, dict[str, Any]]) -> Table:
    """Those of the topic first."""
    rows = sorted(configs.items(), key=lambda one: (one[1]["config_source"] == "DEFAULT_CONFIG", one[0]))
    shown = [
        (
            key,
            HIDDEN if value["is_sensitive"] else value["value"],
            Badge(_SOURCES.get(value["config_source"], str(value["config_source"]).lower())),
        )
        for key, value in rows
    ]
    return Table("Configs", ("Key", "Value", "Source"), shown)


def _changes(name: str, partitions: int) -> list[Form]:
    at = path_to("topics", name)
    return [
        Form(
            "Change a config",
            f"{at}/config",
            [Field("name", "Key", required=True), Field("config_value", "Value", hint="empty: back to its default")],
            "Set",
        ),
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
    options = {
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
