"""The scheduler's revision: hosts can agree on plans only if theirs is the same."""

REVISION = 8
"""Revision of the scheduler.

Raise it by one with every change after which the same records can give another view, digest or
plan: in hostcc/schedule, or where hostcc/coord builds views. Not for wording, speed, or a new
option that is off by default. Hosts with different revisions follow plans of their own and say so.
A release with an unchanged revision can be rolled out host by host while all of them agree.
"""
