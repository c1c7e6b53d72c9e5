"""Listeners and connections: frames in, responses out."""
