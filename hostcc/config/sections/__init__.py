"""Sections of the configuration by mechanism: every key with type, bounds, default and unit."""
