"""The gossip core: no I/O, no clock."""
