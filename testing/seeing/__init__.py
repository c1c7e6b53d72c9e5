"""What embedded brokers hold and were asked: records of topics, lags of groups, requests; and a report of a failing test."""
