"""Requests to other nodes."""
