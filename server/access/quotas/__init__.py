"""Quotas of clients: sensors, throttle times, connection rates."""
