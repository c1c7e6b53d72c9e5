"""Runs a scenario in every version against two brokers at once, and reports where their responses differ."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from odradek.protocol.schema import Versions

from .runner import BY_NAME, Reported, Runner
from .scenario import Scenario

_MISSING = "(absent)"


@dataclass(frozen=True)
class Side:
    """A broker in a comparison: its name in the report, its address and the versions that it offers."""

    name: str
    bootstrap: str
    offers: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Difference:
    version: int
    step: str
    path: str
    theirs: object
    ours: object

    def __str__(self) -> str:
        return f"v{self.version} | {self.step} | {self.path}: {self.theirs!r} but {self.ours!r}"


@dataclass
class Comparison:
    """The outcome for one scenario: the versions that ran, and the differences between the responses."""

    executed: list[int] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)


def versions_of(scenario: Scenario) -> list[int]:
    """Returns the versions to run: stable ones of the scenario's API, in the scenario's range."""
    api = BY_NAME[scenario.api]
    wanted = Versions.parse(scenario.versions)
    return [version for version in range(api.versions.low, api.latest_stable_version + 1) if version in wanted]


def offers(side: Side, api: str, version: int) -> bool:
    low, high = side.offers.get(api, (1, 0))
    return low <= version <= high


def helper_versions(*sides: Side) -> dict[str, int]:
    """Returns for each API the highest version that all sides have."""
    shared = set.intersection(*(set(side.offers) for side in sides))
    return {name: min(side.offers[name][1] for side in sides) for name in shared}


def compare(
    scenario: Scenario,
    oracle: Side,
    ours: Side,
    started_ms: int,
    *,
    versions: Iterable[int] | None = None,
    mark: str = "",
) -> Comparison:
    """Runs the scenario in `versions` (by default all), as far as the oracle offers them.

    `mark` goes into the names of topics and groups, so that a scenario can run again on the same broker.
    """
    done = Comparison()
    helpers = helper_versions(oracle, ours)
    wanted = versions_of(scenario) if versions is None else sorted(versions)
    with ThreadPoolExecutor(2) as threads:
        for version in wanted:
            if not offers(oracle, scenario.api, version):
                continue
            run = f"{_slug(scenario.name)[:80]}{mark}-v{version}"
            runners = [
                Runner(side.bootstrap, scenario, version, helpers=helpers, run=run, started_ms=started_ms)
                for side in (oracle, ours)
            ]
            theirs, own = threads.map(Runner.execute, runners)
            done.executed.append(version)
            done.differences += _differences(version, theirs, own)
    return done


def _slug(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", text).strip("-").lower()


def _differences(version: int, theirs: list[Reported], ours: list[Reported]) -> list[Difference]:
    found = []
    for their, our in zip(theirs, ours, strict=True):
        for path in sorted(their.response.keys() | our.response.keys()):
            pair = their.response.get(path, _MISSING), our.response.get(path, _MISSING)
            if pair[0] != pair[1]:
                found.append(Difference(version, their.step, path, *pair))
    return found
