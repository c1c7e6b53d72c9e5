"""One step of a consumer member towards its target: what it keeps, revokes, gets and waits for."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.groups.consumer.member import EMPTY_METADATA, ConsumerMember, ConsumerMemberState
from odradek.coordinator.groups.consumer.reconciliation import ConsumerTarget, reconcile

T, U = b"t" * 16, b"u" * 16
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = (
    ConsumerMemberState.STABLE,
    ConsumerMemberState.UNREVOKED_PARTITIONS,
    ConsumerMemberState.UNRELEASED_PARTITIONS,
    ConsumerMemberState.UNKNOWN,
)
Parts = dict[bytes, set[int]]


def member(
    state: ConsumerMemberState, assigned: Parts, revoking: Parts | None = None, epoch: int = 5
) -> ConsumerMember:
    """Returns a member that got its partitions at epoch 4."""

    def since(parts: Parts) -> Any:
        return {topic: dict.fromkeys(sorted(indexes), 4) for topic, indexes in parts.items()}

    return ConsumerMember("m", EMPTY_METADATA, epoch, 3, state, since(assigned), since(revoking or {}))


def step(
    before: ConsumerMember,
    target: Parts,
    owned: Parts | None,
    *,
    epoch: int = 6,
    held: tuple[tuple[bytes, int], ...] = (),
    subscribed: tuple[bytes, ...] = (T, U),
    changed: bool = False,
) -> Any:
    """Returns the state, the epochs, and the partitions that are assigned and revoked; None for a fenced member."""
    wanted = ConsumerTarget(
        epoch, {topic: frozenset(indexes) for topic, indexes in target.items()}, frozenset(subscribed)
    )
    reported = None if owned is None else {topic: frozenset(indexes) for topic, indexes in owned.items()}
    after = reconcile(before, wanted, lambda topic, index: (topic, index) in held, reported, changed)
    if after is None or after is before:
        return after
    parts = [{t: dict(epochs) for t, epochs in of.items() if epochs} for of in (after.assigned, after.revoking)]
    return after.state, after.epoch, after.previous_epoch, *parts


def test_stable_member_of_the_targets_epoch_stays_as_it_is() -> None:
    before = member(STABLE, {T: {0}})
    assert step(before, {T: {0, 1}}, None, epoch=5) is before
    assert step(before, {T: {0, 1}}, {T: {0}}, epoch=5, changed=True) is before, "it subscribes to all that it has"


@pytest.mark.parametrize(
    ("target", "held", "expected"),
    [
        ({T: {0, 1}}, (), (STABLE, 6, 5, {T: {0: 4, 1: 6}}, {})),
        ({T: {0, 1}}, ((T, 1),), (UNRELEASED, 6, 5, {T: {0: 4}}, {})),
        ({T: {0, 1, 2}}, ((T, 1),), (UNRELEASED, 6, 5, {T: {0: 4, 2: 6}}, {})),
        ({T: {0}, U: {0}}, (), (STABLE, 6, 5, {T: {0: 4}, U: {0: 6}}, {})),
        ({T: {0}}, ((T, 0),), (STABLE, 6, 5, {T: {0: 4}}, {})),
    ],
)
def test_member_gets_new_partitions_that_no_other_holds(target: Parts, held: Any, expected: Any) -> None:
    assert step(member(STABLE, {T: {0}}), target, {T: {0}}, held=held) == expected


@pytest.mark.parametrize(
    ("owned", "revokes"), [(None, True), ({T: {0, 1}}, True), ({T: {1}}, True), ({T: {0}}, False), ({}, False)]
)
def test_member_keeps_its_epoch_until_it_has_revoked(owned: Parts | None, revokes: bool) -> None:
    """A request that omits the partitions leaves them as they are."""
    found = step(member(STABLE, {T: {0, 1}}), {T: {0}, U: {7}}, owned)
    if revokes:
        assert found == (UNREVOKED, 5, 5, {T: {0: 4}}, {T: {1: 4}})
    else:
        assert found == (STABLE, 6, 5, {T: {0: 4}, U: {7: 6}}, {})


@pytest.mark.parametrize(("owned", "is_done"), [(None, False), ({T: {1}}, False), ({T: {0}}, True), ({}, True)])
def test_revoking_member_goes_on_when_it_no_longer_owns_the_partitions(owned: Parts | None, is_done: bool) -> None:
    before = member(UNREVOKED, {T: {0}}, {T: {1}})
    found = step(before, {T: {0}}, owned)
    assert (found == (STABLE, 6, 5, {T: {0: 4}}, {})) if is_done else (found is before)


def test_partition_that_was_revoked_may_come_back_to_its_member() -> None:
    before = member(UNREVOKED, {T: {0}}, {T: {1}})
    assert step(before, {T: {0, 1}}, {T: {0}}, held=((T, 1),)) == (STABLE, 6, 5, {T: {0: 4, 1: 6}}, {})


def test_waiting_member_gets_what_is_released() -> None:
    before = member(UNRELEASED, {T: {0}}, epoch=6)
    assert step(before, {T: {0, 1}}, None, held=((T, 1),))[0] is UNRELEASED
    assert step(before, {T: {0, 1}}, None) == (STABLE, 6, 6, {T: {0: 4, 1: 6}}, {})


@pytest.mark.parametrize(("owned", "is_fenced"), [(None, True), ({T: {0}}, True), ({}, False)])
def test_member_in_an_unknown_state_must_abandon_its_partitions(owned: Parts | None, is_fenced: bool) -> None:
    found = step(member(UNKNOWN, {}), {T: {0}}, owned)
    assert (found is None) if is_fenced else (found == (STABLE, 6, 5, {T: {0: 6}}, {}))


@pytest.mark.parametrize("state", [STABLE, UNREVOKED])
@pytest.mark.parametrize(("owned", "revokes"), [(None, True), ({U: {0}}, True), ({T: {0}}, False)])
def test_topics_without_a_subscription_are_revoked_at_once(
    state: ConsumerMemberState, owned: Parts | None, revokes: bool
) -> None:
    """The target may still have them."""
    before = member(state, {T: {0}, U: {0}}, {T: {1}} if state is UNREVOKED else None)
    if state is UNREVOKED and owned is not None:
        owned = {
            topic: set(indexes) | ({1} if topic == T else set()) for topic, indexes in ({T: set()} | owned).items()
        }
        revokes = True
    found = step(before, {T: {0}, U: {0}}, owned, epoch=5, subscribed=(T,), changed=True)
    extra = {T: {1: 4}} if state is UNREVOKED else {}
    if revokes:
        assert found == (UNREVOKED, 5, 5, {T: {0: 4}}, {**extra, U: {0: 4}})
    else:
        assert found == (STABLE, 5, 5, {T: {0: 4}}, {})


def test_target_has_no_topics_without_a_subscription() -> None:
    found = step(member(STABLE, {T: {0}, U: {0}}), {T: {0}, U: {0, 1}}, {T: {0}}, subscribed=(T,))
    assert found == (STABLE, 6, 5, {T: {0: 4}}, {})
