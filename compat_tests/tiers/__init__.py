"""Tiered storage end to end: real processes, real clients, a folder as the store."""
