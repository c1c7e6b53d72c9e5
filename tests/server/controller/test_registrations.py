"""The requests in which a node registers: what they say of its last stop, its directories and its listeners."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller.registration import Registration
from odradek.server.partitions.cordoning import CORDONED_KEY
from odradek.storage.directory import LogDirectory

from tests.server.harness.own_endpoints import registration_of
from tests.server.harness.unlocked_directory import unlocked_directory

INCARNATION = bytes(range(16))


def directory(
    number: int, *, previous: int = -1, interrupted: int | None = None, is_online: bool = True
) -> LogDirectory:
    return unlocked_directory(
        Path(f"/d{number}"), bytes([number]) * 16 if number else None, is_online=is_online,
        previous_broker_epoch=previous, interrupted_broker_epoch=interrupted,
    )  # fmt: skip


def registration(*directories: LogDirectory, **properties: str) -> Registration:
    config = BrokerConfig({"node.id": "0"} | {key.replace("_", "."): value for key, value in properties.items()})
    return registration_of(
        config,
        advertised=[Endpoint("PLAINTEXT", "here", 9092)],
        controller=[Endpoint("PLAINTEXT", "there", 9093)],
        directories=directories,
    )


@pytest.mark.parametrize(
    ("stops", "after_a_stop", "after_a_kill"),
    [
        # (epoch of a clean stop, epoch of the process that was killed), for each directory
        ([(5, None)], 5, 5),
        ([(5, None), (5, None)], 5, 5),
        ([(5, None), (6, None)], -1, -1),
        ([(5, None), (-1, None)], -1, -1),
        ([(-1, None)], -1, -1),
        ([(-1, 7)], -1, 7),
        ([(-1, 7), (-1, 7)], -1, 7),
        ([(-1, 7), (-1, 8)], -1, -1),
        ([(-1, 7), (-1, None)], -1, -1),
        ([(5, None), (-1, 5)], -1, -1),
        ([], -1, -1),
    ],
)
def test_previous_epoch_is_reported_if_all_directories_agree_on_it(
    stops: list[tuple[int, int | None]], after_a_stop: int, after_a_kill: int
) -> None:
    """The end of a process counts as a clean stop only where it loses nothing that was written."""
    found = registration(*(directory(number + 1, previous=p, interrupted=i) for number, (p, i) in enumerate(stops)))
    assert found.of_broker(INCARNATION).previous_broker_epoch == after_a_stop
    assert found.of_broker(INCARNATION, kill_loses_nothing=True).previous_broker_epoch == after_a_kill


def test_registrations_have_the_listeners_of_their_role_and_the_directories_that_have_an_id() -> None:
    found = registration(directory(1), directory(0), directory(2), broker_rack="r1")
    broker, controller = found.of_broker(INCARNATION), found.of_controller(INCARNATION)
    assert (broker.broker_id, broker.cluster_id, broker.incarnation_id, broker.rack) == (
        0,
        "cluster",
        INCARNATION,
        "r1",
    )
    assert broker.log_dirs == [bytes([1]) * 16, bytes([2]) * 16]
    assert [(one.name, one.host, one.port, one.security_protocol) for one in broker.listeners] == [
        ("PLAINTEXT", "here", 9092, 0)
    ]
    assert (controller.controller_id, controller.incarnation_id) == (0, INCARNATION)
    assert [(one.host, one.port) for one in controller.listeners] == [("there", 9093)]
    ranges = {one.name: (one.min_supported_version, one.max_supported_version) for one in broker.features}
    assert {one.name: (one.min_supported_version, one.max_supported_version) for one in controller.features} == ranges
    assert ranges["metadata.version"][0] < ranges["metadata.version"][1]


def test_heartbeat_names_the_directories_that_are_cordoned_and_those_that_have_failed() -> None:
    found = registration(directory(1, is_online=False), directory(2), directory(0, is_online=False))
    assert found.offline_log_dirs() == [bytes([1]) * 16]
    plain = found.heartbeat(3, 9)
    assert (plain.broker_id, plain.broker_epoch, plain.current_metadata_offset) == (0, 3, 9)
    assert (plain.want_fence, plain.want_shut_down, plain.offline_log_dirs, plain.cordoned_log_dirs) == (
        False, False, [], [],
    )  # fmt: skip
    found._config.take_dynamic({}, {CORDONED_KEY: "/d2"})
    stops = found.heartbeat(3, 9, want_fence=True, want_shut_down=True, offline_log_dirs=found.offline_log_dirs())
    assert (stops.want_fence, stops.want_shut_down) == (True, True)
    assert (stops.offline_log_dirs, stops.cordoned_log_dirs) == ([bytes([1]) * 16], [bytes([2]) * 16])
