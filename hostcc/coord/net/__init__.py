"""Gossip over ZeroMQ: sockets, CURVE, limits."""
