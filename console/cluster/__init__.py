"""The cluster as the console sees it: the read model, and questions and changes that go to the brokers."""
