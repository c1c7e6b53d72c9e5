"""A transactional client is killed with -9 while one frame of its transaction is held between it and the broker.

    python -m compat_tests.exactly_once.held_steps [--target apache]

Each request of a librdkafka transaction, up to the one that ends it, has three fates:

- `lost`: the request never arrives;
- `unheard`: the broker carries it out, and its response never arrives;
- `late`: it arrives while the client's successor is in a transaction of its own, which it must not change.

In each case a client with the same transactional id succeeds the dead one, and finds all of its transaction or nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from confluent_kafka import Producer
from odradek.protocol.apis import APIS

from compat_tests.broker_process import free_port
from compat_tests.oracle import SINGLE_NODE
from compat_tests.recipes import eventually, make_topic
from compat_tests.sent_again.gate import Gate, Hold, decoded_response
from compat_tests.wire import WireClient

from .checker import BROKERS
from .commit_steps import NO_OFFSET, committed
from .copier import CLIENT, TIMEOUT_S, retried
from .dying_client import OFFSET, VALUE, join_offset
from .readers import READ_COMMITTED, read_all
from .reference_log import last_stable_offset, reference_log_of

_ROOT = Path(__file__).resolve().parents[2]
_DEADLINE_S = 120
#: A transaction timeout longer than any run: only the successor ends a transaction that is left open.
_PATIENCE_MS = 600_000
_SUCCESSOR = b"of the next"
_KEYS = {api.name: key for key, api in APIS.items()}


class Step(NamedTuple):
    """A request that is held, and the intended end of its transaction."""

    api: str
    aborts: bool = False

    @property
    def name(self) -> str:
        return f"{self.api}{'-abort' if self.aborts else ''}"


STEPS = (
    Step("AddPartitionsToTxn"),
    Step("Produce"),
    Step("AddOffsetsToTxn"),
    Step("TxnOffsetCommit"),
    END := Step("EndTxn"),
    Step("EndTxn", aborts=True),
)
LOST, UNHEARD, LATE = FATES = ("lost", "unheard", "late")
CASES = tuple(itertools.product(STEPS, FATES))


class Gated(NamedTuple):
    """A broker behind a gate. `bootstrap` is the broker's own address; the broker advertises the gate."""

    gate: Gate
    bootstrap: str

    @property
    def client_bootstrap(self) -> str:
        return f"127.0.0.1:{self.gate.port}"


@contextlib.contextmanager
def gated(target: str, folder: Path) -> Iterator[Gated]:
    broker = BROKERS[target](folder, SINGLE_NODE)
    port = broker.port
    if not port:
        port = free_port()
        broker.properties["listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
    with Gate(port) as gate:
        broker.properties["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{gate.port}"
        with broker:
            yield Gated(gate, broker.bootstrap)


def execute(at: Gated, topic: str, step: Step, fate: str) -> None:
    """Runs a case with its own topic, group and transactional id, all of one name. Raises AssertionError for a violation."""
    make_topic(at.bootstrap, topic)
    hold = at.gate.hold(Hold(is_response=fate == UNHEARD, key=_KEYS[step.api]))
    _die_at(hold, at.client_bootstrap, topic, aborts=step.aborts)
    producer = Producer({**CLIENT, "bootstrap.servers": at.client_bootstrap, "transactional.id": topic})
    retried(lambda: producer.init_transactions(TIMEOUT_S))
    # After a commit decision nothing is lost; without one nothing is committed.
    left = Standing([VALUE], OFFSET) if step == END and fate == UNHEARD else Standing([], NO_OFFSET)
    assert (found := standing(at.bootstrap, topic)) == left, f"the dead one left {found}"
    producer.begin_transaction()
    producer.produce(topic, _SUCCESSOR, partition=0)
    assert producer.flush(_DEADLINE_S) == 0
    if fate == LATE:
        _deliver(hold.frame, at.bootstrap)
        assert _is_open(at.bootstrap, topic), "the dead one has ended its successor's transaction"
    join_offset(producer, at.client_bootstrap, topic, OFFSET + 1)
    retried(lambda: producer.commit_transaction(TIMEOUT_S))
    # The client gets its response at the decision, before the markers are written.
    eventually(lambda: not _is_open(at.bootstrap, topic), what="the successor's is ended", deadline_s=_DEADLINE_S)
    found = standing(at.bootstrap, topic)
    assert found == Standing([*left.values, _SUCCESSOR], OFFSET + 1), f"with its successor's it is {found}"


def _die_at(hold: Hold, bootstrap: str, topic: str, *, aborts: bool) -> None:
    command = [sys.executable, "-m", "compat_tests.exactly_once.dying_client", bootstrap, topic, "none"]
    command += ["--transaction-timeout-ms", str(_PATIENCE_MS), *(["--aborts"] if aborts else [])]
    client = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.DEVNULL)
    try:
        assert hold.came.wait(_DEADLINE_S), "the frame did not come to the gate"
        assert client.poll() is None, "it has ended by itself"
    finally:
        client.kill()
        client.wait()
        hold.lose()


def _deliver(frame: bytes, bootstrap: str) -> None:
    """Delivers a request of the dead client, which the broker must reject."""
    key, version = struct.unpack_from(">hh", frame)
    with WireClient(bootstrap) as client:
        client.send_bytes(struct.pack(">i", len(frame)) + frame)
        response = decoded_response(client.receive_frame(), key, version)
    assert any(_errors(response)), f"the dead one was answered {response}"


def _errors(response: Any) -> Iterator[int]:
    """Yields every error code in a response."""
    if isinstance(response, list):
        for one in response:
            yield from _errors(one)
    elif dataclasses.is_dataclass(response):
        for field in dataclasses.fields(response):
            value = getattr(response, field.name)
            yield from [value] if field.name.endswith("error_code") else _errors(value)


class Standing(NamedTuple):
    """The committed records, and the group's offset."""

    values: list[bytes]
    offset: int


def standing(bootstrap: str, topic: str) -> Standing:
    """Returns the committed result of the topic. No transaction may be open."""
    assert not _is_open(bootstrap, topic), "a transaction is still open"
    values = list(reference_log_of(bootstrap, topic, 0).committed.values())
    shown = list(read_all(bootstrap, topic, 1, READ_COMMITTED)[0].values())
    assert shown == values, f"read_committed was shown {shown}, committed is {values}"
    return Standing(values, committed(bootstrap, topic, topic))


def _is_open(bootstrap: str, topic: str) -> bool:
    reference = reference_log_of(bootstrap, topic, 0)
    return bool(reference.open) or last_stable_offset(bootstrap, topic, 0) < reference.end_offset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=BROKERS, default="odradek")
    parser.add_argument("--rounds", type=int, default=1, help="of each case (default: 1)")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="held-steps-") as name, gated(options.target, Path(name)) as at:
        for number, (step, fate) in itertools.product(range(options.rounds), CASES):
            execute(at, f"held-{step.name}-{fate}-{number}", step, fate)
            print(f"{step.name}, {fate}: whole or nothing", flush=True)


if __name__ == "__main__":
    main()
