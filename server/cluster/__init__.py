"""Membership: registration, heartbeats, broker sessions, requests to the active controller."""
