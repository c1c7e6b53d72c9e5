"""The scenarios, the known differences, and one side of a comparison."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from compat_tests.broker_process import BrokerProcess
from compat_tests.differential import known, scenarios
from compat_tests.differential.compare import Side
from compat_tests.differential.runner import advertised, await_coordinators
from compat_tests.differential.scenario import Scenario

ALL: list[Scenario] = [
    one
    for module in iter_modules(scenarios.__path__)
    for one in import_module(f"{scenarios.__name__}.{module.name}").SCENARIOS
]


KNOWN = known.read()


def side(name: str, broker: BrokerProcess) -> Side:
    await_coordinators(broker.bootstrap)
    return Side(name, broker.bootstrap, advertised(broker.bootstrap))
