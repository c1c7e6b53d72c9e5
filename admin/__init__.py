"""One typed administrator of any Kafka cluster: lag, sizes, rates and states are computed here."""
