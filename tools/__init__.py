"""Scripts for development: set-up, tests, a demonstration, tracing."""
