"""Loads the BPF objects of this package through libbpf.so.1; no compiler on the host."""
