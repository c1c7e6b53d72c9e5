"""Transactions: those that coordinators know, those that hang in a partition's log, and how to abort either."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from ...admin.nodes import describe_cluster
from ...admin.open_transactions import OpenTransaction, open_transactions
from ...admin.transactions import TransactionListing, abort_in_log, describe_transactions, list_transactions
from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ..actions import Done, Fields, required, whole
from ..addresses import path_to, text_of
from ..backend import Backend
from ..formats import NONE, age
from ..parts import Badge, Button, Form, Link, Page, Table, Text
from ..parts import Field as Input
from ..whole_numbers import MOST_INT32, MOST_INT64
from .long_lists import SortKey, listed, paged

_TONES = {"Ongoing": "warn", "CompleteCommit": "good", "CompleteAbort": "plain"}
_OPEN = ("Ongoing", "PrepareAbort")
#: The log of partitions is searched in topics that are named, or in all of a small cluster.
_MOST_PARTITIONS = 2000


#: A transaction after the broker that coordinates it.
Coordinated = tuple[int, TransactionListing]
#: Columns by which the list sorts.
_KEYS: dict[str, Callable[[Coordinated], SortKey]] = {
    "Transactional id": lambda one: str(one[1].transactional_id),
    "Producer": lambda one: one[1].producer_id,
    "State": lambda one: one[1].state,
    "Coordinator": lambda one: one[0],
}


def _id_of(coordinated: Coordinated) -> str:
    return coordinated[1].transactional_id


def transactions(backend: Backend, request: Request) -> Page:
    away = backend.away
    with backend.links.admin() as admin:
        asked = [one.broker_id for one in describe_cluster(admin).brokers if one.broker_id not in away]
        known = list_transactions(admin, asked)
        known_ids = [(broker, one) for broker, found in sorted(known.items()) for one in found]
        known_ids.sort(key=_id_of)
        chosen, search, pages = paged(request, known_ids, _id_of, "transactional ids", _KEYS)
        details = describe_transactions(admin, [one.transactional_id for _, one in chosen]) if chosen else {}
    rows = []
    for broker, one in chosen:
        name, state = one.transactional_id, one.state
        detail = details.get(name)
        started = detail.start_time_ms if detail is not None else -1
        held = sorted(f"{topic}-{index}" for topic, index in detail.partitions) if detail is not None else []
        button = Button(
            "Abort", "/transactions/abort", {"id": name}, f"Abort the transaction of {name}? This fences its producer."
        )
        rows.append(
            (
                name,
                one.producer_id,
                Badge(state, _TONES.get(state, "plain")),
                broker,
                age(max(0, int(backend.snapshot.at * 1000) - started)) if started >= 0 else NONE,
                " ".join(held[:20]),
                button if state in _OPEN else "",
            )
        )
    columns = ("Transactional id", "Producer", "State", "Coordinator", "Age", "Partitions", "")
    table = listed(columns, rows, "None.", _KEYS)
    table.title = "Transactions of coordinators"
    search_hanging = Form(
        "Hanging transactions",
        "/transactions/hanging",
        [Input("topic", "Topic", hint=f"empty: all, up to {_MOST_PARTITIONS} partitions")],
        "Search the logs",
        method="get",
        folded=False,
    )
    return Page(
        "Transactions",
        [pages, *_missing(backend), table],
        "/transactions",
        live="/transactions",
        live_s=5,
        above=[search],
        below=[search_hanging],
    )


def hanging(backend: Backend, request: Request) -> Page:
    """Transactions that are open in a log: those without a coordinator block readers of committed records."""
    topic = text_of(request, "topic")
    if not topic and backend.snapshot.partitions > _MOST_PARTITIONS:
        raise UserError(f"the cluster has more than {_MOST_PARTITIONS} partitions: name a topic")
    with backend.links.admin() as admin:
        found = open_transactions(admin, [topic] if topic else None, without=backend.away)
    rows = [
        (
            Link(one["topic"], path_to("topics", one["topic"])),
            one["partition"],
            one["producer_id"],
            one["producer_epoch"],
            one["start_offset"],
            age(one["age_ms"]),
            _state_badge(one),
            _abort_button(one) if one["hangs"] else "",
        )
        for one in found
    ]
    columns = ("Topic", "Partition", "Producer", "Epoch", "First offset", "Last record", "State", "")
    words = Text("A hanging transaction is open in a partition's log, but no coordinator has it (KIP-664).")
    return Page(
        "Open transactions",
        [words, *_missing(backend), Table("In the logs", columns, rows, "No open transaction.")],
        "/transactions",
    )


def _state_badge(transaction: OpenTransaction) -> Badge:
    if transaction["hangs"] is None:
        return Badge("unknown: not every coordinator responds", "warn")
    return Badge("hangs", "bad") if transaction["hangs"] else Badge(f"of {transaction['transactional_id']}", "good")


def _missing(backend: Backend) -> list[Text]:
    """Names silent brokers. When the controller has fenced them, other brokers coordinate and lead in their place."""
    silent = [str(one.broker) for one in backend.snapshot.brokers if one.silent]
    return (
        [Text(f"No response from broker {', '.join(silent)}: its transactions are missing here.", "bad")]
        if silent
        else []
    )


def _abort_button(transaction: OpenTransaction) -> Button:
    fields = {
        "topic": transaction["topic"],
        "partition": str(transaction["partition"]),
        "producer_id": str(transaction["producer_id"]),
    }
    place = f"{transaction['topic']}-{transaction['partition']}"
    return Button("Abort", "/transactions/abort-hanging", fields, f"Abort the hanging transaction in {place}?")


def abort(backend: Backend, form: Fields) -> Done:
    """A new producer with the id makes the coordinator abort what the old one left open (KIP-98)."""
    name = required(form, "id")
    with backend.links.admin() as admin:
        state = describe_transactions(admin, [name])[name].state
    if state not in _OPEN:
        raise UserError(f"transaction {name} is not open: its state is {state}")
    from confluent_kafka import Producer

    Producer(backend.connection.librdkafka(transactional_id=name)).init_transactions(backend.connection.timeout_s)
    return Done(f"The transaction of {name} was aborted.", "/transactions")


def abort_hanging(backend: Backend, form: Fields) -> Done:
    topic, partition, producer = (
        required(form, "topic"),
        whole(form, "partition", MOST_INT32),
        whole(form, "producer_id", MOST_INT64),
    )
    with backend.links.admin() as admin:
        for one in open_transactions(admin, [topic], without=backend.away):
            if (one["partition"], one["producer_id"]) == (partition, producer):
                if one["hangs"] is None:
                    raise UserError(
                        "not every transaction coordinator can be asked now: try again", ErrorKind.UNREACHABLE
                    )
                if not one["hangs"]:
                    break
                abort_in_log(admin, (topic, partition), producer, one["producer_epoch"])
                return Done(f"The hanging transaction in {topic}-{partition} was aborted.", "/transactions")
    raise UserError(f"{topic}-{partition} has no hanging transaction of producer {producer}")
