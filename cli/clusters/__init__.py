"""`odradek cluster describe|quorum|features|log-dirs`: a running cluster, seen through the protocol."""
