"""Record batches and their records."""
