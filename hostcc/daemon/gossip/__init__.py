"""Gossip as a part of the agent: what this host tells the others, and what it hears of them."""
