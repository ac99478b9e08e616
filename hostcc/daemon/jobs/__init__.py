"""The jobs of this host: found, managed, and their sockets."""
