"""The reset of a group's offsets, with its preview."""

from __future__ import annotations

import json

from starlette.requests import Request

from ...admin.offset_reset import chosen_places, commit, stored_offsets, targets
from ...admin.positions import parse_position
from ...client.user_errors import Misused
from ...client.wording import counted
from ..actions import Done, Fields, required
from ..addresses import MOST_TEXT_BYTES, name_in, path_to, text_of
from ..backend import Backend
from ..cluster.groups import CoordinatorAway, described
from ..parts import (
    Facts,
    Field,
    Form,
    Link,
    Page,
    Part,
    Table,
    Text,
)
from ..whole_numbers import MOST_INT32, MOST_INT64, is_whole
from .groups import _CRUMBS


def preview(backend: Backend, request: Request) -> Page:
    """The offsets that a reset would set. The form below has the same offsets."""
    name = name_in(request, "group")
    try:
        return _preview(backend, request, name)
    except CoordinatorAway as error:
        again = Link("preview again", f"{path_to('groups', name, 'reset')}?{request.query_params}")
        parts: list[Part] = [
            Text(str(error), "bad"),
            Facts("", [("Group", Link(name, path_to("groups", name))), ("Reset", again)]),
        ]
        return Page(f"Reset of group {name}", parts, "/groups")


def _preview(backend: Backend, request: Request, name: str) -> Page:
    position, topic = request.query_params.get("to", ""), text_of(request, "topic")
    parsed = parse_position(position)
    notes: list[str] = []
    with backend.links.admin() as admin:
        found = described(admin, name, backend.away)
        kind = found.kind
        before = stored_offsets(admin, name, shares=kind == "share")
        places = chosen_places(admin, name, [topic] if topic else [], before)
        after = targets(admin, name, places, parsed, 0, before, notes.append)
    rows = [
        (place[0], place[1], before.get(place), offset, offset - before[place] if place in before else None)
        for place, offset in after.items()
    ]
    table = Table(f"Reset to {position}", ("Topic", "Partition", "Before", "After", "Change"), rows)
    offsets = json.dumps([[*place, offset] for place, offset in after.items()])
    form = Form(
        "",
        f"{path_to('groups', name)}/reset",
        [Field("offsets", "", offsets, "hidden"), Field("kind", "", kind, "hidden")],
        f"Set {counted(len(after), 'offset')}",
        danger=True,
        folded=False,
    )
    crumbs = (*_CRUMBS, Link(name, path_to("groups", name)))
    parts: list[Part] = [*(Text(note, "warn") for note in notes), table]
    if found.members:
        words = Text(
            "The group has members, and takes new offsets when it has none: stop them, and preview again.", "bad"
        )
        return Page(f"Reset of group {name}", [words, *parts], "/groups", crumbs=crumbs)
    words = Text("Nothing has changed yet. A group takes new offsets when it has no members.")
    return Page(f"Reset of group {name}", [words, *parts], "/groups", below=[form], crumbs=crumbs)


def reset(backend: Backend, form: Fields) -> Done:
    name = form["group"]
    try:
        found = json.loads(required(form, "offsets"))
        offsets = {
            (topic, partition): offset for topic, partition, offset in found if _is_offset(topic, partition, offset)
        }
        if len(offsets) != len(found):
            raise ValueError("an offset is none")
    except (ValueError, TypeError, RecursionError):
        raise Misused("the offsets of the form cannot be read: preview the reset again") from None
    with backend.links.admin() as admin:
        commit(admin, name, offsets, shares=form.get("kind") == "share")
    return Done(f"Set {counted(len(offsets), 'offset')} of group {name}.", path_to("groups", name))


def _is_offset(topic: object, partition: object, offset: object) -> bool:
    is_name = isinstance(topic, str) and topic.isprintable() and len(topic) <= MOST_TEXT_BYTES // 4
    return is_name and is_whole(partition, 0, MOST_INT32) and is_whole(offset, 0, MOST_INT64)
