"""A record that stands twice after faults is its client's doing: Apache Kafka writes it twice as we do, answer by answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode

from compat_tests.sent_again.cluster import APACHE, ODRADEK, GatedCluster
from compat_tests.sent_again.play import KILLED, PROPERTIES, Outcome, play, told

KINDS = [ODRADEK, pytest.param(APACHE, marks=pytest.mark.oracle)]


def played(kind: str, directory: Path, *, with_refusal: bool) -> Outcome:
    with GatedCluster(kind, directory, PROPERTIES[KILLED]) as cluster:
        return play(cluster, KILLED, with_refusal=with_refusal)


def test_what_a_killed_leader_did_not_acknowledge_stands_once_while_its_producer_keeps_its_epoch(
    tmp_path: Path,
) -> None:
    outcome = played(ODRADEK, tmp_path, with_refusal=False)
    assert not outcome.twice, told(outcome)
    assert [batch.producer_epoch for batch in outcome.standing] == [0, 0], told(outcome)
    first, *again = (answer for answer in outcome.moved if answer.values == (b"moved-1",) and not answer.error_code)
    assert again and {answer.base_offset for answer in again} == {first.base_offset}, told(outcome)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_leader_did_not_acknowledge_stands_twice_when_its_producer_takes_a_new_epoch_meanwhile(
    java_tools: None, kind: str, tmp_path: Path
) -> None:
    outcome = played(kind, tmp_path, with_refusal=True)
    in_first_epoch = [(answer.values, answer.error_code) for answer in outcome.refused if answer.producer_epoch == 0]
    assert in_first_epoch == [
        ((b"refused-0",), ErrorCode.NONE),
        ((b"refused-1",), ErrorCode.NOT_ENOUGH_REPLICAS),
        ((b"refused-2",), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ], told(outcome)
    assert [tuple(batch) for batch in outcome.standing] == [
        ((b"moved-0",), 0, 0, 0),
        ((b"moved-1",), 0, 1, 1),
        ((b"moved-1",), 1, 0, 2),
    ], told(outcome)
