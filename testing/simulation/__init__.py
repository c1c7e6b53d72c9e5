"""Brokers and asyncio clients in simulated time, over a simulated network: hours of timeouts in milliseconds.

    with Simulation(seed=7) as simulation:
        simulation.run(scenario(simulation))

`scenario` is a coroutine that may start brokers by `simulation.node(...)` and use any asyncio client, such as aiokafka,
unchanged. The seed decides how long each delivery and each disk operation takes, and what any code draws from `random`
and `uuid`. The same seed and code give the same run. The test decides which faults to inject: cut links, reset
connections, crash nodes.
"""

from ...coordinator.groups import all_kinds  # noqa: F401 - a node would import them on a thread
from ...server.endpoints import load_all
from .loop import Deadlock, VirtualLoop
from .network import ConnectionRefused, SimulatedNetwork
from .world import Node, Process, Simulation

__all__ = ["Deadlock", "SimulatedNetwork", "Node", "Process", "ConnectionRefused", "Simulation", "VirtualLoop"]

load_all()
