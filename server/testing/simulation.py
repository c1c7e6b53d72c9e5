"""Former place of `odradek.testing.simulation`."""

import sys
from importlib import import_module

# By name: the server imports nothing that stands above it.
sys.modules[__name__] = import_module("...testing.simulation", __package__)
