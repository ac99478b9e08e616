"""The programs that run in the kernel, and the types that they share with Python."""
