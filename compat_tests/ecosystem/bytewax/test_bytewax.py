"""Bytewax: a stateful dataflow (flow.py) from topic to topic, continued from its recovery store."""

from __future__ import annotations

from pathlib import Path

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import python, run

FLOW = Path(__file__).parent / "flow.py"
KEYS = [f"key-{number}" for number in range(7)]
ROUND = 500


def test_a_dataflow_continues_from_its_recovery_store(bootstrap: str, topic: str, tmp_path: Path) -> None:
    topic = topic[:60]
    for name in (topic, f"{topic}-sums"):
        reference_client.create(bootstrap, name, 3)
    store = tmp_path / "store"
    store.mkdir()
    run([python("bytewax"), "-m", "bytewax.recovery", str(store), "1"])
    for part in (0, 1):
        numbers = range(part * ROUND, (part + 1) * ROUND)
        reference_client.produce(bootstrap, topic, map(str, numbers), [KEYS[number % len(KEYS)] for number in numbers])
        # A snapshot at each epoch; without a backup interval an epoch is deleted once a newer one is complete.
        command = [python("bytewax"), "-m", "bytewax.run", str(FLOW), "-r", str(store), "-s", "0", "-b", "0"]
        run(command, env={"BOOTSTRAP": bootstrap, "TOPIC": topic})
    found = sorted((one.key, int(one.value or 0)) for one in reference_client.records(bootstrap, f"{topic}-sums"))
    wanted, totals = [], dict.fromkeys(KEYS, 0)
    for number in range(2 * ROUND):
        key = KEYS[number % len(KEYS)]
        totals[key] += number
        wanted.append((key, totals[key]))
    assert found == sorted(wanted)
