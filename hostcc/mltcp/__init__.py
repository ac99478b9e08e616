"""MLTCP: parameters, the shape of F and the kernel adapter."""
