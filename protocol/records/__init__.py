"""Record batches, and the records in them."""
