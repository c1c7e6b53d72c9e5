"""Parts that all coordinators share: results, timers, record frames."""
