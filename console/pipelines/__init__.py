"""Mirrors, tiered topics, archives and queries of Spark: how far each is, with its lag."""
