"""`broker.group("billing")`: the committed offsets, the lag, the state and the members of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..admin.lag import GroupProgress, Log, lags_of, sum_of, total_of
from ..admin.markers import MARKER_BYTES, gaps_of, records_end_in
from ..server.services import Services
from .polling import reached
from .topics_seen import leaders

if TYPE_CHECKING:
    from ..admin.lag import Lag
    from ..admin.markers import Gap
    from ..coordinator.groups.shard_state import ShardState
    from ..server.partitions.hosted_partition import HostedPartition
    from .broker_run import EmbeddedRun
    from .completion import Completion
    from .run_holder import RunHolder

#: Protocol types of groups that assign whole topics to their members; groups with another type only commit.
_SUBSCRIBING = ("consumer", "streams")


class GroupView:
    """A group of consumers of any kind; it need not exist yet."""

    def __init__(self, embedded: RunHolder, group_id: str) -> None:
        self._embedded = embedded
        self.group_id = group_id

    def __repr__(self) -> str:
        return f"<group {self.group_id}>"

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """Committed offsets by topic and partition."""
        run = self._embedded._here()
        return self._embedded._look(lambda: offsets(run, self.group_id))

    @property
    def lags(self) -> dict[tuple[str, int], int]:
        """Records that wait, by topic and partition: of each partition in which the group has committed an offset."""
        run = self._embedded._here()
        return self._embedded._look(lambda: waiting(run, self.group_id))

    @property
    def lag(self) -> int | None:
        """The sum of `lags`; None before the group has committed anything."""
        return sum_of(self.lags.values())

    @property
    def uncommitted(self) -> int:
        """The number of partitions without a commit, of the topics that the group reads. They have no lag."""
        run = self._embedded._here()
        return self._embedded._look(lambda: total_of(lags(run, self.group_id)).uncommitted)

    @property
    def state(self) -> str | None:
        """The state of the group by Kafka's name, such as "Stable"; None where there is no such group."""
        run = self._embedded._here()
        return self._embedded._look(lambda: state(run, self.group_id))

    @property
    def members(self) -> list[str]:
        """The ids of its members."""
        run = self._embedded._here()
        return self._embedded._look(lambda: sorted(getattr(_group(run, self.group_id), "members", ())))

    def wait_for(
        self,
        *,
        lag: int | None = None,
        state: str | None = None,
        members: int | None = None,
        from_start: bool = False,
        timeout: float = 10.0,
    ) -> Completion[None]:
        """Waits until the lag is at most so many records, the state is this one, there are so many members.

        `from_start`: partitions without a commit count from their first record. Blocks, or is awaited in an event loop.
        Raises TimeoutError, whose text has the state at the end.
        """
        run, group_id = self._embedded._here(), self.group_id
        state_of = globals()["state"]

        def is_there() -> bool:
            behind = total_of(lags(run, group_id, from_start=from_start)).lag
            return (
                (lag is None or (behind is not None and bool(offsets(run, group_id)) and behind <= lag))
                and (state is None or state_of(run, group_id) == state)
                and (members is None or len(getattr(_group(run, group_id), "members", ())) == members)
            )

        async def wait() -> None:
            try:
                await reached(is_there, f"a condition on group {group_id}", timeout)
            except TimeoutError as late:
                count = len(getattr(_group(run, group_id), "members", ()))
                raise TimeoutError(
                    f"{late}; the group is {state_of(run, group_id)} with {count} members and lag {waiting(run, group_id)}"
                ) from None

        return self._embedded._wait_done("wait_for()", wait)


def shard_states(run: EmbeddedRun) -> list[ShardState]:
    """Returns the states of the groups' coordinators. Belongs to the loop's thread, as all below."""
    drivers = [
        driver
        for server in run.servers.values()
        if isinstance(server.services, Services)
        for driver in server.services.coordinators.groups.shards()
    ]
    return [driver.shard.state for driver in drivers if driver.shard is not None]


def _group(run: EmbeddedRun, group_id: str) -> Any:
    return next((one.groups[group_id] for one in shard_states(run) if group_id in one.groups), None)


def state(run: EmbeddedRun, group_id: str) -> str | None:
    group = _group(run, group_id)
    return str(group.state.value) if group is not None else None


def offsets(run: EmbeddedRun, group_id: str) -> dict[tuple[str, int], int]:
    return {
        (topic, index): committed.offset
        for one in shard_states(run)
        for topic, partitions in one.offsets.of_group(group_id).items()
        for index, committed in partitions.items()
    }


def lags(run: EmbeddedRun, group_id: str, *, from_start: bool = False) -> list[Lag]:
    """The lag in each partition of the topics that members of the group read, or that have a commit of it."""
    positions = {place: GroupProgress(offset) for place, offset in offsets(run, group_id).items()}
    group = _group(run, group_id)
    has_protocol = group is not None and group.protocol_type in _SUBSCRIBING
    topics = {*(topic for topic, _ in positions), *(group.input_topics() if has_protocol else ())}
    led = {(topic, hosted.index): hosted for topic in topics for hosted in leaders(run, topic)}
    if has_protocol:
        positions |= dict.fromkeys(led.keys() - positions.keys(), GroupProgress(None))
    ends = {place: hosted.role.high_watermark for place, hosted in led.items()}
    gaps = gaps_of([positions], ends)
    logs = {
        place: Log(
            ends[place],
            hosted.log.log_start_offset,
            records_end_in(_last_batches(hosted, gaps[place]), gaps[place]) if place in gaps else None,
        )
        for place, hosted in led.items()
    }
    return lags_of(positions, logs, from_start=from_start)


def _last_batches(hosted: HostedPartition, gap: Gap) -> bytes | bytearray:
    """The batches from the gap's offset on; none where they take more bytes than markers."""
    if gap.offset < hosted.log.log_start_offset:
        return b""
    return hosted.open_log().read(gap.offset, MARKER_BYTES, gap.end, min_one_batch=False).bytes()


def waiting(run: EmbeddedRun, group_id: str) -> dict[tuple[str, int], int]:
    return {(one.topic, one.partition): one.lag for one in lags(run, group_id) if one.lag is not None}
