"""Scripts for whoever works with the source: set-up, tests, a demonstration, tracing."""
