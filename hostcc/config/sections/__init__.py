"""The sections of the configuration, by mechanism: every knob, its type, bounds, default, unit."""
