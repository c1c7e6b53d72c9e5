"""The budget of memory for records of the remote store: its limit, its order, and peers that hold it."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.network.file_sender import LEAST_LENT_BYTES, joined
from odradek.server.remote.read_budget import (
    BUFFER_BYTES,
    CHECK_INTERVAL_S,
    LEAST_TAKEN_BYTES,
    MOST_STUCK_S,
    ReadBudget,
)
from odradek.server.runtime.lent_memory import LentMemory, is_lent

from tests.harness.examples import examples
from tests.server.harness.virtual_time import after_ms, simulated

MOST = 100
#: (what happens, size or number)
STEPS = st.lists(
    st.tuples(st.sampled_from(["reserve", "end", "fail", "send", "withdraw"]), st.integers(1, MOST)), max_size=60
)


class SmallBudgetConfig(BrokerConfig):
    """A configuration whose budget is smaller than its key allows. It has no other key."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes

    def get(self, key: str) -> Any:
        assert key == BUFFER_BYTES
        return self._most_bytes


def budget_of(most_bytes: int = MOST, make_room: Any = lambda: False) -> ReadBudget:
    return ReadBudget(SmallBudgetConfig(most_bytes), make_room)


@settings(max_examples=examples(150), deadline=None)
@given(steps=STEPS)
def test_reads_begin_in_order_within_the_budget_and_all_memory_comes_back(steps: list[tuple[str, int]]) -> None:
    async def story() -> None:
        budget = budget_of()
        asked: list[int] = []
        begun: list[int] = []
        withdrawn: set[int] = set()
        running: dict[int, int] = {}
        lent: list[Any] = []
        for what, size in steps:
            if what == "reserve":
                number = len(asked)
                asked.append(size)
                budget.reserve(
                    number, size, lambda number=number: (begun.append(number), running.update({number: asked[number]}))
                )  # type: ignore[misc]
            elif what in ("end", "fail") and running:
                number = list(running)[size % len(running)]
                data = LentMemory.of(bytes(min(size, asked[number]))) if what == "end" else b""
                budget.lend(running.pop(number), data)
                lent.append(data)
                del data
            elif what == "send" and lent:
                del lent[size % len(lent)]
            elif what == "withdraw" and len(asked) > len(begun):
                waiting = [one for one in range(len(asked)) if one not in begun and one not in withdrawn]
                if waiting and budget.withdraw(waiting[size % len(waiting)]):
                    withdrawn.add(waiting[size % len(waiting)])
            await asyncio.sleep(0)
            held = sum(running.values()) + sum(len(one) for one in lent)
            assert budget.used_bytes == held <= MOST
            assert begun == [one for one in range(len(asked)) if one in begun], "reads begin in their order"
            assert budget.waiting == len(asked) - len(begun) - len(withdrawn)
        while running or budget.waiting or lent:
            lent.clear()
            for number in list(running):
                budget.lend(running.pop(number), b"")
            await asyncio.sleep(0)
        assert budget.used_bytes == 0 and len(begun) == len(asked) - len(withdrawn)

    simulated(story)


def test_untaken_results_are_dropped_for_waiting_reads() -> None:
    async def story() -> None:
        kept: list[Any] = []

        def make_room() -> bool:
            had = bool(kept)
            kept.clear()
            return had

        budget, begun = budget_of(make_room=make_room), list[int]()
        budget.reserve(0, MOST, lambda: begun.append(0))
        kept.append(LentMemory.of(bytes(MOST)))
        budget.lend(MOST, kept[0])
        budget.reserve(1, MOST, lambda: begun.append(1))
        await asyncio.sleep(0)
        assert begun == [0, 1] and budget.used_bytes == MOST

    simulated(story)


class Peer:
    """A connection with responses of which the peer takes some. `stuck_bytes`: of those behind an unanswered request."""

    def __init__(self, unsent_bytes: int = 0, stuck_bytes: int = 0) -> None:
        self.unsent_bytes = unsent_bytes
        self.stuck_bytes = stuck_bytes
        self.taken_bytes = 0
        self.dropped: list[str] = []

    def drop_for(self, reason: str) -> None:
        self.dropped.append(reason)

    def take(self, size: int) -> None:
        self.unsent_bytes -= size
        self.taken_bytes += size


async def after_check() -> None:
    await after_ms(CHECK_INTERVAL_S * 1000 + 1)


def budget_with_waiting_read() -> ReadBudget:
    budget = budget_of()
    budget.reserve(0, MOST, lambda: None)
    budget.reserve(1, MOST, lambda: None)
    return budget


@settings(max_examples=examples(40), deadline=None)
@given(others_wait=st.booleans(), taken=st.integers(0, 2 * LEAST_TAKEN_BYTES), new=st.integers(0, MOST << 20))
def test_peer_that_takes_too_little_is_dropped_exactly_while_others_wait(
    others_wait: bool, taken: int, new: int
) -> None:
    """`new`: the bytes of a response that comes meanwhile."""

    async def story() -> None:
        budget, peer = budget_of(), Peer(10 * LEAST_TAKEN_BYTES)
        budget.reserve(0, MOST, lambda: None)
        budget.lent_to(peer)
        if others_wait:
            budget.reserve(1, MOST, lambda: None)
        await after_check()
        assert not peer.dropped
        peer.take(taken)
        peer.unsent_bytes += new
        budget.lent_to(peer)
        await after_check()
        assert bool(peer.dropped) == (others_wait and taken < LEAST_TAKEN_BYTES)
        budget.stop()

    simulated(story)


def test_peer_that_takes_all_of_a_short_response_is_kept() -> None:
    async def story() -> None:
        budget, peer = budget_with_waiting_read(), Peer(LEAST_TAKEN_BYTES // 2)
        budget.lent_to(peer)
        await after_check()
        for _ in range(3):
            peer.take(LEAST_TAKEN_BYTES // 2)
            peer.unsent_bytes = LEAST_TAKEN_BYTES // 2  # of another response, which is as short
            await after_check()
            assert not peer.dropped
        await after_check()
        assert peer.dropped, "it has taken nothing of the last one"
        budget.stop()

    simulated(story)


def test_response_behind_an_unanswered_request_holds_memory_no_longer_than_clients_wait() -> None:
    async def story() -> None:
        budget, peer = budget_with_waiting_read(), Peer(stuck_bytes=LEAST_TAKEN_BYTES)
        budget.lent_to(peer)
        await after_ms(MOST_STUCK_S * 1000 - 1)
        assert not peer.dropped
        await after_check()
        assert peer.dropped and budget.dropped == 1
        budget.stop()

    simulated(story)


def test_response_that_is_made_after_a_check_is_watched() -> None:
    async def story() -> None:
        budget, peer = budget_with_waiting_read(), Peer()
        budget.lent_to(peer)
        await after_check()
        peer.unsent_bytes = LEAST_TAKEN_BYTES
        await after_check()
        assert not peer.dropped
        await after_check()
        assert peer.dropped
        budget.stop()

    simulated(story)


def test_peer_that_has_taken_all_is_forgotten() -> None:
    async def story() -> None:
        budget, peer = budget_with_waiting_read(), Peer()
        budget.lent_to(peer)
        for _ in range(3):
            await after_check()
        peer.unsent_bytes = LEAST_TAKEN_BYTES  # of local records
        for _ in range(3):
            await after_check()
        assert not peer.dropped
        budget.stop()

    simulated(story)


def test_views_of_lent_memory_are_sent_without_a_copy() -> None:
    lent = LentMemory.of(bytes(LEAST_LENT_BYTES))
    pieces = joined([b"head", lent, b"tail", lent[:10]])
    assert [bytes(one) for one in pieces] == [b"head", bytes(LEAST_LENT_BYTES), b"tail" + bytes(10)]
    assert is_lent(pieces[1]) and is_lent(lent[1:5]) and not is_lent(bytes(lent)) and not is_lent(memoryview(b"x"))


def test_last_view_of_lent_memory_gives_it_back() -> None:
    given: list[int] = []
    lent = LentMemory.of(b"records")
    memory: Any = lent.obj
    memory.given_back = given.append
    part = lent[2:4]
    del lent, memory
    gc.collect()
    assert given == []
    del part
    assert given == [7]
