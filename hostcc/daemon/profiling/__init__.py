"""Measurement as parts of the agent: what each job does here, kept current while it runs."""
