"""Share groups: partitions, sessions, acknowledgements, dead-letter queues."""
