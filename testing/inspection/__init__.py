"""Brokers as a test sees them: topics, groups, requests, and the report of a failing test."""
