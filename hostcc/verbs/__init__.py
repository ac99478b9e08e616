"""RDMA: queue pairs on chosen paths and classes, from outside and from inside a job."""
