"""Plans in the agent: which one holds, and what it changes on this host."""
