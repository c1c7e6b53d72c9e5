"""`odradek doctor`: checks of a data directory, of settings, and of a running cluster."""
