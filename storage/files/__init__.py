"""Files of a log directory: opening, locking, and the small ones beside the logs."""
