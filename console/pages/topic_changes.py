"""Changes of a topic: their forms, and what each does."""

from __future__ import annotations

from ...admin.record_deletion import trim_topic
from ...admin.topic_alteration import alter_topic
from ...admin.topic_batches import delete_topics
from ...client.user_errors import Misused
from ..actions import Done, Fields, confirmed, required, whole
from ..addresses import path_to
from ..backend import Backend
from ..command_templates import command_of
from ..parts import Effect, Field, Form
from ..whole_numbers import MOST_INT16, MOST_INT32, MOST_INT64
from .topic_head import PARTITIONS


def changes(backend: Backend, name: str, count: int) -> list[Form]:
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


def deletion(backend: Backend, name: str) -> Form:
    return Form(
        "Delete the topic",
        f"{path_to('topics', name)}/delete",
        [Field("confirm", f"Type {name} to confirm", required=True)],
        "Delete topic and records",
        danger=True,
        words="All records of the topic are deleted, and groups lose their offsets in it. This cannot be undone.",
        command=command_of(backend, "topic", "delete", name),
    )


def alter(backend: Backend, form: Fields) -> Done:
    name = form["topic"]
    partitions, replicas = whole(form, "partitions", MOST_INT32, 0, 1), whole(form, "replicas", MOST_INT16, 0, 1)
    if not partitions and not replicas:
        raise Misused("nothing to change: give partitions or replicas")
    with backend.links.admin() as admin:
        done = alter_topic(admin, name, partitions or None, replicas or None, {}, dry_run=False)
    return Done(f"Changed: {'; '.join(done)}"[:400], path_to("topics", name, PARTITIONS))


def trim(backend: Backend, form: Fields) -> Done:
    name, before = form["topic"], required(form, "before")
    partition = whole(form, "partition", MOST_INT32, -1)
    offset = None if before == "end" else whole(form, "before", MOST_INT64)
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
