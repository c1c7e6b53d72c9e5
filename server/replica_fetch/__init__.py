"""Replication: fetchers of followers, ISR changes, throttles."""
