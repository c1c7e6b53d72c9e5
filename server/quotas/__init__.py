"""Client quotas: rates, throttle times, and the quota that applies to a client."""
