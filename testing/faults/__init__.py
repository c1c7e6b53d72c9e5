"""Scripted faults: errors, delays, lost connections and truncated responses for the requests that a test means."""

from .fault import Fault
from .faults import Faults

__all__ = ["Fault", "Faults"]
