"""Properties that no version of Kafka has, with the keys that were probably meant."""

from __future__ import annotations

from collections.abc import Mapping

from ...metadata.configs import InvalidConfig, broker_key, is_removed, suggestion
from .providers import PREFIX
from .tiered_storage import TIERED_SYSTEM_KEY

#: Limit of log lines about unknown properties: a file for another program has hundreds.
_MOST_UNKNOWN_LINES = 10
_MOST_NAME_CHARACTERS = 100
#: Ends of the names of properties that name classes.
_CLASS_ENDINGS = (".class", ".class.name", ".classes", ".reporters")

#: Keys that Kafka passes on to its authorizer, without knowing them.
PLUGIN_KEYS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})


def unknown_properties(properties: Mapping[str, str]) -> list[str]:
    """A line for each property that no key has, with the key that was probably meant; not more than people read."""
    unknown = sorted(
        name
        for name in properties
        if broker_key(name) is None and not name.startswith(PREFIX) and not _is_for_plugin(name, properties)
    )
    lines = [
        f"{_printable(name)} has no effect: Apache Kafka 4 has no such property any more"
        if is_removed(name)
        else f"{_printable(name)} is not a known property and has no effect{suggestion(name)}"
        for name in unknown[:_MOST_UNKNOWN_LINES]
    ]
    if len(unknown) > len(lines):
        lines.append(f"{len(unknown) - len(lines)} more properties are not known and have no effect")
    return lines


def check_known(properties: Mapping[str, str]) -> None:
    """Raises InvalidConfig for a property that no version of Kafka has, with the key that was probably meant.

    A class of the user's gets all properties: beside one, a property that is like no key may be its own.
    """
    has_plug_in = any(
        name.endswith(_CLASS_ENDINGS)
        and (value.startswith("python:") or ("." in value and not value.startswith("org.apache.kafka.")))
        for name, value in properties.items()
    )
    for name in sorted(properties):
        if broker_key(name) is not None or name.startswith(PREFIX) or is_removed(name):
            continue
        if _is_for_plugin(name, properties):
            continue
        meant = suggestion(name)
        if meant or not has_plug_in:
            raise InvalidConfig(f"{_printable(name)} is not a property of any version of Kafka{meant}")


def _is_for_plugin(name: str, properties: Mapping[str, str]) -> bool:
    """Returns whether a class gets the property: the authorizer, or one of the two of tiered storage."""
    if name in PLUGIN_KEYS:
        return True
    return properties.get(TIERED_SYSTEM_KEY, "").strip().lower() == "true" and name.startswith(
        (
            properties.get("remote.log.storage.manager.impl.prefix", "rsm.config."),
            properties.get("remote.log.metadata.manager.impl.prefix", "rlmm.config."),
        )
    )


def _printable(name: str) -> str:
    """A name as it stands in a line of a log: it may come from a file that is no text."""
    cut = name if len(name) <= _MOST_NAME_CHARACTERS else f"{name[:_MOST_NAME_CHARACTERS]}..."
    return cut if cut.isprintable() and cut else repr(cut)
