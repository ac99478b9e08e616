"""The work of jobs on GPUs: read by NVML, split between jobs, as FLOP and as activity.

`nvml` is the only file that talks to the driver; `flop`, `peaks` and `shares` compute.
Without a driver there is nothing to read, and nothing here fails because of that.
"""
