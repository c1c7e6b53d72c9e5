"""Configuration of a broker: files, listeners, providers of secrets, topic settings."""
