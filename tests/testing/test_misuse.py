"""Mistakes with the test kit raise where they are made."""

from __future__ import annotations

import math

import odradek
import pytest


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"num.partition": 3}, "num.partition is not a property of any version of Kafka, did you mean num.partitions?"),
        ({"no.such.thing": 1}, "no.such.thing is not a property of any version of Kafka$"),
    ],
)
def test_property_that_no_kafka_has_raises(properties: dict[str, int], words: str) -> None:
    with pytest.raises(odradek.InvalidConfig, match=words.replace("?", r"\?")):
        odradek.Broker(config=properties).start()
    with pytest.raises(odradek.InvalidConfig, match=words.replace("?", r"\?")):
        odradek.Cluster(brokers=1, config=properties).start()


@pytest.mark.usefixtures("sockets")
def test_properties_of_other_versions_and_of_a_users_class_pass() -> None:
    properties = {"zookeeper.connect": "x:2181", "inter.broker.protocol.version": "3.9", "super.users": "User:a"}
    with odradek.Broker(config=properties):
        pass
    plug_in = {"principal.builder.class": "my.Builder", "my.own.key": "x"}
    from odradek.server.config.unknown_properties import check_known

    check_known(plug_in)
    with pytest.raises(odradek.InvalidConfig, match=r"num\.partition"):
        check_known({**plug_in, "num.partition": "1"})


@pytest.mark.parametrize("seconds", [-1, -0.001, math.inf, math.nan])
def test_times_of_faults_that_cannot_be_raise(seconds: float) -> None:
    faults = odradek.Broker().faults
    for add in (faults.delay, faults.throttle):
        with pytest.raises(ValueError, match="seconds must be 0 or more"):
            add("Produce", seconds)
    with pytest.raises(ValueError, match="seconds must be 0 or more"):
        faults.slow_disk(seconds)
    assert len(faults) == 0


@pytest.mark.usefixtures("sockets")
def test_text_in_place_of_bytes_raises() -> None:
    with odradek.Broker() as broker:
        topic = broker.topic("orders")
        with pytest.raises(TypeError, match="value must be bytes, not str"):
            topic.send("text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="key must be bytes, not int"):
            topic.send(b"1", key=7)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="header source must be bytes, not str"):
            topic.send(b"1", headers=[("source", "web")])  # type: ignore[list-item]
        assert not topic.exists
        topic.send(b"1", None, bytearray(b"2"))
        assert topic.values() == [b"1", None, b"2"]


@pytest.mark.usefixtures("sockets")
async def test_wait_that_is_not_awaited_raises_at_its_use() -> None:
    async with odradek.Broker() as broker:
        topic = broker.topic("orders")
        await topic.send(b"1", b"2")
        pending = topic.wait_for(records=2)
        uses = (
            lambda: pending == [],
            lambda: pending != [],
            lambda: pending == [],
            lambda: len(pending),
            lambda: bool(pending),
            lambda: list(pending),
            lambda: pending[0],
            lambda: b"1" in pending,
        )
        for use in uses:
            with pytest.raises(RuntimeError, match=r"write `await topic\.wait_for"):
                use()
        assert "to be awaited" in repr(pending)
        records = await pending
        assert [one.value for one in records] == [one.value for one in pending] == [b"1", b"2"]
        assert pending == records and len(pending) == 2
