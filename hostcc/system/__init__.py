"""Thin edges to the operating system."""
