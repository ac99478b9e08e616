"""Jobs that nobody started with `hostcc run`: found by their cgroups, rules or environment.

`find` decides, from a snapshot, without looking at anything itself; `scan` takes the
snapshot.  docs/discovery.md says who is believed and why.
"""
