"""Validators of configuration values beyond their type.

A validator gets the key's name and the typed value, and raises InvalidConfig with Kafka's text. A list validator
may request the list without duplicates, as Kafka does.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .values import InvalidConfig, Value, invalid_value, shown

_MOST_PORT = 65535
_MOST_ID = 2**31 - 1

#: A table of dead-letter records has 13 more, and file systems take 255.
_MOST_TABLE_NAME = 242

Check = Callable[[str, Value], None]

_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")
_TABLE_NAME = re.compile(r"[A-Za-z0-9_]+")

_ISO_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?:T(?=[-+.\d])(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_UNIT_SECONDS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}

# An address as Kafka's clients accept it: host:port or [IPv6]:port, with or without a protocol.
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:0*([0-9]{1,10})")


def at_least(low: float) -> Check:
    return between(low, None)


def between(low: float, high: float | None) -> Check:
    def check(name: str, value: Value) -> None:
        if value is None:
            raise invalid_value(name, "null", "Value must be non-null")
        assert isinstance(value, int | float)
        if value < low:
            raise invalid_value(name, shown(value), f"Value must be at least {low}")
        if high is not None and value > high:
            raise invalid_value(name, shown(value), f"Value must be no more than {high}")

    return check


def port(name: str, value: Value) -> None:
    """Validates a port: 0 for any free port, None for no listener."""
    if value is not None:
        between(0, _MOST_PORT)(name, value)


def one_of(*words: str) -> Check:
    def check(name: str, value: Value) -> None:
        if value not in words:
            raise invalid_value(name, shown(value), f"String must be one of: {', '.join(words)}")

    return check


def one_of_ignoring_case(*words: str) -> Check:
    def check(name: str, value: Value) -> None:
        if not isinstance(value, str) or value.upper() not in words:
            raise invalid_value(name, shown(value), f"String must be one of (case insensitive): {', '.join(words)}")

    return check


def list_of(*words: str, empty: bool = True, null: bool = False) -> Check:
    """Returns a validator for a list of non-empty words, or of the given words. `empty`, `null`: the list may be so."""

    def check(name: str, value: Value) -> None:
        if value is None:
            if null:
                return
            raise InvalidConfig(f"Configuration '{name}' values must not be null.")
        assert isinstance(value, tuple)
        if not value and not empty:
            valid = f"[{', '.join(words)}]" if words else "any non-empty value"
            raise InvalidConfig(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
        for element in value:
            if not element:
                raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
            if words:
                one_of(*words)(name, element)

    check.drops_duplicates = True  # type: ignore[attr-defined]
    return check


def non_null(name: str, value: Value) -> None:
    if value is None:
        raise invalid_value(name, "null", "entry must be non null")


def non_empty(name: str, value: Value) -> None:
    if value == "":
        raise invalid_value(name, "", "String must be non-empty")


def table_name(name: str, value: Value) -> None:
    """Validates the name of a table, which SQL takes without quotes; None for the topic's."""
    text = "_" if value is None else str(value)
    if len(text) > _MOST_TABLE_NAME or not _TABLE_NAME.fullmatch(text):
        raise invalid_value(
            name, shown(value), f"A table's name has letters, digits and underscores, {_MOST_TABLE_NAME} at most"
        )


def gzip_level(name: str, value: Value) -> None:
    if not (isinstance(value, int) and (1 <= value <= 9 or value == -1)):
        raise invalid_value(name, shown(value), "Value must be between 1 and 9 or equal to -1")


def throttled_replicas(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    proposed = [element.strip() for element in value]
    if "".join(proposed) != "*" and not all(_REPLICA.fullmatch(element) for element in proposed):
        raise invalid_value(
            name,
            shown(value),
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


def duration_seconds(text: str) -> float | None:
    """Returns the length of an ISO 8601 duration such as PT1H30M; None if it is invalid."""
    found = _ISO_DURATION.fullmatch(text)
    if not found or not any(found.group(unit) for unit in _UNIT_SECONDS):
        return None
    total = sum(float((found.group(u) or "0").replace(",", ".")) * size for u, size in _UNIT_SECONDS.items())
    return -total if found.group("sign") == "-" else total


def share_auto_offset_reset(name: str, value: Value) -> None:
    text = str(value)
    _, found, duration = text.partition("by_duration:")
    if found and text.startswith("by_duration:"):
        seconds = duration_seconds(duration)
        if seconds is not None and seconds >= 0:
            return
    elif text in ("earliest", "latest"):
        return
    raise invalid_value(
        name,
        text,
        f"Invalid value `{text}` for configuration {name}. "
        "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
    )


def host_and_port(address: str) -> tuple[str, int] | None:
    """Returns the host and port of `host:port`; None if there is no port."""
    found = _ADDRESS.fullmatch(address)
    return (found.group(1), int(found.group(2))) if found else None


def quorum_bootstrap_servers(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    for server in value:
        if host_and_port(server) is None:
            form = 'Each entry should be in the form "{host}:{port}"'
            raise InvalidConfig(f"Failed to parse host name from {server} for the configuration {name}. {form}")
        _check_port(name, server)


def quorum_voters(name: str, value: Value) -> None:
    form = "Each entry should be in the form `{id}@{host}:{port}`."
    assert isinstance(value, tuple)
    for voter in value:
        parts = voter.rstrip("@").split("@")
        if len(parts) != 2:
            raise InvalidConfig(f"Invalid configuration value for {name}. {form}")
        if not re.fullmatch(r"[+-]?0*\d{1,10}", parts[0]) or not -_MOST_ID - 1 <= int(parts[0]) <= _MOST_ID:
            raise InvalidConfig(f"Failed to parse voter ID as an integer from {parts[0]}")
        if host_and_port(parts[1]) is None:
            raise InvalidConfig(f"Failed to parse host name from entry {voter} for the configuration {name}. {form}")
        _check_port(name, parts[1])


def _check_port(name: str, address: str) -> None:
    found = host_and_port(address)
    if found is not None and found[1] > _MOST_PORT:
        raise InvalidConfig(f"{name}: the port of {address} must be from 0 to {_MOST_PORT}")
