"""Encoding and decoding of the Kafka protocol, for every version of every API. Imports no other package of Odradek."""
