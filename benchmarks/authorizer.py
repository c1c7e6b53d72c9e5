"""Cost of a decision of the authorizer with 100,000 access rules: `python benchmarks/authorizer.py`.

The targets are 2 us for a cached decision of a connection, 20 us for a new decision, and 100 MB for the rules in the image
and in the index.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import tracemalloc
from types import SimpleNamespace
from typing import Any

from odradek.metadata.acls import Operation, PatternType, Permission, ResourceType
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.protocol.internal.cluster_metadata import AccessControlEntryRecord
from odradek.server.access.audit import AuditLog
from odradek.server.access.authorization.authorization import STANDARD_CLASS, Authorization
from odradek.server.runtime.clock import Clock

KEPT_US, NEW_US, MEMORY_MB = 2.0, 20.0, 100.0
_USERS, _TEAMS, _DECISIONS = 1000, 100, 20_000


def rule(rng: random.Random, number: int) -> AccessControlEntryRecord:
    """Returns a rule as in a large cluster: a third of the patterns are prefixes, a tenth of the rules deny."""
    is_prefix = rng.random() < 0.3
    name = f"team-{rng.randrange(_TEAMS)}-topic-{number}"
    return AccessControlEntryRecord(
        id=rng.randbytes(16),
        resource_type=rng.choice((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)),
        resource_name=name[: rng.randrange(8, 30)] if is_prefix else name,
        pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        principal=f"User:u{rng.randrange(_USERS)}",
        host="*",
        operation=rng.choice((Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE)),
        permission_type=Permission.DENY if rng.random() < 0.1 else Permission.ALLOW,
    )


def image_of(rng: random.Random, count: int) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for number in range(count):
        delta.replay(rule(rng, number))
    return delta.apply(count, 0, 0)


def timed(session: Any, names: list[str]) -> list[float]:
    """Returns the time of each decision in microseconds."""
    times = []
    for name in names:
        began = time.perf_counter()
        session.allows(Operation.READ, ResourceType.TOPIC, name, log_denied=False)
        times.append((time.perf_counter() - began) * 1e6)
    return times


def line(what: str, value: float, unit: str, target: float) -> str:
    return f"{what:<42} {value:8.2f} {unit:<3} target <= {target:g}: {'met' if value <= target else 'missed'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=int, default=100_000)
    count, rng = parser.parse_args().rules, random.Random(1)
    tracemalloc.start()
    image = image_of(rng, count)
    authorization = Authorization({"authorizer.class.name": STANDARD_CLASS}, AuditLog(Clock()))
    for _ in authorization.steps({}, dict(image.acls.items()), is_first=True):
        pass
    memory_mb = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    names = [f"team-{rng.randrange(_TEAMS)}-topic-{rng.randrange(count)}" for _ in range(_DECISIONS)]
    new: list[float] = []
    for user in range(20):
        session = authorization.session_of(f"User:u{user}", "/10.0.0.1")
        new += timed(session, names[user::20])
    session = authorization.session_of("User:u1", "/10.0.0.1")
    few = names[:100]
    timed(session, few)
    kept = timed(session, few * 200)
    call: Any = SimpleNamespace(
        api=SimpleNamespace(name="Produce"),
        connection=SimpleNamespace(authorization=None, principal="User:u1", client_host="/10.0.0.1"),
        principal="User:u1",
        client_host="/10.0.0.1",
    )
    began = time.perf_counter()
    for _ in range(_DECISIONS):
        authorization.session(call)
    finding = (time.perf_counter() - began) / _DECISIONS * 1e6
    print(f"{count} rules")
    print(line("decision kept by the connection, median", statistics.median(kept), "us", KEPT_US))
    print(line("the session of a request, mean", finding, "us", KEPT_US))
    print(line("decision made anew, median", statistics.median(new), "us", NEW_US))
    print(line("decision made anew, 99 %", statistics.quantiles(new, n=100)[-1], "us", NEW_US))
    print(line("memory of image and index", memory_mb, "MB", MEMORY_MB))


if __name__ == "__main__":
    main()
