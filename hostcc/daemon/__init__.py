"""Everything that runs inside the agent process, and only that."""
