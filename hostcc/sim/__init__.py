"""The event-driven cluster simulator: the judge of what hostcc.schedule decides."""
