"""Agreement without a leader: gossip, membership, one view, one plan (docs/gossip.md)."""
