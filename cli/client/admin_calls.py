"""Requests that several commands send to the cluster, with errors that name their subject.

- `described_topics` to `alter_configs`: requests by kafka-python's admin client.
- `ask`, `coordinator_of`, `patiently`: requests that the client libraries do not have, by the client of
  `odradek.client` and the codecs of odradek.protocol.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..options import FAILED
from .errors import COORDINATOR_MOVES, UNREACHABLE, CommandError, CoordinatorMoves, advice_for, status_of_code

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from .admin import AdminClient, ConfigValue, RequestSender, Topic


# ---- requests of the admin client

#: `OffsetSpec` of ListOffsets. The last two are of tiered topics: the first offset on the disk, and the last one in the
#: store (-1: none is).
EARLIEST, LATEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -4, -5
#: The number of an error in a text of kafka-python.
_ERROR_NUMBER = re.compile(r"\[Error (\d+)\]")
#: Partitions in one request for offsets: the responses of more take memory that a long process keeps.
_OFFSETS_AT_ONCE = 500


def api_error(subject: str, code: int, message: str | None = None) -> CommandError:
    """An error code of a response, as the error of a command. `subject` names the topic, group or other thing."""
    from kafka.errors import for_code

    kind = for_code(code)
    words = message or getattr(kind, "description", "") or kind.__name__
    error = CoordinatorMoves if code in COORDINATOR_MOVES else CommandError
    return error(f"{subject}: {words.strip().rstrip('.')} ({_wire_name(kind)}){advice_for(code)}", status_of_code(code))


def _wire_name(kind: type) -> str:
    return str(getattr(kind, "message", "") or kind.__name__)


def check(subject: str, code: int, message: str | None = None) -> None:
    if code:
        raise api_error(subject, code, message)


def described_topics(admin: AdminClient, names: Iterable[str] | None) -> list[Topic]:
    """Topics as Metadata describes them, sorted. Raises CommandError for one of `names` that does not exist."""
    wanted = None if names is None else list(names)
    if wanted == []:
        return []
    found = admin.describe_topics(wanted)
    for topic in found:
        if wanted is not None:
            check(f"topic {topic['name']}", topic["error_code"])
        topic["partitions"].sort(key=lambda partition: partition["partition_index"])
    return sorted(found, key=lambda topic: str(topic["name"]))


def partition_offsets(
    admin: AdminClient,
    topics: Iterable[Topic],
    timestamp: int,
    *,
    committed: bool = False,
    without: Container[int] = (),
) -> dict[tuple[str, int], int]:
    """Offsets by (topic, partition) of a spec or a time in ms; without partitions that have no leader, or one
    of the brokers `without`.

    With `committed` the end is the last stable offset, for readers of committed records.
    """
    from kafka.structs import TopicPartition

    asked = {
        TopicPartition(topic["name"], partition["partition_index"]): timestamp
        for topic in topics
        for partition in topic["partitions"]
        if partition["leader_id"] >= 0 and partition["leader_id"] not in without
    }
    if not asked:
        return {}
    level = "READ_COMMITTED" if committed else "READ_UNCOMMITTED"
    response = admin.list_partition_offsets(asked, isolation_level=level)
    return {(where.topic, where.partition): found.offset for where, found in response.items()}


def offsets_at(
    admin: AdminClient, places: Sequence[tuple[str, int]], timestamp: int
) -> Iterator[tuple[tuple[str, int], int]]:
    """Offsets of partitions that have leaders, at EARLIEST, LATEST or a time in ms, in requests of bounded size."""
    from kafka.structs import TopicPartition

    for start in range(0, len(places), _OFFSETS_AT_ONCE):
        asked = {TopicPartition(*place): timestamp for place in places[start : start + _OFFSETS_AT_ONCE]}
        for where, found in admin.list_partition_offsets(asked).items():
            yield (where.topic, where.partition), found.offset


def replica_sizes(admin: AdminClient, topics: list[str] | None = None) -> dict[tuple[str, int], int]:
    """Bytes of the largest replica by (topic, partition), of all log directories that are online."""
    sizes: dict[tuple[str, int], int] = {}
    for broker in admin.describe_log_dirs(topics):
        for directory in broker["log_dirs"]:
            for topic in directory["topics"]:
                for partition in topic["partitions"]:
                    if not partition["is_future_key"]:
                        where = (topic["name"], partition["partition_index"])
                        sizes[where] = max(sizes.get(where, 0), partition["partition_size"])
    return sizes


def config_values(admin: AdminClient, kind: str, name: str, *, which: str = "all") -> dict[str, ConfigValue]:
    """Configs of a resource: `kind` topic, broker, group or client_metrics; `which` all, modified or dynamic."""
    from kafka.admin import ConfigResource, ConfigResourceType

    resource = ConfigResource(ConfigResourceType[kind.upper()], name)
    response = admin.describe_configs([resource], include_synonyms=True, config_filter=which)
    return response.get(kind, {}).get(name, {})


def alter_configs(
    admin: AdminClient, kind: str, name: str, changes: Mapping[str, tuple[str, str | None]], *, dry_run: bool
) -> None:
    """Sets, deletes, appends to or subtracts from configs: name -> (SET, DELETE, APPEND or SUBTRACT, value)."""
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

    entries = {key: (AlterConfigOp[word], value) for key, (word, value) in changes.items()}
    resource = ConfigResource(ConfigResourceType[kind.upper()], name, entries)
    response = admin.alter_configs([resource], validate_only=dry_run, raise_on_unknown=False, incremental=True)
    for results in response.values():
        for result in results.values():
            if result != "OK":
                error, _, words = str(result).partition(": ")
                code = _ERROR_NUMBER.match(error)
                status = status_of_code(int(code[1])) if code is not None else FAILED
                hint = f"; `odradek config get {kind} {name} --all` lists the keys" if status == FAILED else ""
                raise CommandError(f"{kind} {name}: {(words or error).rstrip('.')}{hint}", status)


# ---- requests of odradek.protocol

_PATIENCE_S, _PAUSE_S = 30.0, 0.2
T = TypeVar("T")


def ask(admin: RequestSender, request: Message, node_id: int | None = None) -> Any:
    """Sends a request, in the newest version that both sides have, to a node or to any. Raises CommandError, and
    ConnectionError without a response.
    """
    from ...client.errors import NotSupported

    try:
        return admin.requests.ask(request, node_id)
    except NotSupported as error:
        raise CommandError(f"the brokers do not support {error}: use a newer version") from None


def coordinator_now(admin: RequestSender, group: str) -> int:
    """The node that coordinates a group. Raises CoordinatorMoves where there is none at the moment."""
    from ...client.errors import CoordinatorError

    try:
        return int(admin.requests.coordinator(group))
    except CoordinatorError as error:
        if error.code in COORDINATOR_MOVES:
            raise CoordinatorMoves(
                f"group {group} has no coordinator at the moment: try again later", UNREACHABLE
            ) from None
        raise api_error(f"group {group}", error.code, error.message) from None


def coordinator_of(admin: RequestSender, group: str) -> int:
    """Works as `coordinator_now`, and waits while a new cluster has none."""
    return patiently(admin, lambda: coordinator_now(admin, group))


def patiently(admin: RequestSender, step: Callable[[], T]) -> T:
    """Runs a step that asks coordinators, again while they load or move to other nodes. Raises CommandError."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return step()
        except CoordinatorMoves:
            if time.monotonic() > deadline:
                raise
        admin.forget_places()
        time.sleep(_PAUSE_S)


_OWN = "DYNAMIC_TOPIC_CONFIG"


def own_configs(admin: AdminClient, name: str) -> dict[str, str]:
    """The configs that a topic itself has; the others are defaults of its cluster."""
    values = config_values(admin, "topic", name)
    return {key: str(one["value"]) for key, one in values.items() if one["config_source"] == _OWN}
