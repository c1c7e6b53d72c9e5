"""Faust: an agent that counts in a table (counter.py), stopped, started, killed and recovered from its changelog."""

from __future__ import annotations

from pathlib import Path

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import Running, python

PROGRAM = Path(__file__).parent / "counter.py"
WORDS = ("ant", "bee", "cat", "dog", "elk")
ROUND = 200


def highest(bootstrap: str, topic: str) -> dict[str, int]:
    """Returns the highest count of each word."""
    found: dict[str, int] = {}
    for one in reference_client.records(bootstrap, topic):
        assert one.key is not None and one.value is not None
        found[one.key] = max(found.get(one.key, 0), int(one.value))
    return found


def test_a_table_is_recovered_after_a_stop(bootstrap: str, topic: str, tmp_path: Path) -> None:
    topic = topic[:60]
    for name in (topic, f"{topic}-counts"):
        reference_client.create(bootstrap, name, 2)
    for number in (1, 2):
        reference_client.produce(bootstrap, topic, list(WORDS) * ROUND, list(WORDS) * ROUND)
        # The table is in memory and the directory is new each time, so all state comes from the changelog.
        data = tmp_path / f"data-{number}"
        environment = {"BOOTSTRAP": bootstrap, "TOPIC": topic, "DATA": str(data)}
        command = [python("faust"), str(PROGRAM), "worker", "--loglevel", "info"]
        with Running(command, tmp_path / "faust.log", env=environment) as worker:
            wanted = dict.fromkeys(WORDS, ROUND * number)
            worker.wait_for(lambda wanted=wanted: highest(bootstrap, f"{topic}-counts") == wanted, f"counts {wanted}")
            worker.stop()
        reference_client.await_committed(bootstrap, topic, ROUND * len(WORDS) * number)
    counts = [(one.key, int(one.value or 0)) for one in reference_client.records(bootstrap, f"{topic}-counts")]
    assert sorted(counts) == sorted((word, number + 1) for word in WORDS for number in range(2 * ROUND))
    changelog = reference_client.records(bootstrap, f"{topic}-counts-changelog")
    assert len(changelog) == len(counts)


def test_a_killed_worker_loses_no_count(bootstrap: str, topic: str, tmp_path: Path) -> None:
    topic = topic[:60]
    for name in (topic, f"{topic}-counts"):
        reference_client.create(bootstrap, name, 2)
    environment = {"BOOTSTRAP": bootstrap, "TOPIC": topic, "DATA": str(tmp_path / "data")}
    command = [python("faust"), str(PROGRAM), "worker", "--loglevel", "info"]
    reference_client.produce(bootstrap, topic, list(WORDS) * ROUND, list(WORDS) * ROUND)
    with Running(command, tmp_path / "faust.log", env=environment) as worker:
        worker.wait_for(lambda: len(reference_client.records(bootstrap, f"{topic}-counts")) > ROUND, "the first counts")
        worker.kill()
    with Running(command, tmp_path / "faust.log", env=environment) as worker:
        # Faust is at-least-once here: words since the last commit are counted again, none is lost.
        worker.wait_for(
            lambda: all(highest(bootstrap, f"{topic}-counts").get(word, 0) >= ROUND for word in WORDS), "all counts"
        )
        reference_client.await_committed(bootstrap, topic, ROUND * len(WORDS))
