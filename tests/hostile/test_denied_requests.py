"""A client that repeats denied requests: the denials do not delay a served client and take no memory of the broker.

`test_access_bypass.py` tests each attempt alone.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from odradek.client.sasl import PasswordLogin
from odradek.server.runtime.turn_budget import TURN_BUDGET_S

from compat_tests.access import log_in
from compat_tests.authorization.probes import ON_GROUPS, ON_TOPICS, ON_TRANSACTIONAL_IDS, Probe, Target
from compat_tests.broker_process import free_port
from compat_tests.differential.runner import BY_NAME, build
from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient
from tests.hostile.harness.error_codes import DENIED, HIDDEN, REFUSED, USERS, codes_of
from tests.hostile.harness.loop_work import least_p99_work_s, p99_work_s

pytestmark = pytest.mark.usefixtures("processes")

#: Names per kind of resource; a broker keeps at most 4,096 events of its audit log, of some 500 bytes each.
NAMES = 5000
MOST_GROWTH_BYTES = 30 << 20
DEADLINE_S = 60
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Guarded(OdradekProcess):
    """A broker that denies everything except to `admin`, and logs each denial."""

    def __init__(self, directory: Path) -> None:
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        super().__init__(
            directory,
            {
                "listeners": f"SASL_PLAINTEXT://127.0.0.1:{free_port()}",
                "security.inter.broker.protocol": "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{LOGIN} {users};",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:admin",
            },
        )

    def command(self) -> list[str]:
        return [*super().command(), "-v"]

    def client(self, user: str) -> WireClient:
        made = WireClient(self.bootstrap, client_id=user)
        log_in(made, PasswordLogin("PLAIN", user, USERS[user]))
        return made


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Guarded]:
    with Guarded(tmp_path) as running:
        assert isinstance(running, Guarded)
        yield running


def ask(client: WireClient, probe: Probe, number: int) -> set[int]:
    name = f"theirs-{number % NAMES}"
    api = BY_NAME[probe.api]
    request = build(api.request, probe.fields(Target(name, number.to_bytes(16, "big"), name, name)))
    return codes_of(client.call(request, api.versions.high if probe.version is None else probe.version))


def test_denials_leave_a_good_client_its_latency_and_the_broker_its_memory(broker: Guarded) -> None:
    process = psutil.Process(broker.pid)
    is_over = threading.Event()
    let_in: list[tuple[Probe, set[int]]] = []
    numbers = itertools.count(1)

    def attack_until_over() -> None:
        with broker.client("mallory") as client:
            for probe in itertools.cycle((*ON_TOPICS, *ON_GROUPS, *ON_TRANSACTIONAL_IDS)):
                if is_over.is_set():
                    return
                codes = ask(client, probe, next(numbers))
                if not codes & (DENIED | HIDDEN | REFUSED):
                    let_in.append((probe, codes))

    with broker.client("admin") as client:
        before_s, memory = p99_work_s(client, broker.pid), process.memory_info().rss
        attacker = threading.Thread(target=attack_until_over, daemon=True)
        attacker.start()
        try:
            during_s = least_p99_work_s(client, broker.pid, TURN_BUDGET_S)
        finally:
            is_over.set()
        attacker.join(DEADLINE_S)
        assert not attacker.is_alive()
    print(f"p99 {before_s * 1000:.2f} ms, {during_s * 1000:.2f} beside {next(numbers)} denials")
    assert not let_in
    assert process.memory_info().rss - memory < MOST_GROWTH_BYTES
    assert during_s < TURN_BUDGET_S, (before_s, during_s)
    assert "Principal = User:mallory is Denied" in broker.log_file.read_text()
