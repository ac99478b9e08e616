"""Chooses a path for every flow: exactly where possible, by local search elsewhere."""
