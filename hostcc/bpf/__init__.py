"""BPF: programs, the build that compiles them, and the loader."""
