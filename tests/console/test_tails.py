"""Live tails: one that met an error ends, so that its page shows the reason in place of no records for ever."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.client.error_kinds import ErrorKind
from odradek.client.user_errors import UserError
from odradek.console.cluster import tails as tails_module
from odradek.console.cluster.query import Query
from odradek.console.cluster.tails import Tails

_QUERY = Query("orders")


class FakeReader:
    """Yields what `turns` give, each once; an exception is raised."""

    def __init__(self, *turns: Callable[[], list[Any]]) -> None:
        self._turns = turns
        self.is_closed = False

    def batches(self, most: int) -> Iterator[list[Any]]:
        for turn in self._turns:
            assert not self.is_closed, "a closed consumer raises RuntimeError"
            yield turn()

    def close(self) -> None:
        self.is_closed = True


def raised(error: Exception) -> list[Any]:
    raise error


def tails_of(*readers: FakeReader) -> Tails:
    left = list(readers)
    maker = SimpleNamespace(record=lambda message, query, budget: message)
    records: Any = SimpleNamespace(open=lambda query, start, follow: left.pop(0), maker=maker)
    return Tails(records)


def endless(first: list[Any]) -> Iterator[Callable[[], list[Any]]]:
    yield lambda: first
    yield from [list] * 100_000


@pytest.mark.parametrize("error", [UserError("topic orders does not exist", ErrorKind.NOT_FOUND), RuntimeError("odd")])
def test_tail_ends_with_its_first_error(error: Exception) -> None:
    reader = FakeReader(lambda: ["a"], list, lambda: raised(error), lambda: ["b"])
    tails = tails_of(reader)
    name = tails.begin(_QUERY)
    assert tails.read(name) == (["a"], False)
    with pytest.raises(type(error), match=str(error)):
        tails.read(name)
    assert reader.is_closed
    with pytest.raises(UserError, match="has ended: start again"):
        tails.read(name)


def test_tail_without_an_error_goes_on() -> None:
    tails = tails_of(FakeReader(*endless(["a"])))
    name = tails.begin(_QUERY)
    assert tails.read(name) == (["a"], False) and tails.read(name) == ([], False)
    tails.close()


def test_tail_of_a_fast_topic_shows_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of several sizes wait at each request: it takes some, and leaves the others for the next one."""
    monkeypatch.setattr(tails_module, "_MOST_WAIT_S", 30.0)  # a slow machine reads as many batches
    sent = [str(number) for number in range(1_050)]
    ends = [0, *itertools.accumulate(itertools.islice(itertools.cycle((70, 100, 99, 1)), 15)), len(sent)]
    batches = [sent[first:end] for first, end in itertools.pairwise(ends)]
    tails = tails_of(FakeReader(*(lambda batch=batch: batch for batch in batches), list))  # type: ignore[misc]
    name = tails.begin(_QUERY)
    shown: list[Any] = []
    while len(shown) < len(sent):
        read, has_more = tails.read(name)
        assert 0 < len(read) <= 200, (len(read), len(shown))
        shown += read
        assert has_more or len(shown) == len(sent)
    assert shown == sent
    tails.close()


def test_tail_that_closes_while_a_request_waits_for_it_has_ended() -> None:
    is_reading, may_go_on = threading.Event(), threading.Event()

    def slow() -> list[Any]:
        is_reading.set()
        assert may_go_on.wait(30)
        return ["a"]

    tails = tails_of(FakeReader(slow, list, list, list))
    name = tails.begin(_QUERY)
    first = threading.Thread(target=tails.read, args=(name,))
    first.start()
    assert is_reading.wait(30)
    outcomes: list[Exception] = []

    def read_again() -> None:
        try:
            tails.read(name)
        except Exception as error:
            outcomes.append(error)

    second = threading.Thread(target=read_again)
    second.start()
    closing = threading.Thread(target=tails.end, args=(name,))
    closing.start()
    while name in tails._tails:
        closing.join(0.001)
    may_go_on.set()
    for thread in (first, second, closing):
        thread.join(30)
    assert [str(one) for one in outcomes] == ["following the new records has ended: start again"]
