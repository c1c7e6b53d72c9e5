"""A schema registry for tests: a subset of Confluent's REST interface, in memory.

Not there: contexts, rules and metadata of schemas, exporters, keys of encryption, and `normalize`.
"""
