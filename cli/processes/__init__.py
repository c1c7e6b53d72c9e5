"""`odradek start --processes N`: the brokers and the controller of one machine as one service."""
