"""Decisions on users, tokens, access rules and quotas."""
