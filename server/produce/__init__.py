"""Produce requests that wait, are refused, or belong to transactions."""
