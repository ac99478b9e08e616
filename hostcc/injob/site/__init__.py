"""A directory for PYTHONPATH: Python runs its `sitecustomize` at the start of every program."""
