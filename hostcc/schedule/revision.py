"""Which scheduler this is: hosts agree on plans only where it is the same one."""

REVISION = 1
"""Raise it by one with a change after which the same records can give another view, another digest
or another plan: in hostcc/schedule, or where hostcc/coord makes views.  Not for words, speed, or an
option that is new and off.  Hosts whose revisions differ follow plans of their own and say so; a
release that leaves it alone is brought to one host after the other while all of them agree."""
