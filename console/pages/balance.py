"""Balance of the brokers: a plan of moves that evens out replicas, bytes and leaders, and the progress of moves."""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request

from ...admin.balance import Balance, Placement
from ...admin.errors import RequestFailed
from ...admin.log_directories import describe_log_dirs
from ...admin.nodes import describe_cluster
from ...admin.readings import replicas_in
from ...admin.reassignments import Reassignment, alter_reassignments, elect_leaders, list_reassignments
from ...admin.topics import described_topics
from ...client.user_errors import Misused, UserError
from ...client.wording import counted
from ..actions import Done, Fields, required
from ..addresses import MOST_TEXT_BYTES, path_to
from ..backend import Backend
from ..command_templates import command_of
from ..formats import number, numbers, size
from ..parts import Cell, Field, Form, Link, Page, Part, Table, Text
from ..shares import share
from ..whole_numbers import MOST_INT32, is_whole

if TYPE_CHECKING:
    from ...admin.session import Admin

Place = tuple[str, int]
#: Rows of a plan that are shown; all are carried out. A larger cluster is balanced on the command line.
_MOST_MOVES, _MOST_PARTITIONS = 500, 20_000
_CRUMBS = (Link("Brokers", "/brokers"),)


def balance(backend: Backend, request: Request) -> Page:
    """Moves under way, if there are any; else the plan."""
    if backend.snapshot.partitions > _MOST_PARTITIONS:
        raise UserError(f"the cluster has more than {_MOST_PARTITIONS} partitions: use `odradek reassign plan`")
    with backend.links.admin() as admin:
        moves = list_reassignments(admin)
        sizes = _sizes(admin, backend.away)
        if moves:
            return _progress(moves, sizes)
        before = _placement(admin)
        racks = {one.broker_id: one.rack for one in describe_cluster(admin).brokers if not one.is_fenced}
    largest = {place: max(held.values(), default=0) for place, held in sizes.items()}
    try:
        after = Balance(before, racks, largest).plan()
    except ValueError as error:
        return Page("Balance", [Text(f"There is no plan: {error}.", "warn")], "/brokers", crumbs=_CRUMBS)
    changed = {place: held for place, held in after.items() if held != before[place]}
    copied = sum(largest.get(place, 0) * len(set(held) - set(before[place])) for place, held in changed.items())
    parts: list[Part] = [_spread(before, after, sorted(racks), largest), _moves(before, changed, largest)]
    page = Page("Balance", parts, "/brokers", crumbs=_CRUMBS)
    page.figures = [("Partitions that change", len(changed)), ("Bytes to copy", size(copied))]
    if changed:
        page.below = [_start(backend, changed, copied)]
    return page


def _placement(admin: Admin) -> Placement:
    return {
        (topic.name, one.partition_index): list(one.replica_nodes)
        for topic in described_topics(admin, None)
        for one in topic.partitions
    }


def _sizes(admin: Admin, away: frozenset[int]) -> dict[Place, dict[int, int]]:
    """Bytes of each replica by broker."""
    made: dict[Place, dict[int, int]] = defaultdict(dict)
    nodes = [one.broker_id for one in describe_cluster(admin).brokers if one.broker_id not in away]
    for one in replicas_in(describe_log_dirs(admin, None, nodes)):
        made[one.place][one.broker] = max(made[one.place].get(one.broker, 0), one.bytes)
    return made


def _spread(before: Placement, after: Placement, brokers: list[int], sizes: Mapping[Place, int]) -> Table:
    """Replicas, bytes and leaders of each broker, before and after."""
    counts = [_counts(one, sizes) for one in (before, after)]
    most = [max((one[index].get(broker, 0) for one in counts for broker in brokers), default=0) for index in range(3)]
    rows: list[list[Cell]] = []
    for broker in brokers:
        row: list[Cell] = [Link(str(broker), path_to("brokers", broker))]
        for index, words in enumerate((number, size, number)):
            old, new = (one[index].get(broker, 0) for one in counts)
            row.append(
                [share(new, most[index], old), f"{words(old)} → {words(new)}" if old != new else str(words(old))]
            )
        rows.append(row)
    return Table("Brokers before and after", ("Broker", "Replicas", "Bytes", "Leaders"), rows)


def _counts(placement: Placement, sizes: Mapping[Place, int]) -> tuple[Counter[int], Counter[int], Counter[int]]:
    replicas, held_bytes, leaders = Counter[int](), Counter[int](), Counter[int]()
    for place, held in placement.items():
        for broker in held:
            replicas[broker] += 1
            held_bytes[broker] += sizes.get(place, 0)
        if held:
            leaders[held[0]] += 1
    return replicas, held_bytes, leaders


def _moves(before: Placement, changed: Placement, sizes: Mapping[Place, int]) -> Table:
    rows = [
        (
            Link(place[0], path_to("topics", place[0], "partitions")),
            place[1],
            numbers(before[place]),
            numbers(held),
            size(sizes.get(place, 0)) if set(held) - set(before[place]) else "only the leader changes",
        )
        for place, held in list(changed.items())[:_MOST_MOVES]
    ]
    columns = ("Topic", "Partition", "Replicas now", "Replicas after", "To copy")
    return Table("Plan", columns, rows, "The cluster is balanced: no move would even it out.", of=len(changed))


def _start(backend: Backend, changed: Placement, copied: int) -> Form:
    plan = json.dumps([[*place, held] for place, held in changed.items()])
    return Form(
        f"Move replicas of {counted(len(changed), 'partition')}",
        "/brokers/balance",
        [Field("plan", "", plan, "hidden")],
        f"Move {counted(len(changed), 'partition')}",
        words=f"Brokers copy {size(copied)}. Clients keep reading and writing. The page shows the progress, and can cancel.",
        command=command_of(backend, "reassign", "run", "PLAN.json"),
        name="Start the plan",
    )


def _progress(moves: Mapping[Place, Reassignment], sizes: Mapping[Place, Mapping[int, int]]) -> Page:
    rows: list[list[Cell]] = []
    total = done = 0
    for place, one in sorted(moves.items()):
        held = sizes.get(place, {})
        whole = max(held.values(), default=0) * max(len(one.adding), 1)
        copied = sum(held.get(broker, 0) for broker in one.adding) if one.adding else whole
        total, done = total + whole, done + copied
        part = f"{100 * copied // whole if whole else 100} %"
        rows.append(
            [
                Link(place[0], path_to("topics", place[0], "partitions")),
                place[1],
                numbers(one.adding),
                numbers(one.removing),
                [share(copied, whole, copied), part],
                size(whole - copied),
            ]
        )
    columns = ("Topic", "Partition", "New replicas on", "Goes from", "Copied", "Left")
    return Page(
        "Balance",
        [Table("Moves under way", columns, rows)],
        "/brokers",
        crumbs=_CRUMBS,
        live="/brokers/balance",
        live_s=2,
        figures=[("Partitions that move", len(moves)), ("Copied", f"{size(done)} of {size(total)}")],
        below=[
            Form(
                "Cancel the moves",
                "/brokers/balance/cancel",
                [],
                f"Cancel {len(moves)} moves",
                danger=True,
                words="Partitions keep the replicas that they had before. What was copied is deleted.",
            )
        ],
    )


def start(backend: Backend, form: Fields) -> Done:
    """Starts the plan, and has the preferred replicas lead where only the leader changes."""
    try:
        found = json.loads(required(form, "plan"))
        wanted = {(topic, index): held for topic, index, held in found if _is_move(topic, index, held)}
        if len(wanted) != len(found):
            raise ValueError("a move is none")
    except (ValueError, TypeError, RecursionError):
        raise Misused("the plan cannot be read: open the page again") from None
    with backend.links.admin() as admin:
        before = _placement(admin)
        alter_reassignments(admin, wanted)
        led = [place for place, held in wanted.items() if set(held) == set(before.get(place, ()))]
        if led:
            with contextlib.suppress(RequestFailed):  # it follows when the controller balances leaders
                elect_leaders(admin, led, unclean=False)
    return Done(f"Begun: {counted(len(wanted), 'partition')} to new replicas.", "/brokers/balance")


def _is_move(topic: object, index: object, held: object) -> bool:
    is_name = isinstance(topic, str) and topic.isprintable() and len(topic) <= MOST_TEXT_BYTES // 4
    is_list = isinstance(held, list) and all(is_whole(one, 0, MOST_INT32) for one in held)
    return is_name and is_whole(index, 0, MOST_INT32) and is_list


def cancel(backend: Backend, form: Fields) -> Done:
    with backend.links.admin() as admin:
        moves = list_reassignments(admin)
        alter_reassignments(admin, dict.fromkeys(moves))
    return Done(f"{len(moves)} moves were cancelled.", "/brokers/balance")
