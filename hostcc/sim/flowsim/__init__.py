"""Flow-level simulation of periodic jobs, compiled: exact weeks of a cluster in minutes."""
