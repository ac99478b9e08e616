"""hostcc: host-side congestion and path agent for machine-learning clusters."""
