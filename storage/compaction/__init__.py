"""Compaction of logs: the cleaner's job, and which part of a batch is retained."""
