"""Contents of embedded brokers for tests: records of topics, lags of groups, requests; and a report of a failing test."""
