"""Agreement without a leader: gossip, membership, one view, one plan (docs/internals/gossip.md)."""
