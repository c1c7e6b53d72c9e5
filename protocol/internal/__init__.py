"""Schemas that no client sends as a request: headers, records of internal topics, files, embedded data."""
