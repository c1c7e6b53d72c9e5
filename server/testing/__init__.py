"""For people who test their own applications: the pytest plugin and its fixtures."""
