"""Retention, compaction and moves of logs between directories."""
