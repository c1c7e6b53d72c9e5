"""Records as users read and write them: formats of keys and values, filters, selections, and reading by confluent-kafka."""
