"""`odradek config`: configs of topics, brokers, groups and client metrics."""
