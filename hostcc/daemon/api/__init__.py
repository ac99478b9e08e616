"""The control socket, its typed messages and answers, and metrics."""
