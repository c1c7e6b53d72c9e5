"""Numbers of the console agree between pages, stand below their headings, and offer nothing that is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

import odradek
import pytest
from confluent_kafka import Consumer

from compat_tests.cli.commands import odradek_command
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.recipes import eventually

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        for topic in ("orders", "sales"):
            running.topic(topic).send(b"1", b"2", b"3")
        words = ("consume", "orders", "--group", "billing", "--from-beginning", "-c", "1")
        assert odradek_command(*words, "-b", running.bootstrap_servers).status == 0
        yield running


@pytest.fixture(scope="module")
def visitor(broker: odradek.Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    console = ConsoleProcess(broker.bootstrap_servers, tmp_path_factory.mktemp("console"))
    made = Visitor(console.address)
    eventually(lambda: "Cluster id" in made.get("/"), what="the cluster is read")
    yield made
    console.stop()


def fact(page: str, name: str) -> str:
    found = re.search(rf"<dt>{name}</dt><dd>(.*?)</dd>", page)
    assert found, name
    return re.sub("<[^>]*>", "", found[1])


def test_overview_and_list_count_the_same_topics(visitor: Visitor) -> None:
    def counts() -> tuple[str, str]:
        page = visitor.get("/")
        return fact(page, "Topics"), fact(page, "Internal topics")

    eventually(lambda: counts() == ("2", "1"), what="both topics are read")
    assert "1-2 of 2 topics, without 1 internal" in visitor.get("/topics")
    assert "1-3 of 3 topics<" in visitor.get("/topics?internal=yes")


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        ("/topics", {"Topic": False, "Partitions": True, "Replicas": True, "Records/s": True}),
        ("/groups", {"Group": False, "State": False, "Lag": True}),
        ("/groups/billing", {"Topic": False, "Partition": True, "Committed": True, "End": True, "Lag": True}),
    ],
)
def test_headings_stand_over_their_numbers(visitor: Visitor, path: str, columns: dict[str, bool]) -> None:
    eventually(
        lambda: re.search(r'data-label="Lag"[^>]*><span class="cell">2<', visitor.get("/groups")),
        what="the lag is read",
    )
    page = visitor.get(path)
    for name, is_number in columns.items():
        alignment = ' class="number"' if is_number else ""
        assert re.search(f'<th scope="col"{alignment}[^>]*>(<a [^>]*>)?{re.escape(name)}<', page)
        cells = re.findall(rf'<td data-label="{name}"([^>]*)>', page)
        assert cells and set(cells) == {alignment}, name


def test_lag_of_the_chart_is_that_of_the_table(broker: odradek.Broker, visitor: Visitor) -> None:
    broker.topic("orders").send(*[b"x"] * 140)
    page = visitor.get("/groups/billing")
    assert fact(page, "Lag") == "142"
    assert "Lag <b>142 records</b>" in page
    broker.reset()


def test_offsets_of_a_group_with_members_cannot_be_set(broker: odradek.Broker, visitor: Visitor) -> None:
    broker.topic("orders").send(b"1", b"2", b"3")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
    consumer.subscribe(["orders"])
    preview = "/groups/shop/reset?to=beginning&topic=orders"
    try:
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), what="the member has its partition")
        page = visitor.get(preview)
        assert "The group has members" in page and "Set 1 offset</button>" not in page
    finally:
        consumer.close()
    eventually(lambda: "Set 1 offset</button>" in visitor.get(preview), what="the offsets can be set")
