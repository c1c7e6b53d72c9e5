"""Prometheus metrics and their HTTP endpoint."""
