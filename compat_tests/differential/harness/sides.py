"""The scenarios, the known differences, and one side of a comparison."""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from compat_tests.broker_process import BrokerProcess
from compat_tests.differential import known, scenarios
from compat_tests.differential.compare import Side, versions_of
from compat_tests.differential.runner import advertised, await_coordinators
from compat_tests.differential.scenario import Scenario

ALL: list[Scenario] = [
    one
    for module in iter_modules(scenarios.__path__)
    for one in import_module(f"{scenarios.__name__}.{module.name}").SCENARIOS
]


KNOWN = known.read()


@cache
def chosen_versions() -> dict[tuple[str, str], list[int]]:
    """Returns the versions of `make test` by API and name of a scenario: the lowest, the newest and one between them.

    The one between is that which the fewest scenarios of the API have. A scenario with a known difference has all of its
    versions, and the last ones of an API have those that are left.
    """
    used: Counter[tuple[str, int]] = Counter()
    chosen = {}
    for scenario in ALL:
        versions = versions_of(scenario)
        if not known.of(scenario, KNOWN):
            between = sorted(versions[1:-1], key=lambda version: used[scenario.api, version])
            versions = sorted({versions[0], *between[:1], versions[-1]})
        used.update((scenario.api, version) for version in versions)
        chosen[scenario.api, scenario.name] = versions
    for scenario in reversed(ALL):
        left = [version for version in versions_of(scenario) if not used[scenario.api, version]]
        used.update((scenario.api, version) for version in left)
        chosen[scenario.api, scenario.name] = sorted({*chosen[scenario.api, scenario.name], *left})
    return chosen


def side(name: str, broker: BrokerProcess) -> Side:
    await_coordinators(broker.bootstrap)
    return Side(name, broker.bootstrap, advertised(broker.bootstrap))
