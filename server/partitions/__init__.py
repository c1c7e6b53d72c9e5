"""Replicas that this broker hosts, and appends to them."""
