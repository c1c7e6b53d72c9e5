"""Compares the tables of configuration keys with Apache Kafka 4.4's classes: definitions, and accepted values."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from odradek.metadata.configs import (
    ConfigResourceType,
    ConfigType,
    InvalidConfig,
    definition,
    synonyms,
    to_text,
    validate,
)
from odradek.metadata.configs.broker import LISTENER_ONLY
from odradek.metadata.configs.key import ConfigKey

from compat_tests.java.fetch import SPECIFICATION
from compat_tests.java.program import java_command

pytestmark = pytest.mark.usefixtures("java_tools")

_SOURCE = Path(__file__).parent / "java" / "ConfigOracle.java"
_RESOURCES = (
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
)
_DEADLINE_S = 120

_NUMBERS = ("0", "-1", "1", " 42 ", "+7", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808")
_NO_NUMBERS = ("", "x", "1.5", "1_000", "0x10", "1 0", "٤")
_BOUNDS = (
    "-2",
    "2",
    "3",
    "4",
    "5",
    "9",
    "10",
    "11",
    "17",
    "18",
    "22",
    "23",
    "99",
    "100",
    "1000",
    "1024",
    "30000",
    "-131073",
)
_DOUBLES = (
    "0.5",
    "1e3",
    "-0.1",
    "1.0001",
    ".5",
    "5.",
    "1e400",
    "NaN",
    "Infinity",
    "-Infinity",
    "inf",
    "2f",
    "1e-9",
    "1e7",
)
_WORDS = ("", " a ", "a,b", "a,,b", "a,a", " a , b ", ",", "PLAINTEXT", "none", "*", "1:2", "1:2,3:4", "1:2,x")
_KNOWN_WORDS = (
    *(
        "delete",
        "compact",
        "compact,delete",
        "delete,delete",
        "Delete",
        "gzip",
        "zstd",
        "uncompressed",
        "producer",
        "LZ4",
    ),
    *("CreateTime", "LogAppendTime", "logappendtime", "broker", "controller,broker", "classic,share", "bidirectional"),
    *("read_committed", "READ_COMMITTED", "earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"),
    *("by_duration:-PT1H", "by_duration:PT", "by_duration:", "by_duration:1h", "es256", "required", "SASL_SSL", "ssl"),
    *(
        "localhost:9093",
        "[::1]:9093,b:1",
        "localhost",
        "1@localhost:9093",
        "x@localhost:9093",
        "1@a@b:1",
        "1@:9",
        "1@h",
    ),
)
_SAMPLES = {
    ConfigType.BOOLEAN: ("true", "FALSE", " true ", "yes", "", "1"),
    ConfigType.INT: _NUMBERS + _NO_NUMBERS + _BOUNDS,
    ConfigType.LONG: _NUMBERS + _NO_NUMBERS + _BOUNDS,
    ConfigType.SHORT: (*_NUMBERS, *_NO_NUMBERS, "32767", "32768", "-32768", "-32769"),
    ConfigType.DOUBLE: _NUMBERS + _NO_NUMBERS + _DOUBLES,
    ConfigType.STRING: _WORDS + _KNOWN_WORDS,
    ConfigType.LIST: _WORDS + _KNOWN_WORDS,
    ConfigType.PASSWORD: ("secret", " secret ", ""),
    ConfigType.CLASS: ("java.lang.String",),
}


def kafkas(resource: ConfigResourceType) -> list[ConfigKey]:
    """The keys of a resource without those of mirrors and of tables, which Apache Kafka does not have."""
    return [key for key in definition(resource).values() if not key.name.startswith(("mirror.", "odradek."))]


@dataclass
class Oracle:
    keys: dict[tuple[str, str], tuple[str, str, str, str]] = field(default_factory=dict)
    synonyms: dict[tuple[str, str], str] = field(default_factory=dict)
    listener_only: str = ""
    outcomes: list[tuple[str, str]] = field(default_factory=list)


def _samples() -> list[tuple[ConfigResourceType, str, str]]:
    return [
        (resource, key.name, text)
        for resource in _RESOURCES
        for key in kafkas(resource)
        for text in (*_SAMPLES[key.type], *([to_text(key.default_value)] if key.default_value is not None else []))
    ]


def _escape(text: str) -> str:
    return "".join(letter if " " <= letter < "\x7f" and letter != "\\" else f"\\u{ord(letter):04x}" for letter in text)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    file = tmp_path_factory.mktemp("configs") / "samples"
    file.write_text("".join(f"{r.name}\t{name}\t{_escape(text)}\n" for r, name, text in _samples()))
    command = java_command(_SOURCE, str(file), version=SPECIFICATION)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    assert done.returncode == 0, done.stderr
    found = Oracle()
    for line in done.stdout.splitlines():
        match line.split("\t"):
            case ["key", resource, name, config_type, default, internal, mode]:
                found.keys[resource, name] = (config_type, default, internal, mode)
            case ["synonym", resource, name, broker]:
                found.synonyms[resource, name] = broker
            case ["listener-only", names]:
                found.listener_only = names
            case ["sample", verdict, text]:
                found.outcomes.append((verdict, text))
    return found


def test_every_key_has_kafkas_type_default_and_scope(oracle: Oracle) -> None:
    ours = {
        (resource.name, key.name): (
            key.type.name,
            "required"
            if key.required
            else f"default {to_text(key.default_value) if key.default_value is not None else 'null'}",
            str(key.internal).lower(),
            key.scope.value if resource is ConfigResourceType.BROKER else "",
        )
        for resource in _RESOURCES
        for key in kafkas(resource)
    }
    assert ours == oracle.keys


def test_topic_and_group_keys_default_to_kafkas_broker_keys(oracle: Oracle) -> None:
    for resource in (ConfigResourceType.TOPIC, ConfigResourceType.GROUP):
        ours = {key.name: key.broker for key in kafkas(resource) if key.broker}
        theirs = {name: broker for (kind, name), broker in oracle.synonyms.items() if kind == resource.name and broker}
        assert ours == theirs


def test_synonyms_of_broker_keys_have_kafkas_order(oracle: Oracle) -> None:
    theirs = {name: text for (kind, name), text in oracle.synonyms.items() if kind == "BROKER"}
    assert {name: ",".join(synonyms(name)) for name in theirs} == theirs


def test_listener_only_keys_are_kafkas(oracle: Oracle) -> None:
    assert ",".join(LISTENER_ONLY) == oracle.listener_only


def test_sampled_values_get_kafkas_result_and_error_text(oracle: Oracle) -> None:
    samples = _samples()
    assert len(oracle.outcomes) == len(samples) > 5000
    different = []
    for (resource, name, text), theirs in zip(samples, oracle.outcomes):
        try:
            ours = ("taken", _escape(to_text(validate(resource, name, text)) or ""))
        except InvalidConfig as rejected:
            ours = ("refused", _escape(str(rejected)))
        if ours != theirs:
            different.append((resource.name, name, text, ours, theirs))
    assert different == []
