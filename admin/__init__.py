"""One typed administrator of any Kafka cluster: lag, sizes, rates, states and plans are computed here."""
