"""A batch is rejected while the next one is in flight: with Apache Kafka, librdkafka duplicates or loses a record."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode

from compat_tests.sent_again.cluster import APACHE, ODRADEK, GatedCluster
from compat_tests.sent_again.scenario import (
    KILLED,
    PROPERTIES,
    Outcome,
    execute,
    execute_new,
    reported,
    reported_of_new,
)

KINDS = [ODRADEK, pytest.param(APACHE, marks=pytest.mark.oracle)]


def executed(kind: str, directory: Path, *, with_rejection: bool) -> Outcome:
    with GatedCluster(kind, directory, PROPERTIES[KILLED]) as cluster:
        return execute(cluster, KILLED, with_rejection=with_rejection)


def test_unacknowledged_batch_of_a_killed_leader_is_there_once_while_the_epoch_is_kept(
    tmp_path: Path,
) -> None:
    outcome = executed(ODRADEK, tmp_path, with_rejection=False)
    assert not outcome.twice, reported(outcome)
    assert [batch.producer_epoch for batch in outcome.standing] == [0, 0], reported(outcome)
    first, *again = (
        response for response in outcome.moved if response.values == (b"moved-1",) and not response.error_code
    )
    assert again and {response.base_offset for response in again} == {first.base_offset}, reported(outcome)


@pytest.mark.oracle
def test_with_apache_kafka_it_stands_twice_when_its_producer_takes_a_new_epoch_meanwhile(
    java_tools: None, tmp_path: Path
) -> None:
    outcome = executed(APACHE, tmp_path, with_rejection=True)
    in_first_epoch = [(one.values, one.error_code) for one in outcome.rejected if one.producer_epoch == 0]
    assert in_first_epoch == [
        ((b"refused-0",), ErrorCode.NONE),
        ((b"refused-1",), ErrorCode.NOT_ENOUGH_REPLICAS),
        ((b"refused-2",), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ], reported(outcome)
    assert [tuple(batch) for batch in outcome.standing] == [
        ((b"moved-0",), 0, 0, 0),
        ((b"moved-1",), 0, 1, 1),
        ((b"moved-1",), 1, 0, 2),
    ], reported(outcome)


def test_with_us_its_producer_has_no_cause_to_take_one(tmp_path: Path) -> None:
    outcome = executed(ODRADEK, tmp_path, with_rejection=True)
    assert [(response.values, response.error_code) for response in outcome.rejected[:3]] == [
        ((b"refused-0",), ErrorCode.NONE),
        ((b"refused-1",), ErrorCode.NOT_ENOUGH_REPLICAS),
        ((b"refused-2",), ErrorCode.NOT_ENOUGH_REPLICAS),
    ], reported(outcome)
    assert {response.producer_epoch for response in [*outcome.rejected, *outcome.moved]} == {0}, reported(outcome)
    assert not outcome.twice, reported(outcome)


@pytest.mark.parametrize("kind", KINDS)
def test_delivered_records_of_a_new_producer_are_kept_unlike_in_apache_kafka(
    java_tools: None, kind: str, tmp_path: Path
) -> None:
    with GatedCluster(kind, tmp_path, PROPERTIES[KILLED]) as cluster:
        outcome = execute_new(cluster)
    assert sorted(outcome.delivered) == [b"refused-1", b"refused-2"], reported_of_new(outcome)
    assert outcome.lost == ([] if kind == ODRADEK else [b"refused-1"]), reported_of_new(outcome)
    if kind == ODRADEK:
        assert outcome.standing == [b"refused-1", b"refused-2"], reported_of_new(outcome)
