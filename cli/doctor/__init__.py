"""`odradek doctor`: checks a data directory or a running cluster, and recommends what to do."""
