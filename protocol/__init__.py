"""Bytes to messages and back: the Kafka protocol, for every version of every API. Imports no other room."""
