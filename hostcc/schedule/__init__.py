"""Makes a Plan of a ClusterView: pure and deterministic, the same result on every host."""
