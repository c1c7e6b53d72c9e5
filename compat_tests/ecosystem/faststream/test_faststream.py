"""FastStream: a service (service.py) on aiokafka and on confluent-kafka, stopped and started again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import Running, python

SERVICE = Path(__file__).parent / "service.py"
FIRST, SECOND = 300, 200


@pytest.mark.parametrize("kind", ["aiokafka", "confluent"])
def test_a_service_resumes_after_a_restart(kind: str, bootstrap: str, topic: str, group: str, tmp_path: Path) -> None:
    topic, group = topic[:60], group[:60]
    for name in (topic, f"{topic}-out", f"{topic}-batches"):
        reference_client.create(bootstrap, name, 2)
    command = [python("faststream"), str(SERVICE), kind, bootstrap, topic, group]
    for numbers in (range(FIRST), range(FIRST, FIRST + SECOND)):
        reference_client.produce(bootstrap, topic, (str(number) for number in numbers))
        with Running(command, tmp_path / "service.log") as service:
            total = numbers.stop
            service.wait_for(
                lambda total=total: len(reference_client.records(bootstrap, f"{topic}-out")) >= total, "output"
            )
            service.wait_for(lambda total=total: len(batched(bootstrap, topic)) >= total, "batches")
            service.stop()
            reference_client.await_committed(bootstrap, group, total)
    found = [json.loads(value) for value in reference_client.values(bootstrap, f"{topic}-out")]
    assert sorted(one["number"] for one in found) == list(range(FIRST + SECOND))
    assert all(one["double"] == 2 * one["number"] for one in found)
    assert sorted(batched(bootstrap, topic)) == list(range(FIRST + SECOND))


def batched(bootstrap: str, topic: str) -> list[int]:
    return [number for value in reference_client.values(bootstrap, f"{topic}-batches") for number in json.loads(value)]
