"""The test kit, for people who test their own applications: brokers in their process, the pytest plugin, simulated time.

`odradek.Broker` is `broker.py`. docs/testing.md is the guide, docs/development/testing.md the design.
"""
