"""Tails of latency beside other work of the same broker: `python -m benchmarks.tails`."""
