"""Whose turn it is to be profiled, on this host and in the cluster."""
