"""DSCP marks, egress queues and rate shares by the level of a plan, and the guard of marks."""
