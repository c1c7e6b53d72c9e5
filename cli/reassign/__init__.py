"""Moves of replicas between brokers: plans, and their run."""
