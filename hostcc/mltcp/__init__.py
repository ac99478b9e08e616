"""MLTCP: parameters, the function F, and the adapters to the kernel and to NICs."""
