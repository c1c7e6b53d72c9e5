"""Flink's Kafka connector: a job with state (ExactlyOnceJob.java), exactly once through a failure, resumed by its group."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import java, run

COUNT = 6000
#: Flink reflects into the JDK.
OPENS = ("--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED")


def job(bootstrap: str, topic: str, group: str, fail_after: int, mark: Path) -> None:
    words = ("ExactlyOnceJob", bootstrap, topic, group, str(fail_after), str(mark))
    run(java("flink", *words, jvm=(*OPENS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")), timeout=240)


@pytest.mark.timeout(600)
def test_sums_are_exact_through_a_failure_of_the_job(bootstrap: str, topic: str, group: str, tmp_path: Path) -> None:
    topic, group, mark = topic[:60], group[:60], tmp_path / "failed"
    reference_client.create(bootstrap, topic, 2)
    reference_client.create(bootstrap, f"{topic}-sums", 2)
    reference_client.produce(bootstrap, topic, map(str, range(COUNT)))
    job(bootstrap, topic, group, COUNT // 3, mark)
    assert mark.exists(), "the job did not fail on its way"
    found = reference_client.values(bootstrap, f"{topic}-sums")
    numbers = [int(value.split(":")[0]) for value in found]
    assert sorted(numbers) == list(range(COUNT))
    for digit in range(10):
        last = max(int(value.split(":")[1]) for value in found if int(value.split(":")[0]) % 10 == digit)
        assert last == sum(range(digit, COUNT, 10))


@pytest.mark.timeout(600)
def test_a_second_job_goes_on_at_the_committed_offsets(bootstrap: str, topic: str, group: str, tmp_path: Path) -> None:
    topic, group = topic[:60], group[:60]
    reference_client.create(bootstrap, topic, 2)
    reference_client.create(bootstrap, f"{topic}-sums", 2)
    first, second = range(1000), range(1000, 1500)
    reference_client.produce(bootstrap, topic, map(str, first))
    job(bootstrap, topic, group, 0, tmp_path / "none")
    # A job ends without a wait for its last commit, so records after the last completed commit are read again.
    committed = sum(reference_client.await_committed(bootstrap, group, 1).values())
    reference_client.produce(bootstrap, topic, map(str, second))
    job(bootstrap, topic, group, 0, tmp_path / "none")
    written = [int(value.split(":")[0]) for value in reference_client.values(bootstrap, f"{topic}-sums")]
    assert set(written) == {*first, *second}
    assert len(written) == second.stop + (first.stop - committed)
