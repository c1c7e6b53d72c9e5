"""The pytest plugin and its fixtures, for users who test their own applications."""
