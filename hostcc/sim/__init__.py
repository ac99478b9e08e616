"""Simulators: an event-driven cluster, DCQCN senders, and small cases with known optima."""
