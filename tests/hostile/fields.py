"""Sends every API in every version with every field at its edges, over sockets, to every kind of listener.

    python -m tests.hostile.fields --seed 7 --minutes 30 --nodes 3

A node answers each frame or closes its connection within a deadline. No node logs a bug or ends. Afterwards every node
serves: it creates topics, produces and fetches records, and the quorum commits.

A round changes each field alone, to some of its edges that the seed chooses, and then pairs of fields. Requests that
brokers forward to the controller also go to it in an Envelope. Without a time limit a round covers all edges.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import random
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from odradek.protocol.apis import APIS, Api
from odradek.protocol.codec import decode
from odradek.protocol.headers import ResponseHeader
from odradek.protocol.tree import construct_tree
from odradek.server.endpoints import endpoint_of

from tests.hostile.attack_target import AttackTarget
from tests.hostile.fields_checks import bugs, check_serves, look_at, put_voters_in_the_log
from tests.hostile.fields_edges import LONGEST, Edge, Place, changed, edges, places, value_at
from tests.hostile.fields_encoding import CLIENT_ID, frame_of
from tests.hostile.fields_world import WAITING, World, apis_of, base_request, is_destructive, versions

#: The longest wait for a response on a busy machine. Requests with a wait time of their own are not awaited.
DEADLINE_S = 60
#: The longest wait time in a request that is still awaited.
PATIENCE_MS = 2_000
CONNECTIONS_PER_LISTENER = 4
#: Cases between two checks of the nodes.
CASES_PER_LOOK = 400
MOST_RESPONSE_BYTES = 256 << 20
_ENVELOPE = 58
_CLIENT_IDS = (None, "", "y" * LONGEST)


class Case(NamedTuple):
    """A request and the change in it."""

    api: Api
    version: int
    changes: tuple[tuple[Place, Edge], ...]
    enveloped: bool = False
    lean: bool = False
    client_id: str | None = CLIENT_ID

    def __str__(self) -> str:
        what = "lean; " * self.lean + ", ".join(
            f"{'.'.join(map(str, place.path))}: {edge.name}" for place, edge in self.changes
        )
        return f"{self.api.name} v{self.version}{' in an Envelope' if self.enveloped else ''} ({what})"

    def request(self, world: World, number: int) -> Any:
        request = base_request(self.api, self.version, world, lean=self.lean)
        if self.api.name == "JoinGroup":
            request.group_id = f"fields-group-{number}"  # members of one group would wait for each other
        for place, edge in self.changes:
            if isinstance(edge.value, dict):
                holder = value_at(request, place.path)
                if hasattr(holder, "unknown_tags"):
                    holder.unknown_tags = edge.value
            else:
                request = changed(request, place.path, edge.value)
        return request


def cases(listener: str, rng: random.Random, edges_of_each: int | None, pairs: float, world: World) -> Iterator[Case]:
    """Yields cases. `edges_of_each`: edges per field; None for all. `pairs`: pairs with another field, per field."""
    for enveloped in (False, True) if listener == "controller" else (False,):
        for api in apis_of(listener):
            if enveloped and not _goes_in_envelope(api):
                continue
            for version in versions(api):
                base = base_request(api, version, world)
                found = list(places(construct_tree(api.request, version)))
                yield Case(api, version, (), enveloped)
                yield Case(api, version, (), enveloped, lean=True)
                yield Case(api, version, (), enveloped, lean=True, client_id=rng.choice(_CLIENT_IDS))
                for place in found:
                    known = edges(place.codec, value_at(base, place.path))
                    chosen = known if edges_of_each is None else rng.sample(known, min(edges_of_each, len(known)))
                    yield from (Case(api, version, ((place, edge),), enveloped, rng.random() < 0.5) for edge in chosen)
                for _ in range(int(pairs * len(found) + rng.random()) if found else 0):
                    changes = [_change(rng, place, base) for place in rng.sample(found, min(len(found), 2))]
                    kept = tuple(change for change in changes if change is not None)
                    yield Case(api, version, kept, enveloped, rng.random() < 0.5)


def _change(rng: random.Random, place: Place, base: Any) -> tuple[Place, Edge] | None:
    known = edges(place.codec, value_at(base, place.path))
    return (place, rng.choice(known)) if known else None


def _goes_in_envelope(api: Api) -> bool:
    return "broker" in api.listeners and endpoint_of(api).place.is_enveloped


def waits(api: Api, request: Any) -> bool:
    return any(not isinstance(getattr(request, name, 0), int) or getattr(request, name, 0) > PATIENCE_MS
               for name in WAITING.get(api.name, ()))  # fmt: skip


@dataclasses.dataclass
class Result:
    sent: int = 0
    faults: list[str] = dataclasses.field(default_factory=list)
    #: By API: frames whose connection the node closed, and frames whose response was not awaited.
    closed: Counter[str] = dataclasses.field(default_factory=Counter)
    left: Counter[str] = dataclasses.field(default_factory=Counter)
    #: The slowest responses.
    slow: list[tuple[float, str]] = dataclasses.field(default_factory=list)


class Attacker:
    """Sends cases to one address, one at a time, over a connection that it opens again after it was closed."""

    def __init__(self, address: str, world: World, result: Result) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._world = world
        self._result = result
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, case: Case, number: int) -> None:
        request = case.request(self._world, number)
        if is_destructive(case.api, request, self._world):
            return
        api, version = case.api, case.version
        if case.enveloped:
            inner = frame_of(api, version, request, number, case.client_id)[4:]
            api, version = APIS[_ENVELOPE], 0
            request = base_request(api, version, self._world)
            request.request_data = inner
        self._result.sent += 1
        began = time.monotonic()
        try:
            frame = frame_of(api, version, request, number, case.client_id)
            response = await asyncio.wait_for(self._exchange(api, request, frame), DEADLINE_S)
        except (OSError, EOFError):
            self._result.closed[case.api.name] += 1
            self.close()
            return
        except TimeoutError:
            self._result.faults.append(f"no response in {DEADLINE_S} s: {case}")
            self.close()
            return
        took = time.monotonic() - began
        if took > 1:
            self._result.slow.append((took, str(case)))
        if response is not None and not case.enveloped:
            self._check(case, response, number)

    async def _exchange(self, api: Api, request: Any, frame: bytes) -> bytes | None:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, limit=1 << 20)
        reader, writer = self._streams
        writer.write(frame)
        await writer.drain()
        if waits(api, request):
            self._result.left[api.name] += 1
            self.close()
            return None
        if api.name == "Produce" and request.acks == 0:
            return None
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        assert 4 <= size <= MOST_RESPONSE_BYTES, f"a response of {size} bytes"
        return await reader.readexactly(size)

    def _check(self, case: Case, response: bytes, number: int) -> None:
        api, version = case.api, case.version
        try:
            header, position = decode(ResponseHeader, api.response_header_version(version), response)
            assert header.correlation_id == number, f"correlation id {header.correlation_id} in place of {number}"
            _, end = decode(api.response, version, response, position)
            assert end == len(response), f"{len(response) - end} bytes after the response"
        except (ValueError, AssertionError) as error:
            self._result.faults.append(f"{case}: the response is no response: {error}")
            self.close()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def send_all(targets: Iterable[tuple[str, Iterator[Case]]], world: World, result: Result, until: float) -> int:
    """Sends up to CASES_PER_LOOK cases to each address. Returns the number sent, 0 when none are left."""
    numbers = iter(range(1, 1 << 31))
    sent = 0

    async def work(attacker: Attacker, cases: Iterator[Case]) -> None:
        nonlocal sent
        while budget[id(cases)] > 0 and time.monotonic() < until and (case := next(cases, None)) is not None:
            budget[id(cases)] -= 1
            sent += 1
            await attacker.send(case, next(numbers))

    budget, workers = {}, []
    for address, of_address in targets:
        budget[id(of_address)] = CASES_PER_LOOK
        for _ in range(CONNECTIONS_PER_LISTENER):
            attacker = Attacker(address, world, result)
            workers.append((attacker, work(attacker, of_address)))
    try:
        await asyncio.gather(*(task for _, task in workers))
    finally:
        for attacker, _ in workers:
            attacker.close()
    return sent


def attack(
    room: AttackTarget,
    seed: int,
    *,
    edges_of_each: int | None,
    pairs: float,
    step: int = 1,
    until: float = float("inf"),
) -> Result:
    """Runs a round: the addresses of a kind share the cases of that kind of listener.

    `step`: sends only every step-th case. Cases are in order of API and version, so each of these stays.
    """
    result, rng = Result(), random.Random(seed)
    world = look_at(room)
    kinds = [("broker", room.addresses), ("controller", room.controllers)]
    targets = []
    for kind, addresses in kinds:
        found = list(cases(kind, rng, edges_of_each, pairs, world))[seed % step :: step]
        rng.shuffle(found)
        targets += [(address, iter(found[number :: len(addresses)])) for number, address in enumerate(addresses)]
    while asyncio.run(send_all(targets, world, result, until)):
        if not all(node.is_running for node in room.nodes):
            return dataclasses.replace(result, faults=[*result.faults, *room.faults()])
    result.faults += check_serves(room)
    result.faults += bugs(room).values()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--edges", type=int, help="of each field; all when not given")
    parser.add_argument("--pairs", type=float, default=2, help="of each field with another")
    chosen = parser.parse_args()
    until = time.monotonic() + chosen.minutes * 60
    seed, reported = chosen.seed, set[str]()
    with tempfile.TemporaryDirectory() as folder, AttackTarget(Path(folder), chosen.nodes) as room:
        if chosen.nodes > 1:
            put_voters_in_the_log(room)
        while time.monotonic() < until:
            result = attack(room, seed, edges_of_each=chosen.edges, pairs=chosen.pairs, until=until)
            print(f"seed {seed}: {result.sent} requests, {sum(result.closed.values())} closed, {len(result.slow)} slow")
            for took, case in sorted(result.slow, reverse=True)[:20]:
                print(f"  {took:.1f} s: {case[:300]}")
            print(f"  closed: {dict(result.closed.most_common())}", flush=True)
            for fault in result.faults:
                if fault not in reported:
                    print(fault, flush=True)
            reported.update(result.faults)
            if not all(node.is_running for node in room.nodes):
                break
            seed += 1
    return 1 if reported else 0


if __name__ == "__main__":
    sys.exit(main())
