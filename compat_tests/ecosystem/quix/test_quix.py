"""Quix Streams: sums with state, exactly once (program.py), run twice; the second run has an empty state directory."""

from __future__ import annotations

import json
from pathlib import Path

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import python, run

PROGRAM = Path(__file__).parent / "program.py"
KEYS = [f"key-{number}" for number in range(10)]
ROUND = 500


def test_state_is_recovered_and_output_is_exactly_once(bootstrap: str, topic: str, group: str, tmp_path: Path) -> None:
    topic, group = topic[:50], group[:50]
    for name in (topic, f"{topic}-sums", f"{topic}-windows"):
        reference_client.create(bootstrap, name, 2)
    for part in (0, 1):
        numbers = range(part * ROUND, (part + 1) * ROUND)
        values = [json.dumps({"number": number, "amount": number}) for number in numbers]
        reference_client.produce(bootstrap, topic, values, [KEYS[number % len(KEYS)] for number in numbers])
        run([python("quix"), str(PROGRAM), bootstrap, topic, group, str(tmp_path / f"state-{part}")])
        assert sum(reference_client.committed(bootstrap, group).values()) >= numbers.stop
    found = [(one.key, json.loads(one.value or "")) for one in reference_client.records(bootstrap, f"{topic}-sums")]
    wanted, totals = [], dict.fromkeys(KEYS, 0)
    for number in range(2 * ROUND):
        key = KEYS[number % len(KEYS)]
        totals[key] += number
        wanted.append((key, {"total": totals[key], "number": number}))
    assert sorted(found, key=lambda one: one[1]["number"]) == wanted
    windows: dict[tuple[str | None, int], int] = {}
    for one in reference_client.records(bootstrap, f"{topic}-windows"):
        about = json.loads(one.value or "")
        windows[one.key, about["start"]] = max(about["value"], windows.get((one.key, about["start"]), 0))
    assert sum(windows.values()) == sum(range(2 * ROUND))
    changelogs = {
        name for name in reference_client.topics(bootstrap) if name.startswith(f"changelog__{group}--{topic}")
    }
    assert len(changelogs) == 2
