"""From a ClusterView to a Plan: pure and deterministic, the same result on every host."""
