"""Dead-letter queues of share groups: their records, and redrive to where the records came from."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from ...client.user_errors import UserError
from ...client.wording import counted
from ..actions import Done, Fields, required, whole
from ..addresses import number_of, path_to
from ..backend import Backend
from ..budgets import Budget
from ..cluster.dead_letter_queues import queue_of
from ..cluster.model import GroupRow
from ..cluster.query import Query
from ..cluster.redrive import MOST_REDRIVEN, ORIGIN, redrive
from ..formats import NONE
from ..parts import (
    Badge,
    Cell,
    Field,
    Form,
    Link,
    Moment,
    Page,
    Table,
    Text,
)
from ..whole_numbers import MOST_INT32, MOST_INT64
from .long_lists import SortKey, listed, paged
from .messages import text_cell, unread

#: Columns by which the list sorts.
_QUEUE_KEYS: dict[str, Callable[[GroupRow], SortKey]] = {"Group": lambda one: one.group, "State": lambda one: one.state}


def queues(backend: Backend, request: Request) -> Page:
    groups = [one for one in backend.snapshot.groups if one.kind == "share"]
    chosen, search, pages = paged(request, groups, lambda one: one.group, "share groups", _QUEUE_KEYS)
    with backend.links.admin() as admin:
        names = {one.group: queue_of(admin, one.group) for one in chosen}
    rows = [
        (
            Link(one.group, path_to("groups", one.group)),
            Badge(one.state, "good" if one.state == "Stable" else "plain"),
            _queue_cell(names[one.group]),
        )
        for one in chosen
    ]
    words = Text(
        "A share group writes records that its consumers could not process to the topic of its config "
        "errors.deadletterqueue.topic.name."
    )
    table = listed(("Group", "State", "Dead-letter queue"), rows, "No share group matches.", _QUEUE_KEYS)
    return Page("Dead-letter queues", [words, pages, table], "/share", above=[search])


def _queue_cell(name: str | None) -> Cell:
    if name is None:
        return "not authorized"
    return Link(name, path_to("share", name)) if name else "none"


def queue(backend: Backend, request: Request, budget: Budget) -> Page:
    """The newest records of a queue with their origins, or those from an offset of a partition on."""
    topic = request.path_params["topic"]
    partition = number_of(request, "partition", -1, MOST_INT32)
    start = request.query_params.get("from", "").strip() or "-50"
    result = backend.records.read(Query(topic, None if partition < 0 else partition, start), budget)
    rows = []
    for one in result.records:
        origin = {name.removeprefix(ORIGIN): value or "" for name, value in one.headers if name.startswith(ORIGIN)}
        place = (origin.get("topic", ""), origin.get("partition", ""), origin.get("offset", ""))
        rows.append(
            (
                Moment(one.timestamp_ms),
                one.partition,
                Link(str(one.offset), path_to("topics", topic, "messages", one.partition, one.offset)),
                Link("-".join(place[:2]) + f" at {place[2]}", path_to("topics", place[0], "messages", *place[1:]))
                if all(place)
                else NONE,
                origin.get("group", NONE),
                origin.get("delivery.count", NONE),
                origin.get("message", NONE),
                text_cell(one.value),
            )
        )
    columns = ("Time (UTC)", "Partition", "Offset", "Origin", "Group", "Deliveries", "Cause", "Value")
    fields = [
        Field("partition", "Partition of the queue", "0", "number", required=True),
        Field("first", "From offset", kind="number", required=True),
        Field("count", "Records", "1", "number", hint=f"at most {MOST_REDRIVEN}"),
    ]
    form = Form(
        "Redrive: write records to their original topics again",
        f"{path_to('share', topic)}/redrive",
        fields,
        "Redrive",
        danger=True,
    )
    return Page(
        f"Queue {topic}",
        [*unread(topic, result), Table("Records", columns, rows, "The queue is empty.")],
        "/share",
        below=[form],
    )


def redrive_records(backend: Backend, form: Fields) -> Done:
    topic = required(form, "topic")
    partition, first = whole(form, "partition", MOST_INT32), whole(form, "first", MOST_INT64)
    count = redrive(backend.connection, topic, partition, first, whole(form, "count", MOST_REDRIVEN, 1, 1))
    if not count:
        raise UserError(f"{topic} has no record at this offset: nothing was written")
    return Done(f"Wrote {counted(count, 'record')} of {topic} to their original topics.", path_to("share", topic))
