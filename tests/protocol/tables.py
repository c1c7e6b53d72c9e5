"""Every table of the package, and Apache's specification of each, for the tests of protocol/."""

from __future__ import annotations

import json
import pkgutil
import re
import zipfile
from functools import cache
from importlib import import_module
from typing import Any

import odradek.protocol.internal
import odradek.protocol.messages
from odradek.protocol.schema import Message, Schema

from compat_tests.java.fetch import SPECIFICATION, jar

#: The jars with specifications, and the Java package of the classes that Apache generates from each.
JAVA_PACKAGES = {
    "kafka-clients": "org.apache.kafka.common.message",
    "kafka-metadata": "org.apache.kafka.common.metadata",
    "kafka-group-coordinator": "org.apache.kafka.coordinator.group.generated",
    "kafka-transaction-coordinator": "org.apache.kafka.coordinator.transaction.generated",
    "kafka-share-coordinator": "org.apache.kafka.coordinator.share.generated",
    "kafka-raft": "org.apache.kafka.raft.generated",
    "kafka-storage": "org.apache.kafka.server.log.remote.metadata.storage.generated",
}


#: Records of our own, which Apache Kafka does not have.
OWN = frozenset({"SilentMembersKey", "SilentMembersValue"})
#: Files that are JSON with the names of a specification's fields, which need no table: server/controller/raft.py.
AS_JSON = frozenset({"QuorumStateData"})
#: The modules with tables.
MODULES = (
    "headers",
    *(f"messages.{module.name}" for module in pkgutil.iter_modules(odradek.protocol.messages.__path__)),
    *(f"internal.{module.name}" for module in pkgutil.iter_modules(odradek.protocol.internal.__path__)),
)


@cache
def messages() -> dict[str, type[Message]]:
    """Returns name -> class of everything that has its own versions: requests, responses, headers, records, files."""
    found: dict[str, type[Message]] = {}
    for module in MODULES:
        for name, made in vars(import_module(f"odradek.protocol.{module}")).items():
            if (
                isinstance(made, type)
                and issubclass(made, Message)
                and made.__module__.endswith(module)
                and is_top(made)
            ):
                assert name not in found, f"{name} is declared twice"
                found[name] = made
    return found


def is_top(made: type[Message]) -> bool:
    """Returns whether the class is a message, not a nested structure (those have open-ended versions)."""
    schema: Schema | None = getattr(made, "SCHEMA", None)
    return schema is not None and not str(schema.versions).endswith("+")


def versions(made: type[Message]) -> range:
    return range(made.SCHEMA.versions.low, made.SCHEMA.versions.high + 1)


def every_version() -> list[tuple[type[Message], int]]:
    return [(made, version) for _, made in sorted(messages().items()) for version in versions(made)]


@cache
def specifications() -> dict[str, dict[str, Any]]:
    """Returns name -> JSON of every specification in the jars that has a version, with `javaClass`. Raises ToolsMissing."""
    found: dict[str, dict[str, Any]] = {}
    for artifact, package in JAVA_PACKAGES.items():
        with zipfile.ZipFile(jar(artifact, SPECIFICATION)) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                    spec = json.loads(re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE))
                    suffix = "Data" if spec["type"] in ("request", "response", "header") else ""
                    found[spec["name"]] = {**spec, "javaClass": f"{package}.{spec['name']}{suffix}"}
    return {name: spec for name, spec in found.items() if spec["validVersions"] != "none" and name not in AS_JSON}


def snake_case(name: str) -> str:
    """Converts Kafka's names to Odradek's: `ThrottleTimeMs` is `throttle_time_ms`, and KRaft is one word."""
    name = name.replace("KRaft", "Kraft").replace("kRaft", "kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
