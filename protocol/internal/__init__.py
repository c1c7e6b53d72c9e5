"""Schemas other than requests and responses: headers, records of internal topics, files, embedded data."""
