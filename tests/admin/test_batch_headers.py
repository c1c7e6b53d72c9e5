"""Headers of batches, read from a leader that gives nothing for a while, or for good."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import odradek
import pytest
from odradek.admin import batch_headers
from odradek.admin.batch_headers import BatchHeaders
from odradek.admin.connection import Connection
from odradek.admin.errors import ResponseError
from odradek.admin.mirror_comparison import compare
from odradek.admin.session import Admin
from odradek.admin.topics import Topic
from odradek.client.transient_errors import FETCH_TRANSIENT
from odradek.protocol.errors import ErrorCode

pytestmark = pytest.mark.usefixtures("sockets")
PLACE = ("orders", 0)
BATCHES = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        for number in range(BATCHES):
            running.topic("orders").send(b"%d" % number)
        yield running


@pytest.fixture(scope="module")
def admin(broker: odradek.Broker) -> Iterator[Admin]:
    with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as made:
        yield made


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of empty responses at the beginning of each read, from the first read on."""
    left: list[int] = []
    fetched = BatchHeaders._fetched

    def fetch(reader: BatchHeaders, offset: int) -> tuple[int, bytes]:
        if left and left[0]:
            left[0] -= 1
            return 0, b""
        del left[:1]
        return fetched(reader, offset)

    monkeypatch.setattr(BatchHeaders, "_fetched", fetch)
    return left


@pytest.mark.parametrize("code", sorted(FETCH_TRANSIENT), ids=lambda code: code.name)
def test_reader_goes_on_after_each_transient_error(broker: odradek.Broker, admin: Admin, code: ErrorCode) -> None:
    with broker.faults.fail("Fetch", code, times=2) as fault:
        found = [*BatchHeaders(admin, PLACE).between(0, BATCHES)]
        fault.wait(2)
    assert [one.header.base_offset for one in found] == [0, 1, 2]


def test_reader_waits_for_a_leader(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    described, left = batch_headers.described_topics, [2]

    def without_leader(admin: Admin, names: list[str]) -> list[Topic]:
        found = described(admin, names)
        if left[0]:
            left[0] -= 1
            found[0].partitions[0].leader_id = -1
        return found

    monkeypatch.setattr(batch_headers, "described_topics", without_leader)
    assert len([*BatchHeaders(admin, PLACE).between(0, BATCHES)]) == BATCHES and left == [0]


def test_empty_response_is_not_the_end_of_a_log(admin: Admin, empty: list[int]) -> None:
    empty += [2, 1]
    found = [*BatchHeaders(admin, PLACE).between(0, BATCHES)]
    assert [one.header.base_offset for one in found] == [0, 1, 2]


def test_comparison_with_empty_responses_compares_all_batches(admin: Admin, empty: list[int]) -> None:
    empty += [1, 1, 1, 1]
    ((place, comparison),) = compare(admin, admin, {PLACE: PLACE}, (), 1)
    assert place == PLACE and comparison.batches > 0 and not comparison.differences


def test_leader_that_gives_nothing_is_an_error(admin: Admin, empty: list[int]) -> None:
    empty += [1000]
    with patch.object(batch_headers, "_EMPTY_S", 0.1), pytest.raises(ResponseError, match="gives no records") as raised:
        [*BatchHeaders(admin, PLACE).between(1, BATCHES)]
    assert raised.value.subject == "orders-0, offset 1" and raised.value.code == ErrorCode.REQUEST_TIMED_OUT


def test_compacted_log_may_end_in_a_gap(admin: Admin, empty: list[int]) -> None:
    empty += [1000]
    reader = BatchHeaders(admin, PLACE, is_compacted=True)
    with patch.object(batch_headers, "_EMPTY_S", 0.1):
        assert [*reader.between(1, BATCHES)] == []
        left = empty[0]
        assert [*reader.between(2, BATCHES)] == [] and empty[0] == left
