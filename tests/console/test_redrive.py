"""Redrive of dead-letter records whose headers do not say where they came from: a sentence, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.client.user_errors import UserError
from odradek.console.cluster.redrive import ORIGIN, redrive

pytestmark = pytest.mark.usefixtures("sockets")

Headers = list[tuple[str, bytes | None]]


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        running.topic("orders").send(b"first", b"second")
        yield running


def origin(topic: bytes | None, **more: bytes) -> Headers:
    return [(f"{ORIGIN}topic", topic), *((f"{ORIGIN}{name}", value) for name, value in more.items())]


def sent_back(broker: odradek.Broker, queue: str, value: bytes | None, headers: Headers) -> int:
    broker.topic(queue).send(value, headers=headers)
    return redrive(Connection({"bootstrap.servers": broker.bootstrap_servers}), queue, 0, 0, 1)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([], "the header __dlq.errors.topic, which names its origin, is missing; nothing was written"),
        (origin(b"\xff"), "the header __dlq.errors.topic, which names its origin, cannot be read as text"),
        (
            origin(b"", partition=b"0", offset=b"0"),
            "__dlq.errors.topic, which names its origin, has no name of a topic",
        ),
        (
            origin(None, partition=b"0", offset=b"0"),
            "__dlq.errors.topic, which names its origin, has no name of a topic",
        ),
        (origin(b"orders\0", partition=b"0", offset=b"0"), "has no name of a topic"),
        (origin(b"orders"), "the header __dlq.errors.partition, which names its origin, is missing"),
        (origin(b"orders", partition=b"0"), "the header __dlq.errors.offset, which names its origin, is missing"),
        (origin(b"orders", partition=b"--5", offset=b"0"), "has no number"),
        (origin(b"orders", partition=b"-1", offset=b"0"), "has no number"),
        (origin(b"orders", partition=b"0", offset=b"1e9"), "has no number"),
        (origin(b"orders", partition=b"0", offset=b"9" * 30), "has no number"),
        (origin(b"orders", partition=b"7", offset=b"0"), "its origin does not exist; nothing was written"),
        (origin(b"orders", partition=b"0", offset=b"9"), "its origin is gone"),
    ],
    ids=range(13),
)
def test_record_without_an_origin_that_can_be_read_is_refused(
    broker: odradek.Broker, request: pytest.FixtureRequest, headers: Headers, words: str
) -> None:
    before = len(broker.topic("orders").records())
    with pytest.raises(UserError) as caught:
        sent_back(broker, f"queue-{request.node.callspec.id}", None, headers)
    assert words in str(caught.value) and len(broker.topic("orders").records()) == before


@pytest.mark.parametrize("name", ["topic", "partition", "offset"])
@pytest.mark.parametrize("form", ["{}", "a {}", "{}\n", "orders-{}"])
def test_error_has_nothing_of_a_header(broker: odradek.Broker, name: str, form: str) -> None:
    """Masks may hide the header from every user; `4111111111111111` is the name of a topic and a number, too."""
    secret = "4111111111111111"
    parts = {"topic": b"orders", "partition": b"0", "offset": b"0", name: form.format(secret).encode()}
    queue = f"hidden-{name}-{abs(hash(form))}"
    with pytest.raises(UserError) as caught:
        sent_back(broker, queue, None, origin(parts.pop("topic"), **parts))
    assert secret not in str(caught.value) and f"{queue}-0, offset 0: " in str(caught.value)


def test_record_goes_back_with_its_own_contents_or_those_of_its_origin(broker: odradek.Broker) -> None:
    assert sent_back(broker, "with-a-copy", b"third", origin(b"orders")) == 1
    assert sent_back(broker, "without-a-copy", None, origin(b"orders", partition=b"0", offset=b"1")) == 1
    assert [one.value for one in broker.topic("orders").records()][-2:] == [b"third", b"second"]
