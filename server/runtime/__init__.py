"""Timers, slices, counters and other small parts that every package above uses."""
