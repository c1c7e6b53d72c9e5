"""Compaction: what it keeps of a log, and the exchange of segments."""
