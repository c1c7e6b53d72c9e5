"""`odradek doctor`: checks a data directory or a running cluster, and says what to do."""
