"""The configuration: its schema, and loading it from files."""
