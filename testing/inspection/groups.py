"""`broker.group("billing")`: the committed offsets, the lag, the state and the members of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...server.services import Services
from ..loop_thread import reached
from ..run_holder import Completion
from .topics import leaders

if TYPE_CHECKING:
    from ...coordinator.groups.base.state import ShardState
    from ..broker_run import EmbeddedRun
    from ..run_holder import RunHolder


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
        """Records that wait, by topic and partition: of every partition of the topics in which the group has committed."""
        run = self._embedded._here()
        return self._embedded._look(lambda: lags(run, self.group_id))

    @property
    def lag(self) -> int | None:
        """The sum of `lags`; None before the group has committed anything."""
        found = self.lags
        return sum(found.values()) if found else None

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
        self, *, lag: int | None = None, state: str | None = None, members: int | None = None, timeout: float = 10.0
    ) -> Completion[None]:
        """Waits until the lag is at most so many records, the state is this one, there are so many members.

        Blocks, or is awaited in an event loop. Raises TimeoutError, whose text has the state at the end.
        """
        run, group_id = self._embedded._here(), self.group_id
        state_of = globals()["state"]

        def is_there() -> bool:
            waiting = lags(run, group_id)
            return (
                (lag is None or (bool(waiting) and sum(waiting.values()) <= lag))
                and (state is None or state_of(run, group_id) == state)
                and (members is None or len(getattr(_group(run, group_id), "members", ())) == members)
            )

        async def wait() -> None:
            try:
                await reached(is_there, f"a condition on group {group_id}", timeout)
            except TimeoutError as late:
                count = len(getattr(_group(run, group_id), "members", ()))
                raise TimeoutError(
                    f"{late}; the group is {state_of(run, group_id)} with {count} members and lag {lags(run, group_id)}"
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


def lags(run: EmbeddedRun, group_id: str) -> dict[tuple[str, int], int]:
    committed = offsets(run, group_id)
    found = {}
    for topic in dict.fromkeys(topic for topic, _ in committed):
        for hosted in leaders(run, topic):
            begin = committed.get((topic, hosted.index), hosted.log.log_start_offset)
            found[topic, hosted.index] = max(0, hosted.role.high_watermark - begin)
    return found
