"""Schemas other than requests and responses: records of internal topics and of the metadata log, files, embedded data."""
