"""Which path every flow takes: exact where that is known, by local search elsewhere."""
