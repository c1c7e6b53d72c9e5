"""Findings of a migration: obstacles, and differences afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...admin.errors import NotSupported, RequestFailed
from ...admin.metadata_quorum import describe_quorum
from ...client.properties_file import read_properties
from ...client.user_errors import UserError
from ...metadata.features import FEATURES
from ...protocol.errors import ErrorCode
from ...protocol.records.batch import MAGIC, MAGIC_AT
from ...server.controller.metadata_survey import newer_leader_changes
from .survey import APACHE, ODRADEK, Survey

if TYPE_CHECKING:
    from ...admin.session import Admin

#: A finding of the first kind must be removed before the first step; one of the second is a difference afterwards.
STOPS, DIFFERS, WORKS = "stops", "differs", "works"
#: The levels that Apache Kafka 4.3 supports: the release to which a cluster goes back when it has no broker of Apache left.
RELEASE_BACK = {
    "metadata.version": 30, "share.version": 1, "group.version": 1, "kraft.version": 1, "streams.version": 1,
    "transaction.version": 2, "eligible.leader.replicas.version": 1,
}  # fmt: skip
FINDING_COLUMNS = ("VERDICT", "SUBJECT", "FINDING", "ADVICE")
#: The way without the quorum, for all releases from 2.1 on.
BY_MIRROR = "follow the cluster with a mirror, then switch: `odradek mirror create` (docs/specialists/mirror.md)"
_CLOSED = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION)
_AUTHORIZER = "authorizer.class.name"
#: Java classes that Odradek has too, under their names.
_KNOWN_CLASSES = ("org.apache.kafka.", "kafka.")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
_TIERED_SYSTEM = "remote.log.storage.system.enable"
_TIERED_STORE = "remote.log.storage.manager.class.name"
#: Stores that both programs have.
STORES = ("org.apache.kafka.server.log.remote.storage.LocalTieredStorage",)
_RECORD_HEAD = 17


class MigrationFinding(NamedTuple):
    verdict: str
    subject: str
    words: str
    advice: str = ""


def closed_quorum(admin: Admin) -> MigrationFinding | None:
    """The finding of a cluster whose quorum no node can join: without KRaft, a managed service, another program."""
    try:
        describe_quorum(admin)
    except RequestFailed as error:
        if isinstance(error, NotSupported) or getattr(error, "code", None) in _CLOSED:
            return MigrationFinding(
                STOPS, "quorum", f"this cluster has no quorum that a node can join: {error}", BY_MIRROR
            )
        raise
    return None


def to_odradek(survey: Survey) -> Iterator[MigrationFinding]:
    """Findings of a way from Apache Kafka to Odradek."""
    for name, level in sorted(survey.levels.items()):
        yield _level(name, level, FEATURES[name].built if name in FEATURES else 0, ODRADEK)
    yield _quorum(survey)
    yield from _of_tiered(survey)
    for node in survey.brokers:
        if node.program == APACHE:
            yield from _of_configs(f"broker {node.id}", node.configs)


def _of_tiered(survey: Survey) -> Iterator[MigrationFinding]:
    """Tiered topics stop the way where a broker of Apache Kafka has a store that Odradek does not have."""
    stores = {str(node.configs.get(_TIERED_STORE)) for node in survey.brokers if node.program == APACHE}
    foreign = sorted(stores.difference(STORES))
    for topic in survey.tiered:
        if not foreign:
            yield MigrationFinding(
                WORKS, f"topic {topic}", "its segments in remote storage stay: Odradek has the same store"
            )
            continue
        yield MigrationFinding(
            STOPS,
            f"topic {topic}",
            f"it has segments in remote storage (remote.storage.enable); Odradek does not load {', '.join(foreign)}",
            "name a store of Odradek, set remote.storage.enable=false with remote.log.delete.on.disable=true, or delete it",
        )


def to_apache(survey: Survey) -> Iterator[MigrationFinding]:
    """Findings of a way back. Its release is that of the brokers of Apache Kafka; without any it is 4.3."""
    theirs = [node for node in survey.brokers if node.program == APACHE and node.supported]
    for name, level in sorted(survey.levels.items()):
        highest = min((node.supported.get(name, (0, 0))[1] for node in theirs), default=RELEASE_BACK.get(name, 0))
        release = theirs[0].release if theirs else "4.3"
        yield _level(name, level, highest, f"{APACHE} {release}")
    yield _quorum(survey)
    own = sorted({key for node in survey.brokers for key in node.configs if key.startswith("odradek.")})
    if own:
        yield MigrationFinding(DIFFERS, "keys", f"{APACHE} does not know {', '.join(own)}", "it ignores them")


def _level(name: str, level: int, highest: int, program: str) -> MigrationFinding:
    if level <= highest:
        return MigrationFinding(WORKS, name, f"level {level}; {program} supports levels up to {highest}")
    advice = "lower it (`kafka-features.sh downgrade`) where the controller allows that; no node can join before"
    return MigrationFinding(STOPS, name, f"level {level}; {program} supports levels up to {highest}", advice)


def _quorum(survey: Survey) -> MigrationFinding:
    kind = "dynamic voters (kraft.version 1)" if survey.is_dynamic else "static voters (controller.quorum.voters)"
    voters = ", ".join(str(node.id) for node in survey.nodes.values() if node.is_voter)
    return MigrationFinding(
        WORKS, "quorum", f"{kind}: {voters}", "go in place; new ids need dynamic voters for controllers"
    )


def _of_configs(subject: str, configs: Mapping[str, str | None]) -> Iterator[MigrationFinding]:
    from ...metadata.configs.resources import BROKER

    if configs.get(_TIERED_SYSTEM) == "true" and configs.get(_TIERED_STORE) not in STORES:
        words = f"{_TIERED_SYSTEM}=true: Odradek does not load {configs.get(_TIERED_STORE)}"
        yield MigrationFinding(STOPS, subject, words, f"set it to false, or {_TIERED_STORE} to a store of Odradek")
    classes = {name: value for name, value in configs.items() if _is_class(name) and value}
    for name, value in sorted(classes.items()):
        if not str(value).startswith(_KNOWN_CLASSES):
            advice = "write it as a Python class (docs/specialists/security-classes.md), or remove it"
            yield MigrationFinding(STOPS, subject, f"{name}={value} is a class in Java", advice)
    if (authorizer := configs.get(_AUTHORIZER)) and str(authorizer).startswith(_KNOWN_CLASSES):
        yield MigrationFinding(WORKS, subject, f"authorizer {authorizer}", "ACLs are in the metadata and stay")
    mechanisms = str(configs.get("sasl.enabled.mechanisms") or "")
    for name in filter(None, (one.strip() for one in mechanisms.split(","))):
        if name in _MECHANISMS:
            yield MigrationFinding(WORKS, subject, f"SASL mechanism {name}")
        else:
            yield MigrationFinding(
                STOPS, subject, f"SASL mechanism {name} is not supported", "move its clients to another one"
            )
    if listeners := configs.get("listeners"):
        protocols = str(configs.get("listener.security.protocol.map") or "")
        yield MigrationFinding(WORKS, subject, f"listeners {listeners}" + (f" ({protocols})" if protocols else ""))
    inert: dict[str, list[str]] = {}
    for name in sorted(configs):
        key = BROKER.get(name)
        if key is not None and key.inert:
            inert.setdefault(key.inert, []).append(name)
    for reason, names in inert.items():
        yield MigrationFinding(DIFFERS, subject, f"without effect: {', '.join(names)}", reason)


def _is_class(name: str) -> bool:
    from ...metadata.configs.resources import BROKER

    key = BROKER.get(name)
    if name in (_AUTHORIZER, "metric.reporters"):
        return True
    return key is not None and key.type.name == "CLASS"


def of_file(file: Path, to: str) -> Iterator[MigrationFinding]:
    """Findings of a node of this machine: its properties, and the formats on its disks. Raises UserError."""
    from ...server.controller.metadata_log import DIRECTORY_NAME
    from ...storage.files.meta_properties import read_meta_properties

    properties = read_properties(file)
    if to == ODRADEK:
        yield from _of_configs(str(file), properties)
    directories = directories_of(file)
    for directory in directories:
        known = read_meta_properties(str(directory))
        if known is None:
            raise UserError(f"{directory} of {file} is not a formatted log directory")
        old = _old_formats(directory)
        if old and to == ODRADEK:
            words = f"batches of the message formats 0 and 1, from before Kafka 0.11, in {', '.join(old[:5])}"
            advice = "Odradek does not start with them: delete or copy these topics with Apache Kafka first"
            yield MigrationFinding(STOPS, str(directory), words, advice)
        if newer_leader_changes(directory / DIRECTORY_NAME) and to == APACHE:
            advice = f"`odradek doctor --data-dir {directory}` has the remedy"
            yield MigrationFinding(
                STOPS, str(directory), "LeaderChange records of version 1 in the metadata log", advice
            )
        yield MigrationFinding(
            WORKS, str(directory), f"a log directory of node {known.node_id}, cluster {known.cluster_id}"
        )


def directories_of(file: Path) -> list[Path]:

    properties = read_properties(file)
    named = properties.get("log.dirs") or properties.get("log.dir") or "/tmp/kafka-logs"
    return [Path(one.strip()) for one in named.split(",")]


def _old_formats(directory: Path) -> list[str]:
    """Returns the first segments of partitions that begin with a message format older than the one of Kafka 0.11."""
    found = []
    for partition in sorted(path for path in directory.iterdir() if path.is_dir()):
        for segment in sorted(partition.glob("*.log"))[:1]:
            with segment.open("rb") as file:
                head = file.read(_RECORD_HEAD)
            if len(head) == _RECORD_HEAD and head[MAGIC_AT] < MAGIC:
                found.append(partition.name)
    return found
