"""Clients that are held to a quota, and one beside them that is not: how many bytes each gets."""
