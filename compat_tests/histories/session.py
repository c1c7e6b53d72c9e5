"""A client at work: it performs operations, writes them down, and after an unknown outcome goes on as a new process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from .client import Client, Got, Identity, Key, Refused, Sending, Unknown
from .operation import (
    ABORTED,
    ASSIGN,
    COMMIT,
    CRASH,
    FAIL,
    INFO,
    JOIN,
    OK,
    POLL,
    SEEK,
    SEND,
    SUBSCRIBE,
    TXN,
    Content,
    Operation,
)
from .recorder import Recorder, now_ns

#: How long one poll waits for records.
_POLL_S = 0.1
_AGAIN_S = 0.2


class Session:
    def __init__(
        self, make: Callable[[Identity], Client], identity: Identity, recorder: Recorder, stopped: threading.Event
    ) -> None:
        self._make, self._identity, self._recorder, self._stopped = make, identity, recorder, stopped
        self.process = 0
        #: Where each key is read on, of the assigned keys or of those that were polled under subscribe.
        self.positions: dict[Key, int] = {}
        self._topics: list[str] = []
        self._client: Client | None = None
        self._generation = -1

    def client(self) -> Client:
        """Returns the client, a new one after an unknown outcome. Raises Unknown at the end of the workload."""
        while self._client is None:
            self.process = self._recorder.next_process()
            try:
                self._client = self._make(self._identity)
                self._take_up()
            except (Unknown, Refused):
                self._end_client()
            if self._client is None and self._stopped.wait(_AGAIN_S):
                raise Unknown("the workload is over")
        return self._client

    def _take_up(self) -> None:
        if self._topics:
            self._subscribe()
        elif self.positions:
            self._assign()

    def assign(self, keys: Iterable[Key]) -> None:
        """Reads the keys from their first offsets."""
        self.positions, self._topics = dict.fromkeys(keys, 0), []
        if self._client is not None:
            self._assign()

    def _assign(self) -> None:
        positions = dict(self.positions)
        assert self._client is not None
        self._do(ASSIGN, _shown(positions), lambda client: client.assign(positions))

    def subscribe(self, topics: Sequence[str]) -> None:
        self.positions, self._topics = {}, list(topics)
        if self._client is not None:
            self._subscribe()

    def _subscribe(self) -> None:
        self.positions, self._generation = {}, -1
        self._do(SUBSCRIBE, self._topics, lambda client: client.subscribe(self._topics))

    def send(self, keys: Sequence[Key]) -> None:
        records = [Sending(key, self._recorder.next_value()) for key in keys]
        value: list[Content] = [["send", str(key), [None, one]] for key, one in records]

        def work(client: Client) -> None:
            for micro, offset in zip(value, client.send(records), strict=True):
                micro[2][0] = offset

        self._do(SEND, value, work)

    def poll(self) -> list[Got]:
        value: Content = []
        got: list[Got] = []

        def work(client: Client) -> None:
            got.extend(client.poll(_POLL_S))
            value.append(["poll", _by_key(got)])
            self._move_on(got)

        self._do(POLL, value, work, kept=lambda: bool(got) or not self._topics)
        self._note_generation()
        return got

    def commit(self, got: Sequence[Got]) -> None:
        """Commits the offsets after the records."""
        offsets = {one.key: one.offset + 1 for one in got}
        if offsets:
            generation = self._generation
            self._do(COMMIT, _shown(offsets), lambda client: client.commit(offsets), generation=generation)

    def transact(
        self, steps: Sequence[Key | None], *, commits: bool, joins: bool = False, copies: str = ""
    ) -> list[Got]:
        """Runs a transaction. A step is a key to send to, or None for a poll.

        `joins`: the offsets of what was polled are part of it. `copies`: each polled record is sent to this topic.
        Without `commits` the transaction is aborted. Reads of one that did not commit are read again.
        """
        micro: Content = []
        got: list[Got] = []
        asked_for_commit = False

        def work(client: Client) -> None:
            nonlocal asked_for_commit
            client.begin()
            for key in steps:
                if key is None:
                    found = client.poll(_POLL_S)
                    got.extend(found)
                    micro.append(["poll", _by_key(found)])
                    self._move_on(found)
                    self._send_within(client, micro, [self._copy(one, copies) for one in found if copies])
                else:
                    self._send_within(client, micro, [Sending(key, self._recorder.next_value())])
            if joins and got:
                client.join_offsets({one.key: one.offset + 1 for one in got})
            asked_for_commit = commits
            client.end(commits=commits)
            if not commits:
                raise Refused(ABORTED)

        done = self._do(
            TXN,
            micro,
            work,
            unknown=lambda: INFO if asked_for_commit else FAIL,
            kept=lambda: any(one[0] == "send" or one[1] for one in micro),
        )
        if not done:
            self._go_back(got)
        return got if done else []

    def _copy(self, got: Got, topic: str) -> Sending:
        return Sending(Key(topic, got.key.partition), f"{self._recorder.next_value()}<{got.value}")

    def _send_within(self, client: Client, micro: Content, records: Sequence[Sending]) -> None:
        if records:
            added: list[Content] = [["send", str(key), [None, value]] for key, value in records]
            micro.extend(added)
            for one, offset in zip(added, client.send(records), strict=True):
                one[2][0] = offset

    def _go_back(self, got: Sequence[Got]) -> None:
        """Reads again what a transaction that did not commit had read."""
        moved = {one.key: one.offset for one in reversed(got)}
        self.positions.update(moved)
        if moved and self._client is not None:
            self._do(SEEK, _shown(moved), lambda client: client.seek(moved))

    def crash(self) -> None:
        """Ends the client between two operations; another one follows."""
        if self._client is not None:
            now = now_ns()
            self._recorder.add(Operation(self.process, CRASH, OK, now, now, client=self._client.name))
            self._end_client()

    def _move_on(self, got: Sequence[Got]) -> None:
        self.positions.update({one.key: one.offset + 1 for one in got})

    def _note_generation(self) -> None:
        """Adds a join when the client shows that it is in a new generation."""
        if self._client is None or not self._topics:
            return
        now, generation = now_ns(), self._client.generation()
        if generation > self._generation:
            group = self._identity.group
            self._recorder.add(Operation(self.process, JOIN, OK, now, now_ns(), group=group, generation=generation))
        self._generation = generation

    def _do(
        self,
        f: str,
        value: Content,
        work: Callable[[Client], None],
        *,
        generation: int = -1,
        unknown: Callable[[], str] = lambda: INFO,
        kept: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Performs an operation and writes it down. Returns whether it is certain to have taken effect."""
        client = self.client()
        invoked, outcome, error = now_ns(), OK, ""
        try:
            work(client)
        except Refused as refused:
            outcome, error = FAIL, str(refused)
        except Unknown as failure:
            outcome, error = unknown(), f"crash: {failure}"
        completed = now_ns()
        if kept() or error.startswith("crash"):
            self._recorder.add(
                Operation(
                    self.process,
                    f,
                    outcome,
                    invoked,
                    completed,
                    value,
                    client=client.name,
                    rebalanced=client.moved.take(),
                    group=self._identity.group if f == COMMIT else "",
                    generation=generation,
                    error=error[:200],
                )
            )
        if error.startswith("crash"):
            self._end_client()
        return outcome == OK

    def _end_client(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def close(self) -> None:
        self._end_client()


def _shown(offsets: dict[Key, int]) -> dict[str, int]:
    return {str(key): offset for key, offset in offsets.items()}


def _by_key(got: Iterable[Got]) -> dict[str, list[list[object]]]:
    found: dict[str, list[list[object]]] = {}
    for key, offset, value in got:
        found.setdefault(str(key), []).append([offset, value])
    return found
