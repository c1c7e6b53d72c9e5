"""A configuration's value costs time in proportion to its length: any client may send values in AlterConfigs."""

from __future__ import annotations

import contextlib
import time

import pytest
from odradek.client.properties_file import parse_properties
from odradek.metadata.configs import ConfigResourceType, InvalidConfig, validate
from odradek.metadata.configs.resources import BROKER, CLIENT_METRICS, GROUP, OWN, TOPIC
from odradek.server.config.providers import resolved

LENGTH = 60_000
#: A linear check of this many characters takes a few milliseconds; a quadratic check takes minutes.
MOST_S = 0.5

TEXTS = {
    "digits": "9" * LENGTH + "x",
    "zeros": "0" * LENGTH + "1",
    "blanks": "a" + " " * LENGTH + "b",
    "commas": "," * LENGTH,
    "colons": ":" * LENGTH,
    "pairs": "0:0," * (LENGTH // 4) + "x",
    "addresses": "1@h:1," * (LENGTH // 6) + "@",
    "listeners": "PLAINTEXT://" * (LENGTH // 12),
    "brackets": "[" * LENGTH,
    "dots": "." * LENGTH,
    "duration": "by_duration:P" + "1" * LENGTH,
    "variables": "${" * (LENGTH // 2),
}
TABLES = {ConfigResourceType.BROKER: BROKER | OWN, ConfigResourceType.TOPIC: TOPIC, ConfigResourceType.GROUP: GROUP,
          ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_no_key_takes_long_over_a_long_value(text: str) -> None:
    for resource_type, table in TABLES.items():
        for checked in {(key.type, key.check): key for key in table.values()}.values():
            began = time.thread_time()
            with contextlib.suppress(InvalidConfig):
                validate(resource_type, checked.name, TEXTS[text])
            assert time.thread_time() - began < MOST_S, checked.name


@pytest.mark.parametrize("text", TEXTS)
def test_no_value_takes_long_to_resolve(text: str) -> None:
    name = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    began = time.thread_time()
    resolved({"config.providers": "env", "config.providers.env.class": name, "a": TEXTS[text] + "${env:" * 5000})
    assert time.thread_time() - began < MOST_S


def test_file_of_continued_lines_is_read_in_linear_time() -> None:
    began = time.thread_time()
    assert parse_properties("a=" + "x\\\n" * 200_000) == {"a": "x" * 200_000}
    assert time.thread_time() - began < 2 * MOST_S
