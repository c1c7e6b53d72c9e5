"""Scripted faults: errors, delays, lost connections and truncated responses for the requests that a test means."""

from .faults import Fault, Faults

__all__ = ["Fault", "Faults"]
