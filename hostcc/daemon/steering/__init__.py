"""Paths as parts of the agent: finding them, telling the others, moving flows onto them."""
