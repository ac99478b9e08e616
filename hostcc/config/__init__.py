"""The agent's configuration: its schema, and loading it from files."""
