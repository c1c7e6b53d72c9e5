"""Fetch requests of consumers and followers, and their sessions."""
