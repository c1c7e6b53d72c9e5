"""Warnings about unknown properties, which suggest the key that was probably meant."""

from __future__ import annotations

import logging

import pytest
from odradek.metadata.configs import suggestion
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.unknown_properties import unknown_properties


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("NUM_PARTITIONS", "num.partitions"),
        ("num-partitions", "num.partitions"),
        ("log.dirss", "log.dirs"),
        ("advertised.listener", "advertised.listeners"),
        ("odradek.metric.port", "odradek.metrics.port"),
        ("cleanup.policy", "log.cleanup.policy"),
        ("retention.ms", "log.retention.ms"),
    ],
)
def test_key_that_was_meant_is_named(name: str, meant: str) -> None:
    assert suggestion(name) == f", did you mean {meant}?"


@pytest.mark.parametrize("name", ["zookeeper.connect", "x", "", "\x1b", "confluent.license", "q" * 10_000])
def test_name_that_is_like_no_key_has_no_suggestion(name: str) -> None:
    assert suggestion(name) == ""


def test_each_unknown_property_has_a_line_up_to_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "odradek.config"):
        BrokerConfig({"num.partition": "1", "\x1b[2J" + "x" * 500: "1", "num.partitions": "2"})
    lines = [record.getMessage() for record in caplog.records if "known" in record.getMessage()]
    assert len(lines) == 2 and all(len(line) < 250 and line.isprintable() for line in lines)
    assert "num.partition is not a known property and has no effect, did you mean num.partitions?" in lines
    many = unknown_properties({f"no.such.{number}": "1" for number in range(500)})
    assert len(many) == 11 and many[-1] == "490 more properties are not known and have no effect"
