"""Plans of moves: their text, which is that of kafka-reassign-partitions.sh, and the placement of replicas now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..admin.balance import Placement
from ..admin.nodes import describe_cluster
from ..admin.places import Place
from ..client.error_kinds import ErrorKind
from ..client.reasons import reason_of
from ..client.user_errors import Misused, UserError

if TYPE_CHECKING:
    from ..admin.session import Admin
    from ..admin.topics import Topic

#: A plan has 100 bytes for each partition; larger files are none.
_MOST_PLAN_BYTES = 64 << 20


def racks_of(admin: Admin, brokers: str | None) -> dict[int, str | None]:
    known = {one.broker_id: one.rack for one in describe_cluster(admin).brokers if not one.is_fenced}
    if brokers is None:
        return known
    try:
        chosen = [int(text) for text in brokers.split(",")]
    except ValueError:
        raise Misused(f"--brokers {brokers!r}: give ids, as 1,2,3") from None
    if unknown := [str(one) for one in chosen if one not in known]:
        raise Misused(
            f"--brokers: {', '.join(unknown)} do not run; brokers that run: {', '.join(map(str, sorted(known)))}"
        )
    return {one: known[one] for one in chosen}


def check_brokers(admin: Admin, wanted: Placement) -> None:
    """Raises UserError for replicas on brokers that the cluster does not have."""
    known = {one.broker_id for one in describe_cluster(admin).brokers}
    if unknown := sorted({node for held in wanted.values() for node in held} - known):
        raise UserError(f"the cluster has no broker {', '.join(map(str, unknown))}", ErrorKind.NOT_FOUND)


def placement_of(topics: Iterable[Topic]) -> Placement:
    return {
        (str(topic.name), one.partition_index): list(one.replica_nodes) for topic in topics for one in topic.partitions
    }


def text_of(placement: Mapping[Place, list[int]]) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": held} for (topic, index), held in placement.items()]
    return json.dumps({"version": 1, "partitions": partitions}, indent=1) + "\n"


def plan_of(file: Path) -> Placement:
    try:
        with file.open("rb") as opened:
            content = json.loads(opened.read(_MOST_PLAN_BYTES))
        made = {(str(one["topic"]), int(one["partition"])): [int(node) for node in one["replicas"]]
                for one in content["partitions"]}  # fmt: skip
    except OSError as error:
        raise Misused(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Misused(f"{file} is not a plan: {reason_of(error)}") from None
    if wrong := [f"{topic}-{index}" for (topic, index), held in made.items() if not held or len(set(held)) < len(held)]:
        raise Misused(f"{file}: replicas of {', '.join(wrong[:5])} are missing, or named twice")
    return made


def lines_of(placement: Mapping[Place, list[int]]) -> list[str]:
    return [f"{topic}-{index}: replicas {','.join(map(str, held))}" for (topic, index), held in placement.items()]
