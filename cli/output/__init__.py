"""Results of commands: tables for people, JSON, CSV and plain text for programs, progress on standard error."""
