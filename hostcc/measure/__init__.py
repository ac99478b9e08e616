"""From counters of the kernel and the GPU to what each job does in an iteration."""
