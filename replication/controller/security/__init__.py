"""Decisions on users, tokens and rules of access."""
